"""How much work a server can make a device do: in one visit, and over many."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
ROUNDS = 256
"""New rounds that a device looks at in one visit; more than a server has open at a time."""
PLANS = 4
"""Cells of its policy's table that a device computes in one visit, where it has no compiled one."""
SECONDS = 2.0
"""Processor seconds after which a visit begins to compute no further cell."""
REMEMBERED = 20.0
"""The same for cells of queries that were charged before: nothing is answered before all of them are known."""


class Effort:
    """How much work one visit may still do for the rounds that it was shown. The rest waits for the next visit.

    Guarantee: at most `ROUNDS` rounds are looked at and at most `PLANS` cells are computed, whatever a server sends.
    """

    __slots__ = ("_clock", "_plans", "_remembered", "_rounds", "_seconds")

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self._clock = clock
        self._rounds = ROUNDS
        self._plans = PLANS
        self._seconds = SECONDS
        self._remembered = REMEMBERED

    def looks(self) -> bool:
        """Whether one more round is looked at."""
        self._rounds -= 1
        return self._rounds >= 0

    def remembers(self, computation: Callable[[], T]) -> T | None:
        """What is computed for a query that was charged before, or None where the visit has done enough of that."""
        if not self._remembered > 0:
            return None
        began = self._clock()
        try:
            return computation()
        finally:
            self._remembered -= self._clock() - began

    def recomputes(self, computation: Callable[[], T]) -> T | None:
        """What is computed for a new query, or None where the visit has done enough of that."""
        if not (self._plans > 0 and self._seconds > 0):
            return None
        self._plans -= 1
        began = self._clock()
        try:
            return computation()
        finally:
            self._seconds -= self._clock() - began


class Allowance:
    """A token bucket: what a device may spend for its server, in bursts and in the long run.

    Guarantee: over any t seconds at most `burst + t × a_second` is spent, and what the last visit took.
    """

    __slots__ = ("_a_second", "_burst", "_left", "_seen")

    def __init__(self, burst: float, a_second: float) -> None:
        self._burst = self._left = burst
        self._a_second = a_second
        self._seen: float | None = None

    def rest(self, spent: float, now: float) -> float:
        """Take what a visit has spent out of the bucket; seconds until the next visit may begin."""
        since = 0.0 if self._seen is None else max(now - self._seen, 0.0)
        self._seen = now
        self._left = min(self._left + since * self._a_second, self._burst) - spent
        return max(-self._left / self._a_second, 0.0)
