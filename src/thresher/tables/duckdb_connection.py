"""Connections of our own to the embedded DuckDB: how they are made, watched and closed."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, TypeVar

from thresher.questions.population import Progress

T = TypeVar("T")

_PAUSE = 0.1

_DIRECTORIES: weakref.WeakKeyDictionary[Any, Callable[[], object]] = weakref.WeakKeyDictionary()
"""For each connection of ours, a function that removes its directory."""


def connect(threads: int | None = None) -> Any:
    """A DuckDB in memory, with the wall clock UTC and a private directory for what does not fit in memory.

    The directory is removed by `disconnect`, or else with the connection, or when Python ends.
    """
    import duckdb

    directory = tempfile.mkdtemp(prefix="thresher-")
    connection = duckdb.connect(":memory:", config={"temp_directory": directory})
    _DIRECTORIES[connection] = weakref.finalize(connection, shutil.rmtree, directory, ignore_errors=True)
    connection.execute("SET TimeZone = 'UTC'")
    # By default DuckDB draws a progress bar on standard output when a query takes long.
    connection.execute("SET enable_progress_bar = false")
    connection.execute("SET default_collation = 'C'")
    # Counting does not need the order of rows, and keeping it costs memory.
    connection.execute("SET preserve_insertion_order = false")
    if threads is not None:
        connection.execute(f"SET threads = {int(threads)}")
    return connection


def disconnect(connection: Any) -> None:
    """Close a connection of ours and remove its directory now, even if something still refers to the connection."""
    connection.close()
    remove = _DIRECTORIES.pop(connection, None)
    if remove is not None:
        remove()


@contextmanager
def connected(threads: int | None = None) -> Iterator[Any]:
    """A connection that is closed at the end of the block."""
    connection = connect(threads)
    try:
        yield connection
    finally:
        disconnect(connection)


def watched(
    connection: Any, action: Callable[[], T], progress: Progress | None, share: Callable[[], float] | None = None
) -> T:
    """Run something on a connection, and meanwhile report what percentage of the input is read.

    `share` gives the part that is read, from 0 to 1, or less than 0 where it is not known; by default it is DuckDB's
    estimate. `progress` is called in the caller's thread. Whatever it raises, and an interrupt of that thread, stops
    the query.
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
