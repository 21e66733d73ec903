"""Neighbouring populations in which one unit holds several values, and which of its values count in a round.

The last unit of a population is the one that changes; all others hold one value. A right mechanism maps a unit's values
to buckets, removes duplicates, chooses at most c of them and tosses a coin for each (docs/privacy.md, section 6). Each
step has pairs of its own, on which a mechanism that leaves the step out gives the unit away.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thresher.lab.audit.neighbours import ABSENT, LARGEST, Pair, Population, sizes, worst_removed
from thresher.mechanism import SecureRandomness
from thresher.privacy.plans import Plan


def several_pairs(plan: Plan) -> list[Pair]:
    """The pairs to try: c values in c buckets, c values in one bucket, and more values than count."""
    values, worst = plan.contributions, min(worst_removed(plan), LARGEST)
    few = sorted({min(plan.threshold, LARGEST), worst})
    # Counts that move together, where one coin admits all values of a unit, show best a little above the worst sizes.
    tried = sizes(plan)
    tried += [size for size in (tried[-1] + 2,) if size <= LARGEST]
    pairs = [_changed(plan, tuple(range(values)), size) for size in tried]
    if plan.adjacency == "replace":
        pairs.append(_changed(plan, tuple(range(values)), worst, min(worst + 2, LARGEST)))
    pairs += [_changed(plan, (0,) * values, size) for size in few]
    pairs += [_changed(plan, tuple(range(2 * values + 2)), size) for size in few]
    return pairs


def worst_several(plan: Plan) -> Pair:
    """The pair of `several_pairs` that theory names for a mechanism that is right, up to what other buckets add."""
    return _changed(plan, tuple(range(plan.contributions)), min(worst_removed(plan), LARGEST))


def _changed(plan: Plan, held: tuple[int, ...], size: int, other: int = 1) -> Pair:
    """The last unit holds values in some buckets, of `size` units each with it; then in others, or it is not there.

    The other buckets are as many, of `other` units each with it.
    """
    number = len(set(held))
    replace = plan.adjacency == "replace"
    rest = np.repeat(np.arange(number), size - 1).tolist()
    if replace:
        rest += np.repeat(np.arange(number, 2 * number), other - 1).tolist()
    buckets = 2 * number if replace else number

    def population(*last: int) -> Population:
        holders = (*range(len(rest)), *(len(rest) for _ in last))
        return Population(((*rest, *last),) * plan.rounds, buckets, holders)

    where = f"{number} buckets of {size}" if number > 1 else f"one bucket of {size}"
    against = f"in {number} of {other}" if replace else "nowhere"
    moved = population(*(bucket + number for bucket in held)) if replace else population()
    return Pair(f"a unit with {len(held)} values in {where} units, or {against}", population(*held), moved)


def counting(population: Population, asked: int, trials: int, contributions: int) -> NDArray[np.bool_]:
    """Which values count in a round, a row a trial: up to so many distinct buckets of each unit.

    Guarantee: of a unit with more, all sets of `contributions` buckets are equally likely, afresh in every trial.
    """
    distinct = distinct_values(population, asked)
    units = np.array(population.units_of_values, dtype=np.int64)
    counted = np.tile(distinct, (trials, 1))
    for unit, number in zip(*np.unique(units[distinct], return_counts=True), strict=True):
        if number > contributions:
            places = np.flatnonzero(distinct & (units == unit))
            drawn = np.empty((trials, number), dtype=np.uint64)
            SecureRandomness().fill(drawn)
            # The ranks of random numbers are a random order; that two are equal has a probability of about 2^-60.
            counted[:, places] = drawn.argsort(axis=1).argsort(axis=1) < contributions
    return counted


def distinct_values(population: Population, asked: int) -> NDArray[np.bool_]:
    """The values that are the first of their unit in their bucket."""
    pairs = list(zip(population.units_of_values, population.answers[asked], strict=True))
    first = {pair: place for place, pair in reversed(list(enumerate(pairs))) if pair[1] != ABSENT}
    distinct = np.zeros(population.values, dtype=np.bool_)
    distinct[list(first.values())] = True
    return distinct
