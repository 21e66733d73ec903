"""DuckDB: the embedded engine, for files and frames in memory, and the engine of a caller's relation."""

from __future__ import annotations

import functools
import itertools
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from thresher.analytics.rounds import Progress
from thresher.populations.columns import VALUE, WEIGHT, canonical, value_names
from thresher.populations.guarding import guarded
from thresher.populations.kinds import Kind
from thresher.populations.rows import LazyRows
from thresher.populations.watching import watched
from thresher.questions import Values

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

_DIRECTORIES: weakref.WeakKeyDictionary[Any, Callable[[], object]] = weakref.WeakKeyDictionary()
"""How to remove the directory of each connection of ours."""

_CLEAN: dict[Kind, str] = {
    # NUL goes first: nfc_normalize stops at one.
    "text": "nfc_normalize(replace(CAST({0} AS VARCHAR), chr(0), ''))",
    "whole numbers": "CAST({0} AS BIGINT)",
    "floats": "CASE WHEN {0} = 0 THEN CAST(0 AS DOUBLE) ELSE CAST({0} AS DOUBLE) END",
    "decimals": "CAST({0} AS VARCHAR)",
    "booleans": "{0}",
    "dates": "CAST({0} AS DATE)",
    "times": "CAST({0} AS TIMESTAMP)",
}

