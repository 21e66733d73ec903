"""Every query, newest first."""

from __future__ import annotations

from starlette.responses import Response

from thresher.console.pages.home import newest_first, progress
from thresher.console.requests import Visit

_PAGE = 50


def show(visit: Visit) -> Response:
    """A page of the list; `?state=` keeps those in one state."""
    every = newest_first(visit.office.desk.queries())
    state = visit.asked.get("state", "")
    kept = [query for query in every if query.state == state] if state else every
    last = max(1, -(-len(kept) // _PAGE))
    number = min(max(page_number(visit.asked.get("page", "1")), 1), last)
    shown = kept[(number - 1) * _PAGE : number * _PAGE]
    return visit.page(
        "queries.html",
        queries=shown,
        number=number,
        last=last,
        found=len(kept),
        state=state,
        states=sorted({query.state for query in every}),
        progress={query.id: progress(query) for query in shown},
    )


def page_number(text: str) -> int:
    """A page's number from an address; anything else is the first."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 1
