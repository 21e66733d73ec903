"""Policies by their vectors: Python's device and the lines of `policy_page` decide as the vectors say."""

from __future__ import annotations

import functools
import json
from collections import Counter
from typing import Any, get_args

import policy_page
import pytest
from vector_changes import assert_all_are_noticed, decisions, policies, read

from thresher.device.policy import DEFAULT_TABLE, Policy, Reason
from thresher.device.policy_file import policy_from_dict, policy_text
from thresher.device.price_table import StoredTable
from thresher.device.spending import Spend
from thresher.device.terms import Terms
from thresher.errors import InvalidSetting
from thresher.protocol.readable import ReadableRound
from thresher.protocol.sealing import PublicKey
from thresher.questions import from_dict

VECTORS = read("policies")


@functools.cache
def named_policy(name: str) -> Policy:
    return policy_from_dict(policies()[name])


def terms_of(described: dict[str, Any]) -> Terms:
    return Terms(*(described[name] for name in policy_page.TERMS))


def round_of(described: dict[str, Any]) -> ReadableRound:
    return ReadableRound(
        **{name: described[name] for name in ("fleet", "query", "index", "deadline", *policy_page.TERMS)},
        question=from_dict(described["question"]),
        public=PublicKey("k", bytes.fromhex(described["public_key"])),
        round="r",
        bucket_size=64,
        hash=b"",
    )


def spends_of(vector: dict[str, Any]) -> dict[str, Spend]:
    return {each["query"]: Spend(terms_of(each), tuple(each["indexes"]), vector["now"]) for each in vector["charged"]}


def check_decision(vector: dict[str, Any], policy: Policy | None = None) -> None:
    """By the device's own code; under the policy that the vector names unless another one is given."""
    policy = policy or named_policy(vector["policy"])
    round, spends, now = round_of(vector["round"]), spends_of(vector), vector["now"]
    terms = Terms.of(round)
    assert policy.prices.limit(terms.times, terms.threshold) == vector["limit"]
    assert terms.protecting(policy.against) == vector["rate"]
    assert policy.cost(terms) == vector["cost"]
    assert policy.refusal(round, policy.charged(spends), now) == vector["reason"]


def check_decision_by_page(vector: dict[str, Any]) -> None:
    assert round_of(vector["round"])  # which looks at all members; the page needs only some
    assert len(spends_of(vector)) == len(vector["charged"])
    found = policy_page.results(policies()[vector["policy"]], vector)
    assert found == {name: vector[name] for name in found}


def check_acceptance(vector: dict[str, Any]) -> None:
    """Where a file has no table, or null, Python computes one. Other clients refuse such a file."""
    try:
        is_accepted = policy_from_dict(vector["policy"]).table is not None
    except InvalidSetting:
        is_accepted = False
    assert is_accepted is vector["accepted"]


def check_file(vector: dict[str, Any]) -> None:
    """The file is accepted, is written as it was read, and decides what the vectors with its name say."""
    described = vector["policy"]
    policy = policy_from_dict(described)
    assert isinstance(policy.table, StoredTable)
    lower = {"pinned_key": described["pinned_key"] and described["pinned_key"].lower()}
    assert json.loads(policy_text(policy, policy.table)) == described | lower
    assert decisions(vector["name"])
    for decision in decisions(vector["name"]):
        check_decision(decision, policy)


CHECKS = {
    "policies": check_decision,
    "policies, by the page": check_decision_by_page,
    "policy-checks": check_acceptance,
    "policy-files": check_file,
}


@pytest.mark.parametrize("name", CHECKS)
def test_python_and_the_page_decide_what_the_vectors_say(name: str) -> None:
    for vector in read(name.split(",")[0]):
        try:
            CHECKS[name](vector)
        except Exception as failed:
            raise AssertionError(json.dumps(vector)[:2000]) from failed


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKS)
def test_a_change_of_any_field_is_noticed(name: str) -> None:
    assert_all_are_noticed(name.split(",")[0], CHECKS[name], every=17)


def test_there_are_enough_of_every_reason() -> None:
    assert len(VECTORS) >= 1_000
    found = Counter(vector["reason"] for vector in VECTORS)
    assert set(found) == {None, *get_args(Reason)} - {"unreadable"}  # which configurations.json is about
    assert min(found.values()) >= 3
    assert {each["accepted"] for each in read("policy-checks")} == {True, False}
    assert policies()["default"] == json.loads(DEFAULT_TABLE.read_bytes())
