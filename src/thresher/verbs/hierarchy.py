"""A number's distribution as levels of ever finer cells: decomposition of ranges, and what each level released.

Level ℓ has β^ℓ equally wide half-open cells between two public bounds, ℓ = 1…L, each level from its own fresh sample.
Positions are in units of the finest cell, from 0 to β^L.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from thresher.mechanism.common_rates import common_rates
from thresher.mechanism.release import Release
from thresher.privacy.intervals import ends
from thresher.privacy.plans import Plan
from thresher.privacy.totals import seen_by_luck
from thresher.questions import Question
from thresher.verbs.accuracy import Seen, count_bounds
from thresher.verbs.consistency import Curve, KnownCells, curve_of, known_cells
from thresher.verbs.grid import Grid
from thresher.verbs.plausible import PlausibleDistributions


class Run(NamedTuple):
    """Neighbouring cells of one level: from `first` up to, but not including, `last`."""

    level: int
    first: int
    last: int


def runs(start: int, stop: int, branching: int, levels: int) -> list[Run]:
    """The fewest cells that make up the finest cells from `start` to `stop`, as at most two runs a level.

    Guarantee: at most 2·L(β − 1) cells; at most L(β − 1) where the range begins at 0 or ends at β^L, except that the
    whole of a single level is its β cells.
    Reference: paper, section 4.2.
    """
    found: list[Run] = []
    for level in range(levels, 1, -1):
        left = min(stop, -(-start // branching) * branching)
        right = max(left, stop // branching * branching)
        found += [Run(level, start, left), Run(level, right, stop)]
        if left >= right:
            break
        start, stop = left // branching, right // branching
    else:
        found.append(Run(1, start, stop))
    return [run for run in found if run.first < run.last]


def decompose(start: int, stop: int, branching: int, levels: int) -> list[tuple[int, int]]:
    """The same as single cells (level, index)."""
    return [(run.level, index) for run in runs(start, stop, branching, levels) for index in range(run.first, run.last)]


class Alignment(NamedTuple):
    """A range in whole cells of one level: those it contains, those it touches, and the level's share of a tail."""

    inner: tuple[int, int]
    outer: tuple[int, int]
    share: float


