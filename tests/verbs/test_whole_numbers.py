"""Whole numbers: an edge at each of them, answers that are whole numbers, and a table's type that says so."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from in_memory_people import CountsPopulation, NumbersPopulation

import thresher as th
from thresher.errors import InvalidSetting
from thresher.questions import Cells
from thresher.verbs import query_from_dict
from thresher.verbs.grid import grid_of
from thresher.verbs.quantiles import QuantilesQuery
from thresher.verbs.ranges import RangesQuery

SIX = th.plan(1, 1e-8, rounds=6)
THREE = th.plan(1, 1e-8, rounds=3)


@given(
    st.integers(-5_000, 5_000),
    st.integers(1, 300_000),
    st.integers(2, 6),
    st.none() | st.integers(2, 9),
    st.floats(0, 0.9),
)
def test_every_edge_is_a_whole_number_and_the_cells_cover_the_bounds(
    lower: int, distance: int, levels: int, branching: int | None, part: float
) -> None:
    grid = grid_of(lower - part, lower + distance + part, branching, levels, whole=True)
    cells = grid.branching**levels
    width = (grid.upper - grid.lower) / cells
    assert width.is_integer() and grid.lower == lower and grid.last == lower + distance
    assert grid.upper > lower + distance
    assert width == 1 or (width - 1) * cells <= distance  # no wider than it must be
    if branching is None and 8**levels > distance:
        assert width == 1
    finest = grid.questions("x")[-1]
    for number in (lower, lower + distance // 3, lower + distance - 1, lower + distance):
        assert finest.bucket(number) == (number - lower) // width
    assert finest.bucket(lower - 7) == 0


def test_numbers_of_any_kind_have_the_grid_that_they_always_had() -> None:
    assert grid_of(0, 100, None, 3, whole=False).questions("x") == [Cells("x", 0, 100, 4**level) for level in (1, 2, 3)]
    with pytest.raises(InvalidSetting, match="upper"):
        grid_of(0.2, 1.9, None, 3, whole=True)


def test_a_whole_number_that_holds_much_is_found_exactly() -> None:
    """30 % hold 7, 40 % hold 8, 30 % hold 9: no quantile near 0.15, 0.5 and 0.85 is in doubt."""
    people = CountsPopulation({7: 30_000, 8: 40_000, 9: 30_000})
    found = th.quantiles(people, "x", [0.15, 0.5, 0.85], lower=0, upper=60, plan=SIX, whole=True)
    assert [each.value for each in found] == [7, 8, 9]
    for each in found:
        assert type(each.value) is int
        assert each.interval == (each.value, each.value)
        assert each.error.bound == 0 and each.error.resolution == 0
        assert each.rank[0] <= each.probability <= each.rank[1]
    blurred = th.quantiles(people, "x", [0.5], lower=0, upper=60, plan=SIX)
    assert blurred[0.5].value != 8  # without it the answer lies somewhere in the cell


@pytest.mark.slow
def test_a_quantile_is_the_smallest_number_that_enough_units_are_at_or_below() -> None:
    people = CountsPopulation(dict.fromkeys(range(1, 11), 20_000))
    for method, rounds in (("hierarchy", 6), ("search", 24)):
        plan = th.plan(1, 1e-8, rounds=rounds)
        found = th.quantiles(people, "x", [0.05, 0.35, 0.95], lower=0, upper=20, plan=plan, method=method, whole=True)  # type: ignore[arg-type]
        assert found.to_dict() == {0.05: 1, 0.35: 4, 0.95: 10}
    table = found.to_arrow()
    assert table["value"].to_pylist() == [1, 4, 10]


def test_ranges_of_whole_numbers() -> None:
    people = CountsPopulation({0: 20_000, 5: 10_000, 6: 30_000, 200: 40_000})
    answer = th.ranges(people, "x", lower=0, upper=10, plan=THREE, whole=True)
    assert answer.count(5, 6).estimate == answer.count(4.5, 5.5).estimate == pytest.approx(10_000, rel=0.1)
    assert answer.count(6, 10).estimate == pytest.approx(30_000, rel=0.1)
    assert answer.count(10, 11).estimate == pytest.approx(40_000, rel=0.1)  # those beyond the bound are at it
    assert answer.count(7, math.inf).upper == answer.count(7, 11).upper == 11
    assert answer.range_ends(4.5, 5.5) == (5, 6)  # the ends that are really used
    for ends in ((7, 12), (-1, 3), (11, math.inf)):
        with pytest.raises(InvalidSetting, match="range"):
            answer.count(*ends)
    assert answer.cdf(5.5).estimate == answer.cdf(6).estimate
    assert answer.quantile(0.99).value == 10 and answer.quantile(0.99).interval == (10, 10)
    values, ranks, _, _ = answer.band()
    assert values[-1] == 11 and ranks[-1] == 1


def test_the_cells_that_a_series_follows_hold_the_last_number_and_all_beyond_it() -> None:
    people = CountsPopulation({0: 10_000, 50: 20_000, 100: 30_000, 999: 5_000})
    rows = th.ranges(people, "x", lower=0, upper=100, plan=SIX, whole=True).readings().rows
    assert [row.key for row in rows] == [(0, 81), (81, 101)]
    assert [row.estimate for row in rows] == pytest.approx([30_000, 35_000], rel=0.1)


def test_more_whole_numbers_than_cells() -> None:
    people = NumbersPopulation(np.arange(200_000) % 1000)
    answer = th.ranges(people, "x", lower=0, upper=999, branching=3, plan=THREE, whole=True)
    found = answer.quantile(0.5)
    assert answer.hierarchy.width == math.ceil(1000 / 27)
    assert isinstance(found.value, int) and found.value == pytest.approx(499, abs=20)
    assert found.interval[0] <= found.value <= found.interval[1]
    assert found.error.resolution > 0


@pytest.mark.slow
def test_the_type_of_a_tables_column_says_whether_numbers_are_whole() -> None:
    """The values of both columns are the same; only the type differs."""
    numbers = [number % 50 for number in range(20_000)]
    table = pa.table({"whole": pa.array(numbers, pa.int32()), "real": pa.array(numbers, pa.float64())})
    asked = {"lower": 0, "upper": 60, "plan": THREE}
    assert th.ranges(table, "whole", **asked).query.whole is True
    assert th.ranges(table, "real", **asked).query.whole is False
    assert th.ranges(table, "whole", whole=False, **asked).query.whole is False
    assert th.ranges(table, "real", whole=True, **asked).query.whole is True
    assert th.quantiles(numbers, "value", 0.5, **asked).query.whole is False  # an untyped column, whatever it holds
    found = th.quantiles(numbers, "value", 0.5, types={"value": "whole numbers"}, **asked)
    assert found.query.whole is True and isinstance(found[0.5].value, int)


def test_queries_that_were_stored_before_are_asked_as_then() -> None:
    for query in (RangesQuery("age", THREE, 0, 128, 4), QuantilesQuery("age", (0.5,), THREE, 0, 128, "hierarchy", 4)):
        content = query.to_dict()
        del content["whole"]
        again = query_from_dict(content)
        assert again.first_question == query.first_question == Cells("age", 0, 128, 4)
        assert again.whole is False  # type: ignore[attr-defined]


def test_a_setting_that_is_not_true_or_false_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="whole"):
        th.ranges([1, 2], "value", lower=0, upper=9, plan=THREE, whole="maybe")  # type: ignore[arg-type]
