"""A configuration as a device reads it: the string is hashed as it came, and each rule can be broken."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from typing import Any

import pytest

from thresher.protocol.readable import ONE, ReadableRound, read_round
from thresher.protocol.sealing import PrivateKey

KEY = PrivateKey.generate("key-1").public
GOOD: dict[str, Any] = {
    "version": 3,
    "fleet": "default",
    "query": "q1",
    "index": 0,
    "round": "q1-0",
    "question": {"kind": "values", "columns": ["country"]},
    "plan": {"sampling_rate": 0.25, "threshold": 25, "rounds": 2},
    "contact_rate": ONE,
    "device_rate": ONE,
    "aggregator_rate": ONE // 4,
    "bucket_size": 64,
    "deadline": 1790000000,
    "key_id": "key-1",
    "public_key": KEY.raw.hex(),
    "guarantees": {},
}


def read(**changes: Any) -> ReadableRound | None:
    shown = read_round(json.dumps(GOOD | changes))
    assert shown.name == "q1-0"
    return shown.round


def planned(**changes: Any) -> dict[str, Any]:
    return {**GOOD["plan"], **changes}


def test_what_is_read() -> None:
    found = read()
    assert found is not None
    assert (found.fleet, found.query, found.index, found.round) == ("default", "q1", 0, "q1-0")
    assert (found.threshold, found.rounds, found.contributions) == (25, 2, 1)
    assert (found.contact_rate, found.device_rate, found.aggregator_rate) == (ONE, ONE, ONE // 4)
    assert (found.bucket_size, found.deadline, found.public) == (64, 1790000000.0, KEY)
    assert found.question.to_dict() == GOOD["question"]


@pytest.mark.parametrize("text", [json.dumps(GOOD), json.dumps(GOOD, indent=1), json.dumps(GOOD | {"fleet": "other"})])
def test_the_hash_is_over_the_string_as_it_came(text: str) -> None:
    found = read_round(text).round
    assert found is not None
    assert found.hash == hashlib.sha256(b"thresher round 3\0" + text.encode()).digest()


def test_what_is_stated_is_not_read() -> None:
    assert read(guarantees=None) is not None
    assert read(plan=planned(epsilon="none", delta=[])) is not None


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 2},
        {"fleet": "a/b"},
        {"query": ""},
        {"key_id": "x" * 101},
        {"index": 2},
        {"index": -1},
        {"index": True},
        {"plan": None},
        {"plan": planned(threshold=0)},
        {"plan": planned(threshold=100_001)},
        {"plan": planned(rounds=0)},
        {"plan": planned(rounds=1001)},
        {"plan": planned(contributions=501)},
        {"plan": planned(contributions=0)},
        {"plan": planned(sampling_rate=0.5)},
        {"plan": planned(sampling_rate="0.25")},
        {"contact_rate": 0},
        {"contact_rate": ONE + 1},
        {"device_rate": ONE // 2, "plan": planned(sampling_rate=0.125)},
        {"aggregator_rate": None},
        {"contact_rate": ONE // 2, "plan": planned(sampling_rate=0.125, contributions=2)},
        {"bucket_size": 47},
        {"bucket_size": 4097},
        {"bucket_size": 4096, "plan": planned(contributions=12)},
        {"deadline": "soon"},
        {"deadline": 10**400},
        {"public_key": "0" * 64},
        {"public_key": KEY.raw.hex().upper() if KEY.raw.hex().upper() != KEY.raw.hex() else "A" * 64},
        {"question": {"kind": "unknown"}},
        {"question": {"kind": "values", "columns": []}},
        {"surprise": 1},
    ],
)
def test_each_rule_can_be_broken(changes: dict[str, Any]) -> None:
    assert read(**changes) is None


def test_a_contact_rate_has_twenty_bits() -> None:
    for odd, is_readable in ((2**20 - 1, True), (2**20 + 1, False)):
        contact = odd << 11
        rate = contact * (ONE // 4) / ONE**2
        assert (read(contact_rate=contact, plan=planned(sampling_rate=rate)) is not None) == is_readable


@pytest.mark.parametrize(
    "text",
    ["", "[]", "null", "{", "[" * 100_000, "\ud800", json.dumps(GOOD | {"round": "a b"}), '{"round": "a", "x": NaN}'],
)
def test_what_has_no_name_is_nothing(text: str) -> None:
    assert (read_round(text).name, read_round(text).round) == (None, None)


def test_it_needs_no_numerics() -> None:
    code = "import sys; from thresher.protocol import readable; print('numpy' in sys.modules, 'scipy' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.split() == ["False", "False"]
