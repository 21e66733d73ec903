"""The vectors in docs/protocol/vectors: they are current, Python gives what they say, and the checks can fail."""

from __future__ import annotations

import hashlib
import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from vector_changes import assert_all_are_noticed, read

from thresher.device import chosen_values
from thresher.device.core import is_heads
from thresher.errors import InvalidFormat
from thresher.protocol.pieces import pieces
from thresher.protocol.plaintext import decode_payload, decoy, encode_bucket, fleet_bucket, payload
from thresher.protocol.readable import configuration_hash, read_round
from thresher.protocol.sealing import OVERHEAD, PrivateKey, SealBroken, open_sealed
from thresher.protocol.vectors.plaintexts import read_plaintext, what_is_wrong
from thresher.protocol.vectors.sealed import seal_with
from thresher.protocol.vectors.tagged_values import tagged, untagged
from thresher.questions import from_dict, kinds
from thresher.questions.normal_form import mark_ranges

ROOT = Path(__file__).parent.parent.parent
BUCKETS, CONFIGURATIONS, SEALED = read("buckets"), read("configurations"), read("sealed")
MARKS = mark_ranges()


def inside(padded: bytes | None) -> str | None:
    return None if padded is None else payload(padded).decode()


def parsed(sent: str | None) -> Any:
    return None if sent is None else json.loads(sent)


def held(vector: dict[str, Any]) -> list[Any]:
    return [untagged(value) for value in (vector["values"] if "values" in vector else [vector["value"]])]


def check_bucket(vector: dict[str, Any]) -> None:
    """A round of one contribution, by the device's own code."""
    question, values, size = from_dict(vector["question"]), held(vector), vector["size"]
    draw = float(vector["draw"]) if question.randomised else None
    start, longest = vector.get("place", 0), chosen_values.MOST_ELEMENTS
    seen = [(value[start:] + value[:start])[:longest] if isinstance(value, list) else value for value in values]
    own = question.narrowed(seen)[: len(question.columns)]
    number = math.prod(len(value) or 1 for value in own if isinstance(value, list))
    long = math.prod(len(value) for value in values if isinstance(value, list) and len(value) > longest)
    sent = [
        inside(chosen_values.plaintexts(question, values, size, [start + long * each], draw)[0])
        for each in range(number)
    ]
    if any(isinstance(value, list) for value in values):
        assert vector["plaintexts"] == sent
        assert vector["buckets"] == [parsed(each) for each in sent]
    else:
        assert [vector["plaintext"]] == sent
        assert vector["bucket"] == parsed(sent[0])
        bucket = fleet_bucket(question, values if len(values) > 1 else values[0], draw)
        assert sent == [None] or decode_payload((sent[0] or "").encode(), question) == bucket


def check_choice(vector: dict[str, Any]) -> None:
    """A round with room for all buckets: whatever can be chosen is sent, and nothing else."""
    question, values, size = from_dict(vector["question"]), held(vector), vector["size"]
    room = len(vector["plaintexts"]) + 1
    sent = [inside(each) for each in chosen_values.plaintexts(question, values, size, [*range(room), 0])]
    assert sorted(each for each in sent if each) == sorted(each for each in vector["plaintexts"] if each)
    assert vector["buckets"] == [parsed(each) for each in vector["plaintexts"]]


def check_padded(vector: dict[str, Any]) -> None:
    """What a device pads."""
    padded, content, size = bytes.fromhex(vector["padded"]), vector["content"].encode(), vector["size"]
    assert (len(content).to_bytes(2, "big") + content).ljust(size, b"\0") == padded
    assert len(padded) == size
    if "random" in vector:
        assert decoy(size, lambda _: bytes.fromhex(vector["random"])) == padded
    else:
        question = from_dict({"kind": "values", "columns": ["word"]})
        assert encode_bucket(question, json.loads(content)[0], size) == padded


def check_read(vector: dict[str, Any]) -> None:
    """What an aggregator reads."""
    padded, question = bytes.fromhex(vector["padded"]), from_dict(vector["question"])
    if "read" in vector:
        assert read_plaintext(question, padded) == vector["read"]
        return
    assert what_is_wrong(padded) == vector["wrong"]
    with pytest.raises(InvalidFormat):
        decode_payload(payload(padded), question)


