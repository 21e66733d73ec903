"""Ibis tables on SQLite."""

from __future__ import annotations

import sys
from typing import Any, ClassVar

from thresher.tables import ibis_functions as functions
from thresher.tables.column_keys import UNIT
from thresher.tables.column_kinds import Kind
from thresher.tables.ibis_columns import is_text
from thresher.tables.ibis_databases import DATABASES
from thresher.tables.ibis_engine import IbisEngine


class SqliteEngine(IbisEngine):
    """An Ibis table on SQLite, where any column takes any value: one that does not fit the type is no value."""

    _STORED: ClassVar[dict[Kind, tuple[str, ...]]] = {
        "whole numbers": ("integer",),
        "floats": ("integer", "real"),
        "decimals": ("integer", "real"),  # text that is a number is stored as one in a column of decimals
        "booleans": ("integer",),
        "text": ("text",),
    }
    """How SQLite stores values of a kind; what is stored otherwise does not count."""

    def __init__(self, frame: Any) -> None:
        super().__init__(frame, DATABASES["sqlite"])

    def _tests(self, value: Any, kind: Kind | None) -> list[Any]:
        if value.get_name() == UNIT:
            return super()._tests(value, kind)
        tests = [value.notnull()]  # of dates and times, `_on_clock` has made nulls of those that no calendar has
        if kind in self._STORED:
            tests.append(functions.stored_on_sqlite(value).isin(self._STORED[kind]))
            if kind != "text":
                # Ibis sends values through JSON here, which has no infinity.
                tests.append(value.cast("float64").between(-sys.float_info.max, sys.float_info.max))
            if kind == "booleans":
                tests.append(value.cast("int64").isin((0, 1)))  # any other number would be a second True
        return tests

    def _unit_key(self, value: Any) -> Any:
        # A column of SQLite may hold text whatever its type is, and a cast keeps the column's collation.
        if is_text(value) or value.type().is_floating():
            return super()._unit_key(value)
        return functions.hexadecimal_on_sqlite(value.cast("binary"))

    def _on_clock(self, value: Any) -> Any:
        dtype = value.type()
        if dtype.is_date() or (dtype.is_timestamp() and dtype.timezone is None):
            return functions.read_on_sqlite(value, self.time_zone)
        return super()._on_clock(value)
