"""Every charge, who asked, what it bought."""

from __future__ import annotations

from starlette.responses import Response

from thresher import charts
from thresher.console.pages.paging import paged
from thresher.console.requests import PageRequest


def show(request: PageRequest) -> Response:
    """The budget and a page of its charges, newest first."""
    analyst, now = request.console.analyst, request.console.clock.now()
    ledger = analyst.ledger_view()
    epsilons = [(charge.time, charge.epsilon) for charge in ledger.charges]
    deltas = [(charge.time, charge.delta) for charge in ledger.charges]
    return request.page(
        "ledger.html",
        **paged(sorted(ledger.charges, key=lambda charge: -charge.id), request.parameters.get("page", "1")),
        ledger=ledger,
        epsilon_chart=charts.spending(epsilons, ledger.epsilon, now, name="epsilon"),
        delta_chart=charts.spending(deltas, ledger.delta, now, name="delta"),
        states={query.id: query.state for query in analyst.queries()},
    )
