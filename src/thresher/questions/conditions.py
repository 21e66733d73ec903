"""Conditions on columns or attributes: which units a question is asked of.

A filter is public, like the rest of a question. It keeps or drops a unit by what that unit holds, and by nothing else.
Whoever is outside has no bucket: a table leaves the row out, a device sends a decoy.

    Among      the value, spelled as text, is one of these: `country = fr`, `version in 1.2, 1.3`
    Between    a number or a day from `lower` up to, but not including, `upper`: `age from 18 below 65`

A unit without a value satisfies no condition.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from thresher.errors import InvalidFormat, InvalidSetting
from thresher.questions.normal_form import normal
from thresher.questions.question import NUMBERS, ColumnKind, are_whole, as_double, column_names, double_constant
from thresher.questions.spelling import DAY, LEAST_WHOLE, MOST_WHOLE, as_text, exact_text, written_day

if TYPE_CHECKING:
    import narwhals as nw

Bound: TypeAlias = int | float | dt.date | None
"""One end of a range; None where it is open."""
_EXAMPLE = "For example where={'country': 'fr', 'version': ['1.2', '1.3'], 'age': (18, 65)}."


class Condition(ABC):
    """One condition on one column."""

    __slots__ = ()

    column: str

    def holds(self, value: Any) -> bool:
        """Whether one value satisfies it.

        Guarantee: never raises, so that whether a device completes a round cannot depend on what it holds.
        """
        try:
            return self._holds(value)
        except Exception:  # whatever an object held by a device does: it has no value then
            return False

    @abstractmethod
    def _holds(self, value: Any) -> bool:
        """The same; it may raise whatever the value raises."""

    @property
    @abstractmethod
    def reads(self) -> tuple[ColumnKind, ...]:
        """The kinds of columns that it reads; the first is what text without a type is read as."""

    @property
    @abstractmethod
    def constants(self) -> tuple[str, ...]:
        """What is to be read as the column's own kind before `expression` compares with it."""

    @abstractmethod
    def expression(self, value: nw.Expr, kind: ColumnKind, constants: Sequence[Any]) -> nw.Expr:
        """The same test on a cleaned column of this kind, null or false where there is no value."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain values; `Where.read` reads them."""


@dataclass(frozen=True, slots=True)
class Among(Condition):
    """The value is one of these. One value is equality.

    Values are text, spelled as devices spell whole values: 1 and 1.0 are "1", true is "true". A table reads the
    text as what its column holds, so that "1" is 1 where the column has numbers.
    """

    column: str
    values: tuple[str, ...]
    _listed: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        column_names((self.column,))
        if not isinstance(self.values, tuple):
            raise InvalidSetting("where", "must name values in a list", hint=_EXAMPLE)
        texts = [_text(value) for value in self.values]
        if not texts:
            raise InvalidSetting("where", f"names no value of {self.column!r}", hint="Nobody would be left.")
        object.__setattr__(self, "values", tuple(dict.fromkeys(texts)))
        # A set, so that the time does not depend on the place of a value in the list.
        object.__setattr__(self, "_listed", frozenset(texts))

    def _holds(self, value: Any) -> bool:
        held = normal(value)
        return held is not None and as_text(held) in self._listed

    @property
    def reads(self) -> tuple[ColumnKind, ...]:
        """Every kind but times, which engines store to different fractions of a second; text as text."""
        return ("text", *NUMBERS, "booleans", "dates")

    @property
    def constants(self) -> tuple[str, ...]:
        """The values."""
        return self.values

    def expression(self, value: nw.Expr, kind: ColumnKind, constants: Sequence[Any]) -> nw.Expr:
        """Equality with one of the constants. Floats and decimals are compared as doubles."""
        import narwhals as nw

        if kind in ("text", "whole numbers"):
            return value.is_in(list(constants))
        if kind == "booleans":
            tests = [value if constant else ~value for constant in constants]
        elif kind in ("floats", "decimals"):
            tests = [value.cast(nw.Float64) == double_constant(constant) for constant in constants]
        else:
            tests = [value == nw.lit(constant) for constant in constants]
        return nw.any_horizontal(*tests, ignore_nulls=True)

    def to_dict(self) -> dict[str, Any]:
        """The column and the values."""
        return {"column": self.column, "among": list(self.values)}


