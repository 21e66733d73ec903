"""Signing in with a token, and out again."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from thresher.console.requests import (
    Endpoint,
    Office,
    cookie_name,
    dressed,
    drop_cookie,
    enter,
    is_secure,
    read_form,
    refusal,
    same_site,
    set_cookie,
)
from thresher.errors import ThresherError
from thresher.server.networks import network_of, parsed
from thresher.server.problem import problem_of

_LONGEST_TOKEN = 500
_LARGEST_FORM = 16 << 10
"""Of somebody whom nobody knows yet."""


def login(office: Office) -> Endpoint:
    """The login page, and what its form does."""

    async def endpoint(request: Request) -> Response:
        if request.method == "POST":
            return dressed(await _sign_in(office, request), request)
        ended = request.query_params.get("ended") == "1"
        note = "Your session has ended. Sign in again to go on." if ended else ""
        return dressed(_form(office, request, request.query_params.get("next", ""), note=note), request)

    return endpoint


def logout(office: Office) -> Endpoint:
    """End the session, here and in the browser."""

    async def endpoint(request: Request) -> Response:
        visit = await enter(office, request)
        if isinstance(visit, Response):
            return dressed(visit, request)
        office.sessions.close(request.cookies.get(cookie_name(request), ""))
        response = RedirectResponse("/login", 303)
        drop_cookie(response, request, cookie_name(request))
        return dressed(response, request)

    return endpoint


async def _sign_in(office: Office, request: Request) -> Response:
    office.logins.take(_whence(request))
    form = await read_form(request, office.form_seconds, _LARGEST_FORM)
    number = request.cookies.get(_form_cookie(request), "")
    if form is None or not same_site(request) or not office.forms.fits(number, form.get("csrf", "")):
        return refusal(office, 403, "This form is not from this page.", "Open the login page and try again.")
    token, after = form.get("token", "").strip(), form.get("next", "")
    try:
        caller = await run_in_threadpool(office.door.caller, token[: _LONGEST_TOKEN + 1])
    except ThresherError as error:
        problem = problem_of(error)
        return _form(office, request, after, wrong=f"{problem.detail} {problem.hint}".strip(), status=problem.status)
    if caller is None or len(token) > _LONGEST_TOKEN:
        return _form(
            office,
            request,
            after,
            wrong="This token does not open the console. Check that it is whole, and that it is an analyst's or an "
            "operator's.",
            status=401,
        )
    # A new identifier for every sign-in: one that somebody planted before is worth nothing.
    office.sessions.close(request.cookies.get(cookie_name(request), ""))
    response = RedirectResponse(local_path(after), 303)
    set_cookie(response, request, cookie_name(request), office.sessions.open(token))
    drop_cookie(response, request, _form_cookie(request))
    return response


def _form(
    office: Office, request: Request, after: str, *, note: str = "", wrong: str = "", status: int = 200
) -> Response:
    number = request.cookies.get(_form_cookie(request), "") or office.forms.start()
    content = office.templates.get_template("login.html").render(
        mark=office.forms.mark(number), next=local_path(after), note=note, wrong=wrong
    )
    response = HTMLResponse(content, status)
    set_cookie(response, request, _form_cookie(request), number)
    return response


def local_path(path: str) -> str:
    """A path on this server, and nothing that a browser could read as another host."""
    plain = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() and "\\" not in path
    return path if plain and len(path) < 2000 else "/"


def _whence(request: Request) -> str:
    """Whose a request is, as far as limits by address go: IPv6 addresses are given out by the /64."""
    host = request.client.host if request.client else ""
    address = parsed(host)
    return host if address is None else network_of(address)


def _form_cookie(request: Request) -> str:
    return "__Host-thresher-login" if is_secure(request) else "thresher-login"
