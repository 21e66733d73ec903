"""The mean of a number between public bounds, and its sum. One round."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack, overload

from thresher.charts.numbers import amount
from thresher.errors import InvalidSetting
from thresher.mechanism.release import Release
from thresher.privacy.plans import Plan
from thresher.privacy.settings import check_count
from thresher.questions import MOST_POINTS, Points
from thresher.questions.points import equal_points
from thresher.verbs.accuracy import CONFIDENCE, check_bounds, clipped_in_words
from thresher.verbs.answer import Answer, Bar, Field, Line, Shown, Truth
from thresher.verbs.asking import Asking, Target, ask, verb
from thresher.verbs.averages import Average, MeanError, average
from thresher.verbs.grouping import BY, GROUPS, GroupableQuery
from thresher.verbs.groups import Grouped
from thresher.verbs.query import Query, Rounds
from thresher.verbs.readings import Reading, Readings
from thresher.verbs.settings import Column, Number, Setting, read_number, read_whole

if TYPE_CHECKING:
    import pyarrow as pa

POINTS = 5
"""How many points there are by default. docs/privacy.md, "Means", has the table from which it was chosen."""


@dataclass(frozen=True)
class Places(Setting):
    """Points on the line of numbers, or how many equally spaced ones there are."""

    def in_words(self, value: Any) -> str:
        """The number of points, or the points."""
        return super().in_words(value) if isinstance(value, list) else f"{value} with equal distances"

    def read(self, text: Any) -> Any:
        """Points with commas between, or a whole number."""
        if not isinstance(text, str):
            return text
        if "," in text:
            return [read_number(part.strip(), self.name) for part in text.split(",")]
        return read_whole(text, self.name)


LARGEST_BOUND = 1e140
"""Bounds of a mean are no further from zero: errors are computed from their squares, times counts."""


@overload
def mean(
    data: Any, column: str, *, lower: float, upper: float, points: Sequence[float] | int | None = ...,
    by: None = None, groups: None = None, **asking: Unpack[Asking],
) -> Mean: ...  # fmt: skip


@overload
def mean(
    data: Any, column: str, *, lower: float, upper: float, points: Sequence[float] | int | None = ...,
    by: str | Sequence[str], groups: Iterable[Any] | None = ..., **asking: Unpack[Asking],
) -> Grouped[Mean]: ...  # fmt: skip
@verb
def mean(
    data: Any,
    column: Annotated[str, Column("The column of numbers.")],
    *,
    lower: Annotated[float, Number("Public lower bound, chosen without the data.", label="From", usual=0)],
    upper: Annotated[float, Number("Public upper bound, chosen without the data.", label="To", usual=1000)],
    points: Annotated[
        Sequence[float] | int | None,
        Places("Points that values are rounded to at random, as 0,100,1000, or how many equal ones.", usual=POINTS),
    ] = None,
    by: Annotated[str | Sequence[str] | None, BY] = None,
    groups: Annotated[Iterable[Any] | None, GROUPS] = None,
    **asking: Unpack[Asking],
) -> Mean | Grouped[Mean]:
    """The mean of a number between public bounds, with an interval that holds, and the sum.

    Each unit's value is rounded at random to one of two public points beside it, so that its expectation is the value;
    the points are counted as a histogram.

    Guarantee: (epsilon, delta)-differential privacy for one unit, one round; or the given plan's.

    Args:
        data: a data frame, a path or glob, an array, a list, a `Population` or a `Fleet`.
        column: the column of numbers. Text of a file or of Python objects is read value by value; what is not a number
            is no value.
        lower, upper: public bounds, chosen without looking at the data. Numbers outside them count as at the nearest,
            which is bias. Tight bounds give a small error.
        points: how many equally spaced points there are, 5 by default, or the points themselves; the bounds are added
            where they are missing. More points have less rounding error, as long as each of them reaches the threshold.
            For a value with a long tail give points that are dense where most values are.
        by: a column to group by, or two: the same for each of their values, in one query at the same price.
        groups: a public list of groups, shown even if nothing of them was released; the answer is restricted to them.
        asking: what every verb takes; see `thresher.verbs.Asking`.

    Returns a `Mean`; with `by`, a `Grouped` with one for each group. Raises `InvalidSetting` before anything is
    charged.

        >>> ages = [random.gauss(40, 12) for _ in range(100_000)]
        >>> found = th.mean(ages, "value", lower=0, upper=100, epsilon=1, delta=1e-8)
        >>> found.interval
        (39.81677860949861, 40.2221030852279)
    """
    return ask(  # type: ignore[no-any-return]
        "mean", data, asking, column=column, lower=lower, upper=upper, points=points, by=by, groups=groups
    )


@dataclass(frozen=True, slots=True)
class MeanQuery(GroupableQuery):
    """A mean with its plan. The first and the last point are the bounds."""

    column: str
    plan: Plan
    points: tuple[float, ...]
    by: tuple[str, ...] = ()
    groups: tuple[Any, ...] | None = None
    verb = "mean"
    bucket = "a point that {} are rounded to"
    place = 5
    about = "The average of a number, and its sum"

    def __post_init__(self) -> None:
        object.__setattr__(self, "points", self.question.points)
        for setting, bound in (("lower", self.points[0]), ("upper", self.points[-1])):
            if not abs(bound) <= LARGEST_BOUND:
                raise InvalidSetting(
                    setting, f"must be from {-LARGEST_BOUND:g} to {LARGEST_BOUND:g}", hint="Ask in a larger unit."
                )
        self.check_groups()
        if self.plan.rounds != 1:
            raise InvalidSetting(
                "rounds", f"must be 1 for a mean, the plan has {self.plan.rounds}", hint="Plan with `rounds=1`."
            )

    @property
    def question(self) -> Points:
        """The one question."""
        return Points(self.column, self.points)

    @classmethod
    def make(cls, target: Target, **settings: Any) -> MeanQuery:
        """The points from bounds and number."""
        low, high = check_bounds(settings.pop("lower"), settings.pop("upper"))
        points = placed(settings.pop("points"), low, high)
        return cls(plan=target.plan(1), points=points, **settings)

    def settings(self) -> dict[str, Any]:
        """Bounds, and the points or their number."""
        low, high, number = self.points[0], self.points[-1], len(self.points)
        points: Any = number if self.points == equal_points(low, high, number) else list(self.points)
        return {"column": self.column, "lower": low, "upper": high, "points": points, **self.group_settings()}

    def rounds(self) -> Rounds:
        """Ask once."""
        if self.by:
            return (yield from self.ask_groups())
        (release,) = yield (self.question,)
        return Mean(self, (release,), averaged(self, release))

    @property
    def clipping(self) -> str:
        """What happens to values outside the bounds."""
        return clipped_in_words(self.points[0], self.points[-1])

    def describe(self) -> str:
        """For example "mean of latency"."""
        return f"mean of {self.column}{self.by_words}"

    def too_large(self, fits: Callable[[Query], bool], most: str) -> InvalidSetting:
        """There are too many groups or points."""
        if self.groups is not None and fits(replace(self, groups=None)):
            return GroupableQuery.too_large(self, fits, most)
        return InvalidSetting("points", f"are too many for a fleet, which takes {most}", hint="Use fewer points.")


def placed(points: Any, lower: float, upper: float) -> tuple[float, ...]:
    """The points from the setting `points`: a number of equal ones, or points between the bounds; None for the usual.

    Edge cases: bounds that are missing are added. A point outside them is refused.
    """
    if points is None or not isinstance(points, Iterable):
        number = check_count(POINTS if points is None else points, setting="points", least=2, example=POINTS)
        if number > MOST_POINTS:
            raise InvalidSetting("points", f"must be from 2 to {MOST_POINTS:,}")
        return equal_points(lower, upper, number)
    given = () if isinstance(points, str) else tuple(points)
    try:
        inside = bool(given) and all(lower <= point <= upper for point in given)
    except TypeError:
        inside = False
    if not inside:
        raise InvalidSetting(
            "points", "must be numbers from lower to upper", hint="For example `points=[0, 100, 1000]`."
        )
    before = () if given[0] == lower else (lower,)
    after = () if given[-1] == upper else (upper,)
    return (*before, *given, *after)


def averaged(query: MeanQuery, release: Release, confidence: float = CONFIDENCE) -> Average:
    """The mean and the sum that a release of the query's points tells."""
    counts = dict(zip(release.buckets, release.counts.tolist(), strict=True))
    return average(
        query.points, counts, threshold=query.plan.threshold, rate=sampled_part(release), confidence=confidence
    )


