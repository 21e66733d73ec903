"""The analyst's routes for series: plan, create, follow, pause, resume, end."""

from __future__ import annotations

from thresher.protocol.series_messages import SeriesList, SeriesPreview, SeriesRequest, SeriesStatus
from thresher.server.analyst_routes import LARGEST_QUERY, caller_of
from thresher.server.auth import ANALYST
from thresher.server.routing import Call, Routes

_SERIES = {"body": SeriesRequest, "largest_body": LARGEST_QUERY, "reads": True}

ROUTES = Routes("coordinator", ANALYST)


@ROUTES.add("POST", "/v1/series/plans", **_SERIES, problems=(400, 422))
def plan_series(call: Call) -> SeriesPreview:
    """What a series would cost, guarantee and see, and its first dates; reserves nothing."""
    return call.services.the_coordinator.series.preview(call.body, call.services.come_back)


@ROUTES.add("POST", "/v1/series", **_SERIES, problems=(400, 402, 409, 422))
def create_series(call: Call) -> SeriesStatus:
    """Reserve a series' budget and start it; asking again under the same name returns the first series."""
    status = call.services.the_coordinator.series.create(call.body, caller_of(call))
    call.services.wake.set()
    return status


@ROUTES.add("GET", "/v1/series")
def list_series(call: Call) -> SeriesList:
    """All series."""
    return SeriesList(series=call.services.the_coordinator.series.all())


@ROUTES.add("GET", "/v1/series/{series}", problems=(404,))
def show_series(call: Call) -> SeriesStatus:
    """Where a series stands, with every date that has come."""
    return call.services.the_coordinator.series.status(call.path["series"])


@ROUTES.add("POST", "/v1/series/{series}/pause", problems=(400, 404))
def pause_series(call: Call) -> SeriesStatus:
    """Let the dates of a series pass without asking."""
    return call.services.the_coordinator.series.pause(call.path["series"], caller_of(call))


@ROUTES.add("POST", "/v1/series/{series}/resume", problems=(400, 404))
def resume_series(call: Call) -> SeriesStatus:
    """Ask again from the next date on."""
    status = call.services.the_coordinator.series.resume(call.path["series"], caller_of(call))
    call.services.wake.set()
    return status


@ROUTES.add("POST", "/v1/series/{series}/end", problems=(400, 404))
def end_series(call: Call) -> SeriesStatus:
    """Ask no more; the release that runs finishes, and what was never drawn is given back."""
    status = call.services.the_coordinator.series.end(call.path["series"], caller_of(call))
    call.services.wake.set()
    return status
