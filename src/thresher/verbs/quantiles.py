"""Quantiles of a number: a binary search, or all of them from one hierarchy."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Unpack, overload

import numpy as np

from thresher.errors import InvalidSetting, NotReleased
from thresher.mechanism.common_rates import common_rates
from thresher.privacy.plans import Plan
from thresher.questions import Below
from thresher.verbs.accuracy import (
    CONFIDENCE,
    Error,
    Quantile,
    check_bounds,
    check_quantile,
    clipped_in_words,
    rank_standard_error,
)
from thresher.verbs.answer import Answer, Field, Line, Shown, Truth
from thresher.verbs.asking import Asking, Target, ask, verb
from thresher.verbs.grouping import BY, GROUPS, GroupableQuery
from thresher.verbs.groups import Grouped
from thresher.verbs.quantile_search import Splits, interpolate, search, steps_of
from thresher.verbs.query import Query, Rounds
from thresher.verbs.ranges import FINER, LEVELS, WHOLE, Ranges, RangesQuery, chosen
from thresher.verbs.readings import Reading, Readings, below
from thresher.verbs.settings import Choice, Column, Number, Numbers, Whole
from thresher.verbs.windows import TAIL, Window, window_of

if TYPE_CHECKING:
    import pyarrow as pa

Method = Literal["search", "hierarchy"]
Band = tuple[list[float], list[float], list[float], list[float]]
STEPS = 10
_HIERARCHY = ("method", "hierarchy")


@overload
def quantiles(
    data: Any, column: str, probabilities: float | Sequence[float], *, lower: float, upper: float, method: Method = ...,
    steps: int | None = ..., levels: int | None = ..., branching: int = ..., by: None = None, groups: None = None,
    **asking: Unpack[Asking],
) -> Quantiles: ...  # fmt: skip
@overload
def quantiles(
    data: Any, column: str, probabilities: float | Sequence[float], *, lower: float, upper: float, method: Method = ...,
    steps: int | None = ..., levels: int | None = ..., branching: int = ..., by: str | Sequence[str],
    groups: Iterable[Any] | None = ..., **asking: Unpack[Asking],
) -> Grouped[Quantiles]: ...  # fmt: skip
@verb
def quantiles(
    data: Any,
    column: Annotated[str, Column("The column of numbers.")],
    probabilities: Annotated[
        float | Sequence[float],
        Numbers(
            "The quantiles, as numbers between 0 and 1.",
            label="Quantiles",
            option="quantile",
            usual="0.25, 0.5, 0.75, 0.95",
        ),
    ],
    *,
    lower: Annotated[float, Number("Public lower bound, chosen without the data.", label="From", usual=0)],
    upper: Annotated[float, Number("Public upper bound, chosen without the data.", label="To", usual=1000)],
    method: Annotated[
        Method,
        Choice(
            "hierarchy takes a few rounds for any number of quantiles; search takes several rounds for each.",
            usual="hierarchy",
            options={
                "hierarchy": "Hierarchy: a few rounds for any number of quantiles",
                "search": "Binary search: several rounds for each quantile",
            },
        ),
    ] = "hierarchy",
    steps: Annotated[
        int | None,
        Whole(
            "Rounds of search for each quantile.",
            label="Steps a quantile",
            usual=STEPS,
            only=("method", "search"),
            is_rounds=True,
        ),
    ] = None,
    levels: Annotated[
        int | None, Whole("Levels of the hierarchy, one round each.", usual=LEVELS, only=_HIERARCHY, is_rounds=True)
    ] = None,
    branching: Annotated[int | None, replace(FINER, only=_HIERARCHY)] = None,
    whole: Annotated[bool | None, WHOLE] = None,
    by: Annotated[str | Sequence[str] | None, replace(BY, only=_HIERARCHY)] = None,
    groups: Annotated[Iterable[Any] | None, replace(GROUPS, only=_HIERARCHY)] = None,
    **asking: Unpack[Asking],
) -> Quantiles | Grouped[Quantiles]:
    """Quantiles: for each probability q, the value that a fraction q of all units lies below, between public bounds.

    Guarantee: the total over all rounds is (epsilon, delta). Each answer states its error from sampling, resolution
    and threshold.

    Args:
        data: a data frame, a path or glob, an array, a list, a `Population` or a `Fleet`.
        column: the column of numbers. Text of a file or of Python objects is read value by value; what is not a number
            is no value.
        probabilities: one number between 0 and 1, or several.
        lower, upper: public bounds, chosen without looking at the data. Numbers outside them count as at the nearest,
            which is bias.
        method: "hierarchy" takes `levels` rounds of cells (see `ranges`) for any number of quantiles; "search" takes
            `steps` rounds of binary search for each of them and shares every released split among all. A fleet is asked
            all levels, or one split for each quantile, at the same time.
        steps: rounds of search for each quantile; 10 by default.
        levels: rounds of the hierarchy; 6 by default.
        branching: how many times finer each level is than the one before; see `ranges`.
        whole: whether the values are whole numbers; then quantiles are: the smallest number that at least the wanted
            part of all units is at or below. See `ranges`.
        by: a column to group by, or two: the same for each of their values, in one query at the same price. It needs
            the hierarchy: a search asks about all units together.
        groups: a public list of groups, shown even if nothing of them was released; the answer is restricted to them.
        asking: what every verb takes; see `thresher.verbs.Asking`.

    Returns `Quantiles`; with `by`, a `Grouped` with one for each group. Raises `InvalidSetting` before anything is
    charged.

        >>> latencies = [random.lognormvariate(5.5, 1) for _ in range(100_000)]  # half are below 245
        >>> bounds = {"lower": 0, "upper": 60_000}
        >>> found = th.quantiles(latencies, "value", 0.5, **bounds, epsilon=1, delta=1e-8)
        >>> found[0.5].interval
        (234.375, 249.0234375)
    """
    return ask(  # type: ignore[no-any-return]
        "quantiles", data, asking, column=column, probabilities=probabilities, lower=lower, upper=upper, method=method,
        steps=steps, levels=levels, branching=branching, whole=whole, by=by, groups=groups,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class QuantilesQuery(GroupableQuery):
    """Quantiles with their plan.

    "search" spends `plan.rounds` ÷ (number of quantiles) rounds on each. Of several quantiles it asks one split each at
    the same time (`together`); queries that 0.1.0 stored asked them in turn, and still do.

    Edge cases: a side of a split that was dropped counts as zero, and `error.threshold` says how much that can be.
    Where nothing was released at all the value is NaN.
    Reference: paper, section 4.2; docs/privacy.md, sections 6 and 11.
    """

    column: str
    probabilities: tuple[float, ...]
    plan: Plan
    lower: float
    upper: float
    method: Method = "hierarchy"
    branching: int | None = None
    whole: bool | None = None
    by: tuple[str, ...] = ()
    groups: tuple[Any, ...] | None = None
    together: bool = True
    verb = "quantiles"
    bucket = "a cell with {}"
    place = 3
    about = "The value that a given part of all devices lies below"
    before: ClassVar[Mapping[str, Any]] = {**GroupableQuery.before, "whole": False, "together": False}

    def __post_init__(self) -> None:
        checked = tuple(check_quantile(probability) for probability in self.probabilities)
        if not checked or len(set(checked)) < len(checked):
            raise InvalidSetting("probabilities", "must be at least one number between 0 and 1, each only once")
        object.__setattr__(self, "probabilities", checked)
        low, high = check_bounds(self.lower, self.upper)
        self.check_groups()
        several = self.method == "search" and len(checked) > 1
        object.__setattr__(self, "together", self.together and several)  # of one quantile there is only one way
        if self.method == "hierarchy":
            _ = self._hierarchy
            return
        if self.method != "search":
            raise InvalidSetting("method", "must be 'search' or 'hierarchy'")
        if self.by:
            raise InvalidSetting(
                "by", "needs method='hierarchy'", hint="A search asks about all units together, not group by group."
            )
        if self.plan.rounds < len(checked):
            raise InvalidSetting(
                "rounds",
                f"must be at least one for each of the {len(checked)} quantiles, the plan has {self.plan.rounds}",
                hint="Plan with about ten rounds for each, or use `method='hierarchy'`.",
            )
        if not low < low + (high - low) / 2 < high:
            raise InvalidSetting(
                "upper", "must be further above lower: no number is between them to split the range at"
            )
        Below(self.column, low)

    @classmethod
    def make(cls, target: Target, **settings: Any) -> QuantilesQuery:
        """Steps times quantiles, or levels, are the number of rounds; a plan that is given has its own."""
        steps, levels, wanted = settings.pop("steps"), settings.pop("levels"), settings.pop("probabilities")
        wanted = tuple(wanted) if isinstance(wanted, Iterable) else (wanted,)
        if settings["method"] == "search":
            rounds = target.rounds(steps, STEPS, "steps", max(1, len(wanted)))
        else:
            rounds = target.rounds(levels, LEVELS, "levels")
        return cls(probabilities=wanted, plan=target.plan(rounds), **settings)

    def settings(self) -> dict[str, Any]:
        """Bounds, method, and the settings that matter to the method."""
        rounds = self.plan.rounds
        if self.method == "search":
            method: dict[str, Any] = {"steps": rounds // len(self.probabilities)}
        else:
            method = {"levels": rounds, **chosen(branching=self.branching)}
        bounds = {"lower": self.lower, "upper": self.upper}
        wanted = list(self.probabilities)
        asked = {"column": self.column, "probabilities": wanted, **bounds, "method": self.method, **method}
        return asked | chosen(whole=self.whole) | self.group_settings()

    def with_kinds(self, whole: Callable[[str], bool]) -> QuantilesQuery:
        """Whole numbers where the column's public type says so and the caller did not."""
        return replace(self, whole=whole(self.column)) if self.whole is None else self

    @property
    def _hierarchy(self) -> RangesQuery:
        return RangesQuery(self.column, self.plan, self.lower, self.upper, self.branching, self.whole)

    @property
    def steps(self) -> int:
        """One for a hierarchy; a search asks one split for each quantile at once."""
        if self.method == "hierarchy":
            return 1
        return steps_of(self.plan, self.probabilities) if self.together else self.plan.rounds

    def rounds(self) -> Rounds:
        """Ask one split for each quantile at once, step by step; or all levels at once."""
        if self.by:
            return (yield from self.ask_groups())
        if self.method == "hierarchy":
            tree: Ranges = yield from self._hierarchy.rounds()
            found = tuple(tree.quantile(probability) for probability in self.probabilities)
            return Quantiles(self, tree.releases, found, tree)
        releases, splits = yield from search(
            self.column, self.probabilities, float(self.lower), float(self.upper), self.plan, together=self.together
        )
        rate = min(common_rates(releases), default=self.plan.sampling_rate)
        found = tuple(_from_splits(splits, probability, rate, bool(self.whole)) for probability in self.probabilities)
        return Quantiles(self, releases, found, splits)

    @property
    def clipping(self) -> str:
        """What happens to values outside the bounds."""
        return clipped_in_words(self.lower, self.upper)

    def describe(self) -> str:
        """For example "quantiles of latency, search"."""
        return f"quantiles of {self.column}{self.by_words}, {self.method}"

    def too_large(self, fits: Callable[[Query], bool], most: str) -> InvalidSetting:
        """There are too many groups or quantiles."""
        if self.groups is not None and fits(replace(self, groups=None)):
            return GroupableQuery.too_large(self, fits, most)
        return InvalidSetting("query", "is too long for a fleet", hint="Ask for fewer quantiles at a time.")


