"""A release: what survives the threshold, with its guarantee. The only thing an analyst sees."""

from __future__ import annotations

import datetime as dt
import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thresher.errors import Hint, InvalidSetting, NotReleased, VerificationFailed
from thresher.files import write_whole
from thresher.mechanism import release_format
from thresher.mechanism.release_table import (
    COUNT,
    NUMBERS,
    bucket_columns,
    check_counts,
    check_table,
    holds_counts_alone,
    sorted_counts,
    with_numbers,
)
from thresher.mechanism.response import Response, stands_for
from thresher.mechanism.tabular import Tabular
from thresher.privacy.guarantee import Guarantee
from thresher.privacy.intervals import intervals
from thresher.privacy.plans import Plan
from thresher.privacy.rates import Guarantees
from thresher.privacy.settings import Adjacency, check_count, check_probability
from thresher.privacy.units import Unit
from thresher.privacy.visibility import smallest_visible

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ReleasedBucket:
    """One row of a release."""

    bucket: Any
    count: int
    estimate: float
    interval: tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Release(Tabular):
    """Released buckets with sampled counts, estimates and intervals, and what was guaranteed. Made by `Release.of`.

    Nothing about dropped buckets is kept, not even how many there were.

    Args:
        table: the bucket's columns, then `count` (in the sample), `estimate` (count ÷ `rate`) and `lower`, `upper` (a
            confidence interval for the true count at level `confidence`, valid for released rows). Rows are sorted by
            count, largest first, then by bucket. Where it is given with the count alone, the other numbers are computed
            when somebody looks at them.
        plan: the plan that the round was drawn with.
        private: whether a secure source drew it.
        confidence: the level of the intervals.
        response: how many devices of a fleet took part; None for a table, where everybody does.
        unit: whom the guarantee protects; None where nobody said it, as in files of Thresher 0.1.0.
        units: how many units a table has, whatever they hold; None where nobody counted them, for a fleet, and under
            add-remove, which hides the number.

    Guarantee: see `guarantee`; it covers the plan's rounds together. `private` is False where a seeded source drew it,
    and then nothing is guaranteed. No bucket is there twice.
    """

    table: pa.Table
    plan: Plan
    private: bool
    confidence: float = 0.95
    response: Response | None = None
    unit: Unit | None = None
    units: int | None = None
    _counted: pa.Table | None = field(default=None, init=False)
    """The bucket's columns and `count` of a release whose `table` is not there before somebody asks for it."""

    def __post_init__(self) -> None:
        check_table(self.table)
        if not isinstance(self.plan, Plan):
            raise InvalidSetting("plan", f"must be a plan, not {type(self.plan).__name__}")
        if not isinstance(self.private, bool):
            raise InvalidSetting("private", f"must be True or False, not {type(self.private).__name__}")
        check_probability(self.confidence, setting="confidence")
        if not isinstance(self.response, Response | None):
            raise InvalidSetting("response", f"must be a response, not {type(self.response).__name__}")
        if not isinstance(self.unit, Unit | None):
            raise InvalidSetting("unit", f"must be a unit, not {type(self.unit).__name__}")
        if self.units is not None:
            check_count(self.units, setting="units")
            if self.adjacency != "replace" or self.response is not None:
                raise InvalidSetting("units", "are public for tables under replace-one alone")
        if holds_counts_alone(self.table):
            object.__setattr__(self, "_counted", self.table)
            object.__delattr__(self, "table")

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Compute `table` once; Python calls this only for an attribute that is not there."""
            if name != "table":
                raise AttributeError(f"a release has no {name!r}")
            table = with_numbers(self._counted, self.rate, self.plan.threshold, self.confidence)
            object.__setattr__(self, "table", table)
            return table

    @classmethod
    def of(
        cls,
        buckets: Any,
        counts: ArrayLike,
        plan: Plan,
        *,
        private: bool,
        columns: tuple[str, ...] = ("bucket",),
        confidence: float = 0.95,
        response: Response | None = None,
        unit: Unit | None = None,
        units: int | None = None,
    ) -> Release:
        """A release of these buckets with these *sampled* counts, all of which have reached the threshold."""
        confidence = check_probability(confidence, setting="confidence")
        sampled = check_counts(counts)
        if np.any(sampled < plan.threshold):
            raise InvalidSetting(
                "counts",
                "must all be at least the threshold",
                hint="Use sample_and_threshold, which drops the rest.",
            )
        if taken := set(columns) & set(NUMBERS):
            raise InvalidSetting("columns", f"must not be called {', '.join(sorted(taken))}", hint="Rename the column.")
        counted = sorted_counts(bucket_columns(buckets, columns), sampled, columns)
        return cls(counted, plan, private, confidence, response, unit, units)

    @property
    def everyone(self) -> int | None:
        """How many units could have been sampled, whatever they hold: a table's units, or the devices that checked in.

        Edge cases: None where it is not known, and under add-remove, where it is not public.
        """
        if self.adjacency != "replace":
            return None
        return self.units if self.response is None else self.response.asked

    @property
    def rate(self) -> float:
        """The fraction of all units that was sampled: the plan's p, or less where devices did not complete.

        Edge cases: the plan's p where nobody completed; such a release has no rows.
        """
        return _rate(self.plan, self.response)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that make up a bucket."""
        names = self._rows.column_names
        return tuple(names[: names.index(COUNT)])

    @property
    def buckets(self) -> list[Any]:
        """The released buckets: values, or tuples of values where a bucket has several columns."""
        parts = [self._rows[name].to_pylist() for name in self.columns]
        return parts[0] if len(parts) == 1 else list(zip(*parts, strict=True))

    @property
    def counts(self) -> NDArray[np.int64]:
        """Counts in the sample, at least the threshold each."""
        counts: NDArray[np.int64] = self._rows[COUNT].to_numpy()
        return counts

    @property
    def estimates(self) -> NDArray[np.float64]:
        """Estimated numbers of units: count ÷ `rate`."""
        return self.counts / self.rate if self._counted is not None else self._numbers("estimate")

    @property
    def intervals(self) -> NDArray[np.int64]:
        """Lower and upper ends, a row a bucket."""
        return np.column_stack([self._numbers("lower"), self._numbers("upper")])

    def intervals_at(self, confidence: float) -> NDArray[np.int64]:
        """The intervals at another confidence; see `thresher.privacy.intervals.intervals`."""
        confidence = check_probability(confidence, setting="confidence")
        if confidence == self.confidence:
            return self.intervals
        return np.column_stack(intervals(self.rate, self.plan.threshold, self.counts, confidence))

    def unseen_upper(self, confidence: float = 0.95, *, rounds: int = 1, rate: float | None = None) -> int | None:
        """How many units a bucket that is *not* here may hold at most.

        Guarantee: a bucket with more units would have been released with probability at least `confidence`. `rounds` is
        in how many such rounds it must have been released to be shown; `rate` is the release's own by default.
        Edge cases: None, which means that there is no bound, where no device completed the round.
        """
        if self.response is not None and self.response.rate is None:
            return None
        missed = (1 - check_probability(confidence, setting="confidence")) / rounds
        return smallest_visible(self.rate if rate is None else rate, self.plan.threshold, 1 - missed) - 1

    @property
    def _rows(self) -> pa.Table:
        """The rows, with the count alone where that is enough to know all their numbers."""
        counted = self._counted
        return self.table if counted is None else counted

    def _numbers(self, name: str) -> NDArray[Any]:
        values: NDArray[Any] = self.table[name].to_numpy()
        return values

    @property
    def adjacency(self) -> Adjacency:
        """Against which change the guarantee protects."""
        return self.plan.adjacency

    @property
    def guarantee(self) -> Guarantee:
        """What the plan's rounds together guarantee; raises for a release that a seeded source drew."""
        return guarantee_of("release", self.plan, private=self.private, unit=self.unit)

    def promise(self) -> str:
        """The guarantee in one line, for a title or a footer."""
        return promise_of(self.plan, private=self.private, unit=self.unit)

    @property
    def guarantees(self) -> Guarantees | None:
        """What holds against whom in a fleet, by who tossed which coins; None for a table, whose holder tosses them.

        Raises as `guarantee` does.
        """
        self.guarantee  # noqa: B018
        return None if self.response is None else Guarantees.of(self.plan, self.response.rates)

    def __len__(self) -> int:
        return int(self._rows.num_rows)

    def __iter__(self) -> Iterator[ReleasedBucket]:
        rows = zip(self.buckets, self.counts.tolist(), self.estimates.tolist(), self.intervals.tolist(), strict=True)
        for bucket, count, estimate, (lower, upper) in rows:
            yield ReleasedBucket(bucket, count, estimate, (lower, upper))

    def __contains__(self, bucket: object) -> bool:
        return bucket in self.buckets

    def __getitem__(self, bucket: Any) -> ReleasedBucket:
        for row in self:
            if row.bucket == bucket:
                return row
        raise NotReleased("This bucket was not released.", hint=_why_not(bucket, self.buckets))

    def verify(self) -> Guarantee:
        """Recompute the guarantee from p and τ, and check that every row follows from its count.

        Raises `VerificationFailed` at the first thing that does not hold.
        """
        guarantee = self.guarantee
        self.plan.verify()
        if len(self) and int(self.counts.min()) < self.plan.threshold:
            raise VerificationFailed("A released count is below the threshold.")
        if self.response is not None:
            self.response.verify(self.plan)
            # An honest device is in a bucket once. One that is not may fill all its pieces with one bucket.
            if len(self) and int(self.counts.max()) > self.response.completed * self.plan.contributions:
                raise VerificationFailed("A released count is above what the devices that completed can have sent.")
        if self.units is not None and not _possible(self.counts, self.units, self.plan.contributions):
            raise VerificationFailed("Released counts are above what the units of the table can have.")
        try:
            again = self.made_again()
        except InvalidSetting as error:
            raise VerificationFailed(f"These rows cannot have been released: {error.message}") from None
        if not again.table.equals(self.table):
            raise VerificationFailed("An estimate, an interval or the order of rows does not follow from the counts.")
        return guarantee

    def made_again(self) -> Release:
        """The release that follows from these buckets and counts; it equals this one unless somebody changed this one.

        Raises: `InvalidSetting` if no release can have these rows.
        """
        return Release.of(
            self._rows.select(list(self.columns)),
            self.counts,
            self.plan,
            private=self.private,
            columns=self.columns,
            confidence=self.confidence,
            response=self.response,
            unit=self.unit,
            units=self.units,
        )

    def certificate(self) -> dict[str, Any]:
        """What was guaranteed and how, as plain values, with a digest of the released rows."""
        return release_format.certificate(self)

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        return self.table

    def to_dict(self) -> dict[Any, float]:
        """Bucket to estimate."""
        return dict(zip(self.buckets, self.estimates.tolist(), strict=True))

    def to_json(self) -> str:
        """Rows, plan and certificate as JSON; `from_json` reads it back."""
        return release_format.to_json(self)

    @classmethod
    def from_json(cls, text: str) -> Release:
        """Read what `to_json` wrote; anything altered since then is an error."""
        return release_format.from_json(text)

    def save(self, path: str | Path) -> None:
        """Write the release to a file, whole or not at all."""
        write_whole(Path(path), self.to_json() + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Release:
        """Read a file that `save` wrote, or that an answer of one round wrote; `thresher.load` reads any answer."""
        return cls.from_json(release_format.only_release(release_format.read_text(Path(path))))

    @property
    def stands_for(self) -> str | None:
        """For whom estimates and intervals stand, in words: the devices that checked in; None for a table."""
        return stands_for([self.response])

    def plot(
        self,
        path: str | Path | None = None,
        *,
        most: int = 40,
        rows: Sequence[tuple[str, ReleasedBucket | None]] | None = None,
        ordered: bool = False,
        title: str | None = None,
        about: str | None = None,
    ) -> Any:
        """A picture of buckets with their intervals and the threshold, shown in notebooks or saved.

        Args:
            path: where it is saved; ends in .png, .svg or .html. Needs the extra `plot`.
            most: how many buckets are drawn, the largest first.
            rows: what is drawn instead, from top to bottom: labels with released buckets, or with None for a bucket
                that was below the threshold.
            ordered: whether these rows are an axis, as bins and dates have one.
            title: by default the names of the columns.
            about: what the line below the title says first.
        """
        from thresher import charts

        if rows is None:
            rows = [(bucket_label(row.bucket), row) for row, _ in zip(self, range(most), strict=False)]
        drawn = sum(row is not None for _, row in rows)
        chart = charts.histogram(
            [label for label, _ in rows],
            [None if row is None else row.estimate for _, row in rows],
            [None if row is None else row.interval[0] for _, row in rows],
            [None if row is None else row.interval[1] for _, row in rows],
            threshold=self.plan.threshold / self.rate,
            title=title or ", ".join(self.columns),
            subtitle=("" if about is None else f"{about}; ") + self._subtitle(drawn),
            confidence=self.confidence,
            whom=self.stands_for,
            ordered=ordered,
        )
        return charts.show(chart, path)

    def _subtitle(self, shown: int) -> str:
        part = "" if shown == len(self) else f"the largest {shown} of {len(self):,} released buckets; "
        counting = (
            f"; {self.unit.counting(self.plan.contributions)}"
            if self.unit is not None and self.unit.kind == "column"
            else ""
        )
        return part + self.promise() + counting

    def __repr__(self) -> str:
        return f"<Release of {len(self):,} buckets, {self.promise()}>"

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.table.column_names)
        body = []
        for row in self.table.slice(0, 20).to_pylist():
            cells = [f"{value:,.0f}" if isinstance(value, float) else str(value) for value in row.values()]
            body.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
        more = f"<p>… {len(self) - 20:,} more rows</p>" if len(self) > 20 else ""
        whom = "" if self.stands_for is None else f" Numbers stand for {self.stands_for}."
        note = f"<p>{html.escape(repr(self)[1:-1])}. Everything below the threshold is left out.{whom}</p>"
        return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>{more}{note}"


