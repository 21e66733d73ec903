"""Columns that a database cannot read as Thresher does: grouped there as they are stored, and read here.

What comes here goes into an embedded DuckDB, which cleans it as it cleans every other table, and keeps on disk what
does not fit in memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import narwhals as nw
import pyarrow as pa

from thresher.questions import Part, Question
from thresher.questions.question import draw_for
from thresher.tables.column_keys import COUNT, DRAW, KEY, UNIT, WEIGHT, key_names, value_names
from thresher.tables.column_kinds import Kind
from thresher.tables.duckdb_columns import collect, read_forms
from thresher.tables.duckdb_connection import connect, connected, disconnect
from thresher.tables.duckdb_engine import RelationEngine, project_as
from thresher.tables.error_guard import guarded
from thresher.tables.ibis_databases import brought
from thresher.tables.objects import decoded
from thresher.tables.rows import Rows

Form: TypeAlias = Literal["text", "instant", "as it is"]
"""How a column comes here: text as its bytes, an instant as microseconds since 1970, anything else as it is."""

_INSTANT = pa.timestamp("us", "UTC")
_FIELDS = {"text": pa.large_string(), "instant": _INSTANT}

CHUNK = 1 << 16
"""Rows that are asked for at a time."""

ASCII = "a"
"""The name of a column that is 1 where all texts of a row are ASCII, and 0 elsewhere."""


def read_batches(table: Any, forms: Mapping[str, Form]) -> pa.RecordBatchReader:
    """The rows of an Ibis table, with these columns read from their forms."""
    batches = brought(table).to_pyarrow_batches(chunk_size=CHUNK)
    fields = [_FIELDS.get(forms.get(field.name, "as it is"), field.type) for field in batches.schema]
    schema = pa.schema(list(zip(batches.schema.names, fields, strict=True)))

    def read(column: Any, name: str) -> Any:
        form = forms.get(name)
        if form == "text":
            return _texts(column)
        return column.cast(pa.int64()).cast(_INSTANT) if form == "instant" else column

    def rows() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_arrays(list(map(read, batch.columns, schema.names)), schema=schema)

    return pa.RecordBatchReader.from_batches(schema, rows())


def _texts(forms: Any) -> Any:
    """Texts from bytes, or from hexadecimal digits; null for what is not UTF-8."""
    octets = forms.to_pylist()
    if not pa.types.is_binary(forms.type):
        octets = [None if digits is None else bytes.fromhex(digits) for digits in octets]
    return pa.array(map(decoded, octets), pa.large_string())


@dataclass(frozen=True, slots=True)
class FormRows(Rows):
    """Rows of a database some of whose columns are read here.

    `table` has v0, v1, …, those in `forms` as they are grouped, and the column `ASCII`. `drawn` gives the same with
    random numbers d. In each count the database groups forms and the keys of all other columns; here forms are
    read, and groups that are one bucket are added up.

    Guarantee: a group below the threshold comes here only where another group may belong to its bucket: where a text
    in it is not ASCII, where a column holds instants, or where a question reads less than the whole of a column that
    is read here.
    """

    engine: str
    table: Any
    kinds: Mapping[str, Kind]
    forms: Mapping[str, Form]
    drawn: Callable[[], Any]
    time_zone: str

    def counts(self, question: Question, *, at_least: int = 1, most: int | None = None) -> pa.Table:
        """Keys and n of `column_keys.count`, no more than `most` + 1 rows of them."""

        def run() -> pa.Table:
            with connected() as connection:
                groups = connection.from_arrow(read_batches(self.grouped(question, at_least), self.forms))
                read = read_forms(groups, {name: self.kinds[name] for name in self.forms}, self.time_zone)
                keys = [key for part in self._parts(question) for key in self._keys(part, here=True)]
                keyed = nw.from_native(read).lazy().select(*keys, nw.col(WEIGHT)).drop_nulls()
                size = nw.col(WEIGHT).sum().cast(nw.Int64).alias(COUNT)
                counted = keyed.group_by(key_names(question)).agg(size).filter(nw.col(COUNT) >= at_least)
                return collect((counted if most is None else counted.head(most + 1)).to_native())

        return guarded(self.engine, run)

    def grouped(self, question: Question, at_least: int = 1) -> Any:
        """The query of the database: forms and keys, with w, the number of units that have them."""
        table = self.drawn() if question.randomised else self.table
        parts = self._parts(question)
        names = [name for part in parts for name in ([part.name] if part.name in self.forms else part.keys)]
        keys = [key for part in parts for key in self._keys(part, here=False)]
        keyed = nw.from_native(table).lazy().select(*keys, nw.col(ASCII)).drop_nulls(names)
        size = nw.len().cast(nw.Int64).alias(WEIGHT)
        groups = keyed.group_by(names).agg(size, nw.col(ASCII).min().alias(ASCII))
        read_here = [part for part in parts if part.name in self.forms]
        if at_least > 1 and all(p.question.whole and self.forms[p.name] != "instant" for p in read_here):
            groups = groups.filter((nw.col(WEIGHT) >= at_least) | (nw.col(ASCII) == 0))
        return groups.select(*names, WEIGHT).to_native()

    def _parts(self, question: Question) -> list[_Part]:
        places = itertools.count()
        parts = zip(question.parts, value_names(len(question.parts)), strict=True)
        return [_Part(part, name, [f"{KEY}{next(places)}" for _ in part.key_types]) for part, name in parts]

    def _keys(self, part: _Part, *, here: bool) -> list[nw.Expr]:
        """The keys of a part, made here or in the database; where it is not their place, what is left for the other."""
        if here != (part.name in self.forms):
            return [nw.col(name) for name in (part.keys if here else [part.name])]
        made = part.question.keys(nw.col(part.name), *draw_for(part.question, nw.col(DRAW)))
        return [key.alias(name) for key, name in zip(made, part.keys, strict=True)]

    def close(self) -> None:
        """Nothing is kept."""


class _Part(NamedTuple):
    """A question about one column, with the names of the column and of its keys."""

    question: Part
    name: str
    keys: list[str]


class CopiedEngine(RelationEngine):
    """Columns of some rows of a database, which were brought here; `places` says what each is called here."""

    UNIT = ""
    """What the unit's column, which is called u here, is called by callers. No column of a table has this name."""

    def __init__(self, batches: pa.RecordBatchReader, places: Mapping[str, str]) -> None:
        connection = connect()
        try:
            connection.from_arrow(batches).create("copied")
        except BaseException:
            disconnect(connection)
            raise
        super().__init__(connection.table("copied"), connection)
        self._places = {**places, self.UNIT: UNIT}

    def names(self) -> list[str] | None:
        """The columns' names in the database."""
        return list(self._places)

    def _type(self, column: str) -> Any:
        return super()._type(self._places[column])

    def _stored(self, named: Mapping[str, str]) -> Any:
        return project_as(self._relation, {name: self._places[column] for name, column in named.items()})
