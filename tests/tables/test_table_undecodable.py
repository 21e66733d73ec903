"""Text that is not UTF-8 is no value, at every door through which Arrow comes, and changes nothing for anybody else."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import adbc_driver_sqlite.dbapi
import dask.dataframe as dd
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from table_cases import tallied

import thresher as th
from thresher.questions import Among, Bins, Filtered, Prefixes, Question, Values, Where
from thresher.tables import Table
from thresher.tables.duckdb_connection import connected

BAD = (b"\xff\xfe\xfd", b"ab\xe9", b"\xed\xa0\x80", b"e\xcc")
GOOD = [b"abc"] * 5 + ["é".encode()] * 2
NUMBER = len(GOOD) + len(BAD)


def texts(octets: list[bytes], kind: pa.DataType) -> pa.Array:
    """An array of text with these bytes, whatever they are."""
    if pa.types.is_dictionary(kind):
        values = texts(octets, kind.value_type)
        return pa.DictionaryArray.from_arrays(pa.array(range(len(octets)), kind.index_type), values)
    if pa.types.is_string_view(kind):
        return pa.array(octets, pa.binary_view()).view(kind)
    stored = pa.array(octets, pa.large_binary() if pa.types.is_large_string(kind) else pa.binary())
    return pa.Array.from_buffers(kind, len(stored), stored.buffers())


def people(kind: pa.DataType) -> pa.Table:
    """Everybody holds a word and is called by a word; both are also in another column, and the first ones are good."""
    words = texts([*GOOD, *BAD], kind)
    names = texts([*(str(number).encode() for number in range(len(GOOD))), *BAD], kind)
    others = texts([*BAD, *GOOD], kind)
    return pa.table({"word": words, "name": names, "other": others, "number": [1] * NUMBER, "who": range(NUMBER)})


def _driver(table: pa.Table, folder: Path) -> Any:
    with closing(sqlite3.connect(folder / "people.sqlite")) as connection, connection:
        connection.execute("DROP TABLE IF EXISTS people")
        connection.execute("CREATE TABLE people (word TEXT, name TEXT, other TEXT, number INTEGER, who INTEGER)")
        rows = zip(*(column.cast(pa.binary()).to_pylist() for column in table.select(range(3)).columns), strict=True)
        insert = "INSERT INTO people VALUES (CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS TEXT), 1, ?)"
        connection.executemany(insert, [(*row, who) for who, row in enumerate(rows)])
    return adbc_driver_sqlite.dbapi.connect(str(folder / "people.sqlite"))


def _parquet(table: pa.Table, folder: Path) -> str:
    pq.write_table(table, folder / "people.parquet")
    return str(folder / "people.parquet")


def _pandas(table: pa.Table, folder: Path) -> pd.DataFrame:
    return table.to_pandas(types_mapper=pd.ArrowDtype)


KINDS = {
    "string": pa.string(),
    "large": pa.large_string(),
    "view": pa.string_view(),
    "dictionary": pa.dictionary(pa.int8(), pa.string()),
}
DOORS: dict[str, Callable[[pa.Table, Path], Any]] = {
    "arrow": lambda table, _: table,
    "stream": lambda table, _: table.to_reader(max_chunksize=4),
    "pandas": _pandas,
    "dask": lambda table, folder: dd.from_pandas(_pandas(table, folder), npartitions=2),
    "parquet": _parquet,
    "driver": _driver,
}
CASES = [
    *(("arrow", kind) for kind in KINDS),
    *(("stream", kind) for kind in KINDS),
    *((door, "string") for door in DOORS if door not in ("arrow", "stream")),
]
WORD, PAIR = Values(("word",)), Values(("word", "number"))
CHOSEN: Question = Filtered(Bins("number", (0, 2)), Where((Among("word", ("abc", "é")),)))
ASKED: list[tuple[str | None, int, list[Question]]] = [
    (None, 1, [WORD, Prefixes("word", 1), CHOSEN]),
    ("who", 1, [WORD, PAIR, CHOSEN]),
    ("who", 2, [PAIR]),
    ("name", 1, [WORD, Bins("number", (0, 2))]),
]


@pytest.mark.slow
@pytest.mark.parametrize(("door", "kind"), CASES)
def test_text_that_is_not_utf_8_is_no_value(tmp_path: Path, door: str, kind: str) -> None:
    selected = {"table": "people"} if door == "driver" else {}
    for unit, contributions, questions in ASKED:
        data = DOORS[door](people(KINDS[kind]), tmp_path)
        with Table(data, unit, **selected) as table:
            for question in questions:
                _, counts = table._tally(question, contributions=contributions)
                assert sum(counts) == len(GOOD), (unit, contributions, question)
        if door == "driver":
            data.close()


@pytest.mark.parametrize("unit", [None, "who"])
def test_what_is_released_can_be_read(unit: str | None) -> None:
    words = texts([*BAD[:1] * 300, *[b"abc"] * 300], pa.string())
    table = pa.table({"word": words, "who": range(600)})
    answer = th.histogram(table, "word", plan=th.plan(epsilon=8, delta=1e-3), unit=unit)
    assert [row.bucket for row in answer] == ["abc"]
    assert answer["abc"].count


def test_a_relation_over_such_text() -> None:
    with connected() as connection:
        relation = connection.from_arrow(people(pa.string()))
        assert tallied(relation, Values(("word",)))[1:] == [("abc", 5)]


def test_such_texts_are_reported_to_who_holds_the_data() -> None:
    for kind in KINDS.values():
        (error,) = th.histogram(people(kind), "word", epsilon=1, delta=1e-5, show_data_errors=True)
        assert "UTF-8" in error.cause.words
        assert error.places == tuple(f"position {number}" for number in range(len(GOOD), NUMBER))
