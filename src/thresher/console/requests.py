"""One request to the console: who asks, what they sent, and what every response carries.

Pages are plain functions of a visit; everything about doors, forms and headers happens here, before and after them.
"""

from __future__ import annotations

import contextlib
import hmac
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, quote

from jinja2 import Environment
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from thresher.clock import Clock
from thresher.console.ask_form import Planning
from thresher.console.ports import Caller, Desk, Doorkeeper, Operations
from thresher.console.rendering import environment
from thresher.console.sessions import LoginForms, Session, Sessions
from thresher.errors import NotFound, ThresherError
from thresher.protocol.analyst_messages import QueryStatus
from thresher.roles.computing import Compute, here, on_behalf_of
from thresher.roles.tokens import token_hash
from thresher.server.limits import Bodies, Rate, Shares, Streams, TokenBuckets, read_body, stated_length
from thresher.server.problem import Refused, problem_of
from thresher.server.shared_looks import Shared

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cache-Control": "no-store",
}
LARGEST_FORM = 256 << 10
_FORM_BYTES, _FORM_BYTES_EACH = 64 << 20, 4 << 20
_LOGINS = Rate(5, 200)
_HEAVY, _HEAVY_EACH = 4, 2
_LOOK_SECONDS = 0.4
_REQUESTS = Rate(100, 1_000)


def _busy() -> Refused:
    return Refused(429, "busy", "Too much is being computed at the moment.", hint="Try again in a few seconds.")


@dataclass(frozen=True, slots=True, eq=False)
class Office:
    """What all pages share."""

    desk: Desk
    door: Doorkeeper
    operations: Operations | None
    clock: Clock
    sessions: Sessions
    attributes: Sequence[str] = ()
    stopping: Callable[[], bool] = lambda: False
    planning: Planning = field(default_factory=Planning)
    compute: Compute = here
    """Where plans are made."""
    forms: LoginForms = field(default_factory=LoginForms)
    form_seconds: float = 30.0
    """How long a form may take to arrive."""
    logins: TokenBuckets = field(default_factory=lambda: TokenBuckets(_LOGINS, most=10_000))
    """How often one address may try to sign in; kept in memory only."""
    requests: TokenBuckets = field(default_factory=lambda: TokenBuckets(_REQUESTS, most=10_000))
    """How often whoever has signed in with a token may ask for something."""
    streams: Streams = field(default_factory=lambda: Streams(200, 50))
    bodies: Bodies = field(default_factory=lambda: Bodies(_FORM_BYTES, _FORM_BYTES_EACH))
    """Bytes of forms that are being read."""
    heavy: Shares = field(default_factory=lambda: Shares(_HEAVY, _HEAVY_EACH, _busy))
    """Held while a picture is drawn or a guarantee recomputed: each takes a processor for seconds."""
    answers: dict[str, Any] = field(default_factory=dict)
    """Answers that were read lately; a release never changes, so neither do they."""
    facts: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """What queries that were watched lately ask."""
    templates: Environment = field(default_factory=environment)
    standings: Shared[str, QueryStatus] = field(init=False)
    """Where a query stands; one look for all live pages that show it."""
    callers: Shared[str, Caller | None] = field(init=False)
    """Whose a token is; one look for all its live pages."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "standings", Shared(lambda query: self.desk.standing(query), _LOOK_SECONDS))
        object.__setattr__(self, "callers", Shared(lambda token: self.door.caller(token), _LOOK_SECONDS))


@dataclass(frozen=True, slots=True, eq=False)
class Visit:
    """A request by somebody who has signed in."""

    office: Office
    request: Request
    session: Session
    caller: Caller
    form: dict[str, str]

    def hard_at_work(self) -> contextlib.AbstractContextManager[None]:
        """Few at a time may take a processor for seconds; others are asked to come again."""
        return self.office.heavy.hold(token_hash(self.session.token))

    @property
    def identifier(self) -> str:
        """The session's identifier, from the cookie."""
        return self.request.cookies.get(cookie_name(self.request), "")

    @property
    def asked(self) -> dict[str, str]:
        """The settings in the address; of several with one name, the last."""
        return dict(self.request.query_params)

    @property
    def query(self) -> str:
        """The query that the address names."""
        return str(self.request.path_params["query"])

    def page(self, template: str, *, status: int = 200, **content: Any) -> HTMLResponse:
        """A page with what every page needs."""
        content |= {
            "caller": self.caller,
            "csrf": self.session.csrf,
            "path": self.request.url.path,
            "now": self.office.clock.now(),
            "operations": self.office.operations is not None,
        }
        return HTMLResponse(self.office.templates.get_template(template).render(content), status)

    def go(self, path: str) -> RedirectResponse:
        """Go on to another page of ours."""
        return RedirectResponse(path, 303)


Handler = Callable[[Visit], Response]
Endpoint = Callable[[Request], Awaitable[Response]]


def page(office: Office, handler: Handler, *, operator: bool = False, touch: bool = True) -> Endpoint:
    """A page for those who have signed in; the handler runs in a thread, since planning and reading take a while."""

    async def endpoint(request: Request) -> Response:
        visit = await enter(office, request, operator=operator, touch=touch)
        if isinstance(visit, Response):
            return dressed(visit, request)
        with on_behalf_of(token_hash(visit.session.token)):
            return dressed(await run_in_threadpool(_handled, handler, visit), request)

    return endpoint


