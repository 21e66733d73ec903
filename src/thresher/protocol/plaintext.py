"""What is inside a sealed report: a bucket or a decoy, padded so that all reports of a round have one length.

    length (2 bytes, big-endian) ‖ JSON ‖ zeros

The JSON is an array with one element a column of the question, or {"decoy": "…"} with 128 random bits. Whole values
are counted as text, so that the type of a release never depends on what one device holds.
"""

from __future__ import annotations

import datetime as dt
import enum
import functools
import os
import re
from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any, cast

import msgspec

from thresher.errors import InvalidFormat
from thresher.protocol.messages import SMALLEST_BUCKET
from thresher.questions import END, Below, Bins, Bucket, Cells, Dates, Joint, Prefixes, Question, Values
from thresher.questions.normal_form import composed
from thresher.questions.spelling import as_text

if TYPE_CHECKING:
    import pyarrow as pa

_LENGTH_BYTES = 2
_RANDOM_BYTES = 16


class _Mark(enum.Enum):
    DECOY = "decoy"


DECOY = _Mark.DECOY
"""What `decode_payload` returns for a report that is not to be counted."""

Read = Callable[[Any], Any]
"""Turns one element of the array into a bucket's part, or raises `_Impossible` or `_Foreign`."""


class _Impossible(Exception):
    """No device that follows the protocol sends this element."""


class _Foreign(Exception):
    """A device sends this element only if its Unicode, or its rule for marks, has other normal forms than ours."""


def fleet_bucket(question: Question, value: Any) -> Bucket | None:
    """The bucket of a value, as a fleet counts it: that of the question, with whole values as text.

    `value` is what `Question.bucket` takes: a tuple where several columns are read.
    Guarantee: never raises, so that whether a device completes a round cannot depend on what it holds.
    """
    try:
        bucket = question.bucket(value)
        if bucket is None:
            return None
        if isinstance(question, Joint):
            parts = tuple(
                as_text(each) if isinstance(part, Values) else each
                for part, each in zip(question.parts, bucket, strict=True)
            )
            return None if None in parts else parts
        if not isinstance(question, Values):
            return bucket
        if len(question.columns) == 1:
            return as_text(bucket)
        texts = tuple(as_text(each) for each in bucket)
        return None if None in texts else texts
    except Exception:  # whatever an object held by a device does: it has no value then
        return None


def encode_bucket(question: Question, bucket: Bucket | None, size: int) -> bytes | None:
    """A bucket made by `fleet_bucket`, padded to `size` bytes.

    Guarantee: `decode_payload` reads it back as this very bucket. Whatever a server asks, what an honest device sends
    is never malformed: how many reports were must not say what devices hold.
    Edge cases: None, where a decoy is to be sent: for no bucket, one too long, text that has no UTF-8 form, or a bucket
    that would not be read back.
    """
    if bucket is None:
        return None
    parts = bucket if len(question.columns) > 1 else (bucket,)
    try:
        content = msgspec.json.encode(parts)
        sendable = len(content) + _LENGTH_BYTES <= size and decode_payload(content, question) == bucket
    except Exception:  # whatever was asked and is held: there is nothing to send then
        return None
    return _padded(content, size) if sendable else None


def decoy(size: int, randomness: Callable[[int], bytes] = os.urandom) -> bytes:
    """A random element that is unique, of the length of every other plaintext of the round."""
    return _padded(b'{"decoy":"' + randomness(_RANDOM_BYTES).hex().encode() + b'"}', size)


def payload(plaintext: bytes) -> bytes:
    """The JSON inside a plaintext. `InvalidFormat` where the length or the padding is wrong."""
    end = _LENGTH_BYTES + int.from_bytes(plaintext[:_LENGTH_BYTES], "big")
    padding = plaintext[end:]
    if not _LENGTH_BYTES < end <= len(plaintext) or padding.count(0) != len(padding):
        raise InvalidFormat("A report is not padded as it should be.")
    return plaintext[_LENGTH_BYTES:end]


_HEX = re.compile(rf"[0-9a-f]{{{2 * _RANDOM_BYTES}}}")


