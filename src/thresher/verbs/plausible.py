"""Plausible distributions: what may be true, given everything that all levels of a hierarchy released.

A few hundred distributions are drawn from the joint law of the true counts given the released ones, from the whole down
to the finest cell. Each cell's number of units is shared out among its children:

    released   gamma distributed, with the mean and the variance of `consistency`, corrected to add up
    dropped    what they hold together from `hidden_mass`, split at random
    unknown    where nothing below a cell was released, its units are split at random, level by level

A split at random is uniform among all splits (Dirichlet's distribution with parameters 1): smooth data and data in a
few spikes both have a fair chance. The middle of the distributions' answers is an interval of the answer.

Guarantee: the draws are a function of the released counts and the public settings; they come from seeds that are
fixed for each cell, so that the same release always has the same intervals, and every drawn distribution never falls.
They are no part of the privacy, which is done when the counts are released.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from thresher.verbs.consistency import Children, KnownCells
from thresher.verbs.hidden_mass import draw_hidden

Floats = NDArray[np.float64]

DRAWS = 1000
_LEAST_TAIL = 0.005
"""So that at least five draws lie beyond an end."""
_MOST_KEPT = 4_000_000
"""How many numbers are kept of what was drawn, at most."""


def ends(drawn: Floats, tail: float) -> tuple[float, float]:
    """The numbers that leave out a part `tail` of what was drawn at each end.

    Half of `tail` is left out, which makes up for what the law of the draws simplifies: the simulations in
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


class PlausibleDistributions:
    """Draws of how many units lie below any edge of a finest cell."""

    def __init__(self, cells: KnownCells, draws: int = DRAWS) -> None:
        self.cells, self.draws = cells, draws
        self._kept: dict[tuple[int, int], Floats] = {}
        self._numbers = 0
        self._clipped = np.arange(draws) % 4 == 0
        self._empty = (np.arange(draws) + 0.5) / draws

    @property
    def total(self) -> Floats:
        """Units in all."""
        return self._children(0, 0, None)[:, -1]

    def below(self, edge: int) -> Floats:
        """Units below an edge, one number a draw."""
        branching, levels = self.cells.branching, self.cells.levels
        if edge >= branching**levels:
            return self.total
        level = index = 0
        before = np.zeros(self.draws)
        units: Floats | None = None
        while True:
            sums = self._children(level, index, units)
            width = branching ** (levels - level - 1)
            child, rest = divmod(edge - index * branching * width, width)
            before = before + (sums[:, child - 1] if child else 0.0)
            if not rest:
                return before
            units = sums[:, child] - (sums[:, child - 1] if child else 0.0)
            level, index = level + 1, index * branching + child

    def count(self, start: float, stop: float, tail: float) -> tuple[float, float]:
        """How few and how many units lie between two positions; a cell that one lies in counts in full, or not at all.

        Each end leaves out half of `tail` of the distributions, as `ends` says: in simulations, errors of counts were
        somewhat larger than the draws say.
        """
        inner, outer = self._between(start, stop)
        return ends(inner, tail / 2)[0], ends(outer, tail / 2)[1]

    def fraction(self, start: float, stop: float, tail: float) -> tuple[float, float]:
        """The same for the part of all units."""
        inner, outer = self._between(start, stop)
        total = self.total
        return min(ends(inner / total, tail)[0], 1.0), min(ends(outer / total, tail)[1], 1.0)

    def _between(self, start: float, stop: float) -> tuple[Floats, Floats]:
        outer = self.below(math.ceil(stop)) - self.below(math.floor(start))
        if float(start).is_integer() and float(stop).is_integer():
            return outer, outer
        return np.maximum(self.below(math.floor(stop)) - self.below(math.ceil(start)), 0.0), outer

    def _children(self, level: int, index: int, units: Floats | None) -> Floats:
        """Running sums of the units of a cell's children, one row a draw; `units` is what the cell holds."""
        key = (level, index)
        if key not in self._kept:
            found = np.cumsum(self._drawn(level, index, units), axis=1)
            if self._numbers + found.size > _MOST_KEPT:
                self._kept.clear()
                self._numbers = 0
            self._kept[key] = found
            self._numbers += found.size
        return self._kept[key]

    def _drawn(self, level: int, index: int, units: Floats | None) -> Floats:
        branching = self.cells.branching
        random = np.random.Generator(np.random.Philox(key=[level, index]))
        shares = random.standard_exponential((self.draws, branching))
        shares /= shares.sum(axis=1, keepdims=True)
        below = self.cells.below(level, index)
        if below is None:
            assert units is not None
            for outermost, child in ((0, 0), (branching ** (level + 1) - 1, branching - 1)):
                if index * branching + child == outermost:
                    shares[self._clipped] = np.arange(branching) == child
            return shares * units[:, None]
        return self._with_known(random, level, index, below, units, shares)

    def _with_known(
        self, random: np.random.Generator, level: int, index: int, below: Children, units: Floats | None, shares: Floats
    ) -> Floats:
        branching = self.cells.branching
        known = np.array([each - index * branching for each in below.indices], dtype=np.int64)
        dropped = np.setdiff1d(np.arange(branching), known)
        values, variances = np.array(below.values), np.array(below.variances)
        chance = random.random((self.draws, max(len(dropped), 1)))
        drawn = _gamma(random, values, variances, self.draws)
        if units is not None:
            hidden = np.zeros(self.draws)
            if len(dropped):
                hidden = draw_hidden(
                    units - values.sum(), float(variances.sum()), below.most_hidden, self.cells.fillings[level],
                    self._empty / (1 - self._empty), chance[:, 0],
                )  # fmt: skip
                hidden = np.minimum(hidden, units)
            rest = units - hidden
            weights = variances / variances.sum() if variances.sum() > 0 else values / values.sum()
            drawn = np.maximum(drawn + (rest - drawn.sum(axis=1))[:, None] * weights, 0.0)
            sums = drawn.sum(axis=1)
            empty = ~(sums > 0)
            drawn = np.where(empty[:, None], weights, drawn) * (rest / np.where(empty, 1.0, sums))[:, None]
        result = np.empty((self.draws, branching))
        result[:, known] = drawn
        if units is None:
            result[:, dropped] = self._without_parent(chance[:, : len(dropped)]) * self.cells.largest[0]
        elif len(dropped):
            result[:, dropped] = _split(hidden, shares[:, dropped], self.cells.largest[level])
        return result

    def _without_parent(self, chance: Floats) -> Floats:
        """Dropped cells of the coarsest level: no count of a larger cell says what they hold."""
        empty = self._empty[:, None]
        return np.where(chance < empty, 0.0, (chance - empty) / (1 - empty))


def _split(hidden: Floats, shares: Floats, largest: float) -> Floats:
    """What dropped cells hold together, split at random so that none holds more than a dropped one does."""
    parts = shares / shares.sum(axis=1, keepdims=True) * hidden[:, None]
    even = (hidden / shares.shape[1])[:, None]
    most = parts.max(axis=1, keepdims=True)
    over = most > np.maximum(largest, even)
    factor = np.where(over, np.maximum(largest - even, 0.0) / np.where(over, most - even, 1.0), 1.0)
    return np.asarray(even + factor * (parts - even))


def _gamma(random: np.random.Generator, values: Floats, variances: Floats, draws: int) -> Floats:
    """Gamma distributed numbers with these means and variances."""
    scales = variances / values
    certain = scales <= 0
    shapes = np.where(certain, 1.0, values / np.where(certain, 1.0, scales))
    drawn = random.standard_gamma(np.broadcast_to(shapes, (draws, len(values)))) * scales
    return np.where(certain, values, drawn)
