"""Filters of a table's rows, before anything is chosen, sampled or counted.

An engine gives the filter the columns of its conditions, cleaned and called f0, f1, …, beside the columns that are
counted. One set of narwhals expressions tests them on every engine. Only then a unit's row is chosen, so that a unit
chooses among its rows that satisfy the filter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import narwhals as nw

from thresher.questions.conditions import Condition
from thresher.tables.column_kinds import Kind

FILTER = "f"
"""The names of columns that conditions test; each has a number too."""


@dataclass(frozen=True, slots=True)
class ColumnTest:
    """A condition on a column of a table.

    `kind` is what the column holds, after its text was read if it had no type. `read` says whether it was.
    `constants` are those of the condition, as values of that kind.
    """

    condition: Condition
    kind: Kind
    read: bool
    constants: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class RowFilter:
    """All tests that a row must satisfy. Equal filters keep the same rows; it holds nothing of any row."""

    tests: tuple[ColumnTest, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.tests)

    @property
    def named(self) -> dict[str, str]:
        """The names f0, f1, …, each with the name of its column."""
        return {f"{FILTER}{place}": test.condition.column for place, test in enumerate(self.tests)}

    @property
    def kinds(self) -> dict[str, Kind]:
        """What the columns f0, f1, … hold."""
        return {name: test.kind for name, test in zip(self.named, self.tests, strict=True)}

    @property
    def read(self) -> dict[str, Kind]:
        """Those of the columns f0, f1, … whose text is read, each with what it is read as."""
        tests = zip(self.named, self.tests, strict=True)
        return {name: test.kind for name, test in tests if test.read}

    def kept(self, frame: Any, names: Iterable[str], among: Collection[str] | None = None) -> Any:
        """The rows of a native frame that satisfy every test, with only these columns.

        `frame` has the columns f0, f1, … cleaned; a null is no value, and satisfies nothing. Where `among` names some
        of them, which are one or more, only their tests are made.
        """
        tests = [
            test.condition.expression(nw.col(name), test.kind, test.constants)
            for name, test in zip(self.named, self.tests, strict=True)
            if among is None or name in among
        ]
        return nw.from_native(frame).lazy().filter(*tests).select(*names).to_native()