def decode_payload(content: bytes, question: Question) -> Any:
    """The bucket in a payload, or `DECOY`.

    Guarantee: a bucket that comes back is one that `fleet_bucket` can give for this question; equal buckets come back
    equal, however their JSON was spelled. `InvalidFormat`, without a word of the content, otherwise.
    Edge cases: text that a device with another Unicode took for normal is normalised here, and is `DECOY` where its
    normal form is no bucket of the question: it is not malformed, since an honest device may have sent it.
    """
    try:
        parts = msgspec.json.decode(content)
        if isinstance(parts, list):
            readers = _readers(cast(Hashable, question))
            values = tuple(read(part) for read, part in zip(readers, parts, strict=True))
            return values if len(values) > 1 else values[0]
        if isinstance(parts, dict) and set(parts) == {"decoy"} and _HEX.fullmatch(parts["decoy"]):
            return DECOY
    except _Foreign:
        return DECOY
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError, _Impossible):
        pass
    raise InvalidFormat("A report holds what its question cannot have.")


def bucket_types(question: Question) -> tuple[str, ...]:
    """The type of each column of a release: "string", "double", "date32", "int64" or "bool"."""
    return tuple(_TYPES[type(part)] for part in _parts(question))


def to_columns(buckets: Iterable[Bucket], question: Question) -> list[pa.Array]:
    """Buckets as one Arrow array a column, of the question's types also when there are none."""
    import pyarrow as pa

    types = {
        "string": pa.string(),
        "double": pa.float64(),
        "date32": pa.date32(),
        "int64": pa.int64(),
        "bool": pa.bool_(),
    }
    kinds = bucket_types(question)
    rows = list(buckets)
    columns = [rows] if len(kinds) == 1 else [[row[index] for row in rows] for index in range(len(kinds))]
    return [pa.array(column, types[kind]) for column, kind in zip(columns, kinds, strict=True)]


def _padded(content: bytes, size: int) -> bytes:
    if not len(content) + _LENGTH_BYTES <= size:
        raise InvalidFormat(f"A padded plaintext needs at least {SMALLEST_BUCKET} bytes.")
    return (len(content).to_bytes(_LENGTH_BYTES, "big") + content).ljust(size, b"\0")


_TYPES: dict[type[Any], str] = {
    Values: "string",
    Bins: "double",
    Dates: "date32",
    Prefixes: "string",
    Cells: "int64",
    Below: "bool",
}


def _parts(question: Any) -> tuple[Any, ...]:
    """The question behind each column of a bucket."""
    if isinstance(question, Joint):
        return question.parts
    return (question,) * len(question.columns) if isinstance(question, Values) else (question,)


@functools.lru_cache(maxsize=64)
def _readers(question: Hashable) -> tuple[Read, ...]:
    makers: dict[type[Any], Callable[[Any], Read]] = {
        Values: lambda _: _text,
        Bins: _edge_of,
        Dates: _date_of,
        Prefixes: _prefix_of,
        Cells: _cell_of,
        Below: lambda _: _boolean,
    }
    return tuple(makers[type(part)](part) for part in _parts(question))


def _text(part: Any) -> str:
    if type(part) is not str or END in part:
        raise _Impossible
    text = composed(part)
    if text is None:
        raise _Foreign
    return text


def _boolean(part: Any) -> bool:
    if type(part) is not bool:
        raise _Impossible
    return part


def _edge_of(question: Bins) -> Read:
    lower_edges = {edge: edge for edge in question.edges[:-1]}

    def read(part: Any) -> float:
        if type(part) not in (int, float) or part not in lower_edges:
            raise _Impossible
        return lower_edges[part]

    return read


def _date_of(question: Dates) -> Read:
    def read(part: Any) -> dt.date:
        day = dt.date.fromisoformat(part)
        if day.isoformat() != part or question.bucket(day) != day:
            raise _Impossible
        return day

    return read


def _cell_of(question: Cells) -> Read:
    def read(part: Any) -> int:
        if type(part) is not int or not 0 <= part < question.cells:
            raise _Impossible
        return part

    return read


def _prefix_of(question: Prefixes) -> Read:
    def read(part: Any) -> str:
        # A prefix is whole (`length` characters) or ends in the mark; either way it is its own bucket.
        whole = type(part) is str and (len(part) == question.length or part.endswith(END))
        if not whole:
            raise _Impossible
        bare = part.removesuffix(END)
        text = _text(bare)
        prefix = text + part[len(bare) :]
        if question.bucket(text) != prefix:
            raise _Impossible if text == bare else _Foreign
        return str(prefix)

    return read
