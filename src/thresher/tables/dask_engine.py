"""Dask frames: workers count their partitions with the embedded engine and exchange only Arrow tables of counts.

Partial counts are split by a hash of their keys, so that one task gets all counts of a key. That task drops those that
cannot be released before anything reaches the caller.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from dask.base import compute, persist
from dask.delayed import delayed

from thresher.questions import Question
from thresher.questions.question import NUMBERS
from thresher.questions.spelling import exact_text, read_float, read_whole
from thresher.tables.arrow_columns import as_unit, in_utf_8, readable
from thresher.tables.arrow_engine import ArrowEngine
from thresher.tables.column_keys import COUNT, Form, canonical, key_names, value_names
from thresher.tables.column_kinds import Kind, kind_of_arrow
from thresher.tables.duckdb_columns import chosen, collect, satisfying, text_read, unit_key
from thresher.tables.duckdb_connection import connected
from thresher.tables.duckdb_pairs import keys_of, new_seed, numbered, pairs, whole_values
from thresher.tables.engine import Engine, renamed
from thresher.tables.error_guard import guarded
from thresher.tables.objects import arrow_column, holds_objects, spelled
from thresher.tables.row_filters import RowFilter
from thresher.tables.rows import LazyRows, Rows

_MOST_SHARES = 32
"""The most tasks that keys are split into. The number of all tasks is this number times that of partitions."""


class DaskRows(Rows):
    """Partitions, as tasks that give Arrow tables in one form of rows; no unit is in two partitions."""

    def __init__(self, partitions: Sequence[Any], time_zone: str, form: Form = "values") -> None:
        self._partitions = partitions
        self._time_zone = time_zone
        self._form: Form = form

    def counts(self, question: Question, *, at_least: int = 1, most: int | None = None) -> pa.Table:
        """Keys and n of `column_keys.count`, no more than `most` + 1 rows of them."""

        def run() -> pa.Table:
            names = value_names(len(question.columns))
            partial = _task(_counted)
            by = ", ".join(key_names(question))
            tasks = [partial(part, question, names, self._time_zone, self._form, _seed()) for part in self._partitions]
            shares = _deal(tasks, by)
            merge = _task(_merged)
            merged = [merge(share, at_least, most) for share in shares]
            whole = pa.concat_tables(compute(*merged))  # type: ignore[no-untyped-call]
            return whole if most is None else whole.slice(0, most + 1)

        return guarded("Dask", run)

    def close(self) -> None:
        """Let go of the partitions, so that workers forget those that they keep."""
        self._partitions = ()


class DaskEngine(Engine):
    """A Dask data frame."""

    name = "Dask"

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self._types: dict[str, pa.DataType] = {}

    def names(self) -> list[str] | None:
        """The columns' names."""
        return [name for name in self._frame.columns if isinstance(name, str)]

    def _stored_kind(self, column: str) -> Kind | None:
        return kind_of_arrow(self._type(column))

    def untyped(self, column: str) -> bool:
        """Whether Dask knows no more of a column than "objects", or "categories" that it has not seen."""
        return _is_untyped(self._frame, column)

    def nested(self, column: str) -> bool:
        """Whether a column holds lists or structures."""
        return bool(pa.types.is_nested(self._type(column)))

    def _type(self, column: str) -> pa.DataType:
        """How a column's partitions are stored before anything is read."""
        if column not in self._types:
            self._types[column] = guarded(self.name, lambda: _arrow_type(self._frame, column))
        return self._types[column]

    def rows(self, wanted: Sequence[str]) -> DaskRows:
        """These columns, each row a unit."""
        return guarded(self.name, lambda: DaskRows(self._select(wanted), self.time_zone))

    def chosen(self, wanted: Sequence[str], unit: str) -> DaskRows:
        """These columns, one row a unit, kept by Dask."""

        def run() -> DaskRows:
            kinds, unit_kind = self._kinds(wanted), self.kind(unit)
            shares = _deal(self._select(wanted, unit), unit_key(unit_kind))
            choose = _task(_chosen)
            tasks = [choose(share, kinds, unit_kind, self.time_zone) for share in shares]
            return DaskRows(list(persist(*tasks)), self.time_zone)  # type: ignore[no-untyped-call]

        return guarded(self.name, run)

    def pairs(self, question: Question, unit: str, most: int) -> DaskRows:
        """Each unit in each of its buckets, at most `most` of them."""

        def run() -> DaskRows:
            tasks = self._of_units(_paired, question.columns, unit, question, most)
            return DaskRows(tasks, self.time_zone, "keys")

        return guarded(self.name, run)

    def several(self, wanted: Sequence[str], unit: str, most: int) -> DaskRows:
        """Each unit with its values, at most `most` of them, kept by Dask."""

        def run() -> DaskRows:
            tasks = self._of_units(_several, wanted, unit, most)
            return DaskRows(list(persist(*tasks)), self.time_zone, "units")  # type: ignore[no-untyped-call]

        return guarded(self.name, run)

    def _of_units(self, function: Callable[..., pa.Table], wanted: Sequence[str], unit: str, *more: Any) -> list[Any]:
        """Tasks that choose among values, each for all rows of some of the units."""
        kinds, unit_kind, seed = self._kinds(wanted), self.kind(unit), new_seed()
        shares = _deal(self._select(wanted, unit), unit_key(unit_kind))
        choose = _task(function)
        return [choose(share, kinds, unit_kind, self.time_zone, *more, seed) for share in shares]

    def _select(self, wanted: Sequence[str], unit: str | None = None) -> list[Any]:
        read = _task(_partition)
        named = renamed(wanted, unit) | self._filter.named
        columns = list(named.values())
        schema = pa.schema([(name, self._type(column)) for name, column in named.items()])
        kinds = {name: self._read[column] for name, column in renamed(wanted, unit).items() if column in self._read}
        dtypes = [self._frame._meta[column].dtype for column in columns]
        # One column may be wanted twice, as a value and as the unit.
        parts = self._frame[list(dict.fromkeys(columns))].to_delayed()
        return [
            read(part, columns, schema, dtypes, kinds | self._filter.read, self.time_zone, self._filter)
            for part in parts
        ]


