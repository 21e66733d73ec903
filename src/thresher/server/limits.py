"""What one caller may use: bytes of a request, requests in a second, rounds and queries at a time."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from starlette.types import Receive, Scope

from thresher.errors import InvalidSetting
from thresher.server.problem import Refused

KIB = 1 << 10
MIB = 1 << 20
ARRIVED = "thresher.arrived"
"""A member of the scope of a request whose whole body has come."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Requests a second in the long run, and how many at once."""

    per_second: float
    burst: float

    def __post_init__(self) -> None:
        if not (self.per_second > 0 and self.burst >= 1):
            raise InvalidSetting("rate", "must be above 0 requests a second, with a burst of 1 or more")


_RATES = {
    "device": Rate(20, 200),
    "enrolment": Rate(5_000, 20_000),  # one enrolment key serves a whole fleet on its first day
    "analyst": Rate(100, 500),
    "operator": Rate(100, 500),
    "peer": Rate(2_000, 10_000),
}


@dataclass(frozen=True, slots=True)
class Limits:
    """All limits of a server; the defaults are meant never to be met by a well-behaved caller."""

    rates: dict[str, Rate] = field(default_factory=_RATES.copy)
    enrolments_per_hour: int = 100_000
    """Devices that enrol with one key in an hour; a key may have a number of its own."""
    enrolments_per_address: int = 1_000
    """Devices that enrol from one address in an hour; this machine's own addresses are not counted."""
    open_queries: int = 100
    open_rounds: int = 3_200
    """Rounds open at a time: as many as the queries may have that are open together (`admission.MOST_TOGETHER`)."""
    streams: int = 200
    """Event streams open at a time."""
    streams_per_caller: int = 50
    """Of those, with one token."""
    planners: int = 2
    """Processes that compute plans."""
    plans_waiting: int = 8
    """Plans that may wait for one of them."""
    plan_seconds: float = 30.0
    """How long one plan may take of a processor; most take less than one."""
    connections: int = 20_000
    """Open at a time; fewer where the system allows fewer open files."""
    connections_per_address: int = 1_000
    """Open at a time from one address; a trusted proxy's connections are not counted."""
    head_bytes: int = 16 * KIB
    """Length of a request line and its headers, in all."""
    headers: int = 100
    """Headers of a request."""
    head_seconds: float = 20.0
    """How long a request line and its headers may take to arrive, and before them TLS's handshake."""
    body_seconds: float = 30.0
    """How long a request's body may take to arrive."""
    body_bytes: int = 256 * MIB
    """Bytes of analysts' and operators' bodies that are being read or served, in all."""
    body_bytes_per_caller: int = 16 * MIB
    """Of those, with one token."""
    stall_seconds: float = 60.0
    """How long the other side may take nothing of an answer."""
    idle_seconds: int = 75
    """How long a connection is kept for another request."""

    def __post_init__(self) -> None:
        for name in ("enrolments_per_hour", "enrolments_per_address", "connections", "connections_per_address"):
            if not getattr(self, name) >= 1:
                raise InvalidSetting(name.replace("_", "-"), "must be at least 1")


