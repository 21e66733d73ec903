"""Frames in memory: their columns as Arrow, by reference, counted by the embedded DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from thresher.tables.column_keys import UNIT, value_names
from thresher.tables.column_kinds import Kind, kind_of_arrow
from thresher.tables.duckdb_columns import chosen, cleaned, collect
from thresher.tables.duckdb_connection import connect, disconnect
from thresher.tables.engine import Engine
from thresher.tables.error_guard import guarded
from thresher.tables.rows import LazyRows
from thresher.tables.text_reading import read_column
from thresher.tables.time_zones import FIRST_DAY, LAST_DAY

if TYPE_CHECKING:
    import pyarrow as pa


_ROWS_A_TASK = 1 << 20


class ArrowEngine(Engine):
    """Columns that are already in memory.

    `convert` gives one column as an Arrow array; it is called once for each column that is asked about, so that the
    others are never touched. `untyped` says which columns it gives as text because they have no public type.
    """

    name = "DuckDB"
    samples_rows = True

    def __init__(
        self,
        names: Sequence[str],
        convert: Callable[[str], Any],
        *,
        untyped: Callable[[str], bool] = lambda _: False,
        threads: int | None = None,
    ) -> None:
        self._names = list(names)
        self._convert = convert
        self._untyped = untyped
        self._threads = threads
        self._connection = connect(threads)
        self._columns: dict[tuple[str, Kind | None], pa.ChunkedArray] = {}

    def names(self) -> list[str] | None:
        """The columns' names."""
        return self._names

    def untyped(self, column: str) -> bool:
        """Whether a column holds Python objects."""
        return self._untyped(column)

    def column(self, name: str, kind: Kind | None = None) -> pa.ChunkedArray:
        """A column as Arrow, of a type that DuckDB reads; with a kind, the column's text read as this kind."""

        def convert() -> pa.ChunkedArray:
            if kind is None:
                return readable(self._convert(name))
            return read_column(self.column(name), kind, self._threads, self.time_zone)

        if (name, kind) not in self._columns:
            self._columns[name, kind] = guarded("Arrow", convert)
        return self._columns[name, kind]

    def _stored_kind(self, column: str) -> Kind | None:
        return "text" if self.untyped(column) else kind_of_arrow(self.column(column).type)

    def nested(self, column: str) -> bool:
        """Whether a column holds lists or structures."""
        import pyarrow as pa

        return bool(pa.types.is_nested(self.column(column).type))

    def rows(self, wanted: Sequence[str]) -> LazyRows:
        """These columns, each row a unit."""
        return self._cleaned(wanted, self._table(wanted))

    def sampled(self, wanted: Sequence[str], toss: Callable[[int], NDArray[np.bool_]]) -> LazyRows:
        """These columns of a sample of the rows."""
        table = self._table(wanted)
        mask = toss(table.num_rows)
        return self._cleaned(wanted, guarded("Arrow", lambda: self._masked(table, mask)))

    def chosen(self, wanted: Sequence[str], unit: str) -> LazyRows:
        """These columns, one row a unit, kept in memory."""

        def run() -> LazyRows:
            table = self._table(wanted).append_column(UNIT, as_unit(self._read_column(unit)))
            kinds = self._kinds(wanted)
            one_each = chosen(self._connection.from_arrow(table), kinds, self.kind(unit), self.time_zone)
            return cleaned(self._connection.from_arrow(collect(one_each)), kinds)

        return guarded(self.name, run)

    def close(self) -> None:
        """Close the connection; the columns are the caller's."""
        disconnect(self._connection)

    def _read_column(self, name: str) -> pa.ChunkedArray:
        return self.column(name, self._read.get(name))

    def _table(self, wanted: Sequence[str]) -> pa.Table:
        import pyarrow as pa

        return pa.table([self._read_column(name) for name in wanted], names=value_names(len(wanted)))

    def _masked(self, table: pa.Table, mask: NDArray[np.bool_]) -> pa.Table:
        """The rows that a mask keeps. Arrow filters in one thread, so each thread gets some of the rows."""
        import pyarrow as pa

        kept = pa.array(mask)

        def part(start: int) -> pa.Table:
            return table.slice(start, _ROWS_A_TASK).filter(kept.slice(start, _ROWS_A_TASK))

        with ThreadPoolExecutor(pa.cpu_count()) as pool:
            parts = list(pool.map(part, range(0, len(mask), _ROWS_A_TASK)))
        return pa.concat_tables(parts) if parts else table

    def _cleaned(self, wanted: Sequence[str], table: pa.Table) -> LazyRows:
        kinds = self._kinds(wanted)
        return guarded(self.name, lambda: cleaned(self._connection.from_arrow(table), kinds, self.time_zone))


def readable(values: Any) -> pa.ChunkedArray:
    """An Arrow column in a type that DuckDB reads, without a copy where it reads the column's own type."""
    import pyarrow as pa

    column = values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
    kind = column.type
    if pa.types.is_dictionary(kind) and kind_of_arrow(kind) != "text":
        return readable(column.cast(kind.value_type))
    if pa.types.is_float16(kind):
        return column.cast(pa.float32())
    if pa.types.is_date64(kind) or (pa.types.is_timestamp(kind) and kind.tz is not None and kind.unit in ("s", "ms")):
        return dated(column)
    return column


def as_unit(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column that tells units apart. Durations become whole numbers: DuckDB fails at one of too many seconds."""
    import pyarrow as pa

    return column.cast(pa.int64()) if pa.types.is_duration(column.type) else column


def dated(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times of the years 1 to 9999, others as nulls: DuckDB fails at a time that it cannot hold."""
    import pyarrow as pa
    import pyarrow.compute as pc

    a_day = 86_400 if getattr(column.type, "unit", "ms") == "s" else 86_400_000
    numbers = column.cast(pa.int64())
    first, last = pa.scalar(FIRST_DAY * a_day), pa.scalar((LAST_DAY + 1) * a_day - 1)
    inside = pc.and_(pc.greater_equal(numbers, first), pc.less_equal(numbers, last))
    return column if pc.all(inside).as_py() in (True, None) else pc.if_else(inside, column, None)
