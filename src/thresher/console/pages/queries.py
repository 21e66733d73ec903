"""Every query, newest first."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.responses import Response

from thresher.console.pages.paging import paged
from thresher.console.requests import PageRequest
from thresher.protocol.analyst_messages import QueryStatus

"""The states of a query that has not ended."""


def show(request: PageRequest) -> Response:
    """A page of the list; `?state=` keeps the queries in one state."""
    every = newest_first(request.console.analyst.queries())
    state = request.parameters.get("state", "")
    return request.page(
        "queries.html",
        **paged([query for query in every if state in ("", query.state)], request.parameters.get("page", "1")),
        state=state,
        states=sorted({query.state for query in every}),
    )


def newest_first(queries: Sequence[QueryStatus]) -> list[QueryStatus]:
    """Queries by when they were asked."""
    return sorted(queries, key=lambda query: -query.created)


def progress(query: QueryStatus) -> float:
    """How far a query is, from 0 to 1: a released round counts as 1, an open one by its completions."""
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
