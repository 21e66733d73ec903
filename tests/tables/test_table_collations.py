"""Values and units are compared by their bytes in NFC, whatever a column, a session, a database or a cluster says.

Under a collation an engine counts several spellings as one and returns any of them: that of one person alone would be
published.
"""

from __future__ import annotations

import sqlite3
import unicodedata
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from table_cases import HOSTILE_SETTINGS, Maker, counted, expected, opened, opened_by_ibis

import thresher as th
from thresher.errors import InvalidSetting
from thresher.questions import END, Below, Bins, Joint, Prefixes, Question, RecountedPrefixes, Values
from thresher.tables import Table
from thresher.testing import SeededRandomness

PLAN = th.Plan(0.5, 20, 1.0, 1e-3)
LONELY = ["PaRiS", "paris ", "p\u00e0ris", "\uff50\uff41\uff52\uff49\uff53", "par\u0131s", "PAR\u0130S", "paris\u200b"]
OTHERS = [f"elsewhere {number}" for number in range(len(LONELY))]
UNITS = ["u1", "U1", "u1 ", "\u00fc1", "u\u03081", "\uff551", "\u01311", "i1", "I1", "\u01301", "u1\u200b"]

QUESTIONS: list[Question] = [
    Values(("word",)),
    Values(("word", "number")),
    Prefixes("word", 3),
    Prefixes("word", 5, known=2, parents=frozenset({"pa", "pA" + END})),
    RecountedPrefixes("word", 12, known=6, texts=frozenset({"paris", "PAris"})),
    Joint((Values(("word",)), Bins("number", (0, 5)))),
]


def people(lonely: list[str]) -> pa.Table:
    words = [*["paris"] * 1500, *lonely, *["paris"] * 1500]
    return pa.table({"word": words, "number": [1] * len(words), "who": [f"w{number}" for number in range(len(words))]})


def released(make: Maker, data: pa.Table, question: Question, **settings: Any) -> th.Release:
    with opened(make, data, randomness=SeededRandomness(11), **settings) as table:
        return table.ask(question, PLAN)


def assert_lonely_spellings_change_nothing(make: Maker) -> None:
    table, other = people(LONELY), people(OTHERS)
    release = released(make, table, QUESTIONS[0])
    assert release.buckets == ["paris"]
    assert release.to_json() == released(make, other, QUESTIONS[0]).to_json()
    extending = Prefixes("word", 9, known=2, parents=frozenset({"pa"}))
    for settings in ({}, {"cache_limit": 1}):
        release = released(make, table, extending, **settings)
        assert release.buckets == ["paris" + END]
        assert release.to_json() == released(make, other, extending, **settings).to_json()


def assert_bytes_are_counted(make: Maker) -> None:
    table = people(LONELY)
    # Counted by the engine in each round, and from its distinct values.
    for limit, questions in ((1, QUESTIONS), (5_000_000, QUESTIONS[2:5])):
        with opened(make, table, cache_limit=limit) as population:
            for question in questions:
                assert counted(population, question) == expected(table, question), (question, limit)
    with opened(make, table, unit="who") as population:
        assert counted(population, QUESTIONS[0]) == expected(table, QUESTIONS[0])


def assert_units_are_told_apart(make: Maker) -> None:
    """Each spelling is a unit; only the two Unicode forms of one name are one."""
    table = pa.table({"who": UNITS * 3, "x": [1] * len(UNITS) * 3})
    normal = {unicodedata.normalize("NFC", unit) for unit in UNITS}
    assert len(normal) == len(UNITS) - 1
    with opened(make, table, unit="who") as population:
        assert counted(population, Values(("x",))) == {1: len(normal)}
        assert counted(population, Below("x", 2.0)) == {True: len(normal)}


@pytest.mark.slow
def test_lonely_spellings_change_nothing(source: Maker) -> None:
    assert_lonely_spellings_change_nothing(source)


@pytest.mark.slow
def test_values_are_counted_by_their_bytes(source: Maker) -> None:
    assert_bytes_are_counted(source)


@pytest.mark.slow
def test_units_are_told_apart_by_their_bytes(source: Maker) -> None:
    assert_units_are_told_apart(source)


# Columns that have a collation or a type of their own.


@pytest.mark.parametrize(
    ("collation", "settings"), [("NOCASE", HOSTILE_SETTINGS), ("NOCASE.NOACCENT.NFC", ()), ("de", ())]
)
@pytest.mark.slow
def test_collations_of_duckdb(collation: str, settings: tuple[str, ...]) -> None:
    def make(table: pa.Table) -> Any:
        connection = duckdb.connect()
        for setting in settings:
            connection.execute(setting)
        texts = [name for name in table.column_names if pa.types.is_string(table.schema.field(name).type)]
        columns = [
            f"{name} {f'VARCHAR COLLATE {collation}' if name in texts else 'BIGINT'}" for name in table.column_names
        ]
        connection.execute(f"CREATE TABLE people ({', '.join(columns)})")
        connection.from_arrow(table).insert_into("people")
        return connection.table("people")

    assert_lonely_spellings_change_nothing(make)
    assert_bytes_are_counted(make)
    assert_units_are_told_apart(make)


