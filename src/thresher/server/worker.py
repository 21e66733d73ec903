"""The process that `Workers` starts. It reads requests from a socket, computes, answers, and ends with the server."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from multiprocessing.connection import Connection
from typing import Any

from thresher.errors import ThresherError
from thresher.server.memory import bound_heaps


class Broken(RuntimeError):
    """An error that is not a `ThresherError`; only the name of its type leaves the process."""


def work(file: int) -> None:
    """Answer requests until the server is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is for the server, which then ends this
    threading.Thread(target=_end_with, args=(file,), daemon=True).start()
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # ends the process when a request has used up its time
    bound_heaps()
    _load()
    with contextlib.suppress(EOFError, ConnectionError):  # the server is gone
        _answer(Connection(file))


def _answer(connection: Connection[Any, Any]) -> None:
    connection.send("ready")
    while True:
        function, arguments, seconds = connection.recv()
        signal.setitimer(signal.ITIMER_PROF, seconds)
        outcome = _outcome(function, arguments)
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        connection.send(outcome)


def _load() -> None:
    """Import what requests need, so that the first request does not spend its time on that."""
    from thresher.privacy.guarantee import delta

    delta(sampling_rate=0.25, threshold=10, epsilon=1.0, adjacency="replace", rounds=2)


def _outcome(function: Any, arguments: tuple[Any, ...]) -> tuple[bool, Any]:
    try:
        return True, function(*arguments)
    except ThresherError as error:
        return False, error
    except Exception as error:
        return False, Broken(type(error).__name__)


def _end_with(file: int) -> None:
    """End as soon as the other end is closed, also in the middle of a computation."""
    poll = select.poll()
    poll.register(file, 0)  # only reports that the other end was closed
    while not poll.poll():
        pass
    os._exit(0)
