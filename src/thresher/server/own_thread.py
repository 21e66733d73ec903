"""A function with a thread of its own, so that it answers whatever keeps the others busy."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any


class Alone:
    """Runs a function once at a time.

    Guarantee: whoever asks while it runs gets what it returned last, or waits for it the first time: a function that
    hangs holds one thread, and no answer but the first. The thread does not keep the process from ending.
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
        # Whoever goes away while waiting must not end it for the others.
        return await asyncio.shield(asyncio.wrap_future(running))


def _run(future: Future[Any], function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    try:
        future.set_result(function(*arguments))
    except BaseException as error:
        future.set_exception(error)
