"""How far DuckDB is with a file, said to whoever waits for it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, TypeVar

from thresher.questions.population import Progress

T = TypeVar("T")

_PAUSE = 0.1


def watched(
    connection: Any, action: Callable[[], T], progress: Progress | None, share: Callable[[], float] | None = None
) -> T:
    """Run something on a connection, and meanwhile report how many percent of what it reads are read.

    `share` says how much that is, from 0 to 1, or less than 0 where it is not known; by default DuckDB's estimate.
    `progress` is called in the caller's thread. Whatever it raises, and an interrupt of that thread, stops the query.
    Edge cases: what takes less than a tenth of a second is not reported, nor what nobody can estimate.
    """
    if progress is None:
        return action()
    connection.execute("SET enable_progress_bar = true")
    connection.execute("SET enable_progress_bar_print = false")
    read = share or (lambda: float(connection.query_progress()) / 100)
    with ThreadPoolExecutor(1, thread_name_prefix="thresher-reading") as pool:
        running = pool.submit(action)
        try:
            while wait([running], _PAUSE).not_done:
                percent = int(100 * read())
                if percent >= 0:
                    progress(percent, 100, "reading and counting")
        except BaseException:
            connection.interrupt()
            raise
        return running.result()
