"""On which terms a query asks: what its price depends on, and what must stay the same from round to round."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from thresher.privacy.whole_numbers import ONE
from thresher.protocol.readable import ReadableRound

if TYPE_CHECKING:
    from thresher.privacy.plans import Plan
    from thresher.privacy.rates import Rates

Adversary = Literal["analyst", "contact_list", "injected"]
"""Whom a policy's bounds hold against."""


class Terms(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The terms of a query. Rates are whole numbers of 2^-32."""

    rounds: int
    contributions: int
    """How many values of a device count in a round."""
    threshold: int
    contact: int
    device: int
    aggregator: int

    @classmethod
    def of(cls, round: ReadableRound) -> Terms:
        """The terms of a round's query."""
        return cls(
            round.rounds,
            round.contributions,
            round.threshold,
            round.contact_rate,
            round.device_rate,
            round.aggregator_rate,
        )

    @property
    def times(self) -> int:
        """How many rounds of one contribution the query is worth."""
        return self.rounds * self.contributions

    def protecting(self, against: Adversary) -> int:
        """The rate of those coins that protect against an adversary, rounded up; 2^32 where none does."""
        match against:
            case "injected":
                return self.aggregator
            case "contact_list":
                return _product(self.device, self.aggregator)
            case "analyst":
                return _product(self.contact, _product(self.device, self.aggregator))


def _product(first: int, second: int) -> int:
    """The product of two rates, rounded up."""
    return -(-first * second // ONE)


def query_key(round: ReadableRound) -> str:
    """The name under which a query is charged. Names have no slash, so that it is unique."""
    return f"{round.fleet}/{round.query}"


def terms_of(plan: Plan, rates: Rates) -> Terms:
    """The terms of a query with this plan, whose coins are tossed at these rates."""
    return Terms(plan.rounds, plan.contributions, plan.threshold, rates.contact, rates.device, rates.aggregator)
