"""The server as one ASGI application: the device's routes in front, every other route of the table behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Router
from starlette.routing import Route as StarletteRoute
from starlette.types import Message, Receive, Scope, Send

from thresher.server import (
    alert_routes,
    analyst_routes,
    device_routes,
    health_routes,
    operator_routes,
    peer_routes,
    series_routes,
)
from thresher.server.device_routes import DeviceFront
from thresher.server.limits import TokenBuckets
from thresher.server.openapi import document
from thresher.server.problem import Refused, answer_of, http_refusal
from thresher.server.routing import Endpoint, Route, respond
from thresher.server.services import Services

ROUTES: tuple[Route, ...] = (
    *device_routes.ROUTES,
    *analyst_routes.ROUTES,
    *series_routes.ROUTES,
    *alert_routes.ROUTES,
    *operator_routes.ROUTES,
    *peer_routes.ROUTES,
    *health_routes.ROUTES,
)
"""Every route of every role."""


class App:
    """The whole server as an ASGI application. It never raises: every error becomes a problem in the answer."""

    def __init__(self, services: Services, pages: Sequence[BaseRoute] = ()) -> None:
        """`pages` are further routes, such as the console's."""
        self.services = services
        routes = [route for route in ROUTES if route.role is None or route.role in services.roles]
        services.description = document(routes)
        buckets = {kind: TokenBuckets(rate) for kind, rate in services.limits.rates.items()}
        by_path: dict[str, list[Route]] = {}
        for route in routes:
            if route.handler is not None:
                by_path.setdefault(route.path, []).append(route)
        served = [StarletteRoute(path, Endpoint(services, group, buckets)) for path, group in by_path.items()]
        self._router = Router([*served, *pages], redirect_slashes=False, default=_nowhere)
        self.devices = DeviceFront(services, buckets) if services.collector is not None else None
        self.crowded: Callable[[], bool] = lambda: False
        """Whether more connections are open than may be."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        handler = None if self.devices is None else self.devices.handler(scope["path"])
        refusal = self._refusal(scope)
        if refusal is not None:
            status, headers, body = answer_of(refusal)
            across = [] if handler is None else self.services.origins.answer(scope["headers"])
            await respond(send, status, [*headers, *across, (b"connection", b"close")], body)
            return
        if self.devices is not None and handler is not None:
            await self.devices.serve(handler, scope, receive, send)
        else:
            await self._route(scope, receive, send)

    def _refusal(self, scope: Scope) -> Refused | None:
        """Why a request is refused before any route is asked. Health is shown however many connections are open."""
        if len(scope["headers"]) > self.services.limits.headers:
            return Refused(431, "headers-too-large", "The request has too many headers.")
        if self.crowded() and scope["path"] not in health_routes.PATHS:
            return Refused(
                503, "too-many-connections", "More connections are open than this server takes.", retry_after=5
            )
        return None

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request that is not a device's. What endpoints do not answer themselves is answered here."""
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        scope["app"] = self  # with it, a route raises for a method that it does not have, and does not answer itself
        try:
            await self._router(scope, receive, sending)
        except Exception as error:
            refusal = error
            if isinstance(error, HTTPException):
                refusal = http_refusal(error.status_code, (error.headers or {}).get("Allow", ""))
                self.services.metrics.request("other", "other", error.status_code)
            status, headers, body = answer_of(refusal)
            if not started:
                await respond(send, status, headers, body)

    def close(self) -> None:
        """Finish what is waiting to be committed."""
        if self.devices is not None:
            self.devices.close()


async def _nowhere(scope: Scope, receive: Receive, send: Send) -> None:
    raise HTTPException(404)
