"""The console's addresses."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from starlette.routing import BaseRoute, Route

from thresher.clock import Clock, SystemClock
from thresher.console import assets, login
from thresher.console.pages import ask, home, ledger, operate, queries, read, series, series_rules, watch
from thresher.console.ports import AnalystService, Operations, TokenChecker
from thresher.console.problem_pages import unknown_address, with_problem_pages
from thresher.console.requests import Endpoint, page
from thresher.console.sessions import Sessions
from thresher.console.shared_state import Console
from thresher.roles.computing import Compute, here

_ANY = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


def routes(
    analyst: AnalystService,
    tokens: TokenChecker,
    operations: Operations | None = None,
    *,
    attributes: Sequence[str] = (),
    device_page: str | None = None,
    clock: Clock | None = None,
    stopping: Callable[[], bool] = lambda: False,
    form_seconds: float = 30.0,
    compute: Compute = here,
) -> list[BaseRoute]:
    """The console as routes of the coordinator's server, from `/` on.

    Args:
        analyst: does what analysts ask for.
        tokens: says whose a token is.
        operations: does what operators ask for. Without it the operator's page shows the health of the roles and says
            where the rest is done.
        attributes: suggested on the ask page, beside those of earlier queries.
        device_page: the address of a page that is a device, for links.
        clock: the time.
        stopping: says when the server is about to stop, so that live pages end their connections.
        form_seconds: how long a form may take to arrive.
        compute: computes plans, by default in the thread of the request.

    Guarantee: every page but the login form, the static files and the page for unknown addresses needs a session; every
    response forbids scripts, styles and connections from anywhere but this server. The last route takes every address
    that is left: put other routes before these.
    """
    clock = clock or SystemClock()
    console = Console(
        analyst, tokens, operations, clock, Sessions(clock), attributes, stopping, compute, form_seconds, device_page
    )
    get, post = ["GET"], ["POST"]
    table: list[tuple[str, Endpoint, list[str]]] = [
        ("/static/{digest}/{name}", assets.serve, get),
        ("/login", login.login(console), [*get, *post]),
        ("/logout", login.logout(console), post),
        ("/", page(console, home.show), get),
        ("/home", page(console, home.refresh, touch=False), get),
        ("/ask", page(console, ask.show), get),
        ("/ask", page(console, ask.ask), post),
        ("/ask/plan", page(console, ask.plan), get),
        ("/queries", page(console, queries.show), get),
        ("/queries/{query}", page(console, watch.show), get),
        ("/queries/{query}/events", watch.events(console), get),
        ("/queries/{query}/cancel", page(console, watch.cancel), post),
        ("/queries/{query}/close", page(console, watch.close), post),
        ("/queries/{query}/answer", page(console, read.show), get),
        ("/queries/{query}/table", page(console, read.table), get),
        ("/queries/{query}/range", page(console, read.calculate), get),
        ("/queries/{query}/verify", page(console, read.verify), get),
        ("/queries/{query}/download/{kind}", page(console, read.save), get),
        ("/series", page(console, series.show_all), get),
        ("/series/{series}", page(console, series.show), get),
        ("/series/{series}/download/{kind}", page(console, series.save), get),
        ("/series/{series}/pause", page(console, series.pause), post),
        ("/series/{series}/resume", page(console, series.resume), post),
        ("/series/{series}/end", page(console, series.end), post),
        ("/series/{series}/add-rule", page(console, series_rules.add), post),
        ("/series/{series}/remove-rule", page(console, series_rules.remove), post),
        ("/ledger", page(console, ledger.show), get),
        ("/operate", page(console, operate.show, operator=True), get),
        *(
            (f"/operate/{name}", page(console, handler, operator=True), post)
            for name, handler in (
                ("make-enrolment-key", operate.make_enrolment_key),
                ("revoke-enrolment-key", operate.revoke_enrolment_key),
                ("revoke-device", operate.revoke_device),
                ("revoke-devices", operate.revoke_devices),
                ("make-token", operate.make_token),
                ("revoke-token", operate.revoke_token),
                ("rotate-key", operate.rotate_key),
            )
        ),
    ]
    known = [Route(path, with_problem_pages(console, endpoint), methods=methods) for path, endpoint, methods in table]
    unknown = with_problem_pages(console, unknown_address(console, known))
    return [*known, Route("/{path:path}", unknown, methods=_ANY)]
