"""Random rounding to public points has its exact law on every engine, and no unit is counted twice."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import duckdb
import narwhals as nw
import numpy as np
import polars as pl
import psycopg
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from table_cases import Maker, as_mapping, counted, opened

import thresher as th
from thresher.errors import InvalidSetting
from thresher.questions import Cells, Joint, Points, Question, Values
from thresher.tables import Table
from thresher.tables.column_keys import DRAW, buckets, count

pytestmark = pytest.mark.slow

ALPHA = 1e-9  # false alarm per check
EACH, OUTSIDE = 3_000, 100
POINTS = (0.0, 1.0, 4.0)
QUESTION = Points("x", POINTS)


def people(repeats: int = 1) -> pa.Table:
    """Half of them at a quarter between 0 and 1, half in the middle between 1 and 4; some outside, some without value.

    With `repeats`, each unit has its row several times.
    """
    values = [0.25, 2.5] * EACH + [-7.0, 9.0] * OUTSIDE + [None, float("nan")]
    rows = [(unit, value) for unit, value in enumerate(values) for _ in range(repeats)]
    group = ["even" if unit % 4 < 2 else "odd" for unit, _ in rows]
    columns = {"unit": [unit for unit, _ in rows], "x": pa.array([value for _, value in rows], pa.float64())}
    return pa.table({**columns, "group": group})


def p_values(found: dict[Any, int]) -> list[float]:
    """The two-sided probabilities of the counts at 0 and at 4."""
    laws = [(0.0, stats.binom(EACH, 0.75)), (4.0, stats.binom(EACH, 0.5))]
    drawn = [(found.get(point, 0) - OUTSIDE, law) for point, law in laws]
    return [2 * min(float(law.cdf(number)), float(law.sf(number - 1))) for number, law in drawn]


def assert_has_the_law(found: dict[Any, int]) -> None:
    assert sum(found.values()) == 2 * (EACH + OUTSIDE)  # each unit once
    assert set(found) == set(POINTS)
    assert all(p_value > ALPHA for p_value in p_values(found))


def assert_draws_are_fresh(table: Table) -> None:
    """Every draw has the law, and not all are the same: two are by chance with probability 2e-4, four with 1e-11."""
    first = counted(table, QUESTION)
    again = takewhile(lambda found: found == first, (counted(table, QUESTION) for _ in range(3)))
    assert_has_the_law(first)
    assert len(list(again)) < 3


def test_the_check_finds_rounding_to_the_nearest() -> None:
    nearest = {0.0: EACH + OUTSIDE, 1.0: 0, 4.0: EACH + OUTSIDE}
    one_draw_for_all = {0.0: OUTSIDE, 1.0: EACH, 4.0: EACH + OUTSIDE}
    assert all(min(p_values(found)) < ALPHA for found in (nearest, one_draw_for_all))


def test_rows_are_rounded_at_random(source: Maker) -> None:
    with opened(source, people()) as table:
        assert_draws_are_fresh(table)


def test_units_are_rounded_at_random(source: Maker) -> None:
    with opened(source, people(repeats=3), unit="unit") as table:
        assert_draws_are_fresh(table)


def test_groups_and_points_are_counted_together(source: Maker) -> None:
    with opened(source, people()) as table:
        found = counted(table, Joint((Values(("group",)), QUESTION)))
    assert {group for group, _ in found} == {"even", "odd"}
    assert_has_the_law({point: found["even", point] + found["odd", point] for point in POINTS})


@pytest.mark.parametrize("rate", [0.25, 0.75])
def test_a_release_has_rounded_counts(local: Maker, rate: float) -> None:
    """At the lower rate, rows in memory are sampled before they are counted."""
    plan = th.plan(epsilon=8, delta=1e-3, sampling_rate=rate)
    with opened(local, people()) as table:
        release = table.ask(QUESTION, plan)
    found = dict(zip(release.buckets, release.counts.tolist(), strict=True))
    expected = rate * (0.75 * EACH + OUTSIDE)
    far = 6.2 * expected**0.5  # standard errors: 1e-9 at most
    assert found[0.0] == pytest.approx(expected, abs=far)
    assert rate * (EACH + OUTSIDE) > expected + far  # rounding to the nearest would be found


def test_counts_kept_for_other_questions_are_rounded_unit_by_unit() -> None:
    """Cells are asked in rounds, so the table keeps the column's distinct values: two rows for thousands of units."""
    with Table(people()) as table:
        counted(table, Cells("x", 0, 4, 4))
        assert_has_the_law(counted(table, QUESTION))


