"""Attacks: events that are likelier in one population than in its neighbour, and what seeing them proves.

An event A that has probability P(A) in one population and Q(A) in the other proves δ ≥ P(A) − e^ε·Q(A), whatever the
event. So an event may be chosen in any way, as long as it is measured on draws that were not used to choose it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, permutations

import numpy as np
from numpy.typing import NDArray

from thresher.lab.audit.neighbours import ABSENT, Pair, Population
from thresher.lab.audit.paths import Observed
from thresher.privacy.plans import Plan

_COUNTS_ABOVE = 3  # the event "count ≥ m" is tried for this many m above the threshold
_CAUTION = 0.02  # the risk of bounds that compare attacks: of two that look alike, the surer one is taken
_CODE_BITS = 62  # what a draw shows is coded as one whole number of this many bits


Happens = Callable[[Observed], NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that an analyst can see happen; `happens` tells it for every row of observations."""

    name: str
    happens: Happens


@dataclass(frozen=True, slots=True)
class Attack:
    """An event, the population that is likelier to show it, and its neighbour; `pair` is the name of the two."""

    pair: str
    event: Event
    likely: Population
    unlikely: Population


@dataclass(frozen=True, slots=True)
class Bounds:
    """An event's probability in the likely population is at least `low`, in the unlikely one at most `high`."""

    low: float
    high: float

    def advantage(self, epsilon: float) -> float:
        """What the event proves at `epsilon`; negative where it proves nothing."""
        return self.low - math.exp(epsilon) * self.high

    def delta_lower(self, epsilon: float) -> float:
        """No delta below this holds at `epsilon`."""
        return max(0.0, self.advantage(epsilon))

    def epsilon_lower(self, delta: float) -> float:
        """No epsilon below this holds at `delta`: it solves low − e^ε·high = delta, where that is positive."""
        if not self.low - delta > self.high:
            return 0.0
        return math.log((self.low - delta) / self.high)


def clopper_pearson(likely_hits: float, unlikely_hits: float, trials: int, risk: float) -> Bounds:
    """Exact one-sided bounds on both probabilities, each wrong with probability `risk` at most."""
    from scipy.special import betainccinv, betaincinv

    low = float(betaincinv(likely_hits, trials - likely_hits + 1, risk)) if likely_hits > 0 else 0.0
    high = float(betainccinv(unlikely_hits + 1, trials - unlikely_hits, risk)) if unlikely_hits < trials else 1.0
    return Bounds(low, high)


def attacks_on(
    pair: Pair,
    first: Observed,
    second: Observed,
    plan: Plan,
    trials: int,
    risk: float,
    given: Sequence[Event] | None = None,
) -> Iterator[tuple[Bounds, Attack]]:
    """The attacks on a pair that draws of both populations suggest, with the bounds to expect of a measurement.

    One half of the draws suggests events, the other half judges them: an event that only fits the chance of the first
    half has no advantage over a plain one. With `given` events nothing is suggested.
    """
    half = len(first) // 2
    sides = (pair.first, first), (pair.second, second)
    for (likely_population, likely), (unlikely_population, unlikely) in permutations(sides):
        suggested = (_plain_events(pair.first, plan), _telling_outcomes(likely[:half], unlikely[:half], pair, plan))
        for event in chain(*suggested) if given is None else given:
            hits, other = (int(np.count_nonzero(event.happens(draws[half:]))) for draws in (likely, unlikely))
            attack = Attack(pair.name, event, likely_population, unlikely_population)
            yield _forecast(hits, other, len(first) - half, trials, risk), attack


def _forecast(likely_hits: int, unlikely_hits: int, drawn: int, trials: int, risk: float) -> Bounds:
    """The bounds to expect of a measurement with so many trials, judged with caution by the hits in `drawn` draws."""
    cautious = clopper_pearson(likely_hits, unlikely_hits, drawn, _CAUTION)
    return clopper_pearson(cautious.low * trials, cautious.high * trials, trials, risk)


