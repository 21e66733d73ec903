"""What a device remembers of its charges, what a query costs, and which queries fit the budget of one period together.

The arithmetic is that of ledgers: `thresher.privacy.budget` and the filter. Costs are computed once for many rounds and
many devices of this process.
"""

from __future__ import annotations

import functools
import math
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Set
from dataclasses import replace
from typing import TypeAlias

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


TermsKept: TypeAlias = tuple[float, int, int, int, int, int]
Agreed: TypeAlias = tuple[TermsKept, int]
"""All that must stay the same from round to round of a query: the terms that are kept, and the contributions."""


class Spend(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What one query has been charged, for which terms, and which of its rounds were answered."""

    epsilon: float
    delta: float
    terms: TermsKept
    """Sampling rate, threshold, rounds, and the three rates: the same in all rounds of a query."""
    indexes: tuple[int, ...]
    time: float
    """When the latest answer was sealed, or when the last one was no longer waiting to be sent, if that was later."""
    cost: FilterCost | None = None
    """None in a state that 0.1.0 wrote, which only added up."""
    contributions: int = 1
    """How many values of the device count in a round. It is not written where it is 1, as in all earlier states."""

    @property
    def agreed(self) -> Agreed:
        """The terms as `terms_key` has those of a round."""
        return self.terms, self.contributions

    @property
    def charge(self) -> Charge:
        """All rounds of the query, answered or not, at the recorded cost."""
        cost = self.cost
        assert cost is not None, "a spend without a cost is priced first"
        return _charge(self.epsilon, self.delta, self.terms[2], cost.renyi, cost.bad)

    def until(self, now: float) -> Spend:
        """The same, with an answer that may have been sent as late as now. Its time never goes back."""
        return msgspec.structs.replace(self, time=max(self.time, now))


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
def delta_at(
    sampling_rate: float, threshold: int, rounds: int, contributions: int, epsilon: float, counted: float
) -> float:
    """The delta of a query where, of its whole sampling rate, only coins of the rate `counted` protect; 1 if none do.

    Edge cases: takes up to seconds for plans of many rounds.
    """
    if not counted < 1:
        return 1.0
    rate = max(counted, sampling_rate)
    return delta_of(
        sampling_rate=rate,
        threshold=threshold,
        epsilon=epsilon,
        adjacency="replace",
        rounds=rounds,
        contributions=contributions,
    )


# Which queries count


def sent_until(spends: Mapping[str, Spend], queries: Set[str | None], now: float) -> dict[str, Spend]:
    """All spends; those of these queries as of now, since answers to them may have been sent until now.

    Edge cases: None is an answer of which nobody knows to which query it belongs. It may be any of them.
    """
    anything = None in queries
    return {query: spend.until(now) if anything or query in queries else spend for query, spend in spends.items()}


class Charged:
    """What counts against the budget of a period during one visit: each query's spend, and the sums of their charges.

    Guarantee: all charges are added once, when the first round is looked at. From then on, a round adds one charge and
    takes away one at most, however many there are. Sums are exact: of a charge that is taken away nothing is left.
    Edge cases: every spend that is added has a cost.
    """

    __slots__ = ("_budget", "_spends", "_spent")

    def __init__(self, budget: Budget, spends: Mapping[str, Spend]) -> None:
        self._budget = budget
        self._spends = dict(spends)
        self._spent: Budget | None = None

    @property
    def spends(self) -> dict[str, Spend]:
        """The spend of every query."""
        return dict(self._spends)

    def get(self, query: str) -> Spend | None:
        """What a query was charged, if it was."""
        return self._spends.get(query)

    def covers(self, query: str, charge: Charge) -> bool:
        """Whether the budget covers this charge of a query, in place of what it was charged before, and all others."""
        alone = charge if self._spends.keys() <= {query} else None
        return _fits(_plus(self._others(query), charge), alone)

    def record(self, query: str, spend: Spend) -> None:
        """Charge a query with this spend, in place of what it was charged before."""
        self._spent = _plus(self._others(query), spend.charge)
        self._spends[query] = spend

    def _others(self, query: str) -> Budget:
        """The budget with the sums of all other queries."""
        if self._spent is None:
            self._spent = _after(self._budget, Counter(spend.charge for spend in self._spends.values()))
        known = self._spends.get(query)
        return self._spent if known is None else _plus(self._spent, known.charge, -1)


# What queries cost together


def fit(budget: Budget, charges: Iterable[Charge]) -> bool:
    """Whether queries chosen one after another fit a budget together: one condition of its filter holds for all.

    Edge cases: a single query may also use the whole epsilon and delta. If it is beyond both conditions of the filter,
    no other query fits beside it, so nobody chooses a query after seeing its release.
    """
    counted = Counter(charges)
    return _fits(_after(budget, counted), next(iter(counted)) if counted.total() == 1 else None)


def _after(budget: Budget, counted: Mapping[Charge, int]) -> Budget:
    """The budget after all of these charges, whether they fit or not."""
    return _summed(budget, frozenset(counted.items())) if counted else budget


# Many devices of one process have been charged the same, and are asked the same.


@functools.lru_cache(maxsize=64)
def _summed(budget: Budget, counted: frozenset[tuple[Charge, int]]) -> Budget:
    sums = budget.sums
    for charge, times in counted:
        sums = sums.plus(charge, whole=times)
    return replace(budget, sums=sums)


@functools.lru_cache(maxsize=64)
def _plus(budget: Budget, charge: Charge, times: int = 1) -> Budget:
    return replace(budget, sums=budget.sums.plus(charge, whole=times))


@functools.lru_cache(maxsize=64)
def _fits(spent: Budget, alone: Charge | None) -> bool:
    """Whether what was spent is within the budget. `alone` is the charge that it consists of, if it is a single one."""
    if alone is not None and alone.epsilon <= spent.epsilon and alone.delta <= spent.delta:
        return True
    return spent.fits
