"""From a verb, its settings and a schedule to the request for a series: plans are made here, the server checks them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from thresher.clock import Clock, SystemClock
from thresher.errors import InvalidSetting
from thresher.privacy.plans import Plan
from thresher.privacy.series import SeriesPlan, plan_series, repeat_plan
from thresher.privacy.settings import check_rounds
from thresher.protocol.analyst_messages import RoundSettings
from thresher.protocol.schedules import Interval, Missed, Schedule, instant, releases_until, wrong_date
from thresher.protocol.series_messages import ScheduleRequest, SeriesRequest
from thresher.tables.time_zones import check_zone
from thresher.verbs.asking import Target, function_of, functions, make
from thresher.verbs.query import Query
from thresher.verbs.settings import settings_of

Date = str | dt.date | dt.datetime
"""A date, or a date and time: as text, or as Python has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesSettings:
    """When a series asks, and what all its releases may cost together. See `Fleet.series` for each setting."""

    every: str
    releases: int | None = None
    until: Date | None = None
    start: Date | None = None
    time_zone: str = "UTC"
    missed: Missed = "skip"
    epsilon: float | None = None
    delta: float | None = None
    plan: Plan | None = None

    def schedule(self, clock: Clock) -> ScheduleRequest:
        """The schedule as it is sent; `until` becomes a number of releases.

        Edge cases: a start that was not given is not sent, so that the same settings give the same request a minute
        later. `until` is then counted from the minute that this machine's clock shows.
        """
        every, zone = Interval.read(self.every), check_zone(self.time_zone)
        start = None if self.start is None else written(self.start, "start")
        first = clock.now() // 60 * 60 if start is None else instant(start, zone)
        if (self.releases is None) == (self.until is None):
            raise InvalidSetting(
                "releases",
                "or `until` must be given, and not both",
                hint="For example `releases=52`, or `until='2026-12-31'`.",
            )
        if self.until is None:
            releases = check_rounds(self.releases, setting="releases")
        else:
            releases = releases_until(every, first, zone, written(self.until, "until"))
        Schedule(every, first, zone, releases, self.missed)  # refused here, and not after a plan was made
        return ScheduleRequest(every=str(every), releases=releases, start=start, time_zone=zone, missed=self.missed)

    def query(self, verb: str, settings: Mapping[str, Any], releases: int) -> tuple[Query, Plan]:
        """The query of one release, and the plan of all releases together."""
        if self.plan is not None:
            if self.epsilon is not None:
                raise InvalidSetting(
                    "plan",
                    "and `epsilon` cannot both be given",
                    hint="Give `delta` alone to have the total epsilon for it.",
                )
            query = make(verb, Target(plan=self.plan), settings)
            return query, repeat_plan(query.plan, releases, self.delta).total
        made: dict[Plan, SeriesPlan] = {}

        def planner(
            epsilon: float | None, delta: float | None, *, rounds: int, contributions: int, adjacency: object
        ) -> Plan:
            found = plan_series(epsilon, delta, releases=releases, rounds=rounds, contributions=contributions)
            made[found.release] = found
            return found.release

        query = make(verb, Target(self.epsilon, self.delta, planner=planner), settings)
        return query, made[query.plan].total


def series_request(
    verb: str,
    settings: Mapping[str, Any],
    series: SeriesSettings,
    *,
    name: str,
    rounds: RoundSettings | None = None,
    clock: Clock | None = None,
) -> SeriesRequest:
    """The request for a series of a verb with its settings.

    Raises: `InvalidSetting` for a setting that does not fit; `Unreachable` if no plan meets the total.
    """
    schedule = series.schedule(SystemClock() if clock is None else clock)
    query, total = series.query(verb, settings, schedule.releases)
    return SeriesRequest(
        name=name,
        query=query.to_dict(),
        epsilon=total.epsilon,
        delta=total.delta,
        schedule=schedule,
        settings=RoundSettings() if rounds is None else rounds,
    )


def verb_settings(
    verb: str | Callable[..., Any], arguments: tuple[Any, ...], settings: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """The name of a verb, and its settings by name, from what was given as to its function, but for the data.

    Raises: `InvalidSetting` for an unknown verb, `TypeError` for arguments that the verb does not take.
    """
    name = verb if isinstance(verb, str) else getattr(verb, "__name__", "")
    name = name.replace("-", "_")
    function = function_of(name)
    if not isinstance(verb, str) and functions()[name] is not verb:
        raise InvalidSetting("verb", "must be a verb of Thresher, or its name", hint='For example "histogram".')
    known = settings_of(function)
    positional = [setting.name for setting in known.values() if setting.positional]
    if len(arguments) > len(positional):
        raise TypeError(f"{name}() takes at most {len(positional)} positional settings")
    given = dict(zip(positional, arguments, strict=False))
    for setting in settings:
        if setting not in known:
            raise TypeError(f"{name}() got an unexpected keyword argument {setting!r}")
        if setting in given:
            raise TypeError(f"{name}() got multiple values for argument {setting!r}")
    return name, given | dict(settings)


def written(date: Date, setting: str) -> str:
    """A date as it is sent."""
    if not isinstance(date, str | dt.date):
        raise wrong_date(setting)
    return date.isoformat() if isinstance(date, dt.date) else date
