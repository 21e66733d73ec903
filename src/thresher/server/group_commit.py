"""Group commit: requests that arrive while one commit is under way share the next one, so durability is cheap."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from thresher.errors import StoreUnavailable

Item = TypeVar("Item")
Result = TypeVar("Result")

_LARGEST = 1000
_MOST_WAITING = 20_000


class Busy(StoreUnavailable):
    """More requests are waiting for a commit than will be served soon; this one was not begun."""


class GroupCommit(Generic[Item, Result]):
    """Runs a function over lists in a thread of its own, for coroutines that have one item each.

    Guarantee: one batch at a time, in order of arrival; everything that waits goes into the next, up to `largest`. A
    result is delivered after the function has returned; if it raises, all of its batch get the error.
    Edge cases: with `most_waiting` waiting, or after `close`, `submit` raises `Busy`. Both limits are sums of what
    `size` says of each item, by default 1; an item that is larger than a batch has one of its own. A coroutine that is
    cancelled does not undo its item.
    """

    def __init__(
        self,
        function: Callable[[list[Item]], Sequence[Result]],
        *,
        largest: int = _LARGEST,
        most_waiting: int = _MOST_WAITING,
        size: Callable[[Item], int] = lambda item: 1,
    ) -> None:
        self._function = function
        self._size = size
        self._size_waiting = 0
        self._largest = largest
        self._most_waiting = most_waiting
        self._waiting: deque[tuple[Item, asyncio.Future[Result]]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="group-commit", daemon=True)
        self._thread.start()

    async def submit(self, item: Item) -> Result:
        """The function's result for an item."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        with self._changed:
            if self._closed or self._size_waiting >= self._most_waiting:
                raise Busy("The server has more to store than it can at the moment.", hint="Try again in a moment.")
            if not self._waiting:
                self._changed.notify()  # the thread waits only while nothing else does
            self._waiting.append((item, future))
            self._size_waiting += self._size(item)
        return await future

    @property
    def waiting(self) -> int:
        """How many items are not in a batch yet."""
        return len(self._waiting)

    def close(self) -> None:
        """Finish what is waiting, then stop. Call it while the event loop still runs, or its futures stay open."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while batch := self._next():
            results: Sequence[Result] = ()
            problem: BaseException | None = None
            try:
                results = self._function([item for item, _ in batch])
                if len(results) != len(batch):
                    raise RuntimeError("a group commit must have one result for each item")
            except BaseException as error:  # whatever it is, those who wait must get it
                problem = error
            _deliver([future for _, future in batch], results, problem)

    def _next(self) -> list[tuple[Item, asyncio.Future[Result]]]:
        """The next batch; empty once closed and done."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            batch: list[tuple[Item, asyncio.Future[Result]]] = []
            left = self._largest
            while self._waiting:
                size = self._size(self._waiting[0][0])
                if batch and size > left:
                    break
                left -= size
                self._size_waiting -= size
                batch.append(self._waiting.popleft())
            return batch


def _deliver(
    futures: Sequence[asyncio.Future[Result]], results: Sequence[Result], problem: BaseException | None
) -> None:
    """Hand results to the event loops that wait for them, with one wake-up for each loop and not for each future."""
    loops = dict.fromkeys(future.get_loop() for future in futures)
    for loop in loops:

        def wake(loop: asyncio.AbstractEventLoop = loop) -> None:
            for place, future in enumerate(futures):
                if future.get_loop() is not loop or future.done():
                    continue
                if problem is None:
                    future.set_result(results[place])
                else:
                    future.set_exception(problem)

        try:
            loop.call_soon_threadsafe(wake)
        except RuntimeError:
            continue  # this loop is closed, and nobody waits in it any more
