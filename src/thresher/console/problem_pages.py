"""What goes wrong, as a page: an address that does not exist, a method that it does not take, whatever breaks."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Match, Route

from thresher.console.requests import Endpoint, Office, Visit, dressed, enter, is_fragment, refusal
from thresher.server.problem import Refused, problem_of, retry_seconds


def caught(office: Office, endpoint: Endpoint) -> Endpoint:
    """The endpoint, whose every response has the console's headers, and whose failures are pages.

    Guarantee: of what broke, the page has an opaque number, and the log that number and a type.
    """

    async def catching(request: Request) -> Response:
        try:
            response = await endpoint(request)
        except HTTPException:
            raise  # the server answers programs in its own way
        except (ClientDisconnect, ConnectionResetError):
            return Response(status_code=400)  # nobody reads it, and it is no failure of ours
        except Refused as error:
            response = refusal(office, error.status, error.message, error.hint or "Try again.")
            if error.retry_after is not None:
                response.headers["Retry-After"] = str(retry_seconds(error))
        except Exception as error:
            response = _broken(office, request, error)
        return dressed(response, request)

    return catching


def elsewhere(office: Office, routes: Sequence[Route]) -> Endpoint:
    """Every address that none of these routes has; browsers get a page, programs what the server says by itself."""

    async def endpoint(request: Request) -> Response:
        path = request.url.path
        found, plain = _methods(routes, path), path.rstrip("/")
        if not found and request.method == "GET" and "GET" in _methods(routes, plain):
            return RedirectResponse(plain + (f"?{request.url.query}" if request.url.query else ""), 308)
        allowed = {"Allow": ", ".join(sorted(found))} if found else None
        if not _wants_page(request):
            raise HTTPException(405 if found else 404, headers=allowed)
        response = await _unknown(office, request, known=bool(found))
        response.headers.update(allowed or {})
        return response

    return endpoint


def _methods(routes: Sequence[Route], path: str) -> set[str]:
    """The methods that an address takes; none if there is no such address."""
    scope = {"type": "http", "path": path, "method": "", "headers": []}
    return {method for route in routes if route.matches(scope)[0] is not Match.NONE for method in route.methods or ()}


async def _unknown(office: Office, request: Request, *, known: bool) -> Response:
    status, title, detail, hint = (
        (405, "Not this way", "This address takes what a form sends.", "Nothing was changed. Go back and use the form.")
        if known
        else (404, "Not found", "There is no page at this address.", "Check it for a typing error.")
    )
    if request.method in ("GET", "HEAD"):
        visit = await enter(office, request, touch=False)
        if isinstance(visit, Visit):
            return visit.page("problem.html", status=status, title=title, detail=detail, hint=hint)
    return refusal(office, status, detail, hint, title=title)


def _broken(office: Office, request: Request, error: Exception) -> Response:
    problem = problem_of(error)
    hint = "Try again. What was charged is on the page Ledger, and no query is charged twice."
    if is_fragment(request):
        alert = office.templates.get_template("alert.html").render(detail=problem.detail, hint=hint)
        return HTMLResponse(alert, problem.status)
    return refusal(office, problem.status, problem.detail, hint, title="Something went wrong")


def _wants_page(request: Request) -> bool:
    return "text/html" in request.headers.get("accept", "") and not is_fragment(request)
