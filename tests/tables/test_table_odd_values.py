"""A single value that an engine stumbles over is no value, and changes nothing for anybody else."""

from __future__ import annotations

import datetime as dt
import unicodedata
import warnings
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import ibis
import numpy as np
import pandas as pd
import polars as pl
import psycopg
import pyarrow as pa
import pytest
from table_cases import NOON, Maker, counted, tallied, written

from thresher.errors import InvalidSetting
from thresher.questions import Bins, Cells, Dates, Prefixes, Question, Values
from thresher.tables import Table
from thresher.tables.error_guard import guarded
from thresher.tables.objects import spelled

MARKS = "\u0301\u0323"
MOST_MARKS, TOO_MANY_MARKS = "a" + MARKS * 15, "a" + MARKS * 16
"""As many in a row as text may have, and more."""


def check(made: Callable[[list[Any]], Any], odd: list[Any], questions: list[Question]) -> None:
    """The odd values count as nothing, and everybody else's as without them."""
    for question in questions:
        expected = tallied(made([]), question)
        assert len(expected) == 2  # a schema, and the one bucket that all others are in
        assert tallied(made(odd), question) == expected


def made(odd: list[int]) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array([NOON] * 3 + odd).cast(pa.timestamp("us", "America/New_York"))])


@pytest.mark.parametrize("question", [Values(("value",)), Dates("value", "month")])
def test_instants_that_no_calendar_has(question: Question) -> None:
    last_before_the_year_1, first_after_9999 = -62_135_596_800_000_001, 253_402_300_800_000_000
    check(made, [-(2**63), 1 - 2**63, 2**63 - 1, last_before_the_year_1, first_after_9999], [question])


def test_the_first_and_the_last_instant_of_the_calendar_count() -> None:
    first, last = -62_135_596_800_000_000, 253_402_300_799_999_999
    found = tallied(made([first] * 4 + [last] * 5), Dates("value", "day"))
    assert dict(found[1:]) == {dt.date(2024, 1, 31): 3, dt.date(1, 1, 1): 4, dt.date(9999, 12, 31): 5}


@pytest.mark.slow
def test_text_with_too_many_marks_in_a_row_is_no_value(source: Maker) -> None:
    values = ["b"] * 3 + [MOST_MARKS] * 4 + [TOO_MANY_MARKS] * 5
    people = pa.table({"value": values, "person": [f"p{number}" for number in range(12)]})
    expected = [("b", 3), (unicodedata.normalize("NFC", MOST_MARKS), 4)]
    for unit in (None, "person"):
        assert sorted(tallied(source(people), Values(("value",)), unit)[1:], key=str) == sorted(expected, key=str)
    firsts = dict(tallied(source(people), Prefixes("value", 1))[1:])
    assert firsts == {"b": 3, unicodedata.normalize("NFC", MOST_MARKS)[0]: 4}


@pytest.mark.slow
def test_a_unit_with_too_many_marks_in_a_row_is_none(source: Maker) -> None:
    people = pa.table({"value": ["b"] * 6, "person": ["1", "2", MOST_MARKS, "3", TOO_MANY_MARKS, TOO_MANY_MARKS + "x"]})
    assert tallied(source(people), Values(("value",)), "person")[1:] == [("b", 4)]


@pytest.mark.slow
def test_a_unit_is_counted_under_a_value_that_it_has(local: Maker) -> None:
    odd = [TOO_MANY_MARKS, "a" + "\x00\u0301" * 40]
    people = pa.table({"value": ["b", *odd * 20] * 3, "person": [name for name in "xyz" for _ in range(41)]})
    assert tallied(local(people), Values(("value",)), "person")[1:] == [("b", 3)]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Ibis itself
