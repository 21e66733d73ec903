"""What one connection may take, before any route is asked: bytes of a head, seconds for head, body and answer.

uvicorn reads requests with the class that `guarded` makes. It closes a connection

- whose request line and headers are longer than `Limits.head_bytes`: the parser never sees more of them,
- whose head takes longer than `head_seconds`, or whose body takes longer than `body_seconds`,
- whose other side does not take the answer for `stall_seconds`,
- that is one too many for its address, or for the server.

One sweep a second looks at all connections: a timer for each of them would cost every request of a device more than
what it does. Nothing here knows or logs an address: counts by address live in memory, while connections are open.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal

from thresher.fleet.server.limits import KIB, Limits
from thresher.fleet.server.metrics import Metrics
from thresher.fleet.server.networks import network_of, parsed
from thresher.fleet.server.problem import Refused, answer_of

log = logging.getLogger("thresher.server")

Why = Literal[
    "address", "server", "head-bytes", "head-seconds", "body-seconds", "body-bytes", "around-body", "stall-seconds"
]

_PIECE: Final = 4 * KIB
"""While a head is read, the parser gets at most so much at a time."""
_BODY_PIECE: Final = 16 * KIB
_DRAINED: Final = 256 * KIB
"""What is still read of a body whose answer was sent already."""
_GRACE_SECONDS: Final = 5.0
"""How much longer than a route waits for a body: the route's own answer comes first."""
_SPARE: Final = 50
"""Connections above the limit, for whoever asks for health while all others are at work."""
_LOG_SECONDS: Final = 60.0
_BETWEEN, _HEAD, _BODY = range(3)
_WORDS: dict[Why, str] = {
    "address": "a connection was closed at once: its address holds as many as one address may",
    "server": "a connection was closed to make room: as many are open as this server takes",
    "head-bytes": "a connection was closed: its request line and headers are too long",
    "head-seconds": "a connection was closed: its request line and headers did not arrive in time",
    "body-seconds": "a connection was closed: its request's body did not arrive in time",
    "body-bytes": "a connection was closed: it went on sending a body that was refused",
    "around-body": "a connection was closed: what it sent around the pieces of a body is too long",
    "stall-seconds": "a connection was closed: the other side does not take the answer",
}


class Guest:
    """One connection, as the door sees it."""

    key: str | None = None
    """Whose it is, for the limit by address; None where that is not limited."""
    transport: Any = None
    arriving: Guest | None = None
    """The same connection before TLS was agreed on."""
    due: float = math.inf
    why: Why = "head-seconds"
    stalled: float = math.inf

    def at_work(self) -> bool:
        """Whether a request is being answered."""
        return False

    def expect(self, why: Why, due: float) -> None:
        """Close the connection if what is awaited has not come by then."""
        self.why, self.due = why, due


