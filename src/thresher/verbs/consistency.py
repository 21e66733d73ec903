"""One curve from all levels of a hierarchy: post-processing that uses every sample for every answer.

Each level is an independent sample of the same units. A cell's own count, and the sum over its children plus what the
dropped ones hold, are two estimates of the same number; averaging them by their variances shrinks the error by up to
√L, which no single level has.

    up      estimate of a cell = own count and children's sum, weighted by one over their variances; what dropped
            children hold is estimated from the difference between the two (`hidden_mass`)
    down    a cell's estimate is shared out: dropped children get what is missing from the sum, the released ones the
            rest, each corrected in proportion to its variance (generalised least squares)

Where nothing below a cell was released its weight is spread evenly over it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from thresher.privacy.plans import Plan
from thresher.verbs.hidden_mass import STRENGTH, UNKNOWN, Floats, hidden_moments, largest_dropped, learn_fillings


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Estimated units below a position: straight lines between knots, never falling."""

    positions: Floats
    below: Floats

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


class Children(NamedTuple):
    """The children of a cell that are known: released, or with something released below them. In order."""

    indices: list[int]
    values: list[float]
    """How many units each holds, from its own count and all below it."""
    variances: list[float]
    dropped: int
    """How many children are not known."""
    most_hidden: float
    """How many units those hold together, at most, usually."""


@dataclass(frozen=True, slots=True, eq=False)
class KnownCells:
    """Every cell that is known with those of its children that are, by level and index; level 0 is the whole."""

    branching: int
    levels: int
    children: list[dict[int, Children]]
    fillings: list[Floats]
    """For each level from 0, how full dropped children are; see `hidden_mass`."""
    largest: list[float]
    """For each level from 0, how many units a dropped child holds at most, usually."""

    def below(self, level: int, index: int) -> Children | None:
        """The known children of a cell; None where nothing below it was released."""
        return self.children[level].get(index) if level < self.levels else None


def known_cells(
    counts: Sequence[Mapping[int, int]], branching: int, plan: Plan, rates: Sequence[float] | None = None
) -> KnownCells:
    """Estimates of all cells from their own counts and all levels below them.

    `rates` are what each level was really sampled at, where not at the plan's.
    """
    rates = rates or [plan.sampling_rate] * len(counts)
    children: list[dict[int, Children]] = [{} for _ in counts]
    fillings = [UNKNOWN] * len(counts)
    largest = [largest_dropped(plan.threshold, rate) for rate in rates]
    for level in range(len(counts) - 1, 0, -1):
        # A cell that is not known has no known child either, which says more where its own level saw few devices.
        largest[level - 1] = min(largest[level - 1], branching * largest[level])
    for level in range(len(counts), 0, -1):
        below = children[level] if level < len(counts) else {}
        found, fillings_below = _estimates(counts[level - 1], rates[level - 1], below)
        if level < len(counts):
            fillings[level] = fillings_below
        children[level - 1] = _grouped(found, branching, largest[level - 1])
    return KnownCells(branching, len(counts), children, fillings, largest)


def _grouped(found: Mapping[int, tuple[float, float]], branching: int, largest: float) -> dict[int, Children]:
    groups: dict[int, list[int]] = {}
    for index in sorted(found):
        groups.setdefault(index // branching, []).append(index)
    return {
        parent: Children(
            indices,
            [found[index][0] for index in indices],
            [found[index][1] for index in indices],
            branching - len(indices),
            (branching - len(indices)) * largest,
        )
        for parent, indices in groups.items()
    }


def _estimates(
    counts: Mapping[int, int], rate: float, below: Mapping[int, Children]
) -> tuple[dict[int, tuple[float, float]], Floats]:
    """Value and variance of each cell of a level, and how full the dropped children of its cells are.

    The two estimates of a cell, its own count and its children's sum with what the dropped ones hold, are weighted by
    one over their variances.
    """
    found = {index: (count / rate, count * (1 - rate) / rate**2) for index, count in counts.items()}
    for index, only in below.items():
        if index not in counts:  # the cell itself was dropped
            found[index] = (sum(only.values), sum(only.variances) + only.most_hidden**2 / 12)
    both = [index for index in below if index in counts]
    if not both:
        return found, UNKNOWN
    # Weights from the variances of one unit, not of the counts: a count that is low by chance must not weigh more.
    each = (1 - rate) / rate
    own = np.array([found[index][0] for index in both])
    summed, variance, most = np.array(
        [(sum(below[index].values), sum(below[index].variances), below[index].most_hidden) for index in both]
    ).T
    weight = each / (each + variance / summed) if each else np.zeros_like(own)
    together = each * ((1 - weight) * own + weight * summed) + variance
    weights = learn_fillings(own - summed, together, most)
    hidden, hidden_variance = hidden_moments(own - summed, together, most, weights)
    hidden_variance += hidden**2 * STRENGTH / (len(both) + STRENGTH)  # few cells teach the law of the filling poorly
    # What is wrong with the level's law is wrong in all its cells alike, and does not average out.
    hidden_variance += np.minimum(together, most**2 / 12) / 4
    values = (1 - weight) * own + weight * (summed + hidden)
    variances = (1 - weight) * each * values + weight**2 * hidden_variance
    found.update(zip(both, zip(values.tolist(), variances.tolist(), strict=True), strict=True))
    return found, weights


def curve_of(cells: KnownCells) -> Curve:
    """The curve that all levels' released counts agree on best.

    Edge cases: where nothing at all was released the curve is flat at zero.
    """
    branching, levels = cells.branching, cells.levels
    positions, weights = [0.0], [0.0]
    top = cells.below(0, 0) or Children([], [], [], branching, 0.0)
    # The last waiting piece is the leftmost: (first cell, one past the last, level, weight, whether it has children).
    waiting = _pieces(top.indices, top.values, 0, branching, 1, 0.0)[::-1]
    while waiting:
        start, stop, level, weight, known = waiting.pop()
        below = cells.below(level, start) if known else None
        if below is None:
            positions.append(float(stop * branching ** (levels - level)))
            weights.append(weight)
            continue
        shares, missing = _shared_out(weight, below, cells.fillings[level])
        base = start * branching
        waiting += _pieces(below.indices, shares, base, base + branching, level + 1, missing)[::-1]
    assert positions[-1] == branching**levels
    return Curve(np.array(positions), np.cumsum(weights))


def _shared_out(weight: float, below: Children, fillings: Floats) -> tuple[list[float], float]:
    """A cell's weight as that of its known children and of the dropped ones together."""
    value, variance = sum(below.values), sum(below.variances)
    missing = 0.0
    if below.dropped:
        difference, spread, most = np.array([[weight - value], [variance], [below.most_hidden]])
        missing = min(float(hidden_moments(difference, spread, most, fillings)[0][0]), weight)
    rest = weight - missing
    parts = below.variances if variance > 0 else below.values
    factor = (rest - value) / sum(parts)
    shares = [max(each + factor * part, 0.0) for each, part in zip(below.values, parts, strict=True)]
    total = sum(shares)
    if not total > 0:
        return [rest / len(shares)] * len(shares), missing
    return [share * rest / total for share in shares], missing


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
