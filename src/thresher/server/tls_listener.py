"""A TLS listener that counts and times connections from their first moment.

uvicorn's own listener hands a connection over after the TLS handshake, so thousands that never finish one would be
counted by nobody. `loop.start_tls` is no way out: what a client sends right after the handshake may reach a protocol
before its `connection_made`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from typing import Any

from thresher.server.door import Door, Guest

log = logging.getLogger("thresher.server")

_AT_ONCE = 100
_PAUSE_SECONDS = 1.0


class _Arriving(Guest):
    """A connection until its TLS handshake is done. It is its own transport for the door."""

    def __init__(self, connection: socket.socket, address: Any) -> None:
        self._connection = connection
        self._address = address
        self.task: asyncio.Task[None] | None = None

    def get_extra_info(self, name: str) -> Any:
        """The address of the client; a transport has this method."""
        return self._address

    def abort(self) -> None:
        """Close the connection."""
        if self.task is not None:
            self.task.cancel()
        with contextlib.suppress(OSError):
            self._connection.close()


class Acceptor:
    """Accepts connections, does the TLS handshake, and hands them to uvicorn. Closes as uvicorn's own listeners do."""

    def __init__(self, server: Any, listener: socket.socket, door: Door) -> None:
        self._server = server
        self._context: ssl.SSLContext = server.config.ssl
        self._listener = listener
        self._door = door
        self._loop = asyncio.get_running_loop()
        self._arriving: set[asyncio.Task[None]] = set()
        self._open = True
        listener.setblocking(False)
        listener.listen(server.config.backlog)
        self._loop.add_reader(listener, self._accept)

    def close(self) -> None:
        """Accept no more connections, and end the handshakes that are under way."""
        if self._open:
            self._open = False
            self._loop.remove_reader(self._listener)
            for task in tuple(self._arriving):
                task.cancel()

    async def wait_closed(self) -> None:
        """Wait until all handshakes have ended."""
        await asyncio.gather(*self._arriving, return_exceptions=True)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no open files left, as a rule
                log.warning("no connection can be accepted now: %s", error.strerror)
                self._loop.remove_reader(self._listener)
                self._loop.call_later(_PAUSE_SECONDS, self._resume)
                return
            guest = _Arriving(connection, address)
            if self._door.enter(guest, guest):
                guest.task = self._loop.create_task(self._agree(guest, connection))
                self._arriving.add(guest.task)
                guest.task.add_done_callback(self._arriving.discard)

    def _resume(self) -> None:
        if self._open:
            self._loop.add_reader(self._listener, self._accept)

    async def _agree(self, guest: _Arriving, connection: socket.socket) -> None:
        server = self._server
        protocol = server.config.http_protocol_class(
            config=server.config, server_state=server.server_state, app_state=server.lifespan.state, _loop=self._loop
        )
        protocol.arriving = guest
        connection.setblocking(False)
        try:
            await self._loop.connect_accepted_socket(
                lambda: protocol,
                connection,
                ssl=self._context,
                ssl_handshake_timeout=self._door.limits.head_seconds,
            )
        except (OSError, ssl.SSLError):  # the client speaks no TLS, does not trust this server, or went away
            connection.close()
        finally:
            self._door.leave(guest)
