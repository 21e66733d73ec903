"""Dates on the axes of pictures: round ones, in the fewest words that tell them apart."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator

_HOUR, _DAY = dt.timedelta(hours=1), dt.timedelta(days=1)
_HOURS = (1, 2, 3, 6, 12)
_DAYS = (1, 2, 7, 14)
_MONTHS = (1, 2, 3, 6)
_YEARS = (1, 2, 5, 10, 20, 50, 100)

Writer = Callable[[dt.datetime, dt.datetime | None], str]
"""Writes the label of a moment, given the moment of the label before it."""


def instant(moment: dt.datetime) -> dt.datetime:
    """A date with a zone, on the clock of UTC.

    Python compares and subtracts two dates of one zone by their wall clocks. These are wrong by an hour where clocks
    change, and two different instants of the hour that comes twice are equal. Compare and subtract these instead.
    """
    return moment.astimezone(dt.UTC)


def minute(moment: dt.datetime) -> str:
    """A date and time in figures; with the name of its clock, where that time comes twice on the day."""
    return f"{moment:%Y-%m-%d %H:%M}{_which(moment)}"


def day(moment: dt.datetime) -> str:
    """A date in words; with the hour, where that is not midnight. See `minute` for an hour that comes twice."""
    text = f"{moment.day} {moment:%b %Y}"
    return f"{text}, {moment:%H:%M}{_which(moment)}" if moment.time() != dt.time() else text


def _which(moment: dt.datetime) -> str:
    twice = moment.replace(fold=0).utcoffset() != moment.replace(fold=1).utcoffset()
    return f" {moment:%Z}" if twice else ""


def date_ticks(start: dt.datetime, stop: dt.datetime, most: int) -> list[tuple[dt.datetime, str]]:
    """Round moments between two ends, at most so many, each with its label.

    The first label, and the first of every year, has its year; among hours, the first of every day has its day.
    Moments are round on the wall clock of `start`. Both ends have a zone.
    Edge cases: where no round moment lies between the ends, the start is the only one.
    """
    for moments, write in _scales(start):
        found: list[dt.datetime] = []
        for moment in moments:
            if instant(moment) > instant(stop) or len(found) > most:
                break
            if instant(moment) >= instant(start) and _exists(moment):
                found.append(moment)
        if len(found) <= most:
            before = [None, *found]
            return [(moment, write(moment, last)) for moment, last in zip(found, before, strict=False)] or [
                (start, day(start))
            ]
    return [(start, day(start))]


def _exists(moment: dt.datetime) -> bool:
    """Whether the clocks of its zone ever show this time. They skip some times when they go forward."""
    return instant(moment).astimezone(moment.tzinfo).replace(fold=0) == moment.replace(fold=0)


def _scales(start: dt.datetime) -> Iterator[tuple[Iterator[dt.datetime], Writer]]:
    """Moments of ever larger steps, each from at or before the start on."""
    midnight = start.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    for hours in _HOURS:
        yield _every(midnight, hours * _HOUR), _hour
    monday = midnight - midnight.weekday() * _DAY
    for days in _DAYS:
        yield _every(monday if days % 7 == 0 else midnight, days * _DAY), _day
    for months in _MONTHS:
        yield _months(midnight.year, months, midnight), _month
    for years in _YEARS:
        yield _months(midnight.year // years * years, 12 * years, midnight), _year


def _every(first: dt.datetime, step: dt.timedelta) -> Iterator[dt.datetime]:
    moment = first
    while moment.year < dt.MAXYEAR:
        yield moment
        moment += step


def _months(year: int, step: int, like: dt.datetime) -> Iterator[dt.datetime]:
    for month in range(0, 12 * (dt.MAXYEAR - year), step):
        yield like.replace(year=max(1, year + month // 12), month=month % 12 + 1, day=1)


def _hour(moment: dt.datetime, before: dt.datetime | None) -> str:
    if before is not None and before.date() == moment.date():
        return f"{moment:%H:%M}"
    return f"{moment.day} {moment:%b}" + ("" if moment.time() == dt.time() else f", {moment:%H:%M}")


def _day(moment: dt.datetime, before: dt.datetime | None) -> str:
    return f"{moment.day} {_month(moment, before)}"


def _month(moment: dt.datetime, before: dt.datetime | None) -> str:
    return f"{moment:%b}" if before is not None and before.year == moment.year else f"{moment:%b} {moment.year}"


def _year(moment: dt.datetime, before: dt.datetime | None) -> str:
    return str(moment.year)