@pytest.mark.slow
def test_collations_of_duckdb_through_ibis() -> None:
    import ibis

    def make(table: pa.Table) -> Any:
        backend = ibis.duckdb.connect()
        backend.con.from_arrow(table).create("plain")
        texts = [name for name in table.column_names if pa.types.is_string(table.schema.field(name).type)]
        listed = ", ".join(f"{name} COLLATE NOCASE AS {name}" if name in texts else name for name in table.column_names)
        backend.raw_sql(f"CREATE VIEW people AS SELECT {listed} FROM plain")
        return opened_by_ibis(backend)

    assert_lonely_spellings_change_nothing(make)
    assert_bytes_are_counted(make)
    assert_units_are_told_apart(make)
    assert_units_are_told_apart(ibis.memtable)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
@pytest.mark.parametrize("collation", ["UTF8_BINARY_RTRIM", "UNICODE_CI"])
def test_collations_of_spark(spark: Any, collation: str) -> None:
    def make(table: pa.Table) -> Any:
        frame = spark.createDataFrame(table)
        return frame.selectExpr(*[f"collate({n}, '{collation}') AS {n}" if n != "number" else n for n in frame.columns])

    assert released(make, people(LONELY), QUESTIONS[0]).buckets == ["paris"]
    with Table(make(people(LONELY)), cache_limit=1) as population:
        assert counted(population, QUESTIONS[3]) == expected(people(LONELY), QUESTIONS[3])


@pytest.mark.parametrize(
    "make",
    [
        lambda table: table.set_column(0, "word", table["word"].dictionary_encode()),
        lambda table: table.set_column(0, "word", table["word"].cast(pa.large_string())),
        lambda table: table.set_column(0, "word", table["word"].cast(pa.string_view())),
        lambda table: table.to_pandas().assign(word=lambda frame: pd.Categorical(frame["word"], ordered=True)),
        lambda table: table.to_pandas().astype({"word": "string[python]"}),
        lambda table: table.to_pandas().astype({"word": object}),
        lambda table: pl.from_arrow(table).cast({"word": pl.Categorical}),
        lambda table: pl.from_arrow(table).cast({"word": pl.Categorical}).lazy(),
        lambda table: pl.from_arrow(table).cast({"word": pl.Enum(table["word"].unique().to_pylist())}).lazy(),
    ],
    ids=["dictionary", "large", "view", "ordered", "string[python]", "object", "categorical", "lazy", "enum"],
)
@pytest.mark.slow
def test_other_types_of_text(make: Maker) -> None:
    assert_lonely_spellings_change_nothing(make)
    assert_bytes_are_counted(make)


@pytest.mark.parametrize("kind", ["dictionary", "categorical", "lazy categorical"])
def test_categories_tell_units_apart(kind: str) -> None:
    def make(table: pa.Table) -> Any:
        if kind == "dictionary":
            return table.set_column(0, "who", table["who"].dictionary_encode())
        frame = pl.from_arrow(table).cast({"who": pl.Categorical})
        return frame if kind == "categorical" else frame.lazy()

    assert_units_are_told_apart(make)


def test_a_unit_in_two_forms_chooses_among_the_rows_of_both() -> None:
    """False alarm: 2 × 2^-200 for each frame."""
    forms = ["\u00fc", "u\u0308"]
    table = pa.table({"who": [f"{form}{n}" for n in range(200) for form in forms], "x": [0, 1] * 200})
    for frame in (table, pl.from_arrow(table).lazy(), duckdb.connect().from_arrow(table)):
        with Table(frame, unit="who") as population:
            found = counted(population, Values(("x",)))
        assert sum(found.values()) == 200
        assert set(found) == {0, 1}


@pytest.mark.parametrize(
    "make",
    [
        lambda table: table,
        lambda table: pl.from_arrow(table).lazy(),
        lambda table: duckdb.connect().from_arrow(table),
    ],
)
def test_lists_and_structures_are_no_units(make: Maker) -> None:
    frame = make(pa.table({"x": [1], "list": [["a"]], "structure": [{"a": "b"}]}))
    for unit in ("list", "structure"):
        with pytest.raises(InvalidSetting, match="lists or structures"):
            Table(frame, unit=unit)


# Databases behind Ibis; `test_table_warehouses` has more of them.


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Ibis itself
def test_sqlite_keeps_text_in_columns_of_any_type(tmp_path: Path) -> None:
    import ibis

    path = tmp_path / "loose.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TABLE people (who INTEGER COLLATE NOCASE, price DECIMAL(9, 2) COLLATE NOCASE, x INTEGER)"
        )
        connection.executemany(
            "INSERT INTO people VALUES (?, ?, 1)", [("u1", "none"), ("U1", "NONE"), ("u1", "none"), (7, 5), (7, 5)]
        )
    connection.close()
    frame = ibis.sqlite.connect(path).table("people")
    with Table(frame, unit="who") as population:
        assert counted(population, Values(("x",))) == {1: 3}
    with Table(frame) as population:
        assert counted(population, Values(("price",))) == {"5": 2}  # text is no decimal
