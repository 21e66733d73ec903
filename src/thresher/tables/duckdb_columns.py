"""Columns in DuckDB's SQL: how they are cleaned, and how one row a unit is chosen.

Every function here reads relations whose columns are called v0, v1, …, and u for the unit.

Text is compared by its bytes. A column may have a collation, and so may a caller's session (`default_collation`): under
it DuckDB would count several spellings as one and return any of them, even the spelling of a single person.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from thresher.questions import Values
from thresher.questions.normal_form import LEAST_BYTES, MARK, MOST_MARKS
from thresher.tables.column_keys import COUNT, DRAW, KEY, UNIT, VALUE, WEIGHT, canonical, value_names
from thresher.tables.column_kinds import Kind
from thresher.tables.duckdb_connection import connect, disconnect
from thresher.tables.row_filters import RowFilter
from thresher.tables.rows import LazyRows, Rows
from thresher.tables.text_reading import once, text_as
from thresher.tables.time_zones import INSTANTS, SQL_IN_CALENDAR, UTC

_ASCII = "strlen({0}) = length({0})"
_SIGN = "chr(1)"
# Each mark becomes one sign, and a row of signs is searched for. DuckDB would compile the expression for a row of marks
# each time that a query is bound, which takes longer than a small count.
_MARKED = f"regexp_replace(replace(replace({{0}}, chr(0), ''), {_SIGN}, ' '), '{MARK}', {_SIGN}, 'g')"
# Most text is short or has a byte for each character, and is not searched.
_COMPOSABLE = (
    f"(strlen({{0}}) < {LEAST_BYTES} OR {_ASCII} OR NOT contains({_MARKED}, repeat({_SIGN}, {MOST_MARKS + 1})))"
)
"""Whether text has no more marks in a row than Thresher normalises."""

_CLEAN: dict[Kind, str] = {
    # NFC leaves ASCII as it is. NUL goes first: nfc_normalize stops at one.
    "text": (
        f"CASE WHEN {_ASCII} AND NOT contains({{0}}, chr(0)) THEN {{0}} "
        f"WHEN {_COMPOSABLE} THEN nfc_normalize(replace({{0}}, chr(0), '')) END COLLATE C"
    ).replace("{0}", "CAST({0} AS VARCHAR)"),
    "whole numbers": "TRY_CAST({0} AS BIGINT)",
    "floats": "CASE WHEN {0} = 0 THEN CAST(0 AS DOUBLE) ELSE CAST({0} AS DOUBLE) END",
    "decimals": "CAST({0} AS VARCHAR) COLLATE C",
    "booleans": "{0}",
    "dates": "TRY_CAST({0} AS DATE)",
    "times": "{0}",
}

_IS_NUMBER = "{0} IS NOT NULL AND (isfinite({0}) OR isinf({0}))"
"""Not `NOT isnan`: the statistics of Parquet files leave NaN out, and DuckDB takes from them that there is none."""

_HELD: dict[Kind, str] = {
    # One person's whole number of more than 64 bits, or time that no calendar has, must not stop the count.
    "whole numbers": "TRY_CAST({0} AS BIGINT) IS NOT NULL",
    "floats": _IS_NUMBER,
    "dates": "TRY_CAST({0} AS DATE) BETWEEN DATE '0001-01-01' AND DATE '9999-12-31'",
    "times": SQL_IN_CALENDAR,
}
"""The test that a row has a value of a kind; for other kinds, that it is not null."""

KINDS: dict[str, Kind] = {
    **dict.fromkeys(("varchar", "enum", "uuid"), "text"),
    **dict.fromkeys(("tinyint", "smallint", "integer", "bigint", "utinyint", "usmallint", "uinteger"), "whole numbers"),
    "hugeint": "whole numbers",  # the type that DuckDB gives to sums
    **dict.fromkeys(("float", "double"), "floats"),
    "decimal": "decimals",
    "boolean": "booleans",
    "date": "dates",
    '"null"': "nothing",
    **dict.fromkeys(("timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns"), "times"),
    **dict.fromkeys(("timestamp with time zone", "timestamptz_ns"), "times"),
}
"""What columns of DuckDB's types hold; all other types cannot be counted."""

_UNIT = (
    # NFC leaves ASCII as it is; nfc_normalize stops at a NUL.
    f"CASE WHEN {_ASCII} OR contains({{0}}, chr(0)) THEN {{0}} "
    f"WHEN {_COMPOSABLE} THEN nfc_normalize({{0}}) END COLLATE C"
)
_UNITS_A_STEP = 1024
_EARLIEST, _LATEST = (f"make_timestamptz({instant})" for instant in INSTANTS)


