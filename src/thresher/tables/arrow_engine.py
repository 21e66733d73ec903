"""Frames in memory: their columns as Arrow, by reference, counted by the embedded DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from numbers import Real
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from thresher.errors import InvalidSetting
from thresher.tables.column_keys import UNIT
from thresher.tables.column_kinds import MOST_DIGITS, Kind, kind_of_arrow
from thresher.tables.data_errors import NESTED, Fault, Numbered
from thresher.tables.duckdb_columns import cleaned
from thresher.tables.duckdb_connection import connect
from thresher.tables.duckdb_engine import RelationEngine
from thresher.tables.engine import renamed
from thresher.tables.error_guard import guarded, withheld
from thresher.tables.rows import LazyRows
from thresher.tables.time_zones import INSTANTS

_ROWS_A_TASK = 1 << 20


class ArrowEngine(RelationEngine):
    """Columns that are already in memory.

    `convert` gives one column as an Arrow array; it is called once for each column that is asked about, so that the
    others are never touched. `untyped` says which columns it gives as text because they have no public type, and
    `objects` gives such a column as it was.
    """

    samples_rows = True

    def __init__(
        self,
        names: Sequence[str],
        convert: Callable[[str], Any],
        *,
        untyped: Callable[[str], bool] = lambda _: False,
        objects: Callable[[str], Iterable[Any]] | None = None,
        threads: int | None = None,
    ) -> None:
        super().__init__(None, connect(threads))
        self._names = list(names)
        self._convert = convert
        self._untyped = untyped
        self._objects = objects
        self._columns: dict[str, pa.ChunkedArray] = {}

    def names(self) -> list[str] | None:
        """The columns' names."""
        return self._names

    def untyped(self, column: str) -> bool:
        """Whether a column holds Python objects."""
        return self._untyped(column)

    def column(self, name: str) -> pa.ChunkedArray:
        """A column as Arrow, of a type that DuckDB reads."""
        if name not in self._columns:
            self._columns[name] = withheld(
                lambda: readable(self._convert(name)),
                lambda _: InvalidSetting(
                    "data",
                    f"has a column {name!r} that Arrow could not read",
                    hint="Its message is withheld, since it may quote people's values. Cast the column to text, "
                    f"numbers, dates or times first: in pandas, data[{name!r}].astype(str).",
                ),
            )
        return self._columns[name]

    def _stored_kind(self, column: str) -> Kind | None:
        return "text" if self.untyped(column) else kind_of_arrow(self.column(column).type)

    def nested(self, column: str) -> bool:
        """Whether a column holds lists or structures."""
        return bool(pa.types.is_nested(self.column(column).type))

    def numbered(self, columns: Sequence[str]) -> Iterator[Numbered]:
        """All rows, numbered from 0."""
        texts = {name: pa.array(self.column(name).cast(pa.large_string()).to_pylist()) for name in columns}
        number = self.size() or 0
        faults = [
            Fault(place, name, NESTED)
            for name in columns
            if self._objects is not None and self.untyped(name)
            for place, (value, text) in enumerate(zip(self._objects(name), texts[name], strict=True))
            if not text.is_valid and not _is_null(value)
        ]
        yield Numbered("position", range(number), texts, faults, number)

    def seed(self, seed: float) -> None:
        """Fix the random numbers that DuckDB draws next, on one thread, by a number between -1 and 1."""
        self._own.execute("SELECT setseed(?)", [seed]).fetchall()

    def size(self) -> int | None:
        """How many rows there are."""
        return len(next(iter(self._columns.values()), None) or self.column(self._names[0]))

    def sampled(self, wanted: Sequence[str], toss: Callable[[int], NDArray[np.bool_]]) -> LazyRows:
        """These columns of a sample of the rows."""
        named = renamed(wanted)
        table, kinds = self._table(named | self._filter.named), self._kinds(wanted)
        mask = toss(table.num_rows)
        sample = guarded("Arrow", lambda: self._masked(table, mask))
        return guarded(
            self.name, lambda: cleaned(self._as_read(self._own.from_arrow(sample), named), kinds, self.time_zone)
        )

    def _stored(self, named: Mapping[str, str]) -> Any:
        return self._own.from_arrow(self._table(named))

    def _table(self, named: Mapping[str, str]) -> pa.Table:
        columns = {name: self.column(column) for name, column in named.items()}
        return pa.table({name: as_unit(column) if name == UNIT else column for name, column in columns.items()})

    def _masked(self, table: pa.Table, mask: NDArray[np.bool_]) -> pa.Table:
        """The rows that a mask keeps. Arrow filters in one thread, so each thread gets some of the rows."""
        kept = pa.array(mask)
        # Arrow cannot filter views of text, which DuckDB reads without a copy.
        layout = pa.schema(
            [
                field.with_type(pa.large_string()) if pa.types.is_string_view(field.type) else field
                for field in table.schema
            ]
        )

        def part(start: int) -> pa.Table:
            rows = table.slice(start, _ROWS_A_TASK)
            return rows.cast(layout).filter(kept.slice(start, _ROWS_A_TASK))

        with ThreadPoolExecutor(pa.cpu_count()) as pool:
            parts = list(pool.map(part, range(0, len(mask), _ROWS_A_TASK)))
        return pa.concat_tables(parts) if parts else table


def _is_null(value: Any) -> bool:
    """Whether a Python object stands for no value: None, NaN, or one of pandas' marks."""
    return (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, Real) and value != value)
    )


def readable(values: Any) -> pa.ChunkedArray:
    """An Arrow column in a type that DuckDB reads, without a copy where it reads the column's own type."""
    column = values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
    kind = column.type
    if pa.types.is_dictionary(kind) and kind_of_arrow(kind) != "text":
        return readable(column.cast(kind.value_type))
    if pa.types.is_float16(kind):
        return column.cast(pa.float32())
    if pa.types.is_decimal(kind) and not pa.types.is_decimal128(kind) and kind.precision <= MOST_DIGITS:
        return column.cast(pa.decimal128(kind.precision, kind.scale))
    if pa.types.is_date64(kind) or (pa.types.is_timestamp(kind) and kind.tz is not None and kind.unit in ("s", "ms")):
        return dated(column)
    return column


def as_unit(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column that tells units apart. Durations become whole numbers: DuckDB fails at one of too many seconds."""
    return column.cast(pa.int64()) if pa.types.is_duration(column.type) else column


def dated(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times in seconds or milliseconds that some calendar has, others as nulls: DuckDB fails at one that is too far."""
    microseconds = 1_000_000 if getattr(column.type, "unit", "ms") == "s" else 1_000
    numbers = column.cast(pa.int64())
    first, last = (pa.scalar(instant // microseconds) for instant in INSTANTS)
    inside = pc.and_(pc.greater_equal(numbers, first), pc.less_equal(numbers, last))
    return column if pc.all(inside).as_py() in (True, None) else pc.if_else(inside, column, None)
