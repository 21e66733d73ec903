"""Intervals of buckets that several rounds counted: the law by brute force, and their coverage, summed exactly."""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from thresher.privacy.intervals import intervals
from thresher.privacy.recounts import _law, overdispersion, recount_intervals

CONFIDENCE = 0.95
ROUNDS = ((0.2, 0.2), (0.45, 0.45, 0.45), (0.1, 0.07, 0.1, 0.03), (0.9, 0.9), (0.05, 0.05, 0.05))


def total_law(rates: tuple[float, ...], threshold: int, units: int) -> NDArray[np.float64]:
    """Pr[T = t] for t = 0 …, given release in the first round: binomials folded and convolved one by one."""
    law = stats.binom.pmf(np.arange(units + 1), units, rates[0])
    law[:threshold] = 0
    law = law / law.sum()
    for rate in rates[1:]:
        again = stats.binom.pmf(np.arange(units + 1), units, rate)
        again[threshold - 1] += again[: threshold - 1].sum()
        again[: threshold - 1] = 0
        law = np.convolve(law, again)
    return law


def sizes(rate: float, threshold: int) -> list[int]:
    return sorted({max(threshold, int(part * threshold / rate)) for part in (0.3, 0.6, 0.8, 0.9, 1, 1.1, 1.3, 2, 5)})


def coverages(rates: tuple[float, ...], threshold: int, *, conditional: bool = True) -> list[float]:
    """The exact probability, given release in the first round, that the interval of T contains the units."""
    covered = []
    for units in sizes(rates[0], threshold):
        law = total_law(rates, threshold, units)
        totals = np.flatnonzero(law > 1e-15)
        if conditional:
            lower, upper = recount_intervals(rates, threshold, totals, CONFIDENCE)
            assert np.all(lower <= upper)
            assert np.all(np.diff(lower) >= 0)
            assert np.all(np.diff(upper) >= 0)
        else:
            trials = intervals(sum(rates) / len(rates), 0, totals, CONFIDENCE)
            lower, upper = (np.asarray(end) / len(rates) for end in trials)
        inside = (lower <= units) & (units <= upper)
        covered.append(float(law[totals[inside]].sum()))
    return covered


@pytest.mark.slow
@pytest.mark.parametrize("threshold", [1, 2, 19, 60])
@pytest.mark.parametrize("rates", ROUNDS, ids=str)
def test_intervals_cover_given_that_the_first_round_released(rates, threshold):
    assert min(coverages(rates, threshold)) >= CONFIDENCE - 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("rates", ROUNDS[:2], ids=str)
def test_intervals_that_forget_the_threshold_do_not_cover(rates):
    assert min(coverages(rates, 19)) >= CONFIDENCE - 1e-12
    assert min(coverages(rates, 19, conditional=False)) < 0.5


def test_the_law_of_a_total_is_that_of_all_outcomes():
    """Exact rationals over every outcome of three rounds."""
    units, threshold, rates = 6, 3, (Fraction(1, 2), Fraction(1, 4), Fraction(3, 4))
    exact: dict[int, Fraction] = {}
    for counts in itertools.product(range(units + 1), repeat=len(rates)):
        mass = Fraction(1)
        for count, rate in zip(counts, rates, strict=True):
            mass *= comb(units, count) * rate**count * (1 - rate) ** (units - count)
        if counts[0] >= threshold:
            total = counts[0] + sum(max(count, threshold - 1) for count in counts[1:])
            exact[total] = exact.get(total, Fraction(0)) + mass
    released = sum(exact.values())
    law = _law(tuple(map(float, rates)), threshold, units)
    for total in range(units * len(rates) + 2):
        above = sum((mass for value, mass in exact.items() if value >= total), Fraction(0)) / released
        below = sum((mass for value, mass in exact.items() if value <= total), Fraction(0)) / released
        assert float(above) <= law.at_least(total) + 1e-15 <= float(above) + 1e-12
        assert float(below) <= law.at_most(total) + 1e-15 <= float(below) + 1e-12


def test_one_round_has_the_interval_of_its_release():
    counts = np.array([20, 25, 40, 400])
    for one, other in zip(recount_intervals([0.2], 20, counts, 0.9), intervals(0.2, 20, counts, 0.9), strict=True):
        assert one.tolist() == other.tolist()


def test_more_rounds_give_narrower_intervals():
    widths = []
    for rounds in (1, 2, 4, 8):
        lower, upper = recount_intervals([0.2] * rounds, 20, [rounds * 60], CONFIDENCE)
        assert lower[0] < 300 < upper[0]
        widths.append(upper[0] - lower[0])
    assert widths == sorted(widths, reverse=True)
    assert 1.3 < widths[0] / widths[1] < 1.5
    assert 2.6 < widths[0] / widths[3] < 3.1


def test_far_from_the_threshold_the_ends_do_not_jump():
    """The exact law gives way to the binomial one; an end moves with the total there as everywhere."""
    totals = np.arange(200, 1500)
    lower, upper = recount_intervals([0.2] * 3, 20, totals, CONFIDENCE)
    assert 0 <= np.diff(lower).min() <= np.diff(lower).max() <= 3
    assert 0 <= np.diff(upper).min() <= np.diff(upper).max() <= 3


@pytest.mark.slow
@pytest.mark.parametrize("part", [0.4, 0.8])
def test_devices_that_are_missing_in_every_round_are_allowed_for(part):
    """20,000 draws a size. Were the coverage 95 %, fewer than 94 % would be seen in less than one of a billion."""
    random = np.random.default_rng(8)
    coins, threshold, rounds = 0.45, 19, 6
    rates = [coins * part] * rounds
    forgotten = []
    for times in (1, 1.3, 3, 30):
        units = int(times * threshold / rates[0])
        completing = random.binomial(units, part, 100_000)
        counts = np.column_stack([random.binomial(completing, coins) for _ in rates])
        counts = counts[counts[:, 0] >= threshold][:20_000]
        totals = np.maximum(counts, threshold - 1).sum(axis=1)
        lower, upper = recount_intervals(rates, threshold, totals, CONFIDENCE, coins=coins)
        assert np.mean((lower <= units) & (units <= upper)) > 0.94
        lower, upper = recount_intervals(rates, threshold, totals, CONFIDENCE)
        forgotten.append(np.mean((lower <= units) & (units <= upper)))
    assert min(forgotten) < 0.93


def test_overdispersion_is_one_where_everybody_completes():
    assert overdispersion([0.2, 0.2, 0.2], 0.2) == pytest.approx(1)
    # Two rounds of half the devices: each count has the variance p/2·(1 − p/2), both have p²/4 in common.
    assert overdispersion([0.1, 0.1], 0.2) == pytest.approx(1 + 0.04 * 0.25 / (0.1 * 0.9))
