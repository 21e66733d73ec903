"""What a ledger's file shows: all of it as JSON, and in sentences what only its owner needs to know."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from thresher.ledger import Entry, Ledger, Left, Spent
from thresher.ledger.entries import reserved_share
from thresher.privacy.budget import Budget


def content(ledger: Ledger) -> dict[str, Any]:
    """All that a ledger shows, for JSON. Where no epsilon holds for what was spent, it is null."""
    unit, spent, left, periods, budget = ledger.unit, ledger.spent, ledger.left, ledger.periods, ledger.budget
    return {
        "budget": {
            "epsilon": ledger.epsilon,
            "delta": ledger.delta,
            "adjacency": ledger.adjacency,
            "composition": ledger.composition,
            "unit": None if unit is None else str(unit),
            "same_units": sorted(map(str, ledger.same_units)),
            "data_set": ledger.data_set,
        },
        "spent": asdict(spent) | {"epsilon": spent.epsilon if math.isfinite(spent.epsilon) else None},
        "reserved": {"share": _reserved(spent, left)},
        "left": asdict(left),
        "promises": [{"time": each.time.isoformat(), "epsilon": each.epsilon} for each in ledger.promises],
        "period": None if periods is None else asdict(periods) | {"ends": periods.ends.isoformat()},
        "charges": [_charge(budget, entry) for entry in ledger.history()],
    }


def _charge(budget: Budget, entry: Entry) -> dict[str, Any]:
    return asdict(entry) | {
        "time": entry.time.isoformat(),
        "ended": None if entry.ended is None else entry.ended.isoformat(),
        "share": budget.share(entry.charge, entry.rounds - entry.given_back),
    }


def _reserved(spent: Spent, left: Left) -> float:
    """The part of the budget that is reserved for rounds that were not drawn."""
    return reserved_share(spent.share, left.share)


def sentences(ledger: Ledger) -> list[str]:
    """The name of its data set, and charges whose rounds are still reserved."""
    found = [] if ledger.data_set is None else [f"Its data set is {ledger.data_set!r}."]
    for entry in ledger.history():
        if entry.ended is None:
            found.append(
                f"{entry.reference} has drawn {entry.drawn} of {entry.rounds} rounds and has not ended: the rest is "
                "reserved. If its process is gone, thresher ledger give-back gives the rest back."
            )
    return found
