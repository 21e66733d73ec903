"""The answers of a series over time: rows, lines with bands, and what changed. Post-processing, which costs nothing."""

from __future__ import annotations

import datetime as dt
import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from thresher.charts.calendar import instant
from thresher.errors import Hint, InvalidSetting, NotReleased
from thresher.mechanism.tabular import Tabular
from thresher.privacy.settings import check_count
from thresher.verbs.accuracy import CONFIDENCE
from thresher.verbs.answer import Answer, json_value
from thresher.verbs.changes import Changes
from thresher.verbs.readings import Reading, Readings

if TYPE_CHECKING:
    import pyarrow as pa

    from thresher.charts.svg import Svg

Point = tuple[dt.datetime, Answer | None]
"""A date, and its answer; None where that release was missed."""

DATE, RELEASE_DATE = "date", "release_date"
MOST = 5
"""How many lines a picture shows where nobody chose them."""


@dataclass(frozen=True, eq=False, repr=False)
class OverTime(Tabular):
    """The answers of one query at several dates, as a series releases them.

    Args:
        points: pairs of a date with a time zone and an answer, the oldest first; None in place of an answer is a gap:
            a release that was missed. Each date has one answer at most. All answers are of the same query: one verb,
            the same settings and plan.
        ranges: for answers of `thresher.ranges`, the ranges to follow, such as [(0, 18), (18, 65)]; by default some
            sixteen of equal width.

    Guarantee: everything here is computed from what was released already. Nothing is asked, nothing is charged.
    Raises `InvalidSetting` where dates do not rise, where answers are of different queries, or where a verb has no
    numbers to follow.

        >>> over_time = th.OverTime([(monday, first), (tuesday, None), (wednesday, third)])
        >>> over_time.to_pandas().columns.tolist()
        ['date', 'country', 'estimate', 'lower', 'upper']
    """

    points: tuple[Point, ...]
    ranges: tuple[tuple[float, float], ...]

    def __init__(self, points: Sequence[Point], ranges: Sequence[tuple[float, float]] = ()) -> None:
        object.__setattr__(self, "points", _checked(points))
        object.__setattr__(self, "ranges", tuple((low, high) for low, high in ranges))
        if self.ranges and not all(answer.reads_ranges for _, answer in self.released):
            raise InvalidSetting("ranges", "cannot be read off these answers", hint="Ask for ranges.")
        if self.released:
            self.read(self.released[0][1], CONFIDENCE)

    @property
    def dates(self) -> tuple[dt.datetime, ...]:
        """All dates, gaps included."""
        return tuple(date for date, _ in self.points)

    @property
    def missed(self) -> tuple[dt.datetime, ...]:
        """The dates of releases that were missed."""
        return tuple(date for date, answer in self.points if answer is None)

    @functools.cached_property
    def released(self) -> tuple[tuple[dt.datetime, Answer], ...]:
        """The dates that have an answer, with it."""
        return tuple((date, answer) for date, answer in self.points if answer is not None)

    def __len__(self) -> int:
        return len(self.points)

    @functools.cached_property
    def readings(self) -> tuple[Readings, ...]:
        """What each answer of `released` says, with 95 % intervals."""
        return tuple(self.read(answer, CONFIDENCE) for _, answer in self.released)

    def read(self, answer: Answer, confidence: float) -> Readings:
        """What one answer says, with intervals at this confidence."""
        return answer.readings(confidence, self.ranges)

    @functools.cached_property
    def buckets(self) -> dict[tuple[Any, ...], str]:
        """Every bucket (or quantile, or range) that any answer has, by its key, with its label.

        Those with an order of their own are in that order, others by their estimates over all dates, largest first.
        """
        labels: dict[tuple[Any, ...], str] = {}
        sums: dict[tuple[Any, ...], float] = {}
        for readings in self.readings:
            for row in readings.rows:
                labels.setdefault(row.key, row.label)
                sums[row.key] = sums.get(row.key, 0.0) + (row.estimate if row.known else 0.0)
        if self.readings and self.readings[0].ordered:
            return {key: labels[key] for key in sorted(labels)}
        return {key: labels[key] for key in sorted(labels, key=lambda each: -sums[each])}

    def line(self, bucket: Any) -> list[Reading | None]:
        """One bucket at every date; None where a release was missed, or where the bucket was below the threshold.

        `bucket` is given as its value, as a tuple of values, or as its label. Raises `NotReleased` where no answer
        ever had it.
        """
        return self._line(self._key(bucket))

    def _line(self, key: tuple[Any, ...]) -> list[Reading | None]:
        found = iter(self._by_key)
        return [None if answer is None else next(found).get(key) for _, answer in self.points]

    @functools.cached_property
    def _by_key(self) -> tuple[dict[tuple[Any, ...], Reading], ...]:
        return tuple(readings.by_key() for readings in self.readings)

    def _key(self, bucket: Any) -> tuple[Any, ...]:
        for rows in self._by_key:
            for key, row in rows.items():
                if row.is_of(bucket):
                    return key
        raise NotReleased(
            "No release of this series has such a bucket.",
            hint="It was below the threshold at every date, or nobody holds it; releases do not tell which.",
        )

    def to_arrow(self) -> pa.Table:
        """One row for each date and bucket that was released: date, the bucket's columns, estimate, lower, upper.

        The estimate of quantiles is called `value`. `lower` and `upper` are 95 % confidence intervals, as in the single
        answers. A missed release has no rows; neither has a bucket at a date when it was below the threshold. Where a
        column that was asked about is called `date`, the date of a release is called `release_date`.
        """
        import pyarrow as pa

        shown = next((readings for readings in self.readings if readings.rows), None) or next(iter(self.readings), None)
        keys = () if shown is None else shown.key_columns
        taken = {name for name, _ in keys}
        date = next((name for name in (DATE, RELEASE_DATE) if name not in taken), None)
        if date is None:
            raise InvalidSetting("column", f"must not be called {DATE} and {RELEASE_DATE}", hint="Rename a column.")
        rows = [
            (moment, row)
            for (moment, _), readings in zip(self.released, self.readings, strict=True)
            for row in readings.rows
        ]
        columns = {date: pa.array([moment for moment, _ in rows], pa.timestamp("us", _zone(self.dates)))}
        for index, (name, kind) in enumerate(keys):
            columns[name] = pa.array([row.key[index] for _, row in rows], kind)
        numbers = {
            "estimate" if shown is None else shown.column: [row.estimate for _, row in rows],
            "lower": [row.lower for _, row in rows],
            "upper": [row.upper for _, row in rows],
        }
        for name, values in numbers.items():
            columns[name] = pa.array(values, pa.float64(), from_pandas=True)  # a number that is not known is null
        return pa.table(columns)

    def to_json(self) -> str:
        """What is followed, the missed dates, and the rows of `to_arrow`, for other programs."""
        content = {
            "what": self.released[0][1].query.what if self.released else "",
            "missed": [date.isoformat() for date in self.missed],
            "rows": json_value(self.to_arrow().to_pylist()),
        }
        return json.dumps(content, ensure_ascii=False, allow_nan=False)

    def changes(self, since: dt.datetime | dt.date | None = None, *, confidence: float = CONFIDENCE) -> Changes:
        """What changed up to the last release, with an interval for every change.

        Args:
            since: compare with the last release at or before this date; without it, with the release before the last.
            confidence: of each interval.

        Returns `Changes`. Raises `InvalidSetting` where there are no two releases to compare.
        """
        if len(self.released) < 2:
            raise InvalidSetting("changes", "need two releases", hint="Wait for the next release of the series.")
        *earlier, last = self.released
        if since is not None:
            earlier = [point for point in earlier if _not_after(point[0], since)]
            if not earlier:
                raise InvalidSetting("since", "is before the first release", hint="Give a release's date, or later.")
            if _not_after(last[0], since):
                raise InvalidSetting("since", "is not before the last release", hint="Give an earlier date.")
        first, second = ((date, functools.partial(self.read, answer)) for date, answer in (earlier[-1], last))
        return Changes.between(first, second, confidence)

    def plot(self, path: str | Path | None = None, *, buckets: Sequence[Any] | None = None, most: int = MOST) -> Any:
        """Lines with 95 % bands over time, shown in notebooks or saved.

        A line has a gap where its bucket was below the threshold or a release was missed.

        Args:
            path: where it is saved; ends in .png, .svg or .html. Needs the extra `plot`.
            buckets: which to draw, as for `line`; by default the largest over all dates.
            most: how many are drawn where they are not chosen.
        """
        from thresher import charts

        releases = f"{len(self.released)} release{'' if len(self.released) == 1 else 's'}"
        chart = charts.trends(
            self.dates,
            self._trends(buckets, most),
            title=self._title,
            subtitle=f"{releases}; {self.footing()}" if self.released else releases,
            missed=self.missed,
            measured=self._measured,
            whom=self.stands_for,
        )
        return charts.show(chart, path)

    def footing(self) -> str:
        """Whom each release was asked of and what it promises, in one line; empty while there is none."""
        return f"each release: {self.released[0][1].footing()}" if self.released else ""

    def svg(self, *, buckets: Sequence[Any] | None = None, most: int = MOST, height: float | None = None) -> Svg:
        """The same picture for a web page, as high as given, in pixels."""
        from thresher import charts

        return charts.trends_svg(
            self.dates,
            self._trends(buckets, most),
            title=self._title,
            missed=self.missed,
            measured=self._measured,
            height=charts.PAGE_HEIGHT if height is None else height,
        )

    @property
    def stands_for(self) -> str | None:
        """For whom the numbers of a fleet stand, in words; None for a table."""
        if all(answer.stands_for is None for _, answer in self.released):
            return None
        return "the devices that checked in while each release was open"

    @property
    def _title(self) -> str:
        what = self.released[0][1].query.what if self.released else "series"
        verb, space, rest = what.partition(" ")
        return f"{verb.capitalize().replace('_', ' ')}{space}{rest}, over time"

    @property
    def _measured(self) -> str | None:
        if not self.readings or self.readings[0].counts:
            return None
        return self.released[0][1].measured

    def _trends(self, buckets: Sequence[Any] | None, most: int) -> list[Any]:
        from thresher import charts

        if isinstance(buckets, str):
            raise InvalidSetting("buckets", "must be a list, not one text", hint="For example `buckets=['fr', 'de']`.")
        most = check_count(most, setting="most", least=1, example=MOST)
        if buckets is None:
            chosen = self._largest(min(most, charts.MOST_LINES))
        else:
            chosen = list(dict.fromkeys(self._key(each) for each in buckets))
        if len(chosen) > charts.MOST_LINES:
            raise InvalidSetting(
                "buckets", f"must be at most {charts.MOST_LINES} in one picture", hint="Draw several pictures."
            )
        return [
            charts.Trend(
                self.buckets[key],
                [None if row is None else (row.estimate, row.lower, row.upper) for row in self._line(key)],
            )
            for key in chosen
        ]

    def _largest(self, most: int) -> list[tuple[Any, ...]]:
        """Buckets with the largest estimates over all dates; of quantiles the first. In the order of `buckets`."""
        if not self.readings or not self.readings[0].counts:
            return list(self.buckets)[:most]
        sums = {key: sum(row.estimate for row in self._line(key) if row is not None) for key in self.buckets}
        largest = set(sorted(sums, key=lambda key: -sums[key])[:most])
        return [key for key in self.buckets if key in largest]

    def __repr__(self) -> str:
        what = self.released[0][1].query.what if self.released else "nothing yet"
        return f"<OverTime of {what}: {len(self.released)} releases, {len(self.missed)} missed>"


