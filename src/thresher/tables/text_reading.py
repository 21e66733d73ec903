"""Text read as what a question needs, in DuckDB's SQL: each value by itself, and no value where it cannot be read.

`thresher.questions.spelling` says what is read, and reads single values to the same result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from thresher.questions.spelling import BLANKS, BOOLEAN, CLOCK, DAY, FLOAT, LONGEST, TIME, WHOLE
from thresher.tables.column_kinds import Kind
from thresher.tables.time_zones import UTC

if TYPE_CHECKING:
    import pyarrow as pa

_BLANKS = "[ \\t\\r\\n]*"


def text_as(kind: Kind, text: str, time_zone: str = UTC) -> str:
    """SQL for what `text` says as `kind`; null where it says nothing of that kind.

    A time with an offset is an instant, and is read on the wall clock of `time_zone`.

    `text` is written several times: let it be the name of a column.
    """
    if kind in ("dates", "times"):
        time = _time(text, time_zone)
        return time if kind == "times" else f"CAST({time} AS DATE)"
    return _READ[kind](text)


def once(expression: str) -> str:
    """SQL that DuckDB works out once a row.

    DuckDB pushes filters below a projection, and then works an expression out once for every mention of its column;
    but not where chance has a part.
    """
    return f"CASE WHEN random() < 2 THEN {expression} END"


def _matches(text: str, pattern: str) -> str:
    """That text is short enough and, but for the blanks around it, is what the pattern says."""
    return f"length({text}) <= {LONGEST} AND regexp_full_match({text}, '{_BLANKS}(?:{pattern}){_BLANKS}')"


def _whole(text: str) -> str:
    # A fraction of zeros is cut off: DuckDB would round any fraction.
    return f"CASE WHEN {_matches(text, WHOLE)} THEN TRY_CAST(split_part({text}, '.', 1) AS BIGINT) END"


def _float(text: str) -> str:
    number = f"TRY_CAST({text} AS DOUBLE)"
    return f"CASE WHEN {_matches(text, FLOAT)} AND isfinite({number}) THEN {number} END"


def _boolean(text: str) -> str:
    return f"CASE WHEN {_matches(text, BOOLEAN)} THEN contains(lower({text}), 'true') END"


def _time(text: str, time_zone: str) -> str:
    """The usual form first, which takes no more than a cast."""
    usual = f"regexp_full_match({text}, '{DAY}(?:[T ]{CLOCK})?') AND NOT starts_with({text}, '0000')"
    bare = f"trim({text}, '{BLANKS}')"
    parts = f"regexp_extract({bare}, '^(?:{TIME})$', ['day', 'clock', 'shift'])"
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
    in_range = f"({moment}) BETWEEN TIMESTAMP '0001-01-01' AND TIMESTAMP '9999-12-31 23:59:59.999999'"
    return (
        f"CASE WHEN {usual} THEN TRY_CAST({text} AS TIMESTAMP) "
        f"WHEN {_matches(text, TIME)} THEN CASE WHEN {in_range} THEN {moment} END END"
    )


_READ: dict[Kind, Callable[[str], str]] = {
    "text": lambda text: text,
    "whole numbers": _whole,
    "floats": _float,
    "booleans": _boolean,
}


def read_column(
    column: pa.ChunkedArray, kind: Kind, threads: int | None = None, time_zone: str = UTC
) -> pa.ChunkedArray:
    """A column of text in memory, read as `kind`, row by row."""
    import pyarrow as pa

    from thresher.tables.duckdb_engine import collect, connected

    with connected(threads, ordered=True) as connection:
        text = connection.from_arrow(pa.table({"t": column})).project("CAST(t AS VARCHAR) AS t")
        return collect(text.project(f"{text_as(kind, 't', time_zone)} AS t")).column(0)


def arrow_type(kind: Kind) -> pa.DataType:
    """What `read_column` gives for a kind."""
    import pyarrow as pa

    types = {
        "text": pa.string(),
        "whole numbers": pa.int64(),
        "floats": pa.float64(),
        "booleans": pa.bool_(),
        "dates": pa.date32(),
        "times": pa.timestamp("us"),
    }
    return types[kind]
