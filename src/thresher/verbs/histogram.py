"""Histogram: how many units are counted under each bucket. One round."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from thresher.errors import Hint, InvalidSetting, NotReleased
from thresher.mechanism.release import Release, ReleasedBucket
from thresher.mechanism.release_table import NUMBERS, bucket_columns
from thresher.privacy.plans import Plan
from thresher.privacy.settings import MAX_CONTRIBUTIONS, check_count
from thresher.questions import MOST_BINS, Bins, Dates, Every, Joint, Part, Question, Values
from thresher.questions.bins import equal_edges
from thresher.verbs.accuracy import CONFIDENCE, check_bounds
from thresher.verbs.answer import (
    COUNTS,
    Answer,
    Bar,
    Field,
    Line,
    Listing,
    Shown,
    Truth,
)
from thresher.verbs.asking import Asking, Target, ask, verb
from thresher.verbs.other import Other, other_of
from thresher.verbs.places import LONGEST_AXIS, SCREEN, Places, places_of
from thresher.verbs.printed import PRINTED, counted_html, counted_line, counts_of
from thresher.verbs.public_lists import BELOW, RELEASED, STATUS, checked_domain, common_type, restricted, written_bucket
from thresher.verbs.query import Query, Rounds
from thresher.verbs.readings import Reading, Readings
from thresher.verbs.settings import Cases, Choice, Columns, Edges, Listed, Number, Whole

if TYPE_CHECKING:
    import pyarrow as pa

OTHER = "everything below the threshold"
OTHER_THAN_LISTED = "everything that is not listed, below the threshold"
_BINS, _DATES, _VALUES = "bins", "dates", "values"
_EQUAL = Cases("a number of bins, or their width", lambda bins: not isinstance(bins, Iterable))
_NO_BINS = Cases("no other bins", lambda bins: bins is None)
_BELOW_CELLS = (BELOW, None, None, None)
_NO_NUMBERS = f"–: {BELOW}, which does not mean zero"


@verb
def histogram(
    data: Any,
    column: Annotated[str | Sequence[str], Columns("The column to count, or several to count together.")],
    *,
    domain: Annotated[
        Iterable[Any] | None,
        Listed("A public list of buckets, shown even if they are not released.", group=_VALUES),
    ] = None,
    bins: Annotated[
        Sequence[float] | int | Mapping[str, Sequence[float]] | None,
        Edges(
            "Edges of half-open bins, as 0,18,65,130, or a number of equal bins.", group=_BINS, usual=10, needed=True
        ),
    ] = None,
    bin_width: Annotated[
        float | None,
        Number("Width of equal bins, in place of their number.", group=_BINS, on_form=False, only=("bins", _NO_BINS)),
    ] = None,
    lower: Annotated[
        float | None,
        Number("Public lower bound of equal bins.", label="From", group=_BINS, usual=0, only=("bins", _EQUAL)),
    ] = None,
    upper: Annotated[
        float | None,
        Number("Public upper bound of equal bins.", label="To", group=_BINS, usual=100, only=("bins", _EQUAL)),
    ] = None,
    dates: Annotated[
        Every | Mapping[str, Every] | None,
        Choice(
            "Cut dates and times to the first day of their day, week or month.",
            label="Cut to the",
            group=_DATES,
            usual="week",
            needed=True,
            options={"day": "day", "week": "week", "month": "month"},
        ),
    ] = None,
    contributions: Annotated[
        int | None,
        Whole("How many distinct values of a unit count.", label="Values of a unit", usual=1, most=MAX_CONTRIBUTIONS),
    ] = None,
    **asking: Unpack[Asking],
) -> Histogram:
    """How many units are counted under each value of a column, or of several columns together.

    Guarantee: (epsilon, delta)-differential privacy for one unit, one round; or the given plan's.

    Args:
        data: a data frame, a path or glob, an array, a list, a `Population` or a `Fleet`.
        column: the column, or several.
        bins: edges of half-open intervals, or how many equal ones there are between the public `lower` and `upper`.
            With several columns, a mapping from a column to its edges.
        bin_width: the width of equal bins, in place of their number.
        lower, upper: public bounds of equal bins, chosen without looking at the data.
        dates: cuts dates to "day", "week" or "month". With several columns, a mapping from a column to its cut.
        domain: a public list of buckets to show even if they are not released. Chosen without looking at the data.
        contributions: how many distinct values of a unit count, each with its own coin; 1 by default. It costs what so
            many rounds cost. A unit with more is counted under so many of them, chosen at random; how many units that
            concerns is not public.
        asking: what every verb takes; see `thresher.verbs.Asking`.

    Returns a `Histogram`. Raises `InvalidSetting` before anything is charged.

        >>> h = th.histogram(["fr"] * 5000 + ["at"] * 7, "value", epsilon=1, delta=1e-8)
        >>> h["fr"].interval
        (4777, 5197)
        >>> "at" in h
        False
    """
    return ask(  # type: ignore[no-any-return]
        "histogram", data, asking, column=column, bins=bins, bin_width=bin_width, lower=lower, upper=upper, dates=dates,
        domain=domain, contributions=contributions,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class HistogramQuery(Query):
    """A histogram with its plan.

    `domain` is a public list of the buckets that matter. The answer is restricted to them, and those that were not
    released are shown as "below threshold". Both are post-processing: nothing more is learned, nothing more is spent.
    """

    question: Question
    plan: Plan
    domain: tuple[Any, ...] | None = None
    verb = "histogram"
    counts_several = True
    place = 1
    about = "How many devices hold each value"

    def __post_init__(self) -> None:
        parts = getattr(self.question, "parts", ())
        if not all(part.in_histograms for part in parts) or not self.question or self.question.filters:
            raise InvalidSetting("question", "must ask for values, bins, dates or several of them")
        if self.plan.rounds != 1:
            raise InvalidSetting(
                "rounds", f"must be 1 for a histogram, the plan has {self.plan.rounds}", hint="Plan with `rounds=1`."
            )
        if self.domain is not None:
            if STATUS in self.question.columns:
                raise InvalidSetting("column", f"must not be called {STATUS} with a domain", hint="Rename the column.")
            if isinstance(self.domain, Iterable) and not isinstance(self.domain, str):  # type: ignore[redundant-expr]
                object.__setattr__(self, "domain", tuple(self.domain))  # an iterator can be read only once
            _ = self.listed

    @property
    def listed(self) -> tuple[Any, ...] | None:
        """The domain without repetitions, each bucket in the form in which it is counted."""
        return None if self.domain is None else checked_domain(self.domain, self.question.columns)

    @classmethod
    def make(cls, target: Target, **settings: Any) -> HistogramQuery:
        """The question from columns, bins and dates."""
        domain, contributions = settings.pop("domain"), target.contributions(settings.pop("contributions"))
        question = _question(**settings)
        return cls(question, target.plan(1, contributions), domain)

    def settings(self) -> dict[str, Any]:
        """Columns, bins and dates from the question."""
        several = len(self.question.parts) > 1
        settings: dict[str, Any] = {
            "column": list(self.question.columns) if several else self.question.columns[0],
            "domain": None if self.domain is None else [written_bucket(bucket) for bucket in self.domain],
            "contributions": self.several,
        }
        for part in self.question.parts:
            if part.as_setting is not None:
                name, value = part.as_setting
                if several:
                    settings.setdefault(name, {})[part.columns[0]] = value
                else:
                    settings[name] = value
        return settings

    @property
    def steps(self) -> int:
        """One: it asks once."""
        return 1

    def rounds(self) -> Rounds:
        """Ask once."""
        (release,) = yield (self.question,)
        return Histogram(self, (restricted(release, self.listed),))

    def describe(self) -> str:
        """For example "histogram of country"."""
        return f"histogram of {', '.join(self.question.columns)}{self.several_in_words}"

    def with_domain(self, read: Any) -> HistogramQuery:
        """The domain's buckets in the form in which the population counts them."""
        return self if self.domain is None else replace(self, domain=read(self.question, self.domain))

    def too_large(self, fits: Callable[[Query], bool], most: str) -> InvalidSetting:
        """The domain or the bins are to blame."""
        if self.domain is not None and fits(replace(self, domain=None)):
            return InvalidSetting("domain", f"is too long for a fleet, which takes {most}", hint="Name fewer values.")
        return InvalidSetting("bins", "are too many to be sent to devices", hint="Use fewer bins.")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Histogram(Answer):
    """Released buckets, restricted to a public domain where one was given; it reads like a `Release`."""

    query: HistogramQuery
    counted = True

    @property
    def release(self) -> Release:
        """The one release."""
        return self.releases[0]

    @property
    def domain(self) -> tuple[Any, ...] | None:
        """The public list of buckets, if there is one."""
        return self.query.listed

    @property
    def below_threshold(self) -> list[Any]:
        """The buckets of the domain that were not released, in the domain's order."""
        released = set(self.release.buckets)
        return [bucket for bucket in self.domain or () if bucket not in released]

    @property
    def other(self) -> Other:
        """How many units are in no released bucket, with an interval: below the threshold, or without a value.

        With a domain, everything is among them that is not a released bucket of the domain; with a filter, all units
        outside it. Of a fleet, they are devices that checked in.

        Raises `NotReleased` under add-remove, where units may be in several buckets, and for tables of which the
        number of units is not known; see `other_among`.
        """
        return other_of(self.release, self._rest)

    def other_among(self, units: int) -> Other:
        """The same as `other`, where you know how many units there are in all, and the answer does not."""
        return other_of(self.release, self._rest, units)

    @property
    def left_out(self) -> Other | None:
        """`other` where it is known."""
        try:
            return self.other
        except NotReleased:
            return None

    @property
    def _rest(self) -> str:
        """Which units are in no released bucket, in words."""
        least = OTHER if self.domain is None else OTHER_THAN_LISTED
        return (
            f"{least} or without a value" if self.query.where is None else f"{least}, without a value or filtered out"
        )

    def _other_in_words(self) -> str:
        found = self.left_out
        return f"other: {OTHER if found is None else found.in_words()}"

    def __len__(self) -> int:
        return len(self.release)

    def __iter__(self) -> Iterator[ReleasedBucket]:
        return iter(self.release)

    def __contains__(self, bucket: object) -> bool:
        return bucket in self.release

    def __getitem__(self, bucket: Any) -> ReleasedBucket:
        return self.release[bucket]

    def to_arrow(self) -> pa.Table:
        """The released rows; with a domain also its other buckets, without numbers, and a column `status`."""
        table = self.release.table
        if self.domain is None:
            return table
        import pyarrow as pa

        names, missing = self.release.columns, self.below_threshold
        keys = bucket_columns(missing, names) if missing else []
        columns = []
        for index, name in enumerate(names):
            kind = common_type(table.schema.field(name).type, keys[index].type if keys else None, len(table))
            below = [keys[index].cast(kind)] if keys else []
            columns.append(pa.chunked_array([*table[name].cast(kind).chunks, *below], type=kind))
        for name in NUMBERS:
            kind = table.schema.field(name).type
            columns.append(pa.chunked_array([*table[name].chunks, pa.nulls(len(missing), kind)], type=kind))
        columns.append(pa.array([RELEASED] * len(table) + [BELOW] * len(missing)))
        return pa.table(columns, names=[*names, *NUMBERS, STATUS]).combine_chunks()

    def to_dict(self) -> dict[Any, float]:
        """Released bucket to estimate."""
        return self.release.to_dict()

    def more(self) -> dict[str, Any]:
        """The certificate of the release; `release.to_json` has the release itself."""
        return {"certificate": self.release.certificate()}

    def places(self, most: int, longest: int = SCREEN) -> Places:
        """The buckets in the order in which people read them, also those below the threshold; see `places_of`."""
        return places_of(self.release, self.query.question, self.domain, most=most, longest=longest)

    def _every_place(self) -> Places:
        """The same with everything that was released or listed."""
        everything = len(self) + len(self.domain or ())
        return self.places(everything, max(everything, LONGEST_AXIS))

    def listing(self, most: int) -> Listing:
        """At most so many buckets as texts, along their axis where they have one; bins and dates with both edges."""
        import pyarrow as pa

        places = self.places(most, most)
        parts = self.query.question.parts
        arrays = []
        for index, part in enumerate(parts):
            values = [place.bucket[index] if len(parts) > 1 else place.bucket for place in places.rows]
            arrays.append(pa.array([part.label(value) for value in values], pa.string()))
        numbers = [
            (None,) * len(NUMBERS) if row is None else (row.count, row.estimate, *row.interval)
            for _, row in places.rows
        ]
        for index, name in enumerate(NUMBERS):
            arrays.append(pa.array([cells[index] for cells in numbers], self.release.table.schema.field(name).type))
        note = _NO_NUMBERS if any(row is None for _, row in places.rows) else ""
        return Listing(pa.table(arrays, names=[*self.release.columns, *NUMBERS]), places.hidden, note)

    def plot(self, path: str | Path | None = None, *, most: int = 40) -> Any:
        """A picture of the largest buckets, or of all bins, dates or numbers along their axis, with intervals.

        A bucket of the axis that was not released has its place, and is marked as below the threshold.
        `path` ends in .png, .svg or .html. Needs the extra `plot`.
        """
        question, places = self.query.question, self.places(most, LONGEST_AXIS)
        rows = [(question.label(place.bucket), place.row) for place in places.rows]
        axis = places.ordered and len(question.parts) == 1
        return self.release.plot(path, rows=rows, ordered=axis, about=self.asked_of)

    def shown(self) -> Shown:
        """One row a bucket; those below the threshold have no numbers."""
        label, places = self.query.question.label, self._every_place()
        rows = [
            ((label(bucket), order if places.ordered else None), *(_BELOW_CELLS if row is None else counts_of(row)))
            for order, (bucket, row) in enumerate(places.rows)
        ]
        first = Field("bucket", ", ".join(self.columns), "label")
        return Shown((first, *COUNTS), rows, "bucket" if places.ordered else "estimate", not places.ordered)

    def bars(self, most: int) -> list[Bar]:
        """The largest buckets, or those of an axis in its order, of which up to `SCREEN` are shown."""
        label = self.query.question.label
        return [
            Bar(label(bucket), None) if row is None else Bar(label(bucket), row.estimate, *row.interval)
            for bucket, row in self.places(most).rows
        ]

    def readings(self, confidence: float = CONFIDENCE, ranges: Sequence[tuple[float, float]] = ()) -> Readings:
        """One reading a released bucket."""
        question, release = self.query.question, self.release
        found = zip(release.buckets, release.estimates.tolist(), release.intervals_at(confidence).tolist(), strict=True)
        rows = [
            Reading(bucket if isinstance(bucket, tuple) else (bucket,), question.label(bucket), estimate, *ends)
            for bucket, estimate, ends in found
        ]
        if question.ordered:
            rows.sort(key=lambda row: row.key)
        keys = tuple((name, release.table.schema.field(name).type) for name in release.columns)
        return Readings(keys, tuple(rows), ordered=question.ordered, unseen_upper=release.unseen_upper(confidence))

    def compared(self, truth: Truth, ranges: Sequence[tuple[float, float]] = ()) -> list[Line]:
        """Each released bucket with the number that truly hold it."""
        counts = truth.counts()
        return [Line(str(row.bucket), row.estimate, *row.interval, counts.get(str(row.bucket), 0)) for row in self]

    def __str__(self) -> str:
        label, places = self.query.question.label, self.places(PRINTED)
        lines = [counted_line(label(bucket), row) for bucket, row in places.rows]
        if places.hidden:
            lines.append(f"… {places.hidden:,} more buckets")
        said = [] if self.asked_of is None else [self.asked_of]
        nothing = [self.nothing_in_words()] if self.empty else []
        return "\n".join([*said, *nothing, *lines, self._other_in_words()])

    def __repr__(self) -> str:
        return f"<Histogram of {len(self.release):,} buckets, {self.closing()}>"

    def _repr_html_(self) -> str:
        label, places = self.query.question.label, self.places(PRINTED)
        rows = [(label(bucket), row) for bucket, row in places.rows]
        said = "" if self.asked_of is None else f"<p>{html.escape(self.asked_of)}</p>"
        table = counted_html(", ".join(self.columns), rows, places.hidden, said=repr(self)[1:-1], whom=self.stands_for)
        return f"{said}{table}<p>{html.escape(self._other_in_words())}</p>"


