"""How many plans are computed at a time, in all and for one token."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from weakref import WeakValueDictionary

from thresher.server.limits import Shares
from thresher.server.problem import Refused

_MOST_WAITING = 16
_MOST_WAITING_EACH = 4


class PlanningTurns:
    """Plans of one token are computed one after another; a slider must not fill the server with plans.

    Guarantee: at most 16 callers hold a turn or wait for one, and at most 4 of one token; others are refused. Each of
    them occupies a thread.
    """

    def __init__(self) -> None:
        self.waiting = Shares(_MOST_WAITING, _MOST_WAITING_EACH, _too_many_plans)
        self._lock = threading.Lock()
        self._turns: WeakValueDictionary[bytes, threading.Lock] = WeakValueDictionary()

    @contextlib.contextmanager
    def turn(self, token: bytes) -> Iterator[None]:
        """Wait until no other plan of this token (given by its hash) is being computed."""
        with self.waiting.hold(token):
            with self._lock:
                turn = self._turns.setdefault(token, threading.Lock())
            with turn:
                yield


def _too_many_plans() -> Refused:
    return Refused(429, "planner-busy", "A newer plan was asked for, or too many are.", retry_after=1)
