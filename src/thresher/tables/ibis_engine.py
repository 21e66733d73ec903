"""Ibis tables: counted by the database behind them."""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from thresher.errors import InvalidSetting
from thresher.questions.normal_form import TOO_MANY_MARKS
from thresher.tables.column_keys import value_names
from thresher.tables.column_kinds import Kind, kind_of_narwhals, not_read
from thresher.tables.duckdb_engine import RelationEngine, counted_once
from thresher.tables.error_guard import guarded
from thresher.tables.rows import Engine, LazyRows
from thresher.tables.sqlite_columns import hexadecimal_on_sqlite, normal_on_sqlite, read_on_sqlite, stored_on_sqlite
from thresher.tables.time_zones import UTC

if TYPE_CHECKING:
    import pyarrow as pa


def open_ibis(table: Any) -> Engine:
    """The engine of an Ibis table: where DuckDB is behind it, the one for DuckDB relations."""
    backend = table.get_backend()
    if backend.name != "duckdb":
        return IbisEngine(table)

    def relation() -> Any:
        # Ibis shows its tables in memory and its functions to DuckDB when it runs a query.
        backend.to_pyarrow(table.limit(0))
        return backend.con.sql(backend.compile(table))

    return IbisRelationEngine(guarded("Ibis", relation), table)


class IbisRelationEngine(RelationEngine):
    """An Ibis table on DuckDB, as a relation of the caller's connection."""

    def __init__(self, relation: Any, table: Any) -> None:
        super().__init__(relation)
        self._table = table  # Ibis takes its tables in memory away from DuckDB when nothing refers to them

    def kind(self, column: str) -> Kind | None:
        """What a column holds; DuckDB calls a column of nulls one of whole numbers."""
        return "nothing" if self._table.schema()[column].is_null() else super().kind(column)


class IbisEngine:
    """An Ibis table on any other database.

    Units that are text are told apart by their bytes in NFC: under a collation, or as a type like `citext`, a database
    would take several spellings for one.

    Edge cases: text is not counted: not every database has a normaliser that Ibis can call. Units that are text are
    known on PostgreSQL and SQLite only.
    """

    name = "Ibis"

    def __init__(self, table: Any) -> None:
        import narwhals as nw

        self._table = table
        self._backend: str = table.get_backend().name
        self._schema = guarded(self.name, lambda: nw.from_native(table).collect_schema())
        self._time_zone = UTC

    def names(self) -> list[str]:
        """The columns' names."""
        return list(self._schema)

    def kind(self, column: str) -> Kind | None:
        """What a column holds, from the table's schema."""
        dtype = self._table.schema()[column]
        if dtype.is_null():
            return "nothing"
        return "text" if dtype.is_uuid() else kind_of_narwhals(self._schema[column])

    def untyped(self, column: str) -> bool:
        """The schema is public."""
        return False

    def reading(self, kinds: Mapping[str, Kind]) -> NoReturn:
        """Not here: the caller can cast where the data is."""
        raise not_read(kinds, "an Ibis table")

    def on_clock(self, time_zone: str) -> IbisEngine:
        """The same rows, with instants on the wall clock of this zone."""
        engine = copy.copy(self)
        engine._time_zone = time_zone
        return engine

    def nested(self, column: str) -> bool:
        """Whether a column holds lists or structures."""
        dtype = self._table.schema()[column]
        return bool(dtype.is_nested() or dtype.is_json())

    def rows(self, wanted: Sequence[str]) -> LazyRows:
        """These columns, each row a unit."""
        return guarded(self.name, lambda: self._cleaned(self._select(wanted), wanted))

    def chosen(self, wanted: Sequence[str], unit: str) -> LazyRows:
        """These columns, one row a unit.

        Chosen values are counted at once and their counts kept in memory, since many databases refuse new tables.
        """
        import ibis

        names = value_names(len(wanted))

        def run() -> LazyRows:
            held = self._held(self._select(wanted, unit), [*wanted, unit])
            keyed = held.mutate(u=self._unit_key(held.u, unit))
            drawn = keyed.filter(keyed.u.notnull()).mutate(r=ibis.random())
            first = {name: drawn[name].argmin(drawn.r) for name in names}
            one_each = drawn.group_by("u").aggregate(**first).drop("u")
            return counted_once(self._cleaned(one_each, wanted), wanted)

        return guarded(self.name, run)

    def close(self) -> None:
        """Nothing is kept open."""

    def _unit_key(self, column: Any, unit: str) -> Any:
        """What tells units apart: for text, and what may be text, bytes that no collation applies to."""
        dtype = self._table.schema()[unit]
        is_text = dtype.is_string() or dtype.is_unknown()
        if self._backend == "sqlite" and not dtype.is_floating():
            # A column of SQLite may hold text whatever its type is, and a cast keeps the column's collation.
            return (normal_on_sqlite if is_text else hexadecimal_on_sqlite)(column.cast("binary"))
        if not is_text:
            return column
        if self._backend == "postgres":
            return _normal_on_postgresql(column.cast("string"))
        raise InvalidSetting(
            "unit",
            f"{unit!r} is text in a database that Thresher cannot make compare by its bytes",
            hint="Give a column of numbers, or the table as a data frame, for example table.to_polars().",
        )

    def _select(self, wanted: Sequence[str], unit: str | None = None) -> Any:
        named = dict(zip(value_names(len(wanted)), wanted, strict=True))
        if unit is not None:
            named["u"] = unit
        return self._table.select(
            **{new: self._table[old] if new == "u" else self._on_clock(old) for new, old in named.items()}
        )

    def _on_clock(self, column: str) -> Any:
        """A column; instants are times on the wall clock of the zone."""
        dtype = self._table.schema()[column]
        if self._backend == "sqlite" and (dtype.is_date() or (dtype.is_timestamp() and dtype.timezone is None)):
            return read_on_sqlite(self._table[column], self._time_zone)
        if not (dtype.is_timestamp() and dtype.timezone is not None):
            return self._table[column]
        if self._backend == "postgres":
            return _on_clock_of_postgresql(self._table[column], self._time_zone)
        raise InvalidSetting(
            "column",
            f"{column!r} holds times with a zone in a database that Thresher cannot make read on another clock",
            hint="Give the column as a data frame, for example table.to_polars().",
        )

    def _cleaned(self, table: Any, wanted: Sequence[str]) -> LazyRows:
        kinds = {name: self.kind(column) for name, column in zip(value_names(len(wanted)), wanted, strict=True)}
        if "text" in kinds.values():
            raise InvalidSetting(
                "data",
                "holds text in a database that Thresher cannot make normalise it",
                hint="Give the column as a data frame, for example table.to_polars().",
            )
        held = self._held(table, wanted)
        return LazyRows(
            self.name, held.select(**{name: _clean(held[name], kind) for name, kind in kinds.items()}), _collect
        )

    def _held(self, table: Any, columns: Sequence[str]) -> Any:
        """The rows that have a value in all columns of a table, which hold what these columns do."""
        tests = [table[name].notnull() for name in table.columns]
        for name, column in zip(table.columns, columns, strict=True):
            kind = self.kind(column)
            if self._backend == "sqlite" and kind in _STORED_ON_SQLITE and name != "u":
                tests.append(stored_on_sqlite(table[name]).isin(_STORED_ON_SQLITE[kind]))
                # Ibis sends values through JSON here, which has no infinity.
                tests.append(table[name].cast("float64").between(-sys.float_info.max, sys.float_info.max))
            elif self._backend == "postgres" and kind == "decimals":
                tests.append(_is_a_double_on_postgresql(table[name]))
            elif kind == "floats":
                tests.append(~table[name].isnan())
            elif kind in ("dates", "times") and (self._backend != "sqlite" or name == "u"):
                # A time that no calendar has must not stop the count.
                tests.append(table[name].year().between(1, 9999))
        return table.filter(*tests)