_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("varchar", "enum", "uuid"), "text"),
    **dict.fromkeys(("tinyint", "smallint", "integer", "bigint", "utinyint", "usmallint", "uinteger"), "whole numbers"),
    # What DuckDB makes of sums, and of JSON numbers that have both signs; one beyond 64 bits stops the count.
    "hugeint": "whole numbers",
    **dict.fromkeys(("float", "double"), "floats"),
    "decimal": "decimals",
    "boolean": "booleans",
    "date": "dates",
    '"null"': "nothing",
    **dict.fromkeys(("timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "timestamp with time zone"), "times"),
}


def connect(threads: int | None = None) -> Any:
    """A DuckDB of our own: in memory, wall clock UTC, and what does not fit in memory in a private directory.

    The directory is removed by `disconnect`, or else with the connection, or when Python ends.
    """
    import duckdb

    directory = tempfile.mkdtemp(prefix="thresher-")
    connection = duckdb.connect(":memory:", config={"temp_directory": directory})
    _DIRECTORIES[connection] = weakref.finalize(connection, shutil.rmtree, directory, ignore_errors=True)
    connection.execute("SET TimeZone = 'UTC'")
    # Counting does not need the order of rows, and keeping it costs memory.
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
def connected(threads: int | None = None) -> Iterator[Any]:
    """A DuckDB of our own for a while."""
    connection = connect(threads)
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


def cleaned(relation: Any, kinds: Sequence[Kind], collect: Callable[[Any], pa.Table] = collect) -> LazyRows:
    """Rows of a relation whose columns are called v0, v1, … and hold these kinds.

    Text is counted in the form in which it came and cleaned after that: each form once instead of each row.
    """
    names = value_names(len(kinds))
    weighted = "text" in kinds
    relation = relation.filter(_held(names, kinds))
    if weighted:
        listed = ", ".join(names)
        relation = relation.aggregate(f"{listed}, count(*) AS {WEIGHT}", listed)
    clean = [f"{_CLEAN[kind].format(name)} AS {name}" for name, kind in zip(names, kinds, strict=True)]
    projected = relation.project(", ".join([*clean, WEIGHT] if weighted else clean))
    return LazyRows("DuckDB", projected, collect, weighted)


def chosen(relation: Any, kinds: Sequence[Kind], unit_kind: Kind | None) -> Any:
    """One row for each value of the column u, with v0, v1, … of a row that is chosen at random."""
    names = value_names(len(kinds))
    drawn = relation.filter(_held(["u", *names], [unit_kind, *kinds])).project("*, random() AS r")
    if len(names) == 1:
        return drawn.aggregate(f"arg_min({VALUE}0, r) AS {VALUE}0", "u")
    packed = ", ".join(f"{name} := {name}" for name in names)
    whole_rows = drawn.aggregate(f"arg_min(struct_pack({packed}), r) AS s", "u")
    return whole_rows.project(", ".join(f"s.{name} AS {name}" for name in names))


def weighted_rows(counted: pa.Table) -> LazyRows:
    """Rows from counts of whole values: one for each value, which stands for as many units as have it."""
    names = [*value_names(counted.num_columns - 1), WEIGHT]
    connection = connect()
    relation = connection.from_arrow(counted.rename_columns(names))
    return LazyRows("DuckDB", relation, collect, weighted=True, closing=functools.partial(disconnect, connection))


def counted_once(rows: LazyRows, wanted: Sequence[str]) -> LazyRows:
    """The same units as distinct values with their counts, in memory, so that what was random in them stays."""
    return weighted_rows(canonical(rows.counts(Values(tuple(wanted)))))


def _held(names: Sequence[str], kinds: Sequence[Kind | None]) -> str:
    """That a row has a value in all these columns."""
    tests = [f"{name} IS NOT NULL" for name in names]
    numbers = [f"NOT isnan({name})" for name, kind in zip(names, kinds, strict=True) if kind == "floats"]
    return " AND ".join([*tests, *numbers])


class RelationEngine:
    """A DuckDB relation: a file that we opened, or whatever a caller's own connection reads.

    `progress` is told how far the file is read.
    """

    name = "DuckDB"

    def __init__(self, relation: Any, connection: Any = None, progress: Progress | None = None) -> None:
        self._relation = relation
        self._own = connection
        self._progress = progress if connection is not None else None
        self._numbers = itertools.count()

    def names(self) -> list[str]:
        """The columns' names."""
        return list(self._relation.columns)

    def kind(self, column: str) -> Kind | None:
        """What a column holds, from the relation's types."""
        dtype = self._relation.types[self.names().index(column)]
        # JSON is text underneath, but one value has many spellings.
        return None if str(dtype) == "JSON" else _KINDS.get(dtype.id)

    def rows(self, wanted: Sequence[str]) -> LazyRows:
        """These columns, each row a unit."""
        return guarded(self.name, lambda: cleaned(self._select(wanted), self._kinds(wanted), self._collect))

    def chosen(self, wanted: Sequence[str], unit: str) -> LazyRows:
        """These columns, one row a unit.

        On our own connection they are a table, which may go to disk. A caller's connection is left as it is: the
        chosen values are counted at once, and their counts are kept in memory.
        """

        def run() -> LazyRows:
            kinds = self._kinds(wanted)
            one_each = chosen(self._select(wanted, unit), kinds, self.kind(unit))
            if self._own is None:
                return counted_once(cleaned(one_each, kinds), wanted)
            name = f"chosen_{next(self._numbers)}"
            self._watched(lambda: one_each.create(name))
            return cleaned(self._own.table(name), kinds)

        return guarded(self.name, run)

    def close(self) -> None:
        """Close the connection, if it is ours."""
        if self._own is not None:
            disconnect(self._own)

    def _collect(self, relation: Any) -> pa.Table:
        return self._watched(lambda: collect(relation))

    def _watched(self, action: Callable[[], T]) -> T:
        return watched(self._own, action, self._progress)

    def _kinds(self, wanted: Sequence[str]) -> list[Kind]:
        return [kind for column in wanted if (kind := self.kind(column)) is not None]

    def _select(self, wanted: Sequence[str], unit: str | None = None) -> Any:
        listed = [f"{quoted(column)} AS {VALUE}{index}" for index, column in enumerate(wanted)]
        if unit is not None:
            listed.append(f"{quoted(unit)} AS u")
        return self._relation.project(", ".join(listed))
