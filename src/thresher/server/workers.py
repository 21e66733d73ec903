"""Work that may take seconds, in processes of its own: so much at a time, for so long, and no further.

Plans are recomputed exactly before a query is taken, and a request can ask for one that takes long. In threads of the
server such requests would keep everybody else waiting.

Guarantee: at most `number` processes run, and at most `waiting` further requests wait for one; others are refused with
429. Of both together one caller has at most `each`, and where there are two processes or more, never all of them: who
sends many requests is refused alone, and others get their turn in the order in which they came.

A process that computes for longer than `seconds` for a request ends, and the request is refused: seconds of the
processor, so that a busy machine refuses nothing that an idle one takes. Whatever the reason, nobody waits longer than
`patience` for a process at work. A process that was killed is replaced. All end with the server, however that ends.
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
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

import thresher
from thresher.errors import InvalidSetting
from thresher.roles.computing import current_caller
from thresher.server.metrics import Metrics
from thresher.server.problem import Refused

log = logging.getLogger("thresher.server")

T = TypeVar("T")

_START_SECONDS = 120.0
_TRIES = 2
_OWN_SECONDS = 1.0
"""When to come again for whoever waits for a plan of their own: most take less."""
# Not -m and not PYTHONPATH: the directory that the server was started in must not give it modules.
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
        """What a function returns or raises. `TimeoutError` if it takes longer, `_Gone` if the process ends."""
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
        """Kill the process; nothing of it is worth keeping."""
        self.process.kill()
        self.process.wait()
        self._connection.close()


class _Turn:
    """A request that waits for a process, or has one."""

    def __init__(self, caller: bytes) -> None:
        self.caller = caller
        self.came = threading.Event()
        self.worker: _Worker | None = None


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
        self._most = number + waiting
        self._each = each
        self._at_once = max(1, number - 1)  # of one caller
        self._idle: list[_Worker | None] = [None] * number
        self._waiting: list[_Turn] = []
        self._held: Counter[bytes] = Counter()
        self._running: Counter[bytes] = Counter()
        self._alive: set[_Worker] = set()
        self._closed = False
        self._lock = threading.Lock()

    @property
    def processes(self) -> list[int]:
        """The processes that run now, by their numbers."""
        with self._lock:
            return [worker.process.pid for worker in self._alive]

    def __call__(self, function: Callable[..., T], *arguments: Any) -> T:
        """What a function of this package returns or raises, computed elsewhere."""
        turn = self._enter(current_caller())
        turn.came.wait()
        worker = turn.worker
        try:
            for _ in range(_TRIES):
                worker = worker or self._start()
                try:
                    result: T = worker.run(function, arguments, self._seconds, self._patience)
                except _Gone:
                    log.warning("a process that computes plans ended and is replaced")
                else:
                    return result
                self._end(worker)
                worker = None
            raise Refused(503, "planner-unavailable", "Plans cannot be computed now.", retry_after=self._seconds)
        except TimeoutError:
            if worker is not None:
                self._end(worker)
                worker = None
            self._metrics.count("thresher_plans_refused_total", reason="seconds")
            raise self._too_expensive() from None
        finally:
            self._leave(turn, worker)

    @property
    def held(self) -> int:
        """Requests that have a process or wait for one."""
        with self._lock:
            return self._held.total()

    def _enter(self, caller: bytes) -> _Turn:
        """A place in the queue, or a refusal."""
        with self._lock:
            if self._held[caller] >= self._each:
                refused = "caller", "Other plans of yours are being computed.", _OWN_SECONDS
            elif self._held.total() >= self._most:
                refused = "busy", "This server is busy with other plans.", self._seconds
            else:
                turn = _Turn(caller)
                self._held[caller] += 1
                self._waiting.append(turn)
                self._call_next()
                return turn
        reason, message, wait = refused
        self._metrics.count("thresher_plans_refused_total", reason=reason)
        raise Refused(429, "planner-busy", message, hint="Wait as long as Retry-After says.", retry_after=wait)

    def _leave(self, turn: _Turn, worker: _Worker | None) -> None:
        with self._lock:
            self._idle.append(worker)
            for counter in (self._held, self._running):
                counter[turn.caller] -= 1
                if not counter[turn.caller]:
                    del counter[turn.caller]
            self._call_next()

    def _call_next(self) -> None:
        """Give idle processes to whoever has waited longest and has not its share of them; the lock is held."""
        for turn in tuple(self._waiting):
            if not self._idle:
                return
            if self._running[turn.caller] < self._at_once:
                self._waiting.remove(turn)
                self._running[turn.caller] += 1
                turn.worker = self._idle.pop()  # the one that was used last, so that others need not be started
                turn.came.set()

    def close(self) -> None:
        """End all processes."""
        with self._lock:
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
        with self._lock:
            if not self._closed:
                self._alive.add(worker)
                return worker
        worker.end()
        raise Refused(503, "planner-unavailable", "This server is about to stop.", retry_after=5)

    def _end(self, worker: _Worker) -> None:
        with self._lock:
            self._alive.discard(worker)
        with contextlib.suppress(OSError):
            worker.end()

    def _too_expensive(self) -> InvalidSetting:
        return InvalidSetting(
            "plan",
            f"takes longer to compute than the {self._seconds:g} s of a processor that this server allows",
            hint="Nothing was charged. A smaller threshold, fewer rounds or a larger epsilon cost less.",
        )
