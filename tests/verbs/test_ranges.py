"""Ranges: half-open, clamped, decomposed, with errors that hold."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from in_memory_people import CountsPopulation, NumbersPopulation
from scipy.stats import binom

import thresher as th
from thresher.errors import InvalidSetting
from thresher.privacy.units import MEMBER
from thresher.verbs import Ranges, ranges

SIX = th.plan(1, 1e-8, rounds=6)
THREE = th.plan(1, 1e-8, rounds=3)
ALPHA = 1e-9  # false alarm of each check on how often intervals cover


@pytest.fixture(scope="module")
def ages() -> NumbersPopulation:
    return NumbersPopulation(np.floor(np.random.default_rng(5).gamma(6.0, 7.0, 200_000)))


def _truth(people: NumbersPopulation, lower: float, upper: float) -> int:
    return int(np.count_nonzero((people.numbers >= lower) & (people.numbers < upper)))


@pytest.mark.slow
def test_counts_and_fractions_are_close(ages: NumbersPopulation) -> None:
    """Within six standard errors, plus what was interpolated and what was dropped."""
    answer = ranges(ages, "age", plan=SIX, lower=0, upper=128, branching=4)
    for lower, upper in ((18, 65), (0, 30), (60, 128), (0, 128), (33, 34)):
        truth = _truth(ages, lower, upper)
        count, fraction = answer.count(lower, upper), answer.fraction(lower, upper)
        slack = 6 * count.error.sampling + count.error.resolution + count.error.threshold
        assert abs(count.estimate - truth) < slack
        assert abs(fraction.estimate - truth / 200_000) < slack / 200_000 + 1e-9
        for each in (count, fraction):
            assert each.interval[0] <= each.estimate <= each.interval[1]
            assert each.error.bound >= 0 and each.error.confidence == 0.95
    assert answer.guarantee == SIX.guarantee.for_unit(MEMBER) == answer.verify()
    assert answer.rounds_asked == 6


def _misses(people: NumbersPopulation, runs: int, lower: float, upper: float, shift: float) -> tuple[int, int]:
    truth = _truth(people, lower, upper)
    counts = fractions = 0
    for seed in range(runs):
        answer = ranges(people.seeded(seed), "age", plan=SIX, lower=0, upper=128, branching=3)
        count, fraction = answer.count(lower, upper), answer.fraction(lower, upper)
        counts += not count.interval[0] <= truth * (1 + shift) <= count.interval[1]
        fractions += not fraction.interval[0] <= truth * (1 + shift) / 200_000 <= fraction.interval[1]
    return counts, fractions


@pytest.mark.slow
def test_intervals_cover_the_truth_as_often_as_they_say(ages: NumbersPopulation) -> None:
    runs = 60
    allowed = int(binom.ppf(1 - ALPHA, runs, 0.05))
    for lower, upper in ((18, 65), (3, 17)):  # the first cuts cells of three to the sixth at both ends
        assert max(_misses(ages, runs, lower, upper, 0.0)) <= allowed
    assert min(_misses(ages, runs, 18, 65, 0.15)) > allowed  # the check can fail


@pytest.mark.slow
def test_all_levels_together_are_closer_than_the_decomposition_alone(ages: NumbersPopulation) -> None:
    """Mean absolute error of ranks over 30 draws and 15 edges; averaging six levels takes a third off, or more."""
    together, alone = [], []
    for seed in range(30):
        tree = ranges(ages.seeded(seed), "age", plan=SIX, lower=0, upper=128, branching=2).hierarchy
        for edge in range(4, 64, 4):
            truth = ages.rank(tree.value(edge))
            together.append(abs(tree.curve.at(edge) / tree.curve.total - truth))
            alone.append(abs(tree.seen(0, edge).fraction - truth))
    print(f"rank error: all levels {np.mean(together):.2e}, decomposition alone {np.mean(alone):.2e}")
    assert np.mean(together) < 0.67 * np.mean(alone)


def test_ranges_are_half_open() -> None:
    people = CountsPopulation({25.0: 10_000, 50.0: 20_000})
    answer = ranges(people, "x", plan=THREE, lower=0, upper=64, branching=4)
    at_25, at_50 = 10_000, 20_000
    assert answer.count(0, 25).interval[0] == 0
    assert answer.count(0, 25).estimate < 0.05 * at_25
    assert answer.count(25, 50).estimate == pytest.approx(at_25, rel=0.2)
    assert answer.count(50, 64).estimate == pytest.approx(at_50, rel=0.2)
    assert answer.cdf(25).estimate < 0.02
    assert answer.cdf(26).estimate == pytest.approx(1 / 3, abs=0.05)


@pytest.fixture(scope="module")
def clipped() -> Ranges:
    people = CountsPopulation({-9.0: 5_000, 3.0: 5_000, 99.0: 10_000, math.inf: 2_000})
    return ranges(people, "x", plan=THREE, lower=0, upper=8, branching=2)


def test_numbers_outside_the_bounds_count_as_at_the_bounds(clipped: Ranges) -> None:
    for lower in (0, -math.inf):
        assert clipped.count(lower, 1).estimate == pytest.approx(5_000, rel=0.2)
    for upper in (8, math.inf):
        found = clipped.count(7, upper)
        assert found.estimate == pytest.approx(12_000, rel=0.2)
        assert (found.lower, found.upper) == clipped.range_ends(7, upper) == (7.0, 8.0)
    assert clipped.count(-math.inf, math.inf).estimate == pytest.approx(22_000, rel=0.1)
    assert clipped.count(4, 4).interval == clipped.count(8, 8).interval == (0, 0)
    assert clipped.cdf(-math.inf).interval == clipped.cdf(0).interval == (0.0, 0.0)
    assert clipped.cdf(8).estimate == clipped.cdf(math.inf).estimate == 1.0
    assert clipped.query.clipping.startswith("Values outside 0 to 8 count as at the nearest bound: that is bias")


@pytest.mark.parametrize("ends", [(20, 30), (7, 9), (-1, 3), (-100, -1), (-1, math.inf), (8, math.inf), (-math.inf, 0)])
def test_a_range_of_which_nothing_is_known_alone_is_refused(clipped: Ranges, ends: tuple[float, float]) -> None:
    for read in (clipped.count, clipped.fraction, clipped.buckets, clipped.range_ends, clipped.query.check_range):
        with pytest.raises(InvalidSetting, match=rf"range from {ends[0]} to {ends[1]} .* 0 (and|or) 8"):
            read(*ends)
    with pytest.raises(InvalidSetting, match="range"):
        clipped.readings(ranges=[ends])


@pytest.mark.parametrize("value", [-1, 8.5, math.nan])
def test_the_distribution_is_not_read_outside_the_bounds(clipped: Ranges, value: float) -> None:
    with pytest.raises(InvalidSetting, match=f"value {value} .* 0 and 8"):
        clipped.cdf(value)


def test_an_end_that_is_not_moved_is_told_as_it_was_asked_for() -> None:
    answer = ranges(CountsPopulation({500.0: 5_000}), "x", plan=SIX, lower=0, upper=60_000)
    for end in (0.1, 0.3, 499.99, 500, 1_000, 33_333.3):
        assert answer.count(0, end).upper == answer.cdf(end).upper == end


def test_a_boundary_inside_a_cell_is_interpolated_and_says_so() -> None:
    people = NumbersPopulation(np.linspace(0, 1, 400_000, endpoint=False))
    answer = ranges(people, "x", plan=THREE, lower=0, upper=1, branching=2)
    middle, edge = answer.cdf(0.3125), answer.cdf(0.375)
    assert middle.estimate == pytest.approx(0.3125, abs=0.01)
    assert middle.error.resolution == pytest.approx(1 / 8, abs=0.01)
    assert edge.error.resolution == 0
    assert middle.interval[0] < 0.26 and middle.interval[1] > 0.36
    assert edge.interval[1] - edge.interval[0] < 0.02


@pytest.fixture(scope="module")
def tree() -> Ranges:
    people = NumbersPopulation(np.random.default_rng(3).normal(50, 15, 50_000))
    return ranges(people, "x", plan=SIX, lower=0, upper=100, branching=4)


@settings(deadline=None, max_examples=150)
@given(st.floats(0, 100, exclude_min=True), st.floats(0, 100, exclude_min=True))
@pytest.mark.slow
def test_answers_keep_their_order(tree: Ranges, one: float, other: float) -> None:
    lower, upper = min(one, other), max(one, other)
    probes = 6 * 3
    assert len(tree.buckets(lower, upper)) <= 2 * probes
    assert len(tree.buckets(-math.inf, upper)) <= probes
    for answer in (tree.count(lower, upper), tree.fraction(lower, upper)):
        assert 0 <= answer.interval[0] <= answer.estimate <= answer.interval[1]
        assert answer.error.threshold >= 0 and answer.error.resolution >= 0
    assert tree.cdf(lower).estimate <= tree.cdf(upper).estimate + 0.02  # clipped to its interval, an estimate may dip
    assert tree.fraction(lower, upper).interval[1] <= 1


def test_quantile_and_cdf_belong_together(tree: Ranges) -> None:
    values = [tree.quantile(probability).value for probability in (0.05, 0.25, 0.5, 0.75, 0.95)]
    assert values == sorted(values)
    for probability, value in zip((0.05, 0.25, 0.5, 0.75, 0.95), values, strict=True):
        assert tree.cdf(value).estimate == pytest.approx(probability, abs=0.02)
    assert values[2] == pytest.approx(50, abs=1)


def test_the_threshold_part_is_the_stated_number_of_dropped_buckets(tree: Ranges) -> None:
    lower, upper = 0.0, 50.0
    dropped = sum(index not in tree.hierarchy.counts[level - 1] for level, index in tree.buckets(lower, upper))
    expected = dropped * (SIX.threshold - 1) / SIX.sampling_rate
    assert tree.count(lower, upper).error.threshold == pytest.approx(expected)
    assert tree.count(0, 1e-3).error.threshold <= 18 * SIX.threshold / SIX.sampling_rate


def test_nothing_released_is_an_answer() -> None:
    answer = ranges(CountsPopulation({1.0: 2}), "x", plan=THREE, lower=0, upper=8, branching=2)
    count, fraction = answer.count(0, 4), answer.fraction(0, 4)
    assert count.estimate == 0 and count.interval[0] == 0 and count.interval[1] > 2
    assert math.isnan(fraction.estimate) and fraction.interval == (0, 1)
    assert math.isnan(answer.quantile(0.5).value)
    assert len(answer.to_arrow()) == 0


def test_tables_and_json(tree: Ranges) -> None:
    table = tree.to_arrow()
    assert table.column_names == ["level", "lower", "upper", "count", "estimate", "least", "most"]
    assert set(table["level"].to_pylist()) <= set(range(1, 7))
    first = [row for row in table.to_pylist() if row["level"] == 1]
    assert [row["lower"] for row in first] == [0, 25, 50, 75]
    assert len(tree.to_pandas()) == len(tree.to_polars()) == len(table)
    assert len(json.loads(tree.to_json())["rows"]) == len(table)
    assert "6 levels" in repr(tree)


@pytest.mark.parametrize("wrong", [(5, 1), (math.nan, 1), (0, math.nan)])
def test_ranges_that_are_refused(tree: Ranges, wrong: tuple[float, float]) -> None:
    with pytest.raises(InvalidSetting, match="range"):
        tree.count(*wrong)


def test_settings_that_are_refused_before_anything_is_asked() -> None:
    people = CountsPopulation({1.0: 5_000})
    for wrong in (
        {"branching": 1},
        {"branching": 2.5},
        {"branching": 2_000},
        {"branching": 200},
        {"upper": 0},
        {"lower": None},
    ):
        with pytest.raises(InvalidSetting):
            ranges(people, "x", plan=SIX, **({"lower": 0, "upper": 8} | wrong))  # type: ignore[arg-type]
    assert people.asked == []
