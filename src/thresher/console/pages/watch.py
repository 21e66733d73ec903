"""A query on its way: rounds, completions, time left; live by server-sent events, or by reloading without scripts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from jinja2 import Template
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from thresher.console import pictures
from thresher.console.pages.home import progress
from thresher.console.rendering import METHODS, amount
from thresher.console.requests import Endpoint, Office, Visit, cookie_name, dressed, enter
from thresher.errors import ThresherError
from thresher.protocol.analyst_messages import QueryStatus
from thresher.roles.coordinator.outlines import columns
from thresher.roles.tokens import token_hash
from thresher.verbs.queries import query_from_dict

_EVERY = 0.5
_HEARTBEAT = 15.0
_LONGEST_STREAM = 3600.0
_KEPT = 256
_RUNNING = ("received", "running")


def show(visit: Visit) -> Response:
    """A query's page: its answer when there is one, its progress until then."""
    status = visit.office.desk.standing(visit.query)
    if status.state == "done" and "watch" not in visit.asked:
        return visit.go(f"/queries/{status.id}/answer")
    return visit.page("watch.html", **_content(visit.office, status))


def cancel(visit: Visit) -> Response:
    """Stop it; what was charged stays charged."""
    status = visit.office.desk.cancel(visit.query, visit.caller.name)
    return visit.go(f"/queries/{status.id}?watch=1")


def _content(office: Office, status: QueryStatus) -> dict[str, Any]:
    current = next((each for each in reversed(status.rounds) if each.state != "released"), None)
    return {
        "query": status,
        "plan": status.query.get("plan"),
        "current": current,
        "done": sum(each.state == "released" for each in status.rounds),
        "progress": progress(status),
        "meter": pictures.meter,
        "ended": status.state not in _RUNNING,
        "said": said(status),
        "in_short": _facts(office, status.id),
        "now": office.clock.now(),
    }


def _facts(office: Office, query: str) -> list[tuple[str, str]]:
    """What a query asks; it never changes, so it is read whole once."""
    kept = office.facts
    found = kept.get(query)
    if found is None:
        found = in_short(office.desk.status(query).query)
        while len(kept) >= _KEPT:
            kept.pop(next(iter(kept)), None)
        kept[query] = found
    return found


def in_short(query: dict[str, Any]) -> list[tuple[str, str]]:
    """What a query asks, beside its verb: a name and a text each; of one that cannot be read, at most its attribute."""
    facts = [("Attribute", ", ".join(columns(query)))]
    try:
        query_from_dict(query)
    except ThresherError:
        return [(name, text) for name, text in facts if text]
    question = query.get("question", {})
    if "edges" in question:
        edges = question["edges"]
        facts.append(("Counted in", f"{len(edges) - 1:,} bins from {amount(edges[0])} to {amount(edges[-1])}"))
    if "every" in question:
        facts.append(("Counted by", str(question["every"])))
    if query.get("domain"):
        facts.append(("Public list", f"{len(query['domain']):,} values"))
    if "probabilities" in query:
        facts.append(("Quantiles", ", ".join(map(amount, query["probabilities"]))))
    if "lower" in query:
        facts.append(("Bounds", f"{amount(query['lower'])} to {amount(query['upper'])}"))
    if "method" in query:
        facts.append(("Method", METHODS.get(query["method"], query["method"])))
    return [(name, text) for name, text in facts if text]


def said(status: QueryStatus) -> str:
    """One sentence for a screen reader; it changes when a round does, not with every report."""
    done = sum(each.state == "released" for each in status.rounds)
    if status.state in _RUNNING:
        return f"{done} of at most {status.rounds_planned} rounds released."
    words = {
        "done": "The answer is ready.",
        "cancelled": "The query was cancelled.",
        "refused": "The query was refused.",
        "failed": "The query could not go on.",
    }
    return words[status.state]


def events(office: Office) -> Endpoint:
    """Progress as server-sent events: the changing part of the page, whenever the query's status changed."""

    async def endpoint(request: Request) -> Response:
        visit = await enter(office, request, touch=False)
        if isinstance(visit, Response):
            # An event source cannot follow a redirect to a page; a status tells it to stop.
            return dressed(Response("Sign in again.", 401, media_type="text/plain"), request)
        try:
            await office.standings(visit.query)
        except ThresherError:
            return dressed(Response("No such query.", 404, media_type="text/plain"), request)

        caller = token_hash(visit.session.token)
        office.streams.check(caller)  # while there still can be an answer that says no

        async def stream() -> AsyncIterator[str]:
            with office.streams.hold(caller):
                async for message in _messages(office, visit, request):
                    yield message

        response = StreamingResponse(stream(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
        return dressed(response, request)

    return endpoint


async def _messages(office: Office, visit: Visit, request: Request) -> AsyncIterator[str]:
    template = office.templates.get_template("watch_body.html")
    identifier = request.cookies.get(cookie_name(request), "")
    last: QueryStatus | None = None
    quiet, lived = 0.0, 0.0
    while lived < _LONGEST_STREAM and not office.stopping():
        if office.sessions.find(identifier, touch=False) is None:
            return
        try:
            # A token that was revoked ends what it opened, this stream too.
            if await office.callers(visit.session.token) is None:
                return
            status = await office.standings(visit.query)
        except ThresherError:
            status = None  # a store that is away for a moment; the page keeps what it shows
        if status is not None:
            if status != last:
                last, quiet = status, 0.0
                yield await run_in_threadpool(_progress, office, status, template, visit.session.csrf)
            if status.state not in _RUNNING:
                yield _event("end", {"state": status.state})
                return
        if quiet >= _HEARTBEAT:
            quiet = 0.0
            yield ": still here\n\n"
        await asyncio.sleep(_EVERY)
        quiet, lived = quiet + _EVERY, lived + _EVERY


def _progress(office: Office, status: QueryStatus, template: Template, csrf: str) -> str:
    content = _content(office, status)
    html = template.render({**content, "csrf": csrf})
    return _event("progress", {"html": html, "said": content["said"], "state": status.state})


def _event(name: str, content: dict[str, object]) -> str:
    return f"event: {name}\ndata: {json.dumps(content)}\n\n"
