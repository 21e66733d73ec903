"""Series whose dates have come: a server whose clock a test moves from one date to the next."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from console_server import ConsoleServer

from thresher.client.series_requests import SeriesSettings, series_request
from thresher.protocol.series_messages import SeriesStatus
from thresher.protocol.states import ACTIVE_QUERY

WEEK = 7 * 86_400.0


def start_series(
    server: ConsoleServer, verb: str = "histogram", column: str = "version", *, name: str = "series", **settings: Any
) -> str:
    """Start a series, weekly unless told; its id."""
    schedule = {"every": "week", "releases": 4, "epsilon": 3.0, "delta": 1e-6}
    own = {each: settings.pop(each) for each in list(settings) if each in SeriesSettings.__slots__}
    request = series_request(
        verb,
        {"column": column, **settings},
        SeriesSettings(**schedule | own),
        name=name,
        clock=server.console_clock,
    )
    return server.coordinator.series.create(request, "ana").id


def settled(server: ConsoleServer, series: str, passed: int) -> SeriesStatus:
    """Wait until so many dates have come, and their queries have ended."""
    for _ in range(3000):
        status = server.coordinator.series.status(series)
        if status.passed >= passed and not any(each.state in ACTIVE_QUERY for each in status.releases):
            return status
        time.sleep(0.01)
    raise AssertionError(f"the series did not come to rest: {status.passed} dates have come, not {passed}")


def pass_dates(
    server: ConsoleServer,
    series: str,
    number: int,
    *,
    missed: frozenset[int] = frozenset(),
    paused: frozenset[int] = frozenset(),
    rows: Callable[[int], list[dict[str, Any]]] | None = None,
) -> SeriesStatus:
    """Move the clock over `number` dates of a weekly series. `rows` are what devices hold at each date."""
    keeper, clock = server.coordinator.series, server.console_clock
    status = keeper.status(series)
    for index in range(status.passed, number):
        if rows is not None:
            server.rows.rows = rows(index)
        if index in paused:
            keeper.pause(series, "ana")
        late = 20 * 3600.0 if index in missed else 60.0  # a week's release may start for 16.8 hours
        clock.ahead += status.schedule.value.due(index) + late - clock.now()
        status = settled(server, series, index + 1)
        if index in paused:
            keeper.resume(series, "ana")
    return keeper.status(series)


def versions(week: int, number: int = 6000, seed: int = 3) -> list[dict[str, Any]]:
    """What devices hold in a week of a year: versions replace one another, some buckets come and go."""
    random = np.random.default_rng([seed, week])
    names = ["1.8", "1.9", "2.0", "2.1", "nightly", "1.2"]
    weights = [
        1.2 / (1 + np.exp((week - 12) / 4)),
        1.4 * np.exp(-(((week - 18) / 11) ** 2)),
        1.5 * np.exp(-(((week - 36) / 10) ** 2)),
        1.8 / (1 + np.exp(-(week - 44) / 3)),
        0.035,
        0.012,
    ]
    active = int(number * (1.06 - 0.06 * np.cos(week / 52 * 2 * np.pi)))  # never fewer than a round waits for
    found = random.choice(len(names), active, p=np.array(weights) / sum(weights))
    waits = np.exp(random.normal(4.6 + 0.3 * np.sin(week / 9), 0.7, active))
    return [{"version": names[which], "latency_ms": float(wait)} for which, wait in zip(found, waits, strict=True)]
