"""The adversary's game, solved by dynamic programming over the privacy loss.

The adversary sees every round's privacy loss as it is drawn, chooses the next move among those that a rule allows, and
stops when it likes. Its gain is the delta that holds at epsilon for everything it saw: E[(1 − e^{ε−L})₊], where L is
the sum of all losses, and infinite after an outcome that only one of two neighbours can have.

Guarantee: `Gain.lower` is reached by an adversary, and no adversary that obeys the rule gains more than `Gain.upper`
(both up to 1e-9, for floats). A gain does not fall in the loss so far: rounding losses down gives the first. Splitting
each loss between two points of a grid so that its mass under both neighbours is kept gives a pair that dominates it,
hence the second (docs/privacy.md, section 6, *Pessimistic rounding*).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeVar

import numpy as np

from thresher.lab.adversary.queries import Query
from thresher.privacy.binomial import Floats
from thresher.privacy.losses import Losses, upper_share

State = TypeVar("State", bound=Hashable)
Bound = Literal["lower", "upper"]

STEP = 0.01
_LOWEST, _ABOVE = -10.0, 12.0
"""Losses are kept from the lowest up to this much above epsilon; others are rounded in the bound's direction."""
_FLOAT_ERROR = 1e-12  # of one round's Fourier transforms, whose inputs are at most 1


@dataclass(frozen=True, slots=True)
class Move(Generic[State]):
    """One move: a round of the query of this name is drawn (None: nothing is drawn), and the state after it."""

    draws: str | None
    then: State


class Rule(Protocol[State]):
    """What a ledger, right or wrong, lets an adversary do. States never come back once a round was drawn."""

    @property
    def start(self) -> State:
        """Before anything is asked."""
        ...

    def moves(self, state: State) -> Iterable[Move[State]]:
        """The moves that are allowed; stopping always is, and is not listed."""
        ...


@dataclass(frozen=True, slots=True)
class Gain:
    """The most that an adversary gains is between these two."""

    lower: float
    upper: float
    states: int


def most_gained(rule: Rule[State], queries: Sequence[Query], epsilon: float, *, step: float = STEP) -> Gain:
    """How large a delta the best adversary reaches at `epsilon` under a rule.

    Args:
        rule: What is allowed when.
        queries: The queries that the rule's moves name.
        epsilon: At which epsilon delta is computed.
        step: The distance of losses on the grid; a smaller one brings the bounds together.
    """
    lower = _Solver(rule, queries, epsilon, step, "lower")
    upper = _Solver(rule, queries, epsilon, step, "upper")
    return Gain(lower.gain(), upper.gain(), len(lower.solved))


@dataclass(frozen=True, slots=True, eq=False)
class _Law:
    """Losses of one round on the grid: weights from `first` steps on, and the mass of an infinite loss."""

    first: int
    weights: Floats
    infinite: float


class _Solver(Generic[State]):
    """One bound: for each state, the most that can be gained from every loss so far on the grid."""

    def __init__(self, rule: Rule[State], queries: Sequence[Query], epsilon: float, step: float, bound: Bound) -> None:
        self._rule, self._bound = rule, bound
        self._lowest = math.floor(_LOWEST / step)
        loss = step * np.arange(self._lowest, math.ceil((epsilon + _ABOVE) / step) + 1)
        self._stopping = np.maximum(-np.expm1(epsilon - loss), 0.0)
        if bound == "upper":
            self._stopping[-1] = 1.0  # stands for all losses above
        self._laws: Mapping[str, _Law] = {query.name: _law(query.parts, step, bound) for query in queries}
        self.solved: dict[State, Floats] = {}

    def gain(self) -> float:
        """The gain from the rule's first state, with no loss so far."""
        return float(self._gains(self._rule.start)[-self._lowest])

    def _gains(self, state: State) -> Floats:
        if (found := self.solved.get(state)) is not None:
            return found
        gains: Floats = self._stopping
        for move in self._rule.moves(state):
            after = self._gains(move.then)
            gains = np.maximum(gains, after if move.draws is None else self._before_draw(after, self._laws[move.draws]))
        self.solved[state] = gains
        return gains

    def _before_draw(self, after: Floats, law: _Law) -> Floats:
        """What is gained on average, given what is gained after the draw."""
        from scipy.signal import fftconvolve

        last = law.first + len(law.weights) - 1
        below, above = max(-law.first, 0), max(last, 0)
        lowest = after[0] if self._bound == "upper" else 0.0
        padded = np.concatenate([np.full(below, lowest), after, np.full(above, after[-1])])
        # Where all losses have one sign, the window starts or ends inside of what is kept.
        padded = padded[max(law.first, 0) : len(padded) - max(-last, 0)]
        mean = fftconvolve(padded, law.weights[::-1], mode="valid")
        error = _FLOAT_ERROR if self._bound == "upper" else -_FLOAT_ERROR
        clipped: Floats = np.clip(mean + law.infinite + error, 0.0, 1.0)
        return clipped


def _law(parts: Sequence[Losses], step: float, bound: Bound) -> _Law:
    """The sum of independent losses on the grid."""
    first, weights, finite = 0, np.ones(1), 1.0
    for part in parts:
        lowest, once = _on_grid(part, step, bound)
        first, weights = first + lowest, np.convolve(weights, once)
        finite *= 1 - part.infinite
    return _Law(first, weights, 1 - finite)


def _on_grid(losses: Losses, step: float, bound: Bound) -> tuple[int, Floats]:
    position = np.floor(losses.values / step)
    first = int(position.min())
    index = (position - first).astype(np.int64)
    share = upper_share(losses.values, position * step, (position + 1) * step) if bound == "upper" else 0.0
    weights = np.zeros(int(index.max()) + 2)
    np.add.at(weights, index, losses.masses * (1 - share))
    np.add.at(weights, index + 1, losses.masses * share)
    return first, weights
