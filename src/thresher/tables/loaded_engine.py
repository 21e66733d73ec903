"""Rows that arrive in batches, and some only once: they are kept in the embedded DuckDB, on disk if they must be.

Arrow streams come so, and the results of database drivers that Ibis does not know.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa

from thresher.errors import InvalidSetting
from thresher.tables.arrow_columns import in_utf_8, plain, readable, unwrapped
from thresher.tables.column_kinds import Kind, kind_of_arrow
from thresher.tables.duckdb_columns import collect
from thresher.tables.duckdb_connection import connect
from thresher.tables.duckdb_engine import RelationEngine
from thresher.tables.engine import Engine
from thresher.tables.error_guard import guarded, withheld

_ROWS_AT_ONCE = 1 << 18
_READ: weakref.WeakSet[Any] = weakref.WeakSet()
"""Readers that were read here: they give no rows a second time, as if there were none."""


class RowSource(ABC):
    """Where rows come from. `schema` has the columns with the types that the source gives them."""

    schema: pa.Schema

    once = False
    """Whether rows come only once: then all columns are kept, whichever is asked about."""

    @abstractmethod
    def batches(self, places: Sequence[int]) -> Generator[pa.Table]:
        """All rows, with the columns at these places of the schema. Called in the thread of whoever asks."""


class LoadedEngine(RelationEngine):
    """Rows of a source, which are read when the first question is asked, and kept until the engine is closed.

    `untyped` are columns of text that have no public type, and `declared` says as what others of text are read.
    """

    def __init__(
        self, source: RowSource, untyped: Collection[str] = (), declared: Mapping[str, Kind] | None = None
    ) -> None:
        super().__init__(None, connect())
        self._source = source
        self._untyped = frozenset(untyped)
        self._declared = dict(declared or {})
        self._read = self._declared
        self._tables: dict[frozenset[int], Any] = {}

    def names(self) -> list[str] | None:
        """The columns' names."""
        return list(self._source.schema.names)

    def untyped(self, column: str) -> bool:
        """Whether the source says no type of a column."""
        return column in self._untyped

    def reading(self, kinds: Mapping[str, Kind]) -> Engine:
        """The same rows, with these columns of text read as these kinds besides those that are declared."""
        return super().reading({**self._declared, **kinds})

    def _stored_kind(self, column: str) -> Kind | None:
        dtype = self._field(column).type
        return "text" if column in self._untyped else kind_of_arrow(dtype)

    def nested(self, column: str) -> bool:
        """Whether a column holds lists or structures."""
        return bool(pa.types.is_nested(plain(self._field(column).type)))

    def _field(self, column: str) -> pa.Field:
        return self._source.schema.field(self._source.schema.names.index(column))

    def first_texts(self, columns: Sequence[str], number: int) -> dict[str, list[str | None]]:
        """The first values of untyped columns, for `look`. This is not private."""
        places = [self._source.schema.names.index(column) for column in columns]
        with closing(self._source.batches(places)) as batches:
            rows = next(batches, None)
        texts = [[] for _ in columns] if rows is None else [each.slice(0, number).to_pylist() for each in rows.columns]
        return dict(zip(columns, texts, strict=True))

    def size(self) -> int | None:
        """How many rows there are, once they are kept."""
        table = next(iter(self._tables.values()), None)
        return None if table is None else int(collect(table.aggregate("count(*) AS n"))["n"][0].as_py())

    def _stored(self, named: Mapping[str, str]) -> Any:
        places = {column: self._source.schema.names.index(column) for column in named.values()}
        table = self._kept(frozenset(places.values()))
        return table.project(", ".join(f"c{places[column]} AS {name}" for name, column in named.items()))

    def _kept(self, places: frozenset[int]) -> Any:
        """A table of our own with the columns at these places, and perhaps others."""
        if self._source.once:
            places = frozenset(range(len(self._source.schema)))
        found = next((table for held, table in self._tables.items() if held >= places), None)
        if found is None:
            found = self._tables[places] = self._load(sorted(places), f"rows_{next(self._numbers)}")
        return found

    def _load(self, places: Sequence[int], name: str) -> Any:
        """Keep the columns at these places in a table, but those of lists and structures, which cannot be counted."""
        types = {place: plain(self._source.schema.field(place).type) for place in places}
        kept = [place for place in places if not pa.types.is_nested(types[place])]
        empty = pa.table({f"c{place}": readable(pa.array([], types[place])) for place in kept})
        guarded(self.name, lambda: self._own.from_arrow(empty).create(name))
        waiting: list[pa.Table] = []
        for batch in self._source.batches(kept):
            waiting.append(batch)
            if sum(map(len, waiting)) >= _ROWS_AT_ONCE:
                self._insert(waiting, empty.schema, name)
                waiting = []
        self._insert(waiting, empty.schema, name)
        return self._own.table(name)

    def _insert(self, batches: Sequence[pa.Table], schema: pa.Schema, name: str) -> None:
        if not batches:
            return

        def run() -> None:
            rows = pa.concat_tables([_stored_as(batch, schema) for batch in batches])
            self._own.from_arrow(rows).insert_into(name)

        guarded(self.name, run)


def _stored_as(batch: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = [in_utf_8(readable(unwrapped(column))) for column in batch.columns]
    return pa.table(columns, schema.names).cast(schema)


class ArrowRows(RowSource):
    """What has the Arrow C stream. A reader gives its rows once, and is not touched before a question is counted."""

    once = True

    def __init__(self, stream: Any) -> None:
        self._reader = stream if isinstance(stream, pa.RecordBatchReader) else _taken(stream)
        self._check()
        self.schema = self._reader.schema

    def _check(self) -> None:
        if self._reader in _READ:
            raise _read_before()

    def batches(self, places: Sequence[int]) -> Generator[pa.Table]:
        """All batches, as they come."""
        self._check()
        _READ.add(self._reader)
        while (batch := guarded("Arrow", self._next)) is not None:
            yield pa.Table.from_batches([batch]).select(list(places))

    def _next(self) -> Any:
        try:
            return self._reader.read_next_batch()
        except StopIteration:
            return None


def _taken(stream: Any) -> Any:
    """A reader of another library's stream."""
    return withheld(lambda: pa.RecordBatchReader.from_stream(stream), lambda _: _read_before())


def _read_before() -> InvalidSetting:
    return InvalidSetting(
        "data",
        "is a stream that was read before or is closed: its rows come only once",
        hint="Make a new stream, or read it into a table (read_all). For several questions, open it once: a Table "
        "keeps its rows.",
    )