def _question(column: Any, bins: Any, bin_width: Any, lower: Any, upper: Any, dates: Any) -> Question:
    """The question of a histogram from the verb's settings."""
    several = isinstance(column, Iterable) and not isinstance(column, str)
    columns = Values(tuple(column) if several else (column,)).columns
    for setting, given in (("bins", bins), ("bin_width", bin_width), ("dates", dates)):
        if len(columns) > 1 and not isinstance(given, Mapping | None):
            raise InvalidSetting(
                setting,
                "must say which of the columns it is for",
                hint=Hint(
                    "Ask about one column, or say it in Python.",
                    python="Give a mapping, for example bins={'age': [0, 18, 65, 130]}.",
                ),
            )
    edges = bins if isinstance(bins, Mapping) else {columns[0]: _edges(bins, bin_width, lower, upper)}
    cuts = dates if isinstance(dates, Mapping) else {columns[0]: dates}
    for setting, mapping in (("bins", edges), ("dates", cuts)):
        if unknown := set(mapping) - set(columns):
            raise InvalidSetting(
                setting, f"names a column that is not asked for: {', '.join(sorted(map(str, unknown)))}"
            )
    parts = tuple(_part(name, edges.get(name), cuts.get(name)) for name in columns)
    if len(parts) == 1:
        return parts[0]
    return Values(columns) if all(part.as_setting is None for part in parts) else Joint(parts)


