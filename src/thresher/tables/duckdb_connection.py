"""Connections of our own to the embedded DuckDB: how they are made, kept for the next table, watched and closed."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from thresher.questions.population import Progress

T = TypeVar("T")

_PAUSE = 0.1
_MOST_IDLE = 2
_LEFT = "SELECT (SELECT count(*) FROM duckdb_tables()) + (SELECT count(*) FROM duckdb_views() WHERE NOT internal)"


class _Database:
    """A DuckDB in memory, with a private directory for what does not fit in memory."""

    def __init__(self, threads: int | None) -> None:
        import duckdb

        self._directory = tempfile.mkdtemp(prefix="thresher-")
        self._remove = weakref.finalize(self, shutil.rmtree, self._directory, ignore_errors=True)
        self.reusable = threads is None
        settings: dict[str, Any] = {
            "temp_directory": self._directory,
            "default_collation": "C",
            # Counting does not need the order of rows, and keeping it costs memory.
            "preserve_insertion_order": False,
            # What one table has read must not stay for the next one.
            "enable_external_file_cache": False,
        }
        if threads is not None:
            settings["threads"] = int(threads)
        self._root = duckdb.connect(":memory:", config=settings)

    def session(self) -> Any:
        """A connection with settings of its own."""
        connection = self._root.cursor()
        connection.execute("SET TimeZone = 'UTC'").fetchall()
        # By default DuckDB draws a progress bar on standard output when a query takes long.
        connection.execute("SET enable_progress_bar = false").fetchall()
        return connection

    def empty(self) -> bool:
        """Whether nothing of any data is left, in memory or on disk."""
        left = self._root.execute(_LEFT).fetchone()
        return left == (0,) and not any(Path(self._directory).iterdir())

    def close(self) -> None:
        self._root.close()
        self._remove()


_USED: weakref.WeakKeyDictionary[Any, _Database] = weakref.WeakKeyDictionary()
"""The database of each connection that somebody has."""

_IDLE: list[_Database] = []
"""Databases without tables and without connections, kept because opening one takes longer than a small count."""


def connect(threads: int | None = None) -> Any:
    """A DuckDB in memory, with the wall clock UTC and a private directory for what does not fit in memory.

    No two connections share a database. What is in one is gone after `disconnect`, or else with the connection, or when
    Python ends. With `threads`, its queries run in so many threads.
    """
    while threads is None and (kept := _taken()) is not None:
        try:
            return _used(kept)
        except Exception:  # DuckDB closes a database in which it has met an error of its own
            kept.close()
    return _used(_Database(threads))


def _used(database: _Database) -> Any:
    """A new connection to a database."""
    connection = database.session()
    _USED[connection] = database
    return connection


def disconnect(connection: Any) -> None:
    """Close a connection of ours now, even if something still refers to it.

    Its database is kept for the next one if it is empty; otherwise it is closed and its directory removed.
    """
    connection.close()
    database = _USED.pop(connection, None)
    if database is None:
        return
    if database.reusable and len(_IDLE) < _MOST_IDLE and database.empty():
        _IDLE.append(database)
    else:
        database.close()


def close_idle() -> None:
    """Close the databases that are kept for later."""
    while (database := _taken()) is not None:
        database.close()


def _taken() -> _Database | None:
    """A database that was kept, if there is one."""
    try:
        return _IDLE.pop()
    except IndexError:
        return None


# A process that was forked has none of DuckDB's threads, and would crash when it closes a database.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=close_idle)


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
