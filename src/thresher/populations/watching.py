"""How far DuckDB is with a file, said to whoever waits for it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, TypeVar

from thresher.analytics.rounds import Progress

T = TypeVar("T")

_PAUSE = 0.1


def watched(connection: Any, action: Callable[[], T], progress: Progress | None) -> T:
    """Run something on a connection, and meanwhile report how many percent of what it reads are read.

    `progress` is called in the caller's thread. Whatever it raises, and an interrupt of that thread, stops the query.
    Edge cases: what takes less than a tenth of a second is not reported, nor what DuckDB cannot estimate.
    """
    if progress is None:
        return action()
    connection.execute("SET enable_progress_bar = true")
    connection.execute("SET enable_progress_bar_print = false")
    with ThreadPoolExecutor(1, thread_name_prefix="thresher-reading") as pool:
        running = pool.submit(action)
        try:
            while wait([running], _PAUSE).not_done:
                percent = connection.query_progress()
                if percent >= 0:
                    progress(int(percent), 100, "reading and counting")
        except BaseException:
            connection.interrupt()
            raise
        return running.result()
