"""One curve from all levels of a hierarchy: post-processing that uses every sample for every answer.

Each level is an independent sample of the same units. A cell's own count, and the sum over its children, are two
estimates of the same number; averaging them shrinks the error by up to √L, which no single level has. The children's
sum lacks what was dropped below it, so it is weighted down by the size that this may have.

    up      estimate of a cell = own and children's sum, weighted by one over (variance + possible loss²)
    down    a cell's estimate is shared out: dropped children get what is missing from the sum, at most τ/p each;
            the released ones the rest, in proportion (the multinomial maximum-likelihood split)

Where nothing below a cell was released its weight is spread evenly over it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.privacy.plans import Plan


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Estimated units below a position: straight lines between knots, never falling."""

    positions: NDArray[np.float64]
    below: NDArray[np.float64]

    @property
    def total(self) -> float:
        """Estimated units in all."""
        return float(self.below[-1])

    def at(self, position: float) -> float:
        """Estimated units below a position."""
        return float(np.interp(position, self.positions, self.below))

    def find(self, units: float) -> tuple[float, float]:
        """The first position with this many units below it, and the weight of the piece that it lies in."""
        index = int(np.clip(np.searchsorted(self.below, units), 1, len(self.below) - 1))
        start, stop = self.positions[index - 1 : index + 1].tolist()
        low, high = self.below[index - 1 : index + 1].tolist()
        share = (units - low) / (high - low) if high > low else 0.0
        return start + (stop - start) * min(max(share, 0.0), 1.0), high - low

    def piece(self, position: float) -> float:
        """The weight of the piece that a position lies strictly inside of; 0 at a knot."""
        index = int(np.searchsorted(self.positions, position))
        if index >= len(self.positions) or self.positions[index] == position:
            return 0.0
        return float(self.below[index] - self.below[index - 1])


class _Estimate(NamedTuple):
    value: float
    variance: float
    lost: float


def consistent_curve(
    counts: Sequence[Mapping[int, int]], branching: int, plan: Plan, rates: Sequence[float] | None = None
) -> Curve:
    """The curve that all levels' released counts agree on best.

    `rates` are what each level was really sampled at, where not at the plan's.

    Edge cases: where nothing at all was released the curve is flat at zero.
    """
    rates = rates or [plan.sampling_rate] * len(counts)
    estimates, children = _upward(counts, branching, plan, rates)
    levels = len(counts)
    cells = branching**levels
    positions, weights = [0.0], [0.0]

    def leaf(start: int, stop: int, level: int, weight: float) -> None:
        positions.append(float(stop * branching ** (levels - level)))
        weights.append(weight)

    top = sorted(estimates[0])
    # The last waiting piece is the leftmost: (first cell, one past the last, level, weight, whether it has children).
    waiting = _pieces(top, [estimates[0][index].value for index in top], 0, branching, 1, 0.0)[::-1]
    while waiting:
        start, stop, level, weight, known = waiting.pop()
        below = sorted(children[level - 1].get(start, ())) if known and level < levels else []
        if not below:
            leaf(start, stop, level, weight)
            continue
        values = [estimates[level][index].value for index in below]
        dropped = branching - len(below)
        missing = min(max(weight - sum(values), 0.0), dropped * plan.threshold / rates[level])
        factor = (weight - missing) / sum(values)
        shares = [value * factor for value in values]
        base = start * branching
        waiting += _pieces(below, shares, base, base + branching, level + 1, missing)[::-1]
    assert positions[-1] == cells
    return Curve(np.array(positions), np.cumsum(weights))


def _pieces(
    known: list[int], weights: list[float], start: int, stop: int, level: int, missing: float
) -> list[tuple[int, int, int, float, bool]]:
    """Cells from left to right: the known ones, and the gaps between them with what is missing spread over them."""
    unknown = (stop - start) - len(known)
    each = missing / unknown if unknown else 0.0
    pieces: list[tuple[int, int, int, float, bool]] = []
    for index, weight in zip([*known, stop], [*weights, 0.0], strict=True):
        if start < index:
            pieces.append((start, index, level, each * (index - start), False))
        if index < stop:
            pieces.append((index, index + 1, level, weight, True))
        start = index + 1
    return pieces


def _upward(
    counts: Sequence[Mapping[int, int]], branching: int, plan: Plan, rates: Sequence[float]
) -> tuple[list[dict[int, _Estimate]], list[dict[int, list[int]]]]:
    """Estimates by level and cell, and which children of a cell have one."""
    estimates: list[dict[int, _Estimate]] = [{} for _ in counts]
    children: list[dict[int, list[int]]] = [{} for _ in counts]
    for level in reversed(range(len(counts))):
        finer = estimates[level + 1] if level + 1 < len(counts) else {}
        rate = rates[level]
        usual_loss = plan.threshold / (2 * rates[min(level + 1, len(counts) - 1)])
        for index in finer:
            children[level].setdefault(index // branching, []).append(index)
        for index in counts[level].keys() | children[level].keys():
            below = children[level].get(index, [])
            parts = [finer[child] for child in below]
            summed = _Estimate(
                sum(part.value for part in parts),
                sum(part.variance for part in parts),
                sum(part.lost for part in parts) + (branching - len(below)) * usual_loss,
            )
            count = counts[level].get(index)
            if count is None:
                estimates[level][index] = summed
                continue
            own = _Estimate(count / rate, count * (1 - rate) / rate**2, 0.0)
            estimates[level][index] = _average(own, summed) if below else own
    return estimates, children


def _average(own: _Estimate, summed: _Estimate) -> _Estimate:
    squared = summed.variance + summed.lost**2
    weight = own.variance / (own.variance + squared)
    return _Estimate(
        (1 - weight) * own.value + weight * summed.value,
        (1 - weight) ** 2 * own.variance + weight**2 * summed.variance,
        weight * summed.lost,
    )