def collect(relation: Any) -> pa.Table:
    """A relation's rows as Arrow."""
    return relation.to_arrow_table()


def text_read(relation: Any, kinds: Mapping[str, Kind], time_zone: str) -> Any:
    """The same relation, with the text in these columns read as these kinds; null where it cannot be read."""
    if not kinds:
        return relation
    names = relation.columns
    texts = [f"CAST({name} AS VARCHAR) COLLATE C AS {name}" if name in kinds else name for name in names]
    values = [f"{once(text_as(kinds[name], name, time_zone))} AS {name}" if name in kinds else name for name in names]
    return relation.project(", ".join(texts)).project(", ".join(values))


def cleaned(
    relation: Any,
    kinds: Sequence[Kind],
    time_zone: str = UTC,
    collect: Callable[[Any], pa.Table] = collect,
    *,
    counted: bool = False,
) -> LazyRows:
    """The cleaned rows of a relation whose columns hold these kinds.

    Text is counted in the form in which it came and cleaned after that: each form once instead of each row. A relation
    that is `counted` already has each form once, and w, how many units it stands for.
    """
    names = value_names(len(kinds))
    weighted = "text" in kinds
    relation = comparable(relation, time_zone).filter(_held(names, kinds))
    if weighted and not counted:
        listed = ", ".join(names)
        relation = relation.aggregate(f"{listed}, count(*) AS {WEIGHT}", listed)
    clean = clean_values(kinds)
    projected = relation.project(", ".join([*clean, WEIGHT] if weighted else clean))
    drawn = functools.partial(_drawn, projected, names, weighted)
    tallied = functools.partial(_tallied, projected, names, weighted)
    # Text that cannot be normalised is null from here on.
    return LazyRows("DuckDB", projected, collect, weighted, nulls=weighted, drawn=drawn, tallied=tallied)


def _tallied(relation: Any, names: Sequence[str], weighted: bool, at_least: int) -> Any:
    """What `column_keys.count` gives for whole values."""
    keys = [f"{name} AS {KEY}{index}" for index, name in enumerate(names)]
    number = f"CAST(sum({WEIGHT}) AS BIGINT)" if weighted else "count(*)"
    counted = relation.aggregate(", ".join([*keys, f"{number} AS {COUNT}"]), ", ".join(names))
    return counted.filter(f"{COUNT} >= {at_least}") if at_least > 1 else counted


def _drawn(relation: Any, names: Sequence[str], weighted: bool) -> Any:
    """One row a unit, with a random number d."""
    listed = ", ".join(names)
    if weighted:
        # In two steps: a list as long as the largest weight might not fit into memory.
        step = f"least({WEIGHT} - {_UNITS_A_STEP} * unnest(range((w - 1) // {_UNITS_A_STEP} + 1)), {_UNITS_A_STEP})"
        relation = relation.project(f"{listed}, {step} AS {WEIGHT}").project(f"{listed}, unnest(range({WEIGHT}))")
    return relation.project(f"{listed}, random() AS {DRAW}")


def clean_values(kinds: Sequence[Kind]) -> list[str]:
    """SQL for the cleaned values v0, v1, … of columns of these kinds."""
    return [f"{_CLEAN[kind].format(name)} AS {name}" for name, kind in zip(value_names(len(kinds)), kinds, strict=True)]


def satisfying(relation: Any, rows: RowFilter, time_zone: str) -> Any:
    """The rows that satisfy a filter, without its columns f0, f1, …, which hold what was stored, or was read."""
    if not rows:
        return relation
    kinds = rows.kinds
    names = [name for name in relation.columns if name not in kinds]
    return rows.kept(read_forms(relation, kinds, time_zone), names)


def read_forms(relation: Any, kinds: Mapping[str, Kind], time_zone: str) -> Any:
    """The same relation with these columns, of these kinds, cleaned; a value that is none is null from here on."""
    types = dict(zip(relation.columns, relation.types, strict=True))
    names = [name for name in relation.columns if name not in kinds]
    forms = [f"{_form(name, types[name].id, time_zone)} AS {name}" for name in kinds]
    clean = [
        f"CASE WHEN {_held([name], [kind])} THEN {_CLEAN[kind].format(name)} END AS {name}"
        for name, kind in kinds.items()
    ]
    return relation.project(", ".join(names + forms)).project(", ".join(names + clean))