async def enter(office: Office, request: Request, *, operator: bool = False, touch: bool = True) -> Visit | Response:
    """The visit of somebody who may come in, or the response that turns them away."""
    identifier = request.cookies.get(cookie_name(request), "")
    session = office.sessions.find(identifier, touch=touch) if identifier else None
    caller = None
    if session is not None:
        office.requests.take(token_hash(session.token))
        try:
            caller = await run_in_threadpool(office.door.caller, session.token)
        except ThresherError as error:
            return _alert(office, error)
    if session is None or caller is None:
        return to_login(request, ended=bool(identifier))
    form: dict[str, str] = {}
    if request.method == "POST":
        with office.bodies.hold(token_hash(session.token), stated_length(request.scope["headers"], LARGEST_FORM)):
            read = await read_form(request, office.form_seconds)
        given = request.headers.get("x-csrf-token") or ("" if read is None else read.get("csrf", ""))
        if read is None or not same_site(request) or not hmac.compare_digest(given.encode(), session.csrf.encode()):
            return refusal(office, 403, "This form is not from this page.", "Reload the page and send it again.")
        form = read
    visit = Visit(office, request, session, caller, form)
    if operator and not caller.operates:
        return visit.page(
            "problem.html", status=403, title="For operators", detail="This page needs an operator's token.", hint=""
        )
    return visit


def to_login(request: Request, *, ended: bool) -> Response:
    """Where somebody who is not signed in goes. Scripts get a status that they understand, pages are sent on."""
    if is_fragment(request):
        return Response("Sign in again.", 401, media_type="text/plain")
    where = "/login"
    if request.method == "GET" and request.url.path != "/":
        where += "?next=" + quote(request.url.path + (f"?{request.url.query}" if request.url.query else ""), safe="")
    response = RedirectResponse(where + (("&" if "?" in where else "?") + "ended=1" if ended else ""), 303)
    if ended:
        drop_cookie(response, request, cookie_name(request))
    return response


def _handled(handler: Handler, visit: Visit) -> Response:
    try:
        return handler(visit)
    except ThresherError as error:
        if is_fragment(visit.request):
            return _alert(visit.office, error)
        title = "Not found" if isinstance(error, NotFound) else "That did not work"
        path, problem = visit.request.url.path, problem_of(error)
        return visit.page(
            "problem.html",
            status=problem.status,
            title=title,
            detail=problem.detail,
            hint=problem.hint,
            back=path.rpartition("/")[0] if visit.request.method == "POST" else "",  # the page that the form is on
        )


def _alert(office: Office, error: ThresherError) -> Response:
    problem = problem_of(error)
    alert = office.templates.get_template("alert.html").render(detail=problem.detail, hint=problem.hint)
    return HTMLResponse(alert, problem.status)


def refusal(office: Office, status: int, detail: str, hint: str, *, title: str = "Turned away") -> Response:
    """A page for a request that is turned away before it is anybody's."""
    template = office.templates.get_template("refused.html")
    return HTMLResponse(template.render(title=title, detail=detail, hint=hint), status)


async def read_form(request: Request, seconds: float, largest: int = LARGEST_FORM) -> dict[str, str] | None:
    """The fields of a form; of several with one name, the last. None if it is not a form.

    Edge cases: `Refused` if it is longer than `largest`, or takes longer than `seconds` to arrive.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        return None
    body = await read_body(request.scope["headers"], request.receive, largest, seconds)
    try:
        fields = parse_qs(body.decode(), keep_blank_values=True, strict_parsing=bool(body), max_num_fields=200)
    except ValueError:
        return None
    return {name: values[-1] for name, values in fields.items()}


def same_site(request: Request) -> bool:
    """Whether the browser says that one of our own pages sent this. Browsers that do not say are not turned away."""
    return request.headers.get("sec-fetch-site", "same-origin") in ("same-origin", "none")


def is_fragment(request: Request) -> bool:
    """Whether a script of ours asks for a part of a page."""
    return "x-fragment" in request.headers


def dressed(response: Response, request: Request) -> Response:
    """The response with the headers that every page has."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    if is_fragment(request):
        response.headers["X-Fragment"] = "1"  # so that no script takes a proxy's own page for a part of ours
    if is_secure(request):
        response.headers.setdefault("Strict-Transport-Security", "max-age=31536000")
    return response


def is_secure(request: Request) -> bool:
    """Whether the page came over TLS."""
    return bool(request.url.scheme == "https")


def cookie_name(request: Request) -> str:
    """Over TLS a name that browsers tie to this host and to TLS."""
    return "__Host-thresher-session" if is_secure(request) else "thresher-session"


def set_cookie(response: Response, request: Request, name: str, value: str) -> None:
    """A cookie that scripts cannot read and other sites cannot send."""
    response.set_cookie(name, value, path="/", secure=is_secure(request), httponly=True, samesite="strict")


def drop_cookie(response: Response, request: Request, name: str) -> None:
    """Take a cookie back; browsers hear of one that is tied to TLS only where this is said as it was set."""
    response.delete_cookie(name, path="/", secure=is_secure(request), httponly=True, samesite="strict")
