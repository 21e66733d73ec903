"""Routes, and the endpoint that serves them: it checks token and rate, reads the body, and calls a handler in a thread.

Routes are data: the OpenAPI document and the test of who may call what are made from them, so a new route cannot be
forgotten in either. Device routes are listed too, but `device_routes` serves them in a shorter way.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from inspect import isclass
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_type_hints

from msgspec import convert
from starlette.types import Receive, Scope, Send

from thresher.protocol.messages import Message, decode, encode
from thresher.roles.computing import on_behalf_of
from thresher.roles.tokens import token_hash
from thresher.server.auth import ANALYST, Identity, bearer, check_kind
from thresher.server.event_streams import EVENTS, EventStream
from thresher.server.limits import KIB, TokenBuckets, read_body, stated_length
from thresher.server.problem import Refused, answer_of, http_refusal
from thresher.server.shared_calls import Alone

if TYPE_CHECKING:
    from thresher.server.services import Services

H = TypeVar("H", bound=Callable[[Any], Any])
ServerRole = Literal["collector", "aggregator", "coordinator"]

JSON = "application/json"
OCTETS = "application/octet-stream"

_SMALL = 64 * KIB
"""Longer bodies are decoded in a thread."""
_JSON_HEADERS = [
    (b"content-type", b"application/json"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
]


@dataclass(frozen=True, slots=True)
class Call:
    """One request, as a handler sees it."""

    services: Services
    identity: Identity | None
    path: Mapping[str, str]
    body: Any
    token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path.

    `opens` are the kinds of token that open it, none for a public route. A public route may show more to callers with a
    token of the kinds `also`. `role` is the server role that serves it, None for all. A handler is a plain function
    that may block; it runs in a thread. It returns a message, an object with the attributes of `answer`, bytes that are
    ready to be sent, or None. With `answers=EVENTS` it returns a generator of events.
    """

    method: str
    path: str
    name: str
    summary: str
    opens: tuple[str, ...]
    role: ServerRole | None
    handler: Callable[[Call], Any] | None = None
    body: type[Message] | None = None
    takes: str = JSON
    answer: type | None = None
    answers: str = JSON
    status: int = 200
    largest_body: int = 64 * KIB
    reads: bool = False
    """The handler decodes the body itself."""
    alone: bool = False
    """The handler may hang on a store or a peer, so it runs in a thread of its own."""
    at_once: bool = False
    """The handler neither waits nor computes, so it runs in the event loop."""
    problems: tuple[int, ...] = ()
    also: tuple[str, ...] = ()


class Routes(list[Route]):
    """The routes of one role that the same kinds of token open."""

    def __init__(self, role: ServerRole | None, opens: tuple[str, ...]) -> None:
        super().__init__()
        self._role = role
        self._opens = opens

    def add(self, method: str, path: str, **settings: Any) -> Callable[[H], H]:
        """A decorator for the handler of a route; `settings` are further fields of `Route`.

        The handler's name, docstring and return type are the name, the summary and the answer of the route.
        """

        def adding(handler: H) -> H:
            answer = get_type_hints(handler)["return"]
            described = {"answer": answer if isclass(answer) and answer is not NoneType else None} | settings
            summary = (handler.__doc__ or "").partition("\n")[0]
            self.append(Route(method, path, handler.__name__, summary, self._opens, self._role, handler, **described))
            return handler

        return adding


class Endpoint:
    """All methods of one path, as an ASGI application that never raises."""

    def __init__(self, services: Services, routes: Iterable[Route], buckets: Mapping[str, TokenBuckets]) -> None:
        self._services = services
        self._routes = {route.method: route for route in routes}
        self._path = next(iter(self._routes.values())).path
        self._buckets = buckets
        self._alone: dict[tuple[str, str | None], Alone] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        method = scope["method"]
        status = 499  # the client went away; replaced by every answer
        try:
            route = self._routes.get("GET" if method == "HEAD" else method)
            if route is None:
                raise http_refusal(405, ", ".join(sorted(self._routes)))
            with contextlib.ExitStack() as held:
                call = await self._call(route, scope, receive, held)
                if route.answers == EVENTS:
                    assert route.handler is not None
                    stream = await EventStream.begin(route.handler(call))
                    status = 200
                    await stream(scope, receive, send)
                    return
                result = await self._result(route, call)
            status, headers, body = _answer(route, result)
        except ConnectionResetError:
            return
        except Exception as error:
            status, headers, body = answer_of(error)
        finally:
            known = method if method in ("HEAD", *self._routes) else "other"
            self._services.metrics.request(known, self._path, status)
        await respond(send, status, headers, body)

    async def _result(self, route: Route, call: Call) -> Any:
        assert route.handler is not None
        if route.at_once:
            return route.handler(call)
        if route.alone:
            # One for each kind of caller, since a caller may get the result that another asked for.
            kind = None if call.identity is None else call.identity.kind
            alone = self._alone.setdefault((route.method, kind), Alone())
            return await alone(route.handler, call)
        with on_behalf_of(token_hash(call.token)):
            return await asyncio.to_thread(route.handler, call)

    async def _call(self, route: Route, scope: Scope, receive: Receive, held: contextlib.ExitStack) -> Call:
        """The request, if its caller may make it. Its body counts as the caller's until `held` is closed."""
        services = self._services
        identity, token = None, ""
        headers = scope["headers"]
        opens = route.opens
        if route.also and any(name == b"authorization" for name, _ in headers):
            opens = route.also  # a wrong token is refused, and not treated as no token
        if opens:
            token = bearer(headers)
            kind = check_kind(token, opens)
            # Before the token is looked up, so that one caller cannot keep a store busy.
            self._buckets["peer" if "-to-" in kind else kind].take(token_hash(token))
            identity = await asyncio.to_thread(services.tokens.identify, token, opens)
        body: Any = None
        if route.method in ("POST", "PUT"):
            if identity is not None and identity.kind in ANALYST:
                held.enter_context(services.bodies.hold(token_hash(token), stated_length(headers, route.largest_body)))
            body = await read_body(scope, receive, route.largest_body, services.limits.body_seconds)
            if route.body is not None and not route.reads:
                small = len(body) <= _SMALL
                body = decode(route.body, body) if small else await asyncio.to_thread(decode, route.body, body)
            elif body.strip() not in (b"", b"{}") and route.body is None and route.takes == JSON:
                raise Refused(400, "invalid-format", "This request takes no body.")
        return Call(services, identity, scope.get("path_params", {}), body, token)


async def respond(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    """Send a whole answer."""
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _answer(route: Route, result: Any) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    status = route.status
    if isinstance(result, tuple):
        status, result = result
    if result is None:
        return 204, [(b"cache-control", b"no-store")], b""
    if not isinstance(result, bytes):
        result = encode(result if isinstance(result, Message) else convert(result, route.answer, from_attributes=True))
    headers = list(_JSON_HEADERS)
    if route.answers != JSON:
        headers[0] = (b"content-type", route.answers.encode())
    headers.append((b"content-length", str(len(result)).encode()))
    return status, headers, result