def check_configuration(vector: dict[str, Any]) -> None:
    """Hash, name and readability, by the device's own code."""
    shown = read_round(vector["text"])
    if vector["hash"] is None:
        assert not vector["text"].isprintable()
        with pytest.raises(UnicodeEncodeError):
            vector["text"].encode()
    else:
        assert hashlib.sha256(b"thresher round 3\0" + vector["text"].encode()).hexdigest() == vector["hash"]
    assert (shown.name, shown.round is not None) == (vector["round"], vector["readable"])
    assert shown.round is None or shown.round.hash.hex() == vector["hash"]


def check_sealed(vector: dict[str, Any]) -> None:
    """Opened by the aggregator's own code, which knows nothing of how the vectors were sealed."""
    key, info = PrivateKey.from_bytes("key-1", bytes.fromhex(vector["private_key"])), configuration_hash(vector["text"])
    assert info.hex() == vector["hash"]
    sealed, plaintexts = bytes.fromhex(vector["sealed"]), vector["plaintexts"]
    shown = read_round(vector["text"]).round
    assert shown is not None
    apart = list(pieces(sealed, shown.bucket_size + OVERHEAD))
    if plaintexts is None:
        for parts in ([sealed], apart):
            with pytest.raises(SealBroken):
                assert [open_sealed(piece, key, info) for piece in parts]
        return
    assert shown.contributions == len(plaintexts) == len(vector["ephemeral_keys"])
    assert key.public.raw.hex() == vector["public_key"] == shown.public.raw.hex()
    assert [open_sealed(piece, key, info).hex() for piece in apart] == plaintexts
    for piece, plain, secret in zip(apart, plaintexts, vector["ephemeral_keys"], strict=True):
        again = seal_with(bytes.fromhex(plain), key.public.raw, info, bytes.fromhex(secret))
        assert again == piece


def check_coin(vector: dict[str, Any]) -> None:
    assert is_heads(vector["bits"], vector["device_rate"]) is vector["heads"]


def check_mark(vector: dict[str, Any]) -> None:
    assert (int(vector["first"], 16), int(vector["last"], 16)) in MARKS


CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {
    "buckets": check_bucket,
    "choices": check_choice,
    "plaintexts": check_padded,
    "plaintexts-read": check_read,
    "configurations": check_configuration,
    "sealed": check_sealed,
    "coins": check_coin,
    "marks": check_mark,
}


@pytest.mark.slow
def test_the_files_are_current() -> None:
    run = subprocess.run([sys.executable, str(ROOT / "scripts" / "vectors"), "--check"], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKS)
def test_python_gives_what_the_vectors_say(name: str) -> None:
    for vector in read(name):
        try:
            CHECKS[name](vector)
        except Exception as failed:
            raise AssertionError(json.dumps(vector)) from failed


def test_there_are_vectors_of_both_sides_of_a_coin_and_of_all_marks() -> None:
    assert {coin["heads"] for coin in read("coins")} == {True, False}
    assert len(read("marks")) == len(MARKS)


def test_there_is_a_vector_for_every_kind_of_question_and_value() -> None:
    assert {vector["question"]["kind"] for vector in BUCKETS} == set(kinds())
    tags = {tag for vector in BUCKETS for value in vector.get("values", [vector.get("value")]) for tag in value}
    assert tags == {"text", "number", "whole", "boolean", "null", "list", "object", "date", "time"}
    answered = {vector["question"]["kind"] for vector in BUCKETS if vector.get("bucket") is not None}
    silent = {vector["question"]["kind"] for vector in BUCKETS if "bucket" in vector and vector["bucket"] is None}
    assert answered == silent == set(kinds())
    assert len({json.dumps(vector["value"]) for vector in BUCKETS if "value" in vector}) > 300


def test_there_is_a_configuration_for_every_kind_of_question_and_rule() -> None:
    asked = {read_round(vector["text"]).round for vector in CONFIGURATIONS if vector["readable"]}
    assert {found.question.kind for found in asked if found is not None} == set(kinds())
    assert len(CONFIGURATIONS) >= 60
    assert len({vector["hash"] for vector in CONFIGURATIONS}) > 0.9 * len(CONFIGURATIONS)
    assert sum(vector["readable"] for vector in CONFIGURATIONS) > 20
    assert sum(vector["plaintexts"] is not None for vector in SEALED) >= 12
    assert {len(vector["plaintexts"]) for vector in SEALED if vector["plaintexts"] is not None} == {1, 3}


def test_tagged_values_are_read_back() -> None:
    for vector in BUCKETS:
        for value in vector.get("values", [vector.get("value")]):
            assert tagged(untagged(value)) == value


# The checks can fail: whatever field of a vector is changed.


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKS)
def test_a_change_of_any_field_is_noticed(name: str) -> None:
    assert_all_are_noticed(name, CHECKS[name])
