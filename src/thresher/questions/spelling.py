"""How single values are written as text, and how text is read as a number, a truth value, a date or a time.

A file's columns, lists and columns of Python objects have no types that are public: what a value is, is read off the
value itself, never off its neighbours. Fleets write whole values as text by the same rule: numbers as ECMAScript does
(`thresher.questions.doubles`). The patterns here are the whole of what is read; engines use them in SQL, with the same
result.

    whole numbers   7, -7, +7, 007, 7.0 (a fraction of zeros, as pandas writes whole numbers that have gaps)
    floats          7, -7.5, .5, 5., 1e3, 1E-3; not inf, nan, 1_000, 0x10, 1,5
    booleans        true, false, in any case
    dates, times    ISO 8601: 2024-01-31, 2024-01-31T20:00, 2024-01-31 20:00:00.123456, with Z, +02, +0200 or +02:00

Blanks around them are ignored. Text of more than 100 characters, blanks included, is none of them. Dates and times are
those of the years 1 to 9999. A time with an offset is an instant, and is read on the wall clock of a zone, UTC unless
another is named; one without is taken as it stands.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import Decimal
from numbers import Rational, Real
from typing import Any, cast

from thresher.questions.doubles import double_form, double_text, nearest_double
from thresher.questions.normal_form import normal

LONGEST = 100
"""Text of more characters than this is read as text only."""

BLANKS = " \t\r\n"
WHOLE = r"[+-]?[0-9]+(?:\.0*)?"
FLOAT = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
BOOLEAN = r"[tT][rR][uU][eE]|[fF][aA][lL][sS][eE]"
DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,9})?)?"
OFFSET = r"Z|[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?"
TIME = rf"({DAY})(?:[T ]({CLOCK})({OFFSET})?)?"
"""Its groups are the day, the clock and the offset."""

MOST_DIGITS = 4_300
"""A whole number of more digits has no text. It is Python's own limit, and takes a bounded time."""

_TOO_LONG = 10**MOST_DIGITS

LEAST_WHOLE, MOST_WHOLE = -(2**63), 2**63 - 1
"""A whole number that a column or a report can hold has 64 bits."""


def as_text(value: Any) -> str | None:
    """A whole value as it is counted: 42 is "42", true is "true", dates and times are in ISO form.

    A whole number has all its digits, also one that is a `Decimal` or a `Fraction`. Any other `Decimal` has all its
    digits, in the form in which ECMAScript writes numbers. Any other number is read as the nearest double, and written
    as ECMAScript writes it: 1.0 is "1". A time has six digits of a fraction that is not zero, and its offset if it has
    one; a device leaves the offset out (`normal`).
    Edge cases: what is neither text, number, boolean, date nor time is no value; neither is NaN, a whole number of over
    4,300 digits, or a time outside the years 1 to 9999.
    """
    if isinstance(value, str):
        return cast(str | None, normal(value))
    if is_boolean(value):
        return "true" if value else "false"
    if isinstance(value, Rational) and value.denominator == 1:
        number = int(value.numerator)
        return str(number) if -_TOO_LONG < number < _TOO_LONG else None
    if isinstance(value, Decimal):
        return _decimal_text(value)
    if isinstance(value, Real):
        double = nearest_double(value)
        return None if double is None else double_text(double)
    if isinstance(value, dt.date):
        if value != value or not dt.MINYEAR <= value.year <= dt.MAXYEAR:  # pandas has times that are none, or far off
            return None
        # By the method of the standard library: pandas would write nanoseconds.
        return dt.datetime.isoformat(value) if isinstance(value, dt.datetime) else dt.date.isoformat(value)
    return value.isoformat() if isinstance(value, dt.time) else None


def exact_text(value: Any) -> str | None:
    """As `as_text`, except that a float that is a whole number has all its digits: 2.0**60 is 1152921504606846976.

    For text from which a number is read again: ECMAScript fills up with zeros beyond 17 digits.
    """
    whole = isinstance(value, Real) and not isinstance(value, Rational) and math.isfinite(value) and value % 1 == 0
    return str(int(value)) if whole else as_text(value)


def _decimal_text(value: Decimal) -> str | None:
    """All digits of a decimal, without zeros at its end."""
    if not value.is_finite():
        return None if value.is_nan() else double_text(float(value))
    digits = "".join(map(str, value.as_tuple().digits)).strip("0")
    if not digits:
        return "0"
    minus = "-" if value.is_signed() else ""
    place = value.adjusted() + 1  # the point is before the digit of this number
    if place >= len(digits):
        return minus + digits.ljust(place, "0") if place <= MOST_DIGITS else None
    if len(digits) > MOST_DIGITS:
        return None
    return minus + double_form(digits, place - 1)


def is_boolean(value: Any) -> bool:
    """Whether a value is a truth value of Python or of NumPy."""
    return isinstance(value, bool) or type(value).__name__ == "bool"


def read_whole(text: str) -> int | None:
    """A whole number of at most 64 bits, or None."""
    bare = _matching(WHOLE, text)
    if bare is None:
        return None
    number = int(bare.partition(".")[0])
    return number if LEAST_WHOLE <= number <= MOST_WHOLE else None


def read_float(text: str) -> float | None:
    """A finite double, or None."""
    bare = _matching(FLOAT, text)
    if bare is None:
        return None
    number = float(bare)
    return (0.0 if number == 0 else number) if math.isfinite(number) else None


def read_boolean(text: str) -> bool | None:
    """A truth value, or None."""
    bare = _matching(BOOLEAN, text)
    return None if bare is None else bare.lower() == "true"


def read_time(text: str, zone: dt.tzinfo = dt.UTC) -> dt.datetime | None:
    """A time on the wall clock of a zone, in microseconds, or None."""
    bare = _matching(TIME, text)
    if bare is None:
        return None
    try:
        time = dt.datetime.fromisoformat(bare)
        return time if time.tzinfo is None else time.astimezone(zone).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None


def read_date(text: str, zone: dt.tzinfo = dt.UTC) -> dt.date | None:
    """The day of a date or a time, or None."""
    time = read_time(text, zone)
    return None if time is None else time.date()


def written_day(value: Any) -> dt.date | None:
    """The day of a date or a time that a device holds, as an object or as text; None where it is none.

    JSON has no dates, so a device reads text too: exactly a day, or a day and a clock, without blanks around them. The
    day is the one that is written: an offset is not applied, as a time is read on its own wall clock.
    """
    if isinstance(value, dt.date):
        # Not the value itself, which may be of a class of the app; pandas has a time that is none.
        return dt.date(value.year, value.month, value.day) if value == value else None
    if not (isinstance(value, str) and re.fullmatch(TIME, value)):
        return None
    try:
        return dt.date.fromisoformat(value[:10])
    except ValueError:  # 30 February, or the year 0
        return None


def _matching(pattern: str, text: str) -> str | None:
    """The text without the blanks around it, if all of it matches."""
    bare = text.strip(BLANKS)
    return bare if len(text) <= LONGEST and re.fullmatch(pattern, bare) else None
