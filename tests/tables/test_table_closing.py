"""A verb closes what it opened, whatever happens; what the caller opened stays open."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from table_cases import counted

import thresher as th
from thresher.errors import BudgetExceeded, InvalidSetting
from thresher.questions import Below, Prefixes, Values
from thresher.tables import Table, duckdb_connection

PLAN = th.Plan(0.5, 20, 1.0, 1e-3)
TWO_ROUNDS = th.plan(epsilon=1, delta=1e-4, rounds=2)
ROWS = pa.table(
    {"word": ["a"] * 500 + ["b"] * 500, "x": [float(number) for number in range(1000)], "unit": [*range(500)] * 2}
)


@pytest.fixture
def connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every connection that is made, each kept alive, as a debugger or a traceback may; their directories are here."""
    duckdb_connection.close_idle()
    made: list[Any] = []
    original = duckdb.connect

    def connect(*arguments: Any, **settings: Any) -> Any:
        made.append(original(*arguments, **settings))
        return made[-1]

    monkeypatch.setattr(duckdb, "connect", connect)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    return made


def assert_gone(connections: list[Any]) -> None:
    """Nobody uses a connection any more; those that are kept for the next table are empty, and can be closed."""
    assert connections
    assert all(database.empty() for database in duckdb_connection._IDLE)
    duckdb_connection.close_idle()
    for connection in connections:
        with pytest.raises(duckdb.ConnectionException):
            connection.execute("SELECT 1")
    assert list(Path(tempfile.gettempdir()).iterdir()) == []


def stopping(*_: Any) -> None:
    raise KeyboardInterrupt


def make(kind: str, folder: Path) -> Any:
    if kind == "arrow":
        return ROWS
    pq.write_table(ROWS, folder / "rows.parquet")
    return folder / "rows.parquet"


VERBS: list[Callable[..., Any]] = [
    lambda data, **more: th.histogram(data, "word", plan=PLAN, **more),
    lambda data, **more: th.heavy_hitters(data, "word", plan=TWO_ROUNDS, method="trie", **more),
    lambda data, **more: th.quantiles(data, "x", [0.5], lower=0, upper=1000, plan=TWO_ROUNDS, **more),
    lambda data, **more: th.ranges(data, "x", lower=0, upper=1000, plan=TWO_ROUNDS, **more),
]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["arrow", "parquet"])
@pytest.mark.parametrize("unit", [None, "unit"])
def test_verbs_close_what_they_opened(tmp_path: Path, connections: list[Any], kind: str, unit: str | None) -> None:
    data = make(kind, tmp_path)
    for verb in VERBS:
        answer = verb(data, unit=unit)
        assert_gone(connections)
        answer.to_json()  # what was released does not need the connection any more


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["arrow", "parquet"])
def test_refusals_and_errors_close_too(tmp_path: Path, connections: list[Any], kind: str) -> None:
    data = make(kind, tmp_path)
    poor = th.Ledger(tmp_path / "poor.db", epsilon=0.1, delta=1e-6)
    refusals: list[tuple[type[BaseException], Callable[[], Any]]] = [
        (InvalidSetting, lambda: th.histogram(data, "misspelt", plan=PLAN)),
        (InvalidSetting, lambda: th.histogram(data, "word", plan=PLAN, unit="misspelt")),
        (InvalidSetting, lambda: th.histogram(data, "x", plan=PLAN, domain=["not a number"])),
        (InvalidSetting, lambda: th.histogram(data, "word", plan=PLAN, bins=[0, 1])),
        (BudgetExceeded, lambda: th.histogram(data, "word", plan=PLAN, ledger=poor)),
        (KeyboardInterrupt, lambda: th.histogram(data, "word", plan=PLAN, progress=stopping)),
    ]
    kept = []
    for kind_of_error, action in refusals:
        with pytest.raises(kind_of_error) as caught:
            action()
        kept.append(caught)
        if connections:
            assert_gone(connections)
    assert connections


def test_a_file_that_cannot_be_read_leaves_nothing(tmp_path: Path, connections: list[Any]) -> None:
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1" * 10)
    with pytest.raises(InvalidSetting):
        Table(broken)
    assert_gone(connections)


