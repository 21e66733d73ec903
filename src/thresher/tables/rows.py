"""Rows: units with their values, where they are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import pyarrow as pa

from thresher.errors import InvalidSetting
from thresher.privacy.plans import Plan
from thresher.questions import Question
from thresher.tables import column_keys
from thresher.tables.arrow_columns import in_utf_8
from thresher.tables.error_guard import guarded


class Rows(ABC):
    """Some columns' cleaned values v0, v1, …, one row a unit. Text is counted by its bytes, whatever the collation.

    Where units count for several values, rows are distinct pairs of a unit and a value or bucket (`column_keys.Form`).
    """

    def can_thin(self) -> bool:
        """Whether these rows have `thinned`, because their counts may be more than the caller's memory holds.

        Guarantee: it does not depend on rows. It is asked before anything is counted.
        """
        return False

    @abstractmethod
    def counts(self, question: Question, *, at_least: int = 1, most: int | None = None) -> pa.Table:
        """Keys and n of `column_keys.count`, no more than `most` + 1 rows of them."""

    def thinned(self, question: Question, plan: Plan) -> pa.Table:
        """Keys and *sampled* counts that reach the threshold, drawn where they were counted."""
        raise NotImplementedError

    @abstractmethod
    def close(self) -> None:
        """Let go of what was kept for these rows."""


@dataclass(frozen=True, slots=True)
class LazyRows(Rows):
    """Rows in any engine for which narwhals writes lazy queries; `collect` brings a native result back as Arrow.

    `closing` lets go of what must live as long as these rows. With `nulls`, values may be null, and their keys are
    dropped last: looking for nulls while rows are read costs more than counting them.

    `drawn` gives the same units with one row each, no weights, and a column d of uniform random numbers in [0, 1) that
    are fresh at each call. The engine's own random numbers are good enough, as they are for choosing a unit's row:
    even someone who knew them all would still face the coins.

    `tallied` gives the count of whole values of at least so many units in the engine's own language, where the engine
    would take longer to read the query of narwhals than to count a small table.
    """

    engine: str
    frame: Any
    collect: Callable[[Any], pa.Table]
    weighted: bool = False
    closing: Callable[[], object] | None = None
    nulls: bool = False
    form: column_keys.Form = "values"
    drawn: Callable[[], Any] | None = None
    tallied: Callable[[int], Any] | None = None

    def counted(self, question: Question, *, at_least: int = 1) -> Any:
        """The query for the counts, as a lazy frame of narwhals."""
        if not question.randomised:
            frame = nw.from_native(self.frame).lazy()
            return column_keys.count(frame, question, at_least=at_least, weighted=self.weighted, form=self.form)
        if self.drawn is None:
            raise NotImplementedError(f"{self.engine} draws no random numbers")
        return column_keys.count(nw.from_native(self.drawn()).lazy(), question, at_least=at_least)

    def counts(self, question: Question, *, at_least: int = 1, most: int | None = None) -> pa.Table:
        """Keys and n of `column_keys.count`, no more than `most` + 1 rows of them."""

        def run() -> pa.Table:
            found = self.collect(self._query(question, at_least, most))
            # An engine may have counted text that is not UTF-8, which is no value.
            return pa.table([in_utf_8(column) for column in found.columns], found.column_names).drop_null()

        return guarded(self.engine, run)

    def _query(self, question: Question, at_least: int, most: int | None) -> Any:
        """The query for `counts`, in the engine's own form."""
        if self.tallied is not None and most is None and all(part.whole for part in question.parts):
            return self.tallied(at_least)
        counted = self.counted(question, at_least=at_least)
        if most is not None:
            counted = (counted.drop_nulls() if self.nulls else counted).head(most + 1)
        return counted.to_native()

    def close(self) -> None:
        """Let go of what was kept for these rows."""
        if self.closing is not None:
            self.closing()


class Retried(Rows):
    """Rows that are read in another way, slower and each value by itself, once the quick way has failed.

    So a single value that the quick way cannot read changes how long a count takes, and nothing else.
    """

    def __init__(self, quick: Rows, careful: Callable[[], Rows]) -> None:
        self._rows = quick
        self._careful: Callable[[], Rows] | None = careful

    def counts(self, question: Question, *, at_least: int = 1, most: int | None = None) -> pa.Table:
        """Keys and n of `column_keys.count`, no more than `most` + 1 rows of them."""
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
