"""Columns of SQLite, through Ibis. It takes any value into any column, so each value is looked at by itself."""

from __future__ import annotations

import functools
from typing import Any, cast

from thresher.questions.normal_form import composed
from thresher.questions.spelling import read_date, read_time
from thresher.tables.time_zones import zone_of


def stored_on_sqlite(column: Any) -> Any:
    """How SQLite stores a value: "null", "integer", "real", "text" or "blob"."""
    import ibis

    def typeof(value: Any) -> str:
        raise NotImplementedError

    return ibis.udf.scalar.builtin(typeof, signature=((column.type(),), "string"))(column)


def normal_on_sqlite(octets: Any) -> Any:
    """The bytes of text in NFC; SQLite has no normaliser, and calls Python's. Other bytes are what they are."""
    import ibis

    def thresher_unit_key(octets: bytes) -> bytes:
        try:
            text = composed(octets.decode())
        except UnicodeDecodeError:
            return octets
        return cast(bytes, None if text is None else text.encode())  # Ibis has no word for "bytes or null"

    return ibis.udf.scalar.python(thresher_unit_key)(octets)


def hexadecimal_on_sqlite(octets: Any) -> Any:
    """Bytes as digits that every collation tells apart."""
    import ibis

    def hex(octets: bytes) -> str:
        raise NotImplementedError

    return ibis.udf.scalar.builtin(hex)(octets)


def read_on_sqlite(column: Any, time_zone: str) -> Any:
    """A column of dates or times, with each value of the years 1 to 9999 in one spelling; null where it is none.

    SQLite keeps dates and times as text of any spelling, and Ibis stops at many of them, as at 31 February. They are
    read as text is in a file (see `questions.spelling`). The usual spellings are recognised in SQL, which is quicker.
    """
    import ibis

    dtype = column.type()
    is_date = dtype.is_date()

    @functools.lru_cache(maxsize=1 << 12)  # SQLite asks several times for one row
    def thresher_read(octets: bytes) -> str:
        try:
            text = octets.decode()
        except UnicodeDecodeError:
            return cast(str, None)  # Ibis has no word for "text or null"
        if is_date:
            day = read_date(text, zone_of(time_zone))
            return cast(str, None if day is None else day.isoformat())
        time = read_time(text, zone_of(time_zone))
        return cast(str, None if time is None else time.isoformat(" "))

    text = _called(column, "string")
    usual = _is_usual(text, "%Y-%m-%d" if is_date else "%Y-%m-%d %H:%M:%S")
    if not is_date:
        second, fraction = text.left(19), text.right(7)
        usual |= (text.length() == 26) & _is_usual(second, "%Y-%m-%d %H:%M:%S") & _is_fraction(fraction)
    other = ibis.udf.scalar.python(thresher_read)(column.cast("binary"))
    return ibis.cases(
        (stored_on_sqlite(column) != "text", ibis.null(dtype)), (usual, column), else_=_called(other, dtype)
    )


def _is_usual(text: Any, form: str) -> Any:
    """Whether text is a date or time of the calendar, in this form of SQLite's."""
    import ibis

    def strftime(form: str, value: str, shift: str) -> str:
        raise NotImplementedError

    # Without a shift, SQLite leaves 31 February as it is.
    return (text >= "0001") & (ibis.udf.scalar.builtin(strftime)(form, text, "+0 days") == text)


def _is_fraction(text: Any) -> Any:
    """Whether text is a fraction of six digits that is not zero."""
    import ibis

    def glob(pattern: str, value: str) -> bool:
        raise NotImplementedError

    return ibis.udf.scalar.builtin(glob)("." + "[0-9]" * 6, text) & (text != ".000000")


def _called(value: Any, dtype: Any) -> Any:
    """The same value, of which Ibis thinks that it has this type."""
    import ibis

    def likely(value: Any) -> Any:
        raise NotImplementedError  # SQLite's own, which gives back what it gets

    return ibis.udf.scalar.builtin(likely, signature=((value.type(),), dtype))(value)
