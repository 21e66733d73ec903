"""DuckDB: the embedded engine, for files and frames in memory, and the engine of a caller's relation.

Text is compared by its bytes. A column may have a collation, and so may a caller's session (`default_collation`): under
it DuckDB would count several spellings as one and return any of them, be it that of a single person.
"""

from __future__ import annotations

import copy
import functools
import itertools
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from thresher.errors import InvalidSetting
from thresher.questions import Values
from thresher.questions.normal_form import LEAST_BYTES, TOO_MANY_MARKS
from thresher.questions.population import Progress
from thresher.tables.column_keys import VALUE, WEIGHT, canonical, value_names
from thresher.tables.column_kinds import Kind
from thresher.tables.duckdb_progress import watched
from thresher.tables.error_guard import guarded
from thresher.tables.rows import LazyRows, Retried, Rows
from thresher.tables.text_reading import once, text_as
from thresher.tables.time_zones import CALENDAR, UTC

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

_DIRECTORIES: weakref.WeakKeyDictionary[Any, Callable[[], object]] = weakref.WeakKeyDictionary()
"""How to remove the directory of each connection of ours."""

_MANY = TOO_MANY_MARKS.replace("{", "{{").replace("}", "}}")
_ASCII = "strlen({0}) = length({0})"
# Most text is short or has a byte for each character, and needs no closer look.
_COMPOSABLE = (
    f"(strlen({{0}}) < {LEAST_BYTES} OR {_ASCII} OR NOT regexp_matches(replace({{0}}, chr(0), ''), '{_MANY}'))"
)
"""That text has no more marks in a row than may be sorted: the time that this takes grows with their square."""

_CLEAN: dict[Kind, str] = {
    # NUL goes first: nfc_normalize stops at one.
    "text": f"CASE WHEN {_COMPOSABLE} THEN nfc_normalize(replace({{0}}, chr(0), '')) END COLLATE C".replace(
        "{0}", "CAST({0} AS VARCHAR)"
    ),
    "whole numbers": "TRY_CAST({0} AS BIGINT)",
    "floats": "CASE WHEN {0} = 0 THEN CAST(0 AS DOUBLE) ELSE CAST({0} AS DOUBLE) END",
    "decimals": "CAST({0} AS VARCHAR) COLLATE C",
    "booleans": "{0}",
    "dates": "TRY_CAST({0} AS DATE)",
    "times": "{0}",
}

_HELD: dict[Kind, str] = {
    # One person's whole number of more than 64 bits, or time that no calendar has, must not stop the count.
    "whole numbers": "TRY_CAST({0} AS BIGINT) IS NOT NULL",
    "floats": "{0} IS NOT NULL AND NOT isnan({0})",
    "dates": "TRY_CAST({0} AS DATE) BETWEEN DATE '0001-01-01' AND DATE '9999-12-31'",
    "times": "{0} BETWEEN TIMESTAMP '0001-01-01' AND TIMESTAMP '9999-12-31 23:59:59.999999'",
}
"""What a row must hold to have a value of a kind; of all others, anything."""

_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("varchar", "enum", "uuid"), "text"),
    **dict.fromkeys(("tinyint", "smallint", "integer", "bigint", "utinyint", "usmallint", "uinteger"), "whole numbers"),
    "hugeint": "whole numbers",  # what DuckDB makes of sums
    **dict.fromkeys(("float", "double"), "floats"),
    "decimal": "decimals",
    "boolean": "booleans",
    "date": "dates",
    '"null"': "nothing",
    **dict.fromkeys(("timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns"), "times"),
    **dict.fromkeys(("timestamp with time zone", "timestamptz_ns"), "times"),
}


_UNIT = (
    # NFC leaves ASCII as it is; nfc_normalize stops at a NUL.
    f"CASE WHEN {_ASCII} OR contains({{0}}, chr(0)) THEN {{0}} "
    f"WHEN {_COMPOSABLE} THEN nfc_normalize({{0}}) END COLLATE C"
)
_EARLIEST, _LATEST = (f"make_timestamptz({instant})" for instant in CALENDAR)
_NESTED = ("struct", "list", "map", "array", "union", "variant")


def connect(threads: int | None = None, *, ordered: bool = False) -> Any:
    """A DuckDB of our own: in memory, wall clock UTC, and what does not fit in memory in a private directory.

    The directory is removed by `disconnect`, or else with the connection, or when Python ends. With `ordered`, rows
    keep their order.
    """
    import duckdb

    directory = tempfile.mkdtemp(prefix="thresher-")
    connection = duckdb.connect(":memory:", config={"temp_directory": directory})
    _DIRECTORIES[connection] = weakref.finalize(connection, shutil.rmtree, directory, ignore_errors=True)
    connection.execute("SET TimeZone = 'UTC'")
    # By itself DuckDB draws a bar on standard output when a query takes long.
    connection.execute("SET enable_progress_bar = false")
    connection.execute("SET default_collation = 'C'")
    # Counting does not need the order of rows, and keeping it costs memory.
    if not ordered:
        connection.execute("SET preserve_insertion_order = false")
    if threads is not None:
        connection.execute(f"SET threads = {int(threads)}")
    return connection


