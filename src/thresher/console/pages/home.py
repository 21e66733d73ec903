"""How what one follows develops, and the fleet at a glance: devices, queries, budget."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.responses import Response

from thresher import charts
from thresher.charts.svg import Svg
from thresher.console.following import SMALL_LINES
from thresher.console.pages.ledger import taken
from thresher.console.pages.queries import newest_first, progress
from thresher.console.pages.series import open_first
from thresher.console.requests import PageRequest
from thresher.console.series_tables import LatestNumber, latest_numbers
from thresher.protocol.series_messages import SeriesStatus
from thresher.protocol.states import ACTIVE_QUERY, OPEN_SERIES

_RECENT = 12
_FOLLOWED, _STANDING = 4, 6
"""How many series are shown, and how many series with alerts."""


@dataclass(frozen=True, slots=True)
class SeriesCard:
    """A series that is followed: its small picture, and its latest numbers."""

    status: SeriesStatus
    picture: Svg | None
    problem: str
    numbers: list[LatestNumber]


def show(request: PageRequest) -> Response:
    """The whole page."""
    return _page(request, "home.html")


def refresh(request: PageRequest) -> Response:
    """The part of the page that changes, for the script that refreshes it."""
    return _page(request, "home_body.html")


def _page(request: PageRequest, template: str) -> Response:
    analyst = request.console.analyst
    fleet, ledger = analyst.fleet_view(), analyst.ledger_view()
    queries = newest_first(analyst.queries())
    running = [query for query in queries if query.state in ACTIVE_QUERY]
    ended = [query for query in queries if query.state not in ACTIVE_QUERY and query.series is None]
    followed = [status for status in open_first(analyst.series.all()) if status.state in OPEN_SERIES]
    names = {status.id: status.what for status in followed}
    return request.page(
        template,
        standing=analyst.standing_alerts(_STANDING),
        series_names=names,
        series_cards=[_card(request, status) for status in followed[:_FOLLOWED]],
        series_more=max(0, len(followed) - _FOLLOWED),
        fleet=fleet,
        ledger=ledger,
        running=running,
        ended=ended[:_RECENT],
        older=max(0, len(queries) - len(running) - len(ended[:_RECENT])),
        done=sum(query.state == "done" for query in queries),
        unwell={role: state for role, state in fleet.roles.items() if state != "ready"},
        check_ins=charts.check_ins(fleet.check_ins) if fleet.check_ins else None,
        spending=taken(ledger, request.console.clock.now()),
        progress={query.id: progress(query) for query in running},
    )


def _card(request: PageRequest, listed: SeriesStatus) -> SeriesCard:
    status = request.console.analyst.series.status(listed.id)
    followed = request.console.following.read(status)
    return SeriesCard(
        status, followed.small, followed.problem, latest_numbers(followed, SMALL_LINES, changed_first=False)
    )
