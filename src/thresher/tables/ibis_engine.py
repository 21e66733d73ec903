"""Ibis tables: counted by the database behind them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, ClassVar

import ibis
import narwhals as nw
import pyarrow as pa

from thresher.errors import InvalidSetting
from thresher.questions import Question, Values
from thresher.tables import column_keys
from thresher.tables import ibis_functions as functions
from thresher.tables.column_keys import DRAW, UNIT, key_names, value_names
from thresher.tables.column_kinds import Kind
from thresher.tables.duckdb_columns import counted_once
from thresher.tables.duckdb_engine import RelationEngine
from thresher.tables.duckdb_pairs import kept_pairs
from thresher.tables.engine import Engine, LazyFrameEngine, renamed
from thresher.tables.error_guard import guarded
from thresher.tables.rows import LazyRows


class IbisEngine(LazyFrameEngine):
    """An Ibis table on a database of which Thresher knows nothing.

    Edge cases: text is not counted: not every database has a normaliser that Ibis can call. Units that are text are
    refused too: under a collation, or as a type like `citext`, a database would take several spellings for one. So are
    times with a zone.
    """

    name = "Ibis"
    described = "an Ibis table"

    @classmethod
    def open(cls, frame: Any) -> Engine:
        """The engine for a table's database; where that is DuckDB, the one for relations."""
        backend = frame.get_backend()
        if backend.name == "duckdb":
            # Ibis shows its tables in memory and its functions to DuckDB when it runs a query.
            backend.to_pyarrow(frame.limit(0))
            return IbisRelationEngine(backend.con.sql(backend.compile(frame)), frame)
        databases = {"sqlite": SqliteEngine, "postgres": PostgresEngine}
        return databases.get(backend.name, IbisEngine)(frame)

    def _stored_kind(self, column: str) -> Kind | None:
        return "text" if self._type(column).is_uuid() else super()._stored_kind(column)

    def _has_no_type(self, column: str) -> bool:
        return bool(self._type(column).is_null())

    def nested(self, column: str) -> bool:
        """Whether a column holds lists or structures."""
        return bool(self._type(column).is_nested() or self._type(column).is_json())

    def _type(self, column: str) -> Any:
        return self._frame.schema()[column]

    def rows(self, wanted: Sequence[str]) -> LazyRows:
        """These columns, each row a unit."""
        return guarded(self.name, lambda: self._cleaned(self._select(wanted), wanted))

    def chosen(self, wanted: Sequence[str], unit: str) -> LazyRows:
        """These columns, one row a unit.

        Chosen values are counted at once and their counts kept in memory, since many databases refuse new tables.
        """

        def run() -> LazyRows:
            drawn = self._of_units(wanted, unit).mutate(r=ibis.random())
            first = {name: drawn[name].argmin(drawn.r) for name in value_names(len(wanted))}
            one_each = drawn.group_by(UNIT).aggregate(**first).drop(UNIT)
            return counted_once(self._cleaned(one_each, wanted), wanted)

        return guarded(self.name, run)

    def pairs(self, question: Question, unit: str, most: int) -> LazyRows:
        """Each unit in each of its buckets, at most `most` of them; chosen within the query that counts them."""

        def run() -> LazyRows:
            found = self._pairs(question, unit, most)
            return LazyRows(self.name, found.select(*key_names(question)), _collect, form="keys")

        return guarded(self.name, run)

    def several(self, wanted: Sequence[str], unit: str, most: int) -> LazyRows:
        """Each unit with its values, at most `most` of them, in memory; units are numbers there."""

        def run() -> LazyRows:
            values = Values(tuple(wanted))
            found = self._pairs(values, unit, most)
            named = dict(zip(value_names(len(wanted)), key_names(values), strict=True))
            number = ibis.dense_rank().over(order_by=found[UNIT])
            return kept_pairs(_collect(found.select(**{UNIT: number}, **{v: found[k] for v, k in named.items()})))

        return guarded(self.name, run)

    def _pairs(self, question: Question, unit: str, most: int) -> Any:
        """Distinct u, k0, k1, …, at most `most` rows of a unit."""
        held = self._of_units(question.columns, unit)
        cleaned = held.select(**{UNIT: held[UNIT]}, **self._clean_values(held, question.columns))
        found = column_keys.pairs(nw.from_native(cleaned).lazy(), question).to_native().mutate(r=ibis.random())
        place = ibis.row_number().over(group_by=found[UNIT], order_by=found.r)
        return found.mutate(place=place).filter(lambda table: table.place < most)

    def _of_units(self, wanted: Sequence[str], unit: str) -> Any:
        """The rows that have a unit and a value in all columns, with what tells units apart in u."""
        held = self._held(self._select(wanted, unit), renamed(wanted, unit))
        keyed = held.mutate(**{UNIT: self._unit_key(held[UNIT], unit)})
        return keyed.filter(keyed[UNIT].notnull())

    def _select(self, wanted: Sequence[str], unit: str | None = None) -> Any:
        named = renamed(wanted, unit)
        table = self._frame.select(
            **{
                name: self._frame[column] if name == UNIT else self._on_clock(self._frame[column])
                for name, column in (named | self._filter.named).items()
            }
        )
        if not self._filter:
            return table
        kinds = self._filter.kinds
        held = table.filter(*(test for name, kind in kinds.items() for test in self._tests(table[name], kind)))
        clean = {name: self._comparable(held[name], kind, self._filter.named[name]) for name, kind in kinds.items()}
        return self._filter.kept(held.mutate(**clean), named)

    def _comparable(self, value: Any, kind: Kind, column: str) -> Any:
        """A column of a condition, cleaned; null where text cannot be normalised."""
        if kind != "text":
            return _clean(value, kind)
        raise InvalidSetting(
            "where",
            f"{column!r} is text in a database that Thresher cannot make normalise it",
            hint="Give the table as a data frame (to_polars).",
        )

    def _cleaned(self, table: Any, wanted: Sequence[str]) -> LazyRows:
        held = self._held(table, renamed(wanted))
        clean = held.select(**self._clean_values(held, wanted))
        return LazyRows(self.name, clean, _collect, drawn=lambda: self._drawn(clean))

    def _clean_values(self, held: Any, wanted: Sequence[str]) -> dict[str, Any]:
        kinds = {name: self.kind(column) for name, column in renamed(wanted).items()}
        if "text" in kinds.values():
            raise InvalidSetting(
                "data",
                "holds text in a database that Thresher cannot make normalise it",
                hint="Give the column as a data frame (to_polars).",
            )
        return {name: _clean(held[name], kind) for name, kind in kinds.items()}

    def _drawn(self, table: Any) -> Any:
        """The table with a random number d in each row."""
        return table.mutate(**{DRAW: ibis.random()})

    def _held(self, table: Any, named: dict[str, str]) -> Any:
        """The rows that have a value in all columns; `named` says what a table's columns are called in the data."""
        return table.filter(
            *(test for name, column in named.items() for test in self._tests(table[name], self.kind(column)))
        )

    def _tests(self, value: Any, kind: Kind | None) -> list[Any]:
        """The tests that a row has a value in a column."""
        tests = [value.notnull()]
        if kind == "floats":
            tests.append(~value.isnan())
        elif kind in ("dates", "times"):
            # A time that no calendar has must not stop the count.
            tests.append(value.year().between(1, 9999))
        return tests

    def _unit_key(self, value: Any, unit: str) -> Any:
        """What tells units apart: for text, and what may be text, bytes that no collation applies to."""
        if not _is_text(value):
            return value
        raise InvalidSetting(
            "unit",
            f"{unit!r} is text in a database that Thresher cannot make compare by its bytes",
            hint="Give a column of numbers, or the table as a data frame (to_polars).",
        )

    def _on_clock(self, value: Any) -> Any:
        """A column; instants are times on the wall clock of the zone."""
        if not _is_instant(value):
            return value
        raise InvalidSetting(
            "column",
            f"{value.get_name()!r} holds times with a zone in a database that Thresher cannot make read on another "
            "clock",
            hint="Give the column as a data frame (to_polars).",
        )


