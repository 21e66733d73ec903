"""The numbers of a series' last release beside those of the one before, as a page shows them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from thresher.charts.numbers import amount, count, printable
from thresher.console.following import Followed
from thresher.verbs.changes import Change, Changes, OneSided, signed

MOST_ROWS = 50


@dataclass(frozen=True, slots=True)
class LatestNumber:
    """One number of the last release, and how it changed since the release before."""

    label: str
    estimate: str
    interval: str
    change: str
    """Empty where the release before does not have it."""
    change_interval: str
    changed: bool | None
    """Whether "no change" lies outside the interval; None where that is not known."""


@dataclass(frozen=True, slots=True)
class Surfaced:
    """A bucket that only one of the last two releases has."""

    label: str
    estimate: str
    bound: str
    """How many units it may have had at most where it was not released; empty where that is not known."""
    certain: bool


def latest_numbers(followed: Followed, most: int = MOST_ROWS, *, changed_first: bool = True) -> list[LatestNumber]:
    """The numbers of the last release. Where there are more than `most`, those that changed may come first."""
    changes = followed.changes
    by_key = {} if changes is None else {row.after.key: row for row in changes}
    rows = list(followed.latest)
    if changed_first and len(rows) > most:
        rows.sort(key=lambda row: not (row.key in by_key and by_key[row.key].changed))
    write = writer(followed)
    found = []
    for row in rows[:most]:
        change = by_key.get(row.key)
        found.append(
            LatestNumber(
                printable(row.label),
                write(row.estimate),
                _span(row.lower, row.upper, write),
                "" if change is None else signed(change.change, write),
                "" if change is None else _change_span(change, write),
                None if change is None else change.changed,
            )
        )
    return found


def surfaced(changes: Changes | None, *, vanished: bool, most: int = MOST_ROWS) -> list[Surfaced]:
    """The buckets that appeared since the release before the last, or that vanished; the certain ones first."""
    if changes is None:
        return []
    listed: Sequence[OneSided] = changes.vanished if vanished else changes.appeared
    return [
        Surfaced(
            printable(each.reading.label),
            count(each.reading.estimate),
            "" if each.unseen_upper is None else count(each.unseen_upper),
            each.certain,
        )
        for each in sorted(listed, key=lambda each: not each.certain)[:most]
    ]


def writer(followed: Followed) -> Callable[[float], str]:
    """How the numbers of a series are written: as counts, or as measured values."""
    over_time = followed.over_time
    counts = over_time is None or not over_time.readings or over_time.readings[-1].counts
    return count if counts else _measured


def _measured(value: float) -> str:
    """A measured value in four digits: more say nothing beside its interval."""
    return amount(float(f"{value:.4g}"))


def _span(lower: float | None, upper: float | None, write: Callable[[float], str]) -> str:
    return "–" if lower is None or upper is None else f"{write(lower)} to {write(upper)}"


def _change_span(change: Change, write: Callable[[float], str]) -> str:
    lower, upper = change.interval
    return "–" if lower is None or upper is None else f"{signed(lower, write)} to {signed(upper, write)}"
