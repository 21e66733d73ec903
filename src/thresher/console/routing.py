"""The console's addresses."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from thresher.clock import Clock, SystemClock
from thresher.console import assets, login
from thresher.console.pages import ask, home, ledger, operate, queries, read, watch
from thresher.console.ports import Desk, Doorkeeper, Operations
from thresher.console.problem_pages import caught, elsewhere
from thresher.console.requests import Endpoint, Office, page
from thresher.console.sessions import Sessions
from thresher.roles.computing import Compute, here

_ANY = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


def routes(
    desk: Desk,
    door: Doorkeeper,
    operations: Operations | None = None,
    *,
    attributes: Sequence[str] = (),
    clock: Clock | None = None,
    session_seconds: float = 3600.0,
    stopping: Callable[[], bool] = lambda: False,
    form_seconds: float = 30.0,
    compute: Compute = here,
) -> list[BaseRoute]:
    """The console as routes of the coordinator's server, from `/` on.

    `attributes` are suggested on the ask page beside those of earlier queries. Without `operations` the operator's page
    shows how the roles are and says where the rest is done. A session ends `session_seconds` after it was last used.
    `stopping` says when the server is about to stop, so that live pages let go of it. `form_seconds` is how long a form
    may take to arrive. `compute` is where plans are made, by default in the thread of the request.

    Guarantee: every page but the login form, the static files and the page for what does not exist needs a session;
    every response forbids scripts, styles and connections from anywhere but this server. The last route takes every
    address that is left: put others before these.
    """
    clock = clock or SystemClock()
    sessions = Sessions(clock, idle=session_seconds)
    office = Office(
        desk, door, operations, clock, sessions, tuple(attributes), stopping, form_seconds=form_seconds, compute=compute
    )
    get, post = ["GET"], ["POST"]
    table: list[tuple[str, Endpoint, list[str]]] = [
        ("/static/{digest}/{name}", _static, get),
        ("/login", login.login(office), [*get, *post]),
        ("/logout", login.logout(office), post),
        ("/", page(office, home.show), get),
        ("/home", page(office, home.refresh, touch=False), get),
        ("/ask", page(office, ask.show), get),
        ("/ask", page(office, ask.ask), post),
        ("/ask/plan", page(office, ask.plan), get),
        ("/queries", page(office, queries.show), get),
        ("/queries/{query}", page(office, watch.show), get),
        ("/queries/{query}/events", watch.events(office), get),
        ("/queries/{query}/cancel", page(office, watch.cancel), post),
        ("/queries/{query}/answer", page(office, read.show), get),
        ("/queries/{query}/table", page(office, read.table), get),
        ("/queries/{query}/range", page(office, read.calculate), get),
        ("/queries/{query}/verify", page(office, read.verify), get),
        ("/queries/{query}/download/{kind}", page(office, read.save), get),
        ("/ledger", page(office, ledger.show), get),
        ("/operate", page(office, operate.show, operator=True), get),
        *(
            (f"/operate/{name}", page(office, handler, operator=True), post)
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
    known = [Route(path, caught(office, endpoint), methods=methods) for path, endpoint, methods in table]
    return [*known, Route("/{path:path}", caught(office, elsewhere(office, known)), methods=_ANY)]


async def _static(request: Request) -> Response:
    return assets.serve(request)
