"""One call of a function for all who ask for its result at the same time."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Shared(Generic[K, V]):
    """A function whose result serves everybody who asks within `seconds`. Only used in the event loop.

    Guarantee: the function runs in a thread, for each key at most once at a time and once in `seconds`, however many
    ask. A result was looked up at most `seconds` before it was asked for. An error goes to everybody too.
    """

    def __init__(
        self, function: Callable[[K], V], seconds: float, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._function = function
        self._seconds = seconds
        self._now = now
        self._looks: dict[K, tuple[float, asyncio.Future[V]]] = {}

    async def __call__(self, key: K) -> V:
        """What the function returns or raises for a key, now or a moment ago."""
        now = self._now()
        known = self._looks.get(key)
        if known is None or not self._serves(known, now):
            self._looks = {each: look for each, look in self._looks.items() if self._serves(look, now)}
            known = self._looks[key] = now, asyncio.ensure_future(asyncio.to_thread(self._function, key))
            known[1].add_done_callback(_retrieve)
        return await asyncio.shield(known[1])  # a caller that is cancelled must not cancel it for the others

    def _serves(self, look: tuple[float, asyncio.Future[V]], now: float) -> bool:
        begun, result = look
        return not result.cancelled() and (not result.done() or now - begun < self._seconds)


def _retrieve(result: asyncio.Future[V]) -> None:
    """Mark an error as seen: asyncio logs those that nobody waited for."""
    if not result.cancelled():
        result.exception()


class Alone:
    """Runs a function in a thread of its own, once at a time, so that it answers however busy the others are.

    Guarantee: a caller that comes while it runs gets the last result, or waits where there is none yet. So a function
    that hangs holds one thread and the callers that came before its first result. The thread does not keep the process
    from ending.
    """

    def __init__(self) -> None:
        self._running: Future[Any] | None = None
        self._last: Future[Any] | None = None

    async def __call__(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What the function returns or raises, now or the last time."""
        running = self._running
        if running is None or running.done():
            self._last, running = running, Future()
            running.set_running_or_notify_cancel()
            self._running = running
            threading.Thread(target=_run, args=(running, function, arguments), daemon=True).start()
        elif self._last is not None:
            return self._last.result()
        return await asyncio.shield(asyncio.wrap_future(running))


def _run(future: Future[Any], function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    try:
        future.set_result(function(*arguments))
    except BaseException as error:
        future.set_exception(error)
