"""Every charge, who asked, what it bought."""

from __future__ import annotations

from starlette.responses import Response

from thresher import charts
from thresher.console.pages.queries import page_number
from thresher.console.requests import Visit

_PAGE = 50


def show(visit: Visit) -> Response:
    """The budget and a page of its charges, newest first."""
    ledger, now = visit.office.desk.ledger_view(), visit.office.clock.now()
    states = {query.id: query.state for query in visit.office.desk.queries()}
    charges = sorted(ledger.charges, key=lambda charge: -charge.id)
    last = max(1, -(-len(charges) // _PAGE))
    number = min(max(page_number(visit.asked.get("page", "1")), 1), last)
    return visit.page(
        "ledger.html",
        ledger=ledger,
        charges=charges[(number - 1) * _PAGE : number * _PAGE],
        states=states,
        number=number,
        last=last,
        epsilon_chart=charts.spending(
            [(charge.time, charge.epsilon) for charge in ledger.charges], ledger.epsilon, now, name="epsilon"
        ),
        delta_chart=charts.spending(
            [(charge.time, charge.delta) for charge in ledger.charges], ledger.delta, now, name="delta"
        ),
    )