def _task(function: Callable[..., Any], results: int | None = None) -> Callable[..., Any]:
    """A function as a task of Dask's. It is not marked as pure, since a random choice has another result each time."""
    task: Callable[..., Any] = delayed(function, nout=results, pure=False)
    return task


def _deal(parts: Sequence[Any], by: str) -> list[list[Any]]:
    """The parts' rows, split by a hash: for each share, the tasks that give its rows of every part."""
    number = min(len(parts), _MOST_SHARES)
    split = _task(_split, number)
    dealt = [split(part, by, number) for part in parts]
    return [[part[share] for part in dealt] for share in range(number)]


def _is_untyped(frame: Any, column: str) -> bool:
    dtype = frame._meta[column].dtype
    return holds_objects(dtype) or (hasattr(dtype, "categories") and not frame[column].cat.known)


def _arrow_type(frame: Any, column: str) -> pa.DataType:
    if _is_untyped(frame, column):
        return pa.large_string()
    found = readable(arrow_column(frame._meta[column])).type
    return found.value_type if pa.types.is_dictionary(found) else found


def _partition(
    frame: Any,
    wanted: list[str],
    schema: pa.Schema,
    dtypes: list[Any],
    kinds: dict[str, Kind],
    time_zone: str,
    rows: RowFilter,
) -> pa.Table:
    """The columns of a partition's rows that satisfy a filter, as Arrow of the same types in every partition.

    `kinds` says as what the text in some of them is read.
    """
    expected = zip(wanted, schema.types, dtypes, strict=True)
    stored = [as_unit(_stored(frame[column], kind, dtype)) for column, kind, dtype in expected]
    table = pa.table(stored, names=schema.names)
    if not kinds and not rows:
        return table
    with connected(threads=1) as connection:
        return collect(satisfying(text_read(connection.from_arrow(table), kinds, time_zone), rows, time_zone))


