"""Expressions over the columns of Ibis tables that every database understands."""

from __future__ import annotations

from typing import Any

import ibis

from thresher.tables.column_keys import UNIT
from thresher.tables.column_kinds import MOST_DIGITS, Kind
from thresher.tables.ibis_forms import ASCII


def one_each(units: Any) -> Any:
    """One row for each value of the column u, chosen at random."""
    place = ibis.row_number().over(group_by=units[UNIT], order_by=ibis.random())
    return units.mutate(place=place).filter(lambda table: table.place == 0)


def whole_units(rows: Any, key: str, *, alone: bool) -> Any:
    """The rows of units that are alone in all of their rows, or of all other units; units are told apart by `key`."""
    found = rows.mutate(**{ASCII: rows[ASCII].min().over(group_by=rows[key])})
    return found.filter(found[ASCII] == int(alone))


def flag(test: Any) -> Any:
    """A test as a number: 1 or 0. Not every database has a column of tests."""
    return ibis.cases((test, 1), else_=0)


def as_text(value: Any) -> Any:
    """A column of text, or of what is counted as text."""
    return value if value.type().is_string() else value.cast("string")


def is_text(value: Any) -> bool:
    """Whether a column holds text, or may do so."""
    return bool(value.type().is_string() or value.type().is_unknown())


def is_long(dtype: Any) -> bool:
    """Whether a type has decimals of more digits than narwhals and Arrow take: it cannot be counted, nor its table."""
    return bool(dtype.is_decimal() and (dtype.precision or 0) > MOST_DIGITS)


def unit_column(value: Any) -> Any:
    """A unit's column as it is, or as text where nothing else can hold it."""
    return value.cast("string") if is_long(value.type()) else value


def is_instant(value: Any) -> bool:
    """Whether a column holds times with a zone."""
    return bool(value.type().is_timestamp() and value.type().timezone is not None)


def clean(column: Any, kind: Kind | None) -> Any:
    """The value of a column that holds no text, as it is counted."""
    if kind == "whole numbers":
        return column.cast("int64")
    if kind == "floats":
        number = column.cast("float64")
        return ibis.cases((number.abs() == 0, 0.0), else_=number)  # to DataFusion, -0.0 is not 0.0
    if kind == "decimals":
        # SQLite keeps a column's collation through a cast, and not through an expression.
        return column.cast("string") + ""
    if kind == "times" and (column.type().scale or 0) > 6:
        return column.truncate("us")
    return column
