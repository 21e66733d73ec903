"""Server-sent events about one query, for the API and for the console's live page."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeVar

from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from thresher.errors import Unauthorised
from thresher.protocol.states import ACTIVE_QUERY
from thresher.server.limits import Shares

EVENTS = "text/event-stream"
_QUIET_SECONDS = 15.0
"""Proxies close a connection on which nothing is sent for longer; a comment is sent then."""

Shown = TypeVar("Shown")


async def events_of(
    look: Callable[[], Awaitable[tuple[str, Shown]]],
    write: Callable[[Shown], Awaitable[bytes]],
    *,
    streams: Shares,
    caller: bytes,
    stopping: Callable[[], bool],
    every: float,
    longest: float = math.inf,
) -> AsyncGenerator[bytes, None]:
    """An event whenever a query has changed, until it has ended; at most `longest` seconds.

    `look` returns the query's state and what is shown of it; the stream ends if it raises `Unauthorised`. `write` makes
    an event of what is shown. The stream counts as one of the `caller`'s.

    Edge cases: an error of the first look is raised. A later one, such as a store that is down for a moment, does not
    end the stream, because the answer has begun.
    """
    with streams.hold(caller):
        last: Shown | None = None
        quiet = lived = 0.0
        while lived < longest and not stopping():
            try:
                state, shown = await look()
            except Unauthorised:
                return
            except Exception:
                if last is None:
                    raise
            else:
                if shown != last:
                    last, quiet = shown, 0.0
                    yield await write(shown)
                if state not in ACTIVE_QUERY:
                    return
            await asyncio.sleep(every)
            quiet, lived = quiet + every, lived + every
            if quiet >= _QUIET_SECONDS:
                quiet = 0.0
                yield b": still here\n\n"


class EventStream(StreamingResponse):
    """The response that sends events.

    Guarantee: when the client goes away, the generator of the events is closed at once, also while it waits.
    """

    def __init__(self, first: bytes, events: AsyncGenerator[bytes, None]) -> None:
        async def joined() -> AsyncGenerator[bytes, None]:
            yield first
            async for event in events:
                yield event

        headers = {"content-type": EVENTS, "cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(joined(), headers=headers)
        self._events = events

    @classmethod
    async def begin(cls, events: AsyncGenerator[bytes, None]) -> EventStream:
        """Wait for the first event, so that an error until then can still be answered with its own status."""
        return cls(await anext(events, b""), events)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events until they end or the client goes away."""
        async with contextlib.aclosing(self._events):
            with contextlib.suppress(ClientDisconnect):
                await super().__call__(scope, receive, send)
