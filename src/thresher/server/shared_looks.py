"""One look for all who ask for the same thing at the same time, such as the event streams of one query."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Shared(Generic[K, V]):
    """A function whose result serves everybody who asks within `seconds`. Only touched in the event loop.

    Guarantee: the function runs in a thread, for each key at most once at a time and once in `seconds`, however many
    ask. What is returned was looked up at most `seconds` before it was asked for. An error is everybody's too.
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
            known[1].add_done_callback(_seen)
        # Whoever goes away while waiting must not end it for the others.
        return await asyncio.shield(known[1])

    def _serves(self, look: tuple[float, asyncio.Future[V]], now: float) -> bool:
        begun, result = look
        return not result.cancelled() and (not result.done() or now - begun < self._seconds)


def _seen(result: asyncio.Future[V]) -> None:
    """An error that nobody waits for any more is not worth a line in the log."""
    if not result.cancelled():
        result.exception()
