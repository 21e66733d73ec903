"""Ranges: how many units lie in any range of a number, from one hierarchy of cells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack, overload

import numpy as np

from thresher.errors import InvalidSetting
from thresher.privacy.plans import Plan
from thresher.questions.question import number_text
from thresher.verbs.accuracy import (
    CONFIDENCE,
    Error,
    Quantile,
    check_bounds,
    check_quantile,
    count_standard_error,
    rank_standard_error,
)
from thresher.verbs.answer import COUNTS, Answer, Field, Line, Shown, Truth
from thresher.verbs.asking import Asking, Target, ask, verb
from thresher.verbs.grouping import BY, GROUPS, GroupableQuery
from thresher.verbs.groups import Grouped
from thresher.verbs.hierarchy import LARGEST_BRANCHING, Hierarchy, ask_levels, check_hierarchy, decompose
from thresher.verbs.query import Rounds
from thresher.verbs.readings import Reading, Readings
from thresher.verbs.settings import Column, Number, Whole

if TYPE_CHECKING:
    import pyarrow as pa

LEVELS = 6
BRANCHING = 4
FINER = Whole(
    "How many times finer each level is.", label="Cells split into", least=2, most=LARGEST_BRANCHING, usual=BRANCHING
)
"""The setting of every verb that asks a hierarchy."""
MOST_FOLLOWED = 16
"""How many cells a series shows over time."""


@overload
def ranges(
    data: Any, column: str, *, lower: float, upper: float, branching: int = ..., levels: int | None = ...,
    by: None = None, groups: None = None, **asking: Unpack[Asking],
) -> Ranges: ...  # fmt: skip
@overload
def ranges(
    data: Any, column: str, *, lower: float, upper: float, branching: int = ..., levels: int | None = ...,
    by: str | Sequence[str], groups: Iterable[Any] | None = ..., **asking: Unpack[Asking],
) -> Grouped[Ranges]: ...  # fmt: skip
@verb
def ranges(
    data: Any,
    column: Annotated[str, Column("The column of numbers.")],
    *,
    lower: Annotated[float, Number("Public lower bound, chosen without the data.", label="From", usual=0)],
    upper: Annotated[float, Number("Public upper bound, chosen without the data.", label="To", usual=1000)],
    branching: Annotated[int, FINER] = BRANCHING,
    levels: Annotated[
        int | None, Whole("Levels of the hierarchy, one round each.", usual=LEVELS, is_rounds=True)
    ] = None,
    by: Annotated[str | Sequence[str] | None, BY] = None,
    groups: Annotated[Iterable[Any] | None, GROUPS] = None,
    **asking: Unpack[Asking],
) -> Ranges | Grouped[Ranges]:
    """How many units lie in any range between public bounds; any number of ranges cost the same as one.

    Guarantee: the total over all levels is (epsilon, delta); what is read off afterwards costs nothing more.

    Args:
        data: a data frame, a path or glob, an array, a list, a `Population` or a `Fleet`.
        column: the column of numbers. Text of a file or of Python objects is read value by value; what is not a number
            is no value.
        lower, upper: public bounds, chosen without looking at the data. A number outside them counts as the nearest
            cell's: a range that reaches a bound includes all beyond it.
        branching: how many times finer each level is than the one before.
        levels: how many levels there are, one round each; 6, or as many as the plan has rounds.
        by: a column to group by, or two: the same for each of their values, in one query at the same price.
        groups: a public list of groups, shown even if nothing of them was released; the answer is restricted to them.
        asking: what every verb takes; see `thresher.verbs.Asking`.

    Returns `Ranges`, off which `count(lo, hi)`, `quantile(q)` and `cdf(x)` are read; with `by`, a `Grouped` with one
    for each group. Raises `InvalidSetting` before anything is charged.

        >>> ages = [random.randrange(100) for _ in range(60_000)]  # 28,200 are from 18 to 64
        >>> found = th.ranges(ages, "value", lower=0, upper=128, epsilon=1, delta=1e-8)
        >>> found.count(18, 65).interval
        (27270, 29058)
    """
    return ask(  # type: ignore[no-any-return]
        "ranges", data, asking, column=column, lower=lower, upper=upper, branching=branching, levels=levels,
        by=by, groups=groups,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class RangesQuery(GroupableQuery):
    """Ranges with their plan: a hierarchy of `plan.rounds` levels of half-open cells between two public bounds.

    Edge cases: units without a number are not counted.
    Reference: paper, section 4.2; docs/privacy.md, sections 6 and 11.
    """

    column: str
    plan: Plan
    lower: float
    upper: float
    branching: int = BRANCHING
    by: tuple[str, ...] = ()
    groups: tuple[Any, ...] | None = None
    verb = "ranges"
    place = 4
    about = "How many devices lie in any range of a number"

    def __post_init__(self) -> None:
        check_hierarchy(self.column, *check_bounds(self.lower, self.upper), self.branching, self.plan)
        self.check_groups()

    @classmethod
    def make(cls, target: Target, **settings: Any) -> RangesQuery:
        """As many rounds as there are levels."""
        levels = target.rounds(settings.pop("levels"), LEVELS, "levels")
        return cls(plan=target.plan(levels), **settings)

    def settings(self) -> dict[str, Any]:
        """Bounds, branching and levels."""
        return {
            "column": self.column,
            "lower": self.lower,
            "upper": self.upper,
            "branching": self.branching,
            "levels": self.plan.rounds,
            **self.group_settings(),
        }

    @property
    def steps(self) -> int:
        """One: all levels are asked at once."""
        return 1

    def rounds(self) -> Rounds:
        """Ask all levels at once: none depends on another."""
        if self.by:
            return (yield from self.ask_groups())
        releases, hierarchy = yield from ask_levels(self.column, self.lower, self.upper, self.branching, self.plan)
        return Ranges(self, releases, hierarchy)

    def describe(self) -> str:
        """For example "ranges of age by city"."""
        return f"ranges of {self.column}{self.by_words}"


@dataclass(frozen=True, slots=True)
class RangeAnswer:
    """Units (or the fraction of all units) from `lower` up to, but not including, `upper`.

    Guarantee: `interval` contains the truth with probability at least `error.confidence`, for a range that was chosen
    without looking at this answer, and it contains the estimate.
    """

    lower: float
    upper: float
    estimate: float
    interval: tuple[float, float]
    error: Error


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Ranges(Answer):
    """The released hierarchy and what can be read off it.

    Estimates use all levels together (see `analytics.consistency`). Intervals use greedy decompositions, whose sampled
    counts are exactly binomial, and add what dropped buckets may hide. A boundary inside a finest cell is interpolated,
    and the interval includes the whole cell.
    """

    query: RangesQuery
    hierarchy: Hierarchy
    reads_ranges = True

    @property
    def column(self) -> str:
        """The column that was asked about."""
        return self.query.column

    def buckets(self, lower: float, upper: float) -> list[tuple[int, int]]:
        """The cells (level, index) that a range is put together from: the fewest that cover it."""
        start, stop = self._positions(lower, upper)
        return decompose(math.floor(start), math.ceil(stop), self.hierarchy.branching, self.hierarchy.levels)

    def count(self, lower: float, upper: float, confidence: float = CONFIDENCE) -> RangeAnswer:
        """How many units hold a number from `lower` up to, but not including, `upper`."""
        start, stop = self._positions(lower, upper)
        tree, rate = self.hierarchy, self.hierarchy.lowest_rate
        bottom, top = tree.count_bounds(start, stop, (1 - confidence) / 2)
        estimate = min(max(tree.curve.at(stop) - tree.curve.at(start), float(bottom)), float(top))
        _, hidden = tree.released(math.floor(start), math.ceil(stop))
        error = Error(
            sampling=count_standard_error(estimate, rate),
            resolution=tree.curve.piece(start) + tree.curve.piece(stop),
            threshold=hidden / rate if start < stop else 0.0,
            bound=max(estimate - bottom, top - estimate),
            confidence=confidence,
        )
        return RangeAnswer(tree.value(start), tree.value(stop), estimate, (bottom, top), error)

    def fraction(self, lower: float, upper: float) -> RangeAnswer:
        """Which part of all units holds a number from `lower` up to, but not including, `upper`.

        Edge cases: the estimate is NaN, between 0 and 1, where nothing was released at all.
        """
        start, stop = self._positions(lower, upper)
        tree = self.hierarchy
        bottom, top = tree.fraction_bounds(start, stop, (1 - CONFIDENCE) / 2)
        ends, total = (tree.value(start), tree.value(stop)), tree.curve.total
        if bottom == top:
            return RangeAnswer(*ends, bottom, (bottom, top), Error(0.0, 0.0, 0.0, 0.0))
        if not total:
            return RangeAnswer(*ends, math.nan, (bottom, top), Error(0.5, 1.0, 1.0, 1.0))
        estimate = min(max((tree.curve.at(stop) - tree.curve.at(start)) / total, bottom), top)
        touched = tree.seen(math.floor(start), math.ceil(stop))
        error = Error(
            sampling=rank_standard_error(estimate, touched.total, tree.lowest_rate),
            resolution=(tree.curve.piece(start) + tree.curve.piece(stop)) / total,
            threshold=touched.threshold_error(),
            bound=max(estimate - bottom, top - estimate),
        )
        return RangeAnswer(*ends, estimate, (bottom, top), error)

    def cdf(self, value: float) -> RangeAnswer:
        """Which part of all units holds a number below a value; 0 at the lower bound, 1 at the upper."""
        return self.fraction(-math.inf, value)

    def quantile(self, probability: float) -> Quantile:
        """The number that this part of all units is below.

        Guarantee: `interval` contains the true quantile (up to the bounds) with probability at least 0.95. `rank` holds
        at that level for any L(β − 1) edges that are chosen in advance; the ones around the answer are not, and tests
        show that it covers them too.
        Edge cases: NaN, with an interval from bound to bound, where nothing was released at all.
        """
        probability = check_quantile(probability)
        tree, tail = self.hierarchy, 1 - CONFIDENCE
        total = tree.curve.total
        if not total:
            return Quantile.unknown(probability, tree.lower, tree.upper)
        first, last = tree.quantile_range(probability, tail)
        position, weight = tree.curve.find(probability * total)
        position = min(max(position, first), last)
        rank = tree.fraction_bounds(0, position, tail / tree.probes)
        below = tree.seen(0, round(position))
        error = Error(
            sampling=rank_standard_error(probability, below.total, tree.lowest_rate),
            resolution=weight / total,
            threshold=below.threshold_error(),
            bound=max(probability - rank[0], rank[1] - probability, 0.0),
        )
        interval = tree.value(first), tree.value(last)
        return Quantile(probability, tree.value(position), interval, rank, error)

    def interval(self, probability: float, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Where the quantile lies with this confidence; from bound to bound where nothing was released at all."""
        tree = self.hierarchy
        if not tree.curve.total:
            return tree.lower, tree.upper
        first, last = tree.quantile_range(check_quantile(probability), 1 - confidence)
        return tree.value(first), tree.value(last)

    def to_arrow(self) -> pa.Table:
        """Every released cell: level, lower, upper, count, estimate and its interval."""
        import pyarrow as pa

        tree = self.hierarchy
        rows: dict[str, list[Any]] = {name: [] for name in ("level", "lower", "upper")}
        numbers: dict[str, list[Any]] = {name: [] for name in ("count", "estimate", "least", "most")}
        for level, release in enumerate(self.releases, start=1):
            width = tree.branching ** (tree.levels - level)
            for row in sorted(release, key=lambda each: each.bucket):
                cell = level, tree.value(row.bucket * width), tree.value((row.bucket + 1) * width)
                for values, value in zip(rows.values(), cell, strict=True):
                    values.append(value)
                for values, value in zip(numbers.values(), (row.count, row.estimate, *row.interval), strict=True):
                    values.append(value)
        kinds = [pa.int64(), pa.float64(), pa.float64(), pa.int64(), pa.float64(), pa.int64(), pa.int64()]
        content = {**rows, **numbers}
        return pa.table(
            {name: pa.array(values, kind) for (name, values), kind in zip(content.items(), kinds, strict=True)}
        )

    def content(self) -> dict[str, Any]:
        """Bounds, branching and released cells."""
        tree = self.hierarchy
        return {
            "lower": tree.lower,
            "upper": tree.upper,
            "branching": tree.branching,
            "cells": self.to_arrow().to_pylist(),
        }

    def shown(self) -> Shown:
        """One row a released cell."""
        fields = (Field("cell", self.column, "label"), Field("level", "Level"), *COUNTS)
        rows = [
            (
                (f"{number_text(cell['lower'])} to {number_text(cell['upper'])}", cell["lower"]),
                *(cell[name] for name in ("level", "estimate", "least", "most", "count")),
            )
            for cell in self.to_arrow().to_pylist()
        ]
        return Shown(fields, rows, "level")

    def readings(self, confidence: float = CONFIDENCE, ranges: Sequence[tuple[float, float]] = ()) -> Readings:
        """One reading for each of the given ranges.

        By default a range is a cell of the finest level that has at most sixteen, or of the coarsest. Each is read off
        all levels, as `count` reads it, so a cell that was below the threshold has a reading too.
        """
        import pyarrow as pa

        rows = []
        for low, high in ranges or self._coarse():
            found = self.count(low, high, confidence)
            label = f"{number_text(found.lower)} to {number_text(found.upper)}"
            rows.append(Reading((found.lower, found.upper), label, found.estimate, *found.interval))
        keys = (("from", pa.float64()), ("to", pa.float64()))
        return Readings(keys, tuple(rows), ordered=True, fixed=True)

    def _coarse(self) -> list[tuple[float, float]]:
        """The cells that are followed where nobody chose ranges."""
        tree = self.hierarchy
        level = max((each for each in range(1, tree.levels + 1) if tree.branching**each <= MOST_FOLLOWED), default=1)
        width = tree.cells // tree.branching**level
        return [(tree.value(start), tree.value(start + width)) for start in range(0, tree.cells, width)]

    def compared(self, truth: Truth, ranges: Sequence[tuple[float, float]] = ()) -> list[Line]:
        """Each of the given ranges with the number that truly lie in it."""
        numbers = truth.numbers()
        lines = []
        for low, high in ranges:
            found = self.count(low, high)
            true = int(((numbers >= low) & (numbers < high)).sum())
            lines.append(Line(f"from {low:g} up to {high:g}", found.estimate, *found.interval, true))
        return lines

    def band(self, points: int = 200) -> tuple[list[float], list[float], list[float], list[float]]:
        """The distribution at evenly spaced values: values, ranks, and pointwise 95 % bounds of the ranks."""
        values = np.linspace(self.hierarchy.lower, self.hierarchy.upper, points + 1).tolist()
        answers = [self.cdf(value) for value in values]
        known = self.hierarchy.curve.total > 0
        return (
            values,
            [answer.estimate if known else math.nan for answer in answers],
            [answer.interval[0] for answer in answers],
            [answer.interval[1] for answer in answers],
        )

    def plot(self, path: str | Path | None = None) -> Any:
        """The distribution with its band. `path` ends in .png, .svg or .html; needs the extra `plot`."""
        from thresher import charts

        chart = charts.distribution(
            *self.band(),
            title=f"Distribution of {self.column}",
            subtitle=self.promise(),
            note="Band: 95 % at each value, with all that the threshold may hide.",
            whom=self.stands_for,
        )
        return charts.show(chart, path)

    def __repr__(self) -> str:
        tree = self.hierarchy
        return f"<Ranges of {self.column}: {tree.levels} levels, {tree.cells:,} cells, {self.promise()}>"

    def _positions(self, lower: float, upper: float) -> tuple[float, float]:
        """A range cut to the public bounds, as positions."""
        if not lower <= upper:
            raise InvalidSetting("range", "must have its lower end at or below its upper end, both numbers")
        return self.hierarchy.position(float(lower)), self.hierarchy.position(float(upper))