class PostgresEngine(IbisEngine):
    """An Ibis table on PostgreSQL."""

    def _tests(self, value: Any, kind: Kind | None) -> list[Any]:
        tests = super()._tests(value, kind)
        return [*tests, functions.is_a_double_on_postgresql(value)] if kind == "decimals" else tests

    def _comparable(self, value: Any, kind: Kind, column: str) -> Any:
        return functions.text_on_postgresql(value.cast("string")) if kind == "text" else _clean(value, kind)

    def _unit_key(self, value: Any, unit: str) -> Any:
        return functions.normal_on_postgresql(value.cast("string")) if _is_text(value) else value

    def _on_clock(self, value: Any) -> Any:
        return functions.on_clock_of_postgresql(value, self.time_zone) if _is_instant(value) else value


class SqliteEngine(IbisEngine):
    """An Ibis table on SQLite, where any column takes any value: one that does not fit the type is no value."""

    _STORED: ClassVar[dict[Kind, tuple[str, ...]]] = {
        "whole numbers": ("integer",),
        "floats": ("integer", "real"),
        "decimals": ("integer", "real"),  # text that is a number is stored as one in a column of decimals
        "booleans": ("integer",),
    }
    """How SQLite stores values of a kind; what is stored otherwise does not count."""

    def _drawn(self, table: Any) -> Any:
        # SQLite draws again wherever it inlines a subquery: a unit would be grouped by one bucket and shown as another.
        # It inlines none that has a limit into one that counts.
        return super()._drawn(table).limit(2**62)

    def _tests(self, value: Any, kind: Kind | None) -> list[Any]:
        if value.get_name() == UNIT:
            return super()._tests(value, kind)
        tests = [value.notnull()]  # of dates and times, `_on_clock` has made nulls of those that no calendar has
        if kind in self._STORED:
            tests.append(functions.stored_on_sqlite(value).isin(self._STORED[kind]))
            # Ibis sends values through JSON here, which has no infinity.
            tests.append(value.cast("float64").between(-sys.float_info.max, sys.float_info.max))
        return tests

    def _comparable(self, value: Any, kind: Kind, column: str) -> Any:
        return functions.text_on_sqlite(value) if kind == "text" else _clean(value, kind)

    def _unit_key(self, value: Any, unit: str) -> Any:
        # A column of SQLite may hold text whatever its type is, and a cast keeps the column's collation.
        if _is_text(value):
            return functions.normal_on_sqlite(value.cast("binary"))
        return value if value.type().is_floating() else functions.hexadecimal_on_sqlite(value.cast("binary"))

    def _on_clock(self, value: Any) -> Any:
        dtype = value.type()
        if dtype.is_date() or (dtype.is_timestamp() and dtype.timezone is None):
            return functions.read_on_sqlite(value, self.time_zone)
        return super()._on_clock(value)


