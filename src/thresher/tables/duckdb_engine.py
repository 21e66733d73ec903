"""DuckDB relations: files that we opened, and whatever a caller's own connection reads."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from thresher.errors import InvalidSetting
from thresher.questions import Question
from thresher.questions.population import Progress
from thresher.tables.column_kinds import Kind
from thresher.tables.duckdb_columns import KINDS, chosen, cleaned, collect, counted_once, satisfying, text_read
from thresher.tables.duckdb_connection import disconnect, watched
from thresher.tables.duckdb_pairs import kept_pairs, keys_of, new_seed, numbered, pairs, whole_values
from thresher.tables.engine import Engine, renamed
from thresher.tables.error_guard import guarded
from thresher.tables.rows import LazyRows, Retried, Rows

T = TypeVar("T")

_NESTED = ("struct", "list", "map", "array", "union", "variant")


class RelationEngine(Engine):
    """A DuckDB relation.

    `connection` is given where it is our own; it is closed with the engine. Only then `progress` is called while the
    relation is read.
    """

    name = "DuckDB"

    def __init__(self, relation: Any, connection: Any = None, progress: Progress | None = None) -> None:
        self._relation = relation
        self._own = connection
        self._progress = progress if connection is not None else None
        self._share: Callable[[], float] | None = None  # how much is read, from 0 to 1, where DuckDB does not know it
        self._numbers = itertools.count()

    def names(self) -> list[str] | None:
        """The columns' names."""
        return list(self._relation.columns)

    def _stored_kind(self, column: str) -> Kind | None:
        dtype = self._type(column)
        # JSON is text underneath, but one value has many spellings.
        return None if str(dtype) == "JSON" else KINDS.get(dtype.id)

    def nested(self, column: str) -> bool:
        """Whether a column holds lists or structures."""
        return self._type(column).id in _NESTED or str(self._type(column)) == "JSON"

    def _type(self, column: str) -> Any:
        return self._relation.types[self._relation.columns.index(column)]

    def careful(self) -> RelationEngine | None:
        """The same rows, read so that no single value can make it fail; None where there is no other way to read."""
        return None

    def rows(self, wanted: Sequence[str]) -> Rows:
        """These columns, each row a unit."""
        rows = guarded(
            self.name, lambda: cleaned(self._select(wanted), self._kinds(wanted), self.time_zone, self._collect)
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
            one_each = chosen(self._select(wanted, unit), kinds, self.kind(unit), self.time_zone)
            if self._own is None:
                return counted_once(cleaned(one_each, kinds), wanted)
            name = f"chosen_{next(self._numbers)}"
            self._watched(lambda: one_each.create(name))
            return cleaned(self._own.table(name), kinds)

        return self._carefully(run, lambda careful: careful.chosen(wanted, unit))

    def size(self) -> int | None:
        """How many rows there are, where DuckDB knows it by heart, as it does for tables and Parquet files.

        Then no step of its plan counts anything.
        """

        def run() -> int | None:
            number = self._relation.aggregate("count(*) AS n")
            if "aggregate" in number.explain().lower():
                return None
            return int(collect(number)["n"][0].as_py())

        return guarded(self.name, run)

    def pairs(self, question: Question, unit: str, most: int) -> Rows:
        """Each unit in each of its buckets, at most `most` of them."""
        wanted = question.columns

        def run() -> LazyRows:
            kinds, unit_kind = self._kinds(wanted), self.kind(unit)
            rows = self._select(wanted, unit)
            found = pairs(rows, question, kinds, unit_kind, self.time_zone, most, new_seed())
            return LazyRows(self.name, keys_of(found, question), self._collect, form="keys")

        careful = self.careful()
        rows = guarded(self.name, run)
        return rows if careful is None else Retried(rows, lambda: careful.pairs(question, unit, most))

    def several(self, wanted: Sequence[str], unit: str, most: int) -> Rows:
        """Each unit with its values, at most `most` of them: a table on our own connection, else in memory."""

        def run() -> LazyRows:
            kinds, unit_kind = self._kinds(wanted), self.kind(unit)
            rows = self._select(wanted, unit)
            found = whole_values(rows, kinds, unit_kind, self.time_zone, most, new_seed())
            if self._own is None:
                return kept_pairs(numbered(found))
            own, name = self._own, f"several_{next(self._numbers)}"
            self._watched(lambda: found.create(name))
            return LazyRows(
                self.name, own.table(name), collect, closing=lambda: own.execute(f"DROP TABLE {name}"), form="units"
            )

        return self._carefully(run, lambda careful: careful.several(wanted, unit, most))

    def close(self) -> None:
        """Close the connection, if it is ours."""
        if self._own is not None:
            disconnect(self._own)

    def _carefully(self, run: Callable[[], Rows], again: Callable[[RelationEngine], Rows]) -> Rows:
        """Read the rows once; where that fails and there is a careful way to read them, in that way."""
        try:
            return guarded(self.name, run)
        except InvalidSetting:
            careful = self.careful()
            if careful is None:
                raise
        return again(careful)

    def _collect(self, relation: Any) -> pa.Table:
        return self._watched(lambda: collect(relation))

    def _watched(self, action: Callable[[], T]) -> T:
        return watched(self._own, action, self._progress, self._share)

    def _select(self, wanted: Sequence[str], unit: str | None = None) -> Any:
        """The wanted columns as v0, v1, … and the unit's as u, with their text read; rows that the filter keeps."""
        named = renamed(wanted, unit)
        return self._as_read(self._stored(named | self._filter.named), named)

    def _stored(self, named: Mapping[str, str]) -> Any:
        """A relation with a column for each name, from the column that it stands for."""
        return project_as(self._relation, named)

    def _as_read(self, relation: Any, named: Mapping[str, str]) -> Any:
        """The rows of a relation that satisfy the filter, with the text in its columns read."""
        read = {name: self._read[column] for name, column in named.items() if column in self._read}
        return satisfying(text_read(relation, read | self._filter.read, self.time_zone), self._filter, self.time_zone)


def project_as(relation: Any, named: Mapping[str, str]) -> Any:
    """The columns of a relation under these names, each with the column's own name."""
    columns = {name: '"' + column.replace('"', '""') + '"' for name, column in named.items()}
    return relation.project(", ".join(f"{column} AS {name}" for name, column in columns.items()))