def disconnect(connection: Any) -> None:
    """Close a connection of ours and remove its directory now, whoever else still refers to the connection."""
    connection.close()
    remove = _DIRECTORIES.pop(connection, None)
    if remove is not None:
        remove()


@contextmanager
def connected(threads: int | None = None, *, ordered: bool = False) -> Iterator[Any]:
    """A DuckDB of our own for a while."""
    connection = connect(threads, ordered=ordered)
    try:
        yield connection
    finally:
        disconnect(connection)


def quoted(name: str) -> str:
    """A column's name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def collect(relation: Any) -> pa.Table:
    """A relation's rows as Arrow."""
    return relation.to_arrow_table()


def cleaned(
    relation: Any, kinds: Sequence[Kind], time_zone: str = UTC, collect: Callable[[Any], pa.Table] = collect
) -> LazyRows:
    """Rows of a relation whose columns are called v0, v1, … and hold these kinds.

    Text is counted in the form in which it came and cleaned after that: each form once instead of each row.
    """
    names = value_names(len(kinds))
    weighted = "text" in kinds
    relation = _comparable(relation, time_zone).filter(_held(names, kinds))
    if weighted:
        listed = ", ".join(names)
        relation = relation.aggregate(f"{listed}, count(*) AS {WEIGHT}", listed)
    clean = [f"{_CLEAN[kind].format(name)} AS {name}" for name, kind in zip(names, kinds, strict=True)]
    projected = relation.project(", ".join([*clean, WEIGHT] if weighted else clean))
    # Text that cannot be normalised is null from here on.
    return LazyRows("DuckDB", projected, collect, weighted, nulls=weighted)


def chosen(relation: Any, kinds: Sequence[Kind], unit_kind: Kind | None, time_zone: str = UTC) -> Any:
    """One row for each value of the column u, with v0, v1, … of a row that is chosen at random.

    Edge cases: one more row, without values, for all texts in u that cannot be normalised.
    """
    names = value_names(len(kinds))
    known = "u IS NOT NULL AND NOT isnan(u)" if unit_kind == "floats" else "u IS NOT NULL"
    held = _comparable(relation, time_zone).filter(f"{known} AND {_held(names, kinds)}")
    # A row with text that cannot be normalised has no number, and is never the first; a filter would take longer.
    texts = [
        _COMPOSABLE.format(f"CAST({name} AS VARCHAR)")
        for name, kind in zip(names, kinds, strict=True)
        if kind == "text"
    ]
    number = f"CASE WHEN {' AND '.join(texts)} THEN random() END" if texts else "random()"
    drawn = held.project(f"{', '.join(names)}, {unit_key(unit_kind)} AS u, {number} AS r")
    if len(names) == 1:
        return drawn.aggregate(f"CASE WHEN u IS NOT NULL THEN arg_min({VALUE}0, r) END AS {VALUE}0", "u")
    packed = ", ".join(f"{name} := {name}" for name in names)
    whole_rows = drawn.aggregate(f"CASE WHEN u IS NOT NULL THEN arg_min(struct_pack({packed}), r) END AS s", "u")
    return whole_rows.project(", ".join(f"s.{name} AS {name}" for name in names))


def unit_key(kind: Kind | None) -> str:
    """What tells units of a column u apart, as SQL: text by its bytes in NFC, anything else by itself.

    Edge cases: null for text that cannot be normalised, which is no unit.
    """
    return _UNIT.format("CAST(u AS VARCHAR)") if kind == "text" else "u"


def _comparable(relation: Any, time_zone: str) -> Any:
    """The same columns, in forms that nothing else has a say in.

    Text is compared by its bytes from here on, whatever collation its column or session has. Times are microseconds on
    the wall clock of `time_zone`, whatever zone a session has; units stay as they are.
    """
    types = dict(zip(relation.columns, relation.types, strict=True))
    return relation.project(", ".join(f"{_form(name, dtype.id, time_zone)} AS {name}" for name, dtype in types.items()))


def _form(name: str, dtype: str, time_zone: str) -> str:
    if dtype == "varchar":
        return f"{name} COLLATE C"
    if name == "u" or _KINDS.get(dtype) != "times":
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
    names = [*value_names(counted.num_columns - 1), WEIGHT]
    connection = connect()
    relation = connection.from_arrow(counted.rename_columns(names))
    return LazyRows("DuckDB", relation, collect, weighted=True, closing=functools.partial(disconnect, connection))


def counted_once(rows: LazyRows, wanted: Sequence[str]) -> LazyRows:
    """The same units as distinct values with their counts, in memory, so that what was random in them stays."""
    return weighted_rows(canonical(rows.counts(Values(tuple(wanted)))))


