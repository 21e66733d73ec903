"""All connections of a server: how many may be open, how long each may take, and which are closed.

One sweep a second looks at all connections, because a timer for each would cost a device's request more than the
request itself. No address is logged or stored: counts by address live in memory while connections are open.
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

from thresher.server.limits import Limits
from thresher.server.metrics import Metrics
from thresher.server.networks import network_of, parsed

log = logging.getLogger("thresher.server")

Why = Literal[
    "address", "server", "head-bytes", "head-seconds", "body-seconds", "body-bytes", "around-body", "stall-seconds"
]

_SPARE: Final = 50
"""Connections above the limit, so that health can be asked for while all others are at work."""
_LOG_SECONDS: Final = 60.0
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
    """One connection, as far as the door knows it."""

    key: str | None = None
    """The network that it counts for; None where connections of an address are not limited."""
    transport: Any = None
    arriving: Guest | None = None
    """The same connection before its TLS handshake was done."""
    due: float = math.inf
    why: Why = "head-seconds"
    stalled: float = math.inf

    def at_work(self) -> bool:
        """Whether a request is being answered."""
        return False

    def expect(self, why: Why, due: float) -> None:
        """Have the connection closed for the reason `why` at the time `due`."""
        self.why, self.due = why, due


class Door:
    """Lets connections in, and closes those that meet a limit.

    Guarantee: an address (for IPv6: its first 64 bits) holds at most `Limits.connections_per_address` connections,
    unless it is a trusted proxy's. Where `most` are open, a new connection takes the place of the one that has been
    without a whole request for the longest time, so half-sent requests cannot keep others out.
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
        """Connections without a whole request, in the order in which they began to wait."""
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
        """Put another guest in the place of one: the same connection after its TLS handshake."""
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
        """Close a connection, and count and log why."""
        self.leave(guest)
        self.tell(why)
        guest.transport.abort()

    def tell(self, why: Why) -> None:
        """Count a limit that was met. It is logged at once, and then at most once a minute for each limit."""
        self._metrics.count("thresher_connections_closed_total", reason=why)
        self._untold[why] += 1
        now = self.now()
        if now - self._told.get(why, -math.inf) >= _LOG_SECONDS:
            number = self._untold.pop(why)
            again = f" ({number:,} since this was last said)" if why in self._told else ""
            self._told[why] = now
            log.warning("%s%s", _WORDS[why], again)

    def sweep(self) -> None:
        """Close the connections that are overdue."""
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
            return None  # a socket in the file system, or a trusted proxy
        return network_of(address)
