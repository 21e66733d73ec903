"""Connections to a database that no transaction uses now, kept for the next one."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from thresher.roles.database.database import unavailable

if TYPE_CHECKING:
    import sqlite3

    import psycopg

_MOST = 8  # each has a cache

Connection = TypeVar("Connection", bound="sqlite3.Connection | psycopg.Connection[Any]")


class IdleConnections(Generic[Connection]):
    """A few connections, for threads to share.

    Edge cases: after a fork, the child starts with none. It neither uses nor closes those of its parent.
    """

    def __init__(self) -> None:
        self._idle: list[Connection] = []
        self._inherited: list[Connection] = []  # held on to, since a connection that nobody refers to closes itself
        self._process = os.getpid()
        self._closed = False
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._idle)

    def check_open(self) -> None:
        """`StoreUnavailable` once the store is closed."""
        if self._closed:
            raise unavailable("is closed")

    def take(self) -> Connection | None:
        """A connection, or None if a new one must be made; `StoreUnavailable` once the store is closed."""
        self.check_open()
        with self._lock:
            if self._process != os.getpid():
                self._inherited, self._idle, self._process = self._idle, [], os.getpid()
            return self._idle.pop() if self._idle else None

    def keep(self, connection: Connection) -> None:
        """Keep a connection for the next transaction, or close it where enough are kept."""
        with self._lock:
            if len(self._idle) < _MOST and not self._closed:
                self._idle.append(connection)
                return
        connection.close()

    def drop(self) -> None:
        """Close the connections that are idle now."""
        with self._lock:
            dropped, self._idle = self._idle, []
        for connection in dropped:
            connection.close()

    def close(self) -> None:
        """Close the connections that are idle now, and each of the others when its transaction ends."""
        self._closed = True
        self.drop()
