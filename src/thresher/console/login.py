"""Signing in with a token, and out again."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from thresher.console.headers import cookie_name, is_same_site, set_cookie
from thresher.console.problem_words import shown_problem
from thresher.console.requests import Endpoint, authenticate, foreign_form, read_form
from thresher.console.shared_state import Console
from thresher.errors import ThresherError
from thresher.server.networks import network_of, parsed

_LONGEST_TOKEN = 500
_LARGEST_FORM = 16 << 10


def login(console: Console) -> Endpoint:
    """The login page, and what its form does."""

    async def endpoint(http: Request) -> Response:
        if http.method == "POST":
            return await _sign_in(console, http)
        ended = http.query_params.get("ended") == "1"
        note = "Your session has ended. Sign in again to go on." if ended else ""
        return _form(console, http, http.query_params.get("next", ""), note=note)

    return endpoint


def logout(console: Console) -> Endpoint:
    """End the session, here and in the browser."""

    async def endpoint(http: Request) -> Response:
        await authenticate(console, http)
        console.sessions.close(http.cookies.get(cookie_name(http), ""))
        response = RedirectResponse("/login", 303)
        set_cookie(response, http, "session", "")
        return response

    return endpoint


async def _sign_in(console: Console, http: Request) -> Response:
    console.logins.take(_network(http))
    form = await read_form(http, console.form_seconds, _LARGEST_FORM)
    number = http.cookies.get(cookie_name(http, "login"), "")
    if not (is_same_site(http) and console.login_forms.fits(number, form.get("csrf", ""))):
        raise foreign_form("Open the login page and try again.")
    token, after = form.get("token", "").strip(), form.get("next", "")
    try:
        caller = await run_in_threadpool(console.tokens.caller, token[: _LONGEST_TOKEN + 1])
    except ThresherError as error:
        problem = shown_problem(error)
        return _form(console, http, after, wrong=f"{problem.detail} {problem.hint}".strip(), status=problem.status)
    if caller is None or len(token) > _LONGEST_TOKEN:
        wrong = "This token does not open the console. "
        wrong += "Check that it is whole, and that it is an analyst's or an operator's."
        return _form(console, http, after, wrong=wrong, status=401)
    # Every sign-in gets a new identifier, so that one that somebody planted in the browser before is worth nothing.
    console.sessions.close(http.cookies.get(cookie_name(http), ""))
    response = RedirectResponse(local_path(after), 303)
    set_cookie(response, http, "session", console.sessions.open(token))
    set_cookie(response, http, "login", "")
    return response


def _form(
    console: Console, http: Request, after: str, *, note: str = "", wrong: str = "", status: int = 200
) -> Response:
    number = http.cookies.get(cookie_name(http, "login"), "") or console.login_forms.start()
    content = {"mark": console.login_forms.mark(number), "next": local_path(after), "note": note, "wrong": wrong}
    response = console.render("login.html", status, **content)
    set_cookie(response, http, "login", number)
    return response


def local_path(path: str) -> str:
    """The path, if it is one of this server; "/" for anything that a browser could read as another host."""
    plain = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable() and "\\" not in path
    return path if plain and len(path) < 2000 else "/"


def _network(http: Request) -> str:
    """The address whose sign-ins are counted; of an IPv6 address its /64, because people get them by the /64."""
    host = http.client.host if http.client else ""
    address = parsed(host)
    return host if address is None else network_of(address)
