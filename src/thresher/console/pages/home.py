"""The fleet at a glance: devices, queries, budget."""

from __future__ import annotations

from starlette.responses import Response

from thresher import charts
from thresher.console.pages.ledger import taken
from thresher.console.pages.queries import newest_first, progress
from thresher.console.requests import PageRequest
from thresher.protocol.states import ACTIVE_QUERY

_RECENT = 12


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
    ended = [query for query in queries if query.state not in ACTIVE_QUERY]
    return request.page(
        template,
        fleet=fleet,
        ledger=ledger,
        running=running,
        ended=ended[:_RECENT],
        older=max(0, len(ended) - _RECENT),
        done=sum(query.state == "done" for query in queries),
        unwell={role: state for role, state in fleet.roles.items() if state != "ready"},
        check_ins=charts.check_ins(fleet.check_ins) if fleet.check_ins else None,
        spending=taken(ledger, request.console.clock.now()),
        progress={query.id: progress(query) for query in running},
    )
