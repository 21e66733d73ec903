"""Connections of our own to the embedded DuckDB: how they are made, kept for the next table, watched and closed."""

from __future__ import annotations

import ctypes
import logging
import os
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from thresher.private_directory import PrivateDirectory
from thresher.questions.population import Progress
from thresher.tables.error_guard import heeded

T = TypeVar("T")

_log = logging.getLogger("thresher.tables")

_PAUSE = 0.1
_MOST_IDLE = 2
_LEFT = "SELECT (SELECT count(*) FROM duckdb_tables()) + (SELECT count(*) FROM duckdb_views() WHERE NOT internal)"


class _Database:
    """A DuckDB in memory, with a private directory for what does not fit in memory.

    DuckDB writes into a directory inside of the private one, which it makes when it needs it. It lets everybody read
    what it makes, which the private one does not; and where that is gone, it fails.
    """

    def __init__(self, threads: int | None) -> None:
        import duckdb

        self._directory = PrivateDirectory()
        self._spilled = self._directory.path / "spilled"
        self.reusable = threads is None
        settings: dict[str, Any] = {
            "temp_directory": str(self._spilled),
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

    @property
    def intact(self) -> bool:
        """Whether the private directory is there, and nobody else can read it."""
        return self._directory.intact

    def empty(self) -> bool:
        """Whether nothing of any data is left, in memory or on disk."""
        if not (self._directory.owned and self.intact):
            return False
        left = self._root.execute(_LEFT).fetchone()
        return left == (0,) and not (self._spilled.exists() and any(self._spilled.iterdir()))

    def close(self) -> None:
        """Close it and remove its directory; nothing in a fork, where both belong to the parent."""
        if self._directory.owned:
            self._root.close()
            self._directory.remove()

    def result(self) -> Any:
        """A result that has not been read: while it is there, nothing closes the database."""
        return self._root.cursor().sql("SELECT 1").to_arrow_reader()


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
            if kept.intact:
                return heeded(lambda: _used(kept))
        except Exception as error:  # DuckDB closes a database in which it has met an error of its own
            _log.warning("a kept DuckDB cannot be used again: %s", type(error).__name__)
        _close(kept)
    return heeded(lambda: _used(_Database(threads)))


def _used(database: _Database) -> Any:
    """A new connection to a database."""
    connection = database.session()
    _USED[connection] = database
    return connection


def disconnect(connection: Any) -> None:
    """Close a connection of ours now, even if something still refers to it.

    Its database is kept for the next one if it is empty; otherwise it is closed and its directory removed.

    Guarantee: never fails, so that a count is not lost because its engine could not be closed. The log names the type
    of the error.
    """
    database = _USED.pop(connection, None)
    try:
        connection.close()
        if database is not None and database.reusable and len(_IDLE) < _MOST_IDLE and database.empty():
            _IDLE.append(database)
            return
    except Exception as error:
        _log.warning("a connection to DuckDB could not be closed: %s", type(error).__name__)
    if database is not None:
        _close(database)


def close_idle() -> None:
    """Close the databases that are kept for later."""
    while (database := _taken()) is not None:
        _close(database)


def _close(database: _Database) -> None:
    try:
        database.close()
    except Exception as error:
        _log.warning("a DuckDB could not be closed: %s", type(error).__name__)


def _taken() -> _Database | None:
    """A database that was kept, if there is one."""
    try:
        return _IDLE.pop()
    except IndexError:
        return None


_HELD: list[Any] = []
"""Results of the databases that are in use while this process forks."""


def _hold() -> None:
    close_idle()
    for database in list(_USED.values()):
        with suppress(Exception):
            _HELD.append(database.result())


def _let_go() -> None:
    while _HELD:
        _HELD.pop().close()


def _keep_for_good() -> None:
    """Keep the databases of the parent, even from Python as it ends."""
    while _HELD:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(_HELD.pop()))


# A process that was forked has none of DuckDB's threads, and would crash when it closes a database.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold, after_in_parent=_let_go, after_in_child=_keep_for_good)


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
