"""The interval of all released buckets together: coverage by brute force over all compositions, and by simulation."""

from __future__ import annotations

import functools
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from thresher.privacy.intervals import ends, intervals
from thresher.privacy.totals import total_interval

CONFIDENCE = 0.95
TAIL = 0.025
ALPHA = 1e-9  # false alarm per check

Interval = tuple[int, int]


@functools.cache
def interval(rate: float, threshold: int, counts: tuple[int, ...]) -> Interval:
    return total_interval(rate, threshold, counts, CONFIDENCE)


def unconditional(rate: float, threshold: int, counts: tuple[int, ...]) -> Interval:
    """What somebody might do who forgets that only lucky buckets are seen. A control: it must fail."""
    (lower,), (upper,) = ends(rate, 0, [sum(counts)], TAIL)
    return int(lower), int(upper)


def law(rate: Fraction, threshold: int, units: int) -> dict[int, Fraction]:
    """Pr[X = v | X ≥ τ] in exact rationals."""
    mass = {v: math.comb(units, v) * rate**v * (1 - rate) ** (units - v) for v in range(threshold, units + 1)}
    whole = sum(mass.values())
    return {v: part / whole for v, part in mass.items()}


def misses(rate: Fraction, threshold: int, units: tuple[int, ...], by=interval) -> tuple[Fraction, Fraction]:
    """How often the total lies below the lower end, and above the upper one, given that all these are released."""
    below, above = Fraction(0), Fraction(0)
    laws = [law(rate, threshold, each).items() for each in units]
    for drawn in itertools.product(*laws):
        lower, upper = by(float(rate), threshold, tuple(sorted(v for v, _ in drawn)))
        probability = math.prod(part for _, part in drawn)
        below += probability * (sum(units) < lower)
        above += probability * (sum(units) > upper)
    return below, above


def compositions(threshold: int, buckets: int, most: int) -> list[tuple[int, ...]]:
    return list(itertools.combinations_with_replacement(range(threshold, most + 1), buckets))


@pytest.mark.parametrize(
    ("rate", "threshold", "buckets", "most"),
    [(Fraction(1, 2), 2, 2, 9), (Fraction(1, 4), 3, 2, 9), (Fraction(3, 4), 1, 3, 5), (Fraction(1, 8), 2, 1, 24)],
)
def test_each_end_is_wrong_no_more_often_than_its_tail_in_exact_rationals(rate, threshold, buckets, most):
    for units in compositions(threshold, buckets, most):
        below, above = misses(rate, threshold, units)
        assert below <= Fraction(TAIL), units
        assert above <= Fraction(TAIL), units


def test_a_binomial_that_ignores_the_threshold_is_wrong_too_often():
    worst = max(misses(Fraction(1, 8), 2, units, unconditional)[0] for units in compositions(2, 1, 24))
    assert worst > Fraction(TAIL)


def floats_law(rate: float, threshold: int, units: int) -> NDArray[np.float64]:
    mass = stats.binom.pmf(np.arange(units + 1), units, rate)
    mass[:threshold] = 0
    return mass / mass.sum()


@pytest.mark.slow
def test_pairs_of_buckets_on_both_sides_of_where_release_is_sure_are_covered():
    """Every pair out of a range of sizes: with τ = 2 and p = 1/2 release is as good as sure from 40 units on."""
    sizes = [2, 3, 4, 6, 9, 14, 20, 30, 36, 40, 44, 50, 60, 90]
    for one, other in itertools.combinations_with_replacement(sizes, 2):
        joint = np.outer(floats_law(0.5, 2, one), floats_law(0.5, 2, other))
        below = above = 0.0
        for v, w in zip(*np.nonzero(joint > 1e-14), strict=True):
            lower, upper = interval(0.5, 2, tuple(sorted((int(v), int(w)))))
            below += joint[v, w] * (one + other < lower)
            above += joint[v, w] * (one + other > upper)
        assert max(below, above) <= TAIL + 1e-9, (one, other)


def test_large_buckets_have_nearly_the_interval_of_one_binomial():
    counts = [3_000, 500, 20_000, 180]
    lower, upper = total_interval(0.3, 25, counts, CONFIDENCE)
    (least,), (most,) = ends(0.3, 0, [sum(counts)], TAIL)
    assert upper == most
    assert least - 0.02 * (most - least) <= lower <= least


def test_a_total_is_known_better_than_the_sum_of_its_parts():
    counts = [400] * 50
    lower, upper = total_interval(0.3, 25, counts, CONFIDENCE)
    each_lower, each_upper = intervals(0.3, 25, counts, CONFIDENCE)
    assert int(each_lower.sum()) < lower < upper < int(each_upper.sum())


def test_ends_stay_in_order_at_the_edges():
    assert total_interval(0.3, 25, [], CONFIDENCE) == (0, 0)
    assert total_interval(1.0, 25, [25, 70], CONFIDENCE) == (95, 95)
    for threshold, rate in itertools.product((1, 2, 25, 1_000), (0.001, 0.3, 0.9, 1 - 2**-20)):
        for buckets in (1, 7, 3_000):
            lower, upper = total_interval(rate, threshold, [threshold] * buckets, CONFIDENCE)
            assert threshold * buckets <= lower <= upper
            assert lower <= threshold * buckets / rate <= upper + 1


def covered(sizes: NDArray[np.int64], by, *, runs: int = 2_000) -> int:
    """In how many runs the interval contains the units of all buckets that were released in that run."""
    random, rate, threshold, inside = np.random.default_rng(5), 0.1, 10, 0
    for _ in range(runs):
        sampled = random.binomial(sizes, rate)
        released = sampled >= threshold
        lower, upper = by(rate, threshold, tuple(sampled[released].tolist()))
        inside += lower <= int(sizes[released].sum()) <= upper
    return inside


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [np.full(300, 40), np.array([20_000 // rank for rank in range(1, 600)])])
def test_intervals_hold_for_many_buckets_near_the_threshold(sizes):
    runs = 2_000
    assert stats.binom.cdf(covered(sizes, interval, runs=runs), runs, CONFIDENCE) > ALPHA
    assert stats.binom.cdf(covered(sizes, unconditional, runs=runs), runs, CONFIDENCE) < ALPHA  # the test can fail