def _held(names: Sequence[str], kinds: Sequence[Kind]) -> str:
    """That a row has a value in all these columns."""
    tests = zip(names, kinds, strict=True)
    return " AND ".join(f"({_HELD.get(kind, '{0} IS NOT NULL').format(name)})" for name, kind in tests)


class RelationEngine:
    """A DuckDB relation: a file that we opened, or whatever a caller's own connection reads.

    `progress` is told how far the file is read. `reading` gives the same engine with some text read as other kinds.
    """

    name = "DuckDB"

    def __init__(self, relation: Any, connection: Any = None, progress: Progress | None = None) -> None:
        self._relation = relation
        self._own = connection
        self._progress = progress if connection is not None else None
        self._numbers = itertools.count()
        self._read: Mapping[str, Kind] = {}
        self._time_zone = UTC

    def names(self) -> list[str] | None:
        """The columns' names."""
        return list(self._relation.columns)

    def untyped(self, column: str) -> bool:
        """A relation's types are public."""
        return False

    def reading(self, kinds: Mapping[str, Kind]) -> RelationEngine:
        """The same rows, with these columns of text read as these kinds."""
        engine = copy.copy(self)
        engine._read = dict(kinds)
        return engine

    def on_clock(self, time_zone: str) -> RelationEngine:
        """The same rows, with instants on the wall clock of this zone."""
        engine = copy.copy(self)
        engine._time_zone = time_zone
        return engine

    def kind(self, column: str) -> Kind | None:
        """What a column holds, from the relation's types."""
        if column in self._read:
            return self._read[column]
        dtype = self._relation.types[list(self._relation.columns).index(column)]
        # JSON is text underneath, but one value has many spellings.
        return None if str(dtype) == "JSON" else _KINDS.get(dtype.id)

    def nested(self, column: str) -> bool:
        """Whether a column holds lists or structures."""
        return self._relation.types[list(self._relation.columns).index(column)].id in _NESTED

    def careful(self) -> RelationEngine | None:
        """The same rows, read so that no single value can make it fail; None where there is no other way to read."""
        return None

    def rows(self, wanted: Sequence[str]) -> Rows:
        """These columns, each row a unit."""
        rows = guarded(
            self.name, lambda: cleaned(self._select(wanted), self._kinds(wanted), self._time_zone, self._collect)
        )
        careful = self.careful()
        return rows if careful is None else Retried(rows, lambda: careful.rows(wanted))

    def chosen(self, wanted: Sequence[str], unit: str) -> Rows:
        """These columns, one row a unit.

        On our own connection they are a table, which may go to disk. A caller's connection is left as it is: the
        chosen values are counted at once, and their counts are kept in memory.
        """

        def run() -> LazyRows:
            kinds = self._kinds(wanted)
            one_each = chosen(self._select(wanted, unit), kinds, self.kind(unit), self._time_zone)
            if self._own is None:
                return counted_once(cleaned(one_each, kinds), wanted)
            name = f"chosen_{next(self._numbers)}"
            self._watched(lambda: one_each.create(name))
            return cleaned(self._own.table(name), kinds)

        careful = self.careful()
        if careful is None:
            return guarded(self.name, run)
        try:
            return guarded(self.name, run)
        except InvalidSetting:
            return careful.chosen(wanted, unit)

    def close(self) -> None:
        """Close the connection, if it is ours."""
        if self._own is not None:
            disconnect(self._own)

    def _collect(self, relation: Any) -> pa.Table:
        return self._watched(lambda: collect(relation))

    def _watched(self, action: Callable[[], T]) -> T:
        return watched(self._own, action, self._progress, self._share)

    @property
    def _share(self) -> Callable[[], float] | None:
        """What says how much of a file is read, from 0 to 1, where DuckDB does not."""
        return None

    def _kinds(self, wanted: Sequence[str]) -> list[Kind]:
        return [kind for column in wanted if (kind := self.kind(column)) is not None]

    def _select(self, wanted: Sequence[str], unit: str | None = None) -> Any:
        """The wanted columns as v0, v1, … and the unit's as u, each in the form in which it is counted."""
        named = dict(zip(value_names(len(wanted)), wanted, strict=True))
        if unit is not None:
            named["u"] = unit
        listed = [
            f"CAST({quoted(column)} AS VARCHAR) COLLATE C AS {name}"
            if column in self._read
            else f"{quoted(column)} AS {name}"
            for name, column in named.items()
        ]
        return self._as_read(_comparable(self._relation.project(", ".join(listed)), self._time_zone), named)

    def _as_read(self, relation: Any, named: Mapping[str, str]) -> Any:
        """A relation with columns called v0, v1, … and u, with the text among them read."""
        if not any(column in self._read for column in named.values()):
            return relation
        read = {
            name: text_as(self._read[column], name, self._time_zone) if column in self._read else name
            for name, column in named.items()
        }
        return relation.project(
            ", ".join(f"{what if what == name else once(what)} AS {name}" for name, what in read.items())
        )
