"""Frames in memory: their columns as Arrow, by reference, counted by the embedded DuckDB."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from thresher.tables.column_keys import value_names
from thresher.tables.column_kinds import Kind, kind_of_arrow
from thresher.tables.duckdb_engine import chosen, cleaned, connect, disconnect
from thresher.tables.error_guard import guarded
from thresher.tables.objects import spelled
from thresher.tables.rows import LazyRows
from thresher.tables.text_reading import read_column
from thresher.tables.time_zones import UTC

if TYPE_CHECKING:
    import pyarrow as pa


_ROWS_A_TASK = 1 << 20


class ArrowEngine:
    """Columns that are already in memory.

    `read` gives one column as an Arrow array; it is called once for each column that is asked about, so that the
    others are never touched. `untyped` says of which columns it gives text because they have no public type.
    """

    name = "DuckDB"

    def __init__(
        self,
        names: Sequence[str],
        read: Callable[[str], Any],
        *,
        untyped: Callable[[str], bool] = lambda _: False,
        threads: int | None = None,
        connection: Any = None,
    ) -> None:
        self._names = list(names)
        self._read = read
        self._untyped = untyped
        self._threads = threads
        self._connection = connect(threads) if connection is None else connection
        self._columns: dict[str, pa.ChunkedArray] = {}
        self._time_zone = UTC

    def names(self) -> list[str] | None:
        """The columns' names."""
        return self._names

    def untyped(self, column: str) -> bool:
        """Whether a column holds Python objects."""
        return self._untyped(column)

    def reading(self, kinds: Mapping[str, Kind]) -> ArrowEngine:
        """The same rows, with these columns of text read as these kinds, in memory."""

        def read(name: str) -> pa.ChunkedArray:
            column = self.column(name)
            return read_column(column, kinds[name], self._threads, self._time_zone) if name in kinds else column

        engine = ArrowEngine(self._names, read, threads=self._threads, connection=self._connection)
        return engine.on_clock(self._time_zone)

    def on_clock(self, time_zone: str) -> ArrowEngine:
        """The same rows, with instants on the wall clock of this zone."""
        engine = copy.copy(self)
        engine._time_zone = time_zone
        return engine

    def column(self, name: str) -> pa.ChunkedArray:
        """A column as Arrow, of a type that DuckDB reads."""
        if name not in self._columns:
            self._columns[name] = guarded("Arrow", lambda: readable(self._read(name)))
        return self._columns[name]

    def kind(self, column: str) -> Kind | None:
        """What a column holds."""
        return "text" if self._untyped(column) else kind_of_arrow(self.column(column).type)

    def nested(self, column: str) -> bool:
        """Whether a column holds lists or structures."""
        import pyarrow as pa

        return bool(pa.types.is_nested(self.column(column).type))

    def rows(self, wanted: Sequence[str]) -> LazyRows:
        """These columns, each row a unit."""
        return self._cleaned(wanted, self._table(wanted))

    def number_of_rows(self, wanted: Sequence[str]) -> int:
        """How many rows a mask for `sampled` must have."""
        return len(self.column(wanted[0]))

    def sampled(self, wanted: Sequence[str], mask: NDArray[np.bool_]) -> LazyRows:
        """The rows that a mask keeps."""
        return self._cleaned(wanted, guarded("Arrow", lambda: self._masked(wanted, mask)))

    def chosen(self, wanted: Sequence[str], unit: str) -> LazyRows:
        """These columns, one row a unit, kept in memory."""

        def run() -> LazyRows:
            table = self._table(wanted).append_column("u", as_unit(self.column(unit)))
            kinds = self._kinds(wanted)
            one_each = chosen(self._connection.from_arrow(table), kinds, self.kind(unit), self._time_zone)
            return cleaned(self._connection.from_arrow(one_each.to_arrow_table()), kinds)

        return guarded(self.name, run)

    def close(self) -> None:
        """Close the connection; the columns are the caller's."""
        disconnect(self._connection)

    def _table(self, wanted: Sequence[str]) -> pa.Table:
        import pyarrow as pa

        return pa.table([self.column(name) for name in wanted], names=value_names(len(wanted)))

    def _masked(self, wanted: Sequence[str], mask: NDArray[np.bool_]) -> pa.Table:
        """The rows that a mask keeps; Arrow filters on one processor only, so each gets some of the rows."""
        import pyarrow as pa

        table, kept = self._table(wanted), pa.array(mask)

        def part(start: int) -> pa.Table:
            return table.slice(start, _ROWS_A_TASK).filter(kept.slice(start, _ROWS_A_TASK))

        with ThreadPoolExecutor(pa.cpu_count()) as pool:
            parts = list(pool.map(part, range(0, len(mask), _ROWS_A_TASK)))
        return pa.concat_tables(parts) if parts else table

    def _cleaned(self, wanted: Sequence[str], table: pa.Table) -> LazyRows:
        kinds = self._kinds(wanted)
        return guarded(self.name, lambda: cleaned(self._connection.from_arrow(table), kinds, self._time_zone))

    def _kinds(self, wanted: Sequence[str]) -> list[Kind]:
        return [kind for column in wanted if (kind := self.kind(column)) is not None]


