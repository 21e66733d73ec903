"""Expressions over columns of SQLite and PostgreSQL, in functions that Ibis does not know."""

from __future__ import annotations

import functools
import inspect
import math
import sys
from typing import Any, cast

import ibis
import ibis.expr.datatypes as dt

from thresher.questions.normal_form import LEAST_BYTES, TOO_MANY_MARKS, composed, normal
from thresher.tables.column_kinds import Kind
from thresher.tables.objects import decoded
from thresher.tables.text_reading import value_as
from thresher.tables.time_zones import INSTANTS, zone_of


def called(name: str, returns: Any, *arguments: Any) -> Any:
    """A call of the database's own function `name`, which returns this type; arguments are expressions or text."""
    types = tuple("string" if isinstance(argument, str) else argument.type() for argument in arguments)

    def function() -> None: ...  # Ibis reads its signature, and never calls it

    parameters = [
        inspect.Parameter(f"a{place}", inspect.Parameter.POSITIONAL_OR_KEYWORD) for place in range(len(types))
    ]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return ibis.udf.scalar.builtin(function, name=name, signature=(types, returns))(*arguments)


def is_a_double_on_postgresql(number: Any) -> Any:
    """Whether a double can hold a decimal. Questions about numbers read a double, and PostgreSQL stops otherwise."""
    least, most = (ibis.literal(repr(bound)).cast("decimal") for bound in (math.ulp(0.0), sys.float_info.max))
    return (number == 0) | number.abs().between(least, most)


def in_calendar(instant: Any, value: Any) -> Any:
    """A value made of an instant; null where no calendar has that, since databases stop at some that are too far."""
    first, last = (microseconds / 1_000_000 for microseconds in INSTANTS)
    return ibis.cases((called("date_part", "float64", "epoch", instant).between(first, last), value))


def on_clock_on_postgresql(instant: Any, time_zone: str) -> Any:
    """An instant on a zone's wall clock, whatever zone the session has."""
    return in_calendar(instant, called("timezone", "timestamp", time_zone, instant))


def octets_on_postgresql(text: Any) -> Any:
    """The bytes of text in UTF-8, which no collation applies to."""
    return called("convert_to", "binary", text.cast("string"), "UTF8")


def normal_on_postgresql(octets: Any) -> Any:
    """The bytes of text in NFC; null where it has too many marks in a row."""
    # Through bytes: PostgreSQL refuses to search text of a collation that takes several spellings for one.
    plain = called("convert_from", "string", octets, "UTF8")
    key = called("convert_to", "binary", called("normalize", "string", plain), "UTF8")
    short = called("octet_length", "int64", octets) < LEAST_BYTES
    return ibis.cases((short | ~plain.re_search(TOO_MANY_MARKS), key))


def text_on_postgresql(octets: Any) -> Any:
    """Text in NFC, which is compared by its bytes: the database's own collation tells all spellings apart."""
    return called("convert_from", "string", normal_on_postgresql(octets), "UTF8")


def stored_on_sqlite(column: Any) -> Any:
    """How SQLite stores a value: "null", "integer", "real", "text" or "blob"."""
    return called("typeof", "string", column)


def normal_on_sqlite(octets: Any) -> Any:
    """The bytes of text in NFC. SQLite has no normaliser, and calls Python's. Bytes that are not UTF-8 stay."""

    def thresher_unit_key(octets: bytes) -> bytes:
        text = decoded(octets)
        if text is None:
            return octets
        key = composed(text)
        return cast(bytes, None if key is None else key.encode())  # Ibis has no annotation for "bytes or null"

    return ibis.udf.scalar.python(thresher_unit_key)(octets)


def octets_on_sqlite(column: Any) -> Any:
    """The bytes of text; null for what is stored as anything else."""
    return ibis.cases((stored_on_sqlite(column) == "text", column.cast("binary")))


def text_on_sqlite(octets: Any) -> Any:
    """Text in its normal form, which is compared by its bytes; null where it is no value."""

    def thresher_text(octets: bytes) -> str:
        return cast(str, normal(decoded(octets)))  # Ibis has no annotation for "text or null"

    return ibis.udf.scalar.python(thresher_text)(octets)


def hexadecimal_on_sqlite(octets: Any) -> Any:
    """Bytes as digits that every collation tells apart."""
    return called("hex", "string", octets)


def read_on_sqlite(column: Any, time_zone: str) -> Any:
    """A column of dates or times, with each value of the years 1 to 9999 in one spelling; null where it is none.

    SQLite keeps dates and times as text of any spelling, and Ibis fails at many of them, as at 31 February. They are
    read as text is in a file (see `questions.spelling`). The usual spellings are recognised in SQL, which is quicker.
    """
    dtype = column.type() if column.type().is_date() else dt.Timestamp()
    kind: Kind = "dates" if dtype.is_date() else "times"
    zone = zone_of(time_zone)

    @functools.lru_cache(maxsize=1 << 12)  # SQLite asks several times for one row
    def thresher_read(octets: bytes) -> str:
        text = decoded(octets)
        value = None if text is None else value_as(kind, text, zone)
        return cast(str, None if value is None else str(value))  # Ibis has no annotation for "text or null"

    text = called("likely", "string", column)  # SQLite's function that returns its argument: only the type changes
    usual = _is_usual(text, "%Y-%m-%d" if kind == "dates" else "%Y-%m-%d %H:%M:%S")
    if kind == "times":
        second, fraction = text.left(19), text.right(7)
        usual |= (text.length() == 26) & _is_usual(second, "%Y-%m-%d %H:%M:%S") & _is_fraction(fraction)
    other = ibis.udf.scalar.python(thresher_read)(column.cast("binary"))
    return ibis.cases(
        (stored_on_sqlite(column) != "text", ibis.null(dtype)),
        (usual, called("likely", dtype, column)),
        else_=called("likely", dtype, other),
    )


def _is_usual(text: Any, form: str) -> Any:
    """Whether text is a date or time of the calendar, in this form of SQLite's."""
    # Without a shift, SQLite leaves 31 February as it is.
    return (text >= "0001") & (called("strftime", "string", form, text, "+0 days") == text)


def _is_fraction(text: Any) -> Any:
    """Whether text is a fraction of six digits that is not zero."""
    return called("glob", "boolean", "." + "[0-9]" * 6, text) & (text != ".000000")