def test_units_with_too_many_marks_on_databases(postgresql_url: str) -> None:
    persons = ["1", "2", MOST_MARKS, unicodedata.normalize("NFC", MOST_MARKS), "3", *[TOO_MANY_MARKS] * 4]
    sqlite = ibis.sqlite.connect()
    sqlite.con.execute("CREATE TABLE people (value INTEGER, person TEXT)")
    sqlite.con.executemany("INSERT INTO people VALUES (7, ?)", [(person,) for person in persons])
    assert tallied(sqlite.table("people"), Values(("value",)), "person")[1:] == [(7, 4)]
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        connection.execute(
            "CREATE COLLATION any_case (provider = icu, locale = 'und-u-ks-level1', deterministic = false)"
        )
        for number, collation in enumerate(("", 'COLLATE "C"', "COLLATE any_case")):
            connection.execute(f"CREATE TABLE people{number} (value integer, person text {collation})")
            for person in persons:
                connection.execute(f"INSERT INTO people{number} VALUES (7, %s)", [person])
            table = ibis.postgres.from_connection(connection).table(f"people{number}")
            assert tallied(table, Values(("value",)), "person")[1:] == [(7, 4)]


class Text(str):
    """Text whose own methods say that all is well with it."""

    def replace(self, *_: Any) -> Text:
        return self

    def encode(self, *_: Any) -> bytes:
        return b""

    def __str__(self) -> Text:
        return self


class Leaving:
    """An object that ends the program when it is asked what it is."""

    @property
    def __class__(self) -> Any:
        raise SystemExit


class Interrupting(str):
    """Text that pretends to be a user who has had enough."""

    def replace(self, *_: Any) -> Text:
        raise KeyboardInterrupt


class Closing(float):
    """A number that closes whoever reads it."""

    def __float__(self) -> float:
        raise GeneratorExit


class Unhashable(type):
    """The class of a class that interrupts whoever keeps it in a set."""

    def __hash__(cls) -> int:
        raise KeyboardInterrupt


class Strange(metaclass=Unhashable):
    """A class that cannot be kept in a set."""


@pytest.mark.parametrize(
    ("dtype", "held", "odd"),
    [
        ("int64", 20, [7.5, 2**70, "canary"]),
        ("float64", 2.5, ["canary"]),
        ("bool", True, [7, "canary"]),
        ("datetime64[ns]", dt.datetime(2024, 1, 31), [dt.datetime(9999, 1, 1), "canary"]),
    ],
)
@pytest.mark.slow
def test_partitions_that_one_value_gave_another_type(dtype: str, held: Any, odd: list[Any]) -> None:
    def frame(values: list[Any]) -> pd.DataFrame:
        return pd.DataFrame({"value": pd.Series(values, dtype=object).infer_objects()})

    expected = pd.DataFrame({"value": pd.Series([], dtype=dtype)})
    for value in odd:
        data = dd.from_map(frame, [[held], [held, value], [held]], meta=expected)
        assert tallied(data, Values(("value",)))[1:] == [(held, 3)]


ODD_ON_SQLITE = ["'canary'", "''", "x'ff'", "CAST(x'ff' AS TEXT)", "7.5", "2451545", "9e999", "'now'", "'0000-01-01'"]
"""What is no date and no time."""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Ibis itself
@pytest.mark.parametrize(
    ("declared", "held", "odd"),
    [
        ("INTEGER", "20", ["'canary'", "''", "7.5", "x'ff'", "CAST(x'ff' AS TEXT)", "9e999", "'20abc'"]),
        ("REAL", "2.5", ["'canary'", "x'ff'", "CAST(x'ff' AS TEXT)", "9e999", "-9e999"]),
        ("BOOLEAN", "1", ["'canary'", "x'ff'", "9e999", "'1abc'"]),
        ("DATE", "'2024-01-31'", [*ODD_ON_SQLITE, "'2024-02-31'", "x'323032342d30312d3331'"]),
        ("TIMESTAMP", "'2024-01-31 20:00:00'", [*ODD_ON_SQLITE, "'2024-02-31 20:00'", "'2024-01-30 20:00:00.0000009'"]),
        ("DATETIME", "'2024-01-31T20:00:00.123456'", [*ODD_ON_SQLITE, "'2024-01-31 24:00'", "'2024-01-31+25:00'"]),
        ("NUMERIC", "2.5", ["'canary'", "''", "x'ff'", "CAST(x'ff' AS TEXT)", "9e999", "'20abc'"]),
        ("DECIMAL(10, 2)", "20", ["'canary'", "''", "x'ff'", "CAST(x'ff' AS TEXT)", "-9e999"]),
    ],
)
@pytest.mark.slow
def test_what_sqlite_stores_in_columns_of_other_types(declared: str, held: str, odd: list[str]) -> None:
    def made(odd: list[str]) -> Any:
        backend = ibis.sqlite.connect()
        backend.con.execute(f"CREATE TABLE people (value {declared}, person TEXT)")
        values = [(held, f"'{name}'") for name in "abc"] + [(value, str(name)) for name, value in enumerate(odd)]
        # Nor is the unit always text.
        people = [*values, (held, "x'ff'"), (held, "CAST(x'6eff' AS TEXT)")]
        for value, person in people:
            backend.con.execute(f"INSERT INTO people VALUES ({value}, {person})")
        return backend.table("people")

    dated = declared.startswith(("DATE", "TIME"))
    numbers: list[Question] = [Cells("value", 0, 100, 4), Bins("value", (0, 1, 100))]
    questions = [Dates("value", "day")] if dated else [] if declared == "BOOLEAN" else numbers
    for unit in (None, "person"):
        for question in [Values(("value",)), *questions]:
            found = tallied(made(odd), question, unit)
            assert found == tallied(made([]), question, unit)
            assert [number for _, number in found[1:]] == [5]


