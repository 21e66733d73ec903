"""What will be seen: exact probabilities, errors, and intervals that hold given that a bucket was released."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import thresher as th
from thresher.errors import InvalidSetting
from thresher.privacy import visibility
from thresher.privacy.binomial import miss, reach

PLAN = th.plan(epsilon=1.0, delta=1e-8)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 100_000))
def test_sees_is_the_binomial_tail(count):
    expected = stats.binom.sf(PLAN.threshold - 1, count, PLAN.sampling_rate)
    assert PLAN.sees(count) == pytest.approx(expected, rel=1e-9, abs=1e-300)


def test_sees_takes_arrays_and_is_zero_below_the_threshold():
    counts = np.array([0, 1, PLAN.threshold - 1, PLAN.threshold, 10_000])
    seen = PLAN.sees(counts)
    assert list(seen[:3]) == [0, 0, 0]
    assert seen[3] == pytest.approx(PLAN.sampling_rate**PLAN.threshold, rel=1e-9)
    assert seen[4] == pytest.approx(1.0)
    with pytest.raises(InvalidSetting):
        PLAN.sees(-1)
    with pytest.raises(InvalidSetting):
        PLAN.sees(["a"])


@settings(max_examples=40, deadline=None)
@given(st.floats(0.001, 0.999))
def test_smallest_visible_is_the_first_that_is_seen_often_enough(probability):
    size = PLAN.smallest_visible(probability)
    assert PLAN.sees(size) >= probability
    assert PLAN.sees(size - 1) < probability


@pytest.mark.parametrize("count", [30, 80, 106, 300, 5_000])
def test_relative_error_is_the_mean_over_all_outcomes(count):
    sampled = np.arange(count + 1)
    mass = stats.binom.pmf(sampled, count, PLAN.sampling_rate)
    estimate = np.where(sampled >= PLAN.threshold, sampled / PLAN.sampling_rate, 0.0)
    expected = math.sqrt(float((mass * (estimate - count) ** 2).sum())) / count
    assert PLAN.relative_error(count) == pytest.approx(expected, rel=1e-7)


def coverage(plan: th.Plan, count: int, confidence: float, *, naive: bool = False) -> float:
    """Exact probability, given release, that the interval contains the truth."""
    sampled = np.arange(plan.threshold, count + 1)
    mass = stats.binom.pmf(sampled, count, plan.sampling_rate)
    if naive:
        lower, upper = naive_intervals(plan, sampled, confidence)
    else:
        lower, upper = plan.intervals(sampled, confidence)
    inside = (lower <= count) & (count <= upper)
    return float(mass[inside].sum() / mass.sum())


def naive_intervals(plan: th.Plan, sampled: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """What one would do without thinking of the threshold: count/p ± z·sqrt(count(1−p))/p."""
    z = stats.norm.ppf(0.5 + confidence / 2)
    spread = z * np.sqrt(sampled * (1 - plan.sampling_rate)) / plan.sampling_rate
    return sampled / plan.sampling_rate - spread, sampled / plan.sampling_rate + spread


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.999])
@pytest.mark.parametrize("count", [25, 26, 30, 50, 70, 82, 100, 150, 1_000, 3_000])
def test_intervals_cover_given_release(count, confidence):
    assert coverage(PLAN, count, confidence) >= confidence


def test_the_naive_interval_is_wrong_near_the_threshold():
    """The negative control: without conditioning on release, small buckets are covered far too rarely."""
    assert coverage(PLAN, 40, 0.95, naive=True) < 0.2
    assert coverage(PLAN, 40, 0.95) >= 0.95


@settings(max_examples=40, deadline=None)
@given(st.floats(0.01, 0.99), st.integers(1, 60), st.integers(0, 400), st.sampled_from([0.8, 0.95]))
def test_intervals_cover_for_any_plan(rate, threshold, more, confidence):
    plan = th.Plan(th.privacy.settings.dyadic(rate), threshold, 100.0, 0.999999, "add-remove")
    assert coverage(plan, threshold + more, confidence) >= confidence - 1e-12


@settings(max_examples=40, deadline=None)
@given(st.integers(PLAN.threshold, 10**7))
def test_intervals_are_ordered_and_contain_what_is_certain(sampled):
    lower, upper = PLAN.interval(sampled)
    assert sampled <= lower + (0 if sampled > PLAN.threshold else sampled)
    assert lower <= sampled / PLAN.sampling_rate + 1
    assert upper >= sampled
    wider_low, wider_high = PLAN.interval(sampled, confidence=0.999)
    assert wider_low <= lower <= upper <= wider_high


def test_interval_at_the_threshold_starts_there():
    assert PLAN.interval(PLAN.threshold)[0] == PLAN.threshold
    with pytest.raises(InvalidSetting, match="below the threshold"):
        PLAN.interval(PLAN.threshold - 1)
    with pytest.raises(InvalidSetting, match="below the threshold"):
        PLAN.intervals([PLAN.threshold, PLAN.threshold - 1])
    assert [len(ends) for ends in PLAN.intervals([])] == [0, 0]
    with pytest.raises(InvalidSetting):
        PLAN.interval(100, confidence=1.0)


@pytest.mark.timeout(60)
def test_an_interval_beyond_what_floats_count_one_by_one():
    """Above 2^53 no float lies between two neighbours, and the search has to end there."""
    plan = th.Plan(2.0**-40, 20, 100.0, 0.99, "add-remove")
    lower, upper = plan.interval(100_000)
    assert lower < 100_000 * 2**40 < upper
    width = 2 * 1.96 * math.sqrt(100_000) * 2**40
    assert upper - lower == pytest.approx(width, rel=0.01)


def test_large_counts_have_the_textbook_width():
    lower, upper = PLAN.interval(1_000_000)
    width = 2 * 1.96 * math.sqrt(1_000_000 * (1 - PLAN.sampling_rate)) / PLAN.sampling_rate
    assert upper - lower == pytest.approx(width, rel=0.01)


@pytest.mark.parametrize(("epsilon", "shown"), [(0.001, "1.01"), (1.0, "2.72"), (2.0, "7.39"), (5.0, "148.42")])
def test_the_factor_in_words_is_rounded_up(epsilon, shown):
    assert f"a factor of {shown} (" in th.Guarantee(epsilon, 1e-8, "replace").in_words()
    assert float(shown) >= math.exp(epsilon)


def precise_tails(rate: float, threshold: int, count: int) -> tuple[mpmath.mpf, mpmath.mpf]:
    """Pr[X ≥ τ] and Pr[X < τ] with 40 digits: the smaller one as a sum of falling terms."""
    p, k = mpmath.mpf(rate), mpmath.mpf(count)
    point = mpmath.binomial(k, threshold) * p**threshold * (1 - p) ** (k - threshold)
    term, total, sampled = point, mpmath.mpf(0), threshold
    if count * rate < threshold:
        while term > total * mpmath.mpf(10) ** -35:
            total += term
            term *= (k - sampled) / (sampled + 1) * p / (1 - p)
            sampled += 1
        return total, 1 - total
    while sampled > 0 and term > total * mpmath.mpf(10) ** -35:
        term *= sampled / (k - sampled + 1) * (1 - p) / p
        total += term
        sampled -= 1
    return 1 - total, total


EXTREMES = [
    (rate, threshold, factor)
    for rate in (3.7e-9, 4.0e-7, 2.6e-5, 0.003, 0.4, 1 - 2.0**-20)
    for threshold in (2, 17, 60, 1_000)
    for factor in (0.3, 0.8, 1.0, 1.4)
]


def test_both_tails_keep_ten_digits_for_extreme_rates():
    """The incomplete beta function of a small rate works with 1 − rate, and alone had seven digits here."""
    for rate, threshold, factor in EXTREMES:
        count = max(threshold, int(threshold / rate * factor))
        with mpmath.workdps(40):
            released, dropped = precise_tails(rate, threshold, count)
        for found, exact in ((reach(count, threshold, rate), released), (miss(count, threshold, rate), dropped)):
            if exact > 1e-290:
                assert abs(float(found) / exact - 1) < 1e-10, (rate, threshold, count)


@pytest.mark.parametrize("probability", [1e-12, 0.5, 0.95, 1 - 1e-12, 1 - 2**-53])
def test_smallest_visible_is_exact_for_extreme_probabilities(probability):
    for rate, threshold in [(0.3, 18), (0.9957616524770856, 1_000), (2.6e-5, 17)]:
        size = visibility.smallest_visible(rate, threshold, probability)
        with mpmath.workdps(40):
            assert precise_tails(rate, threshold, size)[1] <= (1 - mpmath.mpf(probability)) * (1 + 1e-10)
            assert precise_tails(rate, threshold, size - 1)[1] > (1 - mpmath.mpf(probability)) * (1 - 1e-10)


@pytest.mark.parametrize(("rate", "count"), [(0.3, 10**15), (1 - 2.0**-30, 10**6), (1 - 2.0**-45, 10**4)])
def test_relative_error_of_what_is_always_released_is_that_of_the_sample(rate, count):
    """As a difference of moments it had no digit left: k² times the last digit is more than k(1−p)/p."""
    expected = math.sqrt((1 - rate) / (rate * count))
    assert visibility.relative_error(rate, 20, count) == pytest.approx(expected, rel=1e-6)
