"""What a device remembers of its charges, and which queries fit the budget of one period together.

A charge is kept as the terms of its query. What it costs is looked up in the policy's table whenever it is needed, so
that a device may get another policy at any time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

import msgspec

from thresher.device.terms import Terms
from thresher.privacy.whole_numbers import PERIOD


class Spend(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One query that was charged, on which terms, and which of its rounds were answered."""

    terms: Terms
    indexes: tuple[int, ...]
    time: float
    """When the latest answer was sealed, or when the last one was no longer waiting to be sent, if that was later."""

    def until(self, now: float) -> Spend:
        """The same, with an answer that may have been sent as late as now. Its time never goes back."""
        return msgspec.structs.replace(self, time=max(self.time, now))


def sent_until(spends: Mapping[str, Spend], queries: Set[str | None], now: float) -> dict[str, Spend]:
    """All spends; those of these queries as of now, since answers to them may have been sent until now.

    Edge cases: None is an answer of which nobody knows to which query it belongs. It may be any of them.
    """
    anything = None in queries
    return {query: spend.until(now) if anything or query in queries else spend for query, spend in spends.items()}


def fit(costs: Iterable[int]) -> bool:
    """Whether queries chosen one after another fit a period together.

    Edge cases: a single query may cost more than a period has room for: its limit keeps it within the period's epsilon
    and delta by itself. No other query fits beside it, so nobody chooses a query after seeing its release.
    """
    listed = list(costs)
    return len(listed) <= 1 or sum(listed) <= PERIOD


class Charged:
    """What counts against the budget of a period during one visit: each query's spend, and the sum of their costs.

    Guarantee: costs are added once. From then on, a round adds one cost and takes away one at most, however many there
    are.
    """

    __slots__ = ("_costs", "_spends", "_sum")

    def __init__(self, spends: Mapping[str, Spend], costs: Mapping[str, int]) -> None:
        """`costs` has what each query of `spends` costs."""
        self._spends = dict(spends)
        self._costs = dict(costs)
        self._sum = sum(self._costs.values())

    @property
    def spends(self) -> dict[str, Spend]:
        """The spend of every query."""
        return dict(self._spends)

    def get(self, query: str) -> Spend | None:
        """What a query was charged, if it was."""
        return self._spends.get(query)

    def covers(self, query: str, cost: int) -> bool:
        """Whether this cost of a query, in place of what it cost before, fits with those of all others."""
        return self._spends.keys() <= {query} or self._sum - self._costs.get(query, 0) + cost <= PERIOD

    def record(self, query: str, spend: Spend, cost: int) -> None:
        """Charge a query with this spend, in place of what it was charged before."""
        self._sum += cost - self._costs.get(query, 0)
        self._spends[query], self._costs[query] = spend, cost
