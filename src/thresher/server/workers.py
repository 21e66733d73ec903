"""Computes plans in processes of their own, with limits for time and number.

A plan is recomputed exactly before a query is taken, and a request can ask for one that takes long. In threads of the
server, such requests would keep everybody else waiting.

Guarantee: at most `number` processes run, and at most `waiting` further requests wait for one; others are refused with
429. One caller has at most `each` of both together, and never all processes where there are two or more. So a caller
that sends many requests is refused alone, and others get their turn in the order in which they came.

A process that uses the processor for longer than `seconds` for one request is ended, and the request is refused.
Processor time is counted, so that a busy machine refuses nothing that an idle one takes. Nobody waits longer than
`patience` for a process at work. A process that was killed is replaced. All processes end with the server, however the
server ends.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

import thresher
from thresher.errors import InvalidSetting
from thresher.roles.computing import current_caller
from thresher.server.limits import Shares
from thresher.server.metrics import Metrics
from thresher.server.problem import Refused

log = logging.getLogger("thresher.server")

T = TypeVar("T")

_START_SECONDS = 120.0
_TRIES = 2
_OWN_SECONDS = 1.0
"""`Retry-After` for a caller whose own plans are being computed: most take less."""
# Not -m and not PYTHONPATH: these would let the process import modules from the server's working directory.
_BOOT = "import sys; sys.path.append(sys.argv[1]); from thresher.server.worker import work; work(int(sys.argv[2]))"
_SECRETS = ("THRESHER_", "PG")


class _Gone(Exception):
    """A process ended in the middle of a request."""


class _Worker:
    """One process."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._connection: Connection[Any, Any] = Connection(ours.detach())
            root = Path(thresher.__file__).parents[1]
            self.process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-P", "-c", _BOOT, str(root), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={name: value for name, value in os.environ.items() if not name.startswith(_SECRETS)},
            )
        self._ready = False

    def run(self, function: Callable[..., Any], arguments: tuple[Any, ...], seconds: float, patience: float) -> Any:
        """What a function returns or raises. `TimeoutError` if it takes too long, `_Gone` if the process ends."""
        try:
            if not self._ready:
                self._answer(_START_SECONDS)  # the libraries' own time is not the request's
                self._ready = True
            self._connection.send((function, arguments, seconds))
            done, result = self._answer(patience)
        except TimeoutError:
            raise
        except (EOFError, OSError):
            if self.process.wait(_START_SECONDS) == -signal.SIGPROF:
                raise TimeoutError from None
            raise _Gone from None
        if not done:
            raise result
        return result

    def _answer(self, seconds: float) -> Any:
        if not self._connection.poll(seconds):
            raise TimeoutError
        return self._connection.recv()

    def end(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.wait()
        self._connection.close()


@dataclass(frozen=True, slots=True, eq=False)
class _Turn:
    """A request that waits for a process."""

    caller: bytes


class Workers:
    """See the module. Called as `workers(function, *arguments)`, from any thread; the first call starts a process."""

    def __init__(
        self,
        number: int = 2,
        *,
        waiting: int = 8,
        each: int = 2,
        seconds: float = 30.0,
        patience: float = 120.0,
        metrics: Metrics | None = None,
    ) -> None:
        self._seconds = seconds
        self._patience = patience
        self._metrics = metrics or Metrics()
        self._places = Shares(
            number + waiting,
            each,
            lambda: self._busy("caller", "Other plans of yours are being computed.", _OWN_SECONDS),
            lambda: self._busy("busy", "This server is busy with other plans.", seconds),
        )
        self._at_once = max(1, number - 1)  # of one caller
        self._idle: list[_Worker | None] = [None] * number
        self._waiting: list[_Turn] = []
        self._running: Counter[bytes] = Counter()
        self._alive: set[_Worker] = set()
        self._closed = False
        self._changed = threading.Condition()

    @property
    def processes(self) -> list[int]:
        """The ids of the processes that run now."""
        with self._changed:
            return [worker.process.pid for worker in self._alive]

    @property
    def held(self) -> int:
        """How many requests have a process or wait for one."""
        return self._places.open

    def __call__(self, function: Callable[..., T], *arguments: Any) -> T:
        """What a function of this package returns or raises, computed in another process."""
        caller = current_caller()
        with self._places.hold(caller):
            worker = self._take(caller)
            try:
                for _ in range(_TRIES):
                    worker = worker or self._start()
                    try:
                        result: T = worker.run(function, arguments, self._seconds, self._patience)
                        return result
                    except (_Gone, TimeoutError) as failure:
                        self._end(worker)
                        worker = None
                        if isinstance(failure, TimeoutError):
                            self._metrics.count("thresher_plans_refused_total", reason="seconds")
                            raise self._too_expensive() from None
                        log.warning("a process that computes plans ended and is replaced")
                raise Refused(503, "planner-unavailable", "Plans cannot be computed now.", retry_after=self._seconds)
            finally:
                self._give_back(caller, worker)

    def _take(self, caller: bytes) -> _Worker | None:
        """Wait for a process; None if it has to be started."""
        turn = _Turn(caller)
        with self._changed:
            self._waiting.append(turn)
            self._changed.wait_for(lambda: self._idle and self._next() is turn)
            self._waiting.remove(turn)
            self._running[caller] += 1
            self._changed.notify_all()  # there may be another idle process for whoever is next now
            return self._idle.pop()  # the one that was used last, so that others need not be started

    def _next(self) -> _Turn | None:
        """Whoever has waited longest, except callers that have their share of the processes."""
        return next((turn for turn in self._waiting if self._running[turn.caller] < self._at_once), None)

    def _give_back(self, caller: bytes, worker: _Worker | None) -> None:
        with self._changed:
            self._idle.append(worker)
            self._running[caller] -= 1
            self._running += Counter()  # forgets callers that have none
            self._changed.notify_all()

    def _busy(self, reason: str, message: str, wait: float) -> Refused:
        self._metrics.count("thresher_plans_refused_total", reason=reason)
        return Refused(429, "planner-busy", message, hint="Wait as long as Retry-After says.", retry_after=wait)

    def close(self) -> None:
        """End all processes."""
        with self._changed:
            self._closed = True
            alive, self._alive = self._alive, set()
        for worker in alive:
            worker.end()

    def _start(self) -> _Worker:
        try:
            worker = _Worker()
        except OSError as error:
            log.warning("no process can be started that computes plans: %s", error.strerror)
            raise Refused(503, "planner-unavailable", "Plans cannot be computed now.", retry_after=5) from None
        with self._changed:
            if not self._closed:
                self._alive.add(worker)
                return worker
        worker.end()
        raise Refused(503, "planner-unavailable", "This server is about to stop.", retry_after=5)

    def _end(self, worker: _Worker) -> None:
        with self._changed:
            self._alive.discard(worker)
        with contextlib.suppress(OSError):
            worker.end()

    def _too_expensive(self) -> InvalidSetting:
        return InvalidSetting(
            "plan",
            f"takes longer to compute than the {self._seconds:g} s of a processor that this server allows",
            hint="Nothing was charged. A smaller threshold, fewer rounds or a larger epsilon cost less.",
        )
