"""A real `thresher serve` process, and the page of `examples/web` on origins of its own."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import httpx
import uvicorn
from fleet_server import RunningServer, started
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import thresher as th
from thresher.cli.demo_page import page_app, page_directory
from thresher.client.fleet import QueryHandle
from thresher.protocol.sealing import open_sealed
from thresher.roles.aggregator.keys import KeyRing

ATTRIBUTES = [
    {"name": "country", "kind": "one", "values": ["fr", "de"]},
    {"name": "waited_ms", "kind": "number", "values": [100]},
    {"name": "topics", "kind": "several", "values": ["art", "chess"]},
]
PLAN = th.plan(epsilon=1, delta=1e-8)
CROSS_ORIGIN = {
    "access-control-allow-origin": "*",
    "access-control-allow-headers": "authorization, content-type, thresher-nonce",
    "access-control-max-age": "600",
}


@contextlib.contextmanager
def serving(app: Any, listener: socket.socket) -> Iterator[None]:
    """An application that answers at a socket, in a thread."""
    config = uvicorn.Config(app, log_level="critical", lifespan="off", ws="none", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    running = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    running.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield
    finally:
        server.should_exit = True
        server.force_exit = True
        running.join(10)


def place() -> socket.socket:
    """A socket at a free port, which nobody else is given."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    return listener


def address(listener: socket.socket) -> str:
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


def files() -> Path:
    directory = page_directory()
    assert directory is not None, "examples/web/device.js is missing; make web builds it"
    return directory


@contextlib.contextmanager
def page_at(listener: socket.socket, server: str, enrolment_key: str, **more: Any) -> Iterator[str]:
    """The page, served as the demo serves it; its address."""
    settings = {"server": server, "enrolmentKey": enrolment_key, "attributes": ATTRIBUTES, **more}
    with serving(page_app(files(), settings), listener):
        yield address(listener)


class Relay:
    """Stands between a page and a server, and passes on what they say, unless a test wants it to be lost.

    `lost` says what becomes of a request that hands in: "request" means that the server does not get it, and "answer"
    that the page does not get the server's answer. `handed` has the reports of each such request, `rounds` every
    configuration that the server has listed.
    """

    def __init__(self, server: str) -> None:
        self.lost: Literal["", "request", "answer"] = ""
        self.handed: list[list[dict[str, str]]] = []
        self.rounds: list[str] = []
        self._server = server
        self.app = Starlette(routes=[Route("/v2/{what}", self._serve, methods=["POST", "OPTIONS"])])

    async def _serve(self, request: Request) -> Response:
        if request.method == "OPTIONS":
            return Response(headers=CROSS_ORIGIN)
        body = await request.body()
        reports = json.loads(body).get("reports")
        lost = self.lost if reports else ""
        answer = Response() if lost == "request" else await self._passed_on(request, body)
        if reports:
            self.handed.append(reports)
        while lost and not await request.is_disconnected():
            await asyncio.sleep(0.02)
        return answer

    async def _passed_on(self, request: Request, body: bytes) -> Response:
        names = ("authorization", "content-type", "thresher-nonce")
        headers = {name: request.headers[name] for name in names if name in request.headers}
        async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
            answer = await client.post(f"{self._server}{request.url.path}", content=body, headers=headers)
        self.rounds += answer.json().get("rounds", [])
        kind = answer.headers["content-type"]
        return Response(answer.content, answer.status_code, {**CROSS_ORIGIN, "content-type": kind})


@dataclass
class WebFleet:
    """A server, a page of an origin that it allows, and the same page on another origin."""

    server: RunningServer
    page: str
    stranger: str
    fleet: th.Fleet

    def ask(self, attribute: str = "country", **rounds: Any) -> QueryHandle:
        """Open a round that stays open until it is closed, unless `rounds` says otherwise."""
        handle = th.histogram(self.fleet.with_rounds(**{"seconds": 600, **rounds}), attribute, plan=PLAN, wait=False)
        while not (rounds_now := handle.status().rounds) or rounds_now[0].state != "open":
            time.sleep(0.02)
        return handle

    @contextlib.contextmanager
    def relay(self) -> Iterator[tuple[Relay, str]]:
        """A relay to the server, and the address of a page that knows no other server."""
        with place() as here, place() as there:
            relay = Relay(self.server.url)
            with serving(relay.app, there), page_at(here, address(there), self.server.enrolment_key) as page:
                yield relay, page

    def enrolled(self) -> int:
        return self.fleet.overview().enrolled

    def opened(self, configuration: str, sealed: str) -> Any:
        """What is inside a report, for whoever holds the aggregator's key."""
        key = KeyRing(self.server.data_dir / "aggregator" / "keys").get(json.loads(configuration)["key_id"])
        info = hashlib.sha256(b"thresher round 3\0" + configuration.encode()).digest()
        plain = open_sealed(base64.b64decode(sealed), key, info)
        return json.loads(plain[2 : 2 + int.from_bytes(plain[:2], "big")])


def completed(handle: QueryHandle, at_least: int = 0) -> int:
    """How many devices have completed a query's round. The coordinator learns it a moment after the collector."""
    end = time.monotonic() + 20
    while (number := handle.status().rounds[0].completed) < at_least and time.monotonic() < end:
        time.sleep(0.05)
    return number


@contextlib.contextmanager
def web_fleet(directory: Path) -> Iterator[WebFleet]:
    with contextlib.ExitStack() as stack:
        pages, strangers = stack.enter_context(place()), stack.enter_context(place())
        server = stack.enter_context(
            started(
                directory / "data",
                *("--come-back", "1", "--allow-origin", address(pages)),
                *("--budget-epsilon", "100", "--budget-delta", "1e-4"),
            )
        )
        key = server.enrolment_key
        page = stack.enter_context(page_at(pages, server.url, key))
        stranger = stack.enter_context(page_at(strangers, server.url, key))
        fleet = stack.enter_context(th.Fleet(server.url, server.analyst))
        yield WebFleet(server, page, stranger, fleet)
