"""Ibis tables: counted by the database behind them."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import ibis
import ibis.expr.datatypes as dt
import narwhals as nw
import pyarrow as pa

from thresher.errors import InvalidSetting
from thresher.questions import Question, Values
from thresher.questions.normal_form import spellings
from thresher.tables import column_keys
from thresher.tables.column_keys import DRAW, UNIT, WEIGHT, key_names, value_names
from thresher.tables.column_kinds import Kind
from thresher.tables.database_errors import told_of_rows
from thresher.tables.duckdb_columns import counted_once, weighted_rows
from thresher.tables.duckdb_engine import RelationEngine
from thresher.tables.duckdb_pairs import kept_pairs
from thresher.tables.engine import Engine, LazyFrameEngine, renamed
from thresher.tables.error_guard import guarded
from thresher.tables.ibis_columns import (
    as_text,
    clean,
    flag,
    is_instant,
    is_long,
    is_text,
    one_each,
    unit_column,
    whole_units,
)
from thresher.tables.ibis_database import Database
from thresher.tables.ibis_databases import brought, database_of
from thresher.tables.ibis_forms import ASCII, CopiedEngine, Form, FormRows, read_batches
from thresher.tables.row_filters import ColumnTest, RowFilter
from thresher.tables.rows import LazyRows, Rows

_KEY = "key"
MOST_SPELLINGS = 10_000
"""Of all texts of a filter, in a database that cannot normalise them."""


class IbisEngine(LazyFrameEngine):
    """An Ibis table on a database; `database` says what is known of it.

    Text is compared by the bytes of its forms, and counted in NFC. A database that normalises text counts it alone.
    Any other groups forms, and those that are not ASCII are normalised here (`FormRows`). With `unit=`, rows of units
    come here whose names are not ASCII, or one of whose texts may be no value, and with several contributions the
    distinct values of all units. Of a database
    that is not known, all rows come here if one of the columns in question holds text.
    """

    name = "Ibis"
    described = "an Ibis table"

    def __init__(self, frame: Any, database: Database | None = None) -> None:
        types = {name: dt.unknown if is_long(each) else each for name, each in frame.schema().items()}
        super().__init__(frame, ibis.table(types, name="types"))
        self._database = Database() if database is None else database
        self._copies: list[CopiedEngine] = []

    @classmethod
    def open(cls, frame: Any) -> Engine:
        """The engine for a table's database; where that is DuckDB, Spark or Polars, the one for these."""
        backend = frame.get_backend()
        if backend.name in ("duckdb", "pyspark"):
            # Ibis shows its tables in memory and its functions to the database when it runs a query.
            backend.to_pyarrow(frame.limit(0))
        if backend.name == "pyspark":
            from thresher.tables.spark_engine import SparkEngine

            return SparkEngine.open(backend._session.sql(backend.compile(frame)))
        if backend.name == "duckdb":
            return IbisRelationEngine(backend.con.sql(backend.compile(frame)), frame)
        if backend.name == "polars":
            from thresher.tables.polars_engine import PolarsEngine

            return PolarsEngine(backend.compile(frame))
        database = guarded(cls.name, lambda: database_of(backend))
        if backend.name == "sqlite":
            from thresher.tables.ibis_sqlite import SqliteEngine

            return SqliteEngine(frame)
        return IbisEngine(frame, database)

    def _stored_kind(self, column: str) -> Kind | None:
        return "text" if self._type(column).is_uuid() else super()._stored_kind(column)

    def _has_no_type(self, column: str) -> bool:
        return bool(self._type(column).is_null())

    def nested(self, column: str) -> bool:
        """Whether a column holds lists or structures."""
        return bool(self._type(column).is_nested() or self._type(column).is_json())

    def _type(self, column: str) -> Any:
        return self._frame.schema()[column]

    def rows(self, wanted: Sequence[str]) -> Rows:
        """These columns, each row a unit."""

        def run() -> Rows:
            if self._reads_rows_here(wanted):
                return self._copied(wanted).rows(wanted)
            return self._cleaned(self._held(self._select(wanted), renamed(wanted)), wanted)

        return guarded(self.name, run)

    def chosen(self, wanted: Sequence[str], unit: str) -> Rows:
        """These columns, one row a unit.

        Chosen values are counted at once and their counts kept in memory, since many databases refuse new tables.
        """

        def run() -> Rows:
            if self._reads_rows_here(wanted, unit):
                return self._copied(wanted, unit).chosen(wanted, CopiedEngine.UNIT)
            units = self._of_units(wanted, unit)
            if not self._splits(unit) and "text" not in map(self._form, wanted):
                return counted_once(self._cleaned(one_each(units), wanted), wanted)
            # Of names that are not ASCII, several may be one unit; and a unit chooses among rows that have a value.
            alone = self._cleaned(one_each(whole_units(units, UNIT, alone=True)), wanted)
            others = self._copied(wanted, unit, alone_too=False)
            values = Values(tuple(wanted))
            counted = [rows.counts(values) for rows in (alone, others.chosen(wanted, CopiedEngine.UNIT))]
            self._copies.pop().close()
            return weighted_rows(pa.concat_tables(map(column_keys.canonical, counted)))

        return guarded(self.name, run)

    def pairs(self, question: Question, unit: str, most: int) -> Rows:
        """Each unit in each of its buckets, at most `most` of them; chosen within the query that counts them."""

        def run() -> Rows:
            if self._reads_values_here(question.columns, unit):
                return self._copied(question.columns, unit, distinct=True).pairs(question, CopiedEngine.UNIT, most)
            found = self._pairs(question, unit, most)
            return LazyRows(self.name, found.select(*key_names(question)), _collect, form="keys")

        return guarded(self.name, run)

    def several(self, wanted: Sequence[str], unit: str, most: int) -> Rows:
        """Each unit with its values, at most `most` of them, in memory; units are numbers there."""

        def run() -> Rows:
            if self._reads_values_here(wanted, unit):
                return self._copied(wanted, unit, distinct=True).several(wanted, CopiedEngine.UNIT, most)
            values = Values(tuple(wanted))
            found = self._pairs(values, unit, most)
            named = dict(zip(value_names(len(wanted)), key_names(values), strict=True))
            # Not by `dense_rank`, which gives rows of one unit several numbers on ClickHouse.
            placed = found.mutate(place=ibis.row_number().over(order_by=found[UNIT]))
            number = placed.place.min().over(group_by=placed[UNIT])
            return kept_pairs(_collect(placed.select(**{UNIT: number}, **{v: placed[k] for v, k in named.items()})))

        return guarded(self.name, run)

    def close(self) -> None:
        """Let go of what was brought here."""
        while self._copies:
            self._copies.pop().close()

    def _pairs(self, question: Question, unit: str, most: int) -> Any:
        """Distinct u, k0, k1, …, at most `most` rows of a unit."""
        held = self._of_units(question.columns, unit)
        cleaned = held.select(**{UNIT: held[UNIT]}, **self._clean_values(held, question.columns))
        found = column_keys.pairs(nw.from_native(cleaned).lazy(), question).to_native().mutate(r=ibis.random())
        place = ibis.row_number().over(group_by=found[UNIT], order_by=found.r)
        return found.mutate(place=place).filter(lambda table: table.place < most)

    def _form(self, column: str) -> Form | None:
        """How the database groups a column that is read here; None where the database reads it itself."""
        value = self._frame[column]
        if is_instant(value) and self._database.on_clock(value, self.time_zone) is None:
            return "instant"
        if self.kind(column) == "text":
            return None if self._database.normalises else "text"
        return "as it is" if self.kind(column) in self._database.read_here else None

    def _splits(self, unit: str) -> bool:
        """Whether several forms in the database may be one unit."""
        return not self._database.normalises and is_text(unit_column(self._frame[unit]))

    def _reads_rows_here(self, wanted: Sequence[str], unit: str | None = None) -> bool:
        """Whether all rows come here: the database may not compare the texts in them, or cannot apply the filter."""
        filters = [self._form(column) for column in self._filter.named.values()]
        texts = "text" in [*map(self._form, wanted), *filters] or (unit is not None and self._splits(unit))
        return "instant" in filters or (texts and not self._database.groups_text)

    def _reads_values_here(self, wanted: Sequence[str], unit: str) -> bool:
        """Whether only here it is known which values of a unit are distinct."""
        return self._reads_rows_here(wanted, unit) or self._splits(unit) or any(map(self._form, wanted))

    def _copied(
        self, wanted: Sequence[str], unit: str | None = None, *, distinct: bool = False, alone_too: bool = True
    ) -> Engine:
        """An engine here, of the rows that `copying` selects; `CopiedEngine.UNIT` is its unit's column."""
        rows, forms, places, filters = self.copying(wanted, unit, distinct=distinct, alone_too=alone_too)
        copied = CopiedEngine(read_batches(rows, forms), places)
        self._copies.append(copied)
        copied.time_zone = self.time_zone
        return copied.filtered(filters) if filters else copied

    def copying(
        self, wanted: Sequence[str], unit: str | None = None, *, distinct: bool = False, alone_too: bool = True
    ) -> tuple[Any, dict[str, Form], dict[str, str], RowFilter]:
        """The query for the rows that have a value in these columns, to be brought here.

        With it come the forms of its columns, what each column of the data is called in it, and the filter that is
        left for here. The database filters rows where it can. With `distinct`, equal rows come once, where the
        database may compare them. Without `alone_too`, units whose rows the database may choose are left out.
        """
        filters = self._filter if self._reads_rows_here(wanted, unit) else RowFilter()
        columns = dict.fromkeys((*wanted, *filters.named.values()))
        places = {column: f"c{number}" for number, column in enumerate(columns)}
        named = {place: column for column, place in places.items()}
        held = renamed((), unit) | {places[column]: column for column in wanted}
        table = self._held(self._named(renamed((), unit) | named, filtered=not filters), held)
        if unit is not None and not alone_too:
            keyed = table.mutate(**{ASCII: self._alone(table, held), _KEY: self._unit_key(table[UNIT])})
            table = whole_units(keyed, _KEY, alone=False)
        carried = {place: self._carried(table[place], column) for place, column in named.items()}
        forms = {place: form for place, column in named.items() if (form := self._form(column)) is not None}
        if unit is not None:
            carried[UNIT] = self._carried(table[UNIT], unit) if self._splits(unit) else self._unit_key(table[UNIT])
            forms |= {UNIT: "text"} if self._splits(unit) else {}
        if not self._database.groups_text:
            forms = {place: form for place, form in forms.items() if form != "text"}
        rows = table.select(**carried)
        return (rows.distinct() if distinct and self._compares() else rows), forms, places, filters

    def _compares(self) -> bool:
        """Whether the database compares texts in the forms in which they come here."""
        return self._database.normalises or self._database.groups_text

    def _carried(self, value: Any, column: str) -> Any:
        """A column in the form in which it comes here to be cleaned; texts that are normal are so again."""
        if self._form(column) == "instant":
            return self._database.microseconds(value)
        if self.kind(column) != "text" and not is_text(value):
            return value
        if self._database.groups_text:
            return self._database.unit_form(as_text(value))
        return self._clean(value, "text") if self._database.normalises else as_text(value)

    def _of_units(self, wanted: Sequence[str], unit: str) -> Any:
        """The rows that have a unit and a value in all columns, with what tells units apart in u."""
        held = self._held(self._select(wanted, unit), renamed(wanted, unit))
        alone = self._alone(held, renamed(wanted, unit))
        keyed = held.mutate(**{ASCII: alone, UNIT: self._unit_key(held[UNIT])})
        known = [keyed[UNIT].notnull()]
        if self._database.normalises:
            texts = [keyed[name] for name, column in renamed(wanted).items() if self.kind(column) == "text"]
            known += [self._clean(text, "text").notnull() for text in texts]
        return keyed.filter(*known)

    def _alone(self, table: Any, named: Mapping[str, str]) -> Any:
        """1 in rows that have a value and whose unit has one name, as the database sees it; elsewhere 0."""
        tests = [
            self._database.is_composable(as_text(table[name]))
            for name, column in named.items()
            if name != UNIT and self._form(column) == "text"
        ]
        if self._splits(named[UNIT]):
            tests.append(self._database.is_ascii(as_text(table[UNIT])))
        return flag(functools.reduce(lambda one, other: one & other, tests, ibis.literal(True)))

    def _select(self, wanted: Sequence[str], unit: str | None = None) -> Any:
        """The rows that satisfy the filter, with v0, v1, …, and u for the unit."""
        return self._named(renamed(wanted, unit))

    def _named(self, named: Mapping[str, str], *, filtered: bool = True) -> Any:
        """The rows that satisfy the filter, with columns under these names."""
        rows = self._filter if filtered else RowFilter()
        both = {**named, **rows.named}
        table = self._frame.select(
            **{
                name: unit_column(self._frame[column]) if name == UNIT else self._on_clock(self._frame[column])
                for name, column in both.items()
            }
        )
        if not rows:
            return table
        kinds = rows.kinds
        held = table.filter(*(test for name, kind in kinds.items() for test in self._tests(table[name], kind)))
        clean = {
            name: self._database.form(as_text(held[name]))
            if self._form(rows.named[name]) == "text"
            else self._clean(held[name], kind)
            for name, kind in kinds.items()
        }
        tests = tuple(self._as_grouped(test) for test in rows.tests)
        return RowFilter(tests).kept(held.mutate(**clean), named)

    def _as_grouped(self, test: ColumnTest) -> ColumnTest:
        """The same test for the forms of texts: they are one of all forms that its own texts have."""
        if self._form(test.condition.column) != "text":
            return test
        found: set[str] = set()
        for constant in test.constants:
            same = spellings(constant, MOST_SPELLINGS)
            if same is None or len(found := found | same) > MOST_SPELLINGS:
                raise InvalidSetting(
                    "where",
                    f"names texts of {test.condition.column!r} that Unicode can write in more than {MOST_SPELLINGS:,} "
                    "ways, in a database that cannot normalise them",
                    hint="Give the table as a data frame (to_polars).",
                )
        return replace(test, constants=tuple(sorted(self._database.digits(text) for text in found)))

    def _cleaned(self, held: Any, wanted: Sequence[str]) -> Rows:
        """Rows that have a value in all columns, cleaned as far as the database can."""
        named = renamed(wanted)
        kinds = dict(zip(named, self._kinds(wanted), strict=True))
        forms = {name: form for name, column in named.items() if (form := self._form(column)) is not None}
        if forms:
            texts = [self._database.is_ascii(as_text(held[name])) for name, form in forms.items() if form == "text"]
            in_ascii = flag(functools.reduce(lambda one, other: one & other, texts, ibis.literal(True)))
            grouped = held.select(
                **{name: self._grouped(held[name], kind, forms.get(name)) for name, kind in kinds.items()},
                **{ASCII: in_ascii},
            )
            return FormRows(self.name, grouped, kinds, forms, lambda: self._drawn(grouped), self.time_zone)
        clean = held.select(**self._clean_values(held, wanted))
        if "text" not in kinds.values():
            return LazyRows(self.name, clean, _collect, drawn=lambda: self._drawn(clean))
        # Each form is normalised once instead of each row.
        stored = held.select(
            **{
                name: self._database.form(as_text(held[name])) if kind == "text" else self._clean(held[name], kind)
                for name, kind in kinds.items()
            }
        )
        counted = stored.group_by(list(kinds)).aggregate(**{WEIGHT: lambda each: each.count()})
        normal = {name: self._database.normal(counted[name]) for name, kind in kinds.items() if kind == "text"}
        return LazyRows(
            self.name, counted.mutate(**normal), _collect, True, nulls=True, drawn=lambda: self._drawn(clean)
        )

    def _grouped(self, value: Any, kind: Kind, form: Form | None) -> Any:
        """A column as the database groups it."""
        if form == "text":
            return self._database.form(as_text(value))
        if form == "instant":
            return self._database.microseconds(value)
        return value if form == "as it is" else self._clean(value, kind)

    def _clean_values(self, held: Any, wanted: Sequence[str]) -> dict[str, Any]:
        return {name: self._clean(held[name], self.kind(column)) for name, column in renamed(wanted).items()}

    def _clean(self, value: Any, kind: Kind | None) -> Any:
        return self._database.normal(self._database.form(as_text(value))) if kind == "text" else clean(value, kind)

    def _drawn(self, table: Any) -> Any:
        """The table with a random number d in each row."""
        drawn = table.mutate(**{DRAW: ibis.random()})
        # Such databases draw again wherever they inline a subquery: a unit would be grouped by one bucket and shown as
        # another. They inline none that has a limit into one that counts.
        return drawn.limit(2**62) if self._database.draws_again else drawn

    def _held(self, table: Any, named: Mapping[str, str]) -> Any:
        """The rows that have a value in all columns; `named` says what a table's columns are called in the data."""
        return table.filter(
            *(test for name, column in named.items() for test in self._tests(table[name], self.kind(column)))
        )

    def _tests(self, value: Any, kind: Kind | None) -> list[Any]:
        """The tests that a row has a value in a column."""
        tests = [value.notnull()]
        if kind == "floats" and self._database.has_nan:
            tests.append(~value.isnan())
        elif kind in ("dates", "times") and not is_instant(value):
            # A time that no calendar has must not stop the count.
            tests.extend([value.year().between(1, 9999), *self._database.day_tests(value)])
        elif kind == "decimals":
            tests.extend(self._database.decimal_tests(value))
        return tests

    def _unit_key(self, value: Any) -> Any:
        """What tells units apart: for text, and what may be text, bytes that no collation applies to."""
        if not is_text(value):
            return self._database.unit_digest(value) if value.type().is_binary() else value
        if self._database.normalises:
            return self._database.unit_key(as_text(value))
        return self._database.unit_digest(self._database.unit_form(as_text(value)))

    def _on_clock(self, value: Any) -> Any:
        """A column; instants are times on the wall clock of the zone, unless they are read here."""
        if not is_instant(value):
            return value
        clock = self._database.on_clock(value, self.time_zone)
        if clock is not None or self._database.microseconds(value) is not None:
            return value if clock is None else clock
        raise InvalidSetting(
            "column",
            f"{value.get_name()!r} holds times with a zone in a database that Thresher cannot make read on another "
            "clock",
            hint="Give the column as a data frame (to_polars).",
        )


class IbisRelationEngine(RelationEngine):
    """An Ibis table on DuckDB, as a relation of the caller's connection."""

    def __init__(self, relation: Any, table: Any) -> None:
        super().__init__(relation)
        self._table = table  # Ibis removes its tables in memory from DuckDB when nothing refers to them

    def _stored_kind(self, column: str) -> Kind | None:
        # DuckDB takes a column of nulls for whole numbers.
        return "nothing" if self._table.schema()[column].is_null() else super()._stored_kind(column)


def _collect(table: Any) -> pa.Table:
    return told_of_rows(brought(table).to_pyarrow, table.get_backend().name)
