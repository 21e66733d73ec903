"""Ranges: how many units lie in any range of a number, from one hierarchy of cells."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, Unpack, overload

import numpy as np

from thresher.errors import InvalidSetting
from thresher.mechanism.common_rates import rows_at
from thresher.privacy.plans import Plan
from thresher.questions.question import half_open, number_text
from thresher.verbs.accuracy import (
    CONFIDENCE,
    Error,
    Quantile,
    check_bounds,
    check_quantile,
    clipped_in_words,
    count_standard_error,
    rank_standard_error,
)
from thresher.verbs.answer import COUNTS, Answer, Field, Line, Shown, Truth
from thresher.verbs.asking import Asking, Target, ask, verb
from thresher.verbs.grid import LARGEST_BRANCHING, Grid, grid_of
from thresher.verbs.grouping import BY, GROUPS, GroupableQuery
from thresher.verbs.groups import Grouped
from thresher.verbs.hierarchy import Hierarchy, ask_levels, decompose
from thresher.verbs.query import Rounds
from thresher.verbs.readings import Reading, Readings, below
from thresher.verbs.settings import Column, Number, Whole, YesNo
from thresher.verbs.windows import TAIL, Window, window_of

if TYPE_CHECKING:
    import pyarrow as pa

LEVELS = 6
FINER = Whole(
    "How many times finer each level is; 4, or as whole numbers need it.",
    label="Cells split into",
    earlier=4,
    least=2,
    most=LARGEST_BRANCHING,
)
WHOLE = YesNo(
    "Whether the values are whole numbers; then answers are, and cells have a whole number at each edge.",
    label="Whole numbers",
)
"""Settings of every verb that asks a hierarchy."""
_POINTS = 200
"""At so many steps a picture of the distribution is computed."""
_SUMMARY = (0.05, 0.25, 0.5, 0.75, 0.95)
"""The quantiles that `print` shows."""
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
    branching: Annotated[int | None, FINER] = None,
    levels: Annotated[
        int | None, Whole("Levels of the hierarchy, one round each.", usual=LEVELS, is_rounds=True)
    ] = None,
    whole: Annotated[bool | None, WHOLE] = None,
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
        lower, upper: public bounds, chosen without looking at the data. Numbers outside them count as at the nearest,
            which is bias: a range that reaches a bound includes all beyond it.
        branching: how many times finer each level is than the one before: 4 by default, or for whole numbers the
            smallest with which the finest cells are single numbers, if one up to 8 is enough.
        levels: how many levels there are, one round each; 6, or as many as the plan has rounds.
        whole: whether the values are whole numbers. A table's own schema says so where it is left out; a fleet's
            values, and text, are taken for any numbers.
        by: a column to group by, or two: the same for each of their values, in one query at the same price.
        groups: a public list of groups, shown even if nothing of them was released; the answer is restricted to them.
        asking: what every verb takes; see `thresher.verbs.Asking`.

    Returns `Ranges`, off which `count(lo, hi)`, `quantile(q)` and `cdf(x)` are read; with `by`, a `Grouped` with one
    for each group. Raises `InvalidSetting` before anything is charged.

        >>> ages = [random.randrange(100) for _ in range(60_000)]  # 28,200 are from 18 to 64
        >>> found = th.ranges(ages, "value", lower=0, upper=128, epsilon=1, delta=1e-8)
        >>> found.count(18, 65).interval
        (27730, 28588)
    """
    return ask(  # type: ignore[no-any-return]
        "ranges", data, asking, column=column, lower=lower, upper=upper, branching=branching, levels=levels,
        whole=whole, by=by, groups=groups,
    )  # fmt: skip


_BEYOND = (
    "Values beyond a bound count as at the bound, so nothing is known of them alone. An end that is inf or -inf "
    "includes them all."
)


def _written(number: float) -> str:
    return number_text(float(number))