class IbisRelationEngine(RelationEngine):
    """An Ibis table on DuckDB, as a relation of the caller's connection."""

    def __init__(self, relation: Any, table: Any) -> None:
        super().__init__(relation)
        self._table = table  # Ibis removes its tables in memory from DuckDB when nothing refers to them

    def _stored_kind(self, column: str) -> Kind | None:
        # DuckDB takes a column of nulls for whole numbers.
        return "nothing" if self._table.schema()[column].is_null() else super()._stored_kind(column)


def _is_text(value: Any) -> bool:
    """Whether a column holds text, or may do so."""
    return bool(value.type().is_string() or value.type().is_unknown())


def _is_instant(value: Any) -> bool:
    return bool(value.type().is_timestamp() and value.type().timezone is not None)


def _clean(column: Any, kind: Kind | None) -> Any:
    if kind == "whole numbers":
        return column.cast("int64")
    if kind == "floats":
        number = column.cast("float64")
        return ibis.cases((number == 0, 0.0), else_=number)
    if kind == "decimals":
        # SQLite keeps a column's collation through a cast, and not through an expression.
        return column.cast("string") + ""
    if kind == "times":
        return column.cast("timestamp")
    return column


def _collect(table: Any) -> pa.Table:
    return table.to_pyarrow()
