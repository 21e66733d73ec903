"""The vectors in docs/protocol/vectors: they are current, Python gives what they say, and the checks can fail."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

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
FOLDER = ROOT / "docs" / "protocol" / "vectors"


def read(name: str) -> list[dict[str, Any]]:
    return json.loads((FOLDER / name).read_text(encoding="ascii"))  # type: ignore[no-any-return]


BUCKETS, CHOICES, PLAINTEXTS = read("buckets.json"), read("choices.json"), read("plaintexts.json")
CONFIGURATIONS, SEALED = read("configurations.json"), read("sealed.json")


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


def check_plaintext(vector: dict[str, Any]) -> None:
    padded = bytes.fromhex(vector["padded"])
    if "question" not in vector:
        content, size = vector["content"].encode(), vector["size"]
        assert (len(content).to_bytes(2, "big") + content).ljust(size, b"\0") == padded
        assert len(padded) == size
        if "random" in vector:
            assert decoy(size, lambda _: bytes.fromhex(vector["random"])) == padded
        else:
            question = from_dict({"kind": "values", "columns": ["word"]})
            assert encode_bucket(question, json.loads(content)[0], size) == padded
        return
    question = from_dict(vector["question"])
    if "read" in vector:
        assert read_plaintext(question, padded) == vector["read"]
        return
    assert what_is_wrong(padded) == vector["wrong"]
    with pytest.raises(InvalidFormat):
        decode_payload(payload(padded), question)


def check_configuration(vector: dict[str, Any]) -> None:
    """Hash, name and readability, by the device's own code."""
    assert vector["what"]
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
    assert vector["what"]
    key, info = PrivateKey.from_bytes("key-1", bytes.fromhex(vector["private_key"])), configuration_hash(vector["text"])
    assert info.hex() == vector["hash"]
    sealed, plaintexts = bytes.fromhex(vector["sealed"]), vector["plaintexts"]
    if plaintexts is None:
        with pytest.raises(SealBroken):
            open_sealed(sealed, key, info)
        return
    shown = read_round(vector["text"]).round
    assert shown is not None
    assert shown.contributions == len(plaintexts) == len(vector["ephemeral_keys"])
    assert key.public.raw.hex() == vector["public_key"] == shown.public.raw.hex()
    apart = list(pieces(sealed, shown.bucket_size + OVERHEAD))
    assert [open_sealed(piece, key, info).hex() for piece in apart] == plaintexts
    for piece, plain, secret in zip(apart, plaintexts, vector["ephemeral_keys"], strict=True):
        again = seal_with(bytes.fromhex(plain), key.public.raw, info, bytes.fromhex(secret))
        assert again == piece


@pytest.mark.slow
def test_the_files_are_current() -> None:
    run = subprocess.run([sys.executable, str(ROOT / "scripts" / "vectors"), "--check"], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("check", "vectors"),
    [
        (check_bucket, BUCKETS),
        (check_choice, CHOICES),
        (check_plaintext, PLAINTEXTS),
        (check_configuration, CONFIGURATIONS),
        (check_sealed, SEALED),
    ],
)
def test_python_gives_what_the_vectors_say(
    check: Callable[[dict[str, Any]], None], vectors: list[dict[str, Any]]
) -> None:
    for vector in vectors:
        try:
            check(vector)
        except Exception as failed:
            raise AssertionError(json.dumps(vector)) from failed


def test_coins_are_those_of_the_device() -> None:
    coins = read("coins.json")
    assert {coin["heads"] for coin in coins} == {True, False}
    assert [is_heads(coin["bits"], coin["device_rate"]) for coin in coins] == [coin["heads"] for coin in coins]


def test_marks_are_those_of_the_code() -> None:
    assert [(int(each["first"], 16), int(each["last"], 16)) for each in read("marks.json")] == mark_ranges()


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


