"""Bounds checked exactly, by summing over all that can be sampled; fits and decompositions by their properties."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

import thresher as th
from thresher.verbs.accuracy import Seen, count_bounds, rank_standard_error
from thresher.verbs.consistency import Curve, curve_of, known_cells
from thresher.verbs.hierarchy import Hierarchy, decompose
from thresher.verbs.quantile_search import Split, Splits, rising_fit

RATE, THRESHOLD, TAIL = 0.4, 4, 0.05


def _chance_of_missing(inside: int, outside: int, hide: bool) -> tuple[float, float]:
    """Exact probabilities that the lower and the upper bound are wrong, for given true numbers on both sides."""
    truth = inside / (inside + outside)
    below = above = 0.0
    for a in range(inside + 1):
        for b in range(outside + 1):
            chance = binom.pmf(a, inside, RATE) * binom.pmf(b, outside, RATE)
            hidden = [THRESHOLD - 1 if hide and count < THRESHOLD else 0 for count in (a, b)]
            seen = Seen(a if a >= THRESHOLD else 0, b if b >= THRESHOLD else 0, *hidden)
            below += chance * (truth < seen.lower(TAIL))
            above += chance * (truth > seen.upper(TAIL))
    return float(below), float(above)


@pytest.mark.parametrize(("inside", "outside"), [(1, 1), (5, 9), (9, 5), (12, 12), (3, 20), (20, 3), (0, 15), (25, 10)])
def test_fraction_bounds_are_wrong_no_more_often_than_stated(inside: int, outside: int) -> None:
    below, above = _chance_of_missing(inside, outside, hide=True)
    assert below <= TAIL and above <= TAIL


def test_forgetting_what_the_threshold_hides_would_be_wrong_more_often() -> None:
    assert max(_chance_of_missing(12, 12, hide=False)) > TAIL


@pytest.mark.parametrize("units", [0, 1, 7, 30, 200])
def test_count_bounds_are_wrong_no_more_often_than_stated(units: int) -> None:
    plan = th.plan(sampling_rate=0.375, threshold=20, epsilon=5)
    below = above = 0.0
    for sampled in range(units + 1):
        low, high = count_bounds(plan, sampled, sampled, TAIL)
        chance = float(binom.pmf(sampled, units, plan.sampling_rate))
        below, above = below + chance * (units < low), above + chance * (units > high)
        assert low <= sampled / plan.sampling_rate <= high or sampled == 0
    assert below <= TAIL and above <= TAIL


def test_nothing_released_says_nothing() -> None:
    nothing = Seen(0, 0, 3, 3)
    assert (nothing.lower(TAIL), nothing.upper(TAIL)) == (0.0, 1.0)
    assert math.isnan(nothing.fraction) and nothing.threshold_error() == 1.0
    assert rank_standard_error(0.5, 0, RATE) == 0.5


def test_standard_error_is_that_of_the_sampled_fraction() -> None:
    """Against 20,000 draws; the relative error of their spread is 1/√40,000, and 4 % is eight times that."""
    generator = np.random.default_rng(1)
    inside, outside = (generator.binomial(count, RATE, 20_000) for count in (3_000, 7_000))
    spread = float(np.std(inside / (inside + outside)))
    assert rank_standard_error(0.3, 4_000, RATE) == pytest.approx(spread, rel=0.04)
    assert rank_standard_error(0.3, 4_800, RATE) != pytest.approx(spread, rel=0.04)


SHAPES = st.tuples(st.integers(2, 6), st.integers(1, 5))


@given(SHAPES, st.data())
def test_decomposition_covers_a_range_once_with_few_cells(shape: tuple[int, int], data: st.DataObject) -> None:
    branching, levels = shape
    cells = branching**levels
    start = data.draw(st.integers(0, cells))
    stop = data.draw(st.integers(start, cells))
    pieces = decompose(start, stop, branching, levels)
    covered = sorted(
        cell
        for level, index in pieces
        for cell in range(index * branching ** (levels - level), (index + 1) * branching ** (levels - level))
    )
    assert covered == list(range(start, stop))
    assert all(1 <= level <= levels for level, _ in pieces)
    assert len(pieces) <= max(2 * levels * (branching - 1), branching)
    if start == 0 or stop == cells:
        assert len(pieces) <= max(levels * (branching - 1), branching)
    if (start, stop) != (0, cells) and (start == 0 or stop == cells):
        assert len(pieces) <= levels * (branching - 1)


def test_the_bound_on_cells_is_reached() -> None:
    assert len(decompose(0, 4**3 - 1, 4, 3)) == 3 * 3
    assert (
        len(decompose(1, 4**3 - 1, 4, 3)) == 2 * 3 * 3 - 4
    )  # both sides at two levels, and what is between at the top


@given(st.lists(st.tuples(st.floats(-10, 10), st.floats(0.1, 10)), max_size=30))
def test_rising_fit_rises_and_keeps_the_mean(points: list[tuple[float, float]]) -> None:
    values, weights = [value for value, _ in points], [weight for _, weight in points]
    fitted = rising_fit(values, weights)
    assert len(fitted) == len(values)
    assert all(low <= high for low, high in pairwise(fitted))
    assert np.dot(fitted, weights) == pytest.approx(np.dot(values, weights), abs=1e-9)
    if values == sorted(values):
        assert fitted == values


PLAN = th.plan(sampling_rate=0.25, threshold=20, epsilon=5)


def consistent_curve(counts: list[dict[int, int]], branching: int) -> Curve:
    return curve_of(known_cells(counts, branching, PLAN))


@pytest.mark.slow
@given(
    st.integers(2, 4),
    st.lists(st.dictionaries(st.integers(0, 63), st.integers(20, 400), max_size=12), min_size=1, max_size=3),
)
def test_the_curve_rises_from_end_to_end(branching: int, levels: list[dict[int, int]]) -> None:
    counts = [
        {index: count for index, count in level.items() if index < branching**depth}
        for depth, level in enumerate(levels, start=1)
    ]
    curve = consistent_curve(counts, branching)
    assert curve.positions[0] == 0 and curve.positions[-1] == branching ** len(counts)
    assert np.all(np.diff(curve.positions) > 0)
    assert np.all(np.diff(curve.below) >= 0)
    assert curve.total >= 0
    if any(counts):
        assert curve.total > 0
        for share in (0.01, 0.3, 0.5, 0.99):
            position, _ = curve.find(share * curve.total)
            assert curve.at(position) == pytest.approx(share * curve.total)


def test_levels_are_averaged_where_nothing_was_dropped() -> None:
    rate = PLAN.sampling_rate
    curve = consistent_curve([{0: 1_000, 1: 1_000}, {0: 550, 1: 550, 2: 450, 3: 450}], 2)
    # Own and children's sum weigh about the same: 1000 and 1100 on the left, 1000 and 900 on the right.
    assert curve.at(2) * rate == pytest.approx(1_050, rel=0.01)
    assert curve.at(4) * rate == pytest.approx(2_000, rel=0.01)
    assert curve.at(1) == pytest.approx(curve.at(2) / 2)


def test_dropped_cells_get_what_is_missing_but_no_more_than_the_threshold_allows() -> None:
    rate = PLAN.sampling_rate
    curve = consistent_curve([{0: 110}, {0: 100}], 2)
    assert 0 < (curve.at(2) - curve.at(1)) * rate < 10
    capped = consistent_curve([{0: 1_000}, {0: 100}], 2)
    assert (capped.at(2) - capped.at(1)) * rate <= PLAN.threshold + 2 * math.sqrt(PLAN.threshold) + 1e-9
    assert consistent_curve([{}, {}], 2).total == 0


def test_positions_on_an_edge_are_exact() -> None:
    tree = Hierarchy(0.0, 1.0, 10, PLAN, [{}, {}])
    for edge in range(101):
        assert tree.position(edge / 100) == edge
        assert tree.value(edge) == pytest.approx(edge / 100)
        assert Hierarchy(0.0, 100.0, 10, PLAN, [{}, {}]).position(edge) == edge
    assert tree.position(0.305) == pytest.approx(30.5)
    assert Hierarchy(0.0, 1.0, 2, PLAN, [{}] * 40).position(0.3) != round(0.3 * 2**40)
    assert (tree.position(-5), tree.position(7), tree.position(math.inf)) == (0, 100, 100)


def test_levels_that_contradict_each_other_leave_what_is_between_them():
    """The second round drew more in one cell than the first one in all: no claim that the answer is known exactly."""
    plan = th.plan(epsilon=1.0, delta=1e-8, rounds=2)
    few, many = {0: 10 * plan.threshold, 1: 90 * plan.threshold}, {2: 1_000 * plan.threshold}
    tree = Hierarchy(0.0, 4.0, 2, plan, [few, many], (plan.sampling_rate, plan.sampling_rate))
    low, high = tree.count_bounds(0, 3, 0.025)
    assert low < 500 * plan.threshold / plan.sampling_rate < high


def test_splits_that_contradict_each_other_leave_what_is_between_them():
    splits = Splits(0.0, 4.0, 2)
    splits.add(Split(1.0, Seen(900, 100, 0, 0)))
    splits.add(Split(2.0, Seen(100, 900, 0, 0)))
    for low, high in zip(*splits.bounds(0.05), strict=True):
        assert low < 0.5 < high
