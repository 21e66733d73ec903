"""What a device remembers of its charges, what a query costs, and which queries fit the budget of one period together.

The arithmetic is that of ledgers: `thresher.privacy.budget` and the filter. Costs are computed once for many rounds and
many devices of this process.
"""

from __future__ import annotations

import functools
import math
from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import replace

import msgspec

from thresher.privacy.budget import Budget, Charge
from thresher.privacy.filter import Filter
from thresher.privacy.guarantee import delta as delta_of
from thresher.privacy.plans import Plan

_KEPT = 1024
_BELOW_ONE = math.nextafter(1.0, 0.0)
UNPROTECTED = Charge(1.0, _BELOW_ONE, bad=1.0)
"""The charge of a query that no coin protects. It fits no budget."""


class FilterCost(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What each round of a query costs in a filter of one order, where coins of one rate protect."""

    order: float
    sampling_rate: float
    renyi: float
    bad: float


class Spend(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one query has been charged, for which terms, and which of its rounds were answered."""

    epsilon: float
    delta: float
    terms: tuple[float, int, int, int, int, int]
    """Sampling rate, threshold, rounds, and the three rates: the same in all rounds of a query."""
    indexes: tuple[int, ...]
    time: float
    """Of the latest answer."""
    cost: FilterCost | None = None
    """None in a state that 0.1.0 wrote, which only added up."""

    @property
    def charge(self) -> Charge:
        """All rounds of the query, answered or not, at the recorded cost."""
        cost = self.cost
        assert cost is not None, "a spend without a cost is priced first"
        return _charge(self.epsilon, self.delta, self.terms[2], cost.renyi, cost.bad)


@functools.lru_cache(maxsize=_KEPT)
def _charge(epsilon: float, delta: float, rounds: int, renyi: float, bad: float) -> Charge:
    return Charge(epsilon, min(delta, _BELOW_ONE), rounds, renyi, bad)


@functools.lru_cache(maxsize=64)
def period_budget(epsilon: float, delta: float) -> Budget:
    """The budget of one period, with nothing spent. Its filter follows from epsilon and delta alone."""
    return Budget.make(epsilon, delta)


# What a query costs

_prices: OrderedDict[tuple[Filter | None, float, Plan], Charge] = OrderedDict()


def is_priced(budget: Budget, plan: Plan | None) -> bool:
    """Whether `price` has its answer already."""
    return plan is None or (budget.filter, budget.epsilon, plan) in _prices


def price(budget: Budget, plan: Plan | None) -> Charge:
    """What a query costs whose plan, at the rate of the coins that protect, is this one; None where no coin does.

    Edge cases: a cost that is beyond every number is that of a round which is always bad.
    """
    if plan is None:
        return UNPROTECTED
    key = budget.filter, budget.epsilon, plan
    found = _prices.get(key)
    if found is None:
        found = budget.price(plan)
        if not math.isfinite(found.renyi):
            found = replace(found, renyi=0.0, bad=1.0)
        _prices[key] = found
        while len(_prices) > _KEPT:
            _prices.popitem(last=False)
    return found


@functools.lru_cache(maxsize=_KEPT)
def delta_at(sampling_rate: float, threshold: int, rounds: int, epsilon: float, counted: float) -> float:
    """The delta of a query where, of its whole sampling rate, only coins of the rate `counted` protect; 1 if none do.

    Edge cases: takes up to seconds for plans of many rounds.
    """
    if not counted < 1:
        return 1.0
    rate = max(counted, sampling_rate)
    return delta_of(sampling_rate=rate, threshold=threshold, epsilon=epsilon, adjacency="replace", rounds=rounds)


# What queries cost together


def fit(budget: Budget, charges: Iterable[Charge]) -> bool:
    """Whether queries chosen one after another fit a budget together: one condition of its filter holds for all.

    Edge cases: a single query may also use the whole epsilon and delta. If it is beyond both conditions of the filter,
    no other query fits beside it, so nobody chooses a query after seeing its release.
    """
    counted = Counter(charges)
    if counted.total() == 1:
        [alone] = counted
        if alone.epsilon <= budget.epsilon and alone.delta <= budget.delta:
            return True
    return _fit(budget, frozenset(counted.items()))


@functools.lru_cache(maxsize=64)
def _fit(budget: Budget, counted: frozenset[tuple[Charge, int]]) -> bool:
    """Many devices of one process have been charged the same."""
    sums = budget.sums
    for charge, times in counted:
        sums = sums.plus(charge, whole=times)
    return replace(budget, sums=sums).fits
