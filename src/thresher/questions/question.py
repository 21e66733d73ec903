"""What every kind of question has: the whole of what other modules may ask of one.

A question maps what a unit holds to the bucket that it is counted in. It is a small frozen value that can be sent to a
device. A device evaluates it on the one value it holds (`bucket`), a table on a whole column in its engine (`keys`);
both give the same bucket. None means that the unit has no bucket.

A kind of question is one class in one file. It registers itself under its `kind` when the class is made, and nothing
else in Thresher tests for a kind: tables, devices, stores, pictures and pages call the methods below.
"""

from __future__ import annotations

import functools
import importlib
import json
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from decimal import Decimal
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias

from thresher.errors import InvalidFormat, InvalidSetting, ThresherError
from thresher.questions.doubles import double_text, nearest_double
from thresher.questions.normal_form import normal
from thresher.questions.spelling import is_boolean

if TYPE_CHECKING:
    import narwhals as nw
    import pyarrow as pa

    from thresher.questions.conditions import Condition

Bucket: TypeAlias = Any
"""A text, whole number, float, boolean, date or time, or a tuple of these. Never None: that is "no value"."""

ColumnKind = Literal["text", "whole numbers", "floats", "decimals", "booleans", "dates", "times", "nothing"]
"""What a table's column holds."""

NUMBERS: tuple[ColumnKind, ...] = ("whole numbers", "floats", "decimals")

ArrowType = Literal["string", "double", "date32", "int64", "bool"]
"""The type of a bucket's column, as Arrow names it."""

Reader: TypeAlias = Callable[[Any], Bucket]
"""Reads one element of a report, or raises `Impossible` or `Foreign`."""


class Impossible(Exception):
    """No device that follows the protocol sends this element."""


class Foreign(Exception):
    """A device sends this element only if its version of Unicode, or its limit on marks, differs from ours."""


