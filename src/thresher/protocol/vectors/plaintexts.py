"""Test vectors of plaintexts: padding, decoys, and what an aggregator reads or refuses.

    writing    {"content": "[\"a\"]", "size": 48, "padded": "0005…"}, and with the `random` bytes of a decoy
    reading    {"padded": "…", "question": {…}, "read": ["a"]}; "read" is "decoy" for what is not to be counted
    refusing   {"padded": "…", "question": {…}, "wrong": "bucket"}

What is wrong is the first of these: the "length" is 0 or beyond the end; the "padding" is not zero; the content is no
"json"; it is none of the question's buckets ("bucket").
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from thresher.protocol.plaintext import DECOY, decode_payload, decoy, encode_bucket, payload
from thresher.protocol.vectors.buckets import (
    AGAIN,
    AGES,
    BELOW,
    CELLS,
    FIRST,
    JOINT,
    MONTHS,
    NEXT,
    PAIR,
    POINTS,
    RANGE,
    ROUNDED,
    WEEKS,
    WIDE,
    WORD,
)
from thresher.questions import Bucket, Question

_RANDOM = [bytes(16), bytes(range(16)), b"\xff" * 16]

_READ: list[tuple[Question, str]] = [
    (WORD, '["a"]'), (WORD, '[""]'), (WORD, ' [ "\\u0061" ] '), (WORD, '["\\ud83d\\ude00"]'), (WORD, '["\\/"]'),
    (WORD, '["\u2028"]'), (WORD, '["e\u0301"]'), (WORD, '["\u212b"]'), (WORD, '["1.0"]'), (PAIR, '["a","b"]'),
    (AGES, "[18]"), (AGES, "[18.0]"), (AGES, "[1.8e1]"), (AGES, "[0]"), (AGES, "[-0]"), (CELLS, "[6]"),
    (CELLS, "[1.0]"), (CELLS, "[0.2e1]"), (CELLS, "[-0]"), (POINTS, "[1e-7]"), (POINTS, "[100]"), (POINTS, "[-2.50]"),
    (AGAIN, '["a\\u0000"]'), (AGAIN, '["\\u0000"]'), (AGAIN, '["the\\u0000"]'), (AGAIN, '["then"]'),
    (AGAIN, '["th\\u0000"]'), (WIDE, "[1152921504606847000]"), (WIDE, "[1152921504606846976]"),
    (POINTS, "[590295810358705700000]"),
    (JOINT, '["fr",18,"2024-02-01"]'), (ROUNDED, '["",1e21]'), (RANGE, '["18"]'), (RANGE, '["anything"]'),
    (BELOW, "[true]"),
    (WEEKS, '["2024-12-30"]'), (MONTHS, '["0001-01-01"]'), (FIRST, '["a\\u0000"]'), (FIRST, '["\\u0000"]'),
    (FIRST, '["\U0001f600\U0001f600"]'), (NEXT, '["then"]'), (NEXT, '["th\\u0000"]'), (FIRST, '["e\u0301"]'),
    (NEXT, '["the\u0301"]'), (WORD, '["a' + "\u0301" * 14 + '"]'),
    (WORD, '{"decoy":"000102030405060708090a0b0c0d0e0f"}'), (AGES, '{ "decoy" : "ffffffffffffffffffffffffffffffff" }'),
]  # fmt: skip

_REFUSED: list[tuple[Question, str]] = [
    (WORD, "["), (WORD, '["a"'), (WORD, '["a"],'), (WORD, "['a']"), (WORD, "[NaN]"), (WORD, '["\x01"]'),
    (WORD, '["\\ud800"]'),
    (WORD, '["a\\u0000b"]'), (WORD, "[42]"), (WORD, "[null]"), (WORD, '["a","b"]'), (WORD, "[]"), (WORD, '"a"'),
    (WORD, '[["a"]]'), (WORD, '{"word":"a"}'), (WORD, "null"), (WORD, "{}"), (PAIR, '["a"]'), (AGES, "[17]"),
    (AGES, "[130]"),
    (AGES, '["18"]'), (AGES, "[false]"), (CELLS, "[7]"), (CELLS, "[-1]"), (CELLS, "[1.5]"), (CELLS, "[true]"),
    (CELLS, "[1e300]"), (CELLS, '["1"]'), (POINTS, "[99]"), (POINTS, "[true]"), (WIDE, "[1152921504606848000]"),
    (WIDE, "[" + "9" * 50 + "]"),
    (AGAIN, '["b\\u0000"]'), (AGAIN, '["a"]'), (JOINT, '["fr",18]'), (JOINT, '["fr",17,"2024-02-01"]'),
    (JOINT, '["fr",18,"2024-02-02"]'), (ROUNDED, '[1,100]'), (RANGE, "[18]"),
    (BELOW, "[1]"),
    (BELOW, '["true"]'), (WEEKS, '["2024-12-31"]'), (MONTHS, '["2024-12-31"]'), (WEEKS, '["20241230"]'),
    (WEEKS, '["2024-12-30T00:00"]'), (MONTHS, '["0000-01-01"]'), (FIRST, '["a"]'), (FIRST, '["abc"]'),
    (FIRST, '["ab\\u0000"]'),
    (NEXT, '["xx\\u0000"]'), (NEXT, '["the"]'), (NEXT, '["a\\u0000"]'), (NEXT, '[""]'),
    (WORD, '{"decoy":"000102030405060708090a0b0c0d0e0"}'), (WORD, '{"decoy":"000102030405060708090A0B0C0D0E0F"}'),
    (WORD, '{"decoy":5}'), (WORD, '{"decoy":"000102030405060708090a0b0c0d0e0f","a":1}'), (WORD, '\ufeff["a"]'),
]  # fmt: skip


def plaintexts() -> list[dict[str, Any]]:
    """Plaintexts that are written, read and refused."""
    found: list[dict[str, Any]] = []
    for size in (48, 64, 256):
        for text in ("", "a", '"\\\x01\x7f', "\u00e9\u2028\U0001f600", "x" * (size - 6)):
            found.append(_written(encode_bucket(WORD, text, size)))
        for random in _RANDOM:
            padded = decoy(size, lambda _, random=random: random)  # type: ignore[misc]
            found.append({"random": random.hex(), **_written(padded)})
    found += (_read(question, _padded(content)) for question, content in _READ)
    found += (_refused(question, _padded(content)) for question, content in _REFUSED)
    whole = b'\x00\x05["a"]'
    for padded in (
        b"", b"\x00", bytes(64), b"\xff\xff" + bytes(62), b"\x00\x3f" + bytes(62), b'\x00\x06["a"]',
        b'\x05\x00["a"]' + bytes(57),
        whole + bytes(56) + b"\x01", whole + b"\x01" + bytes(56), whole + b" " * 57, b'\x00\x04["a"]' + bytes(57),
        b'\x00\x05["\xff"]' + bytes(57), b'\x00\x06["\xc3"]' + bytes(57),
    ):  # fmt: skip
        found.append(_refused(WORD, padded))
    found.append(_read(WORD, whole))
    return found


def what_is_wrong(padded: bytes) -> str:
    """What is wrong with a plaintext that no device sends."""
    length = int.from_bytes(padded[:2], "big")
    if len(padded) < 2 or not 0 < length <= len(padded) - 2:
        return "length"
    if any(padded[2 + length :]):
        return "padding"
    try:
        msgspec.json.decode(padded[2 : 2 + length])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return "json"
    return "bucket"


def read_plaintext(question: Question, padded: bytes) -> Any:
    """What an aggregator reads: the bucket as an array of JSON, or "decoy"."""
    bucket = decode_payload(payload(padded), question)
    return "decoy" if bucket is DECOY else _array(question, bucket)


def _array(question: Question, bucket: Bucket) -> Any:
    sent = encode_bucket(question, bucket, 1 << 16)
    assert sent is not None
    return json.loads(payload(sent))


def _padded(content: str) -> bytes:
    octets = content.encode()
    return (len(octets).to_bytes(2, "big") + octets).ljust(64, b"\0")


def _written(padded: bytes | None) -> dict[str, Any]:
    assert padded is not None
    return {"content": payload(padded).decode(), "size": len(padded), "padded": padded.hex()}


def _read(question: Question, padded: bytes) -> dict[str, Any]:
    return {"padded": padded.hex(), "question": question.to_dict(), "read": read_plaintext(question, padded)}


def _refused(question: Question, padded: bytes) -> dict[str, Any]:
    return {"padded": padded.hex(), "question": question.to_dict(), "wrong": what_is_wrong(padded)}
