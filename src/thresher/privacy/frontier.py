"""The whole trade-off for one target: each threshold with its largest sampling rate."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from thresher.privacy.planner import Target
from thresher.privacy.plans import Plan
from thresher.privacy.settings import check_probability
from thresher.privacy.visibility import smallest_visible


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """One threshold, the largest rate that it allows, and the smallest bucket that is then seen."""

    threshold: int
    sampling_rate: float
    smallest_visible: int


@dataclass(frozen=True, slots=True)
class Frontier:
    """Points in order of their thresholds, for a total (epsilon, delta) over some rounds."""

    points: tuple[FrontierPoint, ...]
    plan: Plan
    probability: float

    def __iter__(self) -> Iterator[FrontierPoint]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)

    def to_dicts(self) -> list[dict[str, Any]]:
        """The points as plain dictionaries."""
        return [asdict(point) for point in self.points]


def frontier(plan: Plan, probability: float) -> Frontier:
    """Thresholds from the smallest useful one to about eight times the plan's, evenly spread by ratio."""
    check_probability(probability)
    target = Target(plan.epsilon, plan.delta, plan.adjacency, plan.rounds, plan.contributions)
    centre = max(plan.threshold, round(-math.log(plan.delta)))
    steps = 28 if target.times == 1 else 14
    thresholds = {round(centre * 2 ** (3 * (2 * step / steps - 1))) for step in range(steps + 1)}
    points = []
    for threshold in sorted({max(1, value) for value in thresholds} | {plan.threshold}):
        rate = plan.sampling_rate if threshold == plan.threshold else target.approximate_rate(threshold)
        points.append(FrontierPoint(threshold, rate, smallest_visible(rate, threshold, probability)))
    return Frontier(tuple(points), plan, probability)
