"""Policies by their vectors: decided once more by a few lines that follow docs/protocol/policy.md and nothing else."""

from __future__ import annotations

import copy
import json
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import pytest

from thresher.device.policy import DEFAULT_TABLE, Reason
from thresher.device.policy_file import policy_from_dict
from thresher.errors import InvalidSetting

FOLDER = Path(__file__).parents[2] / "docs" / "protocol" / "vectors"
POLICIES = {each["name"]: each["policy"] for each in json.loads((FOLDER / "policy-files.json").read_text("ascii"))}
VECTORS: list[dict[str, Any]] = json.loads((FOLDER / "policies.json").read_text("ascii"))
ONE, BEYOND, PERIOD = 2**32, 1_000_000_001, 1_000_000_000
TERMS = ("rounds", "contributions", "threshold", "contact_rate", "device_rate", "aggregator_rate")


def looked_up(policy: dict[str, Any], terms: dict[str, Any]) -> tuple[int, int, int]:
    """Limit, protecting rate and cost of a query."""
    times = terms["rounds"] * terms["contributions"]
    if policy["coins"] == "aggregator":
        rate = terms["aggregator_rate"]
    elif policy["hide_from_contact_list"]:
        rate = terms["device_rate"] * terms["aggregator_rate"] // ONE
    else:
        product = terms["contact_rate"] * terms["device_rate"] * terms["aggregator_rate"]
        rate = (product + ONE**2 - 1) // ONE**2
    table = policy["table"]
    rows = [row for row in table["rows"] if row["threshold"] <= terms["threshold"]]
    columns = [place for place, rounds in enumerate(table["rounds"]) if rounds >= times]
    if not rows:
        return 0, rate, BEYOND
    costs = [cost for each, cost in zip(rows[-1]["rates"], rows[-1]["costs"], strict=True) if each >= rate]
    limit = rows[-1]["limits"][columns[0]] if columns else 0
    return limit, rate, min(times * costs[0], BEYOND) if costs else BEYOND


def decided(policy: dict[str, Any], vector: dict[str, Any]) -> str | None:
    """The first reason that applies."""
    round, charged = vector["round"], vector["charged"]
    question = round["question"]
    inner = question["question"] if question["kind"] == "filtered" else question
    filters = [condition["column"] for condition in question.get("where", [])]
    allowed = policy["attributes"]
    filterable = allowed if policy["filters"] is None else policy["filters"]
    limit, rate, cost = looked_up(policy, round)
    key = f"{round['fleet']}/{round['query']}"
    mine = [each for each in charged if each["query"] == key]
    others = [each for each in charged if each["query"] != key]
    spent = sum(looked_up(policy, each)[2] for each in others)
    reasons = {
        "deadline": round["deadline"] - vector["now"] > 34_560_000,
        "key": (policy["pinned_key"] or round["public_key"]).lower() != round["public_key"],
        "attribute": allowed is not None and not set(inner["columns"]) <= set(allowed),
        "filter": filterable is not None and not set(filters) <= set(filterable),
        "coins": policy["coins"] == "aggregator" and round["aggregator_rate"] == ONE,
        "threshold": round["threshold"] < policy["min_threshold"],
        "contributions": round["contributions"] > policy["max_contributions"],
        "limit": rate > limit,
        "terms": any(each[name] != round[name] for each in mine for name in TERMS),
        "answered": any(round["index"] in each["indexes"] for each in mine),
        "budget": bool(others) and spent + cost > PERIOD,
    }
    return next((reason for reason, applies in reasons.items() if applies), None)


def check(vector: dict[str, Any]) -> None:
    policy = POLICIES[vector["policy"]]
    assert looked_up(policy, vector["round"]) == (vector["limit"], vector["rate"], vector["cost"])
    assert decided(policy, vector) == vector["reason"]


def test_files_are_accepted_or_refused_as_the_checks_say():
    checks = json.loads((FOLDER / "policy-checks.json").read_text("ascii"))
    assert {each["accepted"] for each in checks} == {True, False}
    for each in checks:
        if each["accepted"]:
            policy_from_dict(each["policy"])
        else:
            with pytest.raises(InvalidSetting):
                policy_from_dict({"table": {}, **each["policy"]})  # Python computes a table that is missing


def test_the_page_decides_as_the_device_does():
    for vector in VECTORS:
        check(vector)


def test_there_are_enough_of_every_reason():
    assert len(VECTORS) >= 1_000
    found = Counter(vector["reason"] for vector in VECTORS)
    assert set(found) == {None, *get_args(Reason)} - {"unreadable"}  # which configurations.json is about
    assert min(found.values()) >= 3
    assert POLICIES["default"] == json.loads(DEFAULT_TABLE.read_bytes())


@pytest.mark.parametrize("field", ["limit", "rate", "cost", "reason"])
def test_a_change_of_a_result_is_noticed(field):
    for vector in VECTORS[::17]:
        other = copy.deepcopy(vector)
        other[field] = "another" if field == "reason" else vector[field] + 1
        with pytest.raises(AssertionError):
            check(other)