def sampled_part(release: Release) -> float | None:
    """The part of all units that a release sampled; None where no device completed the round."""
    return None if release.response is not None and release.response.rate is None else release.rate


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Mean(Answer):
    """A mean, its sum, and the released points they were computed from."""

    query: MeanQuery
    average: Average
    details = frozenset({"sampling_error", "rounding_error", "threshold_error", "error_bound"})

    @property
    def column(self) -> str:
        """The column that was asked about."""
        return self.query.column

    @property
    def release(self) -> Release:
        """The released points."""
        return self.releases[0]

    @property
    def mean(self) -> float:
        """The mean of all units that hold a value, clipped to the bounds; NaN where nothing was released."""
        return self.average.mean

    @property
    def estimate(self) -> float:
        """The same as `mean`."""
        return self.average.mean

    @property
    def interval(self) -> tuple[float, float]:
        """Where the true mean lies, with 95 %, including all that points below the threshold may hide."""
        return self.average.interval

    @property
    def sum(self) -> float:
        """The sum over all units that hold a value; NaN where nothing was released."""
        return self.average.sum

    @property
    def sum_interval(self) -> tuple[float, float]:
        """Where the true sum lies, with 95 %, including all that points below the threshold may hide."""
        return self.average.sum_interval

    @property
    def error(self) -> MeanError:
        """How far the mean may be off, part by part."""
        return self.average.error

    @property
    def below_threshold(self) -> list[float]:
        """The points that were not released."""
        released = set(self.release.buckets)
        return [point for point in self.query.points if point not in released]

    def to_arrow(self) -> pa.Table:
        """Two rows, mean and sum: statistic, value, its interval, and the parts of the mean's error."""
        import pyarrow as pa

        rows = [_row("mean", self.mean, self.interval, self.error), _row("sum", self.sum, self.sum_interval, None)]
        kinds = {name: pa.string() if name == "statistic" else pa.float64() for name in rows[0]}
        return pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()})

    def more(self) -> dict[str, Any]:
        """The points that were released, in their order, and those that were not."""
        points = [
            {"point": row.bucket, "count": row.count, "estimate": row.estimate}
            | {"lower": row.interval[0], "upper": row.interval[1]}
            for row in sorted(self.release, key=lambda row: row.bucket)
        ]
        return {"points": points, "below_threshold": self.below_threshold}

    def shown(self) -> Shown:
        """The mean and the sum."""
        fields = (
            Field("statistic", self.column, "label"),
            Field("value", "Estimate", "amount", about="devices that checked in and hold a value"),
            Field("lower", "At least", "amount", about="95 %"),
            Field("upper", "At most", "amount", about="95 %"),
        )
        numbers = [("Mean", 0, self.mean, *self.interval), ("Sum", 1, self.sum, *self.sum_interval)]
        rows = [((name, order), *(_finite(cell) for cell in cells)) for name, order, *cells in numbers]
        return Shown(fields, rows, "statistic")

    @property
    def headline(self) -> tuple[str, str] | None:
        """The mean and its interval."""
        if not self.average.known:
            return "not known", "no point reached the threshold"
        return amount(self.mean), f"{amount(self.interval[0])} to {amount(self.interval[1])}, 95 %"

    @property
    def explained(self) -> str:
        """What the intervals hold, and what they do not."""
        return (
            f"Each value was rounded at random to one of {len(self.query.points)} points, whose counts are above. Each "
            "interval contains the true number with a probability of at least 95 %, also if points below the threshold "
            "hide as much as they can."
        )

    def bars(self, most: int) -> list[Bar]:
        """The released points, in their order: those with the most units, where there are too many."""
        question, rows = self.query.question, sorted(list(self.release)[:most], key=lambda row: row.bucket)
        return [Bar(question.label(row.bucket), row.estimate, *row.interval) for row in rows]

    def readings(self, confidence: float = CONFIDENCE, ranges: Sequence[tuple[float, float]] = ()) -> Readings:
        """One reading: the mean, with its interval."""
        import pyarrow as pa

        found = self.average if confidence == CONFIDENCE else averaged(self.query, self.release, confidence)
        rows = (Reading(("mean",), "mean", found.mean, *found.interval),)
        keys = (("statistic", pa.string()),)
        return Readings(keys, rows, column="value", counts=False, ordered=True, fixed=True)

    def compared(self, truth: Truth, ranges: Sequence[tuple[float, float]] = ()) -> list[Line]:
        """The mean and the sum with the true ones, of values as they are: clipping shows as bias."""
        numbers = truth.numbers()
        return [
            Line("mean", self.mean, *self.interval, float(numbers.mean())),
            Line("sum", self.sum, *self.sum_interval, float(numbers.sum())),
        ]

    def plot(self, path: str | Path | None = None) -> Any:
        """The mean with its interval, over the released points. Needs the extra `plot`."""
        from thresher import charts

        rows = sorted(self.release, key=lambda row: row.bucket)
        chart = charts.mean(
            [(row.bucket, row.estimate, *row.interval) for row in rows],
            self.below_threshold,
            self.mean,
            self.interval,
            title=f"Mean of {self.column}",
            subtitle=self.footing(),
            whom=self.stands_for,
        )
        return charts.show(chart, path)

    @property
    def _of(self) -> str:
        return self.column if self.asked_of is None else f"{self.column}, {self.asked_of}"

    def __str__(self) -> str:
        if not self.average.known:
            return f"mean of {self._of}: not known. {self.nothing_in_words()}"
        parts = [("sampling", self.error.sampling), ("rounding", self.error.rounding)]
        errors = ", ".join(f"{name} {amount(value)}" for name, value in parts)
        return "\n".join(
            [
                f"mean of {self._of}: {_between(self.mean, self.interval)}",
                f"sum of {self._of}: {_between(self.sum, self.sum_interval)}",
                f"standard errors: {errors}; points below the threshold: at most {amount(self.error.threshold)}",
                self.query.clipping,
            ]
        )

    def __repr__(self) -> str:
        low, high = self.interval
        return f"<Mean of {self.column}: {self.mean:.6g}, {low:.6g} to {high:.6g}; {self.closing()}>"

    def _repr_html_(self) -> str:
        lines = "".join(f"<p>{html.escape(line)}</p>" for line in str(self).splitlines())
        return f"{lines}<p>{html.escape(self.promise())}</p>"


def _between(value: float, interval: tuple[float, float]) -> str:
    return f"{amount(value)}, 95 %: {amount(interval[0])} to {amount(interval[1])}"


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _row(statistic: str, value: float, interval: tuple[float, float], error: MeanError | None) -> dict[str, Any]:
    parts = {
        "sampling_error": None if error is None else error.sampling,
        "rounding_error": None if error is None else error.rounding,
        "threshold_error": None if error is None else error.threshold,
        "error_bound": None if error is None else error.bound,
    }
    return {"statistic": statistic, "value": value, "lower": interval[0], "upper": interval[1], **parts}