def test_workers_of_a_cluster_thin_rounded_counts(cluster: Maker) -> None:
    plan = th.plan(epsilon=8, delta=1e-3, sampling_rate=0.75)
    with opened(cluster, people(), driver_limit=1) as table:
        release = table.ask(QUESTION, plan)
    found = as_mapping(release.table.select(["x"]), release.counts)
    for point, units in ((0.0, 0.75 * EACH + OUTSIDE), (4.0, 0.5 * EACH + OUTSIDE)):
        assert found[point] == pytest.approx(0.75 * units, abs=6.2 * units**0.5)


def test_a_task_that_runs_again_rounds_alike(cluster: Maker) -> None:
    """Spark evaluates a frame again where a task is lost, and whenever it is asked: a unit keeps its draw."""
    from thresher.tables.spark_engine import SparkEngine

    engine = SparkEngine(cluster(numbers_only()))
    for rows in (engine.rows(["x"]), engine.chosen(["x"], "unit")):
        assert rows.drawn is not None
        drawn = rows.drawn()
        again = [sorted((row["v0"], row["d"]) for row in drawn.collect()) for _ in range(2)]
        assert again[0] == again[1]
        draws = np.array([draw for _, draw in again[0]])
        assert stats.kstest(draws, "uniform").pvalue > ALPHA
        assert stats.kstest(draws**1.3, "uniform").pvalue < ALPHA  # the test can fail
    engine.close()


def test_a_partition_that_is_counted_again_rounds_alike() -> None:
    from thresher.tables.dask_engine import _counted

    table = people().select(["x"]).rename_columns(["v0"])
    first, second, other = (
        _counted(table, Points("v0", POINTS), ["v0"], "UTC", "values", seed) for seed in (0.5, 0.5, 0.25)
    )
    assert first.sort_by("k0").equals(second.sort_by("k0"))
    assert not first.sort_by("k0").equals(other.sort_by("k0"))


def numbers_only(repeats: int = 1) -> pa.Table:
    return people(repeats).drop_columns(["group"]).slice(0, 2 * (EACH + OUTSIDE) * repeats)


@pytest.fixture
def postgresql(postgresql_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize("unit", [None, "unit"])
def test_postgresql(postgresql: Any, unit: str | None) -> None:
    import ibis

    postgresql.execute("CREATE TABLE people (unit bigint, x double precision)")
    with postgresql.cursor().copy("COPY people FROM STDIN") as copy:
        for row in numbers_only().to_pylist():
            copy.write_row((row["unit"], row["x"]))
    with Table(ibis.postgres.from_connection(postgresql).table("people"), unit) as table:
        assert_has_the_law(counted(table, QUESTION))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Ibis itself
@pytest.mark.parametrize("unit", [None, "unit"])
def test_sqlite(tmp_path: Path, unit: str | None) -> None:
    import ibis

    path = tmp_path / "people.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE people (unit INTEGER, x REAL)")
        rows = numbers_only().to_pylist()
        connection.executemany("INSERT INTO people VALUES (?, ?)", [(row["unit"], row["x"]) for row in rows])
    connection.close()
    with Table(ibis.sqlite.connect(path).table("people"), unit) as table:
        assert_has_the_law(counted(table, QUESTION))


places = st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), min_size=2, max_size=9, unique=True).map(sorted)
numbers = st.one_of(st.floats(-1e6, 1e6), st.floats(allow_nan=False), st.integers(-1000, 1000).map(float))
draws = st.one_of(st.floats(0, 1, exclude_max=True), st.sampled_from([0.0, 0.1, 0.25, 1 / 3, 0.5, 1 - 2**-53]))


@settings(max_examples=100)
@given(points=places, rows=st.lists(st.tuples(numbers, draws), min_size=1, max_size=25))
def test_columns_round_as_values_do(points: list[float], rows: list[tuple[float, float]]) -> None:
    question = Points("x", tuple(points))
    table = pa.table({"v0": [value for value, _ in rows], DRAW: [draw for _, draw in rows]})
    expected: dict[float, int] = {}
    for value, draw in rows:
        point = question.bucket(value, draw)
        expected[point] = expected.get(point, 0) + 1
    for frame in (duckdb.connect().from_arrow(table), pl.from_arrow(table)):
        assert counted_on(frame, question) == expected


def counted_on(frame: Any, question: Question) -> dict[Any, int]:
    found: Any = count(nw.from_native(frame).lazy(), question, weighted=False).collect("pyarrow")
    return as_mapping(*buckets(found.to_native(), question))


def test_points_need_a_column_of_numbers() -> None:
    with Table(people()) as table, pytest.raises(InvalidSetting, match="group"):
        table.ask(Points("group", POINTS), th.plan(epsilon=1, delta=1e-6))