@dataclass(frozen=True, slots=True)
class Between(Condition):
    """A number, or the day of a date or time, from `lower` up to, but not including, `upper`; None leaves an end open.

    Whole numbers are compared exactly, other numbers as doubles. A device compares the day of a time on the time's own
    wall clock, and reads text as a date or time; a table compares on the wall clock of its `time_zone`.
    """

    column: str
    lower: Bound = None
    upper: Bound = None

    def __post_init__(self) -> None:
        column_names((self.column,))
        ends = [end for end in (self.lower, self.upper) if end is not None]
        if not ends:
            raise InvalidSetting("where", f"must give {self.column!r} at least one end", hint=_EXAMPLE)
        days = all(isinstance(end, dt.date) and not isinstance(end, dt.datetime) for end in ends)
        if not days:
            for name in ("lower", "upper"):
                end = getattr(self, name)
                object.__setattr__(self, name, None if end is None else _number(end))
        if not (len(ends) == 1 or self.lower < self.upper):  # type: ignore[operator]
            raise InvalidSetting("where", f"must have the lower end of {self.column!r} below its upper end")

    @property
    def of_days(self) -> bool:
        """Whether the ends are dates."""
        return isinstance(self.lower if self.lower is not None else self.upper, dt.date)

    def _holds(self, value: Any) -> bool:
        held: Any
        if self.of_days:
            held = written_day(value)
        else:
            held = int(value) if are_whole(value) and LEAST_WHOLE <= value <= MOST_WHOLE else as_double(value)
        if held is None:
            return False
        lower, upper = self.lower, self.upper
        if isinstance(held, float):
            lower, upper = as_double(lower), as_double(upper)
        return (lower is None or lower <= held) and (upper is None or held < upper)

    @property
    def reads(self) -> tuple[ColumnKind, ...]:
        """Numbers, or dates and times."""
        return ("dates", "times") if self.of_days else ("floats", "whole numbers", "decimals")

    @property
    def constants(self) -> tuple[str, ...]:
        """None: the ends have a kind of their own."""
        return ()

    def expression(self, value: nw.Expr, kind: ColumnKind, constants: Sequence[Any]) -> nw.Expr:
        """The comparisons with one end or both."""
        import narwhals as nw

        if kind == "whole numbers":
            return self._whole(value.cast(nw.Int64))
        held = value.cast(nw.Date if self.of_days else nw.Float64)
        tests = []
        if self.lower is not None:
            tests.append(held >= _end(self.lower))
        if self.upper is not None:
            tests.append(held < _end(self.upper))
        return tests[0] if len(tests) == 1 else tests[0] & tests[1]

    def _whole(self, value: nw.Expr) -> nw.Expr:
        """The same for whole numbers of 64 bits, exactly; an end that they cannot reach is open, or leaves nobody."""
        lower, upper = (None if end is None else math.ceil(end) for end in (self.lower, self.upper))  # type: ignore[arg-type]
        if (lower is not None and lower > MOST_WHOLE) or (upper is not None and upper <= LEAST_WHOLE):
            return value != value
        tests = [value == value]
        if lower is not None and lower > LEAST_WHOLE:
            tests.append(value >= lower)
        if upper is not None and upper <= MOST_WHOLE:
            tests.append(value < upper)
        return tests[-1] if len(tests) < 3 else tests[1] & tests[2]

    def to_dict(self) -> dict[str, Any]:
        """The column and both ends; dates in ISO form, and a whole number that no double is as its digits.

        Many readers of JSON know no other numbers than doubles.
        """
        return {"column": self.column, "from": _plain_end(self.lower), "below": _plain_end(self.upper)}


