"""How many units lie in any range, from one hierarchy of cells."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from thresher.errors import InvalidSetting
from thresher.privacy.plans import Plan
from thresher.questions.population import Population, Progress
from thresher.verbs.accuracy import CONFIDENCE, Error, count_standard_error, rank_standard_error
from thresher.verbs.hierarchy import Hierarchy, ask_levels, check_hierarchy, decompose
from thresher.verbs.quantile import Quantile, check_bounds, check_quantile
from thresher.verbs.rounds import Answer, Rounds

if TYPE_CHECKING:
    import pyarrow as pa


def ranges(
    population: Population,
    column: str,
    plan: Plan,
    *,
    lower: float,
    upper: float,
    branching: int = 4,
    progress: Progress | None = None,
) -> Ranges:
    """Ask for a hierarchy of `plan.rounds` levels of half-open cells between two public bounds.

    A number outside the bounds counts as the nearest cell's: a range that reaches a bound includes all beyond it.

    Guarantee: the plan's, over all levels. Every range, fraction and quantile is post-processing.
    Edge cases: bounds must be chosen without looking at the data. Units without a number are not counted.
    Reference: paper, section 4.2; docs/privacy.md, sections 6 and 10.
    """
    low, high = check_bounds(lower, upper)
    branching = check_hierarchy(column, low, high, branching, plan)
    rounds = Rounds(population, plan, progress)
    hierarchy = ask_levels(rounds, column, low, high, branching)
    return Ranges(plan, tuple(rounds.releases), column, hierarchy)


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

    column: str
    hierarchy: Hierarchy

    def buckets(self, lower: float, upper: float) -> list[tuple[int, int]]:
        """The cells (level, index) that a range is put together from: the fewest that cover it."""
        start, stop = self._positions(lower, upper)
        return decompose(math.floor(start), math.ceil(stop), self.hierarchy.branching, self.hierarchy.levels)

    def count(self, lower: float, upper: float) -> RangeAnswer:
        """How many units hold a number from `lower` up to, but not including, `upper`."""
        start, stop = self._positions(lower, upper)
        tree, rate = self.hierarchy, self.hierarchy.lowest_rate
        bottom, top = tree.count_bounds(start, stop, (1 - CONFIDENCE) / 2)
        estimate = min(max(tree.curve.at(stop) - tree.curve.at(start), float(bottom)), float(top))
        _, hidden = tree.released(math.floor(start), math.ceil(stop))
        error = Error(
            sampling=count_standard_error(estimate, rate),
            resolution=tree.curve.piece(start) + tree.curve.piece(stop),
            threshold=hidden / rate if start < stop else 0.0,
            bound=max(estimate - bottom, top - estimate),
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

    def to_json(self) -> str:
        """Bounds, released cells, plan and promise as JSON."""
        content = {
            "column": self.column,
            "promise": self.promise(),
            "private": self.private,
            "plan": self.plan.to_dict(),
            "lower": self.hierarchy.lower,
            "upper": self.hierarchy.upper,
            "branching": self.hierarchy.branching,
            "cells": self.to_arrow().to_pylist(),
        }
        return json.dumps(content, ensure_ascii=False, allow_nan=False)

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
