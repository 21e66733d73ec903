"""Questions: from what a unit holds to the bucket it is counted in.

A question is a small frozen value. A device evaluates it on the one value it holds (`bucket`); a table evaluates it on
a whole column in its engine; both give the same bucket, and None means that the unit has nothing to say.

    Values(("country", "os"))                     whole values of one or more columns
    Bins("age", (0, 18, 65, 130))                 half-open intervals between public edges, named by their lower edge
    Dates("day", every="week")                    the first day of the value's day, week (Monday) or month
    Joint((Values(("country",)), Bins(…)))        several of these at once: the bucket is a tuple
    Prefixes("word", length=3, parents=…)         the first characters of a text that extends a known prefix
    Cells("latency", 0, 60_000, cells=1024)       which of equally wide cells between public bounds, clamped
    Below("latency", 250.0)                       whether a number is below a split point
"""

from __future__ import annotations

import datetime as dt
import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from numbers import Integral
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, get_args

from thresher.errors import InvalidFormat, InvalidSetting
from thresher.questions.normal_form import composed

Bucket: TypeAlias = Any
"""A text, whole number, float, boolean, date or time, or a tuple of these. Never None: that is "no value"."""

Every = Literal["day", "week", "month"]

MOST_BINS = 1_000_000
LONGEST_PREFIX = 10_000
"""Equal bins that are made from a number or a width; a fleet takes as many as fit its messages."""

END = "\x00"
"""Marks, at the end of a prefix, that the text ends there. NUL cannot be typed and is removed from values."""


class Question(Protocol):
    """What every question has."""

    kind: ClassVar[str]

    @property
    def columns(self) -> tuple[str, ...]:
        """The attributes that are read."""
        ...

    def bucket(self, value: Any) -> Bucket | None:
        """The bucket of one value (a tuple of values where several columns are read), or None."""
        ...


