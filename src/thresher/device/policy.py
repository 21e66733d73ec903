"""What a device agrees to. It recomputes a server's claims, and does not answer what its policy does not allow.

    policy = Policy(max_epsilon=2, min_threshold=20, attributes=frozenset({"app_version"}))

A query's total (epsilon, delta) is charged when its first round is answered; each of its rounds is answered at most
once. Over any `period_days` the charges stay within the period's epsilon and delta.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

import msgspec

from thresher.device.terms import Terms, query_key, terms_key
from thresher.errors import InvalidSetting
from thresher.privacy.plans import Plan
from thresher.privacy.rates import ONE, Guarantees, Rates
from thresher.privacy.settings import check_delta, check_epsilon, check_threshold
from thresher.protocol import sealing

Coins = Literal["any", "aggregator"]
_DAY = 86_400.0
LONGEST_ROUND = 400 * _DAY
"""Seconds. A server opens rounds for a year at most; a device keeps its sealed bytes until the deadline."""


class Spend(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one query has been charged, for which terms, and which of its rounds were answered."""

    epsilon: float
    delta: float
    terms: tuple[float, int, int, int, int, int]
    """Sampling rate, threshold, rounds, and the three rates: the same in all rounds of a query."""
    indexes: tuple[int, ...]
    time: float
    """Of the latest answer."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The most that a device gives away. The defaults are meant to be safe to leave alone.

    Args:
        max_epsilon: the largest epsilon of one query over all its rounds.
        max_delta: the largest delta of one query over all its rounds.
        period_epsilon: the largest sum of epsilons over the queries answered in any `period_days` days.
        period_delta: the largest sum of deltas over the same queries.
        period_days: the length of the period.
        min_threshold: the smallest threshold.
        attributes: those that may be asked for; None for all that the device holds.
        pinned_key: the only public key to seal for, 32 bytes; None for the one that the server names.
        hide_from_contact_list: whether the bounds are for the guarantee against somebody who knows who was contacted.
            The device then relies on no coin but its own and the aggregator's.
        coins: with "aggregator" the bounds are for the guarantee against somebody who can add devices or reports. The
            device then relies on no coin but the aggregator's, and answers no round in which the aggregator tosses
            none. With "any" it also answers rounds of device coins.
    """

    max_epsilon: float = 4.0
    max_delta: float = 1e-5
    period_epsilon: float = 20.0
    period_delta: float = 1e-4
    period_days: float = 30.0
    min_threshold: int = 5
    attributes: frozenset[str] | None = None
    pinned_key: bytes | None = None
    hide_from_contact_list: bool = True
    coins: Coins = "any"

    def __post_init__(self) -> None:
        object.__setattr__(self, "period_epsilon", float(self.period_epsilon))
        object.__setattr__(self, "period_delta", float(self.period_delta))
        check_epsilon(self.max_epsilon, setting="max_epsilon")
        check_delta(self.max_delta, setting="max_delta")
        if not 0 < self.period_epsilon < math.inf:
            raise InvalidSetting("period_epsilon", "must be above 0 and finite")
        check_delta(self.period_delta, setting="period_delta")
        check_threshold(self.min_threshold, setting="min_threshold")
        if not 0 < self.period_days <= 36_500:
            raise InvalidSetting("period_days", "must be above 0 and at most 36,500")
        if self.attributes is not None:
            if isinstance(self.attributes, str):
                raise InvalidSetting("attributes", "must be a set of names, not one text")
            object.__setattr__(self, "attributes", frozenset(self.attributes))
        if self.pinned_key is not None and len(self.pinned_key) != sealing.KEY_BYTES:
            raise InvalidSetting("pinned_key", f"must be {sealing.KEY_BYTES} bytes")
        if self.coins not in get_args(Coins):
            raise InvalidSetting("coins", "must be 'any' or 'aggregator'")

    @property
    def period(self) -> float:
        """The period in seconds."""
        return self.period_days * _DAY

    def cost(self, guarantees: Guarantees) -> tuple[float, float]:
        """The epsilon and delta that a query with these guarantees is charged."""
        holds = guarantees.analyst
        if self.coins == "aggregator":
            holds = guarantees.injected  # never below the one against who knows who was contacted
        elif self.hide_from_contact_list:
            holds = guarantees.contact_list
        return holds.epsilon, holds.delta

    def objection(self, columns: Iterable[str], plan: Plan, rates: Rates, guarantees: Guarantees) -> str | None:
        """Why no query on these terms is answered, whatever was answered before; None if one may be.

        Servers ask the same of the policy that their operator states, before a query is charged.
        """
        epsilon, delta = self.cost(guarantees)
        if self.attributes is not None and not self.attributes.issuperset(columns):
            return "it asks for an attribute that is not allowed"
        if self.coins == "aggregator" and rates.aggregator == ONE:
            return "its coins are not the aggregator's"
        if not plan.threshold >= self.min_threshold:
            return f"its threshold is below {self.min_threshold}"
        if not epsilon <= self.max_epsilon:
            return f"its epsilon is above {self.max_epsilon:g}"
        if not delta <= self.max_delta:
            return f"its delta is above {self.max_delta:g}"
        if not self.affords([(epsilon, delta)]):
            return self._spent
        return None

    def affords(self, costs: Iterable[tuple[float, float]]) -> bool:
        """Whether one period's budget covers queries of these costs, exactly as they are written."""
        costs = tuple(costs)
        epsilons, deltas = _sum(*(epsilon for epsilon, _ in costs)), _sum(*(delta for _, delta in costs))
        return epsilons <= _sum(self.period_epsilon) and deltas <= _sum(self.period_delta)

    @property
    def _spent(self) -> str:
        return f"the budget of {self.period_days:g} days has too little left"

    def refusal(self, terms: Terms, spends: Mapping[str, Spend], now: float) -> str | None:
        """Why this round is not answered, or None if it may be.

        Guarantee: depends on the configuration and on what was answered before, never on what the device holds. Costs
        next to nothing: it only compares what is stated, so the caller must check with `verified` afterwards.
        """
        configuration = terms.configuration
        epsilon, delta = self.cost(terms.guarantees)
        if not configuration.deadline - now <= LONGEST_ROUND:
            return "its deadline is more than a year away"
        if self.pinned_key is not None and terms.public.raw != self.pinned_key:
            return "its key is not the pinned one"
        if objection := self.objection(terms.question.columns, terms.plan, terms.rates, terms.guarantees):
            return objection
        recent = {query: spend for query, spend in spends.items() if now - spend.time < self.period}
        if known := recent.get(query_key(configuration)):
            if known.terms != terms_key(terms) or (known.epsilon, known.delta) != (epsilon, delta):
                return "its query was on other terms before"
            if configuration.index in known.indexes:
                return "this round of its query was answered before"
            return None
        if not self.affords([(epsilon, delta), *((spend.epsilon, spend.delta) for spend in recent.values())]):
            return self._spent
        return None

    def spend(self, terms: Terms, spends: Mapping[str, Spend], now: float) -> Spend:
        """The query's spend once this round is answered. The first round is charged; every round is recorded."""
        epsilon, delta = self.cost(terms.guarantees)
        known = spends.get(query_key(terms.configuration))
        if known and not now - known.time < self.period:
            known = None
        indexes = (*(known.indexes if known else ()), terms.configuration.index)
        return Spend(epsilon, delta, terms_key(terms), indexes, now)


@functools.lru_cache(maxsize=1024)
def _sum(*values: float) -> Fraction:
    """The exact decimal sum of numbers as they are written: three times 0.1 is 0.3."""
    return sum((Fraction(repr(value)) for value in values), Fraction(0))
