"""Counts a question's buckets over columns: one set of narwhals expressions for every engine.

It reads cleaned columns (see `column_kinds`) called v0, v1, …, without nulls. The question gives key columns
k0, k1, …, which are null where a unit has no bucket. A question that is randomised also reads d, a uniform random
number in [0, 1) for each unit. `buckets` turns counted keys into the buckets that
`question.bucket` gives for single values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from thresher.questions import Question
from thresher.questions.question import draw_for

if TYPE_CHECKING:
    import narwhals as nw
    import pyarrow as pa

VALUE, UNIT, KEY, COUNT, WEIGHT, DRAW = "v", "u", "k", "n", "w", "d"
"""The names of columns while they are counted; values and keys have a number too."""

Form: TypeAlias = Literal["values", "units", "keys"]
"""What rows hold: values, each row a unit; values with u, a unit in several rows; or keys, each a bucket of a unit."""


def value_names(number: int) -> list[str]:
    """The names of cleaned columns: v0, v1, …"""
    return [f"{VALUE}{index}" for index in range(number)]


def keys(question: Question) -> list[nw.Expr]:
    """The key columns of a question, called k0, k1, …, as expressions over v0, v1, …"""
    import narwhals as nw

    parts = zip(question.parts, value_names(len(question.parts)), strict=True)
    expressions = [key for part, name in parts for key in part.keys(nw.col(name), *draw_for(part, nw.col(DRAW)))]
    return [expression.alias(f"{KEY}{index}") for index, expression in enumerate(expressions)]


def key_names(question: Question) -> list[str]:
    """The names of a question's key columns: k0, k1, …"""
    return [f"{KEY}{index}" for index in range(sum(len(part.key_types) for part in question.parts))]


def pairs(frame: nw.LazyFrame[Any], question: Question) -> nw.LazyFrame[Any]:
    """Each unit u with each of its buckets, once, as u, k0, k1, …; `frame` has v0, v1, … and u in any number of rows.

    Guarantee: values are mapped to the question's buckets first, and duplicates are removed after that.
    Edge cases: rows without a unit or without a bucket are left out.
    """
    import narwhals as nw

    columns = [UNIT, *key_names(question)]
    keyed = frame.select(nw.col(UNIT), *keys(question)).drop_nulls(columns)
    return keyed.group_by(columns).agg(nw.len().alias(COUNT)).select(*columns)


def count(
    frame: nw.LazyFrame[Any], question: Question, *, at_least: int = 1, weighted: bool = False, form: Form = "values"
) -> nw.LazyFrame[Any]:
    """Keys with n, the number of units that have them, where n is `at_least`; the engine does all of it.

    A weighted frame of values has a column w, the number of units that a row stands for.
    """
    import narwhals as nw

    names = key_names(question)
    size = nw.col(WEIGHT).sum() if weighted else nw.len()
    if form == "values":
        answered = frame.select(*keys(question), *([nw.col(WEIGHT)] if weighted else []))
        # Only where needed: to test for nulls, some engines would clean text once more, row by row.
        if any(part.lacks_buckets for part in question.parts):
            answered = answered.drop_nulls(names)
    else:
        answered = frame if form == "keys" else pairs(frame, question)
    counted = answered.group_by(names).agg(size.cast(nw.Int64).alias(COUNT))
    return counted.filter(nw.col(COUNT) >= at_least) if at_least > 1 else counted


def buckets(counted: pa.Table, question: Question) -> tuple[pa.Table, NDArray[np.int64]]:
    """Buckets, a column for each of the question's and of the same types on every engine, and their counts."""
    import pyarrow as pa

    table = canonical(counted)
    arrays, first = [], 0
    for part in question.parts:
        last = first + len(part.key_types)
        arrays.append(part.from_keys([table[f"{KEY}{index}"] for index in range(first, last)]))
        first = last
    return pa.table(arrays, names=list(question.columns)), table[COUNT].to_numpy()


def nothing(question: Question) -> pa.Table:
    """The keys and counts of a question that no unit answers: an empty table."""
    import pyarrow as pa

    types = [pa.type_for_alias(kind) for part in question.parts for kind in part.key_types]
    keys = [(f"{KEY}{index}", kind) for index, kind in enumerate(types)]
    return pa.schema([*keys, (COUNT, pa.int64())]).empty_table()


def canonical(table: pa.Table) -> pa.Table:
    """The same rows with one Arrow type for each kind of column, whatever the engine's own choice is."""
    import pyarrow as pa

    def stored(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
            return pa.string()
        if pa.types.is_timestamp(kind):
            return pa.timestamp("us")
        return pa.int64() if pa.types.is_integer(kind) else kind

    return table.cast(pa.schema([(field.name, stored(field.type)) for field in table.schema]))
