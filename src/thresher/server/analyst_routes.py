"""The analyst's routes: plan, ask, follow, read, cancel; the ledger and the fleet at a glance."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from thresher.errors import Unauthorised
from thresher.protocol.analyst_messages import FleetView, LedgerView, PlanPreview, QueryRequest, QueryStatus, Releases
from thresher.protocol.messages import Message
from thresher.protocol.states import ENDED_QUERY
from thresher.roles.tokens import token_hash
from thresher.server.auth import ANALYST
from thresher.server.limits import MIB
from thresher.server.routing import EVENTS, Call, Route

_LOOK_SECONDS = 0.25
_QUIET_SECONDS = 15.0


class QueryList(Message, frozen=True, kw_only=True):
    """All queries, newest first. A long one is listed without its domain, the edges of its bins, its probabilities."""

    queries: list[QueryStatus]


def _by(call: Call) -> str:
    assert call.identity is not None
    return call.identity.by


def _plan(call: Call) -> PlanPreview:
    return call.services.the_coordinator.preview(call.body, call.services.come_back)


def _submit(call: Call) -> QueryStatus:
    status = call.services.the_coordinator.submit(call.body, _by(call))
    call.services.wake.set()
    return status


def _queries(call: Call) -> QueryList:
    return QueryList(queries=call.services.the_coordinator.queries())


def _query(call: Call) -> bytes:
    return call.services.the_coordinator.status_json(call.path["query"])


def _releases(call: Call) -> Releases:
    coordinator = call.services.the_coordinator
    query = call.path["query"]
    # The state first: "done" then means that the list is whole.
    state = coordinator.standing(query).state
    return Releases(query=query, state=state, releases=coordinator.releases(query))


def _cancel(call: Call) -> QueryStatus:
    status = call.services.the_coordinator.cancel(call.path["query"], _by(call))
    call.services.wake.set()
    return status


def _ledger(call: Call) -> LedgerView:
    return call.services.the_coordinator.ledger_view()


def _fleet(call: Call) -> FleetView:
    return call.services.the_coordinator.fleet_view()


async def _events(call: Call) -> AsyncIterator[bytes]:
    """The query's status whenever it changes, until it has ended; a comment now and then keeps proxies from closing.

    Guarantee: ends when its token is revoked or expires. All streams of a query share one look at it, and all of a
    token one look at the token.
    """
    services = call.services
    query = call.path["query"]
    with services.streams.hold(token_hash(call.token)):
        last = b""
        quiet = 0.0
        while not services.stopping.is_set():
            try:
                await services.still_allowed(call.token)
                state, content = await services.followed(query)
            except Unauthorised:
                return
            except Exception:
                if not last:
                    raise
                # The answer has begun: a store that is down for a moment must not end the stream.
                await asyncio.sleep(_LOOK_SECONDS * 4)
                continue
            if content != last:
                last, quiet = content, 0.0
                yield b"event: status\ndata: " + content + b"\n\n"
            if state in ENDED_QUERY:
                return
            await asyncio.sleep(_LOOK_SECONDS)
            quiet += _LOOK_SECONDS
            if quiet >= _QUIET_SECONDS:
                quiet = 0.0
                yield b": still here\n\n"


_ROLE: Final = "coordinator"
ROUTES = (
    Route(
        "POST", "/v1/plans", "plan_query", "What a query would cost, guarantee and see; charges nothing.",
        ANALYST, _ROLE, _plan, body=QueryRequest, answer=PlanPreview, largest_body=4 * MIB, reads=True,
        problems=(400, 422),
    ),
    Route(
        "POST", "/v1/queries", "submit_query", "Ask; asking again under the same name returns the first query.",
        ANALYST, _ROLE, _submit, body=QueryRequest, answer=QueryStatus, largest_body=4 * MIB, reads=True,
        problems=(400, 402, 409, 422),
    ),
    Route(
        "GET", "/v1/queries", "list_queries", "All queries.", ANALYST, _ROLE, _queries, answer=QueryList,
    ),
    Route(
        "GET", "/v1/queries/{query}", "show_query", "Where a query stands.",
        ANALYST, _ROLE, _query, answer=QueryStatus, problems=(404,),
    ),
    Route(
        "GET", "/v1/queries/{query}/releases", "query_releases", "The releases so far, in order.",
        ANALYST, _ROLE, _releases, answer=Releases, problems=(404,),
    ),
    Route(
        "GET", "/v1/queries/{query}/events", "query_events", "The status whenever it changes, as server-sent events.",
        ANALYST, _ROLE, _events, answer=QueryStatus, answers=EVENTS, problems=(404,),
    ),
    Route(
        "POST", "/v1/queries/{query}/cancel", "cancel_query", "Stop a query; nothing is refunded.",
        ANALYST, _ROLE, _cancel, answer=QueryStatus, problems=(400, 404, 409),
    ),
    Route("GET", "/v1/ledger", "show_ledger", "Budget and charges.", ANALYST, _ROLE, _ledger, answer=LedgerView),
    Route("GET", "/v1/fleet", "show_fleet", "Devices enrolled and active.", ANALYST, _ROLE, _fleet, answer=FleetView),
)  # fmt: skip
