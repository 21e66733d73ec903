"""Rules of acceptance that are wrong on purpose, each by one mistake. The computed adversary must find them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from thresher.lab.adversary import Move, Query
from thresher.privacy import Budget, Charge, Filter
from thresher.privacy.budget import Sums


def _replaced(budget: Budget, sums: Sums) -> Budget:
    return replace(budget, sums=sums)


@dataclass(frozen=True)
class SeparatePots:
    """A query is charged to one of the two conditions only: the one that lets it in."""

    budget: Budget
    queries: Sequence[Query]

    @property
    def start(self) -> tuple[Sums, Sums]:
        return Sums(), Sums()

    def moves(self, state: tuple[Sums, Sums]) -> Iterator[Move[tuple[Sums, Sums]]]:
        for query in self.queries:
            charge = query.price(self.budget)
            plain, filtered = (sums.plus(charge) for sums in state)
            parts = _replaced(self.budget, plain).parts
            if all(parts[name][0] <= parts[name][1] for name in ("epsilon", "delta")):
                yield Move(query.name, (plain, state[1]))
            parts = _replaced(self.budget, filtered).parts
            if all(parts[name][0] <= parts[name][1] for name in ("renyi", "bad")):
                yield Move(query.name, (state[0], filtered))


@dataclass(frozen=True)
class AnyOrder:
    """Several orders, each with all of delta; a query is accepted if it fits one of them."""

    budgets: tuple[Budget, ...]
    queries: Sequence[Query]

    @classmethod
    def of(cls, epsilon: float, delta: float, orders: Sequence[float], queries: Sequence[Query]) -> AnyOrder:
        """Nothing is set aside for the plain sum: each order alone would be valid with this split."""
        terms = [Filter(order, 1e-300, 0.9 * delta, 0.1 * delta) for order in orders]
        return cls(tuple(Budget(epsilon, delta, each) for each in terms), queries)

    @property
    def start(self) -> tuple[Budget, ...]:
        return self.budgets

    def moves(self, state: tuple[Budget, ...]) -> Iterator[Move[tuple[Budget, ...]]]:
        for query in self.queries:
            after = tuple(_replaced(each, each.sums.plus(query.price(each))) for each in state)
            if any(each.fits for each in after):
                yield Move(query.name, after)


@dataclass(frozen=True)
class NoAtoms:
    """The mass that the Rényi cost leaves out is not counted."""

    budget: Budget
    queries: Sequence[Query]
    most: int = 60

    @property
    def start(self) -> tuple[Budget, int]:
        return self.budget, 0

    def moves(self, state: tuple[Budget, int]) -> Iterator[Move[tuple[Budget, int]]]:
        budget, drawn = state
        for query in self.queries if drawn < self.most else ():
            charge = query.price(budget)
            free = Charge(charge.epsilon, charge.delta, charge.rounds, charge.renyi, 0.0)
            if budget.allows(free):
                yield Move(query.name, (budget.charge(free), drawn + 1))


@dataclass(frozen=True)
class ChargedAfterwards:
    """A query is accepted while what was charged *before* it fits; its own cost is added after its draw."""

    budget: Budget
    queries: Sequence[Query]

    @property
    def start(self) -> Budget:
        return self.budget

    def moves(self, state: Budget) -> Iterator[Move[Budget]]:
        for query in self.queries if state.fits else ():
            yield Move(query.name, _replaced(state, state.sums.plus(query.price(state))))


@dataclass(frozen=True)
class RefundedAfterDraw:
    """A query that was drawn can be cancelled, so often, and is then given back as if it had not been drawn."""

    budget: Budget
    queries: Sequence[Query]
    refunds: int = 10

    @property
    def start(self) -> tuple[Budget, int]:
        return self.budget, self.refunds

    def moves(self, state: tuple[Budget, int]) -> Iterator[Move[tuple[Budget, int]]]:
        budget, refunds = state
        for query in self.queries:
            charge = query.price(budget)
            if budget.allows(charge):
                yield Move(query.name, (budget.charge(charge), refunds))
                if refunds:
                    yield Move(query.name, (budget, refunds - 1))