def normal(value: Any) -> Any:
    """A value in the form in which it is counted: text in NFC without NUL; None and NaN are "no value".

    Text with more than 30 combining marks in a row is no value either (see `normal_form`).

    NUL goes first, since what it kept apart may compose. A device's time with a zone is read on that zone's wall clock:
    it is the local time of whoever holds it. Tables read such times on the wall clock of one zone for all units.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, str):
        return composed(value.replace(END, ""))
    return value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value


def check_domain(question: Question, domain: Iterable[Any]) -> None:
    """Refuse a public domain with a bucket that no value of the question has.

    Guarantee: looks at the question only. Bins and dates name their buckets by a value inside, so the bucket of a
    bucket is itself; 65 is none with edges 0, 18 and 65, nor is 15 February with months.
    Edge cases: buckets that are missing, or have too few or too many parts, are left for the histogram's own check.
    """
    parts = question.parts if isinstance(question, Joint) else (question,)
    for bucket in domain:
        values = bucket if len(parts) > 1 else (bucket,)
        if not isinstance(values, tuple | list) or len(values) != len(parts):
            continue
        for part, value in zip(parts, values, strict=True):
            if isinstance(part, Bins | Dates) and normal(value) is not None and part.bucket(value) != value:
                raise InvalidSetting(
                    "domain",
                    f"has a bucket that no value of column {part.column!r} is counted in",
                    hint="Name each bin by its lower edge; the last edge begins none."
                    if isinstance(part, Bins)
                    else f"Name each {part.every} by its first day, as {part.bucket(dt.date(2024, 2, 15))}.",
                )


@dataclass(frozen=True, slots=True)
class Values:
    """Whole values of one or more columns; a unit that lacks one of them has no value."""

    columns: tuple[str, ...]
    kind: ClassVar[str] = "values"

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", _column_names(self.columns))

    def bucket(self, value: Any) -> Bucket | None:
        """The value itself, normalised; a tuple where there are several columns."""
        if len(self.columns) == 1:
            return normal(value)
        parts = tuple(normal(part) for part in value)
        return None if None in parts else parts


@dataclass(frozen=True, slots=True)
class Bins:
    """Half-open intervals between public edges, named by their lower edge. Outside the edges there is no value."""

    column: str
    edges: tuple[float, ...]
    kind: ClassVar[str] = "bins"

    def __post_init__(self) -> None:
        _column_names((self.column,))
        try:
            edges = tuple(float(edge) for edge in self.edges)
        except (TypeError, ValueError, OverflowError):
            raise InvalidSetting("bins", "must be numbers", hint="For example bins=[0, 18, 65, 130].") from None
        rising = all(low < high for low, high in pairwise(edges))
        if not (len(edges) >= 2 and rising and all(math.isfinite(edge) for edge in edges)):
            raise InvalidSetting("bins", "must be at least two finite edges, each above the one before")
        object.__setattr__(self, "edges", edges)

    @property
    def columns(self) -> tuple[str, ...]:
        """The one column that is read."""
        return (self.column,)

    def bucket(self, value: Any) -> Bucket | None:
        """The lower edge of the interval that holds the number."""
        number = _number(value)
        if number is None or not self.edges[0] <= number < self.edges[-1]:
            return None
        return self.edges[bisect_right(self.edges, number) - 1]


@dataclass(frozen=True, slots=True)
class Dates:
    """Dates or times cut to the first day of their day, week or month.

    On a device a time with a zone is cut on its own wall clock; a table reads it on that of its `time_zone` first.
    """

    column: str
    every: Every
    kind: ClassVar[str] = "dates"

    def __post_init__(self) -> None:
        _column_names((self.column,))
        if self.every not in get_args(Every):
            raise InvalidSetting("dates", "must be 'day', 'week' or 'month'")

    @property
    def columns(self) -> tuple[str, ...]:
        """The one column that is read."""
        return (self.column,)

    def bucket(self, value: Any) -> Bucket | None:
        """The first day, as a date."""
        if isinstance(value, dt.datetime):
            value = value.date()
        if not isinstance(value, dt.date):
            return None
        if self.every == "week":
            return value - dt.timedelta(days=value.weekday())
        return value if self.every == "day" else value.replace(day=1)


@dataclass(frozen=True, slots=True)
class Joint:
    """Several one-column questions at once; the bucket is the tuple of theirs, and all must have a value."""

    parts: tuple[Values | Bins | Dates, ...]
    kind: ClassVar[str] = "joint"

    def __post_init__(self) -> None:
        if not (len(self.parts) >= 2 and all(isinstance(part, Values | Bins | Dates) for part in self.parts)):
            raise InvalidSetting("parts", "must be at least two questions for values, bins or dates")
        _column_names(self.columns)
        if any(len(part.columns) != 1 for part in self.parts):
            raise InvalidSetting("parts", "must read one column each")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of all parts, in order."""
        return tuple(part.columns[0] for part in self.parts)

    def bucket(self, value: Any) -> Bucket | None:
        """The tuple of the parts' buckets."""
        buckets = tuple(part.bucket(each) for part, each in zip(self.parts, value, strict=True))
        return None if None in buckets else buckets


@dataclass(frozen=True, slots=True)
class Prefixes:
    """The first `length` characters of a text whose first `known` characters are a known prefix.

    A text that ends within that length has its end marked with `END`, so that "the" and "then" part ways. With
    `known` = 0 every text answers. A parent that ends in `END` is complete and is not extended.
    """

    column: str
    length: int
    known: int = 0
    parents: frozenset[str] = frozenset()
    kind: ClassVar[str] = "prefixes"

    def __post_init__(self) -> None:
        _column_names((self.column,))
        if not (_are_whole(self.known, self.length) and 0 <= self.known < self.length <= LONGEST_PREFIX):
            raise InvalidSetting(
                "length", f"must be above the length that is known already, at most {LONGEST_PREFIX:,}"
            )
        object.__setattr__(self, "parents", frozenset(self.parents))

    @property
    def columns(self) -> tuple[str, ...]:
        """The one column that is read."""
        return (self.column,)

    def bucket(self, value: Any) -> Bucket | None:
        """The prefix that this text votes for."""
        text = normal(value)
        if not isinstance(text, str):
            return None
        marked = text + END
        if self.known and (marked[: self.known] not in self.parents or len(text) < self.known):
            return None
        return marked[: self.length]


