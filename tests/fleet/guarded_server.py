"""The class that reads requests, behind a door, on a real socket in a thread of the test's process."""

import asyncio
import contextlib
import socket
import threading
from dataclasses import dataclass
from unittest import mock

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from thresher.server.connections import configured
from thresher.server.door import Door
from thresher.server.limits import Limits
from thresher.server.metrics import Metrics
from thresher.server.tls_listener import Acceptor


@dataclass
class Guarded:
    """A server with a door; `received` are the lengths of the pieces that its parser was given."""

    port: int
    door: Door
    metrics: Metrics
    loop: asyncio.AbstractEventLoop
    received: list[int]

    def connect(self, address: str = "127.0.0.1") -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=60, source_address=(address, 0))

    def closed(self, reason: str) -> int:
        """How many connections were closed for a reason."""
        for line in self.metrics.text().decode().splitlines():
            if line.startswith(f'thresher_connections_closed_total{{reason="{reason}"}} '):
                return int(line.rpartition(" ")[2])
        return 0


async def _hello(scope, receive, send):
    """Answers at once, but to /slow only after the whole body, and to /flood with more than anybody takes."""
    if scope["path"] == "/slow":
        while (message := await receive()).get("more_body"):
            pass
        if message["type"] == "http.disconnect":
            return
    body = b"x" * (64 << 20) if scope["path"] == "/flood" else b"hello"
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@contextlib.contextmanager
def guarding(*, trusted=(), app=_hello, tls=None, most=None, **limits):
    """Serve behind a door with these limits."""
    metrics, received = Metrics(), []
    door = Door(Limits(**limits), metrics, trusted=trusted, most=most)
    files = {} if tls is None else {"ssl_certfile": str(tls[0]), "ssl_keyfile": str(tls[1])}
    config = uvicorn.Config(app, log_config=None, lifespan="off", ws="none", **files)
    configured(config, door)
    feed = HttpToolsProtocol.data_received

    def feeding(self, data):
        received.append(len(data))
        feed(self, data)

    server = uvicorn.Server(config)
    ready, holder = threading.Event(), {}

    async def run():
        holder["loop"], holder["stop"] = asyncio.get_running_loop(), asyncio.Event()
        server.lifespan = config.lifespan_class(config)
        with socket.create_server(("127.0.0.1", 0), backlog=1000) as listener:
            holder["port"] = listener.getsockname()[1]
            await server.startup([listener] if tls is None else [])
            if tls is not None:
                server.servers.append(Acceptor(server, listener, door))
            sweeping = asyncio.create_task(door.keep_sweeping())
            ready.set()
            await holder["stop"].wait()
            sweeping.cancel()
            for connection in list(server.server_state.connections):
                connection.transport.abort()
            await server.shutdown([listener])

    def running():
        with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:  # uvloop, as in production
            runner.run(run())

    thread = threading.Thread(target=running)
    thread.start()
    try:
        assert ready.wait(60)
        with mock.patch.object(HttpToolsProtocol, "data_received", feeding):
            yield Guarded(holder["port"], door, metrics, holder["loop"], received)
    finally:
        holder["loop"].call_soon_threadsafe(holder["stop"].set)
        thread.join(60)


def until_closed(connection: socket.socket) -> bytes:
    """What the server says until it closes the connection; a server that does not close it is a timeout."""
    said = b""
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(65536):
            said += part
    return said


def answer(connection: socket.socket) -> bytes:
    """One whole answer of `_hello`."""
    said = b""
    while not said.endswith(b"hello"):
        part = connection.recv(65536)
        assert part, said
        said += part
    return said
