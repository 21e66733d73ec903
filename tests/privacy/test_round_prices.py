"""The cells of a policy's table: upper bounds for everything that is read as them, and no more than they need to be."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thresher as th
from thresher.privacy.budget import Budget
from thresher.privacy.round_prices import THRESHOLDS, Bounds, foreign_cost, limit, prices, whole_rate
from thresher.privacy.whole_numbers import BEYOND, ONE, PERIOD

USUAL = Bounds(4.0, 1e-5, 20.0, 1e-4)
TIGHT = Bounds(1.0, 1e-8, 0.5, 1e-6)


def share(bounds: Bounds, rate: int, threshold: int) -> Fraction:
    """The larger part of the filter's two sums that one round takes, exactly as a ledger would be charged."""
    filter = Budget.make(bounds.period_epsilon, bounds.period_delta).filter
    cost = filter.round_cost(rate / ONE, threshold, "replace", bounds.period_epsilon)
    room = Fraction(filter.room(bounds.period_epsilon))
    return max(Fraction(cost.renyi) / room, Fraction(cost.bad) / Fraction(filter.delta_atom))


@pytest.mark.slow
@pytest.mark.parametrize("bounds", [USUAL, TIGHT])
@pytest.mark.parametrize(("rounds", "threshold"), [(1, 5), (1, 20), (3, 12), (10, 40)])
def test_a_limit_is_the_largest_rate_within_the_bounds(bounds, rounds, threshold):
    found = limit(bounds, rounds, threshold)
    within = [
        [
            th.privacy.delta(sampling_rate=rate / ONE, threshold=threshold, epsilon=epsilon, rounds=rounds) <= delta
            for epsilon, delta in bounds.targets
        ]
        for rate in (found, found + 1)
    ]
    assert all(within[0])
    assert not all(within[1])


@pytest.mark.slow
def test_bounds_of_a_period_count_where_they_are_the_tighter_ones():
    assert USUAL.targets == ((4.0, 1e-5),)
    assert len(TIGHT.targets) == len(Bounds(1.0, 1e-8, 2.0, 1e-9).targets) == 2
    for rounds, threshold in ((1, 20), (3, 12)):
        alone = Bounds(TIGHT.max_epsilon, TIGHT.max_delta, 1e3, 0.5), Bounds(0.5, 1e-6, 1e3, 0.5)
        assert limit(TIGHT, rounds, threshold) == min(limit(each, rounds, threshold) for each in alone)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "delta", "rounds"), [(1.0, 1e-8, 1), (0.3, 1e-9, 1), (2.0, 1e-6, 3), (1.0, 1e-8, 10)]
)
def test_the_best_plan_for_the_bounds_is_within_them(epsilon, delta, rounds):
    """A policy that says what a fleet asks for allows it, to the last bit."""
    plan = th.plan(epsilon, delta, rounds=rounds)
    assert whole_rate(plan.sampling_rate) - 1 <= limit(Bounds(epsilon, delta, 20.0, 1e-4), rounds, plan.threshold)
    assert math.floor(plan.exact_rate * ONE) <= limit(Bounds(epsilon, delta, epsilon, delta), rounds, plan.threshold)


def test_no_limit_where_no_rate_is_within_the_bounds():
    assert limit(Bounds(1e-3, 1e-300, 1.0, 1e-4), 1, 1) == 0
    assert prices(Bounds(1e-3, 1e-300, 1.0, 1e-4), 1).rates == ()


@pytest.mark.slow
@pytest.mark.parametrize("bounds", [USUAL, TIGHT, Bounds(50.0, 0.01, 1e4, 0.5)])
@pytest.mark.parametrize("threshold", [5, 12, 24, 128])
def test_prices_are_upper_bounds_and_close(bounds, threshold):
    found = prices(bounds, threshold)
    assert list(found.rates) == sorted(set(found.rates))
    assert list(found.costs) == sorted(found.costs)
    assert found.rates[-1] == limit(bounds, 1, threshold)
    for rate, cost in zip(found.rates, found.costs, strict=True):
        exact = share(bounds, rate, threshold) * PERIOD
        assert exact <= cost or cost == BEYOND
        assert cost <= max(exact * Fraction(102, 100), 1) or (cost == BEYOND and exact > PERIOD * Fraction(99, 100))
    affordable = [cost for cost in found.costs if 20_000 < cost <= PERIOD]
    assert all(2 * after <= 5 * before for before, after in pairwise(affordable))


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(
    st.sampled_from([USUAL, TIGHT]),
    st.sampled_from(THRESHOLDS[4:]),
    st.integers(0, 60),
    st.floats(0.0, 1.0),
)
def test_larger_thresholds_and_smaller_rates_cost_no_more_than_their_cell(bounds, threshold, more, part):
    """As docs/privacy.md, section 7, proves it: rounding the threshold down and the rate up is an upper bound."""
    found = prices(bounds, threshold)
    rate = max(int(part * found.rates[-1]), 1 << 20)
    cost = next(cost for each, cost in zip(found.rates, found.costs, strict=True) if each >= rate)
    assert share(bounds, rate, threshold + more) * PERIOD <= cost or cost == BEYOND
    assert limit(bounds, 1, threshold) <= limit(bounds, 1, threshold + more)


def test_what_is_only_known_by_its_total():
    assert 0 < foreign_cost(USUAL, 0.1, 1e-9) < foreign_cost(USUAL, 1.0, 1e-8) < PERIOD // 10
    assert foreign_cost(USUAL, 1.0, 1e-3) == BEYOND


def test_rates_as_whole_numbers_are_rounded_up():
    assert whole_rate(1.0) == ONE
    assert whole_rate(2.0**-32) == 1
    assert whole_rate(math.nextafter(2.0**-32, 1)) == 2
