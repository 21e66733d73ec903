"""Messages are checked when they are made, by the description that they are read with.

A value that could not be read back can therefore not be stored, sent or charged for.
"""

from __future__ import annotations

import functools
import math
import re
import threading
import types
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct

from thresher.errors import InvalidSetting

T = TypeVar("T")

_FIELD = re.compile(r"at `\$\.?([A-Za-z0-9_.\[\]]{1,100})`")


class _Reading(threading.local):
    """Whether this thread is reading messages: what is read has been checked by the reading."""

    now = False


_reading = _Reading()


class Checked(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of all messages.

    Guarantee: every instance, however it was made, is what reading it back from JSON gives; `InvalidSetting` names the
    field otherwise, and never quotes its content.
    """

    def __post_init__(self) -> None:
        if _reading.now:
            return
        description = _description(type(self))
        try:
            msgspec.convert(self, description.shape, from_attributes=True)
        except msgspec.ValidationError as error:
            field = field_of(error)
            name = field.partition(".")[0].partition("[")[0]
            problem = "is missing or of the wrong kind" if name not in description.fields else limits(type(self), name)
            raise InvalidSetting(field or type(self).__name__, str(problem)) from None
        for name in description.floats:
            value = getattr(self, name)
            if value is not None and not math.isfinite(value):  # JSON has no such number
                raise InvalidSetting(name, "must be a finite number")
            # A whole number is written differently than the float it is read as, and hashes are over what is written.
            if type(value) is int:
                msgspec.structs.force_setattr(self, name, float(value))


def read_json(kind: type[T], body: bytes | str) -> T:
    """What JSON says, strictly; an error of msgspec's otherwise."""
    _reading.now = True
    try:
        return msgspec.json.decode(body, type=kind)
    finally:
        _reading.now = False


def field_of(error: Exception) -> str:
    """The field that msgspec found wrong; empty if it is the whole message."""
    found = _FIELD.search(str(error))
    return found[1] if found else ""


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
    found, words = _description(kind).fields[field], ""
    metas: list[Meta] = []
    choices: tuple[str, ...] = ()
    for part in _alternatives(found):
        if get_origin(part) is Annotated:
            metas += [each for each in get_args(part) if isinstance(each, Meta)]
        elif get_origin(part) is Literal:
            choices = tuple(map(str, get_args(part)))
        elif isinstance(part, type) and issubclass(part, Enum):
            choices = tuple(str(each.value) for each in part)
    meta = metas[0] if metas else Meta()
    words = meta.description or ""
    above = meta.gt is not None
    least = meta.gt if above else meta.ge
    return Limits(least, meta.le, above, choices, meta.pattern, meta.max_length, words)


@dataclass(frozen=True, slots=True)
class _Description:
    shape: type[Struct]
    fields: dict[str, Any]
    floats: tuple[str, ...]


@functools.cache
def _description(kind: type[Struct]) -> _Description:
    """The fields of a message as a struct that checks nothing of its own, so that checking ends."""
    hints = get_type_hints(kind, include_extras=True)
    fields = {name: hints[name] for name in kind.__struct_fields__}
    shape = msgspec.defstruct(kind.__name__, list(fields.items()), frozen=True, kw_only=True)
    floats = tuple(name for name, found in fields.items() if any(map(_is_float, _alternatives(found))))
    return _Description(shape, fields, floats)


def _alternatives(found: Any) -> tuple[Any, ...]:
    return get_args(found) if get_origin(found) in (Union, types.UnionType) else (found,)


def _is_float(found: Any) -> bool:
    return found is float or (get_origin(found) is Annotated and get_args(found)[0] is float)


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{int(value):,}" if value.is_integer() else f"{value:.4g}"