def _from_splits(splits: Splits, probability: float, rate: float, whole: bool) -> Quantile:
    """The quantile on the curve of all splits, with bounds that hold for all quantiles of the query at once.

    Whole numbers below a split are those up to the last one before it.
    """
    if not any(point.seen.total for point in splits.points):
        return Quantile.unknown(probability, splits.lower, splits.upper)
    left, right, low, high = splits.bracket(probability)
    positions = [point.at for point in splits.points]
    lows, highs = splits.bounds(1 - CONFIDENCE)
    interval = splits.interval(probability)
    value = min(max(interpolate(probability, left, right, low, high), interval[0]), interval[1])
    before, after = bisect_right(positions, value), bisect_left(positions, value)
    rank = (lows[before - 1] if before else 0.0, highs[after] if after < len(highs) else 1.0)
    ends = [point.seen.threshold_error() for point in splits.points if point.at in (left, right)]
    error = Error(
        sampling=rank_standard_error(probability, splits.nearest(value).total, rate),
        resolution=high - low,
        threshold=max(ends, default=0.0),
        bound=max(probability - rank[0], rank[1] - probability, 0.0),
    )
    if whole:
        least = math.ceil(interval[0])
        value, most = (max(math.ceil(number) - 1, least) for number in (value, interval[1]))
        interval = least, most
    return Quantile(probability, value, interval, rank, error)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Quantiles(Answer):
    """Found quantiles, in the order asked, and the released splits or hierarchy they were read from."""

    query: QuantilesQuery
    quantiles: tuple[Quantile, ...]
    source: Splits | Ranges
    details = frozenset({"rank_lower", "rank_upper", "sampling_error", "resolution_error", "threshold_error"})

    @property
    def column(self) -> str:
        """The column that was asked about."""
        return self.query.column

    def __len__(self) -> int:
        return len(self.quantiles)

    def __iter__(self) -> Iterator[Quantile]:
        return iter(self.quantiles)

    def __getitem__(self, probability: float) -> Quantile:
        for found in self.quantiles:
            if found.probability == probability:
                return found
        raise NotReleased("This quantile was not asked for.", hint="A hierarchy has them all: ask for ranges.")

    def to_arrow(self) -> pa.Table:
        """One row a quantile: probability, value, its interval, its rank's interval, and the parts of the error."""
        import pyarrow as pa

        rows = [_plain(found) for found in self.quantiles]
        return pa.table({name: pa.array([row[name] for row in rows], pa.float64()) for name in rows[0]})

    def to_dict(self) -> dict[float, float]:
        """Probability to value."""
        return {found.probability: found.value for found in self.quantiles}

    def shown(self) -> Shown:
        """One row a quantile."""
        fields = (
            Field("part", "Part of devices", "label", about="that checked in"),
            Field("value", "is below", "amount", about=self.column),
            Field("lower", "At least", "amount", about="95 %"),
            Field("upper", "At most", "amount", about="95 %"),
            Field("bound", "Off by at most", "percent", about="in ranks, 95 %"),
        )
        rows = [
            (
                (f"{100 * found.probability:.6g} %", found.probability),
                None if math.isnan(found.value) else found.value,
                *found.interval,
                found.error.bound,
            )
            for found in self.quantiles
        ]
        return Shown(fields, rows, "part")

    def readings(self, confidence: float = CONFIDENCE, ranges: Sequence[tuple[float, float]] = ()) -> Readings:
        """One reading a quantile: its value, with the interval of the value."""
        import pyarrow as pa

        rows = [
            Reading(
                (found.probability,),
                f"{100 * found.probability:.6g} %",
                found.value,
                *(found.interval if confidence == CONFIDENCE else self.source.interval(found.probability, confidence)),
            )
            for found in sorted(self.quantiles, key=lambda each: each.probability)
        ]
        keys = (("probability", pa.float64()),)
        return Readings(keys, tuple(rows), column="value", counts=False, ordered=True, fixed=True)

    def compared(self, truth: Truth, ranges: Sequence[tuple[float, float]] = ()) -> list[Line]:
        """Each quantile with the true one."""
        numbers = np.sort(truth.numbers())
        return [
            Line(
                f"{100 * found.probability:.4g} % are below",
                found.value,
                *found.interval,
                float(np.quantile(numbers, found.probability, method="inverted_cdf")),
            )
            for found in self.quantiles
        ]

    def window(self) -> Window:
        """Where nearly all units are, and the quantiles with their intervals."""
        marks = [found.value for found in self if not math.isnan(found.value)]
        intervals = [end for found in self for end in found.interval]
        if isinstance(self.source, Splits):
            return _window(self.source, marks, intervals)
        return self.source.window(marks, intervals)

    def band(self, within: Window | None = None) -> Band:
        """The distribution as it is known: values, their ranks, and the 95 % bounds of each."""
        window = within or self.window()
        return _band(self.source, window) if isinstance(self.source, Splits) else self.source.band(window)

    def marks(self) -> list[tuple[float, float, float, float]]:
        """The quantiles."""
        return [(found.probability, found.value, *found.interval) for found in self.quantiles]

    def plot(self, path: str | Path | None = None) -> Any:
        """The distribution with its band and the quantiles marked. Needs the extra `plot`."""
        from thresher import charts

        together = isinstance(self.source, Splits)
        values, ranks, lows, highs = self.band()
        chart = charts.distribution(
            values,
            ranks,
            lows,
            highs,
            marks=[(f"{found.probability:g}", found.value, found.probability, *found.interval) for found in self],
            title=f"Quantiles of {self.column}",
            subtitle=self.footing(),
            note="Band: 95 %, "
            + ("all split points together." if together else "at each value.")
            + f" Bars: 95 % intervals of the quantiles. {self.window().in_words(self.marks())}".rstrip(),
            whom=self.stands_for,
        )
        return charts.show(chart, path)

    def summary(self, most: int) -> tuple[Sequence[Reading], int]:
        """The quantiles, in the order asked."""
        return [below(found) for found in self.quantiles[:most]], max(len(self) - most, 0)

    def __repr__(self) -> str:
        found = ", ".join(f"{each.probability:g}: {each.value:.6g}" for each in self.quantiles)
        return f"<Quantiles of {self.column}: {found}; {self.closing()}>"