@dataclass(frozen=True, eq=False, repr=False)
class Hierarchy:
    """What the levels released: for each level, sampled counts by cell index.

    `rates` are what each level was really sampled at, on one scale (`common_rates`); without them, all at the plan's.
    Where they differ, estimates and plausible distributions weigh each level by its own rate. What is proved puts cells
    of several levels together as they are, so it allows for all of `unevenness`.
    `last` is the largest whole number, where the numbers are whole; edges of cells are whole numbers then.

    Bounds are what the middle of the plausible distributions leaves (see `plausible`), and never wider than what is
    proved: those whose names begin with "sure".
    """

    lower: float
    upper: float
    branching: int
    plan: Plan
    counts: Sequence[Mapping[int, int]]
    rates: tuple[float, ...] = ()
    last: int | None = None

    @property
    def lowest_rate(self) -> float:
        """The lowest rate that a level was sampled at."""
        return min(self.rates, default=self.plan.sampling_rate)

    @property
    def highest_rate(self) -> float:
        """The highest."""
        return max(self.rates, default=self.plan.sampling_rate)

    @property
    def unevenness(self) -> float:
        """How many times more densely one level was sampled than another, at most."""
        return self.highest_rate / self.lowest_rate

    @property
    def levels(self) -> int:
        """L, one round each."""
        return len(self.counts)

    @property
    def cells(self) -> int:
        """How many cells the finest level has: β^L."""
        return int(self.branching**self.levels)

    @property
    def probes(self) -> int:
        """The most buckets that a range from one bound is put together from."""
        return max(self.levels * (self.branching - 1), self.branching)

    @cached_property
    def curve(self) -> Curve:
        """Estimated units below each position, from all levels together."""
        return curve_of(self._known)

    @cached_property
    def _known(self) -> KnownCells:
        return known_cells(self.counts, self.branching, self.plan, self.rates)

    @cached_property
    def _plausible(self) -> PlausibleDistributions:
        return PlausibleDistributions(self._known)

    @property
    def width(self) -> float:
        """How wide a finest cell is."""
        return (self.upper - self.lower) / self.cells

    def position(self, value: float) -> float:
        """Where a value lies among the finest cells; outside the bounds, at the end.

        A position that differs from an edge by no more than rounding is that edge: 0.29 of 100 cells is 29.
        Edge cases: of whole numbers, those below a value are those below the next whole number.
        """
        if self.last is not None:
            if value > self.last:
                return float(self.cells)
            value = math.ceil(value) if math.isfinite(value) else value
        inside = min(max(value, self.lower), self.upper) - self.lower
        position = inside * self.cells / (self.upper - self.lower)
        nearest = round(position)
        return float(nearest) if abs(position - nearest) <= 1e-9 + 1e-14 * self.cells else position

    def value(self, position: float) -> float:
        """The value at a position; of whole numbers, at most the one after the last."""
        found = self.upper if position >= self.cells else self.lower + (self.upper - self.lower) * position / self.cells
        return found if self.last is None else min(found, float(self.last + 1))

    @cached_property
    def _sums(self) -> list[tuple[list[int], list[int]]]:
        """For each level, the released cells in order and the running sum of their counts."""
        ordered = [sorted(level) for level in self.counts]
        return [
            (cells, list(accumulate((level[cell] for cell in cells), initial=0)))
            for cells, level in zip(ordered, self.counts, strict=True)
        ]

    def released(self, start: int, stop: int) -> tuple[int, int]:
        """Sampled count released in a range of finest cells, and how many more dropped buckets may hide."""
        count = dropped = 0
        for level, first, last in runs(start, stop, self.branching, self.levels):
            cells, sums = self._sums[level - 1]
            begin, end = bisect_left(cells, first), bisect_left(cells, last)
            count += sums[end] - sums[begin]
            dropped += (last - first) - (end - begin)
        return count, dropped * (self.plan.threshold - 1)

    def seen(self, start: int, stop: int) -> Seen:
        """Inside and outside of a range of finest cells."""
        inside, hidden_inside = self.released(start, stop)
        before, hidden_before = self.released(0, start)
        after, hidden_after = self.released(stop, self.cells)
        return Seen(inside, before + after, hidden_inside, hidden_before + hidden_after, self.unevenness)

    def aligned(self, start: float, stop: float) -> Iterator[Alignment]:
        """The range in whole cells of each level, from within and from without, with each level's share of a tail.

        Coarse levels have larger, seldom dropped buckets; fine ones follow the range closely. Bounds from all of them
        hold together if they share the tail: half of it for the finest level, the rest in equal parts.
        """
        for level in range(self.levels, 0, -1):
            width = self.branching ** (self.levels - level)
            coarser = 0.5 / (self.levels - 1) if self.levels > 1 else 0.0
            first, last = math.ceil(start / width) * width, math.floor(stop / width) * width
            yield Alignment(
                inner=(first, max(first, last)),
                outer=(math.floor(start / width) * width, math.ceil(stop / width) * width),
                share=coarser if level < self.levels else 0.5 if self.levels > 1 else 1.0,
            )

    def count_bounds(self, start: float, stop: float, tail: float) -> tuple[int, int]:
        """How few and how many units may lie between two positions; each end is wrong with probability ≤ `tail`."""
        sure = self.sure_count_bounds(start, stop, tail)
        if sure[0] >= sure[1] or not self.curve.total:
            return min(sure), max(sure)
        low, high = self._plausible.count(start, stop, tail)
        estimate = self.curve.at(stop) - self.curve.at(start)
        low, high = _within(min(low, estimate), max(high, estimate), *sure)
        return math.floor(sure[0] if self._lucky else low), math.ceil(high)

    def sure_count_bounds(self, start: float, stop: float, tail: float) -> tuple[int, int]:
        """The same, proved: by inverting the binomial law of the counts of as few cells as possible.

        Edge cases: the first bound is the larger one where levels contradict each other; what is between is left then.
        """
        if start == stop:
            return 0, 0
        bounds = []
        rates = self.lowest_rate, self.highest_rate
        for cut in self.aligned(start, stop):
            most, hidden = self.released(*cut.outer)
            least, _ = self.released(*cut.inner)
            bounds.append(count_bounds(self.plan, least, most + hidden, tail * cut.share, rates))
        low, high = max(low for low, _ in bounds), min(high for _, high in bounds)
        return min(low, self._given_release(start, stop, tail)) if self._lucky else low, high

    @cached_property
    def _lucky(self) -> bool:
        """Whether these levels are here by luck: the group that they are of might as well not have been seen."""
        largest = [max(level.values()) for level in self.counts if level]
        return seen_by_luck(self.lowest_rate, self.plan.threshold, largest)

    def _given_release(self, start: float, stop: float, tail: float) -> int:
        """How few units may lie between two positions given that a cell there was released: the most of any cell's.

        Each released cell is bounded by its own law given release, and all of them hold together.
        """
        found = 0
        number = sum(len(level) for level in self.counts)
        for level, counts in enumerate(self.counts, start=1):
            width = self.branching ** (self.levels - level)
            inside = [count for cell, count in counts.items() if start <= cell * width and (cell + 1) * width <= stop]
            if inside:
                lower, _ = ends(self.highest_rate, self.plan.threshold, [max(inside)], tail / number)
                found = max(found, int(lower[0]))
        return found

    def fraction_bounds(self, start: float, stop: float, tail: float) -> tuple[float, float]:
        """How small and how large a part of all units may lie between two positions."""
        sure = self.sure_fraction_bounds(start, stop, tail)
        if sure[0] >= sure[1] or not self.curve.total:
            return min(sure), max(sure)
        low, high = self._plausible.fraction(start, stop, tail)
        estimate = (self.curve.at(stop) - self.curve.at(start)) / self.curve.total
        return _within(min(low, estimate), max(high, estimate), *sure)

    def sure_fraction_bounds(self, start: float, stop: float, tail: float) -> tuple[float, float]:
        """The same, proved, as `sure_count_bounds`."""
        if start == stop:
            return 0.0, 0.0
        if (start, stop) == (0, self.cells):
            return 1.0, 1.0
        cuts = list(self.aligned(start, stop))
        low = max(self.seen(*cut.inner).lower(tail * cut.share) for cut in cuts)
        high = min(self.seen(*cut.outer).upper(tail * cut.share) for cut in cuts)
        return low, high

    def quantile_range(self, probability: float, tail: float) -> tuple[int, int]:
        """Edges between which the quantile lies: those whose rank may be the probability, as far as is plausible.

        Edge cases: from bound to bound where nothing was released.
        """
        if not self.curve.total:
            return 0, self.cells
        sure = self.sure_quantile_range(probability, tail)
        edges = range(1, self.cells)
        least_rank, most_rank = self._plausible.least_fraction, self._plausible.most_fraction
        least = bisect_left(edges, True, key=lambda edge: most_rank(0, edge, tail / 2) >= probability)
        most = bisect_left(edges, True, key=lambda edge: least_rank(0, edge, tail / 2) > probability) + 1
        # `least` is the last edge that is below the quantile, `most` the first one that is above it.
        first, last = max(least, sure[0]), min(most, sure[1])
        return (first, last) if first < last else sure

    def sure_quantile_range(self, probability: float, tail: float) -> tuple[int, int]:
        """The same, proved.

        Descends the levels twice. For the lower end it enters the last child whose left edge has, by its upper bound, a
        rank below the target; for the upper end likewise from the right. Only edges between the children of the true
        quantile's own ancestors can mislead it, L(β − 1) in all and each on one side only, so each is tested at `tail`
        divided by that.

        Guarantee: contains the quantile with probability at least 1 − tail.
        """
        each = tail / (self.levels * (self.branching - 1))
        first = last = 0
        for level in range(1, self.levels + 1):
            width = self.branching ** (self.levels - level)
            children = range(1, self.branching)
            below = [child for child in children if self._below(first + child * width).upper(each) < probability]
            above = [child for child in children if self._below(last + child * width).lower(each) > probability]
            first += width * (below[-1] if below else 0)
            last += width * (above[0] - 1 if above else self.branching - 1)
        return min(first, last), max(first, last) + 1

    def _below(self, edge: int) -> Seen:
        return self.seen(0, edge)


def _within(low: float, high: float, least: float, most: float) -> tuple[float, float]:
    """What two intervals have in common; the second one where they have nothing."""
    return (max(low, least), min(high, most)) if low <= most and least <= high else (least, most)


def ask_levels(
    column: str, grid: Grid, plan: Plan
) -> Generator[Sequence[Question], Sequence[Release], tuple[tuple[Release, ...], Hierarchy]]:
    """Ask all levels, coarsest first, one round each."""
    releases = yield grid.questions(column)
    return tuple(releases), hierarchy_of(releases, grid, plan)


def hierarchy_of(releases: Sequence[Release], grid: Grid, plan: Plan) -> Hierarchy:
    """The hierarchy that the releases of a grid's levels make, coarsest first."""
    counts = [dict(zip(release.buckets, release.counts.tolist(), strict=True)) for release in releases]
    return Hierarchy(grid.lower, grid.upper, grid.branching, plan, counts, common_rates(releases), grid.last)
