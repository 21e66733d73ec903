"""The fleet at a glance: devices, queries, budget."""

from __future__ import annotations

from starlette.responses import Response

from thresher.console import pictures
from thresher.console.requests import Visit
from thresher.protocol.analyst_messages import QueryStatus

_RECENT = 12


def show(visit: Visit) -> Response:
    """The whole page."""
    return _render(visit, "home.html")


def refresh(visit: Visit) -> Response:
    """Its changing part, for the script that keeps it fresh."""
    return _render(visit, "home_body.html")


def _render(visit: Visit, template: str) -> Response:
    desk, now = visit.office.desk, visit.office.clock.now()
    fleet, ledger = desk.fleet_view(), desk.ledger_view()
    queries = newest_first(desk.queries())
    running = [query for query in queries if query.state in ("received", "running")]
    ended = [query for query in queries if query.state not in ("received", "running")]
    charges = [(charge.time, charge.epsilon) for charge in ledger.charges]
    return visit.page(
        template,
        fleet=fleet,
        ledger=ledger,
        running=running,
        ended=ended[:_RECENT],
        older=max(0, len(ended) - _RECENT),
        done=sum(query.state == "done" for query in queries),
        unwell={role: state for role, state in fleet.roles.items() if state != "ready"},
        check_ins=pictures.check_ins(fleet.check_ins) if fleet.check_ins else None,
        spending=pictures.spending(charges, ledger.epsilon, now, name="epsilon"),
        progress={query.id: progress(query) for query in running},
        meter=pictures.meter,
    )


def newest_first(queries: object) -> list[QueryStatus]:
    """Queries by when they were asked."""
    return sorted(queries, key=lambda query: -query.created)  # type: ignore[call-overload, no-any-return]


def progress(query: QueryStatus) -> float:
    """How far a query is, from 0 to 1: released rounds count whole, an open one by its completions."""
    if query.state == "done":
        return 1.0
    done = 0.0
    for each in query.rounds:
        if each.state == "released":
            done += 1
        elif each.state in ("closed", "forwarded"):
            done += 0.95
        elif each.target:
            done += 0.9 * min(1.0, each.completed / each.target)
    return min(done / max(query.rounds_planned, 1), 1.0)
