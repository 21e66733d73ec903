"""The ledger's arithmetic: what queries cost, what a budget has left. `thresher.ledger` stores it.

Inside one query the rounds are fixed in advance and compose exactly (the plan already states their total). From query
to query an analyst chooses the next after seeing the last, and the plain sum of epsilons and of deltas is valid for
that.

Sums are exact in decimal: a charge of 0.1 is one tenth, as written, so three of them fit a budget of 0.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, localcontext

from thresher.errors import BudgetExceeded
from thresher.privacy.composition import Sampled, compose
from thresher.privacy.settings import Adjacency, check_delta, check_epsilon


@dataclass(frozen=True, slots=True)
class Charge:
    """What one query costs."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta)


def charge_for(rounds: Iterable[Sampled], delta: float, adjacency: Adjacency) -> Charge:
    """The charge of one query whose rounds, possibly different, are fixed in advance: composed exactly."""
    return Charge(compose(rounds, delta=delta, adjacency=adjacency).epsilon, delta)


@dataclass(frozen=True, slots=True)
class Budget:
    """A total epsilon and delta, and the charges made against it so far. Charging returns a new budget."""

    epsilon: float
    delta: float
    charges: tuple[Charge, ...] = ()

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta)

    @property
    def spent_epsilon(self) -> float:
        """Sum of all epsilons charged."""
        return float(_sum(charge.epsilon for charge in self.charges))

    @property
    def spent_delta(self) -> float:
        """Sum of all deltas charged."""
        return float(_sum(charge.delta for charge in self.charges))

    @property
    def left_epsilon(self) -> float:
        """What a further query may cost in epsilon; never below zero."""
        return float(max(_left(self.epsilon, (charge.epsilon for charge in self.charges)), Decimal(0)))

    @property
    def left_delta(self) -> float:
        """What a further query may cost in delta; never below zero."""
        return float(max(_left(self.delta, (charge.delta for charge in self.charges)), Decimal(0)))

    def allows(self, charge: Charge) -> bool:
        """Whether the charge fits into what is left."""
        charges = (*self.charges, charge)
        return (
            _left(self.epsilon, (each.epsilon for each in charges)) >= 0
            and _left(self.delta, (each.delta for each in charges)) >= 0
        )

    def charge(self, charge: Charge) -> Budget:
        """The budget after the charge; `BudgetExceeded`, before anything is drawn, if it does not fit."""
        if not self.allows(charge):
            raise BudgetExceeded(
                f"The query costs epsilon = {charge.epsilon:g} and delta = {charge.delta:g}; the budget has "
                f"epsilon = {self.left_epsilon:g} and delta = {self.left_delta:g} left.",
                hint="Nothing was drawn. Ask for less; a budget is fixed when its ledger is made.",
            )
        return Budget(self.epsilon, self.delta, (*self.charges, charge))


def _sum(values: Iterable[float]) -> Decimal:
    with localcontext() as context:
        context.prec = 400
        return sum((Decimal(repr(value)) for value in values), Decimal(0))


def _left(total: float, values: Iterable[float]) -> Decimal:
    spent = _sum(values)
    with localcontext() as context:
        context.prec = 400
        return Decimal(repr(total)) - spent
