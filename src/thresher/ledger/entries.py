"""What a ledger shows: its charges, what was spent, what is left, what was promised."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from thresher.privacy.budget import Budget, Charge
from thresher.privacy.settings import Adjacency


@dataclass(frozen=True, slots=True)
class Entry:
    """One charge: under which reference, when (UTC), for what, how much.

    `unit` is as `str(Unit)` writes it; None where Thresher 0.1.0 made the charge, which did not keep it. `renyi` and
    `bad` are the cost of one round in the filter, `cut` the cut behind it; the rate and threshold are None where only
    the total was known. Of the rounds, `drawn` were drawn and `given_back` never will be; the rest is reserved. In each
    round up to `contributions` values of a unit count; `renyi` and `bad` are the cost of all of them. `by` is who asked
    and `data` the name of the file or table that was asked; None where nobody said it.
    """

    id: int
    reference: str
    time: dt.datetime
    what: str
    epsilon: float
    delta: float
    adjacency: Adjacency
    rounds: int
    unit: str | None
    sampling_rate: float | None
    threshold: int | None
    cut: int | None
    renyi: float
    bad: float
    drawn: int
    given_back: int
    ended: dt.datetime | None
    contributions: int = 1
    by: str | None = None
    data: str | None = None

    @property
    def charge(self) -> Charge:
        """What it costs, as it was fixed when it was made."""
        return Charge(self.epsilon, self.delta, self.rounds, self.renyi, self.bad)


@dataclass(frozen=True, slots=True)
class Spent:
    """What was spent: as a guarantee, as a part of the budget, and in the terms of the filter.

    `epsilon` and `delta` are what a ledger of the same order and split would have needed to accept everything drawn so
    far: the smallest total that is proved to hold for it, if queries had been chosen for such a ledger from the start.
    What is promised, whatever the queries were chosen for, is the budget. Under "sum" they are the sums of all charges.
    """

    epsilon: float
    delta: float
    share: float
    """The part of the budget, from 0 to 1."""
    renyi: float
    bad: float

    @classmethod
    def of(cls, drawn: Budget) -> Spent:
        """What a budget shows whose sums are those of what was drawn."""
        return cls(*drawn.guaranteed, 1 - drawn.left_share, float(drawn.sums.renyi), float(drawn.sums.bad))


@dataclass(frozen=True, slots=True)
class Left:
    """What further queries may use: a part of the budget, and in the terms of the two conditions.

    A query fits if `epsilon` and `delta` cover its total, or if `renyi` and `bad` cover its rounds. `affords` says how
    many queries of a plan fit.
    """

    share: float
    """The part of the budget, from 0 to 1, rounded down. What is reserved is not left."""
    epsilon: float
    delta: float
    renyi: float
    bad: float

    @classmethod
    def of(cls, budget: Budget) -> Left:
        """What a budget with these sums leaves."""
        parts = budget.parts
        filtered = [
            max(float(bound - spent), 0.0)
            for spent, bound in (parts[name] for name in ("renyi", "bad") if name in parts)
        ]
        return cls(budget.left_share, budget.left_epsilon, budget.left_delta, *(filtered or (0.0, 0.0)))


@dataclass(frozen=True, slots=True)
class Promise:
    """What a ledger promised from a time on: everything drawn together, or in each period, is (epsilon, delta)."""

    time: dt.datetime
    epsilon: float


@dataclass(frozen=True, slots=True)
class Periods:
    """Where a ledger stands whose budget renews: the period's length, the current one, and all of them together."""

    seconds: float
    current: int
    """From 0."""
    ends: dt.datetime
    used: int
    """Periods in which something was drawn."""
    epsilon: float
    """What all used periods together come to."""
    delta: float


def reserved_share(spent: float, left: float) -> float:
    """The part of a budget that is reserved: neither drawn nor left, both of which are rounded."""
    share = 1 - spent - left
    return share if share > 1e-9 else 0.0
