"""The fields of the ask form that say how often a query is asked; without a schedule it is asked once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast, get_args

from thresher.client.series_requests import SeriesSettings
from thresher.clock import Clock
from thresher.errors import InvalidSetting
from thresher.protocol.schedules import Missed
from thresher.protocol.series_messages import ScheduleRequest
from thresher.verbs.settings import read_whole

ONCE = "once"
CHOICES = {
    ONCE: "Once",
    "hour": "Hourly",
    "day": "Daily",
    "week": "Weekly",
    "month": "Monthly",
}
"""How often, with the label of each choice."""
USUAL = {"hour": 24, "day": 30, "week": 52, "month": 12}
"""How many releases there are where nobody says."""
FIELDS: dict[str, str] = {
    "every": ONCE,
    "apart": "1",
    "releases": "",
    "until": "",
    "start": "",
    "time_zone": "UTC",
    "missed": "skip",
}
"""Every field of a schedule, with what it is filled with at first."""


def repeats(fields: Mapping[str, str]) -> bool:
    """Whether the query is asked on a schedule."""
    return fields["every"] != ONCE


def to_schedule(fields: Mapping[str, str], clock: Clock) -> ScheduleRequest:
    """The schedule that these fields make; `InvalidSetting` names what is wrong.

    Edge cases: without a number of releases and without a last date there are as many releases as `USUAL` says.
    """
    every = fields["every"]
    if every not in USUAL:
        raise InvalidSetting("every", f"must be one of {', '.join(CHOICES)}")
    apart = read_whole(fields["apart"] or "1", "apart")
    if not 1 <= apart <= 999:
        raise InvalidSetting("apart", "must be a whole number from 1 to 999")
    if fields["missed"] not in get_args(Missed):
        raise InvalidSetting("missed", f"must be one of {', '.join(get_args(Missed))}")
    releases = read_whole(fields["releases"], "releases") if fields["releases"] else None
    if releases is None and not fields["until"]:
        releases = USUAL[every]
    return SeriesSettings(
        every=every if apart == 1 else f"{apart} {every}s",
        releases=releases,
        until=fields["until"] or None,
        start=fields["start"] or None,
        time_zone=fields["time_zone"] or "UTC",
        missed=cast(Missed, fields["missed"]),
    ).schedule(clock)
