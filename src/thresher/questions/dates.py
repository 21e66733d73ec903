"""Dates and times cut to days, weeks or months: `Dates("day", every="week")`."""

from __future__ import annotations

import calendar
import datetime as dt
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from thresher.errors import InvalidSetting
from thresher.questions.question import Impossible, OneColumn, Reader, json_bytes
from thresher.questions.spelling import read_date, written_day

if TYPE_CHECKING:
    import narwhals as nw

Every = Literal["day", "week", "month"]
_DAY = dt.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Dates(OneColumn):
    """Dates or times cut to the first day of their day, week (Monday) or month.

    A device cuts a time with a zone on that zone's wall clock, and also reads text (`written_day`). A table reads a
    time on the wall clock of its `time_zone`.
    """

    column: str
    every: Every
    kind = "dates"
    reads = ("dates", "times")
    bucket_type = "date32"
    joinable = True
    in_histograms = True
    listed_as = "dates"
    ordered = True

    def __post_init__(self) -> None:
        self._check_column()
        if self.every not in get_args(Every):
            raise InvalidSetting("dates", "must be 'day', 'week' or 'month'")

    def bucket(self, value: Any) -> Any:
        """The first day, as a date."""
        if isinstance(value, dt.datetime):
            value = value.date()
        if not isinstance(value, dt.date):
            return None
        if self.every == "week":
            return value - dt.timedelta(days=value.weekday())
        return value if self.every == "day" else value.replace(day=1)

    def device_bucket(self, value: Any) -> Any:
        """The same; text is read as a date."""
        return self.bucket(written_day(value))

    def axis(self, released: Collection[Any]) -> Iterator[dt.date]:
        """Every day, week or month from the first released one to the last; a release tells of no others."""
        first, last = min(released, default=dt.date.max), max(released, default=dt.date.min)
        while first <= last:
            yield first
            if (end := self._last_day(first)) == dt.date.max:
                return
            first = end + _DAY

    def _last_day(self, first: dt.date) -> dt.date:
        """The last day of the period that begins on this day."""
        if self.every == "month":
            return first.replace(day=calendar.monthrange(first.year, first.month)[1])
        days = 0 if self.every == "day" else 6
        return first + min(dt.timedelta(days), dt.date.max - first)

    def label(self, bucket: Any) -> str:
        """The first and the last day, as "2024-01-01 to 2024-01-07"; of days, the day."""
        return str(bucket) if self.every == "day" else f"{bucket} to {self._last_day(bucket)}"

    def keys(self, value: nw.Expr) -> list[nw.Expr]:
        """The first day, by operations that every engine has."""
        import narwhals as nw

        day = value.cast(nw.Date)
        if self.every == "week":
            return [_monday(day)]
        return [day if self.every == "day" else day.dt.truncate("1mo").cast(nw.Date)]

    def reader(self) -> Reader:
        """Reads a date in ISO form that is the first day of its period."""

        def read(element: Any) -> dt.date:
            day = dt.date.fromisoformat(element)
            if day.isoformat() != element or self.bucket(day) != day:
                raise Impossible
            return day

        return read

    @property
    def longest(self) -> int:
        """Ten characters in quotes."""
        return json_bytes("2000-01-01")

    @property
    def as_setting(self) -> tuple[str, Any]:
        """The period."""
        return "dates", self.every

    def listed(self, value: Any) -> Any:
        """A date; text is read as one."""
        read = read_date(value) if isinstance(value, str) else None
        return value if read is None else read

    def check_listed(self, value: Any) -> None:
        """Refuse all but first days: 15 February is none with months."""
        first = self.bucket(dt.date(2024, 2, 15))
        self._check_own_bucket(value, f"Name each {self.every} by its first day, as {first}.")


def _monday(day: nw.Expr) -> nw.Expr:
    """The last Monday up to a day; narwhals cannot cut dates to weeks."""
    import narwhals as nw

    number = day.dt.weekday() % 7  # Sunday is 7, and on Spark 0
    monday = day
    for since in range(1, 7):
        monday = nw.when(number == (since + 1) % 7).then(day.dt.offset_by(f"-{since}d").cast(nw.Date)).otherwise(monday)
    return monday