def chosen(relation: Any, kinds: Sequence[Kind], unit_kind: Kind | None, time_zone: str = UTC) -> Any:
    """One row for each value of the column u, with v0, v1, … of a row that is chosen at random.

    Edge cases: one more row, without values, for all texts in u that cannot be normalised.
    """
    names = value_names(len(kinds))
    held = of_units(relation, kinds, unit_kind, time_zone)
    # A row with text that cannot be normalised gets no number, and is never the first; a filter would take longer.
    texts = [
        _COMPOSABLE.format(f"CAST({name} AS VARCHAR)")
        for name, kind in zip(names, kinds, strict=True)
        if kind == "text"
    ]
    number = f"CASE WHEN {' AND '.join(texts)} THEN random() END" if texts else "random()"
    drawn = held.project(f"{', '.join(names)}, {unit_key(unit_kind)} AS {UNIT}, {number} AS r")
    if len(names) == 1:
        return drawn.aggregate(f"CASE WHEN {UNIT} IS NOT NULL THEN arg_min({VALUE}0, r) END AS {VALUE}0", UNIT)
    packed = ", ".join(f"{name} := {name}" for name in names)
    whole_rows = drawn.aggregate(f"CASE WHEN {UNIT} IS NOT NULL THEN arg_min(struct_pack({packed}), r) END AS s", UNIT)
    return whole_rows.project(", ".join(f"s.{name} AS {name}" for name in names))


def of_units(relation: Any, kinds: Sequence[Kind], unit_kind: Kind | None, time_zone: str = UTC) -> Any:
    """The rows that have a unit in u and a value in v0, v1, …, in forms that can be compared."""
    known = _IS_NUMBER.format(UNIT) if unit_kind == "floats" else f"{UNIT} IS NOT NULL"
    return comparable(relation, time_zone).filter(f"({known}) AND {_held(value_names(len(kinds)), kinds)}")


def unit_key(kind: Kind | None) -> str:
    """SQL for what tells units of the column u apart: text by its bytes in NFC, anything else by itself.

    Edge cases: null for text that cannot be normalised, which is no unit.
    """
    return _UNIT.format(f"CAST({UNIT} AS VARCHAR)") if kind == "text" else UNIT


def comparable(relation: Any, time_zone: str) -> Any:
    """The same columns, in forms that do not depend on a session.

    Text is compared by its bytes from here on, whatever collation its column or session has. Times are microseconds on
    the wall clock of `time_zone`, whatever zone a session has; units stay as they are.
    """
    types = zip(relation.columns, relation.types, strict=True)
    forms = {name: _form(name, dtype.id, time_zone) for name, dtype in types}
    if all(name == form for name, form in forms.items()):
        return relation
    return relation.project(", ".join(f"{form} AS {name}" for name, form in forms.items()))


def _form(name: str, dtype: str, time_zone: str) -> str:
    if dtype == "varchar":
        return f"{name} COLLATE C"
    if name == UNIT or KINDS.get(dtype) != "times":
        return name
    if dtype == "timestamp with time zone":
        # At an instant that no calendar has, the function would stop the whole count.
        return f"CASE WHEN {name} BETWEEN {_EARLIEST} AND {_LATEST} THEN timezone('{time_zone}', {name}) END"
    if dtype not in ("timestamp_ns", "timestamptz_ns"):
        return f"TRY_CAST({name} AS TIMESTAMP)"
    # Down to whole microseconds, also before 1970; a cast would round, at the end of a day into the next one.
    nanoseconds = f"epoch_ns({name})"
    microseconds = f"{nanoseconds} // 1000 - CASE WHEN {nanoseconds} % 1000 < 0 THEN 1 ELSE 0 END"
    if dtype == "timestamp_ns":
        return f"make_timestamp({microseconds})"
    return f"timezone('{time_zone}', make_timestamptz({microseconds}))"


def weighted_rows(counted: pa.Table) -> LazyRows:
    """Rows from counts of whole values: one for each value, which stands for as many units as have it."""
    values = value_names(counted.num_columns - 1)
    connection = connect()
    relation = connection.from_arrow(canonical(counted).rename_columns([*values, WEIGHT]))
    closing = functools.partial(disconnect, connection)
    drawn = functools.partial(_drawn, relation, values, True)
    return LazyRows("DuckDB", relation, collect, weighted=True, closing=closing, drawn=drawn)


def counted_once(rows: Rows, wanted: Sequence[str]) -> LazyRows:
    """The same units as distinct values with their counts, in memory, so that a random choice in them is kept."""
    return weighted_rows(rows.counts(Values(tuple(wanted))))


def _held(names: Sequence[str], kinds: Sequence[Kind]) -> str:
    """The test that a row has a value in all these columns."""
    tests = zip(names, kinds, strict=True)
    return " AND ".join(f"({_HELD.get(kind, '{0} IS NOT NULL').format(name)})" for name, kind in tests)
