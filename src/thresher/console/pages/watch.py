"""A query that runs: rounds, completions, time left. The page follows server-sent events, or reloads."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from typing import Any, NamedTuple

from jinja2 import Template
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from thresher.console.headers import cookie_name
from thresher.console.pages.queries import progress
from thresher.console.ports import AnalystService
from thresher.console.requests import Endpoint, PageRequest, TurnedAway, authenticate
from thresher.console.shared_state import Console
from thresher.errors import ThresherError, Unauthorised
from thresher.mechanism.response import span
from thresher.protocol.analyst_messages import QueryStatus, RoundStatus
from thresher.protocol.states import ACTIVE_QUERY, RoundState
from thresher.roles.coordinator.outlines import columns
from thresher.roles.tokens import token_hash
from thresher.server.event_streams import EventStream, events_of
from thresher.server.problem import Refused
from thresher.verbs.asking import function_of
from thresher.verbs.query import query_from_dict
from thresher.verbs.settings import settings_of

_EVERY = 0.5
_LONGEST_STREAM = 3600.0


def show(request: PageRequest) -> Response:
    """A query's page: its answer when there is one, its progress until then."""
    status = request.console.analyst.standing(request.query)
    if status.state == "done" and "watch" not in request.parameters:
        return request.redirect(f"/queries/{status.id}/answer")
    return request.page("watch.html", **_content(request.console, status))


def cancel(request: PageRequest) -> Response:
    """Stop the query; rounds that were drawn stay charged."""
    status = request.console.analyst.cancel(request.query, request.caller.name)
    return request.redirect(f"/queries/{status.id}?watch=1")


def close(request: PageRequest) -> Response:
    """Close the query's open rounds now; what has completed counts."""
    status = request.console.analyst.close_rounds(request.query)
    return request.redirect(f"/queries/{status.id}?watch=1")


class Together(NamedTuple):
    """The rounds of a query that are not released yet, as one line. Numbers that differ are spans."""

    rounds: str
    number: int
    state: str
    asked: str
    contacted: str
    completed: str
    target: int | None
    deadline: float
    open: bool

    @classmethod
    def of(cls, rounds: Sequence[RoundStatus]) -> Together | None:
        """None where every round is released."""
        waiting = [each for each in rounds if each.state != RoundState.RELEASED]
        if not waiting:
            return None
        open_rounds = [each for each in waiting if each.state == RoundState.OPEN]
        last = (open_rounds or waiting)[-1]
        return cls(
            rounds=span([each.index + 1 for each in waiting]),
            number=len(waiting),
            state=last.state,
            asked=span([each.asked for each in waiting]),
            contacted=span([each.contacted for each in waiting]),
            completed=span([each.completed for each in waiting]),
            target=last.target,
            deadline=last.deadline,
            open=bool(open_rounds),
        )


def _content(console: Console, status: QueryStatus) -> dict[str, Any]:
    return {
        "query": status,
        "plan": status.query.get("plan"),
        "current": Together.of(status.rounds),
        "done": sum(each.state == "released" for each in status.rounds),
        "progress": progress(status),
        "ended": status.state not in ACTIVE_QUERY,
        "said": said(status),
        "in_short": console.descriptions(_description, status.id),
        "now": console.clock.now(),
    }


def _description(analyst: AnalystService, query: str) -> list[tuple[str, str]]:
    return in_short(analyst.status(query).query)


def in_short(query: dict[str, Any]) -> list[tuple[str, str]]:
    """What a query asks, beside its verb, as names and texts. Of a query that cannot be read, at most the attribute."""
    try:
        asked = query_from_dict(query)
    except ThresherError:
        attribute = ", ".join(columns(query))
        return [("Attribute", attribute)] if attribute else []
    described, settings = settings_of(function_of(asked.verb)), asked.arguments()
    return [
        ("Attribute" if name == "column" else described[name].title, described[name].in_words(value))
        for name, value in settings.items()
        if value is not None
    ]


def said(status: QueryStatus) -> str:
    """One sentence for a screen reader; it changes when a round does, not with every report."""
    done = sum(each.state == "released" for each in status.rounds)
    if status.state in ACTIVE_QUERY:
        return f"{done} of at most {status.rounds_planned} rounds released."
    words = {
        "done": "The answer is ready.",
        "cancelled": "The query was cancelled.",
        "refused": "The query was refused.",
        "failed": "The query could not go on.",
    }
    return words[status.state]


def events(console: Console) -> Endpoint:
    """Progress as server-sent events: the changing part of the page, whenever the query's status changed."""

    async def endpoint(http: Request) -> Response:
        try:
            request = await authenticate(console, http, touch=False)
        except TurnedAway:
            # An event source cannot follow a redirect to a page; a status tells it to stop.
            return Response("Sign in again.", 401, media_type="text/plain")
        try:
            return await EventStream.begin(_messages(console, request, http))
        except Refused:
            raise
        except ThresherError:
            return Response("No such query.", 404, media_type="text/plain")

    return endpoint


def _messages(console: Console, request: PageRequest, http: Request) -> AsyncGenerator[bytes, None]:
    template = console.templates.get_template("watch_body.html")
    identifier = http.cookies.get(cookie_name(http), "")

    async def look() -> tuple[str, QueryStatus]:
        live = console.sessions.find(identifier, touch=False) is not None
        if not live or await console.callers(request.session.token) is None:
            raise Unauthorised("This session has ended, or its token was revoked.")
        status = await console.standings(request.query)
        return status.state, status

    async def write(status: QueryStatus) -> bytes:
        return await run_in_threadpool(_progress, console, status, template, request.session.csrf)

    return events_of(
        look,
        write,
        streams=console.streams,
        caller=token_hash(request.session.token),
        stopping=console.stopping,
        every=_EVERY,
        longest=_LONGEST_STREAM,
    )


def _progress(console: Console, status: QueryStatus, template: Template, csrf: str) -> bytes:
    content = _content(console, status)
    html = template.render({**content, "csrf": csrf})
    events = _event("progress", {"html": html, "said": content["said"], "state": status.state})
    return events + _event("end", {"state": status.state}) if content["ended"] else events


def _event(name: str, content: dict[str, object]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(content)}\n\n".encode()
