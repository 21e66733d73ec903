"""Several values of a unit in a round: brute force in exact rationals, and what careless counting would cost."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from fractions import Fraction
from functools import cache

import pytest

import thresher as th
from thresher.privacy import delta

Law = dict[object, Fraction]


@cache
def law(count: int, rate: Fraction, threshold: int) -> tuple[tuple[int, Fraction], ...]:
    """Probability of each released count of a bucket that so many units are in; 0 stands for "nothing released"."""
    outcome: dict[int, Fraction] = defaultdict(Fraction)
    for sampled in range(count + 1):
        mass = math.comb(count, sampled) * rate**sampled * (1 - rate) ** (count - sampled)
        outcome[sampled if sampled >= threshold else 0] += mass
    return tuple(outcome.items())


def release(counts: tuple[int, ...], rate: Fraction, threshold: int) -> Law:
    """Probability of each release of independent buckets that so many units are in."""
    found: Law = {}
    for outcome in itertools.product(*(law(count, rate, threshold) for count in counts)):
        found[tuple(shown for shown, _ in outcome)] = math.prod((mass for _, mass in outcome), start=Fraction(1))
    return found


def divergence(first: Law, second: Law, e: Fraction) -> Fraction:
    return sum((max(mass - e * second.get(key, Fraction(0)), Fraction(0)) for key, mass in first.items()), Fraction(0))


def changes(adjacency: str) -> set[tuple[int, ...]]:
    """What replacing, or adding or removing, a unit of at most two values does to the counts of four buckets."""
    held = [frozenset(each) for size in range(3) for each in itertools.combinations(range(4), size)]
    others = held if adjacency == "replace" else [frozenset[int]()]
    return {
        tuple(sorted((bucket in after) - (bucket in before) for bucket in range(4)))
        for one in held
        for other in others
        for before, after in ((one, other), (other, one))
    }


def worst(rate: Fraction, threshold: int, e: Fraction, adjacency: str, largest: int) -> Fraction:
    """The largest divergence of a round over all neighbouring data sets with at most so many other units a bucket."""
    found = Fraction(0)
    for change in changes(adjacency):
        moved = [step for step in change if step]
        for others in itertools.product(range(largest + 1), repeat=len(moved)):
            # A bucket that one value is taken from holds it before, one that gets a value holds it after.
            before = tuple(count + (step < 0) for count, step in zip(others, moved, strict=True))
            after = tuple(count + (step > 0) for count, step in zip(others, moved, strict=True))
            found = max(found, divergence(release(before, rate, threshold), release(after, rate, threshold), e))
    return found


def promised(rate: Fraction, threshold: int, e: Fraction, adjacency: str, contributions: int) -> float:
    # Rounded so that the claim that is checked is the stronger one.
    return delta(
        sampling_rate=math.nextafter(float(rate), 0),
        threshold=threshold,
        epsilon=math.nextafter(math.log(e), math.inf),
        adjacency=adjacency,
        contributions=contributions,
    )


CASES = [
    (rate, threshold, e)
    for rate in (Fraction(1, 8), Fraction(1, 3), Fraction(3, 5))
    for threshold in (1, 2)
    for e in (Fraction(3, 2), Fraction(3))
]


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "threshold", "e"), CASES)
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_two_values_cost_at_most_two_rounds_by_brute_force(
    rate: Fraction, threshold: int, e: Fraction, adjacency: str
) -> None:
    true = worst(rate, threshold, e, adjacency, largest=3)
    bound = promised(rate, threshold, e, adjacency, 2)
    assert float(true) <= bound * (1 + 1e-9)
    assert promised(rate, threshold, e, adjacency, 1) < float(true)  # two values cost more than one


def test_two_values_are_changes_of_at_most_two_buckets_down_and_two_up() -> None:
    found = changes("replace")
    assert (-1, -1, 1, 1) in found
    assert all(change.count(-1) <= 2 and change.count(1) <= 2 for change in found)
    assert changes("add-remove") == {(0, 0, 0, 0), (-1, 0, 0, 0), (0, 0, 0, 1), (-1, -1, 0, 0), (0, 0, 1, 1)}


RATE, THRESHOLD, E = Fraction(1, 10), 10, Fraction(math.e)  # epsilon is 1


@pytest.mark.slow
def test_twice_in_one_bucket_breaks_the_bound() -> None:
    both = max(
        divergence(release((count,), RATE, THRESHOLD), release((count - 2,), RATE, THRESHOLD), E)
        for count in range(15, 30)
    )
    assert float(both) == pytest.approx(1.7e-6, rel=0.03)
    assert promised(RATE, THRESHOLD, E, "add-remove", 2) == pytest.approx(2.0e-8, rel=0.03)
    assert float(both) > 50 * promised(RATE, THRESHOLD, E, "replace", 2)


@pytest.mark.slow
def test_one_coin_for_both_values_breaks_the_bound() -> None:
    count = 29  # other units in each of the two buckets
    without = release((count, count), RATE, THRESHOLD)
    # The unit's coin comes up heads for both buckets or for none.
    together = defaultdict(Fraction, {key: (1 - RATE) * mass for key, mass in without.items()})
    for (first, mass), (second, other) in itertools.product(_sampled(count), repeat=2):
        shown = tuple(sampled + 1 if sampled + 1 >= THRESHOLD else 0 for sampled in (first, second))
        together[shown] += RATE * mass * other
    assert sum(together.values()) == 1
    found = divergence(together, without, E)
    assert float(found) == pytest.approx(3.9e-8, rel=0.01)
    assert float(found) > 1.8 * promised(RATE, THRESHOLD, E, "replace", 2)


def _sampled(count: int) -> list[tuple[int, Fraction]]:
    return [(k, math.comb(count, k) * RATE**k * (1 - RATE) ** (count - k)) for k in range(count + 1)]


@pytest.mark.slow
def test_spot_bucket_that_is_seen_with_five_values() -> None:
    assert th.plan(1, 1e-8, contributions=5).smallest_visible() == 142
    assert th.plan(0.2, 2e-9).smallest_visible() == 430  # the budget split in five
