"""A query on its way: rounds, completions, time left; live by server-sent events, or by reloading without scripts."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

from jinja2 import Template
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from thresher.console import pictures
from thresher.console.pages.home import progress
from thresher.console.rendering import METHODS, amount
from thresher.console.requests import Endpoint, Office, Visit, cookie_name, dressed, enter
from thresher.errors import ThresherError, Unauthorised
from thresher.protocol.messages import QueryStatus
from thresher.roles.coordinator.outlines import columns
from thresher.roles.tokens import token_hash
from thresher.server.event_streams import RUNNING, EventStream, events_of
from thresher.server.problem import Refused
from thresher.verbs.queries import query_from_dict

_EVERY = 0.5
_LONGEST_STREAM = 3600.0
_KEPT = 256


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
        "ended": status.state not in RUNNING,
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
    if status.state in RUNNING:
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
            return dressed(await EventStream.begin(_messages(office, visit, request)), request)
        except Refused:
            raise
        except ThresherError:
            return dressed(Response("No such query.", 404, media_type="text/plain"), request)

    return endpoint


def _messages(office: Office, visit: Visit, request: Request) -> AsyncGenerator[bytes, None]:
    template = office.templates.get_template("watch_body.html")
    identifier = request.cookies.get(cookie_name(request), "")

    async def look() -> tuple[str, QueryStatus]:
        if office.sessions.find(identifier, touch=False) is None or await office.callers(visit.session.token) is None:
            raise Unauthorised("This session has ended, or its token was revoked.")
        status = await office.standings(visit.query)
        return status.state, status

    async def write(status: QueryStatus) -> bytes:
        return await run_in_threadpool(_progress, office, status, template, visit.session.csrf)

    return events_of(
        look,
        write,
        streams=office.streams,
        caller=token_hash(visit.session.token),
        stopping=office.stopping,
        every=_EVERY,
        longest=_LONGEST_STREAM,
    )


def _progress(office: Office, status: QueryStatus, template: Template, csrf: str) -> bytes:
    content = _content(office, status)
    html = template.render({**content, "csrf": csrf})
    events = _event("progress", {"html": html, "said": content["said"], "state": status.state})
    return events + _event("end", {"state": status.state}) if content["ended"] else events


def _event(name: str, content: dict[str, object]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(content)}\n\n".encode()
