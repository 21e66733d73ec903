"""The analyst's routes: plan, ask, follow, read, cancel; the ledger and the fleet at a glance."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from thresher.protocol.analyst_messages import FleetView, LedgerView, PlanPreview, QueryRequest, QueryStatus, Releases
from thresher.protocol.messages import Message
from thresher.roles.tokens import token_hash
from thresher.server.auth import ANALYST
from thresher.server.event_streams import EVENTS, events_of
from thresher.server.limits import MIB
from thresher.server.routing import Call, Routes

_LOOK_SECONDS = 0.25
LARGEST_QUERY = 4 * MIB
"""Bytes of a query's or series' body."""
_QUERY = {"body": QueryRequest, "largest_body": LARGEST_QUERY, "reads": True}

ROUTES = Routes("coordinator", ANALYST)


class QueryList(Message, frozen=True, kw_only=True):
    """All queries, newest first. A long one is listed without its domain, the edges of its bins, its probabilities."""

    queries: list[QueryStatus]


def caller_of(call: Call) -> str:
    """Who makes a call, as queries and series keep it."""
    assert call.identity is not None
    return call.identity.by


@ROUTES.add("POST", "/v1/plans", **_QUERY, problems=(400, 422))
def plan_query(call: Call) -> PlanPreview:
    """What a query would cost, guarantee and see; charges nothing."""
    return call.services.preview(call.body)


@ROUTES.add("POST", "/v1/queries", **_QUERY, problems=(400, 402, 409, 422))
def submit_query(call: Call) -> QueryStatus:
    """Ask; asking again under the same name returns the first query."""
    return call.services.submit(call.body, caller_of(call))


@ROUTES.add("GET", "/v1/queries")
def list_queries(call: Call) -> QueryList:
    """All queries."""
    return QueryList(queries=call.services.the_coordinator.queries())


@ROUTES.add("GET", "/v1/queries/{query}", answer=QueryStatus, problems=(404,))
def show_query(call: Call) -> bytes:
    """Where a query stands."""
    return call.services.the_coordinator.status_json(call.path["query"])


@ROUTES.add("GET", "/v1/queries/{query}/releases", problems=(404,))
def query_releases(call: Call) -> Releases:
    """The releases so far, in order."""
    coordinator = call.services.the_coordinator
    query = call.path["query"]
    # The state is read first, so that "done" means that the list is whole.
    state = coordinator.standing(query).state
    releases, asked = coordinator.releases(query), coordinator.asked(query)
    return Releases(query=query, state=state, releases=releases, questions=asked[: len(releases)])


@ROUTES.add("GET", "/v1/queries/{query}/events", answer=QueryStatus, answers=EVENTS, problems=(404,))
def query_events(call: Call) -> AsyncGenerator[bytes, None]:
    """The status whenever it changes, as server-sent events.

    Guarantee: ends when its token is revoked or expires. All streams of a query share one look at it, and all streams
    of a token one look at the token.
    """
    services = call.services

    async def look() -> tuple[str, bytes]:
        await services.still_allowed(call.token)
        return await services.followed(call.path["query"])

    async def write(status: bytes) -> bytes:
        return b"event: status\ndata: " + status + b"\n\n"

    return events_of(
        look,
        write,
        streams=services.streams,
        caller=token_hash(call.token),
        stopping=services.stopping.is_set,
        every=_LOOK_SECONDS,
    )


@ROUTES.add("POST", "/v1/queries/{query}/cancel", problems=(400, 404, 409))
def cancel_query(call: Call) -> QueryStatus:
    """Stop a query; rounds that never opened are given back, unless the budget adds up."""
    return call.services.cancel(call.path["query"], caller_of(call))


@ROUTES.add("POST", "/v1/queries/{query}/close", problems=(400, 404, 409))
def close_rounds(call: Call) -> QueryStatus:
    """Close the open rounds of a query now; what has completed counts."""
    return call.services.close_rounds(call.path["query"])


@ROUTES.add("GET", "/v1/ledger")
def show_ledger(call: Call) -> LedgerView:
    """Budget and charges."""
    return call.services.the_coordinator.ledger_view()


@ROUTES.add("GET", "/v1/fleet")
def show_fleet(call: Call) -> FleetView:
    """Devices enrolled and active."""
    return call.services.the_coordinator.fleet_view()
