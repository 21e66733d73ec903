"""One total guarantee for many equal releases, and what each of them guarantees by itself."""

from __future__ import annotations

import pytest

from thresher import privacy
from thresher.errors import InvalidSetting, Unreachable
from thresher.privacy import plan
from thresher.privacy.series import one_release, plan_series, repeat_plan


@pytest.mark.slow
@pytest.mark.parametrize(("releases", "rounds"), [(1, 1), (4, 1), (52, 1), (12, 3)])
def test_all_releases_together_are_planned_as_one_query(releases, rounds):
    found = plan_series(3, 1e-6, releases=releases, rounds=rounds)
    assert found.total == plan(3, 1e-6, rounds=releases * rounds)
    assert found.releases == releases
    release = found.release
    assert (release.sampling_rate, release.threshold) == (found.total.sampling_rate, found.total.threshold)
    assert (release.rounds, release.delta) == (rounds, 1e-6 / releases)
    assert release.epsilon <= 3
    release.verify()
    # It is the smallest epsilon that holds.
    reached = privacy.delta(
        sampling_rate=release.sampling_rate, threshold=release.threshold, epsilon=0.99 * release.epsilon, rounds=rounds
    )
    assert reached > release.delta


@pytest.mark.slow
def test_a_year_of_weeks_sees_small_buckets():
    """PRIVACY section 7: 100 where splitting the budget would see 1,128."""
    assert plan_series(3, 1e-6, releases=52).total.smallest_visible() <= 100
    assert plan(3 / 52, 1e-6 / 52).smallest_visible() > 1_000


@pytest.mark.slow
def test_a_small_epsilon_over_many_releases():
    """No threshold nearby sees smaller buckets."""
    total = plan_series(0.01, 1e-10, releases=100).total
    assert total.smallest_visible() <= 41_000
    assert plan(0.01, 1e-10, rounds=100, threshold=17).smallest_visible() > 44_000
    assert total.guarantee.delta <= 1e-10


@pytest.mark.slow
def test_a_plan_for_one_release_repeated():
    release = plan(0.5, 1e-8)
    found = repeat_plan(release, 52)
    assert found.release == release
    assert found.total.delta == pytest.approx(52e-8)
    assert 0.5 < found.total.epsilon < 52 * 0.5
    found.total.verify()
    stricter = repeat_plan(release, 52, 1e-7)
    assert stricter.total.delta == 1e-7
    assert stricter.total.epsilon > found.total.epsilon


@pytest.mark.slow
def test_a_release_that_alone_costs_nothing_states_a_small_epsilon():
    total = plan(100, 0.5, sampling_rate=1e-6, threshold=30, rounds=10)
    assert one_release(total, 10).epsilon == 1e-4
    one_release(total, 10).verify()


def test_where_no_epsilon_fits_the_share_of_delta_a_release_states_the_total():
    whole = 0.5**10  # the probability that a bucket of exactly 10 units is sampled whole
    total = privacy.Plan(0.5, 10, 50.0, 2 * whole - whole**2 / 2, rounds=2)
    release = one_release(total, 2)
    assert release.delta / 2 < whole < release.delta == total.delta
    assert release == privacy.Plan(0.5, 10, 50.0, total.delta)
    release.verify()


def test_too_many_rounds_and_totals_out_of_reach():
    with pytest.raises(InvalidSetting, match="releases times 10 rounds"):
        plan_series(1, 1e-6, releases=1001, rounds=10)
    with pytest.raises(InvalidSetting, match="releases"):
        plan_series(1, 1e-6, releases=0)
    with pytest.raises(Unreachable):
        repeat_plan(plan(1, 1e-3), 1000, 1e-30)