@dataclass(frozen=True, slots=True)
class Cells:
    """Which of `cells` equally wide half-open cells between public bounds holds a number; outside: the end cell."""

    column: str
    lower: float
    upper: float
    cells: int
    kind: ClassVar[str] = "cells"

    def __post_init__(self) -> None:
        _column_names((self.column,))
        if not (self.lower < self.upper and math.isfinite(float(self.upper) - float(self.lower))):
            raise InvalidSetting("lower", "must be below upper, and both and their difference must be finite numbers")
        if not (
            _are_whole(self.cells)
            and 1 <= self.cells <= 2**40
            and math.isfinite((self.upper - self.lower) * self.cells)
        ):
            raise InvalidSetting("cells", "must be from 1 to 2^40, over a range that is not too wide")
        object.__setattr__(self, "lower", float(self.lower))
        object.__setattr__(self, "upper", float(self.upper))

    @property
    def columns(self) -> tuple[str, ...]:
        """The one column that is read."""
        return (self.column,)

    def bucket(self, value: Any) -> Bucket | None:
        """The cell's number, from 0."""
        number = _number(value)
        if number is None:
            return None
        inside = min(max(number, self.lower), self.upper)
        position = math.floor((inside - self.lower) * self.cells / (self.upper - self.lower))
        return min(position, self.cells - 1)


@dataclass(frozen=True, slots=True)
class Below:
    """Whether a number is below a split point."""

    column: str
    split: float
    kind: ClassVar[str] = "below"

    def __post_init__(self) -> None:
        _column_names((self.column,))
        if not math.isfinite(self.split):
            raise InvalidSetting("split", "must be a finite number")
        object.__setattr__(self, "split", float(self.split))

    @property
    def columns(self) -> tuple[str, ...]:
        """The one column that is read."""
        return (self.column,)

    def bucket(self, value: Any) -> Bucket | None:
        """True below the split point, False at it and above."""
        number = _number(value)
        return None if number is None else number < self.split


KINDS: dict[str, type[Any]] = {
    question.kind: question for question in (Values, Bins, Dates, Joint, Prefixes, Cells, Below)
}


def to_dict(question: Any) -> dict[str, Any]:
    """A question as plain values, as it is sent to a device."""
    content = {"kind": question.kind}
    for field in fields(question):
        value = getattr(question, field.name)
        if isinstance(question, Joint):
            value = [to_dict(part) for part in value]
        elif isinstance(value, frozenset):
            value = sorted(value)
        elif isinstance(value, tuple):
            value = list(value)
        content[field.name] = value
    return content


def from_dict(content: Mapping[str, Any]) -> Any:
    """Read what `to_dict` wrote. Anything unknown, missing or out of range is an error."""
    kind = KINDS.get(str(content.get("kind")))
    if kind is None:
        raise InvalidFormat("This is not a question that this Thresher knows.", hint="Upgrade Thresher.")
    settings = {name: value for name, value in content.items() if name != "kind"}
    if set(settings) != {field.name for field in fields(kind)}:
        raise InvalidFormat("This question has missing or unknown fields.")
    try:
        for name, value in settings.items():
            if name == "parts":
                settings[name] = tuple(from_dict(part) for part in value)
            elif isinstance(value, list):
                settings[name] = tuple(value)
        return kind(**settings)
    except TypeError:
        raise InvalidFormat("This question has a field of the wrong kind.") from None


def _number(value: Any) -> float | None:
    """A number as a double, or None; infinities are kept, since they compare."""
    if isinstance(value, bool | str) or not hasattr(value, "__float__"):
        return None
    number = float(value)
    return None if math.isnan(number) else number


def _are_whole(*numbers: object) -> bool:
    """Whether these are whole numbers by type too: 4.0 cells would name their last one 3.0, which no device may say."""
    return all(isinstance(number, Integral) and not isinstance(number, bool) for number in numbers)


def _column_names(columns: Any) -> tuple[str, ...]:
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    if not names or not all(isinstance(name, str) and name for name in names):
        raise InvalidSetting("column", "must be the name of a column, or several names")
    if len(set(names)) < len(names):
        raise InvalidSetting("column", "must not name a column twice")
    return names
