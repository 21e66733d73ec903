"""Neighbouring populations that an attacker tries to tell apart.

Theory names the worst pair for a mechanism that is right (docs/privacy.md, sections 4 and 5); a faulty one may have its
worst pair elsewhere, so others are tried too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thresher.privacy.plans import Plan

ABSENT = -1
"""The answer of a unit that has nothing to say in a round."""

LARGEST = 1000
"""The most units that a bucket has. Where the worst pair is larger, the claimed delta is too small to measure."""

_BETWEEN = 6  # sizes between the threshold and the worst size; the cost of an attack is smooth there


@dataclass(frozen=True, slots=True)
class Population:
    """A few units, and the bucket that each of them answers in each round: `answers[round][unit]`.

    Where units hold several values, `holders` names the unit of each answer, from 0 on: `answers[round][value]`.
    """

    answers: tuple[tuple[int, ...], ...]
    buckets: int = 1
    holders: tuple[int, ...] | None = None

    @property
    def rounds(self) -> int:
        """How many rounds are asked."""
        return len(self.answers)

    @property
    def units(self) -> int:
        """How many units there are."""
        return self.values if self.holders is None else len(set(self.holders))

    @property
    def values(self) -> int:
        """How many values all units hold together."""
        return len(self.answers[0])

    @property
    def units_of_values(self) -> tuple[int, ...]:
        """The unit that holds each value."""
        return tuple(range(self.values)) if self.holders is None else self.holders

    def counts(self, asked: int) -> NDArray[np.int64]:
        """How many values fall into each bucket in a round; so many units, if each unit holds one value."""
        answers = np.array(self.answers[asked], dtype=np.int64)
        return np.bincount(answers[answers != ABSENT], minlength=self.buckets)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two populations that differ in one unit."""

    name: str
    first: Population
    second: Population

    @property
    def populations(self) -> tuple[Population, Population]:
        """Both."""
        return self.first, self.second


def neighbouring_pairs(plan: Plan) -> list[Pair]:
    """The pairs to try: around the worst one for this plan, and where known mistakes would show."""
    if plan.adjacency == "replace":
        # The second bucket adds little. A second bucket that is surely seen matters only at a few sizes of the first.
        worst, seen = worst_removed(plan), _often_seen(plan)[-1]
        pairs = [replaced(size, other, plan.rounds) for size in sizes(plan) for other in (1, min(worst + 2, LARGEST))]
        pairs += [replaced(size, seen, plan.rounds) for size in sorted({1, plan.threshold, worst}) if size <= LARGEST]
    else:
        pairs = [removed(size, plan.rounds) for size in sizes(plan)]
    if plan.rounds > 1:
        pairs += [_left_out_later(size, plan) for size in _often_seen(plan)]
    return pairs


def worst_pair(plan: Plan) -> Pair:
    """The pair that theory names for a mechanism that is right, up to what a second bucket adds."""
    size = min(worst_removed(plan), LARGEST)
    return replaced(size, 1, plan.rounds) if plan.adjacency == "replace" else removed(size, plan.rounds)


def injected_pairs(plan: Plan) -> list[Pair]:
    """Pairs in which all units but the last are an attacker's; the last one holds their value or another one.

    Just enough to reach the threshold is best where the last unit alone tosses a coin; otherwise the worst pair is.
    """
    tried = sorted({plan.threshold, min(worst_removed(plan), LARGEST)})
    return [replaced(size, 1, plan.rounds) for size in tried]


def removed(size: int, rounds: int) -> Pair:
    """A bucket of `size` units against one fewer."""
    with_unit, without = (Population(((0,) * units,) * rounds) for units in (size, size - 1))
    name = f"{size} units against {size - 1}" if size > 1 else "one unit against none"
    return Pair(name, with_unit, without)


def replaced(size: int, other: int, rounds: int) -> Pair:
    """One unit moves from the first bucket, `size` with it, to the second, `other` with it."""
    rest = (0,) * (size - 1) + (1,) * (other - 1)
    before, after = (Population(((*rest, bucket),) * rounds, buckets=2) for bucket in (0, 1))
    return Pair(f"buckets of {size} and {other - 1} against {size - 1} and {other}", before, after)


def _left_out_later(size: int, plan: Plan) -> Pair:
    """All units answer in the first round; in later rounds one unit has nothing to say, so counts can be compared.

    With fresh coins the later rounds say nothing about that unit. With a sample that is used again the difference of
    two counts is the unit's own coin.
    """
    rest = (0,) * (size - 1)
    later = ((*rest, ABSENT),) * (plan.rounds - 1)
    with_unit = Population(((*rest, 0), *later))
    name = f"{size} units against {size - 1}, the one asked in the first round only"
    if plan.adjacency == "replace":
        with_unit, moved = (Population(((*rest, bucket), *later), buckets=2) for bucket in (0, 1))
        return Pair(f"{name} (or in another bucket)", with_unit, moved)
    return Pair(name, with_unit, Population((rest,) * plan.rounds))


def sizes(plan: Plan) -> list[int]:
    """Sizes of the bucket that the unit is in.

    One unit alone shows a sample size that is released; just below the threshold a threshold that is too low shows; up
    to the worst sizes everything else does, for all of epsilon and for the share of it that one coin of a unit has.
    """
    worst = [worst_removed(plan), worst_removed(plan, share=plan.rounds * plan.contributions)]
    between = np.linspace(plan.threshold - 1, max(worst) + 1, _BETWEEN)
    tried = {1, plan.threshold, *worst, *(round(size) for size in between), *_worst_added(plan)}
    return sorted(size for size in tried if 1 <= size <= LARGEST)


def worst_removed(plan: Plan, *, share: int = 1) -> int:
    """The bucket size at which removing a unit costs most: k* of docs/privacy.md, section 4, at a share of epsilon."""
    rest = 1 - (1 - plan.sampling_rate) * math.exp(-plan.epsilon / share)
    return math.floor((plan.threshold - 1) / rest) + 1


def _worst_added(plan: Plan) -> list[int]:
    """k' of the same section; none where adding a unit costs nothing."""
    rest = 1 - (1 - plan.sampling_rate) * math.exp(plan.epsilon)
    return [math.floor((plan.threshold - 1) / rest) + 1] if rest > 0 else []


def _often_seen(plan: Plan) -> tuple[int, int]:
    """Sizes of a bucket that is released about half of the time, and nearly always."""
    half = math.ceil(plan.threshold / plan.sampling_rate)
    return min(half, LARGEST), min(2 * half, LARGEST)
