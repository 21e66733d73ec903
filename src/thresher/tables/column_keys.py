"""The column evaluator of questions: one set of narwhals expressions for every engine.

It reads cleaned columns (see `kinds`) called v0, v1, …, without nulls, and gives key columns k0, k1, … that are null
where a unit has no bucket. `buckets` turns counted keys into the buckets that `question.bucket` gives for single
values. Keys hold no NUL: some engines pass expressions on as SQL text, which cannot hold one, so the end of a prefix
is a key of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from thresher.questions import END, Below, Bins, Cells, Dates, Joint, Prefixes, Question

if TYPE_CHECKING:
    import narwhals as nw
    import pyarrow as pa

VALUE, KEY, COUNT, WEIGHT = "v", "k", "n", "w"


def value_names(number: int) -> list[str]:
    """What cleaned columns are called."""
    return [f"{VALUE}{index}" for index in range(number)]


def keys(question: Question) -> list[nw.Expr]:
    """The key columns of a question, called k0, k1, …, as expressions over v0, v1, …"""
    import narwhals as nw

    parts = question.parts if isinstance(question, Joint) else None
    if parts is not None:
        expressions = [_part(part, nw.col(f"{VALUE}{index}"))[0] for index, part in enumerate(parts)]
    elif len(question.columns) > 1:
        expressions = [nw.col(name) for name in value_names(len(question.columns))]
    else:
        expressions = _part(question, nw.col(f"{VALUE}0"))
    return [expression.alias(f"{KEY}{index}") for index, expression in enumerate(expressions)]


def _part(question: Any, value: nw.Expr) -> list[nw.Expr]:
    """The keys of a question of one column."""
    import narwhals as nw

    if isinstance(question, Bins):
        return [_bin(value.cast(nw.Float64), question.edges)]
    if isinstance(question, Dates):
        day = value.cast(nw.Date)
        if question.every == "week":
            return [_monday(day)]
        return [day if question.every == "day" else day.dt.truncate("1mo").cast(nw.Date)]
    if isinstance(question, Prefixes):
        return _prefix(value, question)
    if isinstance(question, Cells):
        return [_cell(value.cast(nw.Float64), question)]
    if isinstance(question, Below):
        return [value.cast(nw.Float64) < _double(question.split)]
    return [value]


def _monday(day: nw.Expr) -> nw.Expr:
    """The last Monday up to a day; narwhals cannot cut dates to weeks."""
    import narwhals as nw

    number = day.dt.weekday() % 7  # Sunday is 7, and on Spark 0
    monday = day
    for since in range(1, 7):
        monday = nw.when(number == (since + 1) % 7).then(day.dt.offset_by(f"-{since}d").cast(nw.Date)).otherwise(monday)
    return monday


def _double(number: float) -> nw.Expr:
    """A constant to its last bit: engines that are sent SQL would read the digits of a float as a decimal."""
    import narwhals as nw

    return nw.lit(repr(float(number))).cast(nw.Float64)


def _bin(number: nw.Expr, edges: Sequence[float]) -> nw.Expr:
    """A balanced tree of comparisons, so that its depth grows with the logarithm of the number of edges."""
    import narwhals as nw

    def within(first: int, last: int) -> nw.Expr:
        if last - first == 1:
            return _double(edges[first])
        middle = (first + last) // 2
        return nw.when(number < _double(edges[middle])).then(within(first, middle)).otherwise(within(middle, last))

    inside = (number >= _double(edges[0])) & (number < _double(edges[-1]))
    return nw.when(inside).then(within(0, len(edges) - 1))


def _prefix(text: nw.Expr, question: Prefixes) -> list[nw.Expr]:
    """The first characters, and whether the text ends within them."""
    import narwhals as nw

    length = text.str.len_chars()
    prefix, ends = text.str.head(question.length), length < question.length
    if not question.known:
        return [prefix, ends]
    # A parent with the mark of the end is complete; no text starts with one.
    open_parents = sorted(parent for parent in question.parents if END not in parent)
    if not open_parents:
        return [nw.when(length < 0).then(prefix), ends]
    extends = (length >= question.known) & text.str.head(question.known).is_in(open_parents)
    return [nw.when(extends).then(prefix), ends]


def _cell(number: nw.Expr, question: Cells) -> nw.Expr:
    """The operations of `Cells.bucket`, in its order, so that doubles are rounded alike."""
    import narwhals as nw

    lower, upper = _double(question.lower), _double(question.upper)
    inside = nw.when(number < lower).then(lower).otherwise(nw.when(number > upper).then(upper).otherwise(number))
    # A column, not a constant: some engines multiply by a constant's reciprocal instead of dividing.
    width = nw.when(number == number).then(_double(question.upper - question.lower))
    position = ((inside - lower) * _double(question.cells) / width).floor()
    last = _double(question.cells - 1)
    return nw.when(position > last).then(last).otherwise(position).cast(nw.Int64)


def _may_lack_a_bucket(question: Any) -> bool:
    """Whether a value can have no bucket."""
    if isinstance(question, Joint):
        return any(_may_lack_a_bucket(part) for part in question.parts)
    return isinstance(question, Bins) or (isinstance(question, Prefixes) and question.known > 0)


def count(frame: nw.LazyFrame[Any], question: Question, *, at_least: int = 1, weighted: bool) -> nw.LazyFrame[Any]:
    """Keys with n, how many units have them, where that is `at_least`; all of it runs in the engine.

    A weighted frame has a column w that says for how many units a row stands.
    """
    import narwhals as nw

    expressions = keys(question)
    names = [f"{KEY}{index}" for index in range(len(expressions))]
    weights = [nw.col(WEIGHT)] if weighted else []
    size = nw.col(WEIGHT).sum() if weighted else nw.len()
    keyed = frame.select(*expressions, *weights)
    # Only where it is needed: some engines would clean text once more, row by row, to see whether it is null.
    answered = keyed.drop_nulls(names) if _may_lack_a_bucket(question) else keyed
    counted = answered.group_by(names).agg(size.cast(nw.Int64).alias(COUNT))
    return counted.filter(nw.col(COUNT) >= at_least) if at_least > 1 else counted


def buckets(counted: pa.Table, question: Question) -> tuple[pa.Table, NDArray[np.int64]]:
    """Buckets, a column for each of the question's and of the same types on every engine, and their counts."""
    import pyarrow as pa
    import pyarrow.compute as pc

    table = canonical(counted)
    if isinstance(question, Prefixes):
        ended = pc.binary_join_element_wise(table["k0"], pa.scalar(END), "")
        arrays = [pc.if_else(table["k1"], ended, table["k0"])]
    else:
        arrays = [table[f"{KEY}{index}"] for index in range(len(question.columns))]
    return pa.table(arrays, names=list(question.columns)), table[COUNT].to_numpy()


def nothing(question: Question) -> pa.Table:
    """The keys and counts of a question that nobody answers."""
    import pyarrow as pa

    stored = {Bins: pa.float64(), Dates: pa.date32(), Cells: pa.int64(), Below: pa.bool_()}
    parts = question.parts if isinstance(question, Joint) else (question,) * len(question.columns)
    kinds = [stored.get(type(part), pa.string()) for part in parts]
    if isinstance(question, Prefixes):
        kinds.append(pa.bool_())
    names = [f"{KEY}{index}" for index in range(len(kinds))]
    return pa.schema([*zip(names, kinds, strict=True), (COUNT, pa.int64())]).empty_table()


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
