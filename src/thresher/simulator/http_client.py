"""Many small HTTP requests from one process: keep-alive connections that many devices share.

A general HTTP client costs far more than the server that it talks to: with 64 requests under way, httpx needed 3
milliseconds of CPU a request where this client needs 0.03, and sent 300 requests a second where this one sends 7,500.
So a fleet on the server's own machine has a client of its own. It speaks just enough HTTP/1.1: one request at a time
on a connection, responses read by httptools, the parser that the server uses too. It can also misbehave on purpose:
leave before the answer comes, or send a body slowly.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from thresher.addresses import checked_address
from thresher.errors import require
from thresher.unreachable import failure_of, trusted

SECONDS = 30.0
"""How long an answer may take."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said."""

    status: int
    body: bytes
    retry_after: float | None = None


class Lost(Exception):
    """The connection broke, or no answer came in time: what the server did is not known."""


class _Connection(asyncio.Protocol):
    """One connection, one request at a time."""

    __slots__ = ("_body", "_open", "_parser", "_retry_after", "_transport", "_waiting", "usable")

    def __init__(self, parser: Any, open: set[_Connection]) -> None:
        self._parser = parser(self)
        self._open = open
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[Answer] | None = None
        self._body: bytes = b""
        self._retry_after: float | None = None
        self.usable = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # a stream socket's transport is a Transport
        self._open.add(self)
        self.usable = True

    def connection_lost(self, exc: Exception | None) -> None:
        self._open.discard(self)
        self.usable = False
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(Lost("The connection was closed."))

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except Exception:  # whatever is not HTTP: the parser has errors of its own kinds
            self.close()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header was read; only `Retry-After` matters."""
        if len(name) == 11 and name.lower() == b"retry-after":
            try:
                self._retry_after = float(value)
            except ValueError:
                self._retry_after = None

    def on_body(self, body: bytes) -> None:
        """A piece of the body was read."""
        self._body += body

    def on_message_complete(self) -> None:
        """A whole response was read."""
        if not self._parser.should_keep_alive():
            self.close()
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(Answer(self._parser.get_status_code(), self._body, self._retry_after))

    def ask(self, request: bytes) -> asyncio.Future[Answer]:
        """Send a whole request; the future has its answer."""
        assert self._transport is not None
        self._body, self._retry_after = b"", None
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._waiting

    def write(self, part: bytes) -> None:
        """Send more of a request that `ask` began."""
        if self._transport is not None and self.usable:
            self._transport.write(part)

    def close(self) -> None:
        """Close the connection."""
        self.usable = False
        if self._transport is not None:
            self._transport.close()


class HttpClient:
    """A server's address, and the idle connections to it. As many are open as requests are under way at once."""

    def __init__(self, url: str, *, seconds: float = SECONDS, ca_file: str | Path | None = None) -> None:
        self._url = checked_address("server", url)
        parts = urlsplit(self._url)
        self._parser = require("httptools", "server").HttpResponseParser
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._tls = trusted(ca_file) if parts.scheme == "https" else None
        self._prefix = parts.path.rstrip("/")
        self._tail = f" HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n".encode()
        self._seconds = seconds
        self._idle: list[_Connection] = []
        self._open: set[_Connection] = set()

    async def send(self, method: str, path: str, token: str | None, body: bytes) -> Answer:
        """One request and its answer. `Lost` if none came; `ServerUnavailable` if nobody listens."""
        connection = await self._connection()
        answer = connection.ask(self._head(method, path, token, len(body)) + body)
        return await self._received(connection, answer)

    async def send_and_leave(self, method: str, path: str, token: str | None, body: bytes) -> None:
        """Send a request and close before the answer is read: the sender cannot know whether it was taken."""
        connection = await self._connection()
        connection.ask(self._head(method, path, token, len(body)) + body).cancel()
        await asyncio.sleep(0)  # the loop hands the bytes to the socket
        connection.close()

    async def send_slowly(
        self, method: str, path: str, token: str | None, body: bytes, *, pieces: int = 4, pause: float = 0.05
    ) -> Answer:
        """Send the body in pieces, with pauses."""
        connection = await self._connection()
        answer = connection.ask(self._head(method, path, token, len(body)))
        size = max(1, -(-len(body) // pieces))
        for start in range(0, len(body), size):
            await asyncio.sleep(pause)
            connection.write(body[start : start + size])
        return await self._received(connection, answer)

    async def close(self) -> None:
        """Close all connections."""
        self._idle.clear()
        for connection in list(self._open):
            connection.close()
        for _ in range(100):
            if not self._open:
                break
            await asyncio.sleep(0.01)  # the loop closes sockets in turns of its own

    def _head(self, method: str, path: str, token: str | None, length: int) -> bytes:
        bearer = "" if token is None else f"Authorization: Bearer {token}\r\n"
        return (
            f"{method} {self._prefix}{path}".encode()
            + self._tail
            + f"{bearer}Content-Length: {length}\r\n\r\n".encode()
        )

    async def _connection(self) -> _Connection:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
        try:
            _, connection = await asyncio.get_running_loop().create_connection(
                lambda: _Connection(self._parser, self._open), self._host, self._port, ssl=self._tls
            )
        except OSError as error:
            raise failure_of(self._url, error).error() from None
        return connection

    async def _received(self, connection: _Connection, answer: asyncio.Future[Answer]) -> Answer:
        try:
            async with asyncio.timeout(self._seconds):
                received = await answer
        except TimeoutError:
            connection.close()
            raise Lost("No answer came in time.") from None
        if received.status == 413:
            connection.close()  # the server may hang up while the rest of the body is on its way
        elif connection.usable:
            self._idle.append(connection)
        return received
