"""Intervals of released counts: three witnesses for their ends, and their coverage, summed exactly over a grid."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

import thresher as th
from thresher.mechanism import Release, Response
from thresher.privacy.conditional import conditional_at_most, conditional_reach
from thresher.privacy.intervals import ends, intervals
from thresher.protocol.rates import share

THRESHOLDS = (1, 2, 5, 20, 50, 100, 300, 1_000, 3_000, 10_000)
RATES = (0.001, 0.02, 0.08, 0.31, 0.5, 0.9, 0.9957616524770856, 1 - 2**-20)
COMPLETED = (1.0, 0.9, 0.3)
CONFIDENCE = 0.95


def law_given_release(rate: float, threshold: int, units: int, widest: int) -> NDArray[np.float64]:
    """Pr[X = τ + i | X ≥ τ] for i = 0 … widest, X ~ Bin(units, rate): by the quotients of neighbours, in logarithms."""
    sampled = np.arange(threshold, min(units, threshold + widest))
    steps = np.log((units - sampled) / (sampled + 1.0)) + np.log(rate) - np.log1p(-rate)
    logs = np.concatenate([[0.0], np.cumsum(steps)])
    mass = np.exp(logs - logs.max())
    assert len(mass) == units - threshold + 1 or mass[-1] < 1e-14 * mass.max()  # what is cut off is negligible
    return mass / mass.sum()


def sizes(rate: float, threshold: int) -> list[int]:
    """Numbers of units from the threshold, where release is next to impossible, to where it is certain."""
    center, spread = threshold / rate, np.sqrt(threshold * (1 - rate)) / rate
    near = center + spread * np.array([-12, -6, -3, -2, -1, -0.5, 0, 0.5, 1, 2, 3, 5, 8])
    rare = threshold + (center - threshold) * np.array([0, 0.01, 0.03, 0.1, 0.3, 0.6, 0.8])
    few = threshold + np.arange(4)
    return sorted({int(size) for size in (*near, *rare, *few) if size >= threshold})


def coverages(rate: float, threshold: int, *, conditional: bool = True) -> Iterator[tuple[int, float]]:
    """The exact probability, given release, that the interval of the count of a bucket contains its units."""
    most = sizes(rate, threshold)[-1]
    widest = int(most * rate - threshold + 9 * np.sqrt(most * rate) + 40)
    counts = np.arange(threshold, threshold + widest + 1)
    lower, upper = intervals(rate, threshold if conditional else 0, counts, CONFIDENCE)
    assert np.all(lower <= upper)
    assert np.all(np.diff(lower) >= 0)
    assert np.all(np.diff(upper) >= 0)
    for units in sizes(rate, threshold):
        mass = law_given_release(rate, threshold, units, widest)
        inside = (lower[: len(mass)] <= units) & (units <= upper[: len(mass)])
        yield units, float(mass[inside].sum())


def too_low(rates: tuple[float, ...], thresholds: tuple[int, ...], **how: bool) -> list[tuple[float, ...]]:
    return [
        (rate * completed, threshold, units, covered)
        for rate, threshold, completed in itertools.product(rates, thresholds, COMPLETED)
        for units, covered in coverages(rate * completed, threshold, **how)
        if not covered >= CONFIDENCE - 1e-12
    ]


def test_intervals_cover_on_a_part_of_the_grid():
    assert not too_low((0.08, 0.9957616524770856), (1, 300, 1_000))


@pytest.mark.slow
def test_intervals_cover_on_the_whole_grid():
    assert not too_low(RATES, THRESHOLDS)


def test_coverage_would_find_intervals_that_forget_the_threshold():
    """The negative control."""
    missed = too_low((0.08,), (300,), conditional=False)
    assert min(covered for *_, covered in missed) < 0.01


@pytest.mark.slow
@pytest.mark.parametrize(
    "made",
    [
        {"epsilon": 1, "delta": 1e-6, "threshold": 10_000},
        {"epsilon": 2, "delta": 1e-8, "objective": "sample", "count": 10_000},
    ],
)
def test_the_planners_own_plans_where_not_everybody_completes(made):
    """Rates close to one, and then 90 % of them: Pr[X ≥ τ] underflows for every number of units that is in doubt."""
    rates, plan = share(th.plan(**made))
    response = Response(asked=100_000, contacted=100_000, completed=90_000, rates=rates)
    counts = np.arange(plan.threshold, plan.threshold + 200)
    release = Release.of(counts, counts, plan, private=True, response=response)
    lower, upper = np.array(sorted(release.intervals.tolist())).T
    assert np.all(lower <= upper)
    assert np.all(np.diff(upper) >= 0)
    assert (lower[0], upper[0]) == exact_ends(release.rate, plan.threshold, plan.threshold, 0.025)
    assert all(covered >= CONFIDENCE for _, covered in coverages(release.rate, plan.threshold))


def exact_tails(rate: float, threshold: int, count: int, units: int) -> tuple[Fraction, Fraction]:
    """Pr[X ≥ count | X ≥ τ] and Pr[X ≤ count | X ≥ τ], as rationals."""
    odds = Fraction(rate) / (1 - Fraction(rate))
    weight, total, at_least, at_most = Fraction(1), Fraction(0), Fraction(0), Fraction(0)
    for sampled in range(threshold, units + 1):
        total += weight
        at_least += weight if sampled >= count else 0
        at_most += weight if sampled <= count else 0
        weight *= odds * (units - sampled) / (sampled + 1)
    return at_least / total, at_most / total


def test_ends_are_those_of_exact_rationals():
    for rate, threshold in itertools.product((0.125, 0.375, 0.75, 1 - 2**-10), (1, 2, 7, 12)):
        counts = [threshold, threshold + 1, threshold + 4]
        for tail in (0.025, 0.25):
            lower, upper = ends(rate, threshold, counts, tail)
            for count, low, high in zip(counts, lower.tolist(), upper.tolist(), strict=True):
                assert exact_tails(rate, threshold, count, low)[0] > tail
                assert low == count or exact_tails(rate, threshold, count, low - 1)[0] <= tail
                assert exact_tails(rate, threshold, count, high)[1] > tail
                assert exact_tails(rate, threshold, count, high + 1)[1] <= tail


def precise_reach(rate: float, threshold: int, count: int, units: int) -> mpmath.mpf:
    """Pr[X ≥ count | X ≥ τ] with 40 digits: the sum of the quotients of neighbouring point probabilities."""
    odds = mpmath.mpf(rate) / (1 - mpmath.mpf(rate))
    weight, total, part = mpmath.mpf(1), mpmath.mpf(0), mpmath.mpf(0)
    for sampled in itertools.count(threshold):
        total += weight
        part += weight if sampled >= count else 0
        weight *= odds * (units - sampled) / (sampled + 1)
        if sampled >= count and sampled > units * rate and weight <= part * mpmath.mpf(10) ** -35:
            return part / total
    raise AssertionError


def exact_ends(rate: float, threshold: int, count: int, tail: float) -> tuple[int, int]:
    """Both ends by bisection with 40 digits."""

    def first(test) -> int:
        low, high = count - 1, count
        while not test(high):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if test(middle) else (middle, high)
        return high

    with mpmath.workdps(40):
        limit = mpmath.mpf(tail)
        return (
            first(lambda units: precise_reach(rate, threshold, count, units) > limit),
            first(lambda units: 1 - precise_reach(rate, threshold, count + 1, units) <= limit) - 1,
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "threshold", "more"),
    [
        (0.08, 300, 0),  # the upper end was the count itself
        (0.08, 300, 1),
        (0.08, 300, 7),
        (0.8961854872293771, 1_000, 0),
        (0.9, 2_000, 3),
        (1e-6, 40, 0),
        (3e-9, 12, 5),
        (1 - 2**-30, 500, 2),
        (0.5, 1, 0),
        (0.02, 1_500, 2),
    ],
)
def test_ends_are_those_of_forty_digits(rate, threshold, more):
    count = threshold + more
    for tail in (0.025, 1e-7):
        lower, upper = (int(end[0]) for end in ends(rate, threshold, [count], tail))
        low, high = exact_ends(rate, threshold, count, tail)
        rounding = high // 10**9  # outward, and only where ends have more than nine digits
        assert low - rounding <= lower <= low
        assert high <= upper <= high + rounding


ROUNDED, TIGHT, TINY = 1e-15, 1e-9, 1e-100  # the last of a float, what is promised, and less than any tail in use


@settings(max_examples=40, deadline=None)
@given(
    st.floats(1e-9, 1, exclude_max=True),
    st.integers(1, 500),
    st.integers(0, 60),
    st.floats(0, 1.2),
)
@example(3.953412368119054e-07, 17, 0, 1.0)
def test_conditional_tails_are_upper_bounds_to_nine_digits(rate, threshold, more, part):
    count = threshold + more
    units = count + int(part * (count / rate - count))
    with mpmath.workdps(40):
        at_least = precise_reach(rate, threshold, count, units)
        at_most = 1 - precise_reach(rate, threshold, count + 1, units)
        found = mpmath.mpf(conditional_reach([units], [count], threshold, rate)[0])
        assert at_least * (1 - ROUNDED) - TINY <= found <= at_least * (1 + TIGHT) + TINY
        found = mpmath.mpf(conditional_at_most([units], [count], threshold, rate)[0])
        assert at_most * (1 - ROUNDED) <= found <= at_most * (1 + TIGHT) + TIGHT


@settings(max_examples=80, deadline=None)
@given(
    st.floats(2**-64, 1),
    st.integers(1, 10**7),
    st.lists(st.integers(0, 10**9), min_size=1, max_size=8),
    st.floats(0.01, 0.999999),
)
@pytest.mark.slow
@example(0.9, 300, [0, 1, 5], 0.95)
@example(2**-64, 10**7, [0, 10**9], 0.95)
@example(1 - 2**-53, 10**7, [0, 1, 10**9], 0.95)
def test_ends_are_ordered_for_any_rate_threshold_and_count(rate, threshold, more, confidence):
    counts = threshold + np.sort(more)
    lower, upper = intervals(rate, threshold, counts, confidence)
    assert np.all(counts[lower < 2**62] <= lower[lower < 2**62])
    assert np.all(lower <= upper)
    assert np.all(np.diff(lower) >= 0)
    assert np.all(np.diff(upper) >= 0)
    wider_lower, wider_upper = intervals(rate, threshold, counts, (1 + confidence) / 2)
    assert np.all((wider_lower <= lower) & (upper <= wider_upper))


@pytest.mark.slow
@pytest.mark.parametrize("share", [1.0, 0.5, 0.1])
@pytest.mark.parametrize("completed", [0.9, 0.2])
def test_intervals_cover_given_how_many_completed(completed, share):
    """Given their number, those who complete are a sample without replacement: narrower than the binomial law."""
    for threshold, kept in itertools.product((5, 20, 100), (0.1, 0.7)):
        rate = kept * completed
        counts = np.arange(threshold, threshold + 30 * int(threshold**0.5) + 60)
        lower, upper = intervals(rate, threshold, counts, CONFIDENCE)
        for units in sizes(rate, threshold)[::3]:
            asked = int(units / share)
            completions = round(asked * completed)
            holders = np.arange(max(0, completions - asked + units), min(units, completions) + 1)
            logs = stats.hypergeom.logpmf(holders, asked, units, completions)
            likely = logs > logs.max() - 100
            logs = logs[likely, None] + stats.binom.logpmf(counts, holders[likely, None], kept)
            mass = np.exp(logs - logs.max()).sum(axis=0) if np.isfinite(logs.max()) else np.zeros(len(counts))
            inside = (lower <= units) & (units <= upper)
            assert mass[inside].sum() >= CONFIDENCE * mass.sum(), (threshold, kept, units)
