"""Problems as pages: whatever an endpoint raises, an address that does not exist, a method that it does not take."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Match, Route

from thresher.console.headers import add_headers, is_fragment
from thresher.console.problem_words import shown_problem
from thresher.console.requests import Endpoint, PageRequest, TurnedAway, authenticate
from thresher.console.shared_state import Console
from thresher.errors import NotFound, ThresherError
from thresher.server.problem import Refused, retry_seconds

_NO_PAGE = 404, "Not found", "There is no page at this address.", "Check it for a typing error."
_WRONG_METHOD = (
    405,
    "Not this way",
    "This address takes what a form sends.",
    "Nothing was changed. Go back and use the form.",
)
_AFTER_A_FAILURE = "Try again. What was charged is on the page Ledger, and no query is charged twice."


def with_problem_pages(console: Console, endpoint: Endpoint) -> Endpoint:
    """The endpoint, with the console's headers on every response and with a page for whatever it raises.

    Guarantee: of an error that is not ours, the page shows an opaque number; the log has that number and a type.
    """

    async def answering(http: Request) -> Response:
        try:
            response = await endpoint(http)
        except HTTPException:
            raise  # the server answers programs in its own way
        except (ClientDisconnect, ConnectionResetError):
            return Response(status_code=400)  # nobody reads it, and it is no failure of ours
        except TurnedAway as turned_away:
            response = turned_away.response
        except Exception as error:
            response = _problem(console, http, error)
        return add_headers(response, http)

    return answering


def unknown_address(console: Console, routes: Sequence[Route]) -> Endpoint:
    """Every address that none of these routes has. Browsers get a page, programs the server's own answer."""

    async def endpoint(http: Request) -> Response:
        path = http.url.path
        found, plain = _methods(routes, path), path.rstrip("/")
        if not found and http.method == "GET" and "GET" in _methods(routes, plain):
            return RedirectResponse(plain + (f"?{http.url.query}" if http.url.query else ""), 308)
        allowed = {"Allow": ", ".join(sorted(found))} if found else {}
        if is_fragment(http) or "text/html" not in http.headers.get("accept", ""):
            raise HTTPException(405 if found else 404, headers=allowed)
        request = None
        if http.method in ("GET", "HEAD"):
            with contextlib.suppress(TurnedAway):
                request = await authenticate(console, http, touch=False)
        response = _page(console, request, *(_WRONG_METHOD if found else _NO_PAGE))
        response.headers.update(allowed)
        return response

    return endpoint


def _methods(routes: Sequence[Route], path: str) -> set[str]:
    """The methods that an address takes; none if there is no such address."""
    scope = {"type": "http", "path": path, "method": "", "headers": []}
    return {method for route in routes if route.matches(scope)[0] is not Match.NONE for method in route.methods or ()}


def _problem(console: Console, http: Request, error: Exception) -> Response:
    """What to say of an error: within the page that the script fills, or as a page of its own."""
    problem = shown_problem(error)
    request: PageRequest | None = getattr(http.state, "request", None)
    title, hint = "That did not work", problem.hint
    if not isinstance(error, ThresherError):
        title, hint, request = "Something went wrong", _AFTER_A_FAILURE, None
    elif isinstance(error, NotFound):
        title = "Not found"
    elif isinstance(error, Refused) and request is None:
        title, hint = "Turned away", hint or "Try again."
    if is_fragment(http):
        response = console.render("alert.html", problem.status, detail=problem.detail, hint=hint)
    else:
        back = http.url.path.rpartition("/")[0] if request and http.method == "POST" else ""  # the form's own page
        response = _page(console, request, problem.status, title, problem.detail, hint, back)
    if isinstance(error, Refused) and error.retry_after is not None:
        response.headers["Retry-After"] = str(retry_seconds(error))
    return response


def _page(
    console: Console, request: PageRequest | None, status: int, title: str, detail: str, hint: str, back: str = ""
) -> HTMLResponse:
    content = {"title": title, "detail": detail, "hint": hint, "back": back}
    if request is None:
        return console.render("problem.html", status, **content)
    return request.page("problem.html", status=status, **content)