def changed(vector: dict[str, Any], others: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The vector with one field changed or left out, for every field whose change must be noticed."""
    for field in vector:
        without = copy.deepcopy(vector)
        del without[field]
        if field != "random" and vector.get(field) != 0:  # without its place, a list is looked at from the first on
            yield f"no {field}", without
    result = next((name for name in ("plaintext", "plaintexts", "read", "wrong") if name in vector), None)
    for field, other in (
        ("question", {"kind": "unknown"}),
        ("bucket", ["another"]),
        ("buckets", [["another"]]),
        ("plaintext", '["another"]'),
        ("plaintexts", ['["another"]']),
        ("content", '["another"]'),
        ("read", ["another"]),
        ("wrong", "another"),
        ("random", "ab" * 16),
    ):
        if field in vector:
            yield field, {**vector, field: other}
    if "readable" in vector:
        yield "text", {**vector, "text": vector["text"] + " "}
        yield "hash", {**vector, "hash": "0" * 64}
        yield "round", {**vector, "round": "another"}
        yield "readable", {**vector, "readable": not vector["readable"]}
    if "sealed" in vector and vector["plaintexts"] is not None:
        for field in ("private_key", "public_key", "hash"):
            yield field, {**vector, field: "09" + vector[field][2:]}
        for field in ("plaintexts", "ephemeral_keys"):
            yield field, {**vector, field: [each[:-2] + "7f" for each in vector[field]]}
        yield "text", {**vector, "text": vector["text"] + " "}
        yield "sealed", {**vector, "sealed": vector["sealed"][:-2] + ("00" if vector["sealed"][-2:] != "00" else "01")}
    if vector.get("plaintext"):
        yield "size", {**vector, "size": len(vector["plaintext"].encode()) + 1}
    if "content" in vector:
        yield "size", {**vector, "size": vector["size"] + 1}
    if "place" in vector:
        yield "place", {**vector, "place": 5 if vector["place"] == 0 else 0}
    if "padded" in vector and result != "wrong":
        yield "padded", {**vector, "padded": vector["padded"][:-2] + "01"}
    for field in ("value", "values"):
        if field in vector and result is not None:
            alike = [
                other[field]
                for other in others
                if other["question"] == vector["question"]
                and all(other.get(name) == vector.get(name) for name in ("size", "draw", "place"))
                and other.get(result, vector[result]) != vector[result]
                and field in other
            ]
            if alike:
                yield field, {**vector, field: alike[0]}
    if "draw" in vector and vector["question"]["kind"] == "points" and vector["value"] == {"number": "99.5"}:
        yield (
            "draw",
            {**vector, "draw": "0" if vector["draw"] != "0" and float(vector["draw"]) > 0.9 else str(1 - 2**-53)},
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("check", "vectors", "fields"),
    [
        (
            check_bucket,
            BUCKETS,
            {"question", "value", "values", "size", "draw", "place", "bucket", "buckets", "plaintext"},
        ),
        (check_choice, CHOICES, {"question", "value", "values", "buckets", "plaintexts"}),
        (check_plaintext, PLAINTEXTS, {"question", "padded", "content", "size", "random", "read", "wrong"}),
        (check_configuration, CONFIGURATIONS, {"text", "hash", "round", "readable"}),
        (check_sealed, SEALED, {"private_key", "public_key", "text", "hash", "plaintexts", "ephemeral_keys", "sealed"}),
    ],
)
def test_a_change_of_any_field_is_noticed(
    check: Callable[[dict[str, Any]], None], vectors: list[dict[str, Any]], fields: set[str]
) -> None:
    noticed = set()
    sample = [*vectors[::7], *(vector for vector in vectors if vector.get("value") == {"number": "99.5"})]
    for vector in sample:
        for field, other in changed(vector, vectors):
            with pytest.raises((AssertionError, InvalidFormat, KeyError, ValueError, pytest.fail.Exception)):
                check(other)
            noticed.add(field)
    assert fields <= noticed
