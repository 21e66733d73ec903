"""The queries that an adversary can ask: what a round of each reveals, and what a budget charges for it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from thresher.privacy.budget import Budget, Charge
from thresher.privacy.losses import Losses, losses_add, losses_remove
from thresher.privacy.plans import Plan

Direction = Literal["removal", "addition"]


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """One kind of query. A round of it shows the adversary a privacy loss: the sum of independent `parts`."""

    name: str
    parts: tuple[Losses, ...]
    price: Callable[[Budget], Charge]
    rounds: int = 1


def sampled(plan: Plan, direction: Direction = "removal") -> Query:
    """A query with this plan, by the pair that dominates all neighbours: nobody who asks it can learn more.

    Under "replace" a unit is removed from one bucket and added to another, and both directions are the same. Under
    "add-remove" the direction is one of two, for the whole life of a ledger.
    """
    removal, addition = (
        losses_remove(plan.sampling_rate, plan.threshold),
        losses_add(plan.sampling_rate, plan.threshold),
    )
    if plan.adjacency == "replace":
        parts: tuple[Losses, ...] = (removal, addition)
    else:
        parts = (removal,) if direction == "removal" else (addition,)
    name = f"p = {plan.sampling_rate:.3g}, τ = {plan.threshold}, {plan.rounds} rounds"
    return Query(name, parts, lambda budget: budget.price(plan), plan.rounds)


def any_mechanism(epsilon: float, delta: float) -> Query:
    """The worst of all (epsilon, delta)-differentially private mechanisms: with probability delta it tells everything.

    Otherwise it tells the truth with odds e^ε : 1.
    """
    true = 1 / (1 + math.exp(-epsilon))
    losses = Losses(np.array([-epsilon, epsilon]), (1 - delta) * np.array([1 - true, true]), delta)
    return Query(f"any ({epsilon:g}, {delta:g})", (losses,), lambda budget: budget.foreign(epsilon, delta))
