"""Arrow streams: rows that come only once are kept for all rounds, and a stream that was read is refused."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import nanoarrow
import pyarrow as pa
import pytest
from sql_cases import PEOPLE
from table_cases import counted, expected

import thresher as th
from thresher.errors import InvalidSetting
from thresher.questions import Bins, Dates, Prefixes, Values
from thresher.tables import Table
from thresher.testing import SeededRandomness


class Stream:
    """What another library gives: nothing but the Arrow C stream, as often as it is asked for."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


MAKERS = {
    "pyarrow": lambda table: table.to_reader(max_chunksize=7),
    "duckdb": lambda table: duckdb.connect().from_arrow(table).to_arrow_reader(64),
    "nanoarrow": nanoarrow.ArrayStream,
    "any": Stream,
}


@pytest.mark.parametrize("name", MAKERS)
def test_all_questions_see_all_rows(name: str) -> None:
    with Table(MAKERS[name](PEOPLE)) as table:
        for question in (
            Values(("country",)),
            Bins("latency", (0, 250, 500, 1000)),
            Dates("seen", "month"),
            Prefixes("country", 1),
        ):
            assert counted(table, question) == expected(PEOPLE, question)
        assert table._engine.size() == len(PEOPLE)
    with Table(MAKERS[name](PEOPLE), "who") as table:
        assert sum(counted(table, Bins("latency", (0, 1000))).values()) == len(set(PEOPLE["who"].to_pylist()))


@pytest.mark.slow
def test_verbs_of_many_rounds() -> None:
    """Answered from one pass, also where no counts are kept; with the same seed as DuckDB answers."""
    plan = th.plan(epsilon=1, delta=1e-4, rounds=8)
    for limit in (1, 5_000_000):
        answers = []
        for data in (PEOPLE.to_reader(), duckdb.from_arrow(PEOPLE)):
            with Table(data, randomness=SeededRandomness(5), cache_limit=limit) as table:
                settings = {"lower": 0, "upper": 1024, "method": "search", "plan": plan}
                answers.append(th.quantiles(table, "latency", [0.5], **settings).to_arrow())
        assert answers[0].equals(answers[1])


@pytest.mark.parametrize("name", ["pyarrow", "duckdb", "nanoarrow"])
def test_a_stream_is_read_once(name: str, tmp_path: Path) -> None:
    ledger = th.Ledger(tmp_path / "ledger.db", epsilon=3, delta=1e-3)
    asking = {"epsilon": 0.5, "delta": 1e-5, "ledger": ledger}
    stream = MAKERS[name](PEOPLE)
    th.histogram(stream, "country", **asking)
    assert len(ledger.to_arrow()) == 1
    with pytest.raises(InvalidSetting, match="read before"):
        th.histogram(stream, "country", **asking)
    assert len(ledger.to_arrow()) == 1


def test_a_refused_question_leaves_a_reader_unread() -> None:
    reader = PEOPLE.to_reader()
    with pytest.raises(InvalidSetting, match="not in the data"):
        th.histogram(reader, "nobody", epsilon=1, delta=1e-4)
    assert reader.read_all().num_rows == len(PEOPLE)


def test_a_stream_that_breaks_costs_nothing(tmp_path: Path) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield PEOPLE.to_batches()[0]
        raise ValueError("canary")

    ledger = th.Ledger(tmp_path / "ledger.db", epsilon=3, delta=1e-3)
    with pytest.raises(InvalidSetting, match="could not be read by Arrow") as caught:
        reader = pa.RecordBatchReader.from_batches(PEOPLE.schema, batches())
        th.histogram(reader, "country", epsilon=1, delta=1e-4, ledger=ledger)
    assert "canary" not in str(caught.value) and caught.value.__context__ is None
    assert len(ledger.to_arrow()) == 0


def test_types_that_the_embedded_engine_does_not_read() -> None:
    """Columns that nobody asks about do not stop those that somebody asks about."""
    table = pa.Table.from_arrays(
        [
            pa.array(["a", "b", "a"]).dictionary_encode(),
            pa.array([1.0, 2.0, 1.0], pa.float16()),
            pa.array([Decimal("1.50"), None, Decimal("1.50")], pa.decimal256(10, 2)),
            pa.array([dt.date(2024, 1, 31)] * 3, pa.date64()),
            pa.nulls(3),
            pa.array([[1], [2], None]),
            pa.array([1, 2, 1], pa.duration("s")),
            pa.array([1, 2, 3]),
            pa.array([4, 5, 6]),
        ],
        names=["category", "half", "money", "day", "nothing", "parts", "long", "twice", "twice"],
    )
    with Table(table.to_reader()) as found:
        assert counted(found, Values(("category",))) == {"a": 2, "b": 1}
        assert counted(found, Values(("half",))) == {1.0: 2, 2.0: 1}
        assert sum(counted(found, Bins("money", (0, 2))).values()) == 2
        assert counted(found, Dates("day", "month")) == {dt.date(2024, 1, 1): 3}
        assert counted(found, Values(("nothing",))) == {}
        for column in ("parts", "long"):
            with pytest.raises(InvalidSetting, match="cannot be counted"):
                found.check(Values((column,)))
        with pytest.raises(InvalidSetting, match="two columns"):
            found.check(Values(("twice",)))
    with Table(table.to_reader(), "long") as found:
        assert sum(counted(found, Values(("half",))).values()) == 2
    with pytest.raises(InvalidSetting, match="lists or structures"):
        Table(table.to_reader(), "parts")


def test_an_empty_stream() -> None:
    with Table(PEOPLE.slice(0, 0).to_reader()) as table:
        assert counted(table, Values(("country",))) == {}


@pytest.mark.parametrize(
    "column",
    [
        pa.array([Decimal("1.5")], pa.decimal256(60, 2)),
        pa.array([Decimal("100")], pa.decimal128(5, -2)),
        pa.array(["{not JSON"], pa.json_()),
    ],
    ids=["many digits", "whole tens", "JSON"],
)
def test_types_that_duckdb_lacks_tell_units_apart_and_disturb_no_other_column(column: Any) -> None:
    table = pa.table({"odd": column, "word": ["tea"]})
    for make in (lambda: table, table.to_reader):
        for unit in (None, "odd"):
            with Table(make(), unit) as population:
                assert counted(population, Values(("word",))) == {"tea": 1}
                with pytest.raises(InvalidSetting, match="of a type that cannot be counted"):
                    population.check(Values(("odd",)))
