"""The ledger's arithmetic: what queries cost, what a budget has left. `thresher.ledger` stores it.

Inside one query the rounds are fixed in advance and compose exactly (the plan already states their total). From query
to query an analyst chooses the next after seeing the last. Two ways of composing are valid for that: the plain sum of
epsilons and of deltas ("sum"), and the filter (`thresher.privacy.filter`, "adaptive"), which lets far more through.

Sums are exact in decimal: a charge of 0.1 is one tenth, as written, so three of them fit a budget of 0.3, and what was
added can be taken away again without a trace.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, Decimal, localcontext
from typing import Literal, get_args

from thresher.errors import BudgetExceeded, Hint, InvalidSetting
from thresher.privacy.composition import Sampled, compose
from thresher.privacy.filter import Filter, upward
from thresher.privacy.plans import Plan
from thresher.privacy.settings import Adjacency, check_budget_epsilon, check_delta, check_rounds

Composing = Literal["adaptive", "sum"]
MOST_QUERIES = 10**9
"""`affords` says at most this number."""


def check_composition(value: object, *, setting: str = "composition") -> Composing:
    """One of the two ways to compose queries."""
    for known in get_args(Composing):
        if isinstance(value, str) and value == known:
            return known  # type: ignore[no-any-return]
    raise InvalidSetting(
        setting,
        "must be 'adaptive' or 'sum'",
        hint="'adaptive' (the default) lets many times more queries through; 'sum' adds up epsilons and deltas.",
    )


@dataclass(frozen=True, slots=True)
class Charge:
    """What one query costs: its (epsilon, delta) as a whole, and each of its rounds in the filter.

    Under "sum" the filter's part is zero.
    """

    epsilon: float
    delta: float
    rounds: int = 1
    renyi: float = 0.0
    """The Rényi cost of one round."""
    bad: float = 0.0
    """The probability that one round is bad."""

    def __post_init__(self) -> None:
        check_budget_epsilon(self.epsilon)
        check_delta(self.delta)
        check_rounds(self.rounds)
        if not (self.renyi >= 0 and self.bad >= 0):
            raise InvalidSetting("renyi", "and bad must be 0 or more")


def charge_for(rounds: Iterable[Sampled], delta: float, adjacency: Adjacency) -> Charge:
    """The charge of one query whose rounds, possibly different, are fixed in advance: composed exactly."""
    return Charge(compose(rounds, delta=delta, adjacency=adjacency).epsilon, delta)


@dataclass(frozen=True, slots=True)
class Sums:
    """The four running sums of a budget, exact."""

    epsilon: Decimal = Decimal(0)
    delta: Decimal = Decimal(0)
    renyi: Decimal = Decimal(0)
    bad: Decimal = Decimal(0)

    def plus(self, charge: Charge, *, rounds: int | None = None, whole: int = 1) -> Sums:
        """After `whole` times the (epsilon, delta) of a charge, and `rounds` of its rounds (by default all of them).

        Both may be negative, to take back what was added.
        """
        times = charge.rounds * whole if rounds is None else rounds
        with localcontext() as context:
            context.prec = 800
            return Sums(
                self.epsilon + whole * _exact(charge.epsilon),
                self.delta + whole * _exact(charge.delta),
                self.renyi + times * _exact(charge.renyi),
                self.bad + times * _exact(charge.bad),
            )


@dataclass(frozen=True, slots=True)
class Budget:
    """A total epsilon and delta, how queries compose, and the sums of all charges so far. Charging returns a new one.

    `filter` is None under "sum".
    """

    epsilon: float
    delta: float
    filter: Filter | None = None
    sums: Sums = field(default_factory=Sums)

    def __post_init__(self) -> None:
        check_budget_epsilon(self.epsilon)
        check_delta(self.delta)

    @classmethod
    def make(cls, epsilon: float, delta: float, composition: Composing = "adaptive") -> Budget:
        """A new budget; with "adaptive" its filter's order is chosen here, once and for all."""
        check_budget_epsilon(epsilon)
        check_delta(delta)
        return cls(epsilon, delta, Filter.best(epsilon, delta) if composition == "adaptive" else None)

    @property
    def composition(self) -> Composing:
        """How queries compose."""
        return "sum" if self.filter is None else "adaptive"

    def price(self, plan: Plan) -> Charge:
        """What a query with this plan costs."""
        if self.filter is None:
            return Charge(plan.epsilon, plan.delta, plan.rounds)
        cost = self.filter.round_cost(plan.sampling_rate, plan.threshold, plan.adjacency, self.epsilon)
        times = plan.contributions  # each value of a unit costs what a round of one value costs
        renyi, bad = (cost.renyi, cost.bad) if times == 1 else (upward(times * cost.renyi), upward(times * cost.bad))
        return Charge(plan.epsilon, plan.delta, plan.rounds, renyi, bad)

    def cut(self, plan: Plan) -> int | None:
        """The cut behind the price of a plan; None under "sum"."""
        if self.filter is None:
            return None
        return self.filter.round_cost(plan.sampling_rate, plan.threshold, plan.adjacency, self.epsilon).cut

    def foreign(self, epsilon: float, delta: float, rounds: int = 1) -> Charge:
        """What something costs of which only its total (epsilon, delta) is known. All its rounds are one."""
        if self.filter is None:
            return Charge(epsilon, delta, rounds)
        cost = self.filter.foreign_cost(epsilon, delta)
        return Charge(epsilon, delta, rounds, upward(cost.renyi / rounds), upward(cost.bad / rounds))

    # What is left

    @property
    def parts(self) -> dict[str, tuple[Decimal, Decimal]]:
        """Each sum that is bounded, as (sum, bound): "epsilon" and "delta" of the plain sum, "renyi" and "bad"."""
        found = {
            "epsilon": (self.sums.epsilon, _exact(self.epsilon)),
            "delta": (self.sums.delta, _exact(self.delta if self.filter is None else self.filter.delta_plain)),
        }
        if self.filter is not None:
            found["renyi"] = (self.sums.renyi, _exact(self.filter.room(self.epsilon)))
            found["bad"] = (self.sums.bad, _exact(self.filter.delta_atom))
        return found

    @property
    def _conditions(self) -> list[list[tuple[Decimal, Decimal]]]:
        """The conditions of which one must hold: in each, every sum must be within its bound."""
        parts = self.parts
        sides = [["epsilon", "delta"]] if self.filter is None else [["epsilon", "delta"], ["renyi", "bad"]]
        return [[parts[name] for name in side] for side in sides]

    @property
    def fits(self) -> bool:
        """Whether everything charged so far is within the budget."""
        return any(all(spent <= bound for spent, bound in side) for side in self._conditions)

    @property
    def left_share(self) -> float:
        """The part of the budget that is left, from 0 to 1, rounded down."""
        shares = [min(_left(spent, bound) for spent, bound in side) for side in self._conditions]
        return max(0.0, *shares)

    @property
    def spent_epsilon(self) -> float:
        """Sum of all epsilons charged."""
        return float(self.sums.epsilon)

    @property
    def spent_delta(self) -> float:
        """Sum of all deltas charged."""
        return float(self.sums.delta)

    @property
    def left_epsilon(self) -> float:
        """What the plain sum of epsilons leaves; never below zero."""
        return _difference(*self.parts["epsilon"])

    @property
    def left_delta(self) -> float:
        """What the plain sum of deltas leaves; never below zero."""
        return _difference(*self.parts["delta"])

    @property
    def guaranteed(self) -> tuple[float, float]:
        """The smallest (epsilon, delta), with this budget's delta, for which all this could have been charged.

        Infinite epsilon where the sums are beyond every epsilon (a ledger that was restored beyond its budget).
        """
        spent = self.sums
        if self.filter is None:
            return float(spent.epsilon), float(spent.delta)
        if spent == Sums():
            return 0.0, 0.0
        found = [math.inf]
        if spent.delta <= _exact(self.filter.delta_plain):
            found.append(float(spent.epsilon))
        if spent.bad <= _exact(self.filter.delta_atom):
            found.append(self.filter.epsilon(math.nextafter(float(spent.renyi), math.inf)))
        return min(found), self.delta

    def allows(self, charge: Charge) -> bool:
        """Whether the charge fits into what is left."""
        return self._after(charge).fits

    def takes(self, charge: Charge) -> float:
        """The part of the whole budget that the charge takes, from 0 to 1; of a fresh one where it does not fit."""
        after = self._after(charge)
        return max(self.left_share - after.left_share, 0.0) if after.fits else self.share(charge, charge.rounds)

    def share(self, charge: Charge, rounds: int) -> float:
        """The part of a fresh budget that `rounds` rounds of a charge take, whatever else was charged."""
        after = Budget(self.epsilon, self.delta, self.filter, Sums().plus(charge, rounds=rounds, whole=rounds > 0))
        return 1 - after.left_share

    def affords(self, charge: Charge) -> int:
        """How many more charges like this one fit, one after another; at most `MOST_QUERIES`."""
        zero = Sums().plus(charge)
        costs = {"epsilon": zero.epsilon, "delta": zero.delta, "renyi": zero.renyi, "bad": zero.bad}
        parts, found = self.parts, 0
        for side in (["epsilon", "delta"], ["renyi", "bad"])[: len(self._conditions)]:
            found = max(found, min(_times(*parts[name], costs[name]) for name in side))
        return found

    def in_words(self, charge: Charge) -> str:
        """What a charge takes and how many like it are left after it, in a sentence."""
        return f"This takes {percent(self.takes(charge))} of the budget; {_more(self.affords(charge) - 1)}."

    def took_in_words(self, charge: Charge, rounds: int) -> str:
        """What `rounds` rounds of a charge took that is in the sums already, and how many like it are left."""
        return f"This took {percent(self.share(charge, rounds))} of the budget; {_more(self.affords(charge))}."

    def charge(self, charge: Charge) -> Budget:
        """The budget after the charge; `BudgetExceeded`, before anything is drawn, if it does not fit."""
        after = self._after(charge)
        if not after.fits:
            raise self.exceeded(charge)
        return after

    def _after(self, charge: Charge) -> Budget:
        return Budget(self.epsilon, self.delta, self.filter, self.sums.plus(charge))

    def exceeded(self, charge: Charge) -> BudgetExceeded:
        """The error for a charge that does not fit."""
        if self.filter is None:
            return BudgetExceeded(
                f"The query costs epsilon = {charge.epsilon:g} and delta = {charge.delta:g}; the budget has "
                f"epsilon = {self.left_epsilon:g} and delta = {self.left_delta:g} left.",
                hint="Nothing was drawn. Ask for less.",
            )
        fresh = Budget(self.epsilon, self.delta, self.filter)
        needed = 1 - min(_left(spent, bound) for spent, bound in fresh._after(charge)._conditions[1])
        alone = (
            f" It does not even fit on its own: one query alone may use epsilon = {self.epsilon:g} with delta = "
            f"{self.filter.delta_plain:g}."
            if not fresh.allows(charge)
            else ""
        )
        taken = percent(needed) if needed <= 1 else "more than the whole"
        return BudgetExceeded(
            f"The query takes {taken} of the budget, which has {percent(self.left_share)} left.{alone}",
            hint=Hint(
                "Nothing was drawn. Ask for less: a smaller epsilon or delta, or fewer releases.",
                python="Nothing was drawn. Ask for less: ledger.plan(queries=…) says what fits.",
                command="Nothing was drawn. Ask for less: thresher ledger plan says what fits.",
            ),
        )


