"""What a device agrees to. It recomputes a server's claims, and does not answer what its policy does not allow.

    policy = Policy(max_epsilon=2, min_threshold=20, attributes=frozenset({"app_version"}))

A query is charged with all its rounds when its first round is answered; each of its rounds is answered at most once.
Everything that a device sends in any `period_days` is together (period_epsilon, period_delta)-differentially private,
however the queries were chosen: their charges satisfy the filter of `thresher.privacy.filter`, as those of a ledger do.
A charge stays until a period after the last answer to its query was sealed, and taken or dropped.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from typing import Literal, get_args

import msgspec

from thresher.device.spending import (
    Charged,
    FilterCost,
    Spend,
    delta_at,
    fit,
    is_priced,
    period_budget,
    price,
    sent_until,
)
from thresher.device.terms import Terms, query_key, terms_key
from thresher.errors import InvalidSetting
from thresher.privacy.budget import Budget, Charge
from thresher.privacy.guarantee import Guarantee
from thresher.privacy.plans import Plan
from thresher.privacy.rates import ONE, Adversary, Guarantees, Rates
from thresher.privacy.settings import check_budget_epsilon, check_delta, check_epsilon, check_threshold
from thresher.protocol import sealing

Coins = Literal["any", "aggregator"]
_DAY = 86_400.0
LONGEST_ROUND = 400 * _DAY
"""Seconds. A server opens rounds for a year at most; a device keeps its sealed bytes until the deadline."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The most that a device gives away. The defaults are meant to be safe to leave alone.

    Args:
        max_epsilon: the largest epsilon of one query over all its rounds.
        max_delta: the largest delta of one query over all its rounds.
        period_epsilon: what all queries answered in any `period_days` days may cost together, with `period_delta`.
        period_delta: the delta of the same promise.
        period_days: the length of the period.
        min_threshold: the smallest threshold.
        attributes: those that may be asked for; None for all that the device holds.
        pinned_key: the only public key to seal for, 32 bytes; None for the one that the server names.
        hide_from_contact_list: whether the bounds are for the guarantee against somebody who knows who was contacted.
            The device then relies on no coin but its own and the aggregator's.
        coins: with "aggregator" the bounds are for the guarantee against somebody who can add devices or reports. The
            device then relies on no coin but the aggregator's, and answers no round in which the aggregator tosses
            none. With "any" it also answers rounds of device coins.
        filters: the attributes by which a query may filter; None for those of `attributes`. One that is listed here
            and not in `attributes` may be filtered by and not asked for.
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
    filters: frozenset[str] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "period_epsilon", float(self.period_epsilon))
        object.__setattr__(self, "period_delta", float(self.period_delta))
        check_epsilon(self.max_epsilon, setting="max_epsilon")
        check_delta(self.max_delta, setting="max_delta")
        check_budget_epsilon(self.period_epsilon, setting="period_epsilon")
        check_delta(self.period_delta, setting="period_delta")
        check_threshold(self.min_threshold, setting="min_threshold")
        if not 0 < self.period_days <= 36_500:
            raise InvalidSetting("period_days", "must be above 0 and at most 36,500")
        for name in ("attributes", "filters"):
            names = getattr(self, name)
            if isinstance(names, str):
                raise InvalidSetting(name, "must be a set of names, not one text")
            object.__setattr__(self, name, None if names is None else frozenset(names))
        if self.pinned_key is not None and len(self.pinned_key) != sealing.KEY_BYTES:
            raise InvalidSetting("pinned_key", f"must be {sealing.KEY_BYTES} bytes")
        if self.coins not in get_args(Coins):
            raise InvalidSetting("coins", "must be 'any' or 'aggregator'")

    # What a query costs

    @property
    def period(self) -> float:
        """The period in seconds."""
        return self.period_days * _DAY

    @property
    def budget(self) -> Budget:
        """The budget of one period. Its filter follows from the policy alone."""
        return period_budget(self.period_epsilon, self.period_delta)

    @property
    def _against(self) -> Adversary:
        """Whom the bounds hold against. Only the coins that protect against them count."""
        if self.coins == "aggregator":
            return "injected"  # knows who was contacted, too
        return "contact_list" if self.hide_from_contact_list else "analyst"

    def cost(self, guarantees: Guarantees) -> tuple[float, float]:
        """The epsilon and delta that a query with these guarantees is charged."""
        holds: Guarantee = getattr(guarantees, self._against)
        return holds.epsilon, holds.delta

    def charge(self, plan: Plan, rates: Rates, guarantees: Guarantees) -> Charge:
        """What a query is charged, as a whole and for each of its rounds.

        Edge cases: computed once for each plan in this process. The first time usually takes a millisecond, for some
        plans a tenth of a second.
        """
        return price(self.budget, self._protecting(plan, rates, guarantees))

    def _protecting(self, plan: Plan, rates: Rates, guarantees: Guarantees) -> Plan | None:
        """The plan as it looks to those whom the bounds hold against: at the rate of the coins that count; or None."""
        return _at_rate(plan, rates.against(self._against), self.cost(guarantees)[1])

    def affords(self, charges: Iterable[Charge]) -> bool:
        """Whether one period's budget covers these queries together."""
        return fit(self.budget, charges)

    # What is answered

    @property
    def filterable(self) -> frozenset[str] | None:
        """The attributes by which a query may filter; None for all that the device holds."""
        return self.attributes if self.filters is None else self.filters

    def objection(
        self,
        columns: Iterable[str],
        plan: Plan,
        rates: Rates,
        guarantees: Guarantees,
        filters: Iterable[str] = (),
    ) -> str | None:
        """Why no query on these terms is answered, whatever was answered before; None if one may be.

        `filters` are the attributes by which it filters. Servers ask the same of the policy that their operator states,
        before a query is charged.
        """
        if limit := self._limit(columns, filters, plan, rates, guarantees):
            return limit
        return None if self.affords([self.charge(plan, rates, guarantees)]) else self._spent

    def _limit(
        self, columns: Iterable[str], filters: Iterable[str], plan: Plan, rates: Rates, guarantees: Guarantees
    ) -> str | None:
        """Which limit for a single query these terms are beyond, or None."""
        epsilon, delta = self.cost(guarantees)
        if self.attributes is not None and not self.attributes.issuperset(columns):
            return "it asks for an attribute that is not allowed"
        if self.filterable is not None and not self.filterable.issuperset(filters):
            return "it filters by an attribute that is not allowed"
        if self.coins == "aggregator" and rates.aggregator == ONE:
            return "its coins are not the aggregator's"
        if not plan.threshold >= self.min_threshold:
            return f"its threshold is below {self.min_threshold}"
        if not epsilon <= self.max_epsilon:
            return f"its epsilon is above {self.max_epsilon:g}"
        if not delta <= self.max_delta:
            return f"its delta is above {self.max_delta:g}"
        return None

    @property
    def _spent(self) -> str:
        return f"the budget of {self.period_days:g} days has too little left"

    def refusal(self, terms: Terms, charged: Charged, now: float) -> str | None:
        """Why this round is not answered, as far as that can be said without computing a cost; None if it may be.

        Guarantee: depends on the configuration and on what was answered before, never on what the device holds. Costs
        next to nothing: it only compares what is stated, so the caller must ask `overspending` and `verified`
        afterwards.
        """
        configuration = terms.configuration
        if not configuration.deadline - now <= LONGEST_ROUND:
            return "its deadline is more than a year away"
        if self.pinned_key is not None and terms.public.raw != self.pinned_key:
            return "its key is not the pinned one"
        asked = terms.question
        if limit := self._limit(asked.columns, asked.filters, terms.plan, terms.rates, terms.guarantees):
            return limit
        epsilon, delta = self.cost(terms.guarantees)
        if known := charged.get(query_key(configuration)):
            if known.terms != terms_key(terms) or (known.epsilon, known.delta) != (epsilon, delta):
                return "its query was on other terms before"
            if configuration.index in known.indexes:
                return "this round of its query was answered before"
        if self.is_priced(terms):
            return self.overspending(terms, charged)
        # The query costs this at least. Where even that is too much, nothing needs to be computed.
        least = Charge(epsilon, delta, terms.plan.rounds)
        return None if charged.covers(query_key(configuration), least) else self._spent

    def overspending(self, terms: Terms, charged: Charged) -> str | None:
        """Why the period's budget does not cover this round, or None if it does.

        Guarantee: all queries that count, and this one, are charged as this policy charges them.
        Edge cases: computes what the query costs, unless `is_priced`. Every spend must be `is_current`.
        """
        charge = self.charge(terms.plan, terms.rates, terms.guarantees)
        return None if charged.covers(query_key(terms.configuration), charge) else self._spent

    def is_priced(self, terms: Terms) -> bool:
        """Whether `overspending` and `spend` need not compute what the query costs."""
        return is_priced(self.budget, self._protecting(terms.plan, terms.rates, terms.guarantees))

    # What is remembered

    def counting(self, spends: Mapping[str, Spend], waiting: Set[str | None], now: float) -> dict[str, Spend]:
        """The spends that count now: those of the last period, and those of queries whose answers wait to be sent.

        The device sends what waits as often and as late as a server makes it. So a spend ends a period after the last
        of its answers was taken or dropped. `sent_until` says what None in `waiting` is.
        """
        moved = sent_until(spends, waiting, now)
        return {query: spend for query, spend in moved.items() if now - spend.time < self.period}

    def spend(self, terms: Terms, known: Spend | None, now: float) -> Spend:
        """The query's spend once this round is answered; `known` is its spend before, if it counts.

        The first round is charged; every round is recorded.
        """
        epsilon, delta = self.cost(terms.guarantees)
        charge = self.charge(terms.plan, terms.rates, terms.guarantees)
        cost = self._recorded(charge, terms.rates.against(self._against))
        answered = () if known is None else known.indexes
        made = Spend(epsilon, delta, terms_key(terms), (*answered, terms.configuration.index), now, cost)
        return made if known is None else made.until(known.time)

    def _recorded(self, charge: Charge, sampling_rate: float) -> FilterCost:
        return FilterCost(self._order, sampling_rate, charge.renyi, charge.bad)

    @property
    def _order(self) -> float:
        found = self.budget.filter
        assert found is not None
        return found.order

    def is_current(self, spend: Spend) -> bool:
        """Whether a spend is charged as this policy charges it; one of 0.1.0 or of another policy may not be."""
        cost = spend.cost
        return cost is not None and (cost.order, cost.sampling_rate) == (self._order, self._rate(spend))

    def is_cheap(self, spend: Spend) -> bool:
        """Whether `repriced` has next to nothing to compute."""
        return self._keeps_delta(spend) and is_priced(self.budget, self._recorded_plan(spend, spend.delta))

    def repriced(self, spend: Spend) -> Spend:
        """The spend as this policy charges it, computed anew from the terms that were recorded.

        Guarantee: the charge is at least what the query costs under this policy. Costs in filters of two orders do not
        add up, and a policy that relies on fewer coins finds the same query dearer: no recorded cost would do.
        Edge cases: where no coin protects that this policy relies on, delta is 1, and nothing else fits beside it.
        """
        rate, delta = self._rate(spend), spend.delta
        if not self._keeps_delta(spend):
            reached = delta_at(*spend.terms[:3], spend.epsilon, rate)
            delta = max(reached, delta) if delta < 1 else reached
        charge = price(self.budget, self._recorded_plan(spend, delta))
        return msgspec.structs.replace(spend, delta=delta, cost=self._recorded(charge, rate))

    def _rate(self, spend: Spend) -> float:
        """The rate of the coins that count under this policy."""
        return _rates(*spend.terms[3:]).against(self._against)

    def _keeps_delta(self, spend: Spend) -> bool:
        """Whether the recorded delta is still an upper bound: no fewer coins count now than when it was recorded.

        0.1.0 did not record which coins counted. Then it was all of them, at worst.
        """
        counted = spend.terms[0] if spend.cost is None else spend.cost.sampling_rate
        return self._rate(spend) <= counted and (spend.delta < 1 or self._rate(spend) == 1)

    def _recorded_plan(self, spend: Spend, delta: float) -> Plan | None:
        sampling_rate, threshold, rounds, *_ = spend.terms
        if not delta < 1:
            return None
        plan = Plan(sampling_rate, threshold, spend.epsilon, delta, "replace", rounds)
        return _at_rate(plan, self._rate(spend), delta)


_rates = functools.lru_cache(maxsize=1024)(Rates)


@functools.lru_cache(maxsize=1024)
def _at_rate(plan: Plan, sampling_rate: float, delta: float) -> Plan | None:
    """A plan of which only coins of this rate protect, with the delta that it has then; None where no coin does."""
    if not (sampling_rate < 1 and delta < 1):
        return None
    return replace(plan, sampling_rate=sampling_rate, delta=delta)
