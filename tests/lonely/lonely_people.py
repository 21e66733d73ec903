"""Six hundred unremarkable people and one who alone holds a value, in every form in which data comes.

`FILES`, `OBJECTS` and `TYPED` are the forms. Each takes the people's rows and gives what a verb is asked with. In files
and objects the lonely person's row may hold anything; a typed form has a schema, and there the lonely value is of its
column's type. `UNITS` are the types that the column of units may have there.
"""

from __future__ import annotations

import csv
import datetime as dt
import io
import itertools
import json
import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from hostile_values import ABSENT, LONG_TEXT, TEXT_EXAMPLES, made, texts
from hypothesis import strategies as st

Row = dict[str, Any]

COLUMNS = ("user", "word", "age", "share", "day", "at", "price", "note")
TYPES = {
    "user": pa.int64(),
    "word": pa.string(),
    "age": pa.int64(),
    "share": pa.float64(),
    "day": pa.date32(),
    "at": pa.timestamp("us"),
    "price": pa.decimal128(20, 2),
    "note": pa.string(),
}


def person(number: int) -> Row:
    many = number % 5 < 3
    return {
        "user": number,
        "word": "paris" if many else "lyon",
        "age": 30 if many else 41,
        "share": 0.25 if many else 0.75,
        "day": dt.date(2024, 1, 31) if many else dt.date(2024, 3, 1),
        "at": dt.datetime(2024, 1, 31, 20) if many else dt.datetime(2024, 3, 1),
        "price": Decimal("1.50") if many else Decimal("20.00"),
        "note": "x",
    }


PEOPLE = [person(number) for number in range(600)]
NOTHING: Row = {**dict.fromkeys(COLUMNS), "user": 600}


def with_lonely(row: Row, place: int) -> list[Row]:
    return [*PEOPLE[:place], row, *PEOPLE[place:]]


# Text files: the lonely person may hold anything that their format can say.


def _as_field(value: Any) -> str:
    if value is None or value is ABSENT:
        return ""
    return value if isinstance(value, str) else str(value)


def _delimited(delimiter: str) -> Callable[[list[Row], Path], Path]:
    def write(rows: list[Row], path: Path) -> Path:
        text = io.StringIO()
        writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows([[_as_field(row[name]) for name in COLUMNS] for row in rows])
        # Halves of surrogate pairs become bytes that are not UTF-8.
        path.write_bytes(text.getvalue().encode("utf-8", "surrogatepass"))
        return path

    return write


def _json_lines(rows: list[Row], path: Path) -> Path:
    lines = []
    for row in rows:
        held = {name: value for name, value in row.items() if value is not ABSENT}
        lines.append(json.dumps(held, default=str) + "\n")
    path.write_text("".join(lines))
    return path


def _parquet(rows: list[Row], path: Path) -> Path:
    pq.write_table(as_arrow(rows), path)
    return path


# Python objects.


def _objects(rows: list[Row]) -> Any:
    import pandas as pd

    columns = {name: [None if row[name] is ABSENT else row[name] for row in rows] for name in COLUMNS}
    return pd.DataFrame({name: pd.Series(held, dtype=object) for name, held in columns.items()})


def _dask_objects(rows: list[Row]) -> Any:
    import dask
    import dask.dataframe as dd

    with dask.config.set({"dataframe.convert-string": False}):
        return dd.from_pandas(_objects(rows), npartitions=2)


def _polars_objects(rows: list[Row]) -> Any:
    import polars as pl

    columns = {name: [None if row[name] is ABSENT else row[name] for row in rows] for name in COLUMNS}
    return pl.DataFrame({name: pl.Series(name, held, dtype=pl.Object) for name, held in columns.items()})


# Typed forms.


def as_arrow(rows: list[Row]) -> pa.Table:
    """The lonely person's dates and times may be counted days or microseconds that no calendar of Python's has."""
    columns = []
    unit = next(type(row["user"]) for row in rows if row["note"] is not None)  # anybody but the lonely person
    for name, kind in (TYPES | {"user": UNITS[unit][0]}).items():
        held = [row[name] for row in rows]
        if name in ("day", "at"):
            stored = pa.int32() if name == "day" else pa.int64()
            usual = pa.array([None if isinstance(value, int) else value for value in held], kind).cast(stored)
            numbers = [
                value if isinstance(value, int) else number
                for value, number in zip(held, usual.to_pylist(), strict=True)
            ]
            columns.append(pa.array(numbers, stored).cast(kind))
        else:
            columns.append(pa.array(held, kind))
    return pa.table(columns, names=list(TYPES))


def _pandas(rows: list[Row]) -> Any:
    import pandas as pd

    return as_arrow(rows).to_pandas(types_mapper=pd.ArrowDtype)


def _polars(rows: list[Row]) -> Any:
    import polars as pl

    return pl.from_arrow(as_arrow(rows))


def _duckdb(rows: list[Row]) -> Any:
    """Types that Arrow does not have: whole numbers of 128 bits, infinite dates."""
    relation = duckdb.connect().from_arrow(as_arrow(rows))
    lonely = "WHEN note IS NULL"
    others = [name for name in COLUMNS if name not in ("age", "day")]
    return relation.project(
        ", ".join(f'"{name}"' for name in others)
        + f", CASE {lonely} AND age < 0 THEN 170141183460469231731687303715884105727 ELSE age::HUGEINT END AS age"
        + f", CASE {lonely} AND day < DATE '1900-01-01' THEN '-infinity'::DATE ELSE day END AS day"
    )


