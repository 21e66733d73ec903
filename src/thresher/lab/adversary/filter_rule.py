"""The shipped rule: what `Budget` and `Filter` accept, with refunds of rounds that were never drawn, and enlarging."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from thresher.lab.adversary.game import Move
from thresher.lab.adversary.queries import Query
from thresher.privacy.budget import Budget, Charge


@dataclass(frozen=True, slots=True)
class Open:
    """An accepted query with rounds that are reserved and not drawn yet."""

    query: str
    charge: Charge
    reserved: int


@dataclass(frozen=True, slots=True)
class Asked:
    """A budget, the queries that are open, and what epsilon may still be enlarged to."""

    budget: Budget
    open: tuple[Open, ...] = ()
    larger: tuple[float, ...] = ()


@dataclass(frozen=True)
class FilterRule:
    """A ledger as it is: charge all rounds, draw them one by one, give back those that were never drawn.

    `most_open` queries may be open at once, their rounds interleaved. With `larger`, epsilon is enlarged to these
    numbers, one after another, whenever the adversary likes.
    """

    budget: Budget
    queries: Sequence[Query]
    most_open: int = 1
    larger: tuple[float, ...] = ()

    @property
    def start(self) -> Asked:
        """Before anything is asked."""
        return Asked(self.budget, larger=self.larger)

    def moves(self, state: Asked) -> Iterator[Move[Asked]]:
        """Ask and draw the first round, draw the next round of an open query, cancel one, or enlarge."""
        if len(state.open) < self.most_open or not any(query.rounds > 1 for query in self.queries):
            yield from self._asked(state)
        for position, each in enumerate(state.open):
            others = state.open[:position] + state.open[position + 1 :]
            yield Move(each.query, replace(state, open=_opened(others, each.query, each.charge, each.reserved - 1)))
            sums = state.budget.sums.plus(each.charge, rounds=-each.reserved, whole=0)
            yield Move(None, replace(state, budget=replace(state.budget, sums=sums), open=others))
        if state.larger:
            budget = replace(state.budget, epsilon=state.larger[0])
            yield Move(None, replace(state, budget=budget, larger=state.larger[1:]))

    def _asked(self, state: Asked) -> Iterator[Move[Asked]]:
        for query in self.queries:
            charge = query.price(state.budget)
            if state.budget.allows(charge):
                open_ = _opened(state.open, query.name, charge, charge.rounds - 1)
                yield Move(query.name, replace(state, budget=state.budget.charge(charge), open=open_))


def _opened(others: tuple[Open, ...], query: str, charge: Charge, reserved: int) -> tuple[Open, ...]:
    """The open queries in one order, so that equal states compare equal."""
    if not reserved:
        return others
    return tuple(sorted((*others, Open(query, charge, reserved)), key=lambda each: (each.query, each.reserved)))
