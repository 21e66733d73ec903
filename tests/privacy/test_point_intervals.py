"""Bounds from counts at points: exact references, the worst of what is hidden, and coverage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.special import betaincinv

from thresher.privacy.point_intervals import mean_bounds, mean_range, sum_bounds


@pytest.mark.parametrize("units", [30, 1_000, 443_668, 10**8])
@pytest.mark.parametrize("share", [0.5, 0.1, 0.003])
@pytest.mark.parametrize("tail", [0.025, 1e-5])
def test_two_points_give_clopper_and_pearson(units: int, share: float, tail: float) -> None:
    at_top = int(units * share)
    low, high = mean_bounds([0, 1], [units - at_top, at_top], [0, 0], tail)
    exact = [
        betaincinv(at_top, units - at_top + 1, tail) if at_top else 0.0,
        betaincinv(at_top + 1, units - at_top, 1 - tail),
    ]
    # 1.1 % of the half width at a count of 0, on the safe side; below 0.4 % from a count of 1 on.
    slack = 0.011 * (exact[1] - exact[0]) / 2
    assert low == pytest.approx(exact[0], abs=slack)
    assert high == pytest.approx(exact[1], abs=slack)


@pytest.mark.slow
def test_several_points_agree_with_simulated_weights() -> None:
    points, counts = np.array([0, 1, 2, 5, 10.0]), np.array([100, 50, 30, 25, 20])
    source, draws = np.random.default_rng(5), 200_000
    low, high = mean_bounds(points, counts, np.zeros(5), 0.025)
    for bound, place, part in ((low, 0, 0.025), (high, 4, 0.975)):
        more = counts + (np.arange(5) == place)
        assert np.mean(source.dirichlet(more, draws) @ points < bound) == pytest.approx(part, abs=0.003)
    low, high = sum_bounds(points - 4, counts, np.zeros(5), 0.025)
    for bound, place, part in ((low, 0, 0.025), (high, 4, 0.975)):
        more = counts + (np.arange(5) == place)
        assert np.mean(source.gamma(more, size=(draws, 5)) @ (points - 4) < bound) == pytest.approx(part, abs=0.003)


def test_a_sum_of_one_sign_has_a_bound_of_that_sign() -> None:
    assert sum_bounds([1, 2], [0, 0], [0, 0], 0.025)[0] == 0
    assert sum_bounds([-2, -1], [0, 0], [0, 0], 0.025)[1] == 0
    low, high = sum_bounds([0, 3], [10, 40], [0, 0], 0.025)
    assert low == pytest.approx(3 * stats.gamma.ppf(0.025, 40), rel=1e-3)
    assert high == pytest.approx(3 * stats.gamma.ppf(0.975, 41), rel=1e-3)


def fillings(hidden: list[int]) -> Iterator[NDArray[np.int64]]:
    for each in product(*(range(most + 1) for most in hidden)):
        yield np.array(each)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("counts", "hidden"), [([0, 30, 0, 0], [4, 0, 4, 4]), ([0, 0, 60, 7], [4, 4, 0, 0]), ([9, 0, 0, 0], [0, 4, 4, 4])]
)
def test_bounds_are_the_worst_of_all_that_may_be_hidden(counts: list[int], hidden: list[int]) -> None:
    points = [0.0, 1.0, 3.0, 10.0]
    low, high = mean_bounds(points, counts, hidden, 0.025)
    nothing = [0] * 4
    every = [mean_bounds(points, counts + filling, nothing, 0.025) for filling in fillings(hidden)]
    assert low == pytest.approx(min(each[0] for each in every), abs=1e-9)
    assert high == pytest.approx(max(each[1] for each in every), abs=1e-9)
    means = [float(np.dot(points, counts + filling) / (counts + filling).sum()) for filling in fillings(hidden)]
    assert mean_range(points, counts, hidden) == pytest.approx((min(means), max(means)))
    sums = [sum_bounds(points, counts + filling, nothing, 0.025) for filling in fillings(hidden)]
    found = sum_bounds(points, counts, hidden, 0.025)
    assert found == pytest.approx((min(each[0] for each in sums), max(each[1] for each in sums)), abs=1e-6)


def test_without_units_the_mean_may_be_anywhere() -> None:
    assert mean_bounds([2, 3, 5], [0, 0, 0], [19, 19, 19], 0.025) == (2.0, 5.0)


def test_the_bound_for_hidden_units_is_no_wider_than_the_plain_one() -> None:
    """(hi − lo)·k(τ−1) / (S + k(τ−1)), which does not know where the hidden points are."""
    low, high = mean_range([0, 1, 2, 3], [0, 500, 400, 0], [19, 0, 0, 19])
    assert high - low < 2 * 3 * 2 * 19 / (900 + 2 * 19)
    assert low < 1 + 400 / 900 < high


# Coverage. What is tested is that each interval misses its mean in at most 5 % of all rounds.

RATE, THRESHOLD = 0.3, 25
ROUNDS = 120
ALPHA = 1e-6  # false alarm per check, if an interval misses in exactly 5 % of all rounds


def people(name: str, number: int, source: np.random.Generator) -> NDArray[np.float64]:
    made: dict[str, Callable[[], NDArray[np.float64]]] = {
        "uniform": lambda: source.random(number),
        "latency": lambda: np.clip(source.lognormal(5.5, 1, number) / 60_000, 0, 1),
        "ages": lambda: np.clip(np.rint(source.gamma(4, 10, number)) / 120, 0, 1),
        "delays": lambda: np.clip((source.gamma(0.5, 60, number) + 45) / 1_560, 0, 1),
        "flags": lambda: (source.random(number) < 0.08) * 1.0,
        "rare": lambda: np.where(source.random(number) < 0.004, 0.9, 0.01),
        "narrow": lambda: np.clip(source.normal(0.5, 0.03, number), 0, 1),
    }
    return made[name]()


def rounded(values: NDArray[np.float64], points: NDArray[np.float64], source: np.random.Generator) -> NDArray[np.int64]:
    gap = np.clip(np.searchsorted(points, values, side="right") - 1, 0, len(points) - 2)
    up = source.random(len(values)) < (values - points[gap]) / (points[gap + 1] - points[gap])
    return np.bincount(gap + up, minlength=len(points))


def misses(name: str, units: int, number_of_points: int, seed: int, *, honest: bool = True) -> tuple[int, int]:
    """In how many rounds the intervals of the mean and of the sum do not hold the truth.

    Not honest: as if points below the threshold hid nothing.
    """
    source = np.random.default_rng(seed)
    points = np.linspace(0, 1, number_of_points)
    held = people(name, units, source)
    missed_mean = missed_sum = 0
    for _ in range(ROUNDS):
        sample = held[source.random(units) < RATE]
        counts = rounded(sample, points, source)
        released = counts >= THRESHOLD
        seen, hidden = np.where(released, counts, 0), np.where(released | (not honest), 0, THRESHOLD - 1)
        if not seen.any():
            continue
        low, high = mean_bounds(points, seen, hidden, 0.025)
        missed_mean += not low <= held.mean() <= high
        low, high = sum_bounds(points, seen, hidden, 0.025)
        missed_sum += not low / RATE <= held.sum() <= high / RATE
    return missed_mean, missed_sum


@pytest.mark.slow
@pytest.mark.parametrize("name", ["uniform", "latency", "ages", "delays", "flags", "rare", "narrow"])
@pytest.mark.parametrize(("units", "number_of_points"), [(400, 5), (2_000, 2), (20_000, 5)])
def test_intervals_hold(name: str, units: int, number_of_points: int) -> None:
    most = stats.binom.isf(ALPHA, ROUNDS, 0.05)
    for missed in misses(name, units, number_of_points, seed=units + number_of_points):
        assert missed <= most


@pytest.mark.slow
def test_intervals_that_forget_hidden_points_are_found() -> None:
    """The negative control: 8 % of 120 sampled units have the value 1, and all of them are below the threshold."""
    most = stats.binom.isf(ALPHA, ROUNDS, 0.05)
    assert misses("flags", 400, 2, seed=1, honest=False)[0] > most
    assert misses("flags", 400, 2, seed=1)[0] <= most