@dataclass(frozen=True, slots=True)
class Where:
    """A filter: all its conditions must hold, one a column."""

    conditions: tuple[Condition, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "conditions", tuple(self.conditions))
        if not (self.conditions and all(isinstance(each, Condition) for each in self.conditions)):
            raise InvalidSetting("where", "must have at least one condition", hint=_EXAMPLE)
        if len(set(self.columns)) < len(self.conditions):
            raise InvalidSetting(
                "where",
                "must have one condition a column",
                hint="Name several values in one, as 'version in 1.2, 1.3'.",
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read, in order."""
        return tuple(condition.column for condition in self.conditions)

    def to_list(self) -> list[dict[str, Any]]:
        """Plain values, as they are sent to a device."""
        return [condition.to_dict() for condition in self.conditions]

    @classmethod
    def read(cls, content: Any) -> Self:
        """Read what `to_list` wrote. Anything unknown, missing or out of range is an error."""
        if not isinstance(content, list):
            raise InvalidFormat("This filter is not a list of conditions.")
        return cls(tuple(_condition(each) for each in content))


def _condition(content: Any) -> Condition:
    names = set(content) if isinstance(content, Mapping) else set()
    if names == {"column", "among"} and isinstance(content["among"], list):
        if all(type(value) is str for value in content["among"]):
            return Among(content["column"], tuple(content["among"]))
    elif names == {"column", "from", "below"}:
        return Between(content["column"], _read_end(content["from"]), _read_end(content["below"]))
    raise InvalidFormat("This filter has a condition that this Thresher does not know.", hint="Upgrade Thresher.")


def _plain_end(end: Bound) -> Any:
    if isinstance(end, dt.date):
        return end.isoformat()
    return str(end) if isinstance(end, int) else end


_DIGITS = r"-?[1-9][0-9]{15,18}"
"""A whole number of 64 bits beyond 2^53."""


def _read_end(content: Any) -> Bound:
    if type(content) is str:
        try:
            if re.fullmatch(DAY, content):
                return dt.date.fromisoformat(content)
            whole = int(content) if re.fullmatch(_DIGITS, content) else 0
            if float(whole) != whole and LEAST_WHOLE <= whole <= MOST_WHOLE:
                return whole
        except ValueError:
            pass
    elif content is None or type(content) in (int, float):
        return content  # type: ignore[no-any-return]
    raise InvalidFormat("This filter has an end that is neither a number nor a date.")


def _text(value: Any) -> str:
    """A value as it is compared; `InvalidSetting` for what no device or table can hold."""
    held = normal(value)
    text = None if held is None else as_text(value)
    if text is not None and "e" not in text and not isinstance(value, str) and text != exact_text(value):
        raise InvalidSetting(
            "where", "has a float beyond 2^53, whose text is that of another whole number", hint="Give an int, or text."
        )
    try:
        if text is not None:
            text.encode()
            return text
    except UnicodeEncodeError:
        pass
    raise InvalidSetting("where", "has a value that is neither text, number, boolean, date nor time", hint=_EXAMPLE)


def _number(end: Any) -> float:
    """An end of a range: a double, or a whole number of 64 bits that no double is exactly."""
    try:
        number = None if isinstance(end, dt.date) else as_double(end)
    except Exception:  # whatever an object does that says it is a number
        number = None
    if number is None and not (isinstance(end, float) and math.isnan(end)):
        hint = "Give a date without a time." if isinstance(end, dt.datetime) else _EXAMPLE
        raise InvalidSetting("where", "must have two numbers or two dates as ends of a range", hint=hint)
    if number is None or not math.isfinite(number):
        raise InvalidSetting("where", "must have finite ends, as a double has them", hint="None leaves an end open.")
    # Not `end`: a whole number of NumPy would be compared as a double.
    whole = int(end) if are_whole(end) else None
    return number if whole is None or number == whole or not LEAST_WHOLE <= whole <= MOST_WHOLE else whole


def _end(end: float | dt.date) -> nw.Expr:
    import narwhals as nw

    return nw.lit(end) if isinstance(end, dt.date) else double_constant(end)
