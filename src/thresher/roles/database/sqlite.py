"""A role's tables in one SQLite file: durable at every commit, readable by its owner only, overwritten on deletion."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from thresher.errors import StoreUnavailable
from thresher.files import create_empty
from thresher.roles.database.database import Kind, Mark, Row, Transaction, Value, unavailable
from thresher.roles.database.idle_connections import IdleConnections

_WAIT = 30.0
_PAUSE = 0.01
_CACHE_KIB = {True: 65_536, False: 4_096}  # what one writer or one reader may keep of the file in memory
_MOST_PARAMETERS = 20_000  # SQLite's own limit is 32,766
# Full: a commit is on the disk when it returns. secure_delete: what is deleted is overwritten with zeros.
_PRAGMAS = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA secure_delete = ON;
PRAGMA foreign_keys = ON;
PRAGMA temp_store = MEMORY;
PRAGMA wal_autocheckpoint = 4000;
"""


class SQLite:
    """One file. Writers take turns; readers see the last commit and wait for nobody.

    Guarantee: that of `Database`. The file and its companions can be read and written by their owner only.
    Edge cases: a fork does not inherit connections. SQLite's locks need a local file system.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writing = threading.Lock()
        # By whether they write: writers take turns, so there is never more than one of those.
        self._idle: dict[bool, IdleConnections[sqlite3.Connection]] = {
            True: IdleConnections(),
            False: IdleConnections(),
        }
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            create_empty(path)
        except OSError as error:
            raise unavailable(f"{path} cannot be created: {error.strerror}") from None

    @contextlib.contextmanager
    def transaction(self, *, write: bool = True) -> Iterator[SQLiteTransaction]:
        """See `Database`."""
        # Immediate: the file's lock is taken before anything is read, so nothing read can be out of date when writing.
        with self._writing if write else contextlib.nullcontext(), self._connection(write) as connection:
            transaction = SQLiteTransaction(connection)
            transaction.run("BEGIN IMMEDIATE" if write else "BEGIN")
            try:
                yield transaction
                transaction.run("COMMIT")
            finally:
                with contextlib.suppress(sqlite3.Error):
                    connection.rollback()

    def scrub(self) -> None:
        """Empty the write-ahead log into the file: until then it holds pages as they were before a deletion.

        Guarantee: what was deleted before is in none of the files, or this fails.
        """
        with self._writing, self._connection(True) as connection:
            [(busy, _, _)] = SQLiteTransaction(connection).fetch("PRAGMA wal_checkpoint(TRUNCATE)")
            if busy:
                raise unavailable("is in use, and what was deleted is not overwritten yet")

    def claim(self) -> None:
        """Do nothing: the file is in a data directory, which one process has locked."""

    def close(self) -> None:
        """Close all connections."""
        for idle in self._idle.values():
            idle.close()

    @contextlib.contextmanager
    def _connection(self, write: bool) -> Iterator[sqlite3.Connection]:
        """A connection for one transaction. After an error of the database it is not used again."""
        idle = self._idle[write]
        connection = idle.take() or self._connect(write)
        try:
            yield connection
        except StoreUnavailable:
            connection.close()
            raise
        except BaseException:
            idle.keep(connection)
            raise
        idle.keep(connection)

    def _connect(self, write: bool) -> sqlite3.Connection:
        try:
            connection = sqlite3.connect(
                _address(self.path),
                uri=True,
                timeout=_WAIT,
                isolation_level=None,
                check_same_thread=False,
            )
        except sqlite3.Error:
            raise unavailable(f"{self.path} cannot be opened") from None
        # SQLite waits by itself for a lock, but not while another connection turns a new file to write-ahead logging.
        give_up = time.monotonic() + _WAIT
        while True:
            try:
                connection.executescript(f"{_PRAGMAS}PRAGMA cache_size = -{_CACHE_KIB[write]};")
            except sqlite3.Error as error:
                if _is_busy(error) and time.monotonic() < give_up:
                    time.sleep(_PAUSE)
                    continue
                connection.close()
                raise _failed(self.path, error) from None
            return connection


def look_at(path: Path) -> Mark:
    """Which store is in a file. Nothing is changed, except that SQLite may move its write-ahead log into the file."""
    try:
        if not path.is_file() or not path.stat().st_size:
            return Mark(used=False, id=None)
        # Not read-only: such a connection would leave the files of the write-ahead log behind.
        with contextlib.closing(sqlite3.connect(_address(path), uri=True, timeout=_WAIT)) as connection:
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            found = connection.execute("SELECT id FROM store_id").fetchone() if "store_id" in tables else None
    except sqlite3.Error as error:
        raise _failed(path, error) from None
    except OSError as error:
        raise unavailable(f"{path} cannot be read: {error.strerror}", lasting=True) from None
    return Mark(used=bool(tables), id=None if found is None else str(found[0]))


class SQLiteTransaction(Transaction):
    """See `Transaction`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._failed = False

    def run(self, sql: str, parameters: Sequence[Value] = ()) -> sqlite3.Cursor:
        """Run a statement. After one that failed, all others fail: a caller cannot commit half of a transaction."""
        if self._failed:
            raise unavailable("had an error earlier in this transaction")
        try:
            return self._connection.execute(sql, parameters)
        except sqlite3.Error as error:
            self._failed = True
            raise unavailable(_reason(error)) from None

    def execute(self, sql: str, parameters: Sequence[Value] = ()) -> int:
        """See `Transaction`."""
        # Not the cursor's rowcount: Python does not count for a statement that begins with WITH.
        before = self._connection.total_changes
        self.run(sql, parameters)
        return self._connection.total_changes - before

    def fetch(self, sql: str, parameters: Sequence[Value] = ()) -> list[Row]:
        """See `Transaction`."""
        cursor = self.run(sql, parameters)
        try:
            return cursor.fetchall()
        except sqlite3.Error as error:
            self._failed = True
            raise unavailable(_reason(error)) from None

    def lock(self, *, shared: bool) -> None:
        """See `Transaction`. A transaction that writes has the file to itself from its start."""

    @staticmethod
    def _given(
        sql: str, columns: Mapping[str, Kind], rows: Sequence[Sequence[Value]]
    ) -> Iterator[tuple[str, list[Value]]]:
        """See `Transaction`. The rows are written out as VALUES."""
        size = _MOST_PARAMETERS // len(columns)
        marks = f"({', '.join('?' * len(columns))})"
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            given = f"WITH given ({', '.join(columns)}) AS (VALUES {', '.join([marks] * len(part))})"
            yield f"{given} {sql}", [value for row in part for value in row]


def _address(path: Path) -> str:
    """Opens a file to read and write, and makes none."""
    return f"{path.absolute().as_uri()}?mode=rw"


def _code(error: sqlite3.Error) -> int:
    """SQLite's primary error code; 0 if there is none."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


def _is_busy(error: sqlite3.Error) -> bool:
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _failed(path: Path, error: sqlite3.Error) -> StoreUnavailable:
    """Why a file cannot be opened, and what to do if waiting does not help."""
    reason = f"{path} {_reason(error)}"
    if _code(error) in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return unavailable(reason, hint="The file is damaged, or no database. Restore it from a backup.", lasting=True)
    if _code(error) in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return unavailable(reason, hint="Check the owner and the rights of the file and its directory.", lasting=True)
    return unavailable(reason)


def _reason(error: sqlite3.Error) -> str:
    if _code(error) == sqlite3.SQLITE_FULL:
        return "has no room left on its disk"
    if _is_busy(error):
        return f"is in use by another process for more than {_WAIT:g} seconds"
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    return f"cannot be read or written ({name})"
