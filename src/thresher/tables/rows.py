"""Rows: units with their values, where they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from thresher.errors import InvalidSetting
from thresher.questions import Question
from thresher.tables import column_keys as columns
from thresher.tables.column_kinds import Kind
from thresher.tables.error_guard import guarded

if TYPE_CHECKING:
    import pyarrow as pa


class Rows(Protocol):
    """Some columns' cleaned values v0, v1, …, one row a unit. Text is counted by its bytes, whatever the collation."""

    def counts(self, question: Question, *, at_least: int = 1, most: int | None = None) -> pa.Table:
        """Keys and n of `columns.count`, no more than `most` + 1 rows of them."""
        ...

    def close(self) -> None:
        """Let go of what was kept for these rows."""
        ...


class Engine(Protocol):
    """Where a table's data is, and what counts it."""

    @property
    def name(self) -> str:
        """What the engine is called in messages."""
        ...

    def names(self) -> list[str] | None:
        """The columns' names, or None where only rows could tell (JSON lines)."""
        ...

    def kind(self, column: str) -> Kind | None:
        """What a column holds, or None if it cannot be counted. Never depends on rows."""
        ...

    def untyped(self, column: str) -> bool:
        """Whether a column has no public type: then it is text, and read value by value where a question needs more."""
        ...

    def reading(self, kinds: Mapping[str, Kind]) -> Engine:
        """The same rows, with these columns of text read as these kinds; what cannot be read is null.

        It shares what this engine holds, and is not closed by itself. `InvalidSetting` where the engine cannot.
        """
        ...

    def on_clock(self, time_zone: str) -> Engine:
        """The same rows, with instants on the wall clock of this zone in place of UTC; times without a zone stay.

        It shares what this engine holds, and is closed in its place.
        """
        ...

    def nested(self, column: str) -> bool:
        """Whether a column holds lists or structures."""
        ...

    def rows(self, wanted: Sequence[str]) -> Rows:
        """These columns, each row a unit."""
        ...

    def chosen(self, wanted: Sequence[str], unit: str) -> Rows:
        """These columns, one row a unit: chosen uniformly among the unit's rows that have a value in all of them.

        Guarantee: the choice is made once, and for a unit it depends on that unit's rows and on chance alone. Chance
        is the engine's own here: even someone who knew every choice would still face the coins.
        Edge cases: rows without a unit are left out. Text tells units apart by its bytes in NFC, whatever collation a
        column, a session or a database has.
        """
        ...

    def close(self) -> None:
        """Let go of what was kept in the engine."""
        ...


@dataclass(frozen=True, slots=True)
class LazyRows:
    """Rows in any engine for which narwhals writes lazy queries; `collect` brings a native result back as Arrow.

    `closing` lets go of what must live as long as these rows. With `nulls`, values may be null, and the keys that come
    of them are dropped last: to look for nulls while rows are read would cost more than to count them.
    """

    engine: str
    frame: Any
    collect: Callable[[Any], pa.Table]
    weighted: bool = False
    closing: Callable[[], object] | None = None
    nulls: bool = False

    def counted(self, question: Question, *, at_least: int = 1) -> Any:
        """The query for the counts, as a native lazy frame."""
        import narwhals as nw

        frame = nw.from_native(self.frame).lazy()
        return columns.count(frame, question, at_least=at_least, weighted=self.weighted)

    def counts(self, question: Question, *, at_least: int = 1, most: int | None = None) -> pa.Table:
        """Keys and n of `columns.count`, no more than `most` + 1 rows of them."""

        def run() -> pa.Table:
            counted = self.counted(question, at_least=at_least)
            if most is not None:
                counted = (counted.drop_nulls() if self.nulls else counted).head(most + 1)
            found = self.collect(counted.to_native())
            return found.drop_null() if self.nulls else found

        return guarded(self.engine, run)

    def close(self) -> None:
        """Let go of what was kept for these rows."""
        if self.closing is not None:
            self.closing()


class Retried:
    """Rows that are read in another way, slower and by itself for each value, once the quick way has failed.

    So a single value that the quick way stumbles over changes how long a count takes, and nothing else.
    """

    def __init__(self, quick: Rows, careful: Callable[[], Rows]) -> None:
        self._rows = quick
        self._careful: Callable[[], Rows] | None = careful

    def counts(self, question: Question, *, at_least: int = 1, most: int | None = None) -> pa.Table:
        """Keys and n of `columns.count`, no more than `most` + 1 rows of them."""
        try:
            return self._rows.counts(question, at_least=at_least, most=most)
        except InvalidSetting:
            if self._careful is None:
                raise
            self._rows, self._careful = self._careful(), None
        return self._rows.counts(question, at_least=at_least, most=most)

    def close(self) -> None:
        """Let go of what was kept for these rows."""
        self._rows.close()
