"""Work on Spark ends where no worker takes it: Spark itself would wait for one for ever, and say nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from thresher.errors import ServerUnavailable

IDLE = 60.0
"""Seconds without a running task after which work is given up."""

_LOOKS = 0.5


class NoWorker(ServerUnavailable):
    """No worker was free for a while. The session goes on asking its cluster for some."""


@contextmanager
def watched(session: Any, seconds: float = IDLE) -> Iterator[None]:
    """Cancel all jobs of a session, which must be the caller's own, once none of their tasks has run for `seconds`.

    Raises: `NoWorker` in place of the `ServerUnavailable` that follows.
    Edge cases: time in which the driver works, and no job waits, does not count.
    """
    ended, idle = threading.Event(), threading.Event()
    watcher = threading.Thread(
        target=_watch, args=(session.sparkContext, seconds, ended, idle), name="spark-workers", daemon=True
    )
    watcher.start()
    try:
        yield
    except ServerUnavailable:
        if not idle.is_set():
            raise
    else:
        return
    finally:
        ended.set()
        watcher.join()
    raise NoWorker(
        f"No worker of Spark was free for {seconds:.0f} s; nothing was released.",
        hint="Check that workers run, that they have the cores and the memory that spark-defaults.conf asks for, and "
        "that no other application holds them all.",
    )


def _watch(context: Any, seconds: float, ended: threading.Event, idle: threading.Event) -> None:
    last = time.monotonic()
    # A Spark that is gone cannot be asked; the work on it ends by itself.
    with suppress(Exception):
        tracker = context.statusTracker()
        while not ended.wait(_LOOKS):
            if not _waits(tracker):
                last = time.monotonic()
            elif time.monotonic() - last >= seconds:
                idle.set()
                context.cancelAllJobs()
                return


def _waits(tracker: Any) -> bool:
    """Whether there are tasks to run, and none runs."""
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return bool(stages) and not any(stage and stage.numActiveTasks for stage in stages)