def _plain_events(population: Population, plan: Plan) -> Iterator[Event]:
    """Released or not and counts from m on; all rounds, or the two buckets of a replacement, together."""
    for column in range(population.rounds * population.buckets):
        where = _place(column, population)
        yield _at_least(1, column, f"released{where}")
        yield _not_released(column, f"not released{where}")
        for least in range(plan.threshold + 1, plan.threshold + 1 + _COUNTS_ABOVE):
            yield _at_least(least, column, f"count ≥ {least}{where}")
    if population.buckets == 1 and population.rounds > 1:
        yield Event("released in every round", lambda seen: seen[:, : population.rounds].min(axis=1) > 0)
    if population.buckets == 2 and population.rounds == 1:
        yield Event("released in bucket 1, not in 2", lambda seen: (seen[:, 0] > 0) & (seen[:, 1] == 0))
        yield Event("released in bucket 2, not in 1", lambda seen: (seen[:, 0] == 0) & (seen[:, 1] > 0))
    if population.holders is not None:
        yield from _released_together(population)


def _released_together(population: Population) -> Iterator[Event]:
    """So many of the buckets that the last unit is in are released in a round; it is the unit that pairs differ in."""
    unit = population.units_of_values[-1]
    for asked, answers in enumerate(population.answers):
        own = {bucket for holder, bucket in zip(population.units_of_values, answers, strict=True) if holder == unit}
        columns = [asked * population.buckets + bucket for bucket in sorted(own) if bucket != ABSENT]
        in_round = f" in round {asked + 1}" if population.rounds > 1 else ""
        for least in range(1, len(columns) + 1):
            yield _several_released(least, columns, f"{least} or more of the unit's buckets released{in_round}")


def _several_released(least: int, columns: list[int], name: str) -> Event:
    return Event(name, lambda seen: np.count_nonzero(seen[:, columns], axis=1) >= least)


def _at_least(least: int, column: int, name: str) -> Event:
    return Event(name, lambda seen: seen[:, column] >= least)


def _not_released(column: int, name: str) -> Event:
    return Event(name, lambda seen: seen[:, column] == 0)


def _telling_outcomes(likely: Observed, unlikely: Observed, pair: Pair, plan: Plan) -> Iterator[Event]:
    """The set of all outcomes that were seen clearly more than e^ε times as often in the likely population.

    It sees the whole row, whatever it holds: this is the best event there is, up to chance (Neyman and Pearson).
    """
    factor = math.exp(plan.epsilon)
    shown = np.concatenate([likely, unlikely])
    codes, where, kind = np.unique(_codes(shown), return_index=True, return_inverse=True)
    in_likely = np.bincount(kind[: len(likely)], minlength=len(codes))
    in_unlikely = np.bincount(kind[len(likely) :], minlength=len(codes))
    gain = in_likely - factor * in_unlikely
    chosen = gain > np.sqrt(in_likely + factor**2 * in_unlikely)
    if not chosen.any():
        return
    example = shown[where[int(np.argmax(np.where(chosen, gain, -np.inf)))]]
    number = int(chosen.sum())
    such = f"{number} outcomes, such as" if number > 1 else "exactly"
    telling = codes[chosen]
    yield Event(f"{such} {_in_words(example, pair.first)}", lambda seen: np.isin(_codes(seen), telling))


def _codes(seen: Observed) -> NDArray[np.int64]:
    """Each row as one number; values are cut where there are too many columns, which only merges outcomes."""
    base = int(2 ** (_CODE_BITS / seen.shape[1]))
    codes = np.zeros(len(seen), dtype=np.int64)
    for column in range(seen.shape[1]):
        codes = codes * base + np.minimum(seen[:, column], base - 1)
    return codes


def _in_words(example: Observed, population: Population) -> str:
    columns = population.rounds * population.buckets
    parts = [
        f"{f'count {value}' if value else 'not released'}{_place(column, population)}"
        for column, value in enumerate(example[:columns].tolist())
    ]
    parts += [f"{value} shown beside the counts" for value in example[columns:].tolist()]
    return ", ".join(parts)


def _place(column: int, population: Population) -> str:
    asked, bucket = divmod(column, population.buckets)
    in_bucket = f" in bucket {bucket + 1}" if population.buckets > 1 else ""
    in_round = f" in round {asked + 1}" if population.rounds > 1 else ""
    return in_bucket + in_round