def chosen(**settings: Any) -> dict[str, Any]:
    """The settings that somebody gave."""
    return {name: value for name, value in settings.items() if value is not None}


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
    branching: int | None = None
    whole: bool | None = None
    by: tuple[str, ...] = ()
    groups: tuple[Any, ...] | None = None
    verb = "ranges"
    bucket = "a cell with {}"
    place = 4
    about = "How many devices lie in any range of a number"
    before: ClassVar[Mapping[str, Any]] = {**GroupableQuery.before, "whole": False}

    def __post_init__(self) -> None:
        self.grid.questions(self.column)
        self.check_groups()

    @property
    def grid(self) -> Grid:
        """The cells of all levels."""
        bounds = check_bounds(self.lower, self.upper)
        return grid_of(*bounds, self.branching, self.plan.rounds, bool(self.whole))

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
            "levels": self.plan.rounds,
            **chosen(branching=self.branching, whole=self.whole),
            **self.group_settings(),
        }

    def with_kinds(self, whole: Callable[[str], bool]) -> RangesQuery:
        """Whole numbers where the column's public type says so and the caller did not."""
        return replace(self, whole=whole(self.column)) if self.whole is None else self

    @property
    def steps(self) -> int:
        """One: all levels are asked at once."""
        return 1

    def rounds(self) -> Rounds:
        """Ask all levels at once: none depends on another."""
        if self.by:
            return (yield from self.ask_groups())
        releases, hierarchy = yield from ask_levels(self.column, self.grid, self.plan)
        return Ranges(self, releases, hierarchy)

    @property
    def clipping(self) -> str:
        """What happens to values outside the bounds."""
        return clipped_in_words(self.lower, self.upper)

    def check_range(self, lower: float, upper: float) -> None:
        """Refuse a range that cannot be read off the answer: one with an end outside the bounds.

        An infinite end stands for everything below or above, with the values that count as at the bound.
        """
        if not lower <= upper:
            raise InvalidSetting("range", "must have its lower end at or below its upper end, both numbers")
        asked = f"from {_written(lower)} to {_written(upper)}"
        if not (self.reaches(lower) and self.reaches(upper)):
            raise InvalidSetting("range", f"{asked} {self._not_between}", hint=_BEYOND)
        if lower < upper and (upper <= self.lower or lower >= self._end):
            raise InvalidSetting(
                "range",
                f"{asked} has only values beyond a bound in it, {_written(self.lower)} or {_written(self.upper)}",
                hint="They count as at the bound: let the range begin or end between the bounds.",
            )

    def check_value(self, value: float) -> None:
        """Refuse a value that the distribution cannot be read at."""
        if not self.reaches(value):
            raise InvalidSetting("value", f"{_written(value)} {self._not_between}", hint=_BEYOND)

    def reaches(self, end: float) -> bool:
        """Whether a range may end there: between the bounds, or at an infinity.

        Edge cases: of whole numbers, the last is in a range that ends at the next one, also above the upper bound.
        """
        return self.lower <= end <= self._end or math.isinf(end)

    @property
    def _end(self) -> float:
        last = self.grid.last
        return self.upper if last is None else max(self.upper, last + 1)

    @property
    def _not_between(self) -> str:
        return f"does not lie between the bounds, {_written(self.lower)} and {_written(self.upper)}"

    def describe(self) -> str:
        """For example "ranges of age by city"."""
        return f"ranges of {self.column}{self.by_words}"


@dataclass(frozen=True, slots=True)
class RangeAnswer:
    """Units (or the fraction of all units) from `lower` up to, but not including, `upper`.

    `interval` contains the estimate, and the truth with probability `error.confidence`, for a range that was chosen
    without looking at this answer. The probability is measured, not proved: see docs/privacy.md, section 9.
    """

    lower: float
    upper: float
    estimate: float
    interval: tuple[float, float]
    error: Error


