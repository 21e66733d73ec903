"""What each field of a message may be, from the description that the message is read with."""

from __future__ import annotations

import functools
import math
import types
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct


@dataclass(frozen=True, slots=True)
class Limits:
    """What a field of a message may be. `least` itself is excluded where `above` is set."""

    least: float | None = None
    most: float | None = None
    above: bool = False
    choices: tuple[str, ...] = ()
    pattern: str | None = None
    longest: int | None = None
    words: str = ""

    def allow(self, value: float) -> bool:
        """Whether a number is within; NaN is not."""
        low, high = -math.inf if self.least is None else self.least, math.inf if self.most is None else self.most
        return (low < value if self.above else low <= value) and value <= high

    def times(self, factor: float) -> Limits:
        """The same limits in another unit."""
        return Limits(
            None if self.least is None else self.least * factor,
            None if self.most is None else self.most * factor,
            self.above,
        )

    def __str__(self) -> str:
        if self.words:
            return f"must be {self.words}"
        if self.choices:
            return f"must be one of {', '.join(self.choices)}"
        if self.least is not None and self.most is not None:
            between = "above {} and at most {}" if self.above else "from {} to {}"
            return "must be " + between.format(_number(self.least), _number(self.most))
        if self.longest is not None:
            return f"must have a length from 1 to {self.longest:,}"
        return "is of the wrong kind"


@functools.cache
def limits(kind: type[Struct], field: str) -> Limits:
    """What a field may be, from the description that it is read with: for forms and for messages to people."""
    meta = Meta()
    choices: tuple[str, ...] = ()
    for part in _alternatives(description(kind).fields[field]):
        if get_origin(part) is Annotated:
            meta = next((each for each in get_args(part) if isinstance(each, Meta)), meta)
        elif get_origin(part) is Literal:
            choices = tuple(map(str, get_args(part)))
        elif isinstance(part, type) and issubclass(part, Enum):
            choices = tuple(str(each.value) for each in part)
    above = meta.gt is not None
    return Limits(
        meta.gt if above else meta.ge, meta.le, above, choices, meta.pattern, meta.max_length, meta.description or ""
    )


@dataclass(frozen=True, slots=True)
class Description:
    """The fields of a message, and a struct with the same fields that checks nothing of its own."""

    shape: type[Struct]
    fields: dict[str, Any]
    floats: tuple[str, ...]


@functools.cache
def description(kind: type[Struct]) -> Description:
    """The fields of a message as a struct that checks nothing of its own, so that checking ends."""
    hints = get_type_hints(kind, include_extras=True)
    fields = {name: hints[name] for name in kind.__struct_fields__}
    shape = msgspec.defstruct(kind.__name__, list(fields.items()), frozen=True, kw_only=True)
    floats = tuple(name for name, found in fields.items() if any(map(_is_float, _alternatives(found))))
    return Description(shape, fields, floats)


def _alternatives(found: Any) -> tuple[Any, ...]:
    return get_args(found) if get_origin(found) in (Union, types.UnionType) else (found,)


def _is_float(found: Any) -> bool:
    return found is float or (get_origin(found) is Annotated and get_args(found)[0] is float)


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{int(value):,}" if value.is_integer() else f"{value:.4g}"
