"""What a device agrees to. It believes nothing that a server states, and answers only what its policy allows.

    policy = Policy(max_epsilon=2, min_threshold=20, attributes=frozenset({"app_version"}))

A query is charged with all its rounds when its first round is answered; each of its rounds is answered at most once.
Everything that a device sends in any `period_days` is together (period_epsilon, period_delta)-differentially private,
however the queries were chosen: their charges satisfy the filter of `thresher.privacy.filter`, as those of a ledger do.
A charge stays until a period after the last answer to its query was sealed, and taken or dropped.

What a round may cost, and what it costs, are whole numbers of a table (docs/protocol/policy.md). The table of the
default policy is at hand. That of another one is computed cell by cell, or read from the file that
`thresher policy compile` wrote.
"""

from __future__ import annotations

import functools
import importlib.util
import json
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from thresher.device.price_table import Bounds, PriceTable, StoredTable
from thresher.device.spending import Charged, Spend, sent_until
from thresher.device.terms import Adversary, Terms, query_key
from thresher.errors import InvalidSetting
from thresher.privacy.settings import (
    check_budget_epsilon,
    check_contributions,
    check_days,
    check_delta,
    check_epsilon,
    check_threshold,
)
from thresher.privacy.whole_numbers import ONE
from thresher.protocol import sealing
from thresher.protocol.readable import ReadableRound

Coins = Literal["any", "aggregator"]
Reason = Literal[
    "unreadable",
    "deadline",
    "key",
    "attribute",
    "filter",
    "coins",
    "threshold",
    "contributions",
    "limit",
    "terms",
    "answered",
    "budget",
]
"""Why a round is not answered, in the order in which it is looked at. `Policy.in_words` says it in words."""
_DAY = 86_400.0
LONGEST_ROUND = 400 * _DAY
"""Seconds. A server opens rounds for a year at most; a device keeps its sealed bytes until the deadline."""
DEFAULT_TABLE = Path(__file__).with_name("default_policy.json")
"""The policy `Policy()` with its table, as `thresher policy compile` writes it."""
_NUMERICS = "thresher.device.computed_prices"


