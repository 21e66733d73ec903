"""What analysts send and see of a series: one query asked again and again on a schedule."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from thresher.privacy.settings import MAX_ROUNDS
from thresher.protocol.analyst_messages import Caution, PlanPreview, RoundSettings
from thresher.protocol.configurations import Guarantees
from thresher.protocol.messages import VERSION, Count, Message, Name, Text, Version
from thresher.protocol.schedules import EVERY, Interval, Missed, Schedule, instant
from thresher.protocol.states import GapState, QueryState, SeriesState

Every = Annotated[
    str, Meta(pattern=EVERY, max_length=20, description="hour, day, week or month, or several, as 2 weeks")
]
Releases = Annotated[int, Meta(ge=1, le=MAX_ROUNDS)]


class ScheduleRequest(Message, frozen=True, kw_only=True):
    """When a series asks."""

    every: Every
    releases: Releases
    start: Text | None = None
    """The first date, such as "2026-03-02 09:00", on the wall clock of the time zone. By default it is the minute in
    which the server takes the series."""
    time_zone: Text = "UTC"
    missed: Missed = "skip"
    """What becomes of a date that the server missed: "skip" leaves a gap, "late" asks until the next date is due."""

    def schedule(self, now: float) -> Schedule:
        """The dates, if the series is taken now; `InvalidSetting` for a setting that does not fit."""
        start = now // 60 * 60 if self.start is None else instant(self.start, self.time_zone)
        return Schedule(Interval.read(self.every), start, self.time_zone, self.releases, self.missed)


class ScheduleStated(Message, frozen=True, kw_only=True):
    """A schedule with its first date, as it is stored."""

    every: Every
    releases: Releases
    start: float
    """In seconds since 1970."""
    time_zone: Text
    missed: Missed

    @classmethod
    def of(cls, schedule: Schedule) -> ScheduleStated:
        """The wire form."""
        return cls(
            every=str(schedule.every),
            releases=schedule.releases,
            start=schedule.start,
            time_zone=schedule.time_zone,
            missed=schedule.missed,
        )

    @property
    def value(self) -> Schedule:
        """The same as a value."""
        return Schedule(Interval.read(self.every), self.start, self.time_zone, self.releases, self.missed)


class SeriesRequest(Message, frozen=True, kw_only=True):
    """A series: a query whose plan is that of one release, its schedule, and what all releases cost together."""

    name: Name
    """Chosen by the caller; asking again under the same name returns the first series."""
    query: dict[str, Any]
    epsilon: float
    """Over all rounds of all releases."""
    delta: float
    """Over all rounds of all releases."""
    schedule: ScheduleRequest
    settings: RoundSettings = RoundSettings()
    version: Version = VERSION


class SeriesPreview(Message, frozen=True, kw_only=True):
    """What a series would cost, guarantee and see, before anything is reserved."""

    schedule: ScheduleStated
    dates: list[float]
    """The first dates."""
    last: float
    """The last date."""
    window: float
    """For how many seconds after a date its release may start."""
    rounds: int
    """Of all releases."""
    guarantees: Guarantees
    """Over all releases together."""
    release: PlanPreview
    """One release by itself. What it costs is a part of what the series costs, and is not paid again."""
    words: list[str]
    cost_epsilon: float
    cost_delta: float
    left_epsilon: float
    """What the plain sum of epsilons leaves."""
    left_delta: float
    """What the plain sum of deltas leaves."""
    fits: bool
    takes: float
    """The part of the whole budget that the series takes, from 0 to 1."""
    left_share: float
    """The part of the budget that is left before it."""
    warnings: list[Caution] = msgspec.field(default_factory=list)
    """What speaks against asking it; empty where nothing does."""


class SeriesRelease(Message, frozen=True, kw_only=True):
    """One date of a series that has come."""

    index: Count
    due: float
    query: Name | None
    """The query that was asked; None for a gap."""
    state: QueryState | None
    """Where its query stands; None for a gap."""
    gap: GapState | None = None
    """Why nothing was asked; None where a query was."""
    ended: float | None = None
    """When its query ended."""


class SeriesStatus(Message, frozen=True, kw_only=True):
    """Where a series stands."""

    id: Name
    name: Name
    verb: Text
    what: str
    by: str
    state: SeriesState
    created: float
    changed: float | None
    """When somebody last paused, resumed or ended it."""
    changed_by: str | None
    ended: float | None
    query: dict[str, Any]
    """The query of one release. A long one has its lists of values only where the series is asked for by its id."""
    settings: RoundSettings
    schedule: ScheduleStated
    total: Guarantees
    """Over all releases together."""
    each: Guarantees
    """Of one release by itself."""
    next: float | None
    """The next date, which is asked unless the series is paused then; None where no date is left."""
    last: float
    """The last date."""
    passed: Count
    """How many dates have come."""
    released: Count
    """How many of them have an answer."""
    releases: list[SeriesRelease] = msgspec.field(default_factory=list)
    """The dates that have come, in order; empty in the list of all series."""


class SeriesList(Message, frozen=True, kw_only=True):
    """All series, newest first, without their releases."""

    series: list[SeriesStatus]