def _part(column: str, edges: Sequence[float] | None, cut: Every | None) -> Part:
    if edges is not None and cut is not None:
        raise InvalidSetting("bins", "and `dates` cannot both be given for one column")
    if edges is not None:
        return Bins(column, edges)  # type: ignore[arg-type]
    return Dates(column, cut) if cut is not None else Values((column,))


def _edges(bins: Any, width: Any, lower: float | None, upper: float | None) -> Sequence[float] | None:
    """Edges from edges, a number of bins, or a width."""
    if bins is None and width is None:
        if lower is not None or upper is not None:
            raise InvalidSetting("lower", "and `upper` need `bins` or `bin_width`", hint="For example `bins=20`.")
        return None
    if isinstance(bins, Iterable):
        return bins  # type: ignore[return-value]
    if lower is None or upper is None:
        raise InvalidSetting("lower", "and `upper` are missing", hint="They are public: choose them without the data.")
    low, high = check_bounds(lower, upper)
    if bins is not None:
        number = check_count(bins, setting="bins", example=20)
        if not 1 <= number <= MOST_BINS:
            raise InvalidSetting("bins", f"must be from 1 to {MOST_BINS:,}")
        return equal_edges(low, high, number)
    if isinstance(width, bool) or not isinstance(width, Real):
        raise InvalidSetting("bin_width", f"must be a number, not {type(width).__name__}")
    size = float(width)
    if not 0 < size < math.inf or (high - low) / size > MOST_BINS:
        raise InvalidSetting("bin_width", f"must be above 0 and give at most {MOST_BINS:,} bins")
    number = math.ceil((high - low) / size - 1e-9)
    return (*(low + size * index for index in range(number)), max(high, low + size * number))
