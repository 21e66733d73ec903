"""When a series asks: dates on a wall clock, and until when the release of a date may start.

    every="2 weeks", start="2026-03-02 09:00", time_zone="Europe/Paris", releases=26

Days, weeks and months are counted on the wall clock of the time zone: 09:00 stays 09:00 when clocks change. Hours are
counted as time that passes. All of it is arithmetic; nothing here reads a clock.
"""

from __future__ import annotations

import calendar
import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from thresher.errors import InvalidSetting
from thresher.privacy.settings import MAX_ROUNDS
from thresher.tables.time_zones import check_zone, zone_of

Missed = Literal["skip", "late"]
"""What becomes of a date whose window was missed: it stays a gap, or it is asked until the next date is due."""

EVERY = r"^([1-9][0-9]{0,2} )?(hour|day|week|month)s?$(?!\n)"
"""How an interval is written, such as "week" or "2 weeks"."""
_HOUR = 3600.0
_SHORTEST = {"hour": _HOUR, "day": 24 * _HOUR, "week": 7 * 24 * _HOUR, "month": 28 * 24 * _HOUR}
"""Seconds of each unit; a month has at least 28 days."""
_WINDOW = 0.1
"""The part of an interval in which a release may start, if a missed date is skipped."""
_LONGEST = 36_525 * 24 * _HOUR
"""A hundred years. A schedule ends at most so long after its start, and starts at most so long after 1970."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Every so many hours, days, weeks or months."""

    number: int
    unit: str

    @classmethod
    def read(cls, text: object) -> Interval:
        """An interval as people write it: "week", "2 weeks"."""
        if not isinstance(text, str) or not re.search(EVERY, text):
            raise InvalidSetting(
                "every", "must be hour, day, week or month, or several of them", hint='For example "week" or "2 weeks".'
            )
        number, _, unit = text.rpartition(" ")
        return cls(int(number or 1), unit.removesuffix("s"))

    @property
    def seconds(self) -> float:
        """How long it is at least, apart from clocks that change. A month has at least 28 days."""
        return self.number * _SHORTEST[self.unit]

    def __str__(self) -> str:
        return self.unit if self.number == 1 else f"{self.number} {self.unit}s"


@dataclass(frozen=True, slots=True)
class Schedule:
    """The dates of a series. `start` is the first date, in seconds since 1970.

    Guarantee: dates never go back. The dates of days, weeks and months have the wall clock time of the first one. A
    month that lacks the day of the first date has its last day in place of it, and later months have the day again.
    Edge cases: a wall clock time that is skipped when clocks go forward becomes the time that much later (02:30 becomes
    03:30); one that comes twice is the first of the two. Where a country skips a whole day, two dates may coincide.
    """

    every: Interval
    start: float
    time_zone: str
    releases: int
    missed: Missed = "skip"

    def __post_init__(self) -> None:
        check_zone(self.time_zone)
        if self.missed not in get_args(Missed):
            raise InvalidSetting("missed", "must be 'skip' or 'late'")
        if not 1 <= self.releases <= MAX_ROUNDS:
            raise InvalidSetting("releases", f"must be a whole number from 1 to {MAX_ROUNDS:,}")
        if not 0 <= self.start <= _LONGEST:
            raise _far("start")
        # The first check keeps the second from counting months beyond the calendar.
        if not (self.releases - 1) * self.every.seconds <= _LONGEST or not self.last - self.start <= _LONGEST:
            raise InvalidSetting("releases", "must all lie within a hundred years", hint="Ask for fewer releases.")

    def due(self, index: int) -> float:
        """The date of a release, in seconds since 1970. The first one has the index 0."""
        steps = index * self.every.number
        if self.every.unit == "hour":
            return self.start + steps * _HOUR
        if index == 0:
            return self.start  # also where its wall clock time comes twice
        zone = zone_of(self.time_zone)
        first = dt.datetime.fromtimestamp(self.start, zone).replace(tzinfo=None, fold=0)
        wall = _months_later(first, steps) if self.every.unit == "month" else first + self._days(steps)
        return wall.replace(tzinfo=zone).timestamp()

    def _days(self, steps: int) -> dt.timedelta:
        return dt.timedelta(days=steps * (7 if self.every.unit == "week" else 1))

    def closes(self, index: int) -> float:
        """Until when the release of a date may start.

        With "skip" that is a tenth of the interval after the date: six minutes for hours, 2.4 hours for days, 16.8
        hours for weeks, 2.8 days for months. With "late" it is the next date. It is never after the next date.
        """
        date, following = self.due(index), self.due(index + 1)
        return following if self.missed == "late" else min(following, date + _WINDOW * self.every.seconds)

    @property
    def last(self) -> float:
        """The date of the last release."""
        return self.due(self.releases - 1)

    def dates(self, most: int | None = None) -> list[float]:
        """The dates, or the first `most` of them."""
        return [self.due(index) for index in range(self.releases if most is None else min(most, self.releases))]

    def __str__(self) -> str:
        return f"every {self.every}, {self.releases} releases, {self.time_zone}"


