"""Decisions of policies, by a few lines that follow docs/protocol/policy.md and nothing else."""

from __future__ import annotations

from typing import Any

ONE, BEYOND, PERIOD, LATEST = 2**32, 1_000_000_001, 1_000_000_000, 34_560_000
TERMS = ("rounds", "contributions", "threshold", "contact_rate", "device_rate", "aggregator_rate")


def results(policy: dict[str, Any], vector: dict[str, Any]) -> dict[str, Any]:
    """What a vector of policies.json must say, under this policy."""
    limit, rate, cost = looked_up(policy, vector["round"])
    return {"limit": limit, "rate": rate, "cost": cost, "reason": decided(policy, vector)}


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
        "deadline": round["deadline"] - vector["now"] > LATEST,
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
