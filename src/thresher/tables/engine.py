"""Engines: where a table's data is, and what counts it.

To add an engine, write one file with a subclass of `Engine`, and enter it in one registry: `sources.LAZY_ENGINES` for
frames, `files.FILE_ENGINES` for files. `Table` never asks which engine it has, only what the engine can do.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, ClassVar, NoReturn, Self

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidSetting
from thresher.questions import Question
from thresher.tables.column_keys import UNIT, value_names
from thresher.tables.column_kinds import Kind, kind_of_narwhals
from thresher.tables.data_errors import Numbered
from thresher.tables.row_filters import RowFilter
from thresher.tables.rows import Rows
from thresher.tables.time_zones import UTC


class Engine(ABC):
    """The data of one table. What a subclass leaves out is as most engines have it."""

    name: ClassVar[str]
    """What the engine is called in messages."""

    samples_rows: ClassVar[bool] = False
    """Whether the engine has `sampled`, because its rows are in memory and counting a sample of them is cheaper."""

    time_zone: str = UTC
    """Instants are counted on the wall clock of this zone. Set once, when the data is opened."""

    held: ExitStack | None = None
    """What is let go after the engine is closed: the connection that was opened or borrowed for it."""

    _read: Mapping[str, Kind] = {}
    """The columns of text that are read as another kind."""

    @classmethod
    def open(cls, frame: Any) -> Engine:
        """The engine for a lazy frame for which `sources` names this class."""
        return cls(frame)  # type: ignore[call-arg]

    @abstractmethod
    def names(self) -> list[str] | None:
        """The columns' names, or None where only rows could tell (JSON lines)."""

    @property
    def seems_headless(self) -> bool:
        """Whether the columns' names are taken from a first line that looks like data."""
        return False

    def kind(self, column: str) -> Kind | None:
        """What a column holds, or None if it cannot be counted. Never depends on rows."""
        return self._read.get(column) or self._stored_kind(column)

    @abstractmethod
    def _stored_kind(self, column: str) -> Kind | None:
        """What a column holds before any text is read."""

    def untyped(self, column: str) -> bool:
        """Whether a column has no public type: then it is text, and read value by value where a question needs more."""
        return False

    def reading(self, kinds: Mapping[str, Kind]) -> Engine:
        """The same rows, with these columns of text read as these kinds; what cannot be read is null.

        The new engine shares the connection and the caches of this one, and is not closed by itself.
        Raises: `InvalidSetting` where the engine cannot read text as anything else.
        """
        engine = copy.copy(self)
        engine._read = dict(kinds)
        return engine

    _filter: RowFilter = RowFilter()
    """Only rows that satisfy it are chosen, sampled or counted."""

    def filtered(self, rows: RowFilter) -> Self:
        """The same data with only those rows that satisfy a filter; it shares what `reading` shares."""
        engine = copy.copy(self)
        engine._filter = rows
        return engine

    @abstractmethod
    def nested(self, column: str) -> bool:
        """Whether a column holds lists or structures."""

    @abstractmethod
    def rows(self, wanted: Sequence[str]) -> Rows:
        """These columns, each row a unit."""

    def sampled(self, wanted: Sequence[str], toss: Callable[[int], NDArray[np.bool_]]) -> Rows:
        """These columns of a sample of the rows; `toss(n)` is called once and gives a coin for each of n rows."""
        raise NotImplementedError(f"{self.name} samples no rows")

    @abstractmethod
    def chosen(self, wanted: Sequence[str], unit: str) -> Rows:
        """These columns, one row a unit: chosen uniformly among the unit's rows that have a value in all of them.

        Guarantee: the choice is made once, and for a unit it depends on that unit's rows and on chance alone. The
        engine's own random numbers are good enough: even someone who knew every choice would still face the coins.
        Edge cases: rows without a unit are left out. Text tells units apart by its bytes in NFC, whatever collation a
        column, a session or a database has.
        """

    @abstractmethod
    def pairs(self, question: Question, unit: str, most: int) -> Rows:
        """Each unit in each of its buckets, once; a unit of more than `most` in so many, chosen uniformly among them.

        They are for one count: another count may choose anew.

        Guarantee: values are mapped to the question's buckets before duplicates are removed and before the choice. For
        a unit the choice depends on that unit's rows and on chance alone, and is the same wherever a task runs again.
        Edge cases: as of `chosen`.
        """

    @abstractmethod
    def several(self, wanted: Sequence[str], unit: str, most: int) -> Rows:
        """The same for whole values of these columns, kept with their units, so that several rounds see the same ones.

        In each round a unit counts once in each bucket that one of its kept values has.
        """

    def numbered(self, columns: Sequence[str]) -> Iterator[Numbered]:
        """All records with their places and these columns of text, for `data_errors`. This is not private."""
        raise InvalidSetting(
            "show_data_errors",
            f"is for files and for frames in memory, not for {self.name}",
            hint="Look at the data where it is, or give a part of it as a frame in memory.",
        )

    def first_texts(self, columns: Sequence[str], number: int) -> dict[str, list[str | None]]:
        """The first values of untyped columns, for `look`. This is not private."""
        raise NotImplementedError(f"{self.name} has no untyped columns")

    def size(self) -> int | None:
        """How many rows there are, whatever they hold and whatever filter there is.

        Guarantee: no row is read for it. It is asked after rows were counted, so that an engine may count on the way.
        Edge cases: None where the engine would have to read rows again.
        """
        return None

    def close(self) -> None:  # noqa: B027 - most engines keep nothing open
        """Let go of what was kept in the engine."""

    def _kinds(self, wanted: Sequence[str]) -> list[Kind]:
        """The kinds of columns that can be counted; `Table.check` refuses all others before."""
        return [kind for column in wanted if (kind := self.kind(column)) is not None]


class LazyFrameEngine(Engine):
    """A lazy frame whose schema narwhals reads. The caller can cast columns there; Thresher does not."""

    described: ClassVar[str]
    """What the frame is called in messages, with its article."""

    def __init__(self, frame: Any, shape: Any = None) -> None:
        """`shape` is another frame with the same columns, whose types narwhals reads, where it cannot read `frame`."""
        self._frame = frame
        self._schema = nw.from_native(frame if shape is None else shape).collect_schema()

    def names(self) -> list[str] | None:
        """The columns' names."""
        return list(self._schema)

    def _stored_kind(self, column: str) -> Kind | None:
        return "nothing" if self._has_no_type(column) else kind_of_narwhals(self._schema[column])

    @abstractmethod
    def _has_no_type(self, column: str) -> bool:
        """Whether a column has the type of nulls alone, which narwhals does not know."""

    def reading(self, kinds: Mapping[str, Kind]) -> NoReturn:
        """Not possible here."""
        raise InvalidSetting(
            "types",
            f"cannot be declared on {self.described}: {', '.join(map(repr, kinds))}",
            hint="Cast the column in the data; its schema is public.",
        )


def renamed(wanted: Sequence[str], unit: str | None = None) -> dict[str, str]:
    """The names under which columns are counted, v0, v1, … and u for the unit, each with the column's own name."""
    named = dict(zip(value_names(len(wanted)), wanted, strict=True))
    return named if unit is None else {**named, UNIT: unit}
