"""The server as one ASGI application: the device's routes in front, every other route of the table behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.routing import Route as StarletteRoute
from starlette.types import Receive, Scope, Send

from thresher.server import analyst_routes, device_routes, health_routes, operator_routes, peer_routes
from thresher.server.device_routes import DeviceFront
from thresher.server.limits import TokenBuckets
from thresher.server.openapi import document
from thresher.server.problem import Refused, answer_of, http_refusal
from thresher.server.routing import Endpoint, Route, respond
from thresher.server.services import Services

ROUTES: tuple[Route, ...] = (
    *device_routes.ROUTES,
    *analyst_routes.ROUTES,
    *operator_routes.ROUTES,
    *peer_routes.ROUTES,
    *health_routes.ROUTES,
)
"""Every route of every role."""


def routes_of(roles: Sequence[str]) -> tuple[Route, ...]:
    """The routes that a server of these roles has."""
    return tuple(route for route in ROUTES if route.role is None or route.role in roles)


class App:
    """The whole server. Never raises: what goes wrong is a problem in the answer, and a type in the log."""

    def __init__(self, services: Services, pages: Sequence[BaseRoute] = ()) -> None:
        self.services = services
        routes = routes_of(services.roles)
        services.description = document(routes)
        buckets = {kind: TokenBuckets(rate) for kind, rate in services.limits.rates.items()}
        self._rest = _router(services, routes, buckets, pages)
        self.devices = DeviceFront(services, buckets) if services.collector is not None else None
        self.crowded: Callable[[], bool] = lambda: False
        """Whether more connections are open than may be."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http":
            refusal = self._refusal(scope)
            if refusal is not None:
                status, headers, body = answer_of(refusal)
                await respond(send, status, [*headers, (b"connection", b"close")], body)
                return
        if self.devices is not None and scope["type"] == "http":
            handler = self.devices.handler(scope["path"])
            if handler is not None:
                await self.devices.serve(handler, scope, receive, send)
                return
        if scope["type"] in ("http", "websocket"):
            await self._guarded(scope, receive, send)

    def _refusal(self, scope: Scope) -> Refused | None:
        """Why a request is turned away before any route is asked. Health is shown however crowded it is."""
        if len(scope["headers"]) > self.services.limits.headers:
            return Refused(431, "headers-too-large", "The request has too many headers.")
        if self.crowded() and scope["path"] not in health_routes.PATHS:
            return Refused(
                503, "too-many-connections", "More connections are open than this server takes.", retry_after=5
            )
        return None

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def sending(message: Any) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._rest(scope, receive, sending)
        except Exception as error:
            status, headers, body = answer_of(error)
            if not started and scope["type"] == "http":
                await respond(send, status, headers, body)

    def close(self) -> None:
        """Finish what is waiting to be committed."""
        if self.devices is not None:
            self.devices.close()


def build_app(services: Services, pages: Sequence[BaseRoute] = ()) -> App:
    """The application of a server; `pages` are further routes, such as the console's."""
    return App(services, pages)


def _router(
    services: Services, routes: Sequence[Route], buckets: dict[str, TokenBuckets], pages: Sequence[BaseRoute]
) -> Starlette:
    by_path: dict[str, list[Route]] = {}
    for route in routes:
        if route.handler is not None:
            by_path.setdefault(route.path, []).append(route)
    mounted: list[BaseRoute] = [
        StarletteRoute(path, Endpoint(services, group, buckets), name=group[0].name) for path, group in by_path.items()
    ]

    async def refused(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        services.metrics.request("other", "other", status)
        refusal = http_refusal(status, getattr(error, "headers", None)) if isinstance(error, HTTPException) else error
        code, headers, body = answer_of(refusal)
        response = Response(body, code)
        response.raw_headers = headers
        return response

    app = Starlette(routes=[*mounted, *pages], exception_handlers={HTTPException: refused})
    app.router.redirect_slashes = False
    return app