class _Span(NamedTuple):
    """A range by the positions of its ends among the finest cells, and by the ends themselves."""

    start: float
    stop: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Ranges(Answer):
    """The released hierarchy and what can be read off it.

    Estimates use all levels together (see `consistency`), and so do intervals (see `plausible`), which are never wider
    than what is proved from the fewest cells that make up a range, with all that dropped cells may hide. A boundary
    inside a finest cell is interpolated, and the interval includes the whole cell.

    A range has its ends between the bounds of the query, or is infinite at an end: then it has everything below or
    above in it, also the values beyond the bound, which count as at the bound. Any other raises `InvalidSetting`.
    """

    query: RangesQuery
    hierarchy: Hierarchy
    reads_ranges = True
    pairs = {"cell": ("lower", "upper"), "95 % interval": ("least", "most")}  # noqa: RUF012

    @property
    def column(self) -> str:
        """The column that was asked about."""
        return self.query.column

    def buckets(self, lower: float, upper: float) -> list[tuple[int, int]]:
        """The cells (level, index) that a range is put together from: the fewest that cover it."""
        start, stop, *_ = self._span(lower, upper)
        return decompose(math.floor(start), math.ceil(stop), self.hierarchy.branching, self.hierarchy.levels)

    def count(self, lower: float, upper: float, confidence: float = CONFIDENCE) -> RangeAnswer:
        """How many units hold a number from `lower` up to, but not including, `upper`."""
        span = self._span(lower, upper)
        (start, stop), ends = span[:2], span[2:]
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
        return RangeAnswer(*ends, estimate, (bottom, top), error)

    def fraction(self, lower: float, upper: float) -> RangeAnswer:
        """Which part of all units holds a number from `lower` up to, but not including, `upper`.

        Edge cases: the estimate is NaN, between 0 and 1, where nothing was released at all.
        """
        return self._fraction(self._span(lower, upper))

    def _fraction(self, span: _Span) -> RangeAnswer:
        (start, stop), ends = span[:2], span[2:]
        tree = self.hierarchy
        bottom, top = tree.fraction_bounds(start, stop, (1 - CONFIDENCE) / 2)
        total = tree.curve.total
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
        self.query.check_value(value)
        return self._fraction(self._below(value))

    def quantile(self, probability: float) -> Quantile:
        """The number that this part of all units is below.

        `interval` contains the true quantile (up to the bounds) with probability 0.95, and `rank` the true rank of the
        answer: of whole numbers, which part may lie below it at least, and which part at or below it at most. These
        probabilities are measured, not proved: see docs/privacy.md, section 9.
        Edge cases: NaN, with an interval from bound to bound, where nothing was released at all.
        """
        probability = check_quantile(probability)
        tree, tail = self.hierarchy, (1 - CONFIDENCE) / 2
        total = tree.curve.total
        if not total:
            return Quantile.unknown(probability, *self.interval(probability))
        first, last = tree.quantile_range(probability, 2 * tail)
        position, weight = tree.curve.find(probability * total)
        position = min(max(position, first), last)
        below = tree.seen(0, round(position))
        if tree.last is None:
            value = tree.value(position)
            rank = tree.fraction_bounds(0, position, tail)
            bound = max(probability - rank[0], rank[1] - probability, 0.0)
        else:
            value = min(int(tree.lower) + max(math.ceil(position * tree.width - 1e-9) - 1, 0), tree.last)
            under = tree.fraction_bounds(0, tree.position(value), tail)
            reached = tree.fraction_bounds(0, tree.position(value + 1), tail)
            rank = under[0], reached[1]
            bound = max(under[1] - probability, probability - reached[0], 0.0)
            weight = 0.0 if tree.width == 1 else weight
        error = Error(
            sampling=rank_standard_error(probability, below.total, tree.lowest_rate),
            resolution=weight / total,
            threshold=below.threshold_error(),
            bound=bound,
        )
        return Quantile(probability, value, self.values_between(first, last), rank, error)

    def interval(self, probability: float, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Where the quantile lies with this confidence; from bound to bound where nothing was released at all."""
        return self.values_between(*self.hierarchy.quantile_range(check_quantile(probability), 1 - confidence))

    def values_between(self, first: int, last: int) -> tuple[float, float]:
        """The least and the largest number between two edges; of whole numbers, whole ones."""
        tree = self.hierarchy
        if tree.last is None:
            return tree.value(first), tree.value(last)
        least, most = (int(tree.lower + edge * tree.width) for edge in (first, last))
        return min(least, tree.last), min(most - 1, tree.last)

    def to_arrow(self) -> pa.Table:
        """Every released cell: level, lower, upper, count, estimate and its interval."""
        import pyarrow as pa

        tree = self.hierarchy
        rows: dict[str, list[Any]] = {name: [] for name in ("level", "lower", "upper")}
        numbers: dict[str, list[Any]] = {name: [] for name in ("count", "estimate", "least", "most")}
        for level, (release, rate) in enumerate(zip(self.releases, tree.rates, strict=True), start=1):
            width = tree.branching ** (tree.levels - level)
            for row in sorted(rows_at(release, rate), key=lambda each: each.bucket):
                cell = level, *(tree.lower + edge * width * tree.width for edge in (row.bucket, row.bucket + 1))
                for values, value in zip(rows.values(), cell, strict=True):
                    values.append(value)
                for values, value in zip(numbers.values(), (row.count, row.estimate, *row.interval), strict=True):
                    values.append(value)
        kinds = [pa.int64(), pa.float64(), pa.float64(), pa.int64(), pa.float64(), pa.int64(), pa.int64()]
        content = {**rows, **numbers}
        return pa.table(
            {name: pa.array(values, kind) for (name, values), kind in zip(content.items(), kinds, strict=True)}
        )

    def more(self) -> dict[str, Any]:
        """Bounds and branching of the cells."""
        tree = self.hierarchy
        return {"lower": tree.lower, "upper": tree.upper, "branching": tree.branching}

    def shown(self) -> Shown:
        """One row a released cell."""
        fields = (Field("cell", self.column, "label"), Field("level", "Level"), *COUNTS)
        rows = [
            (
                (half_open(cell["lower"], cell["upper"]), cell["lower"]),
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
            label = half_open(found.lower, found.upper)
            rows.append(Reading((found.lower, found.upper), label, found.estimate, *found.interval))
        keys = (("from", pa.float64()), ("to", pa.float64()))
        return Readings(keys, tuple(rows), ordered=True, fixed=True)

    def _coarse(self) -> list[tuple[float, float]]:
        """The cells that are followed where nobody chose ranges."""
        tree = self.hierarchy
        level = max((each for each in range(1, tree.levels + 1) if tree.branching**each <= MOST_FOLLOWED), default=1)
        width = tree.cells // tree.branching**level
        cells = [(tree.value(start), tree.value(start + width)) for start in range(0, tree.cells, width)]
        return [(low, high) for low, high in cells if low < high]

    def compared(self, truth: Truth, ranges: Sequence[tuple[float, float]] = ()) -> list[Line]:
        """Each of the given ranges with the number that truly lie in it."""
        numbers = truth.numbers()
        lines = []
        for low, high in ranges:
            found = self.count(low, high)
            true = int(((numbers >= low) & (numbers < high)).sum())
            lines.append(Line(f"from {low:g} up to {high:g}", found.estimate, *found.interval, true))
        return lines

    def window(self, marks: Sequence[float] = (), intervals: Sequence[float] = ()) -> Window:
        """Where nearly all units are, and these marks with their intervals; see `window_of`.

        Edge cases: the whole range where nothing was released at all.
        """
        tree = self.hierarchy
        low, high = tree.lower, tree.upper if tree.last is None else tree.last + 1
        total = tree.curve.total
        if not total:
            return Window(low, high)
        ends = [tree.value(tree.curve.find(part * total)[0]) for part in (TAIL, 1 - TAIL)]
        return window_of([*ends, *marks], low, high, (self.query.lower, self.query.upper), intervals)

    def band(self, within: Window | None = None) -> tuple[list[float], list[float], list[float], list[float]]:
        """The distribution at evenly spaced values: values, ranks, and pointwise 95 % bounds of the ranks."""
        low, high, _ = within or self.window()
        values = np.linspace(low, high, _POINTS + 1).tolist()
        answers = [self._fraction(self._below(value)) for value in values]
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
            subtitle=self.footing(),
            note=f"Band: 95 % at each value, with what the threshold may hide. {self.window().in_words()}".rstrip(),
            whom=self.stands_for,
        )
        return charts.show(chart, path)

    def summary(self, most: int) -> tuple[Sequence[Reading], int]:
        """A few quantiles: they say in a few rows where the units are."""
        return [below(self.quantile(probability)) for probability in _SUMMARY[:most]], 0

    def __repr__(self) -> str:
        tree = self.hierarchy
        return f"<Ranges of {self.column}: {tree.levels} levels, {tree.cells:,} cells, {self.closing()}>"

    def range_ends(self, lower: float, upper: float) -> tuple[float, float]:
        """The ends that a range is read with: whole numbers where the numbers are, a bound for an infinity."""
        span = self._span(lower, upper)
        return span.lower, span.upper

    def _span(self, lower: float, upper: float) -> _Span:
        self.query.check_range(lower, upper)
        start, stop = (self.hierarchy.position(float(end)) for end in (lower, upper))
        return _Span(start, stop, self._used(lower, start), self._used(upper, stop))

    def _below(self, value: float) -> _Span:
        stop = self.hierarchy.position(float(value))
        return _Span(0.0, stop, self.hierarchy.lower, self._used(value, stop))

    def _used(self, end: float, position: float) -> float:
        """The end that a position stands for: the one that was asked for, unless it was moved."""
        found = self.hierarchy.value(position)
        same = math.isclose(found, end, rel_tol=1e-12, abs_tol=1e-9 * self.hierarchy.width)
        return float(end) if same else found
