"""The console's addresses."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from starlette.routing import BaseRoute, Route

from thresher.console import assets, login
from thresher.console.desk import Desk, Doorkeeper, Operations
from thresher.console.pages import ask, home, ledger, operate, queries, read, watch
from thresher.console.sessions import Sessions
from thresher.console.visits import Office, page
from thresher.fleet.clock import Clock, SystemClock


def routes(
    desk: Desk,
    door: Doorkeeper,
    operations: Operations | None = None,
    *,
    attributes: Sequence[str] = (),
    clock: Clock | None = None,
    session_seconds: float = 3600.0,
    stopping: Callable[[], bool] = lambda: False,
) -> list[BaseRoute]:
    """The console as routes of the coordinator's server, from `/` on.

    `attributes` are suggested on the ask page beside those of earlier queries. Without `operations` there is no
    operator's page. A session ends `session_seconds` after it was last used. `stopping` says
    when the server is about to stop, so that live pages let go of it.

    Guarantee: every page but the login form and the static files needs a session; every response forbids scripts,
    styles and connections from anywhere but this server.
    """
    clock = clock or SystemClock()
    sessions = Sessions(clock, idle=session_seconds)
    office = Office(desk, door, operations, clock, sessions, tuple(attributes), stopping)
    get, post = ["GET"], ["POST"]
    return [
        Route("/static/{digest}/{name}", assets.serve, methods=get),
        Route("/login", login.login(office), methods=["GET", "POST"]),
        Route("/logout", login.logout(office), methods=post),
        Route("/", page(office, home.show), methods=get),
        Route("/home", page(office, home.refresh, touch=False), methods=get),
        Route("/ask", page(office, ask.show), methods=get),
        Route("/ask", page(office, ask.ask), methods=post),
        Route("/ask/plan", page(office, ask.plan), methods=get),
        Route("/queries", page(office, queries.show), methods=get),
        Route("/queries/{query}", page(office, watch.show), methods=get),
        Route("/queries/{query}/events", watch.events(office), methods=get),
        Route("/queries/{query}/cancel", page(office, watch.cancel), methods=post),
        Route("/queries/{query}/answer", page(office, read.show), methods=get),
        Route("/queries/{query}/table", page(office, read.table), methods=get),
        Route("/queries/{query}/range", page(office, read.calculate), methods=get),
        Route("/queries/{query}/verify", page(office, read.verify), methods=get),
        Route("/queries/{query}/download/{kind}", page(office, read.save), methods=get),
        Route("/ledger", page(office, ledger.show), methods=get),
        Route("/operate", page(office, operate.show, operator=True), methods=get),
        *(
            Route(f"/operate/{name}", page(office, handler, operator=True), methods=post)
            for name, handler in (
                ("make-enrolment-key", operate.make_enrolment_key),
                ("revoke-enrolment-key", operate.revoke_enrolment_key),
                ("make-token", operate.make_token),
                ("revoke-token", operate.revoke_token),
                ("rotate-key", operate.rotate_key),
            )
        ),
    ]