def _stored(column: Any, kind: pa.DataType, dtype: Any) -> pa.ChunkedArray:
    """A partition's column as Arrow of this type; `dtype` is what it is to Dask.

    A value that does not fit is no value. It may also have given its partition another type than Dask expects, as one
    text among whole numbers does; then the values are converted one by one.

    Guarantee: what becomes of a value does not depend on others. A partition is cast as a whole only between types of
    one family, where that gives each value what its text would.
    """
    if pa.types.is_large_string(kind):
        return _texts(column)
    if kind_of_arrow(kind) is None and not pa.types.is_integer(kind):
        return _converted(column, kind, dtype)
    try:
        found = readable(arrow_column(column))
        if _family(found.type) == _family(kind):
            return in_utf_8(found).cast(kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass
    texts = spelled(column, exact_text).to_pylist()
    return pa.chunked_array([pa.array([None if text is None else _fitting(text, kind) for text in texts], kind)])


def _texts(column: Any) -> pa.ChunkedArray:
    """A partition's column as text, which pandas may keep in Arrow: then it is not read as Python's."""
    found = None if holds_objects(column.dtype) else readable(arrow_column(column))
    if found is not None and _family(found.type) == "text":
        return in_utf_8(found).cast(pa.large_string())
    return spelled(column)


def _family(kind: pa.DataType) -> str | None:
    """Types between which a cast keeps values or fails. Of whole numbers also those that cannot be counted."""
    found = "whole numbers" if pa.types.is_integer(kind) else kind_of_arrow(kind)
    return "numbers" if found in NUMBERS else "dates" if found == "times" else found


def _converted(column: Any, kind: pa.DataType, dtype: Any) -> pa.ChunkedArray:
    """A column that tells units apart but cannot be counted, and has no text: durations, hours, periods, bytes.

    Where pandas cannot convert all of it, each half is converted by itself, down to the single value that does not fit.
    """
    try:
        return readable(arrow_column(column.astype(dtype))).cast(kind)
    except Exception:  # a value that cannot be converted, whatever it raises, is no unit
        if len(column) <= 1:
            return pa.chunked_array([pa.nulls(len(column), kind)])
    middle = len(column) // 2
    halves = [_converted(half, kind, dtype) for half in (column.iloc[:middle], column.iloc[middle:])]
    return pa.chunked_array([chunk for half in halves for chunk in half.chunks], kind)


def _fitting(text: str, kind: pa.DataType) -> Any:
    """The value of this type that a text spells; None if there is none."""
    try:
        return pa.scalar(_whole(text), kind) if pa.types.is_integer(kind) else pa.scalar(text).cast(kind)
    except (pa.ArrowException, ValueError, OverflowError):
        return None


def _whole(text: str) -> int | None:
    """A whole number, also as pandas writes a large float of which Dask has made text: 1e+18."""
    found, number = read_whole(text), read_float(text)
    return int(number) if found is None and number is not None and number % 1 == 0 else found


def _seed() -> float:
    return secrets.SystemRandom().uniform(-1, 1)


def _counted(
    table: pa.Table, question: Question, names: list[str], time_zone: str, form: Form, seed: float
) -> pa.Table:
    """A partition's keys and counts.

    The seed fixes the random numbers that a question needs: where a worker is lost and the task runs again, each unit
    has the same bucket as before, and none is counted in two.
    """
    if form != "values":
        with connected(threads=1) as connection:
            return canonical(LazyRows("DuckDB", connection.from_arrow(table), collect, form=form).counts(question))
    engine = ArrowEngine(names, table.column, threads=1)
    engine.time_zone = time_zone
    try:
        engine.seed(seed)
        return canonical(engine.rows(names).counts(question))
    finally:
        engine.close()


def _split(table: pa.Table, by: str, number: int) -> tuple[pa.Table, ...]:
    """A table's rows, split by a hash of some columns."""
    with connected(threads=1) as connection:
        hashed = connection.from_arrow(table).project(f"*, CAST(hash({by}) % {number} AS INTEGER) AS share")
        whole = collect(hashed)
    rows = whole.drop_columns(["share"])
    return tuple(rows.filter(pc.equal(whole["share"], share)) for share in range(number))


def _merged(tables: list[pa.Table], at_least: int, most: int | None) -> pa.Table:
    """The sums of partial counts that are `at_least`."""
    whole = pa.concat_tables(tables)
    names = [name for name in whole.column_names if name != COUNT]
    summed = whole.group_by(names).aggregate([(COUNT, "sum")]).rename_columns([*names, COUNT])
    reached = summed.filter(pc.greater_equal(summed[COUNT], at_least))
    return reached if most is None else reached.slice(0, most + 1)


def _chosen(tables: list[pa.Table], kinds: list[Kind], unit_kind: Kind | None, time_zone: str) -> pa.Table:
    """One row a unit, of all of the unit's rows."""
    with connected(threads=1) as connection:
        return collect(chosen(connection.from_arrow(pa.concat_tables(tables)), kinds, unit_kind, time_zone))


def _paired(
    tables: list[pa.Table],
    kinds: list[Kind],
    unit_kind: Kind | None,
    time_zone: str,
    question: Question,
    most: int,
    seed: int,
) -> pa.Table:
    """The buckets of units, at most so many of a unit, from all of their rows."""
    with connected(threads=1) as connection:
        rows = connection.from_arrow(pa.concat_tables(tables))
        return collect(keys_of(pairs(rows, question, kinds, unit_kind, time_zone, most, seed), question))


def _several(
    tables: list[pa.Table], kinds: list[Kind], unit_kind: Kind | None, time_zone: str, most: int, seed: int
) -> pa.Table:
    """Units with their values, at most so many of a unit, from all of their rows."""
    with connected(threads=1) as connection:
        rows = connection.from_arrow(pa.concat_tables(tables))
        return numbered(whole_values(rows, kinds, unit_kind, time_zone, most, seed))
