"""Text read as what a question needs, each value by itself; text that cannot be read is no value.

`thresher.questions.spelling` says what is read. Here it is in DuckDB's SQL, for columns, and in Python, for single
values, with the same result.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

from thresher.questions import spelling
from thresher.tables.column_kinds import Kind
from thresher.tables.time_zones import SQL_IN_CALENDAR, UTC

_BLANKS = "[ \\t\\r\\n]*"


def text_as(kind: Kind, text: str, time_zone: str = UTC) -> str:
    """SQL for what `text` says as `kind`; null where it says nothing of that kind.

    A time with an offset is an instant, and is read on the wall clock of `time_zone`. `text` is the name of a column:
    it appears several times in the SQL.
    """
    if kind in ("dates", "times"):
        time = _time(text, time_zone)
        return time if kind == "times" else f"CAST({time} AS DATE)"
    return _SQL[kind](text)


def value_as(kind: Kind, text: str, zone: dt.tzinfo = dt.UTC) -> Any:
    """What one text says as `kind`, on the wall clock of `zone`; None where it says nothing of that kind."""
    if kind in ("dates", "times"):
        return (spelling.read_date if kind == "dates" else spelling.read_time)(text, zone)
    return _PYTHON[kind](text)


def once(expression: str) -> str:
    """SQL for the same expression, which DuckDB evaluates once a row.

    DuckDB pushes filters below a projection, and then evaluates an expression once for every mention of its column. It
    does not do so with random expressions.
    """
    return f"CASE WHEN random() < 2 THEN {expression} END"


def _matches(text: str, pattern: str) -> str:
    """SQL for the test that text is short enough and matches the pattern, but for the blanks around it."""
    return f"length({text}) <= {spelling.LONGEST} AND regexp_full_match({text}, '{_BLANKS}(?:{pattern}){_BLANKS}')"


def _whole(text: str) -> str:
    # A fraction of zeros is cut off: DuckDB would round any fraction.
    return f"CASE WHEN {_matches(text, spelling.WHOLE)} THEN TRY_CAST(split_part({text}, '.', 1) AS BIGINT) END"


def _float(text: str) -> str:
    number = f"TRY_CAST({text} AS DOUBLE)"
    return f"CASE WHEN {_matches(text, spelling.FLOAT)} AND isfinite({number}) THEN {number} END"


def _boolean(text: str) -> str:
    return f"CASE WHEN {_matches(text, spelling.BOOLEAN)} THEN contains(lower({text}), 'true') END"


def _time(text: str, time_zone: str) -> str:
    """SQL for a time. The usual form is tried first, since it needs no more than a cast."""
    usual = f"regexp_full_match({text}, '{spelling.DAY}(?:[T ]{spelling.CLOCK})?') AND NOT starts_with({text}, '0000')"
    bare = f"trim({text}, '{spelling.BLANKS}')"
    parts = f"regexp_extract({bare}, '^(?:{spelling.TIME})$', ['day', 'clock', 'shift'])"
    local = (
        f"TRY_CAST({parts}.day || ' ' || CASE {parts}.clock WHEN '' THEN '00:00' ELSE {parts}.clock END AS TIMESTAMP)"
    )
    # An offset is taken off by hand: versions of DuckDB differ in what they do with one.
    shift = f"{parts}.shift"
    ahead = f"(60 * CAST({shift}[2:3] AS INTEGER) + CAST('0' || replace({shift}[4:], ':', '') AS INTEGER))"
    minutes = f"CASE {shift}[1] WHEN '+' THEN {ahead} WHEN '-' THEN -{ahead} ELSE 0 END"
    moment = f"{local} - to_minutes({minutes})"
    if time_zone != UTC:
        moment = f"CASE {shift} WHEN '' THEN {local} ELSE timezone('{time_zone}', timezone('UTC', {moment})) END"
    in_range = SQL_IN_CALENDAR.format(f"({moment})")
    return (
        f"CASE WHEN {usual} THEN TRY_CAST({text} AS TIMESTAMP) "
        f"WHEN {_matches(text, spelling.TIME)} THEN CASE WHEN {in_range} THEN {moment} END END"
    )


_SQL: dict[Kind, Callable[[str], str]] = {
    "text": lambda text: text,
    "whole numbers": _whole,
    "floats": _float,
    "booleans": _boolean,
}
_PYTHON: dict[Kind, Callable[[str], Any]] = {
    "text": str,
    "whole numbers": spelling.read_whole,
    "floats": spelling.read_float,
    "decimals": str,
    "booleans": spelling.read_boolean,
}