def _clean(column: Any, kind: Kind | None) -> Any:
    import ibis

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


def _is_a_double_on_postgresql(number: Any) -> Any:
    """Whether a double can hold a decimal: a question about numbers reads one, and PostgreSQL stops where none can."""
    import ibis

    least, most = (ibis.literal(repr(bound)).cast("decimal") for bound in (math.ulp(0.0), sys.float_info.max))
    return (number == 0) | number.abs().between(least, most)


def _normal_on_postgresql(text: Any) -> Any:
    """The bytes of text in NFC; null where it has too many marks in a row."""
    import ibis

    def normalize(text: str) -> str:
        raise NotImplementedError

    def convert_to(text: str, encoding: str) -> bytes:
        raise NotImplementedError

    def convert_from(octets: bytes, encoding: str) -> str:
        raise NotImplementedError

    builtin = ibis.udf.scalar.builtin  # reads names and types; the bodies never run
    # Through bytes: PostgreSQL refuses to search text of a collation that takes several spellings for one.
    plain = builtin(convert_from)(builtin(convert_to)(text, "UTF8"), "UTF8")
    key = builtin(convert_to)(builtin(normalize)(plain), "UTF8")
    return ibis.cases((~plain.re_search(TOO_MANY_MARKS), key))


def _on_clock_of_postgresql(instant: Any, time_zone: str) -> Any:
    """An instant on a zone's wall clock, whatever zone the session has."""
    import ibis
    import ibis.expr.datatypes as types

    def timezone(name: Any, instant: Any) -> Any:
        raise NotImplementedError

    signature = ((types.string, types.Timestamp("UTC")), types.timestamp)
    return ibis.udf.scalar.builtin(timezone, signature=signature)(time_zone, instant)


_STORED_ON_SQLITE: dict[Kind, tuple[str, ...]] = {
    "whole numbers": ("integer",),
    "floats": ("integer", "real"),
    "decimals": ("integer", "real"),
    "booleans": ("integer",),
}
"""How SQLite stores values of a kind. It takes any value into any column; what is stored otherwise does not count.

In a column of decimals, text that is a number is stored as a number.
"""


def _collect(table: Any) -> pa.Table:
    return table.to_pyarrow()