def _window(splits: Splits, marks: Sequence[float], intervals: Sequence[float]) -> Window:
    """Where the splits are, as far as nearly all units are there, and the marks: nothing is known between the rest."""
    positions, ranks = splits.curve()
    whole = splits.lower, splits.upper
    if len(positions) < 3:
        return Window(*whole)
    inner = np.clip(np.interp([TAIL, 1 - TAIL], ranks, positions), positions[1], positions[-2])
    return window_of([*inner.tolist(), *marks], *whole, whole, intervals)


def _band(splits: Splits, window: Window) -> Band:
    """The fitted curve at the released splits, with the bounds that hold for all of them at once."""
    positions, ranks = splits.curve()
    bounds = dict(
        zip((point.at for point in splits.points), zip(*splits.bounds(1 - CONFIDENCE), strict=True), strict=True)
    )
    bounds[splits.lower], bounds[splits.upper] = (0.0, 0.0), (1.0, 1.0)
    pairs = [bounds[position] for position in positions.tolist()]
    if not any(point.seen.total for point in splits.points):
        ranks = np.full_like(ranks, math.nan)
    inside = positions[(positions > window.low) & (positions < window.high)]
    shown = np.array([window.low, *inside, window.high])
    lines = (ranks, *np.transpose(pairs))
    inner, lows, highs = (np.interp(shown, positions, line).tolist() for line in lines)
    return shown.tolist(), inner, lows, highs


def _plain(found: Quantile) -> dict[str, float]:
    return {
        "probability": found.probability,
        "value": found.value,
        "lower": found.interval[0],
        "upper": found.interval[1],
        "rank_lower": found.rank[0],
        "rank_upper": found.rank[1],
        "sampling_error": found.error.sampling,
        "resolution_error": found.error.resolution,
        "threshold_error": found.error.threshold,
        "rank_error_bound": found.error.bound,
    }