class Question(ABC):
    """A question of one column or of several; `parts` has one question a column."""

    __slots__ = ()

    kind: ClassVar[str]
    """The name on the wire."""
    repeated: ClassVar[bool] = False
    """Whether queries ask it in several rounds, so that a table should count the column's distinct values once."""
    ordered: ClassVar[bool] = False
    """Whether buckets have a natural order, in which tables and pictures should show them."""

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if "kind" in cls.__dict__:
            _KINDS[cls.kind] = cls

    if TYPE_CHECKING:  # a dataclass would take an inherited property for the default of its field

        @property
        def columns(self) -> tuple[str, ...]:
            """The columns of a table, or the attributes of a device, that buckets are made of."""

        @property
        def parts(self) -> tuple[Part, ...]:
            """The questions of one column each that make it up."""

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """What a unit must satisfy to have a bucket; see `Filtered`."""
        return ()

    @property
    def filters(self) -> tuple[str, ...]:
        """The columns by which units are filtered."""
        return tuple(condition.column for condition in self.conditions)

    @property
    def inputs(self) -> tuple[str, ...]:
        """All columns that are read: those of the buckets, then those of filters that are not among them."""
        return tuple(dict.fromkeys((*self.columns, *self.filters)))

    def narrowed(self, held: list[Any]) -> list[Any]:
        """What a device holds in `inputs`, with the elements of lists that a filter drops left out."""
        return held

    def admits(self, narrowed: list[Any]) -> bool:
        """Whether a device that holds this, as `narrowed` gives it, satisfies the filter."""
        return True

    def bucket(self, value: Any) -> Bucket | None:
        """The bucket of one value (a tuple of values where `inputs` are several), or None."""
        buckets = tuple(part.bucket(each) for part, each in zip(self.parts, value, strict=True))
        return None if None in buckets else buckets

    def device_bucket(self, value: Any) -> Bucket | None:
        """The bucket as a fleet counts it: the same, except that whole values are text."""
        buckets = tuple(part.device_bucket(each) for part, each in zip(self.parts, value, strict=True))
        return None if None in buckets else buckets

    @property
    def randomised(self) -> bool:
        """Whether a bucket also depends on a draw: a uniform random number in [0, 1), fresh in each round.

        Then `bucket`, `device_bucket` and a part's `keys` take the draw as one more argument.
        """
        return False

    def axis(self, released: Collection[Bucket]) -> Iterable[Bucket]:
        """All buckets in their natural order, those that were released among them; only where `ordered`."""
        return sorted(released)

    def label(self, bucket: Bucket) -> str:
        """A bucket as people read it."""
        return " · ".join(part.label(each) for part, each in zip(self.parts, bucket, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as they are sent to a device; `from_dict` reads them."""
        return {"kind": self.kind} | {
            field.name: _plain(getattr(self, field.name))
            for field in fields(self)  # type: ignore[arg-type]
        }

    @classmethod
    def read(cls, settings: dict[str, Any]) -> Self:
        """The question from the fields that `to_dict` wrote, without their `kind`."""
        return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()})

    def check_domain(self, domain: Iterable[Any]) -> None:
        """Refuse a public domain with a bucket that no value of the question has.

        Guarantee: looks at the question only.
        Edge cases: a bucket that is missing, or has too few or too many parts, passes: the histogram refuses it.
        """
        for bucket in domain:
            values = bucket if len(self.parts) > 1 else (bucket,)
            if isinstance(values, tuple | list) and len(values) == len(self.parts):
                for part, value in zip(self.parts, values, strict=True):
                    part.check_listed(value)


class Part(Question):
    """A question that may be one of one column."""

    __slots__ = ()

    reads: ClassVar[tuple[ColumnKind, ...]]
    """The kinds of columns that it reads; the first that text can be read as comes first."""
    bucket_type: ClassVar[ArrowType]
    joinable: ClassVar[bool] = False
    """Whether it may be part of a question about several columns."""
    whole: ClassVar[bool] = False
    """Whether values of different buckets are all different values, and equal buckets are equal values."""
    in_histograms: ClassVar[bool] = False
    """Whether a histogram may ask it."""
    listed_as: ClassVar[ColumnKind | None] = None
    """What the values of a public domain are read as; None: as what the column holds."""

    @abstractmethod
    def bucket(self, value: Any) -> Bucket | None:
        """The bucket of one value, or None."""

    def device_bucket(self, value: Any) -> Bucket | None:
        """The same as `bucket`."""
        return self.bucket(value)

    def label(self, bucket: Bucket) -> str:
        """The bucket as text."""
        return str(bucket)

    @property
    def lacks_buckets(self) -> bool:
        """Whether a value that is there may have no bucket."""
        return False

    @abstractmethod
    def keys(self, value: nw.Expr) -> list[nw.Expr]:
        """The key columns, as expressions over a cleaned column without nulls; null where there is no bucket.

        Keys hold no NUL: some engines pass expressions on as SQL text, which cannot hold one.
        """

    @property
    def key_types(self) -> tuple[ArrowType, ...]:
        """The types of the key columns."""
        return (self.bucket_type,)

    def from_keys(self, keys: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
        """The buckets that counted keys stand for."""
        return keys[0]

    @abstractmethod
    def reader(self) -> Reader:
        """The function that reads this column's element of a device's report.

        Guarantee: what it returns is a bucket that `device_bucket` can give; equal buckets come back equal, however
        their JSON was spelled.
        """

    @property
    @abstractmethod
    def longest(self) -> int:
        """How many bytes of JSON the longest bucket takes, where that is known; of text, the shortest that is some."""

    @property
    def as_setting(self) -> tuple[str, Any] | None:
        """The setting of a histogram that makes this question of a column, and its value; None for whole values."""
        return None

    def listed(self, value: Any) -> Any:
        """A value of a public domain as a fleet counts it; what cannot be read is left as it is, to be refused."""
        return value

    def check_listed(self, value: Any) -> None:
        """Refuse a value of a public domain that is no bucket of this question."""
        return

    def _check_own_bucket(self, value: Any, hint: str) -> None:
        """Refuse a value that is counted under another name than its own. A missing one is for the verb to refuse."""
        if normal(value) is not None and self.bucket(value) != value:
            column = self.columns[0]
            raise InvalidSetting("domain", f"has a bucket that no value of column {column!r} is counted in", hint=hint)


class OneColumn(Part):
    """A question of the column that its field `column` names."""

    __slots__ = ()

    column: str

    def _check_column(self) -> None:
        column_names((self.column,))

    @property
    def columns(self) -> tuple[str, ...]:
        """The one column that is read."""
        return (self.column,)

    @property
    def parts(self) -> tuple[Part, ...]:
        """This question itself."""
        return (self,)


_KINDS: dict[str, type[Question]] = {}


def kinds() -> dict[str, type[Question]]:
    """Every kind of question, by its name on the wire."""
    import_all(__package__, tuple(importlib.import_module(__package__).__path__))
    return _KINDS


@functools.cache
def import_all(package: str, folders: tuple[str, ...]) -> None:
    """Import every module of a package, so that what they hold is registered."""
    for module in pkgutil.iter_modules(folders):
        importlib.import_module(f"{package}.{module.name}")


_LISTS = frozenset({"columns", "edges", "points", "parents", "texts", "parts"})
"""Fields of questions that are lists. Text would be read as a list of its characters."""


def from_dict(content: Any) -> Any:
    """Read what `Question.to_dict` wrote. Anything unknown, missing or out of range is an error."""
    name = str(content.get("kind")) if isinstance(content, Mapping) else ""
    kind = _KINDS.get(name) or kinds().get(name)
    if kind is None:
        raise InvalidFormat("This is not a question that this Thresher knows.", hint="Upgrade Thresher.")
    settings = {name: value for name, value in content.items() if name != "kind"}
    if set(settings) != {field.name for field in fields(kind)}:  # type: ignore[arg-type]
        raise InvalidFormat("This question has missing or unknown fields.")
    if any(name in _LISTS and not isinstance(value, list | tuple) for name, value in settings.items()):
        raise InvalidFormat("This question has a field that is no list.")
    try:
        return kind.read(settings)
    except ThresherError:
        raise
    except (TypeError, ValueError, OverflowError, AttributeError, KeyError):
        raise InvalidFormat("This question has a field of the wrong kind.") from None


def _plain(value: Any) -> Any:
    if isinstance(value, frozenset):
        return sorted(value)
    return list(value) if isinstance(value, tuple) else value


def draw_for(question: Question, draw: Any) -> tuple[Any, ...]:
    """The draw as the last arguments of `bucket`, `device_bucket` or `keys`: none where a question takes none."""
    return (draw,) if question.randomised else ()


def is_well_formed(text: Any) -> bool:
    """Whether this is text without a surrogate that stands alone."""
    try:
        return isinstance(text, str) and bool(text.isascii() or text.encode())
    except UnicodeEncodeError:
        return False


def column_names(columns: Any) -> tuple[str, ...]:
    """One name or several, checked."""
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    if not names or not all(name and is_well_formed(name) for name in names):
        raise InvalidSetting("column", "must be the name of a column, or several names")
    if len(set(names)) < len(names):
        raise InvalidSetting("column", "must not name a column twice")
    return names


def as_double(value: Any) -> float | None:
    """A number as a double, or None; infinities are kept, since they compare.

    Edge cases: truth values, text and complex numbers are no numbers. A whole number too large for a double is an
    infinity.
    """
    usual = type(value) in (int, float)
    return nearest_double(value) if usual or (isinstance(value, Real | Decimal) and not is_boolean(value)) else None


def finite_constant(value: Any) -> float:
    """A number of a question as a double. `TypeError` for text and truth values, which `float` would read."""
    if isinstance(value, str) or is_boolean(value):
        raise TypeError
    return float(value)


def double_constant(number: float) -> nw.Expr:
    """A constant of a column expression, exact to its last bit.

    Engines that are sent SQL would read the digits of a float as a decimal, so the constant is sent as text and cast.
    """
    import narwhals as nw

    return nw.lit(repr(float(number))).cast(nw.Float64)


def as_column(number: float, finite: nw.Expr) -> nw.Expr:
    """A number to divide by, as a column that is made from a column of finite numbers.

    Some engines multiply by a constant's reciprocal instead of dividing, which gives another last bit. Polars does so
    too where a column turns out to be a constant, as that of a condition that holds in all rows.
    """
    return finite * double_constant(0.0) + double_constant(number)


def number_text(number: float) -> str:
    """A number as people read it, in as many digits as tell it from all others."""
    if number.is_integer() and abs(number) < 1e15:
        return str(int(number))
    text = f"{number:.10g}"
    return text if float(text) == number else repr(float(number)).removesuffix(".0")


def half_open(low: float, high: float) -> str:
    """An interval without its upper end, as people read it: "18 to under 65"."""
    return f"{number_text(low)} to under {number_text(high)}"


def are_whole(*numbers: object) -> bool:
    """Whether these are whole numbers by type too: 4.0 cells would name their last one 3.0, which no device may say."""
    return all(isinstance(number, Integral) and not isinstance(number, bool) for number in numbers)


def json_bytes(value: Any) -> int:
    """How long a value is in JSON, as devices write it; of text that is not ASCII, at most."""
    return len(double_text(value) if isinstance(value, float) else json.dumps(value))
