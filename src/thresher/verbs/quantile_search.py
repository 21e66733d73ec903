"""Binary search for quantiles: each round splits a bracket, and every released split is a point of one curve.

All splits count for all quantiles: sharing them is post-processing. One step asks one split for each quantile at once,
at the middle of its present bracket; quantiles that share a bracket split it at as many different points.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from itertools import cycle, repeat

import numpy as np
from numpy.typing import NDArray

from thresher.mechanism.release import Release
from thresher.privacy.plans import Plan
from thresher.questions import Below, Question
from thresher.verbs.accuracy import CONFIDENCE, Seen, rank_standard_error

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Split:
    """A split point and what its round released."""

    at: float
    seen: Seen


class Splits:
    """Released splits in order, with the curve they agree on and bounds that hold for all of them at once."""

    def __init__(self, lower: float, upper: float, rounds: int) -> None:
        self.lower, self.upper, self.rounds = lower, upper, rounds
        self.points: list[Split] = []

    def add(self, split: Split) -> None:
        """Take one more released split."""
        self.points = sorted([*self.points, split], key=lambda point: point.at)

    def curve(self) -> tuple[Floats, Floats]:
        """Positions and ranks, from (lower, 0) to (upper, 1): the best never-falling fit to the released fractions.

        A fit pools neighbours that contradict each other, so rounds spent close to a quantile average out.
        Edge cases: a dropped side counts as zero; a round that released nothing says nothing.
        """
        points = [point for point in self.points if point.seen.total]
        ranks = rising_fit([point.seen.fraction for point in points], [float(point.seen.total) for point in points])
        return np.array([self.lower, *(point.at for point in points), self.upper]), np.array([0.0, *ranks, 1.0])

    def bracket(self, probability: float) -> tuple[float, float, float, float]:
        """The neighbouring positions, and their ranks, between which the quantile lies on the curve."""
        positions, ranks = self.curve()
        index = int(np.clip(np.searchsorted(ranks, probability, side="right"), 1, len(ranks) - 1))
        left, right = positions[index - 1 : index + 1].tolist()
        low, high = ranks[index - 1 : index + 1].tolist()
        return left, right, low, high

    def next_bracket(self, probability: float, sampling_rate: float) -> tuple[float, float]:
        """What to split next: the bracket, until it has less weight than two standard errors.

        After that a finer bracket would not make the answer better, while its interval still reaches out to splits that
        were made early; so the wider of the two gaps between bracket and interval is split.
        """
        left, right, low, high = self.bracket(probability)
        sampled = self.nearest(left).total
        if high - low >= 2 * rank_standard_error(probability, sampled, sampling_rate):
            return left, right
        start, stop = self.interval(probability)
        gaps = [(left - start, (start, left)), (stop - right, (right, stop)), (right - left, (left, right))]
        return max(gaps)[1]

    def interval(self, probability: float, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Between the splits that are surely below and surely above the quantile; see `bounds`."""
        lows, highs = self.bounds(1 - confidence)
        below = [point.at for point, rank in zip(self.points, highs, strict=True) if rank < probability]
        above = [point.at for point, rank in zip(self.points, lows, strict=True) if rank > probability]
        return max(below, default=self.lower), min(above, default=self.upper)

    def bounds(self, tail: float) -> tuple[list[float], list[float]]:
        """Lower and upper bounds of the rank at each split.

        Guarantee: all of them hold together with probability at least 1 − tail, shared equally among the plan's
        rounds and their two sides. Splits are chosen from earlier releases and asked with fresh coins, so each
        round's bound holds whatever led to it. Ranks rise, so bounds are carried on to the neighbours.
        """
        each = tail / (2 * self.rounds)
        if not self.points:
            return [], []
        lows = np.maximum.accumulate([point.seen.lower(each) for point in self.points])
        highs = np.minimum.accumulate([point.seen.upper(each) for point in reversed(self.points)])[::-1]
        return np.minimum(lows, highs).tolist(), np.maximum(lows, highs).tolist()

    def nearest(self, value: float) -> Seen:
        """What the round closest to a value released."""
        nothing = Seen(0, 0, 0, 0)
        return min(self.points, key=lambda point: abs(point.at - value)).seen if self.points else nothing


def steps_of(plan: Plan, probabilities: Sequence[float]) -> int:
    """How many steps a search takes. The last one has fewer rounds where they do not divide evenly."""
    return -(-plan.rounds // len(probabilities))


def search(
    column: str, probabilities: Sequence[float], lower: float, upper: float, plan: Plan, *, together: bool = True
) -> Generator[Sequence[Question], Sequence[Release], tuple[tuple[Release, ...], Splits]]:
    """Spend the plan's rounds on splits, in each step one for each quantile; or, not `together`, in turn for each.

    Edge cases: a quantile whose bracket cannot be split any further, which is at the precision of floats, leaves its
    round unused; the search ends early when none can.
    """
    splits = Splits(lower, upper, plan.rounds)
    releases: list[Release] = []
    each = [(probability,) for probability in probabilities]
    steps = repeat(tuple(probabilities), steps_of(plan, probabilities)) if together else cycle(each)
    stuck = 0
    for step in steps:
        wanted = step[: plan.rounds - len(releases)]
        points = split_points([splits.next_bracket(probability, plan.sampling_rate) for probability in wanted])
        stuck = 0 if points else stuck + 1
        if not wanted or stuck == (1 if together else len(each)):
            break
        if not points:
            continue
        found = yield [Below(column, point) for point in points]
        releases += found
        for point, release in zip(points, found, strict=True):
            splits.add(Split(point, _seen(release, plan)))
    return tuple(releases), splits


def split_points(brackets: Sequence[tuple[float, float]]) -> list[float]:
    """Where to split brackets: at the middle; a bracket that is there several times at equally spaced points.

    Guarantee: all points are different, and each is strictly within its bracket.
    Edge cases: a bracket without any such point left has none. A point that another bracket has already is moved, by
    halves, towards the lower end.
    """
    points: dict[float, None] = {}
    for (left, right), times in Counter(brackets).items():
        for number in range(1, times + 1):
            point = left + (right - left) * (number / (times + 1))
            while left < point and point in points:
                point = left + (point - left) / 2
            if left < point < right:
                points[point] = None
    return list(points)


def _seen(release: Release, plan: Plan) -> Seen:
    counts = dict(zip(release.buckets, release.counts.tolist(), strict=True))
    hidden = {side: 0 if side in counts else plan.threshold - 1 for side in (True, False)}
    return Seen(counts.get(True, 0), counts.get(False, 0), hidden[True], hidden[False])


def rising_fit(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The never-falling sequence closest to `values` in weighted squares: pool adjacent violators."""
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        blocks.append((value, weight, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (left, left_weight, left_size), (right, right_weight, right_size) = blocks[-2:]
            joined = left_weight + right_weight
            mean = (left * left_weight + right * right_weight) / joined
            blocks[-2:] = [(mean, joined, left_size + right_size)]
    return [value for value, _, size in blocks for _ in range(size)]


def interpolate(target: float, left: float, right: float, low: float, high: float) -> float:
    """Where a straight line from (left, low) to (right, high) reaches the target."""
    if not high > low:
        return left + (right - left) / 2
    return left + (right - left) * min(max((target - low) / (high - low), 0.0), 1.0)