def _possible(counts: NDArray[np.int64], units: int, contributions: int) -> bool:
    """Whether so many units can have these counts, each unit being in so many buckets at most, and in each once."""
    return int(counts.max(initial=0)) <= units and int(counts.sum()) <= units * contributions


def _rate(plan: Plan, response: Response | None) -> float:
    rate = None if response is None else response.rate
    return plan.sampling_rate if rate is None else rate


def guarantee_of(what: str, plan: Plan, *, private: bool, unit: Unit | None) -> Guarantee:
    """What a plan guarantees `unit` for a release or an answer; raises if a seeded source drew it."""
    if not private:
        raise VerificationFailed(
            f"This {what} was drawn from a seeded source and guarantees nothing.",
            hint=Hint("Draw it again, without a seed.", python="Draw without thresher.testing."),
        )
    return plan.guarantee.for_unit(unit)


def promise_of(plan: Plan, *, private: bool, unit: Unit | None) -> str:
    """The guarantee of a release or of an answer in one line; says so if there is none."""
    return plan.promise(unit) if private else "seeded, not private"


def bucket_label(bucket: Any) -> str:
    """A bucket as text for people: the values of several columns are joined with dots."""
    return " · ".join(map(str, bucket)) if isinstance(bucket, tuple) else str(bucket)


def _why_not(bucket: Any, released: list[Any]) -> str:
    """Why a bucket may be missing, from the release alone; a bucket of another type is never found."""
    why = "It was below the threshold, or nobody holds it; a release does not tell which."
    asked, there = (_types(bucket), _types(released[0])) if released else ((), ())
    if asked == there:
        return why
    return f"This release's buckets are {', '.join(there)}, and {', '.join(asked)} was asked for."


def _types(bucket: Any) -> tuple[str, ...]:
    """The types of a bucket's parts, in words; whole numbers and floats compare equal, so both are "number"."""
    parts = bucket if isinstance(bucket, tuple) else (bucket,)
    words = {str: "text", bool: "boolean", int: "number", float: "number", dt.date: "date", dt.datetime: "time"}
    return tuple(words.get(type(part), type(part).__name__) for part in parts)
