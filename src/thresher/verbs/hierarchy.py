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

from thresher.errors import InvalidSetting
from thresher.mechanism.release import Release
from thresher.privacy.plans import Plan
from thresher.privacy.settings import check_count
from thresher.questions import Cells, Question
from thresher.verbs.accuracy import Seen, count_bounds
from thresher.verbs.consistency import Curve, consistent_curve

LARGEST_BRANCHING = 1024


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

    `rates` are what each level was really sampled at; without them, all at the plan's. `unevenness` is by how much the
    samples of two levels differ in size at most: cells of several levels are put together, and bounds allow for it.
    """

    lower: float
    upper: float
    branching: int
    plan: Plan
    counts: Sequence[Mapping[int, int]]
    rates: tuple[float, ...] = ()
    unevenness: float = 1.0

    @property
    def lowest_rate(self) -> float:
        """The lowest rate that a level was sampled at."""
        return min(self.rates, default=self.plan.sampling_rate)

    @property
    def highest_rate(self) -> float:
        """The highest."""
        return max(self.rates, default=self.plan.sampling_rate)

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
        return consistent_curve(self.counts, self.branching, self.plan, self.rates)

    def position(self, value: float) -> float:
        """Where a value lies among the finest cells; outside the bounds, at the end.

        A position that differs from an edge by no more than rounding is that edge: 0.29 of 100 cells is 29.
        """
        inside = min(max(value, self.lower), self.upper) - self.lower
        position = inside * self.cells / (self.upper - self.lower)
        nearest = round(position)
        return float(nearest) if abs(position - nearest) <= 1e-9 + 1e-14 * self.cells else position

    def value(self, position: float) -> float:
        """The value at a position."""
        if position >= self.cells:
            return self.upper
        return self.lower + (self.upper - self.lower) * position / self.cells

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
        if start == stop:
            return 0, 0
        bounds = []
        rates = self.lowest_rate, self.highest_rate
        for cut in self.aligned(start, stop):
            most, hidden = self.released(*cut.outer)
            least, _ = self.released(*cut.inner)
            bounds.append(count_bounds(self.plan, least, most + hidden, tail * cut.share, rates))
        low, high = max(low for low, _ in bounds), min(high for _, high in bounds)
        return min(low, high), max(low, high)  # two levels that contradict each other leave what is between them

    def fraction_bounds(self, start: float, stop: float, tail: float) -> tuple[float, float]:
        """The same for the fraction of all units."""
        if start == stop:
            return 0.0, 0.0
        if (start, stop) == (0, self.cells):
            return 1.0, 1.0
        cuts = list(self.aligned(start, stop))
        low = max(self.seen(*cut.inner).lower(tail * cut.share) for cut in cuts)
        high = min(self.seen(*cut.outer).upper(tail * cut.share) for cut in cuts)
        return min(low, high), max(low, high)

    def quantile_range(self, probability: float, tail: float) -> tuple[int, int]:
        """Edges between which the quantile lies.

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


def check_hierarchy(column: str, lower: float, upper: float, branching: int, plan: Plan) -> int:
    """The branching factor, if it and the bounds make a hierarchy of `plan.rounds` levels that can be asked."""
    branching = check_count(branching, setting="branching", least=2, example=4)
    if branching > LARGEST_BRANCHING:
        raise InvalidSetting(
            "branching", f"must be from 2 to {LARGEST_BRANCHING:,}", hint="Most often 2 to 16 is best."
        )
    if branching**plan.rounds > 2**40:
        raise InvalidSetting(
            "branching",
            f"to the power of the plan's {plan.rounds} rounds must be at most 2^40",
            hint="Use a smaller branching factor, or plan with fewer rounds.",
        )
    Cells(column, lower, upper, branching**plan.rounds)
    return branching


def ask_levels(
    column: str, lower: float, upper: float, branching: int, plan: Plan
) -> Generator[Sequence[Question], Sequence[Release], tuple[tuple[Release, ...], Hierarchy]]:
    """Ask all levels, coarsest first, one round each."""
    releases = yield [Cells(column, lower, upper, branching**level) for level in range(1, plan.rounds + 1)]
    counts = [dict(zip(release.buckets, release.counts.tolist(), strict=True)) for release in releases]
    rates = tuple(release.rate for release in releases)
    sizes = [
        release.plan.sampling_rate if release.response is None else release.response.sampled for release in releases
    ]
    unevenness = max(sizes) / min(sizes) if min(sizes) else math.inf
    return tuple(releases), Hierarchy(float(lower), float(upper), branching, plan, counts, rates, unevenness)
