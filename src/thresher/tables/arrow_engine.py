"""Frames in memory: their columns as Arrow, by reference, counted by the embedded DuckDB.

Text is counted by Arrow in the form in which it came, and DuckDB gets each form once: Arrow takes half of DuckDB's time
to group text that is in Arrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from numbers import Real
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thresher.errors import InvalidSetting
from thresher.tables.arrow_columns import as_unit, in_utf_8, plain, readable
from thresher.tables.column_keys import UNIT, WEIGHT
from thresher.tables.column_kinds import Kind, kind_of_arrow
from thresher.tables.data_errors import NESTED, Fault, Numbered, not_utf_8
from thresher.tables.duckdb_columns import cleaned
from thresher.tables.duckdb_connection import connect
from thresher.tables.duckdb_engine import RelationEngine
from thresher.tables.engine import renamed
from thresher.tables.error_guard import guarded, withheld
from thresher.tables.rows import LazyRows, Rows

_ROWS_A_TASK = 1 << 17  # what is taken from so many rows stays in the second-level cache
_GROUPED = (
    *(pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    *(pa.types.is_integer, pa.types.is_boolean, pa.types.is_date32),
)
"""The types of columns of which Arrow and Polars find the distinct rows as DuckDB does."""


class ArrowEngine(RelationEngine):
    """Columns that are already in memory.

    `convert` gives one column as an Arrow array; it is called once for each column that is asked about, so that the
    others are never touched. `untyped` says which columns it gives as text because they have no public type, and
    `objects` gives such a column as it was. With `threads`, DuckDB alone counts, in so many threads: in one thread it
    reads rows in the same order each time.
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
        self._threads = threads
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
                    "numbers, dates or times first (astype in pandas).",
                ),
            )
        return self._columns[name]

    def _stored_kind(self, column: str) -> Kind | None:
        return "text" if self.untyped(column) else kind_of_arrow(self.column(column).type)

    def nested(self, column: str) -> bool:
        """Whether a column holds lists or structures."""
        return bool(pa.types.is_nested(plain(self.column(column).type)))

    def numbered(self, columns: Sequence[str]) -> Iterator[Numbered]:
        """All rows, numbered from 0."""
        stored = {name: self.column(name).cast(pa.large_string()) for name in columns}
        texts = {name: in_utf_8(column).combine_chunks() for name, column in stored.items()}
        number = self.size() or 0
        faults = [
            Fault(place, name, NESTED)
            for name in columns
            if self._objects is not None and self.untyped(name)
            for place, (value, text) in enumerate(zip(self._objects(name), texts[name], strict=True))
            if not text.is_valid and not _is_null(value)
        ]
        for name, column in stored.items():
            faults += not_utf_8(name, range(number), column, texts[name])
        yield Numbered("position", range(number), texts, faults, number)

    def seed(self, seed: float) -> None:
        """Fix the random numbers that DuckDB draws next, on one thread, by a number between -1 and 1."""
        self._own.execute("SELECT setseed(?)", [seed]).fetchall()

    def size(self) -> int | None:
        """How many rows there are."""
        return len(next(iter(self._columns.values()), None) or self.column(self._names[0]))

    def rows(self, wanted: Sequence[str]) -> Rows:
        """These columns, each row a unit."""
        named = renamed(wanted)
        return self._cleaned(self._table(named), wanted) if self._groups(wanted) else super().rows(wanted)

    def sampled(self, wanted: Sequence[str], toss: Callable[[int], NDArray[np.bool_]]) -> LazyRows:
        """These columns of a sample of the rows."""
        table = self._table(renamed(wanted) | self._filter.named)
        mask = toss(table.num_rows)
        return self._cleaned(guarded("Arrow", lambda: self._masked(table, mask)), wanted)

    def _groups(self, wanted: Sequence[str]) -> bool:
        """Whether text is counted before DuckDB gets it: columns of types that others group, in all rows, as stored."""
        types = [self.column(name).type for name in wanted]
        return (
            self._threads is None
            and "text" in self._kinds(wanted)
            and all(any(test(kind) for test in _GROUPED) for kind in types)
            and not (self._filter or any(name in self._read for name in wanted))
        )

    def _cleaned(self, table: pa.Table, wanted: Sequence[str]) -> LazyRows:
        """The cleaned rows of a table in memory that has these columns as v0, v1, …, and those of the filter."""
        named, kinds = renamed(wanted), self._kinds(wanted)
        counted = self._groups(wanted)
        held = guarded("Arrow", lambda: self._forms(table)) if counted else table

        def run() -> LazyRows:
            relation = self._as_read(self._given(held), named)
            return cleaned(relation, kinds, self.time_zone, counted=counted)

        return guarded(self.name, run)

    def _stored(self, named: Mapping[str, str]) -> Any:
        return self._given(self._table(named))

    def _given(self, table: pa.Table) -> Any:
        """A table as DuckDB gets it."""
        return self._own.from_arrow(pa.table([in_utf_8(column) for column in table.columns], table.column_names))

    def _table(self, named: Mapping[str, str]) -> pa.Table:
        columns = {name: self.column(column) for name, column in named.items()}
        return pa.table({name: as_unit(column) if name == UNIT else column for name, column in columns.items()})

    def _forms(self, table: pa.Table) -> pa.Table:
        """The distinct rows of a table, each with w, how often it is there."""
        names = table.column_names
        return _filterable(table).group_by(names).aggregate([([], "count_all")]).rename_columns([*names, WEIGHT])

    def _masked(self, table: pa.Table, mask: NDArray[np.bool_]) -> pa.Table:
        """The rows that a mask keeps. Arrow takes rows in one thread, so each thread gets some of them."""
        table = _filterable(table)

        def part(start: int) -> pa.Table:
            rows = slice(start, start + _ROWS_A_TASK)
            # Arrow's own filter takes twice as long.
            return table.slice(start, _ROWS_A_TASK).take(pa.array(np.flatnonzero(mask[rows])))

        with ThreadPoolExecutor(pa.cpu_count()) as pool:
            parts = list(pool.map(part, range(0, len(mask), _ROWS_A_TASK)))
        return pa.concat_tables(parts) if parts else table


def _is_null(value: Any) -> bool:
    """Whether a Python object stands for no value: None, NaN, or one of pandas' marks."""
    return (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, Real) and value != value)
    )


def _filterable(table: pa.Table) -> pa.Table:
    """A table without views of text, which DuckDB reads without a copy, and of which Arrow takes no rows."""
    viewed = [pa.types.is_string_view(kind) for kind in table.schema.types]
    if not any(viewed):
        return table
    fields = zip(table.schema, viewed, strict=True)
    return table.cast(pa.schema([field.with_type(pa.large_string()) if view else field for field, view in fields]))