def _checked(points: Sequence[Point]) -> tuple[Point, ...]:
    """The points, if they are of one query and their dates rise."""
    found = tuple((date, answer) for date, answer in points)
    for date, answer in found:
        if not isinstance(date, dt.datetime) or date.tzinfo is None:  # type: ignore[redundant-expr]
            raise InvalidSetting(
                "points",
                "must have dates with a time zone",
                hint=Hint("Say their time zone.", python="For example datetime.now(UTC)."),
            )
        if not isinstance(answer, Answer | None):
            raise InvalidSetting("points", f"must have answers or None, not {type(answer).__name__}")
    moments = [instant(date) for date, _ in found]
    answered = [moment for moment, (_, answer) in zip(moments, found, strict=True) if answer is not None]
    # Two dates of a schedule coincide where a country skips a day. One of them is a gap then.
    if moments != sorted(moments) or len(answered) != len(set(answered)):
        raise InvalidSetting("points", "must have rising dates, each only once", hint="Sort them by date.")
    queries = [answer.query for _, answer in found if answer is not None]
    if any(query != queries[0] for query in queries):
        raise InvalidSetting(
            "points",
            "must all be answers of one query: the same verb, settings and plan",
            hint="Numbers that were asked for in different ways do not make one line; make two series.",
        )
    return found


def _zone(dates: Sequence[dt.datetime]) -> str:
    """The zone of all dates, where they share one that has a name; UTC otherwise."""
    names = {date.tzinfo.key if isinstance(date.tzinfo, ZoneInfo) else "UTC" for date in dates}
    return names.pop() if len(names) == 1 else "UTC"


def _not_after(moment: dt.datetime, since: dt.datetime | dt.date) -> bool:
    """Whether a release is at or before a moment, or on or before a day of its own calendar."""
    if isinstance(since, dt.datetime):
        if since.tzinfo is None:
            raise InvalidSetting("since", "must have a time zone", hint="Give a date without a time, or add a zone.")
        return instant(moment) <= instant(since)
    return moment.date() <= since