@dataclass(frozen=True, slots=True)
class Policy:
    """The most that a device gives away. The defaults are meant to be safe to leave alone.

    Args:
        max_epsilon: the largest epsilon of one query over all its rounds, with `max_delta`.
        max_delta: the delta of the same promise.
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
        max_contributions: the most values of the device that may count in a round. A round of c contributions costs as
            much as c rounds, which the bounds above cover; this one also limits what a device seals and sends.
        table: the limits and costs that follow from the four bounds; None for the table of the default policy where
            the bounds are its own, and otherwise for one that is computed as it is needed.
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
    max_contributions: int = 10
    table: PriceTable | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_epsilon(self.max_epsilon, setting="max_epsilon")
        check_delta(self.max_delta, setting="max_delta")
        check_budget_epsilon(self.period_epsilon, setting="period_epsilon")
        check_delta(self.period_delta, setting="period_delta")
        check_days(self.period_days, setting="period_days")
        for name in ("max_epsilon", "max_delta", "period_epsilon", "period_delta", "period_days"):
            object.__setattr__(self, name, float(getattr(self, name)))
        check_threshold(self.min_threshold, setting="min_threshold")
        check_contributions(self.max_contributions, setting="max_contributions")
        for name in ("attributes", "filters"):
            names = getattr(self, name)
            if isinstance(names, str):
                raise InvalidSetting(name, "must be a set of names, not one text")
            object.__setattr__(self, name, None if names is None else frozenset(names))
        if self.pinned_key is not None and len(self.pinned_key) != sealing.KEY_BYTES:
            raise InvalidSetting("pinned_key", f"must be {sealing.KEY_BYTES} bytes")
        if self.coins not in get_args(Coins):
            raise InvalidSetting("coins", "must be 'any' or 'aggregator'")
        if self.table is not None and self.table.bounds != self.bounds:
            raise InvalidSetting(
                "table",
                "was computed for another max_epsilon, max_delta, period_epsilon or period_delta",
                hint="Compile the policy again: thresher policy compile.",
            )
        if self.table is None and not self._is_default and not _has_numerics():
            raise InvalidSetting(
                "policy",
                "has other bounds than the default, and no table",
                hint="Compile it where thresher is installed (thresher policy compile), and read the file: "
                "Policy.from_file.",
            )

    @classmethod
    def from_file(cls, path: str | Path) -> Policy:
        """The policy in a file: settings in JSON, with their table if `thresher policy compile` wrote it."""
        from thresher.device.policy_file import read_policy

        return read_policy(Path(path))

    # What a query costs

    @property
    def bounds(self) -> Bounds:
        """The numbers that limits and costs follow from."""
        return self.max_epsilon, self.max_delta, self.period_epsilon, self.period_delta

    @property
    def _is_default(self) -> bool:
        """Whether the table that is at hand is the table of this policy."""
        table = _default_table()
        return self.bounds == table.bounds and self.min_threshold >= table.rows[0].threshold

    @property
    def prices(self) -> PriceTable:
        """The policy's table."""
        if self.table is not None:
            return self.table
        if self._is_default:
            return _default_table()
        from thresher.device.computed_prices import computed

        return computed(self.bounds)

    @property
    def period(self) -> float:
        """The period in seconds."""
        return self.period_days * _DAY

    @property
    def against(self) -> Adversary:
        """Whom the bounds hold against. Only the coins that protect against them count."""
        if self.coins == "aggregator":
            return "injected"  # knows who was contacted, too
        return "contact_list" if self.hide_from_contact_list else "analyst"

    def cost(self, terms: Terms) -> int:
        """What a query on these terms costs, in billionths of what a period has room for."""
        return self.prices.cost(terms.times, terms.threshold, terms.protecting(self.against))

    def knows(self, terms: Terms) -> bool:
        """Whether limit and cost of such a query are at hand, and need not be computed."""
        return self.prices.knows(terms.times, terms.threshold)

    def compute(self, terms: Terms) -> bool:
        """Compute limit and cost of such a query, so that they are at hand."""
        self.prices.limit(terms.times, terms.threshold)
        self.cost(terms)
        return True

    # What is answered

    @property
    def filterable(self) -> frozenset[str] | None:
        """The attributes by which a query may filter; None for all that the device holds."""
        return self.attributes if self.filters is None else self.filters

    def objection(self, terms: Terms, columns: Iterable[str] = (), filters: Iterable[str] = ()) -> Reason | None:
        """Why no query on these terms is answered, whatever was answered before; None if one may be.

        `filters` are the attributes by which it filters. Servers ask the same of the policy that their operator states,
        before a query is charged.
        """
        if reason := self._outright(terms, columns, filters):
            return reason
        most = self.prices.limit(terms.times, terms.threshold)
        return None if terms.protecting(self.against) <= most else "limit"

    def _outright(self, terms: Terms, columns: Iterable[str], filters: Iterable[str]) -> Reason | None:
        """The same, as far as nothing has to be looked up."""
        if self.attributes is not None and not self.attributes.issuperset(columns):
            return "attribute"
        if self.filterable is not None and not self.filterable.issuperset(filters):
            return "filter"
        if self.coins == "aggregator" and terms.aggregator == ONE:
            return "coins"
        if not terms.threshold >= self.min_threshold:
            return "threshold"
        if not terms.contributions <= self.max_contributions:
            return "contributions"
        return None

    def refusal_outright(self, round: ReadableRound, now: float) -> Reason | None:
        """Why a round is not answered, as far as that needs no table."""
        if not round.deadline - now <= LONGEST_ROUND:
            return "deadline"
        if self.pinned_key is not None and round.public.raw != self.pinned_key:
            return "key"
        return self._outright(Terms.of(round), round.question.columns, round.question.filters)

    def refusal(self, round: ReadableRound, charged: Charged, now: float) -> Reason | None:
        """Why a round is not answered; None if it is.

        Guarantee: depends on the configuration and on what was answered before, never on what the device holds.
        """
        if reason := self.refusal_outright(round, now):
            return reason
        terms, key = Terms.of(round), query_key(round)
        if reason := self.objection(terms, round.question.columns, round.question.filters):
            return reason
        if known := charged.get(key):
            if known.terms != terms:
                return "terms"
            if round.index in known.indexes:
                return "answered"
        return None if charged.covers(key, self.cost(terms)) else "budget"

    def in_words(self, reason: str) -> str:
        """A reason as a part of a sentence about the round; what is no reason is returned as it is."""
        match reason:
            case "unreadable":
                return "its configuration does not hold together"
            case "deadline":
                return "its deadline is more than a year away"
            case "key":
                return "its key is not the pinned one"
            case "attribute":
                return "it asks for an attribute that is not allowed"
            case "filter":
                return "it filters by an attribute that is not allowed"
            case "coins":
                return "its coins are not the aggregator's"
            case "threshold":
                return f"its threshold is below {self.min_threshold}"
            case "contributions":
                return f"it counts more than {self.max_contributions} values of a device"
            case "limit":
                return (
                    f"its query gives away more than epsilon {self.max_epsilon:g} with delta {self.max_delta:g}, or "
                    f"than epsilon {self.period_epsilon:g} with delta {self.period_delta:g}, as the policy's table "
                    "rounds it"
                )
            case "terms":
                return "its query was on other terms before"
            case "answered":
                return "this round of its query was answered before"
            case "budget":
                return f"the budget of {self.period_days:g} days has too little left"
        return reason  # of a state that an earlier version wrote

    # What is remembered

    def counting(self, spends: Mapping[str, Spend], waiting: Set[str | None], now: float) -> dict[str, Spend]:
        """The spends that count now: those of the last period, and those of queries whose answers wait to be sent.

        The device sends what waits as often and as late as a server makes it. So a spend ends a period after the last
        of its answers was taken or dropped. `sent_until` says what None in `waiting` is.
        """
        moved = sent_until(spends, waiting, now)
        return {query: spend for query, spend in moved.items() if now - spend.time < self.period}

    def charged(self, spends: Mapping[str, Spend]) -> Charged:
        """The charges with what each costs under this policy."""
        return Charged(spends, {query: self.cost(spend.terms) for query, spend in spends.items()})

    def charge(self, round: ReadableRound, charged: Charged, now: float) -> None:
        """Charge the query of a round that is answered now. All its rounds are charged with the first of them."""
        terms, key = Terms.of(round), query_key(round)
        known = charged.get(key)
        answered = () if known is None else known.indexes
        made = Spend(terms, (*answered, round.index), now)
        charged.record(key, made if known is None else made.until(known.time), self.cost(terms))


@functools.cache
def _default_table() -> StoredTable:
    return StoredTable.from_dict(json.loads(DEFAULT_TABLE.read_bytes())["table"])


@functools.cache
def _has_numerics() -> bool:
    return importlib.util.find_spec(_NUMERICS) is not None