class Door:
    """All connections of a server: who is in, and who has to go.

    Guarantee: an address (for IPv6: its first 64 bits) holds at most `Limits.connections_per_address` connections,
    unless it is a trusted proxy's. A newcomer that finds `most` open takes the place of whoever has been without a
    whole request for the longest time, so half-sent requests cannot keep others out.
    """

    def __init__(
        self,
        limits: Limits,
        metrics: Metrics,
        *,
        trusted: Iterable[str] = (),
        most: int | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = limits
        self.most = limits.connections if most is None else min(most, limits.connections)
        self.waiting: dict[Guest, None] = {}
        """Those without a whole request, the one that waits longest first."""
        self.now = now
        self._metrics = metrics
        self._trusted = tuple(ipaddress.ip_network(network) for network in trusted)
        self._inside: set[Guest] = set()
        self._by_address: Counter[str] = Counter()
        self._untold: Counter[Why] = Counter()
        self._told: dict[Why, float] = {}
        metrics.gauge("thresher_connections", "Connections open now.", lambda: len(self._inside))

    @property
    def crowded(self) -> bool:
        """Whether more connections are open than may be."""
        return len(self._inside) > self.most

    def enter(self, guest: Guest, transport: Any) -> bool:
        """Let a connection in, or close it at once."""
        guest.transport = transport
        if guest in self._inside:
            return True
        guest.key = self._key(transport.get_extra_info("peername"))
        if guest.key is not None and self._by_address[guest.key] >= self.limits.connections_per_address:
            return self._turn_away("address", transport)
        if len(self._inside) >= self.most:
            oldest = next(iter(self.waiting), None)
            if oldest is not None:
                self.close(oldest, "server")
            elif len(self._inside) >= self.most + _SPARE:
                return self._turn_away("server", transport)
        self._inside.add(guest)
        if guest.key is not None:
            self._by_address[guest.key] += 1
        self.waiting[guest] = None
        guest.expect("head-seconds", self.now() + self.limits.head_seconds)
        return True

    def succeed(self, guest: Guest, other: Guest) -> None:
        """Put another guest in the place of one: the same connection, with TLS from now on."""
        if guest in self._inside:
            self._inside.remove(guest)
            self._inside.add(other)
            other.key, other.transport = guest.key, guest.transport
            self.waiting.pop(guest, None)
            self.waiting[other] = None
            other.expect("head-seconds", self.now() + self.limits.head_seconds)

    def leave(self, guest: Guest) -> None:
        """Forget a connection; nothing to do for one that is forgotten already."""
        self.waiting.pop(guest, None)
        if guest in self._inside:
            self._inside.remove(guest)
            if guest.key is not None:
                self._by_address[guest.key] -= 1
                if not self._by_address[guest.key]:
                    del self._by_address[guest.key]

    def close(self, guest: Guest, why: Why) -> None:
        """Close a connection, and say that it was."""
        self.leave(guest)
        self.tell(why)
        guest.transport.abort()

    def tell(self, why: Why) -> None:
        """Count a limit that was met; the log has a line at once, and then at most one a minute for each limit."""
        self._metrics.count("thresher_connections_closed_total", reason=why)
        self._untold[why] += 1
        now = self.now()
        if now - self._told.get(why, -math.inf) >= _LOG_SECONDS:
            number = self._untold.pop(why)
            again = f" ({number:,} since this was last said)" if why in self._told else ""
            self._told[why] = now
            log.warning("%s%s", _WORDS[why], again)

    def sweep(self) -> None:
        """Close whoever is overdue."""
        now = self.now()
        for guest in tuple(self._inside):
            if now >= guest.stalled:
                self.close(guest, "stall-seconds")
            elif now >= guest.due and not (guest.why == "head-seconds" and guest.at_work()):
                self.close(guest, guest.why)

    async def keep_sweeping(self) -> None:
        """Sweep until cancelled, often enough for the shortest limit."""
        limits = self.limits
        shortest = min(limits.head_seconds, limits.body_seconds, limits.stall_seconds)
        while True:
            await asyncio.sleep(min(1.0, shortest / 4))
            self.sweep()

    def _turn_away(self, why: Why, transport: Any) -> bool:
        self.tell(why)
        transport.abort()
        return False

    def _key(self, peer: Any) -> str | None:
        address = parsed(peer[0]) if isinstance(peer, tuple) and peer else None
        if address is None or any(address in network for network in self._trusted):
            return None  # no network between us, as with a socket in the file system, or one that is trusted
        return network_of(address)


class _Guarded(Guest):
    """What both of uvicorn's classes get; `guarded` puts it in front of one of them."""

    door: Door
    cycle: Any

    def at_work(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: Any) -> None:
        """Let uvicorn have the connection, if the door does."""
        if self.arriving is not None:
            self.door.succeed(self.arriving, self)
            self.arriving = None
        if self.door.enter(self, transport):
            super().connection_made(transport)  # type: ignore[misc]

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is gone."""
        self.door.leave(self)
        if self.cycle is not None or getattr(self, "flow", None) is not None:  # uvicorn had it
            super().connection_lost(error)  # type: ignore[misc]

    def pause_writing(self) -> None:
        """The other side does not take what it is sent."""
        self.stalled = self.door.now() + self.door.limits.stall_seconds
        super().pause_writing()  # type: ignore[misc]

    def resume_writing(self) -> None:
        """The other side goes on."""
        self.stalled = math.inf
        super().resume_writing()  # type: ignore[misc]

    def _awaits_head(self) -> None:
        """Of the next request something has come: the rest must follow."""
        self.expect("head-seconds", self.door.now() + self.door.limits.head_seconds)

    def _awaits_body(self) -> None:
        self.door.waiting.pop(self, None)
        self.expect("body-seconds", self.door.now() + self.door.limits.body_seconds + _GRACE_SECONDS)

    def _has_all(self) -> None:
        self.door.waiting.pop(self, None)
        self.due = math.inf


class _HttpTools(_Guarded):
    """In front of uvicorn's class on httptools, whose parser itself has no limit for a head."""

    _phase = _BETWEEN
    _head = 0
    _drained = 0
    _around = 0
    _completed = False

    def data_received(self, data: bytes) -> None:
        """Feed the parser, a little at a time while it reads a head."""
        if self._phase == _BETWEEN and self.due == math.inf:
            self._awaits_head()
        start = 0
        while start < len(data) and not self.transport.is_closing():
            before, self._completed = self._phase, False
            piece = data[start : start + (_BODY_PIECE if before == _BODY else _PIECE)]
            start += len(piece)
            super().data_received(piece)  # type: ignore[misc]
            if self._phase == _BODY:
                if self.cycle.response_complete and self._is_endless(len(piece)):
                    return
                if self._goes_around(len(piece)):
                    return
            # How much of a piece that also held the end of a request belongs to the next one, nobody says.
            elif before == _BODY or self._completed:
                self._head = 0
            elif self._is_too_long(len(piece)):
                return
        if self._phase == _HEAD and self.due == math.inf:
            self._awaits_head()

    def _is_too_long(self, more: int) -> bool:
        self._head += more
        if self._head <= self.door.limits.head_bytes or self.transport.is_closing():
            return False
        refused = Refused(431, "headers-too-large", "The request line and headers are too long.")
        status, headers, body = answer_of(refused)
        lines = [f"HTTP/1.1 {status} Request Header Fields Too Large".encode()]
        lines += [name + b": " + value for name, value in (*headers, (b"connection", b"close"))]
        self.transport.write(b"\r\n".join([*lines, b"", body]))
        self.door.leave(self)
        self.door.tell("head-bytes")
        self.transport.close()
        return True

    def _is_endless(self, more: int) -> bool:
        self._drained += more
        if self._drained <= _DRAINED:
            return False
        self.door.close(self, "body-bytes")
        return True

    def _goes_around(self, more: int) -> bool:
        """Extensions of a chunk and trailers: the parser keeps a line of them whole, and copies it with every piece."""
        self._around += more
        if self._around <= self.door.limits.head_bytes + _BODY_PIECE:
            return False
        self.door.close(self, "around-body")
        return True

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header of the head; one that follows the body is nobody's, and must not join those that were read."""
        if self._phase != _BODY:
            super().on_header(name, value)  # type: ignore[misc]

    def on_body(self, body: bytes) -> None:
        """Some of a body's content."""
        self._around = 0
        super().on_body(body)  # type: ignore[misc]

    def on_message_begin(self) -> None:
        """The parser has seen the first byte of a request."""
        self._phase = _HEAD
        super().on_message_begin()  # type: ignore[misc]

    def on_headers_complete(self) -> None:
        """The parser has a whole head."""
        self._phase, self._head, self._drained, self._around = _BODY, 0, 0, 0
        self._awaits_body()
        super().on_headers_complete()  # type: ignore[misc]

    def on_message_complete(self) -> None:
        """The parser has a whole request."""
        self._phase, self._completed = _BETWEEN, True
        self._has_all()
        super().on_message_complete()  # type: ignore[misc]

    def on_response_complete(self) -> None:
        """The answer is sent; uvicorn closes the connection if no other request comes in time."""
        super().on_response_complete()  # type: ignore[misc]
        if self._phase != _BODY and not self.at_work():
            self.door.waiting[self] = None


class _H11(_Guarded):
    """In front of uvicorn's class on h11, whose parser has a limit for a head; see `configured`."""

    conn: Any

    def data_received(self, data: bytes) -> None:
        """Feed the parser."""
        if self.due == math.inf and not self.at_work():
            self._awaits_head()
        super().data_received(data)  # type: ignore[misc]
        self._look()

    def on_response_complete(self) -> None:
        """The answer is sent; uvicorn closes the connection if no other request comes in time."""
        super().on_response_complete()  # type: ignore[misc]
        self._look()
        if not self.at_work() and self.due == math.inf:
            self.door.waiting[self] = None

    def _look(self) -> None:
        import h11

        if self.conn.their_state is h11.SEND_BODY:
            if self.why != "body-seconds" or self.due == math.inf:
                self._awaits_body()
        elif self.conn.their_state is not h11.IDLE or self.why == "body-seconds":
            self._has_all()


def configured(config: Any, door: Door) -> None:
    """Make uvicorn read requests behind a door; `config` must not be loaded yet."""
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    config.h11_max_incomplete_event_size = door.limits.head_bytes
    config.http = guarded(AutoHTTPProtocol, door)
    config.load()


def guarded(base: type, door: Door) -> Any:
    """One of uvicorn's two classes for HTTP, behind a door."""
    mixed = _HttpTools if hasattr(base, "on_headers_complete") else _H11
    return type(f"Guarded{base.__name__}", (mixed, base), {"door": door})
