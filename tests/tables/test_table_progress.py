"""Whoever waits for a big file is told how far it is, and can stop it."""

from collections.abc import Callable

import duckdb
import pytest

import thresher as th
from thresher.tables.duckdb_connection import connect, watched

ENDLESS = "SELECT count(*) FROM range(10000000000000) a, range(1000000) b WHERE (a.range * b.range) % 7 = 3"


def busy_until(done: Callable[[], bool], connection: duckdb.DuckDBPyConnection) -> int:
    """Ask a real query again and again; how often."""
    number = 0
    while not done():
        connection.sql("SELECT count(*) FROM range(30000000) r WHERE hash(r.range) % 7 = 3").fetchall()
        number += 1
    return number


@pytest.mark.slow
def test_percent_are_reported_while_a_query_runs() -> None:
    connection = connect()
    seen: list[tuple[int, int, str]] = []
    number = watched(
        connection, lambda: busy_until(lambda: len(seen) >= 3, connection), lambda *report: seen.append(report)
    )
    assert number >= 1
    assert len(seen) >= 3
    assert all(0 <= percent <= 100 and (total, what) == (100, "reading and counting") for percent, total, what in seen)


def test_an_interrupt_stops_the_query() -> None:
    connection = connect()

    def interrupted(done: int, total: int, what: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watched(connection, lambda: connection.sql(ENDLESS).fetchall(), interrupted)
    assert connection.sql("SELECT 1").fetchall() == [(1,)]


def test_what_a_query_raises_is_raised() -> None:
    connection = connect()
    with pytest.raises(duckdb.Error):
        watched(connection, lambda: connection.sql("SELECT nothing").fetchall(), lambda *_: None)


@pytest.mark.slow
@pytest.mark.parametrize("unit", [None, "person"])
def test_a_file_is_answered_alike_with_progress(tmp_path, unit) -> None:
    path = tmp_path / "people.parquet"
    duckdb.sql(
        "COPY (SELECT range AS person, CASE WHEN range % 4 = 0 THEN 'rare' ELSE 'common' END AS word "
        f"FROM range(400000)) TO '{path}'"
    )
    seen: list[tuple[int, int, str]] = []
    release = th.histogram(
        path, "word", unit=unit, epsilon=1, delta=1e-8, progress=lambda *report: seen.append(report)
    ).release
    assert [bucket.bucket for bucket in release] == ["common", "rare"]
    for bucket, truth in zip(release, (300_000, 100_000), strict=True):
        assert abs(bucket.estimate / truth - 1) < 0.05  # more than ten standard deviations
    assert seen[-1] == (1, 1, "histogram of word")