def instant(text: str, time_zone: str, *, setting: str = "start") -> float:
    """A date, or a date and time, in seconds since 1970: as "2026-03-02" or "2026-03-02 09:00".

    It is on the wall clock of the time zone, unless it has an offset itself ("2026-03-02T09:00+01:00").

    Raises: `InvalidSetting` for a wall clock time that clocks skip on that day. Later dates of a schedule would have
    the time that it becomes, and not the time that was asked for.
    """
    zone = zone_of(check_zone(time_zone))
    found = _read(text, setting)
    if found.tzinfo is not None:
        return found.timestamp()
    seconds = found.replace(tzinfo=zone).timestamp()
    if dt.datetime.fromtimestamp(seconds, zone).replace(tzinfo=None, fold=0) != found:
        raise InvalidSetting(setting, f"does not exist on the clocks of {time_zone}, which go forward then")
    return seconds


def releases_until(every: Interval, start: float, time_zone: str, until: str) -> int:
    """How many dates there are up to `until`, which counts itself; a day without a time counts whole.

    Raises: `InvalidSetting` if there is none, if there are more than a series may have, or if `until` lies more than a
    hundred years after the start.
    """
    found = _read(until, "until")
    if len(until.strip()) <= len("2026-03-02"):
        found += dt.timedelta(days=1, microseconds=-1)
    end = found.replace(tzinfo=found.tzinfo or zone_of(check_zone(time_zone))).timestamp()
    if not end - start <= _LONGEST + 24 * _HOUR:  # the day of `until` counts whole
        raise _far("until")
    number = sum(1 for _ in _up_to(Schedule(every, start, time_zone, 1), end))
    if not number:
        raise InvalidSetting("until", "lies before the start")
    if number > MAX_ROUNDS:
        raise InvalidSetting("until", f"leaves more than {MAX_ROUNDS:,} releases", hint="Ask less often, or for less.")
    return number


def _up_to(schedule: Schedule, end: float) -> Iterator[float]:
    for index in range(MAX_ROUNDS + 1):
        date = schedule.due(index)
        if date > end:
            return
        yield date


def _read(text: str, setting: str) -> dt.datetime:
    """A date and time as it was written, in whole seconds."""
    try:
        found = dt.datetime.fromisoformat(text.strip())
    except (ValueError, TypeError, AttributeError):
        found = None
    if found is None:
        raise wrong_date(setting)
    if not 1971 <= found.year <= 2200:  # far from where Python's own dates end
        raise _far(setting)
    return found.replace(microsecond=0)


def _far(setting: str) -> InvalidSetting:
    """The error for a date that is too far away."""
    if setting == "start":
        return InvalidSetting(setting, "must lie between 1970 and 2070", hint="Leave it out to start at once.")
    return InvalidSetting(setting, "must lie within a hundred years", hint="Give an earlier date, or a later start.")


def wrong_date(setting: str) -> InvalidSetting:
    """The error for what is no date."""
    return InvalidSetting(setting, "must be a date, or a date and time", hint='For example "2026-03-02 09:00".')


def _months_later(first: dt.datetime, months: int) -> dt.datetime:
    """The same day of a later month, or its last day."""
    year, month = divmod(first.year * 12 + first.month - 1 + months, 12)
    day = min(first.day, calendar.monthrange(year, month + 1)[1])
    return first.replace(year=year, month=month + 1, day=day)