class TokenBuckets:
    """A token bucket for each caller of one role.

    Guarantee: in any t seconds one caller is let through at most burst + t × per_second times, as long as fewer
    than `most` callers are remembered; memory is bounded whatever is sent.
    Edge cases: forgetting a caller (the one seen longest ago first) refills its bucket.
    """

    __slots__ = ("_buckets", "_most", "_now", "_rate")

    def __init__(self, rate: Rate, *, most: int = 200_000, now: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._most = most
        self._now = now
        self._buckets: dict[bytes | str, tuple[float, float]] = {}

    def take(self, caller: bytes | str) -> None:
        """Let one request through, or refuse it with the time at which the next may come."""
        now = self._now()
        rate = self._rate
        known = self._buckets.pop(caller, None)  # popped and put back: the dict stays in order of last use
        level = rate.burst if known is None else min(rate.burst, known[0] + (now - known[1]) * rate.per_second)
        if level < 1.0:
            self._buckets[caller] = (level, now)
            raise Refused(
                429,
                "too-many-requests",
                "This token is used too often.",
                hint="Wait as long as Retry-After says.",
                retry_after=(1.0 - level) / rate.per_second,
            )
        self._buckets[caller] = (level - 1.0, now)
        if len(self._buckets) > self._most:
            del self._buckets[next(iter(self._buckets))]


class Shares:
    """A number of things that callers share. Used from any thread.

    Guarantee: at most `most` are held at a time, and at most `each` by one caller. More is refused with the error that
    `refusal` makes, or that `full` makes where all are held.
    """

    def __init__(
        self, most: int, each: int, refusal: Callable[[], Refused], full: Callable[[], Refused] | None = None
    ) -> None:
        self._most = most
        self._each = each
        self._refusal = refusal
        self._full = full or refusal
        self._by_caller: Counter[bytes] = Counter()
        self._lock = threading.Lock()

    @property
    def open(self) -> int:
        """How many are held."""
        with self._lock:
            return self._by_caller.total()

    @contextlib.contextmanager
    def hold(self, caller: bytes, number: int = 1) -> Iterator[None]:
        """Hold `number` more for as long as the block lasts, or refuse."""
        with self._lock:
            if self._by_caller[caller] + number > self._each:
                raise self._refusal()
            if self._by_caller.total() + number > self._most:
                raise self._full()
            self._by_caller[caller] += number
        try:
            yield
        finally:
            with self._lock:
                self._by_caller[caller] -= number
                if not self._by_caller[caller]:
                    del self._by_caller[caller]


class Streams(Shares):
    """Event streams that are open now."""

    def __init__(self, most: int, each: int) -> None:
        super().__init__(
            most, each, lambda: Refused(429, "too-many-streams", "Too many event streams are open.", retry_after=10)
        )


class Bodies(Shares):
    """Bytes of request bodies that are being read or served now."""

    def __init__(self, most: int, each: int) -> None:
        own, whole = "This token sends too much at a time.", "This server is being sent too much at a time."
        hint = "Send one request after the other."
        super().__init__(
            most,
            each,
            lambda: Refused(429, "too-many-bytes", own, hint=hint, retry_after=1),
            lambda: Refused(503, "too-many-bytes", whole, retry_after=5),
        )


def stated_length(headers: list[tuple[bytes, bytes]], largest: int) -> int:
    """How long a body is, as its request states it, or else may be; a refusal with 413 above `largest`."""
    for name, value in headers:
        if name == b"content-length":
            if not value.isdigit() or len(value) > 18 or int(value) > largest:
                raise too_large(largest)
            return int(value)
    return largest


async def read_body(scope: Scope, receive: Receive, largest: int, seconds: float) -> bytes:
    """The whole body of a request.

    Guarantee: never holds more than `largest` bytes and one chunk, whatever the request says of its length; refuses
    with 413 above it, and with 408 if the body takes longer than `seconds`.
    """
    stated_length(scope["headers"], largest)
    if ARRIVED in scope:
        return await _received(receive, largest)  # a timeout would cost a device's request a tenth of its time
    try:
        async with asyncio.timeout(seconds):
            return await _received(receive, largest)
    except TimeoutError:
        raise Refused(408, "too-slow", "The request's body did not arrive in time.") from None


async def _received(receive: Receive, largest: int) -> bytes:
    message = await receive()
    body: bytes | bytearray = message.get("body", b"")
    while True:
        if message["type"] == "http.disconnect":
            raise ConnectionResetError
        if len(body) > largest:
            raise too_large(largest)
        if not message.get("more_body", False):
            return bytes(body)
        message = await receive()
        if isinstance(body, bytes):
            body = bytearray(body)  # only now: most bodies come in one piece
        body += message.get("body", b"")


def too_large(largest: int) -> Refused:
    """The refusal of a body above its limit."""
    return Refused(413, "too-large", f"A request here has at most {largest:,} bytes.")