def _collated(rows: list[Row]) -> Any:
    """Text whose column's collation holds other spellings for the same."""
    others = ", ".join(f'"{name}"' for name in COLUMNS if name != "word")
    return duckdb.connect().from_arrow(as_arrow(rows)).project(f"{others}, word COLLATE NOCASE AS word")


def _ibis(rows: list[Row]) -> Any:
    import ibis

    return ibis.memtable(as_arrow(rows))


def _dask(rows: list[Row]) -> Any:
    import dask.dataframe as dd

    return dd.from_pandas(_pandas(rows), npartitions=2)


def spark_frames(session: Any) -> Maker:
    """Frames of Spark whose text has a collation that holds other spellings for the same."""

    def make(rows: list[Row], folder: Path) -> Any:
        frame = session.read.parquet(str(TYPED["parquet"](rows, folder)))
        texts = [field.name for field in frame.schema if field.dataType.typeName() == "string"]
        return frame.selectExpr(
            *[f"collate(`{name}`, 'UTF8_LCASE') AS `{name}`" if name in texts else f"`{name}`" for name in COLUMNS]
        )

    return make


Maker = Callable[[list[Row], Path], Any]
_numbers = itertools.count()


def _file(ending: str, write: Callable[[list[Row], Path], Path]) -> Maker:
    """Files of one name: what names it may be in a message."""

    def make(rows: list[Row], folder: Path) -> Path:
        place = folder / str(next(_numbers))
        place.mkdir()
        return write(rows, place / f"people.{ending}")

    return make


def _frame(make: Callable[[list[Row]], Any]) -> Maker:
    return lambda rows, _: make(rows)


FILES: dict[str, Maker] = {
    "csv": _file("csv", _delimited(",")),
    "tsv": _file("tsv", _delimited("\t")),
    "jsonl": _file("jsonl", _json_lines),
}
OBJECTS: dict[str, Maker] = {
    "pandas objects": _frame(_objects),
    "polars objects": _frame(_polars_objects),
    "dask objects": _frame(_dask_objects),
}
TYPED: dict[str, Maker] = {
    "parquet": _file("parquet", _parquet),
    "arrow": _frame(as_arrow),
    "pandas": _frame(_pandas),
    "polars": _frame(_polars),
    "polars lazy": _frame(lambda rows: _polars(rows).lazy()),
    "duckdb": _frame(_duckdb),
    "duckdb collated": _frame(_collated),
    "ibis": _frame(_ibis),
    "dask": _frame(_dask),
}


MINUTE = dt.timedelta(minutes=1)
UNITS: dict[type, tuple[pa.DataType, Callable[[int], Any], st.SearchStrategy[Any]]] = {
    int: (pa.int64(), lambda number: number, st.integers(-(2**63), 2**63 - 1)),
    str: (
        pa.string(),
        lambda number: f"somebody {number}",
        st.one_of(st.sampled_from([*TEXT_EXAMPLES, LONG_TEXT, "Somebody 7", "somebody 7 "]), texts(long=False)),
    ),
    float: (
        pa.float64(),
        lambda number: number + 0.5,
        st.one_of(st.sampled_from([math.inf, -math.inf, math.nan, -0.0, 5e-324]), st.floats()),
    ),
    Decimal: (pa.decimal128(20, 2), lambda number: Decimal(number), st.decimals(-(10**17), 10**17, places=2)),
    dt.date: (pa.date32(), lambda number: dt.date(2000, 1, 1) + dt.timedelta(number), st.dates()),
    dt.datetime: (
        pa.timestamp("us"),
        lambda number: dt.datetime(2000, 1, 1, number % 24, number // 24),
        st.datetimes(),
    ),
}
"""The types that units may have, each with its Arrow type, everybody's units and a lonely person's."""


def with_units(rows: list[Row], kind: type) -> list[Row]:
    """The same people with units of another type. The lonely person's row is left as it is."""
    unit = UNITS[kind][1]
    return [row if row["note"] is None else {**row, "user": unit(row["user"])} for row in rows]


def typed_values(column: str) -> st.SearchStrategy[Any]:
    """Lonely values of a column's own type, and none."""
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "word": st.one_of(st.sampled_from([*TEXT_EXAMPLES, LONG_TEXT]), texts(long=False)),
        "age": st.one_of(st.sampled_from([0, -1, 2**63 - 1, -(2**63), 31, 10**18]), st.integers(-(2**63), 2**63 - 1)),
        "share": st.one_of(st.sampled_from([math.inf, -math.inf, math.nan, -0.0, 5e-324, 1e308]), st.floats()),
        "day": st.one_of(st.dates(), st.integers(-(2**31), 2**31 - 1)),
        "at": st.one_of(st.datetimes(), st.integers(-(2**63), 2**63 - 1)),
        "price": st.decimals(-(10**17), 10**17, places=2),
    }
    return st.one_of(st.none(), kinds[column])


def lonely(column: str, value: Any, *, key: Any = None) -> Row:
    """The row of somebody who holds this value; with `key`, it also has a field that nobody else has."""
    row = {**NOTHING, column: made(value)}
    return row if key is None else {**row, made(key): made(value)}