def percent(share: float) -> str:
    """A part of a budget for people."""
    if 0 < share < 1e-5:
        return "less than 0.001 %"
    number = f"{100 * share:.2g}" if share < 0.995 else f"{100 * share:.3g}" if share < 9.995 else f"{100 * share:,.0f}"
    return f"{number} %"


def _more(number: int) -> str:
    """How many more charges fit, with two digits."""
    if number < 1:
        return "none like it fits after it"
    return "one more like it fits" if number == 1 else f"about {int(float(f'{number:.2g}')):,} more like it fit"


def _exact(value: float) -> Decimal:
    return Decimal(repr(value))


def _left(spent: Decimal, bound: Decimal) -> float:
    """1 − spent/bound, rounded down."""
    if bound <= 0:
        return 0.0 if spent <= bound else -1.0
    with localcontext() as context:
        context.prec, context.rounding = 30, ROUND_FLOOR
        return max(float(1 - spent / bound), -1e6)


def _difference(spent: Decimal, bound: Decimal) -> float:
    with localcontext() as context:
        context.prec = 800
        return float(max(bound - spent, Decimal(0)))


def _times(spent: Decimal, bound: Decimal, each: Decimal) -> int:
    if each <= 0:
        return MOST_QUERIES if spent <= bound else 0
    with localcontext() as context:
        context.prec = 800
        return 0 if spent > bound else min(int((bound - spent) / each), MOST_QUERIES)
