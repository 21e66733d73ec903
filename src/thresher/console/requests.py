"""Requests of people who have signed in: who sends them, and what they send.

Pages are plain functions from a `PageRequest` to a response. What must happen before them happens here.
"""

from __future__ import annotations

import contextlib
import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from thresher.console.headers import cookie_name, is_fragment, is_same_site, set_cookie
from thresher.console.ports import Caller
from thresher.console.sessions import Session
from thresher.console.shared_state import Console
from thresher.roles.computing import on_behalf_of
from thresher.roles.tokens import token_hash
from thresher.server.limits import read_body, stated_length
from thresher.server.problem import Refused

_LARGEST_FORM = 256 << 10


@dataclass(frozen=True, slots=True, eq=False)
class PageRequest:
    """A request of somebody who has signed in. `http` is Starlette's request, `form` the fields that were posted."""

    console: Console
    http: Request
    session: Session
    caller: Caller
    form: dict[str, str]

    def heavy_work(self) -> contextlib.AbstractContextManager[None]:
        """Hold one of the few places for work that takes a processor for seconds, or refuse."""
        return self.console.heavy.hold(token_hash(self.session.token))

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters of the address; of several with one name, the last."""
        return dict(self.http.query_params)

    @property
    def query(self) -> str:
        """The id of the query that the address names."""
        return str(self.http.path_params["query"])

    @property
    def series(self) -> str:
        """The id of the series that the address names."""
        return str(self.http.path_params["series"])

    def page(self, template: str, *, status: int = 200, **content: Any) -> HTMLResponse:
        """Render a template with what every page needs."""
        content |= {
            "caller": self.caller,
            "csrf": self.session.csrf,
            "path": self.http.url.path,
            "now": self.console.clock.now(),
            "operations": self.console.operations is not None,
            "device_page": self.console.device_page,
        }
        return self.console.render(template, status, **content)

    def redirect(self, path: str) -> RedirectResponse:
        """Send the browser to another page of the console."""
        return RedirectResponse(path, 303)


Handler = Callable[[PageRequest], Response]
Endpoint = Callable[[Request], Awaitable[Response]]


class TurnedAway(Exception):
    """Somebody may not come in; `response` says so, or leads to the login page."""

    def __init__(self, response: Response) -> None:
        super().__init__()
        self.response = response


def page(console: Console, handler: Handler, *, operator: bool = False, touch: bool = True) -> Endpoint:
    """A page for people who have signed in. The handler runs in a thread, because planning and reading take a while."""

    async def endpoint(http: Request) -> Response:
        request = await authenticate(console, http, operator=operator, touch=touch)
        with on_behalf_of(token_hash(request.session.token)):
            return await run_in_threadpool(handler, request)

    return endpoint


async def authenticate(console: Console, http: Request, *, operator: bool = False, touch: bool = True) -> PageRequest:
    """Find out who sends a request, and read its form. Problem pages find the result as `http.state.request`.

    `operator` lets in operators only. `touch` counts the request as use of the session.
    Raises `TurnedAway` without a valid session or the right role; `Refused` for too many requests, and for a form that
    is not from one of our pages, too large or too slow.
    """
    identifier = http.cookies.get(cookie_name(http), "")
    session = console.sessions.find(identifier, touch=touch) if identifier else None
    caller = None
    if session is not None:
        console.requests.take(token_hash(session.token))
        caller = await run_in_threadpool(console.tokens.caller, session.token)
    if session is None or caller is None:
        raise TurnedAway(_to_login(http, ended=bool(identifier)))
    form: dict[str, str] = {}
    if http.method == "POST":
        with console.bodies.hold(token_hash(session.token), stated_length(http.scope["headers"], _LARGEST_FORM)):
            form = await read_form(http, console.form_seconds, _LARGEST_FORM)
        if not (is_same_site(http) and hmac.compare_digest(form.get("csrf", "").encode(), session.csrf.encode())):
            raise foreign_form("Reload the page and send it again.")
    request = http.state.request = PageRequest(console, http, session, caller, form)
    if operator and not caller.operates:
        content = {"title": "For operators", "detail": "This page needs an operator's token.", "hint": ""}
        raise TurnedAway(request.page("problem.html", status=403, **content))
    return request


def foreign_form(hint: str) -> Refused:
    """The refusal of a form that none of our pages can have sent."""
    return Refused(403, "foreign-form", "This form is not from this page.", hint=hint)


def _to_login(http: Request, *, ended: bool) -> Response:
    """Send a browser to the login page, and from there back; our script gets a status that it understands."""
    if is_fragment(http):
        return Response("Sign in again.", 401, media_type="text/plain")
    settings = []
    if http.method == "GET" and http.url.path != "/":
        back = http.url.path + (f"?{http.url.query}" if http.url.query else "")
        settings.append(f"next={quote(back, safe='')}")
    if ended:
        settings.append("ended=1")
    response = RedirectResponse("/login" + (f"?{'&'.join(settings)}" if settings else ""), 303)
    if ended:
        set_cookie(response, http, "session", "")
    return response


async def read_form(http: Request, seconds: float, largest: int) -> dict[str, str]:
    """The fields of a form; of several with one name, the last. Empty if the body is not a form.

    Raises:
        Refused: if the form is longer than `largest` bytes, or takes longer than `seconds` to arrive.
    """
    if http.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        return {}
    body = await read_body(http.scope, http.receive, largest, seconds)
    try:
        fields = parse_qs(body.decode(), keep_blank_values=True, strict_parsing=bool(body), max_num_fields=200)
    except ValueError:
        return {}
    return {name: values[-1] for name, values in fields.items()}