DAY, TIME = dt.date(2024, 1, 31), dt.datetime(2024, 1, 31)
UUID = "00000000-0000-0000-0000-00000000000a"
SPELLINGS: dict[tuple[str, str], tuple[list[str], dict[Any, int]]] = {
    ("sqlite", "BOOLEAN"): (["0", "1", "1.0", "'1'", "5", "-1", "'x'"], {True: 3, False: 1}),
    ("sqlite", "REAL"): (["0.0", "-0.0", "'-0'", "1", "1.0"], {0.0: 3, 1.0: 2}),
    ("sqlite", "DECIMAL(9, 2)"): (["1", "1.0", "'1.00'", "1.5", "'1.50'", "-0.0"], {"1": 3, "1.5": 2, "0": 1}),
    ("sqlite", "DATE"): (["'2024-01-31'", "'2024-01-31T00:00'", "' 2024-01-31'"], {DAY: 3}),
    ("sqlite", "TIMESTAMP"): (["'2024-01-31'", "'2024-01-31 00:00'", "'2024-01-31T01:00+01'"], {TIME: 3}),
    ("postgresql", "float8"): (["'-0'", "0", "'NaN'", "1"], {0.0: 2, 1.0: 1}),
    ("postgresql", "numeric(9, 2)"): (["1", "1.0", "1.00", "-0.0"], {"1.00": 3, "0.00": 1}),
    ("postgresql", "uuid"): ([f"'{UUID}'", f"'{UUID.upper()}'"], {UUID: 2}),
    ("postgresql", "boolean"): (["true", "'yes'", "false"], {True: 2, False: 1}),
    ("postgresql", "timestamptz"): (["'2024-01-31Z'", "'2024-01-31 01:00+01'", "'infinity'"], {TIME: 2}),
    ("postgresql", "char(5)"): (["'ab'", "'ab '", "'AB'"], {"ab": 2, "AB": 1}),
    ("mariadb", "BOOLEAN"): (["0", "1", "5"], {0: 1, 1: 1, 5: 1}),
    ("mariadb", "DOUBLE"): (["-0e0", "0", "1"], {0.0: 2, 1.0: 1}),
    ("mariadb", "DECIMAL(9, 2)"): (["1", "1.00", "-0.0"], {"1.00": 2, "0.00": 1}),
    ("mariadb", "UUID"): ([f"'{UUID}'", f"'{UUID.upper()}'"], {UUID: 2}),
    ("mariadb", "DATE"): (["'2024-01-31'", "'2024-00-00'", "'2024-01-00'", "'0000-00-00'", "'2024-02-31'"], {DAY: 1}),
    ("mariadb", "DATETIME(6)"): (["'2024-01-31'", "'2024-00-00'", "'2024-01-00 10:00'", "'2024-02-31'"], {TIME: 1}),
    ("mariadb", "LONGTEXT CHARACTER SET latin1"): (["'a'", "'A'", "'a '", "'a'"], {"a": 2, "A": 1, "a ": 1}),
    ("mariadb", "JSON"): (["'{}'", "'[]'", "'{}'"], {"{}": 2, "[]": 1}),
    ("duckdb", "DOUBLE"): (["'-0'", "0", "'NaN'", "1"], {0.0: 2, 1.0: 1}),
    ("duckdb", "DECIMAL(9, 2)"): (["1", "1.00", "-0.0"], {"1.00": 2, "0.00": 1}),
    ("duckdb", "BOOLEAN"): (["true", "1", "0"], {True: 2, False: 1}),
    ("duckdb", "TIMESTAMPTZ"): (["'2024-01-31 00:00Z'", "'2024-01-31 01:00+01'", "'infinity'"], {TIME: 2}),
    ("duckdb", "TIMESTAMP_NS"): (["'2024-01-31'", "'2024-01-31 00:00:00.000000001'"], {TIME: 2}),
    ("duckdb", "UUID"): ([f"'{UUID}'", f"'{UUID.upper()}'"], {UUID: 2}),
}
"""Types of databases, each with values that it spells, keeps or compares in several ways, and how they count."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Ibis itself
@pytest.mark.parametrize(("database", "declared"), SPELLINGS)
def test_no_bucket_comes_twice(database: str, declared: str, request: pytest.FixtureRequest) -> None:
    """After the charge, an answer that has a bucket twice would be refused."""
    values, expected = SPELLINGS[database, declared]
    execute, opened = on_database(database, request)
    execute(f"CREATE TABLE spellings (value {declared}, person INTEGER, flag INTEGER)")
    for number, value in enumerate(values):
        execute(f"INSERT INTO spellings VALUES ({value}, {number}, 7)")
    try:
        for unit, contributions in ((None, 1), ("person", 1), ("person", 3)):
            with Table(opened("spellings"), unit) as table:
                for question in (Values(("value",)), Values(("value", "flag"))):
                    buckets, counts = table._tally(question, contributions=contributions)
                    found = list(zip(buckets["value"].to_pylist(), counts.tolist(), strict=True))
                    assert dict(found) == expected and len(found) == len(expected)
                if isinstance(next(iter(expected)), dt.date):
                    weeks, _ = table._tally(Dates("value", "week"), contributions=contributions)
                    assert weeks["value"].to_pylist() == [dt.date(2024, 1, 29)]
        with Table(opened("spellings"), "value") as table:
            assert counted(table, Values(("flag",)))[7] >= len(expected)
    finally:
        execute("DROP TABLE spellings")


def on_database(name: str, request: pytest.FixtureRequest) -> tuple[Callable[[str], Any], Callable[[str], Any]]:
    """What executes a statement on a database, and what opens one of its tables."""
    if name == "postgresql":
        connection = request.getfixturevalue("postgresql_connection")
        return connection.execute, ibis.postgres.from_connection(connection).table
    if name == "mariadb":
        connection = request.getfixturevalue("mariadb_connection")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the server has no list of time zones
            backend = ibis.mysql.from_connection(connection)

        def execute(statement: str) -> None:
            with connection.cursor() as cursor:
                cursor.execute("SET sql_mode = 'ALLOW_INVALID_DATES'")
                cursor.execute(statement)

        return execute, backend.table
    backend = getattr(ibis, name).connect()
    return backend.con.execute, backend.table


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Ibis itself
@pytest.mark.parametrize(
    ("database", "declared", "value"),
    [
        ("postgresql", "numeric(50, 20)", "1.5"),
        ("mariadb", "DECIMAL(65, 20)", "1.5"),
    ],
)
def test_one_column_that_cannot_be_counted_leaves_its_table(
    database: str, declared: str, value: str, request: pytest.FixtureRequest
) -> None:
    execute, opened = on_database(database, request)
    execute(f"CREATE TABLE odd (value {declared}, person INTEGER)")
    try:
        for person in range(3):
            execute(f"INSERT INTO odd VALUES ({value} + {person} % 2, {person})")
        with Table(opened("odd")) as table:
            assert counted(table, Values(("person",))) == {0: 1, 1: 1, 2: 1}
            with pytest.raises(InvalidSetting, match="'value' is of a type that cannot be counted"):
                table.check(Values(("value",)))
        with Table(opened("odd"), "value") as table:
            assert counted(table, Bins("person", (0, 10))) == {0.0: 2}
    finally:
        execute("DROP TABLE odd")


@pytest.mark.parametrize("length", ["s", "ms", "us", "ns"])
@pytest.mark.slow
def test_units_that_are_durations(tmp_path: Path, length: str) -> None:
    def made(odd: int | None) -> pa.Table:
        persons = pa.array([1, 2, 3, 3, odd], pa.int64()).cast(pa.duration(length))
        return pa.table({"value": ["a"] * 5, "person": persons, "at": pa.array([1] * 5).cast(pa.timestamp("ms"))})

    def check(data: Callable[[int | None], Any], *columns: str) -> None:
        for odd, units in ((None, 3), (2**62, 4), (1 - 2**63, 4)):
            found = tallied(data(odd), Values(columns or ("value",)), "person")
            assert [number for _, number in found[1:]] == [units]

    def parquet(odd: int | None) -> str:
        return written(tmp_path, made(odd))

    check(made)
    check(lambda odd: made(odd).to_pandas())
    check(parquet)
    check(parquet, "value", "at")  # read by Arrow
    if length != "s":
        check(lambda odd: pl.from_arrow(made(odd)))
        check(lambda odd: pl.from_arrow(made(odd)).lazy())


@pytest.mark.slow
def test_objects_are_no_units_of_a_lazy_frame() -> None:
    messages = set()
    for odd in (None, "x", [1]):
        people = pl.DataFrame({"value": ["a"] * 4, "person": pl.Series(["1", "2", "3", odd], dtype=pl.Object)})
        assert tallied(people, Values(("value",)), "person")[1:] == [("a", 4 if odd == "x" else 3)]
        with pytest.raises(InvalidSetting) as caught:
            tallied(people.lazy(), Values(("value",)), "person")
        messages.add(str(caught.value))
    assert len(messages) == 1


@pytest.mark.parametrize(
    ("dtype", "persons"),
    [
        ("timedelta64[ns]", [pd.Timedelta(seconds=number) for number in range(4)]),
        ("timedelta64[s]", [pd.Timedelta(seconds=number) for number in range(4)]),
        (pd.ArrowDtype(pa.time64("us")), [dt.time(number) for number in range(4)]),
        (pd.ArrowDtype(pa.binary()), [b"1", b"2", b"3", b"4"]),
        (pd.ArrowDtype(pa.duration("s")), [dt.timedelta(number) for number in range(4)]),
        (pd.PeriodDtype("D"), [pd.Period(f"2024-01-0{number}", "D") for number in range(1, 5)]),
    ],
)
@pytest.mark.parametrize("odd", [None, "canary", [1], {}])
@pytest.mark.slow
def test_units_of_partitions_that_one_value_gave_another_type(dtype: Any, persons: list[Any], odd: Any) -> None:
    def frame(persons: list[Any]) -> pd.DataFrame:
        return pd.DataFrame({"value": ["a"] * len(persons), "person": pd.Series(persons, dtype=object)})

    expected = pd.DataFrame({"value": pd.Series([], dtype=object), "person": pd.Series([], dtype=dtype)})
    data = dd.from_map(frame, [persons[:1], [*persons[1:], odd]], meta=expected)
    found = tallied(data, Values(("value",)), "person")[1:]
    assert found == [("a", 5 if isinstance(persons[0], bytes) and odd is not None else 4)]  # Dask writes bytes as text


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Ibis itself
def test_spellings_of_one_time_on_sqlite() -> None:
    backend = ibis.sqlite.connect()
    backend.con.execute("CREATE TABLE people (value TIMESTAMP)")
    whole = ["2024-01-31 20:00:00", "2024-01-31T20:00", "2024-01-31 20:00:00.000000", "2024-01-31 21:00+01:00"]
    parts = ["2024-01-31 20:00:00.250000", "2024-01-31 20:00:00.25", "2024-01-31T20:00:00.2500009"]
    backend.con.executemany("INSERT INTO people VALUES (?)", [(text,) for text in whole + parts])
    found = dict(tallied(backend.table("people"), Values(("value",)))[1:])
    assert found == {dt.datetime(2024, 1, 31, 20): 4, dt.datetime(2024, 1, 31, 20, 0, 0, 250_000): 3}


def test_decimals_that_no_double_holds_on_postgresql(postgresql_url: str) -> None:
    odd = ["1e400", "-1e400", "1e-400", "'NaN'", "'Infinity'", "'-Infinity'"]
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE people (value numeric, person bigint)")
        for person, value in enumerate([*["20.5"] * 3, *["0"] * 4, *odd]):
            connection.execute(f"INSERT INTO people VALUES ({value}, {person})")
        table = ibis.postgres.from_connection(connection).table("people")
        for unit in (None, "person"):
            found = dict(tallied(table, Bins("value", (0, 10, 100)), unit)[1:])
            assert found == {0.0: 4, 10.0: 3}


@pytest.mark.slow
def test_objects_with_methods_of_their_own() -> None:
    odd = [Text("\ud800"), Leaving(), Interrupting("x"), Closing(1), Strange()]
    check(lambda odd: ["a", "a", "a", 7, *odd], odd, [Values(("value",))])
    column = np.array(["a", "a", "a", 7, *odd], dtype=object)
    assert tallied(pd.DataFrame({"value": column}), Values(("value",)))[1:] == [("a", 3)]
    people = pd.DataFrame({"value": ["b"] * 9, "person": column})
    people["person"] = people["person"].where(people.index > 2, people.index.astype(str))
    assert tallied(people, Values(("value",)), "person")[1:] == [("b", 4)]


def test_an_interrupt_stops_reading_objects() -> None:
    def values() -> Iterator[Any]:
        yield 7
        raise KeyboardInterrupt  # as in the caller's thread

    with pytest.raises(KeyboardInterrupt):
        spelled(values())


def test_a_panic_of_an_engine_is_an_error_without_its_message() -> None:
    class PanicException(BaseException):
        pass

    def panic() -> None:
        raise PanicException("canary")

    with pytest.raises(InvalidSetting) as caught:
        guarded("Polars", panic)
    assert "canary" not in str(caught.value)
    assert caught.value.__context__ is None

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        guarded("Polars", interrupt)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("held", "counted"),
    [("0x10", 0), (True, 0), (pd.Timestamp("1970-01-02"), 0), ("7", 3), (7.0, 3), (7, 3)],
    ids=["hexadecimal", "booleans", "times", "text", "floats", "whole numbers"],
)
def test_one_persons_value_does_not_change_how_a_partition_of_dask_is_read(held: Any, counted: int) -> None:
    """The column has whole numbers, says Dask. What its partitions have depends on what single people hold."""

    def frame(values: list[Any]) -> pd.DataFrame:
        return pd.DataFrame({"value": values})

    expected = [(7, counted)] if counted else []
    for odd in ([], ["abc"], [1.5], [None], [False], [2**70], [pd.Timestamp("2024-02-29")]):
        data = dd.from_map(frame, [[held] * 3 + odd], meta=frame([1]).astype("int64"), enforce_metadata=False)
        assert tallied(data, Values(("value",)))[1:] == expected


LONG, DECIMALS = Decimal("12345678901234567.89"), pd.ArrowDtype(pa.decimal128(20, 2))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("held", "dtype", "kind", "counted"),
    [
        (2.0**60, "float64", "int64", 2**60),
        (LONG, DECIMALS, DECIMALS, str(LONG)),
    ],
    ids=["floats", "decimals"],
)
def test_long_numbers_of_a_partition_of_dask_stay_what_they_are(held: Any, dtype: Any, kind: Any, counted: Any) -> None:
    """Beside a text that does not fit they are converted one by one, and must not go through a double's text."""

    def frame(odd: list[Any]) -> pd.DataFrame:
        return pd.DataFrame({"value": pd.Series([held] * 3 + odd, dtype=object if odd else dtype)})

    meta = pd.DataFrame({"value": pd.Series([], dtype=kind)})
    found = [
        tallied(dd.from_map(frame, [odd], meta=meta, enforce_metadata=False), Values(("value",)))[1:]
        for odd in ([], ["abc"])
    ]
    assert found[0] == found[1] == [(counted, 3)]