class PolarsFrameEngine(ArrowEngine):
    """A Polars frame in memory. Its text stays in Polars' own layout, which DuckDB reads and Arrow cannot filter."""

    def __init__(self, frame: Any) -> None:
        import polars as pl

        def is_object(name: str) -> bool:
            return bool(frame.schema[name] == pl.Object)

        def read(name: str) -> Any:
            return spelled(frame[name].to_list()) if is_object(name) else _in_place(frame.select(name)).column(0)

        self._frame = frame
        super().__init__(frame.columns, read, untyped=is_object)

    def _masked(self, wanted: Sequence[str], mask: NDArray[np.bool_]) -> pa.Table:
        import polars as pl
        import pyarrow as pa

        if any(self.untyped(name) for name in wanted):
            return super()._masked(wanted, mask)
        kept = _in_place(self._frame.select(wanted).filter(pl.Series(mask)))
        return pa.table([readable(column) for column in kept.columns], names=value_names(len(wanted)))


def _in_place(frame: Any) -> pa.Table:
    import polars as pl

    return frame.to_arrow(compat_level=pl.CompatLevel.newest())


def readable(values: Any) -> pa.ChunkedArray:
    """An Arrow column in a type that DuckDB reads; what it reads already stays where it is."""
    import pyarrow as pa

    column = values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
    kind = column.type
    if pa.types.is_dictionary(kind) and kind_of_arrow(kind) != "text":
        return readable(column.cast(kind.value_type))
    if pa.types.is_float16(kind):
        return column.cast(pa.float32())
    if pa.types.is_timestamp(kind) and kind.tz is not None and kind.unit in ("s", "ms"):
        return dated(column)
    if pa.types.is_date64(kind):
        return dated(column)
    return column


def as_unit(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column that tells units apart. Durations are whole numbers: DuckDB would stop at one of too many seconds."""
    import pyarrow as pa

    return column.cast(pa.int64()) if pa.types.is_duration(column.type) else column


_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
"""The first of the year 1 and the last of 9999, in seconds since 1970."""


def dated(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times without those that DuckDB cannot take in: one of them would stop the whole count."""
    import pyarrow as pa
    import pyarrow.compute as pc

    a_second = 1 if getattr(column.type, "unit", "ms") == "s" else 1000
    numbers = column.cast(pa.int64())
    first, last = (pa.scalar(second * a_second) for second in (_FIRST_SECOND, _LAST_SECOND))
    inside = pc.and_(pc.greater_equal(numbers, first), pc.less_equal(numbers, last))
    return column if pc.all(inside).as_py() in (True, None) else pc.if_else(inside, column, None)
