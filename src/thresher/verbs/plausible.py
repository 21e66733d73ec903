"""Plausible distributions: what may be true, given everything that all levels of a hierarchy released.

A thousand distributions are drawn from the joint law of the true counts given the released ones, from the whole down
to the finest cell. Each cell's number of units is shared out among its children:

    released   gamma distributed, with the mean and the variance of `consistency`, corrected to add up
    dropped    what they hold together from `hidden_mass`
    unknown    where nothing below a cell was released, its units may be anywhere in it

Where hidden units are is not drawn: no count tells. How many units lie below an edge is therefore two numbers a draw,
with all hidden units as far to the right as they can be, and as far to the left. An interval takes the worse of them.

Guarantee: the draws are a function of the released counts and the public settings; they come from seeds that are
fixed for each cell, so that the same release always has the same intervals. They are no part of the privacy, which is
done when the counts are released.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thresher.verbs.consistency import KnownCells
from thresher.verbs.hidden_mass import draw_hidden

Floats = NDArray[np.float64]

DRAWS = 1000
_LEAST_TAIL = 0.005
"""So that at least five draws lie beyond an end."""
_MOST_KEPT = 4_000_000
"""How many numbers are kept of what was drawn, at most."""


def ends(drawn: Floats, tail: float) -> tuple[float, float]:
    """The numbers that leave out half of `tail` of what was drawn at each end.

    The other half makes up for what the law of the draws simplifies: the simulations in
    `lab.experiments.interval_widths` show that intervals then hold as often as they say. Where too few of the draws
    lie so far out, the end is as many times further from the median as it is for a normal distribution.
    Edge cases: never below 0.
    """
    from scipy.special import ndtri

    tail = max(tail / 2, 1e-300)
    used = max(tail, _LEAST_TAIL)
    low, middle, high = np.quantile(drawn, [used, 0.5, 1 - used]).tolist()
    times = float(ndtri(tail) / ndtri(used)) if tail < used else 1.0
    return max(middle - (middle - low) * times, 0.0), middle + (high - middle) * times


class Shares(NamedTuple):
    """How the units of a cell are shared out among its children, one row or number a draw."""

    known: list[int]
    """The children that are known, from 0."""
    units: Floats
    """What each of them holds."""
    hidden: Floats
    """What all others hold together."""
    largest: Floats
    """What one of the others holds at most."""


class PlausibleDistributions:
    """Draws of how many units lie below any edge of a finest cell."""

    def __init__(self, cells: KnownCells, draws: int = DRAWS) -> None:
        self.cells, self.draws = cells, draws
        self._kept: dict[tuple[int, int], Shares] = {}
        self._numbers = 0
        self._nobody = np.zeros(draws)
        self._empty = (np.arange(draws) + 0.5) / draws

    @cached_property
    def total(self) -> tuple[Floats, Floats]:
        """How few and how many units there are in all: dropped cells of the coarsest level may be empty."""
        whole = self._shares(0, 0, None)
        known = whole.units.sum(axis=1)
        return known, known + whole.hidden

    def below(self, edge: int) -> tuple[Floats, Floats]:
        """How few and how many units lie below an edge, one number a draw."""
        branching, levels = self.cells.branching, self.cells.levels
        if edge <= 0:
            return self._nobody, self._nobody
        if edge >= branching**levels:
            return self.total
        level = index = 0
        least = most = self._nobody
        units: Floats | None = None
        while True:
            shares = self._shares(level, index, units)
            width = branching ** (levels - level - 1)
            child, rest = divmod(edge - index * branching * width, width)
            place = bisect_left(shares.known, child)
            inside = place < len(shares.known) and shares.known[place] == child
            whole_left = child - place
            # A child that is not known and that the edge is inside of may lie on either side.
            parted = bool(rest) and not inside
            left, right = whole_left + parted, branching - len(shares.known) - whole_left
            before = shares.units[:, :place].sum(axis=1)
            surely_left = np.maximum(shares.hidden - right * shares.largest, 0.0) if level else 0.0
            least = least + before + surely_left
            most = most + before + np.minimum(shares.hidden, left * shares.largest)
            if not rest or not inside:
                return least, most
            units = shares.units[:, place]
            level, index = level + 1, index * branching + child

    def count(self, start: float, stop: float, tail: float) -> tuple[float, float]:
        """How few and how many units lie between two positions; a cell that one lies in counts in full, or not at all.

        Each end is that of `ends` at half of `tail`: in simulations, errors of counts were somewhat larger than the
        draws say.
        """
        inner, outer = self._between(start, stop)
        return ends(inner, tail / 2)[0], ends(outer, tail / 2)[1]

    def fraction(self, start: float, stop: float, tail: float) -> tuple[float, float]:
        """The same for the part of all units. Each end is that of `ends` at `tail`."""
        return self.least_fraction(start, stop, tail), self.most_fraction(start, stop, tail)

    def least_fraction(self, start: float, stop: float, tail: float) -> float:
        """The lower end of `fraction`."""
        return min(ends(self._between(start, stop)[0] / self.total[1], tail)[0], 1.0)

    def most_fraction(self, start: float, stop: float, tail: float) -> float:
        """The upper end of `fraction`."""
        return min(ends(np.minimum(self._between(start, stop)[1] / self.total[0], 1.0), tail)[1], 1.0)

    def _between(self, start: float, stop: float) -> tuple[Floats, Floats]:
        first, last = self._around(start), self._around(stop)
        return np.maximum(last[0] - first[1], 0.0), last[1] - first[0]

    def _around(self, position: float) -> tuple[Floats, Floats]:
        """How few and how many units lie below a position; those of the cell that it lies in may or may not."""
        edge = math.floor(position)
        least, most = self.below(edge)
        return least, most if edge == position else self.below(edge + 1)[1]

    def _shares(self, level: int, index: int, units: Floats | None) -> Shares:
        """How a cell's units are shared out; `units` is what it holds."""
        key = (level, index)
        if key not in self._kept:
            found = self._drawn(level, index, units)
            size = found.units.size + 2 * self.draws
            if self._numbers + size > _MOST_KEPT:
                self._kept.clear()
                self._numbers = 0
            self._kept[key] = found
            self._numbers += size
        return self._kept[key]

    def _drawn(self, level: int, index: int, units: Floats | None) -> Shares:
        branching = self.cells.branching
        below = self.cells.below(level, index)
        if below is None:
            assert units is not None
            return Shares([], np.empty((self.draws, 0)), units, units)
        known = [each - index * branching for each in below.indices]
        random = np.random.Generator(np.random.Philox(key=[level, index]))
        values, variances = np.array(below.values), np.array(below.variances)
        dropped = branching - len(known)
        chance = random.random((self.draws, max(dropped, 1)))
        drawn = _gamma(random, values, variances, self.draws)
        hidden = np.zeros(self.draws)
        if units is None:
            # No count of a larger cell says what dropped cells of the coarsest level hold.
            hidden = self._without_parent(chance[:, :dropped]).sum(axis=1) * self.cells.largest[0]
        else:
            if dropped:
                hidden = draw_hidden(
                    units - values.sum(), float(variances.sum()), below.most_hidden, self.cells.fillings[level],
                    self._empty / (1 - self._empty), chance[:, 0],
                )  # fmt: skip
                hidden = np.minimum(hidden, units)
            drawn = _adding_up(drawn, units - hidden, values, variances)
        return Shares(known, drawn, hidden, np.maximum(self.cells.largest[level], hidden / max(dropped, 1)))

    def _without_parent(self, chance: Floats) -> Floats:
        empty = self._empty[:, None]
        return np.where(chance < empty, 0.0, (chance - empty) / (1 - empty))


def _adding_up(drawn: Floats, wanted: Floats, values: Floats, variances: Floats) -> Floats:
    """The drawn numbers, corrected in proportion to their variances so that each row adds up to what is wanted."""
    weights = variances / variances.sum() if variances.sum() > 0 else values / values.sum()
    moved = np.maximum(drawn + (wanted - drawn.sum(axis=1))[:, None] * weights, 0.0)
    sums = moved.sum(axis=1)
    empty = ~(sums > 0)
    return np.asarray(np.where(empty[:, None], weights, moved) * (wanted / np.where(empty, 1.0, sums))[:, None])


def _gamma(random: np.random.Generator, values: Floats, variances: Floats, draws: int) -> Floats:
    """Gamma distributed numbers with these means and variances."""
    scales = variances / values
    certain = scales <= 0
    shapes = np.where(certain, 1.0, values / np.where(certain, 1.0, scales))
    drawn = random.standard_gamma(np.broadcast_to(shapes, (draws, len(values)))) * scales
    return np.where(certain, values, drawn)
