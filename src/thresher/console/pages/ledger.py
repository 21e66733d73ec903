"""Every charge, who asked, what it bought."""

from __future__ import annotations

from starlette.responses import Response

from thresher import charts
from thresher.charts.svg import Svg
from thresher.console.pages.paging import paged
from thresher.console.requests import PageRequest
from thresher.ledger.entries import reserved_share
from thresher.protocol.analyst_messages import LedgerView


def show(request: PageRequest) -> Response:
    """The budget and a page of its charges, newest first."""
    analyst, now = request.console.analyst, request.console.clock.now()
    ledger = analyst.ledger_view()
    deltas = [(charge.time, charge.delta) for charge in ledger.charges]
    return request.page(
        "ledger.html",
        **paged(sorted(ledger.charges, key=lambda charge: -charge.id), request.parameters.get("page", "1")),
        ledger=ledger,
        reserved=reserved(ledger),
        taken_chart=taken(ledger, now),
        delta_chart=charts.spending(deltas, ledger.delta, now, name="delta"),
        states={query.id: query.state for query in analyst.queries()},
    )


def reserved(ledger: LedgerView) -> float:
    """The part of the budget that is reserved for rounds that may still be drawn."""
    return reserved_share(ledger.spent_share, ledger.left_share)


def taken(ledger: LedgerView, now: float) -> Svg:
    """What was taken of a budget over time: epsilons where it adds up, parts of the budget otherwise."""
    if ledger.composition == "sum":
        return charts.spending(
            [(charge.time, charge.epsilon) for charge in ledger.charges], ledger.epsilon, now, name="epsilon"
        )
    levels: list[tuple[float, float]] = []
    for charge in ledger.charges:
        levels += [*_renewal(ledger, levels, charge.time), (charge.time, charge.used)]
    return charts.shares([*levels, *_renewal(ledger, levels, now)], ledger.left_share, now)


def _renewal(ledger: LedgerView, levels: list[tuple[float, float]], time: float) -> list[tuple[float, float]]:
    """Where the budget renewed between the last level and a time: nothing was taken from then on."""
    if ledger.period is None or not levels:
        return []
    ends, seconds = ledger.period.ends, ledger.period.seconds
    before = (levels[-1][0] - ends) // seconds
    return [(ends + (before + 1) * seconds, 0.0)] if (time - ends) // seconds > before else []