def test_a_table_of_the_callers_stays_open(connections: list[Any]) -> None:
    with Table(ROWS, unit="unit") as table:
        th.histogram(table, "word", plan=PLAN)
        assert sum(counted(table, Values(("word",))).values()) == 500
        assert sum(counted(table, Below("x", 500.0)).values()) == 500
        assert sum(counted(table, Prefixes("word", 1)).values()) == 500
    assert_gone(connections)
    table.close()  # twice does no harm


@pytest.mark.slow
def test_the_callers_connection_stays_open() -> None:
    connection = duckdb.connect()
    relation = connection.from_arrow(ROWS)
    for unit in (None, "unit"):
        th.histogram(relation, "word", plan=PLAN, unit=unit)
        th.quantiles(relation, "x", [0.5], lower=0, upper=1000, plan=TWO_ROUNDS, unit=unit)
    assert connection.execute("SELECT 1").fetchall() == [(1,)]


def test_connections_that_nobody_closes_remove_their_directory_all_the_same(connections: list[Any]) -> None:
    connection = duckdb_connection.connect()
    assert list(Path(tempfile.gettempdir()).iterdir())
    connections.clear()
    del connection
    assert list(Path(tempfile.gettempdir()).iterdir()) == []


def test_a_database_is_used_again_and_holds_nothing_of_the_table_before(connections: list[Any]) -> None:
    before = pa.total_allocated_bytes()
    rows = pa.table({"word": pa.array(["a", "b"] * 500_000)})
    th.histogram(rows, "word", plan=PLAN)
    del rows
    assert pa.total_allocated_bytes() - before < 100_000  # the column has five million bytes
    with Table(ROWS) as table:
        assert sum(counted(table, Values(("word",))).values()) == 1000
        own = table._engine._own  # type: ignore[attr-defined]
        assert own.sql("SELECT * FROM duckdb_tables()").fetchall() == []
        own.execute("SET TimeZone = 'Europe/Paris'").fetchall()
    connection = duckdb_connection.connect()
    assert connection.sql("SELECT current_setting('TimeZone')").fetchall() == [("UTC",)]
    duckdb_connection.disconnect(connection)
    assert len(connections) == 1


def test_a_database_in_which_tables_were_made_is_not_used_again(connections: list[Any]) -> None:
    with Table(ROWS, unit="unit") as table:
        counted(table, Values(("word",)))
    assert duckdb_connection._IDLE == []
    assert_gone(connections)


def test_a_database_that_no_longer_works_is_not_used_again(connections: list[Any]) -> None:
    th.histogram(ROWS, "word", plan=PLAN)
    connections[0].close()  # as DuckDB does after an error of its own
    with Table(ROWS) as table:
        assert sum(counted(table, Values(("word",))).values()) == 1000
    assert len(connections) == 2
    assert_gone(connections)


def test_tables_that_are_open_together_have_databases_of_their_own(connections: list[Any]) -> None:
    with Table(ROWS, unit="unit") as one, Table(ROWS, unit="unit") as other:
        assert counted(one, Values(("word",))).keys() == counted(other, Values(("word",))).keys()
        assert len(connections) == 2
    assert_gone(connections)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_that_is_forked_after_a_count_ends_well() -> None:
    script = """
import os, sys, thresher as th
th.histogram(["a"] * 100, "value", epsilon=1, delta=1e-3)
if child := os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=False).returncode == 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
@pytest.mark.parametrize("session", ["spark", "spark_connect"])
def test_a_cluster_keeps_nothing_of_anyone(session: str, spark: Any, request: pytest.FixtureRequest) -> None:
    frame = request.getfixturevalue(session).createDataFrame(ROWS)
    cache = spark._jsparkSession.sharedState().cacheManager()
    cache.clearCache()
    VERBS[0](frame, unit="unit")
    assert cache.isEmpty()
    with pytest.raises(KeyboardInterrupt):
        VERBS[2](frame, unit="unit", progress=stopping)
    assert cache.isEmpty()
    with Table(frame, unit="unit") as table:
        th.histogram(table, "word", plan=PLAN)
        assert not cache.isEmpty()
    assert cache.isEmpty()
