"""Parquet files: their schema is public.

DuckDB converts times in milliseconds to microseconds while it reads them, and fails at one that does not fit. Such
columns are read by Arrow instead, and a time that no calendar has is no value. DuckDB also fails at text that is not
UTF-8, which some programs write: a file with such text is read again by Arrow, and that text is no value. Files of
several schemas are read by Arrow too: DuckDB would read all of them as the first one, and fail at a value that does not
fit.

Files of several schemas are read as of one schema, which the files' schemas decide and no row can change. Columns are
those of the first file. Whole numbers of several widths are read as 64 bits, floats as doubles, and a column that has
no type in some files, because it has no value there, has that of the others. All other columns must have the same type
in every file.
"""

from __future__ import annotations

import copy
import glob
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from thresher.errors import InvalidSetting
from thresher.questions.population import Progress
from thresher.tables.arrow_columns import dated, in_utf_8
from thresher.tables.column_kinds import Kind, check_distinct
from thresher.tables.data_errors import Numbered, not_utf_8
from thresher.tables.duckdb_engine import RelationEngine, project_as
from thresher.tables.file_engine import FileEngine
from thresher.tables.file_heads import check_parquet
from thresher.tables.record_stream import ArrowStream


class ParquetEngine(FileEngine):
    """Parquet files, read as of one schema. A column without a common type is refused when it is asked about."""

    suffixes = (".parquet", ".pq")

    def __init__(self, files: Sequence[str], connection: Any, progress: Progress | None) -> None:
        super().__init__(files, connection, progress)
        for file in files:
            check_parquet(file)
        schemas = [pq.read_schema(file) for file in files]
        check_distinct(schemas[0].names)
        self._schema, self._refused = _unified(schemas)
        self._by_arrow = not _alike(schemas)
        if self._by_arrow:
            self._relation = connection.from_arrow(ParquetColumns(files, self._schema, self._schema.names))
        else:
            # DuckDB would expand the characters of a glob a second time.
            self._relation = connection.read_parquet([glob.escape(file) for file in files])

    def _stored_kind(self, column: str) -> Kind | None:
        self._check(column)
        return super()._stored_kind(column)

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

    def size(self) -> int | None:
        """How many rows there are, as the ends of the files say."""
        return sum(int(pq.read_metadata(file).num_rows) for file in self._files)

    def _stored(self, named: Mapping[str, str]) -> Any:
        columns = list(dict.fromkeys(named.values()))
        if not (self._by_arrow or any(_in_milliseconds(self._schema.field(name).type) for name in columns)):
            return super()._stored(named)
        return project_as(self._own.from_arrow(ParquetColumns(self._files, self._schema, columns)), named)

    def numbered(self, columns: Sequence[str]) -> Iterator[Numbered]:
        """All rows, numbered from 1 in each file."""
        for file in self._files:
            number = 1
            with pq.ParquetFile(file) as parquet:
                for batch in parquet.iter_batches(columns=list(columns)):
                    places = range(number, number + len(batch))
                    stored = {name: pa.chunked_array([batch.column(name)]) for name in columns}
                    texts = {name: _possible(column).combine_chunks() for name, column in stored.items()}
                    faults = [
                        fault
                        for name, column in stored.items()
                        for fault in not_utf_8(name, places, column, texts[name])
                    ]
                    yield Numbered(self._place(file, "row"), places, texts, faults, len(batch))
                    number += len(batch)

    @classmethod
    def first_rows(cls, files: Sequence[str], number: int) -> dict[str, list[str | None]]:
        """Refused: there is nothing to suggest."""
        raise InvalidSetting(
            "data", "has types of its own", hint="A Parquet file's schema is public and is used as it is."
        )


class ParquetColumns(ArrowStream):
    """Some columns of Parquet files as Arrow."""

    def __init__(self, files: Sequence[str], schema: pa.Schema, columns: Sequence[str]) -> None:
        self._files = list(files)
        # DuckDB reads durations in Parquet as whole numbers, and fails at one in Arrow of too many seconds.
        kinds = {name: schema.field(name).type for name in columns}
        super().__init__(
            pa.schema([(name, pa.int64() if pa.types.is_duration(kind) else kind) for name, kind in kinds.items()])
        )

    def _batches(self) -> Iterator[Any]:
        for file in self._files:
            with pq.ParquetFile(file) as parquet:
                for batch in parquet.iter_batches(columns=self._schema.names):
                    table = pa.Table.from_batches([batch]).select(self._schema.names)
                    held = [_possible(column) for column in table.columns]
                    yield from pa.table(held, names=self._schema.names).cast(self._schema).to_batches()


def _possible(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column without the values at which DuckDB fails."""
    return dated(column) if _in_milliseconds(column.type) else in_utf_8(column)


def _in_milliseconds(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.unit in ("s", "ms"))


def _unified(schemas: Sequence[pa.Schema]) -> tuple[pa.Schema, dict[str, str]]:
    """A schema as which all files can be read, whatever they hold, and the columns that have none, each with a reason.

    Edge cases: the columns that have none are of the first file's type.
    """
    fields, problems = [], {}
    for field in schemas[0]:
        places = [schema.get_field_index(field.name) for schema in schemas]
        if -1 in places:
            problems[field.name] = "is not in all files"
            fields.append(field)
            continue
        kinds = [schema.field(place).type for schema, place in zip(schemas, places, strict=True)]
        common = kinds[0]
        for kind in kinds[1:]:
            wider = _common(common, kind)
            if wider is None:
                problems[field.name] = f"has the type {common} in some files and {kind} in others"
                break
            common = wider
        fields.append(pa.field(field.name, common))
    return pa.schema(fields), problems


def _alike(schemas: Sequence[pa.Schema]) -> bool:
    """Whether all files have the columns of the first one, of the same types, in any order."""
    return all(
        (place := schema.get_field_index(field.name)) >= 0 and _plain(schema.field(place).type) == _plain(field.type)
        for schema in schemas[1:]
        for field in schemas[0]
    )


def _common(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The type as which values of both can be read; None if there is none that holds them all."""
    if one == other:
        return one
    one, other = _plain(one), _plain(other)
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if pa.types.is_uint64(one) or pa.types.is_uint64(other):
        return None
    if pa.types.is_integer(one) and pa.types.is_integer(other):
        return pa.int64()
    return pa.float64() if pa.types.is_floating(one) and pa.types.is_floating(other) else None


def _plain(kind: pa.DataType) -> pa.DataType:
    """A type without what does not matter for counting: the layout of text, and the zone of an instant."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    return pa.timestamp(kind.unit, "UTC") if pa.types.is_timestamp(kind) and kind.tz is not None else kind
