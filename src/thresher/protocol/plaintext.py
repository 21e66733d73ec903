"""What is inside a sealed report: a bucket or a decoy, padded so that all reports of a round have one length.

    length (2 bytes, big-endian) ‖ JSON ‖ zeros

The JSON is an array with one element a column of the question, or {"decoy": "…"} with 128 random bits. Whole values
are counted as text, so that the type of a release never depends on what one device holds. The array is written as
ECMAScript's `JSON.stringify` writes it: a bucket has the same bytes in every language, and fits or does not fit alike.
"""

from __future__ import annotations

import enum
import functools
import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from thresher.errors import InvalidFormat
from thresher.protocol.readable import SMALLEST_BUCKET
from thresher.questions import Bucket, Question
from thresher.questions.doubles import double_text
from thresher.questions.question import Foreign, Impossible, Reader, draw_for

if TYPE_CHECKING:
    import pyarrow as pa

_LENGTH_BYTES = 2
_RANDOM_BYTES = 16
_encode, _decode = msgspec.json.Encoder().encode, msgspec.json.Decoder().decode


class _Mark(enum.Enum):
    DECOY = "decoy"


DECOY = _Mark.DECOY
"""What `decode_payload` returns for a report that is not to be counted."""


def fleet_bucket(question: Question, value: Any, draw: float | None = None) -> Bucket | None:
    """The bucket of a value, as a fleet counts it: that of the question, with whole values as text.

    `value` is what `Question.bucket` takes: a tuple where several columns are read. `draw` is a uniform random number
    in [0, 1), for questions that need one.
    Guarantee: never raises, so that whether a device completes a round cannot depend on what it holds.
    """
    try:
        return question.device_bucket(value, *draw_for(question, draw))
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
        content = _json(parts)
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
        parts = _decode(content)
        if isinstance(parts, list):
            readers = _readers(question)
            values = tuple(read(part) for read, part in zip(readers, parts, strict=True))
            return values if len(values) > 1 else values[0]
        if isinstance(parts, dict) and set(parts) == {"decoy"} and _HEX.fullmatch(parts["decoy"]):
            return DECOY
    except Foreign:
        return DECOY
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError, Impossible):
        pass
    raise InvalidFormat("A report holds what its question cannot have.")


def bucket_types(question: Question) -> tuple[str, ...]:
    """The type of each column of a release: "string", "double", "date32", "int64" or "bool"."""
    return tuple(part.bucket_type for part in question.parts)


def to_columns(buckets: Iterable[Bucket], question: Question) -> list[pa.Array]:
    """Buckets as one Arrow array a column, of the question's types also when there are none."""
    import pyarrow as pa

    kinds = bucket_types(question)
    rows = list(buckets)
    columns = [rows] if len(kinds) == 1 else [[row[index] for row in rows] for index in range(len(kinds))]
    return [pa.array(column, pa.type_for_alias(kind)) for column, kind in zip(columns, kinds, strict=True)]


def _json(parts: Sequence[Any]) -> bytes:
    """The parts of a bucket as ECMAScript's `JSON.stringify` writes an array of them.

    Text is in UTF-8. Escaped are quotes, backslashes and characters below U+0020: these as backslash and b, f, n, r or
    t, or as u00xx in lower case. msgspec writes everything in this way but doubles.
    """
    if float in map(type, parts):
        texts = [double_text(part) if type(part) is float else _encode(part).decode() for part in parts]
        return f"[{','.join(texts)}]".encode()
    return _encode(parts)


def _padded(content: bytes, size: int) -> bytes:
    if not len(content) + _LENGTH_BYTES <= size:
        raise InvalidFormat(f"A padded plaintext needs at least {SMALLEST_BUCKET} bytes.")
    return (len(content).to_bytes(_LENGTH_BYTES, "big") + content).ljust(size, b"\0")


@functools.lru_cache(maxsize=64)
def _readers(question: Question) -> tuple[Reader, ...]:
    return tuple(part.reader() for part in question.parts)
