"""Stored series as the messages that analysts see. All numbers in them are public."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from thresher.errors import InvalidFormat
from thresher.privacy.plans import Plan
from thresher.protocol.analyst_messages import RoundSettings
from thresher.protocol.configurations import Guarantees
from thresher.protocol.messages import Message, decode
from thresher.protocol.schedules import Schedule
from thresher.protocol.series_messages import ScheduleStated, SeriesRelease, SeriesStatus
from thresher.protocol.states import OPEN_SERIES, GapState, QueryState, SeriesState
from thresher.roles.coordinator.series_store import StoredRelease, StoredSeries


class PreparedSeries(Message, frozen=True, kw_only=True):
    """What was fixed when a series was taken: its guarantees, and a hash of the request it came from."""

    total: Guarantees
    each: Guarantees
    request: str
    steps: int | None = None
    """How many times the rounds of one release are waited for. Earlier versions did not store it."""


def prepared_of(series: StoredSeries) -> PreparedSeries:
    """What was fixed when a series was taken."""
    return decode(PreparedSeries, series.prepared)


def schedule_of(series: StoredSeries) -> Schedule:
    """The dates of a stored series."""
    return decode(ScheduleStated, series.schedule).value


def release_id(series: str, number: int) -> str:
    """The id of the query of a date."""
    return f"{series}-{number}"


def total_of(series: StoredSeries) -> Plan:
    """The plan over all releases of a stored series, whole or in short; `InvalidFormat` if it cannot be read."""
    try:
        release = Plan.from_dict(json.loads(series.query)["plan"])
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise InvalidFormat("This stored series cannot be read.") from None
    stated = prepared_of(series).total.analyst
    return replace(release, epsilon=stated.epsilon, delta=stated.delta, rounds=stated.rounds)


def reserved_for(series: StoredSeries) -> str:
    """What the ledger calls a series."""
    schedule = schedule_of(series)
    return f"{series.what}, every {schedule.every}, {schedule.releases} releases"


def status(
    series: StoredSeries, releases: Sequence[StoredRelease], gaps: Mapping[int, GapState], released: int
) -> SeriesStatus:
    """Where a series stands; `releases` and `gaps` are empty in a list of series.

    Raises: `InvalidFormat` if what was stored cannot be read.
    """
    schedule, prepared = schedule_of(series), prepared_of(series)
    try:
        query: dict[str, Any] = json.loads(series.query)
    except (ValueError, RecursionError):
        raise InvalidFormat("This stored series cannot be read.") from None
    # The states that ask. One that is paused shows the next date as well, since it can be resumed before it.
    asks = series.state in OPEN_SERIES and series.passed < schedule.releases
    return SeriesStatus(
        id=series.id,
        name=series.name,
        verb=series.verb,
        what=series.what,
        by=series.by,
        state=SeriesState(series.state),
        created=series.created,
        changed=series.changed,
        changed_by=series.changed_by,
        ended=series.ended,
        query=query,
        settings=decode(RoundSettings, series.settings),
        schedule=decode(ScheduleStated, series.schedule),
        total=prepared.total,
        each=prepared.each,
        next=schedule.due(series.passed) if asks else None,
        last=schedule.last,
        passed=series.passed,
        released=released,
        releases=_dates(schedule, releases, gaps),
    )


def _dates(schedule: Schedule, releases: Sequence[StoredRelease], gaps: Mapping[int, GapState]) -> list[SeriesRelease]:
    asked = [
        SeriesRelease(
            index=each.number,
            due=schedule.due(each.number),
            query=each.query,
            state=QueryState(each.state),
            ended=each.ended,
        )
        for each in releases
    ]
    missed = [
        SeriesRelease(index=number, due=schedule.due(number), query=None, state=None, gap=gap)
        for number, gap in gaps.items()
    ]
    return sorted([*asked, *missed], key=lambda each: each.index)
