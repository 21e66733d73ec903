"""What the tests of series share: requests, and a coordinator whose clock runs on to a date."""

from __future__ import annotations

from typing import Any

from coordinator_cases import MINUTE, Server

from thresher.privacy.series import plan_series
from thresher.protocol.analyst_messages import RoundSettings
from thresher.protocol.series_messages import ScheduleRequest, SeriesRequest, SeriesStatus
from thresher.questions import Values
from thresher.verbs import HistogramQuery

HOUR = 60 * MINUTE
DAY = 24 * HOUR
WEEK = 7 * DAY
WORDS = ["yes"] * 3_000 + ["no"] * 2_000 + ["rare"] * 3
TOTAL = {"epsilon": 1.0, "delta": 1e-6}


def series_request(
    name: str = "weekly",
    *,
    releases: int = 4,
    rounds: int = 1,
    query: Any = None,
    seconds: float = HOUR,
    epsilon: float = TOTAL["epsilon"],
    **schedule: Any,
) -> SeriesRequest:
    """A series of (1, 1e-6), every week, unless something else is given."""
    total = TOTAL | {"epsilon": epsilon}
    plans = plan_series(**total, releases=releases, rounds=rounds)
    query = HistogramQuery(Values(("word",)), plans.release) if query is None else query.with_plan(plans.release)
    return SeriesRequest(
        name=name,
        query=query.to_dict(),
        **total,
        schedule=ScheduleRequest(**{"every": "week", "releases": releases} | schedule),
        settings=RoundSettings(seconds=seconds),
    )


def follow(server: Server, seconds: float) -> None:
    """Step whenever something is due, for so many seconds of the server's clock."""
    end = server.clock.time + seconds
    for _ in range(10_000):
        wait = server.coordinator.step()
        left = end - server.clock.time
        if left <= 0:
            return
        # Rounds are polled every second; a coarser look finds the same.
        server.clock.time += left if wait is None else min(max(wait, 10 * MINUTE if wait <= 1 else 0), left)
    raise AssertionError("the coordinator does not come to rest")


def states(status: SeriesStatus) -> list[str]:
    """What became of each date that has come."""
    assert [each.index for each in status.releases] == list(range(status.passed))
    return [str(each.gap or each.state) for each in status.releases]
