"""Parquet files: their schema is public.

DuckDB takes times in milliseconds to microseconds while it reads them, and stops at one that does not fit. Such columns
are read by Arrow in its place, and a time that no calendar has is no value. DuckDB also stops at text that is not
UTF-8, which some programs write: a file with such text is read again by Arrow, and that text is no value. Files of
several schemas are read by Arrow too: DuckDB would read all of them as the first one, and stop at a value that does not
fit.
"""

from __future__ import annotations

import copy
import glob
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from thresher.errors import InvalidSetting
from thresher.questions.population import Progress
from thresher.tables.arrow_engine import dated
from thresher.tables.column_kinds import Kind, check_distinct
from thresher.tables.duckdb_engine import RelationEngine
from thresher.tables.parquet_schemas import alike, unified

if TYPE_CHECKING:
    import pyarrow as pa


class ParquetEngine(RelationEngine):
    """Parquet files, read as of one schema. A column that has none is refused when it is asked about."""

    def __init__(self, files: Sequence[str], connection: Any, progress: Progress | None) -> None:
        import pyarrow.parquet as pq

        self._files = list(files)
        schemas = [pq.read_schema(file) for file in files]
        check_distinct(schemas[0].names)
        self._schema, self._refused = unified(schemas)
        self._by_arrow = not alike(schemas)
        if self._by_arrow:
            relation = connection.from_arrow(ParquetColumns(files, self._schema, self._schema.names))
        else:
            # DuckDB would expand the characters of a glob a second time.
            relation = connection.read_parquet([glob.escape(file) for file in files])
        super().__init__(relation, connection, progress)

    def kind(self, column: str) -> Kind | None:
        """What a column holds, from the files' schemas."""
        self._check(column)
        return super().kind(column)

    def nested(self, column: str) -> bool:
        """Whether a column holds lists or structures."""
        self._check(column)
        return super().nested(column)

    def _check(self, column: str) -> None:
        """Require that a column can be read as of one type in all files."""
        if column in self._refused:
            raise InvalidSetting(
                "data",
                f"has files of several schemas: {column!r} {self._refused[column]}",
                hint="Write this column with one type in all files, or give files of one schema.",
            )

    def careful(self) -> RelationEngine | None:
        """The same rows, read by Arrow."""
        engine = copy.copy(self)
        engine._by_arrow = True
        return None if self._by_arrow else engine

    def _select(self, wanted: Sequence[str], unit: str | None = None) -> Any:
        columns = list(dict.fromkeys([*wanted, *([] if unit is None else [unit])]))
        if not (self._by_arrow or any(_in_milliseconds(self._schema.field(name).type) for name in columns)):
            return super()._select(wanted, unit)
        engine = copy.copy(self)
        engine._relation = self._own.from_arrow(ParquetColumns(self._files, self._schema, columns))
        return RelationEngine._select(engine, wanted, unit)


class ParquetColumns:
    """Some columns of Parquet files as Arrow, as often as they are read."""

    def __init__(self, files: Sequence[str], schema: pa.Schema, columns: Sequence[str]) -> None:
        import pyarrow as pa

        self._files = list(files)
        # DuckDB reads durations in Parquet as whole numbers, and would stop at one in Arrow of too many seconds.
        kinds = {name: schema.field(name).type for name in columns}
        self._schema = pa.schema(
            [(name, pa.int64() if pa.types.is_duration(kind) else kind) for name, kind in kinds.items()]
        )

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self._schema, self._batches()).__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        for file in self._files:
            with pq.ParquetFile(file) as parquet:
                for batch in parquet.iter_batches(columns=self._schema.names):
                    table = pa.Table.from_batches([batch]).select(self._schema.names)
                    held = [_possible(column) for column in table.columns]
                    yield from pa.table(held, names=self._schema.names).cast(self._schema).to_batches()


def _possible(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column without what DuckDB would stop at."""
    import pyarrow as pa

    if _in_milliseconds(column.type):
        return dated(column)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    try:
        column.validate(full=True)
        return column
    except pa.ArrowInvalid:
        octets = column.cast(pa.large_binary())
    return pa.chunked_array([pa.array([_decoded(value) for value in octets.to_pylist()], column.type)])


def _decoded(octets: bytes | None) -> str | None:
    try:
        return None if octets is None else octets.decode()
    except UnicodeDecodeError:
        return None


def _in_milliseconds(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_timestamp(kind) and kind.unit in ("s", "ms"))
