"""A query that runs: rounds, completions, time left. The page follows server-sent events, or reloads."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from jinja2 import Template
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from thresher.console.headers import cookie_name
from thresher.console.pages.queries import RUNNING, progress
from thresher.console.ports import AnalystService
from thresher.console.requests import Endpoint, PageRequest, TurnedAway, authenticate
from thresher.console.shared_state import Console
from thresher.errors import ThresherError
from thresher.protocol.messages import QueryStatus
from thresher.roles.coordinator.outlines import columns
from thresher.roles.tokens import token_hash
from thresher.verbs.asking import function_of
from thresher.verbs.query import query_from_dict
from thresher.verbs.settings import settings_of

_EVERY = 0.5
_HEARTBEAT = 15.0
_LONGEST_STREAM = 3600.0


def show(request: PageRequest) -> Response:
    """A query's page: its answer when there is one, its progress until then."""
    status = request.console.analyst.standing(request.query)
    if status.state == "done" and "watch" not in request.parameters:
        return request.redirect(f"/queries/{status.id}/answer")
    return request.page("watch.html", **_content(request.console, status))


def cancel(request: PageRequest) -> Response:
    """Stop the query; what was charged stays charged."""
    status = request.console.analyst.cancel(request.query, request.caller.name)
    return request.redirect(f"/queries/{status.id}?watch=1")


def _content(console: Console, status: QueryStatus) -> dict[str, Any]:
    current = next((each for each in reversed(status.rounds) if each.state != "released"), None)
    return {
        "query": status,
        "plan": status.query.get("plan"),
        "current": current,
        "done": sum(each.state == "released" for each in status.rounds),
        "progress": progress(status),
        "ended": status.state not in RUNNING,
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
    described, settings = settings_of(function_of(asked.verb)), asked.settings()
    return [
        ("Attribute" if name == "column" else described[name].title, described[name].in_words(value))
        for name, value in settings.items()
        if value is not None
    ]


def said(status: QueryStatus) -> str:
    """One sentence for a screen reader; it changes when a round does, not with every report."""
    done = sum(each.state == "released" for each in status.rounds)
    if status.state in RUNNING:
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
            await console.standings(request.query)
        except ThresherError:
            return Response("No such query.", 404, media_type="text/plain")

        caller = token_hash(request.session.token)
        console.streams.check(caller)  # while there still can be an answer that says no

        async def stream() -> AsyncIterator[str]:
            with console.streams.hold(caller):
                async for message in _messages(console, request, http):
                    yield message

        return StreamingResponse(stream(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    return endpoint


async def _messages(console: Console, request: PageRequest, http: Request) -> AsyncIterator[str]:
    template = console.templates.get_template("watch_body.html")
    identifier = http.cookies.get(cookie_name(http), "")
    last: QueryStatus | None = None
    quiet, lived = 0.0, 0.0
    while lived < _LONGEST_STREAM and not console.stopping():
        if console.sessions.find(identifier, touch=False) is None:
            return
        try:
            # A token that was revoked ends what it opened, this stream too.
            if await console.callers(request.session.token) is None:
                return
            status = await console.standings(request.query)
        except ThresherError:
            status = None  # a store that is away for a moment; the page keeps what it shows
        if status is not None:
            if status != last:
                last, quiet = status, 0.0
                yield await run_in_threadpool(_progress, console, status, template, request.session.csrf)
            if status.state not in RUNNING:
                yield _event("end", {"state": status.state})
                return
        if quiet >= _HEARTBEAT:
            quiet = 0.0
            yield ": still here\n\n"
        await asyncio.sleep(_EVERY)
        quiet, lived = quiet + _EVERY, lived + _EVERY


def _progress(console: Console, status: QueryStatus, template: Template, csrf: str) -> str:
    content = _content(console, status)
    html = template.render({**content, "csrf": csrf})
    return _event("progress", {"html": html, "said": content["said"], "state": status.state})


def _event(name: str, content: dict[str, object]) -> str:
    return f"event: {name}\ndata: {json.dumps(content)}\n\n"
