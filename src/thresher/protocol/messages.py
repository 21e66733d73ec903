"""What all messages of the fleet protocol share, and the messages of devices. See docs/protocol.md.

One definition serves the server, the Python clients and the OpenAPI document. A message is checked when it is made and
when it is read, by the same description: unknown, missing, oversized or mistyped fields are refused, and the error
names the field, never its content. A value that could not be read back can therefore not be stored, sent or charged.
"""

from __future__ import annotations

import json
import math
import re
import threading
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from thresher.errors import InvalidFormat, InvalidSetting
from thresher.privacy.whole_numbers import ONE
from thresher.protocol.limits import description, limits
from thresher.protocol.readable import LARGEST_BUCKET, LARGEST_REPORT, SMALLEST_BUCKET

VERSION: Literal[1] = 1
"""Of the requests of analysts and operators."""
DEVICE_VERSION: Literal[2] = 2
"""Of the requests of devices (docs/protocol/rounds.md)."""
MOST_REPORTS = 256
"""Reports in one request of a device."""
LARGEST_VISIT = 256 << 10
"""Bytes of one request of a device."""
LARGEST_CONFIGURATION = 4 << 20
LARGEST_ANSWER = 4 * LARGEST_CONFIGURATION
"""Bytes of an answer that a device reads at most."""

_FIELD = re.compile(r"at `\$\.?([A-Za-z0-9_.\[\]]{1,100})`")
_NAMES = "letters, digits and . _ : - only, a letter or digit first, at most 100"
Name = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=100,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]*$(?!\n)",
        description=_NAMES,
    ),
]
"""An identifier: letters, digits and . _ : - only, so that it is safe in a path, a log or a page.

`$` alone would let a line break through at the end.
"""
Text = Annotated[str, Meta(min_length=1, max_length=200)]
Rate = Annotated[int, Meta(ge=1, le=ONE)]
Count = Annotated[int, Meta(ge=0, le=1 << 53)]
Seconds = Annotated[float, Meta(gt=0, le=366 * 86_400)]
Hex32 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$(?!\n)")]
"""32 bytes in hexadecimal."""
BucketSize = Annotated[int, Meta(ge=SMALLEST_BUCKET, le=LARGEST_BUCKET)]
Version = Literal[1]


class _Reading(threading.local):
    """Whether this thread is decoding messages; the decoder has checked what it makes."""

    now = False


_reading = _Reading()


class Message(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of all messages.

    Guarantee: every instance, however it was made, is what reading it back from JSON gives; `InvalidSetting` names the
    field otherwise, and never quotes its content.
    """

    def __post_init__(self) -> None:
        if _reading.now:
            return
        found = description(type(self))
        try:
            msgspec.convert(self, found.shape, from_attributes=True)
        except msgspec.ValidationError as error:
            field = _field_of(error)
            name = field.partition(".")[0].partition("[")[0]
            problem = "is missing or of the wrong kind" if name not in found.fields else limits(type(self), name)
            raise InvalidSetting(field or type(self).__name__, str(problem)) from None
        for name in found.floats:
            value = getattr(self, name)
            if value is not None and not math.isfinite(value):  # JSON has no such number
                raise InvalidSetting(name, "must be a finite number")
            # A whole number is written differently than the float it is read as, and hashes are over what is written.
            if type(value) is int:
                msgspec.structs.force_setattr(self, name, float(value))


Versions = Annotated[list[Annotated[int, Meta(ge=1, le=1_000_000)]], Meta(min_length=1, max_length=100)]
"""Versions of the protocol that a device speaks."""
ReportStatus = Literal["taken", "closed", "conflict", "rejected"]
"""What became of a report. A device is done with it, whichever it is."""


class Enrol(Message, frozen=True, kw_only=True):
    """A device asks for a token, showing an enrolment key."""

    versions: Versions


class Enrolled(Message, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """The device's token, shown this once, and the server's own public key (docs/protocol/rounds.md, section 1)."""

    version: Literal[2]
    token: Text
    identity: Hex32 | None = None


class Report(Message, frozen=True, kw_only=True):
    """A round's sealed bucket or decoy; the same bytes however often it is sent.

    In a round of c contributions it is c sealed pieces of one length, one after another, each a bucket or a decoy.
    """

    round: Name
    sealed: Annotated[bytes, Meta(min_length=1, max_length=LARGEST_REPORT)]


class Visit(Message, frozen=True, kw_only=True):
    """A device hands in reports, and asks which rounds it has been chosen for if it wants to know."""

    versions: Versions
    reports: Annotated[list[Report], Meta(max_length=MOST_REPORTS)]
    rounds: bool


class ReportTaken(Message, frozen=True, kw_only=True):
    """What became of one report."""

    round: Name
    status: ReportStatus


class Visited(Message, frozen=True, kw_only=True):
    """What became of each report, the rounds that this device is to answer, and when to come back, in seconds.

    They are the open rounds that it was chosen for and has not handed in, each the one string of its configuration.
    """

    version: Literal[2]
    reports: list[ReportTaken]
    rounds: list[str]
    come_back: float


class Problem(Message, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """An error, as application/problem+json. It may have further members."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    hint: str = ""


class VersionProblem(Problem, frozen=True, kw_only=True):
    """The error of a device that speaks no version of the protocol that the server speaks."""

    versions: list[int]
    """Those of the server."""


def canonical(message: Any) -> bytes:
    """A message in canonical form: JSON with sorted keys and no spaces, so that its hash is the same everywhere."""
    plain = msgspec.to_builtins(message)
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def encode(message: Message) -> bytes:
    """A message as JSON. `InvalidSetting` where a query holds what JSON cannot."""
    try:
        return msgspec.json.encode(message)
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise InvalidSetting("query", "holds a value that cannot be sent", hint="Use text, numbers or dates.") from None


def check_name(setting: str, text: str) -> str:
    """A text that may be the name of something in a message."""
    try:
        return msgspec.convert(text, Name)
    except msgspec.ValidationError:
        raise InvalidSetting(setting, f"must be {_NAMES}") from None


T = TypeVar("T")


def decode(kind: type[T], body: bytes | str) -> T:
    """Read a message. `InvalidFormat` names the field that is wrong, never its content."""
    _reading.now = True
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        field = _field_of(error)
        where = f" Check the field {field}." if field else ""
        raise InvalidFormat(f"This is not a {kind.__name__} message.{where}") from None
    finally:
        _reading.now = False


def _field_of(error: Exception) -> str:
    """The field that msgspec found wrong; empty if it is the whole message."""
    found = _FIELD.search(str(error))
    return found[1] if found else ""
