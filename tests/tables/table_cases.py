"""What a table must count, one value at a time, by the evaluator that devices use."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from thresher.questions import Question
from thresher.tables import Table

Maker = Callable[[pa.Table], Any]
"""What turns an Arrow table into an engine's frame, or into a file."""


DECLARED = {
    pa.string(): "text",
    pa.int64(): "whole numbers",
    pa.float64(): "floats",
    pa.bool_(): "booleans",
    pa.date32(): "dates",
    pa.timestamp("us"): "times",
}


def opened(make: Maker, data: pa.Table, **settings: Any) -> Table:
    """A table of this data, with its types declared: files and columns of objects have none of their own."""
    return Table(make(data), types={field.name: DECLARED[field.type] for field in data.schema}, **settings)


HOSTILE_SETTINGS = ("SET default_collation = 'NOCASE.NOACCENT'", "SET TimeZone = 'Asia/Tokyo'")
"""What a caller's DuckDB session may say."""


def opened_by_ibis(backend: Any) -> Any:
    """The table "people" of an Ibis backend on DuckDB, which warns of a function that newer DuckDBs call otherwise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return backend.table("people")


def expected(table: pa.Table, question: Question) -> dict[Any, int]:
    columns = [table[name].to_pylist() for name in question.inputs]
    values = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
    found = Counter(question.bucket(value) for value in values)
    return {bucket: count for bucket, count in found.items() if bucket is not None}


def counted(table: Table, question: Question, *, at_least: int = 1) -> dict[Any, int]:
    return as_mapping(*table._tally(question, at_least=at_least))


def as_mapping(buckets: pa.Table, counts: np.ndarray) -> dict[Any, int]:
    columns = [column.to_pylist() for column in buckets.columns]
    keys = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, counts.tolist(), strict=True))


NOON = 1_706_702_400_000_000
"""On 31 January 2024, in microseconds since 1970, UTC."""


def tallied(data: Any, question: Question, unit: str | None = None) -> list[Any]:
    with Table(data, unit) as table:
        buckets, numbers = table._tally(question, at_least=3)
    return [buckets.schema, *zip(buckets.column(0).to_pylist(), numbers.tolist(), strict=True)]


def written(folder: Path, *tables: pa.Table) -> str:
    """Parquet files, a table each, as a pattern."""
    for number, table in enumerate(tables):
        pq.write_table(table, folder / f"{number}.parquet")
    return str(folder / "*.parquet")
