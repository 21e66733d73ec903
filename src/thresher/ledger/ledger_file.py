"""The SQLite file of a ledger: how it is created, brought to this version, opened and locked."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path

from thresher.errors import InvalidFormat, InvalidSetting, LedgerUnavailable, ThresherError
from thresher.files import made_beside
from thresher.ledger.schema import APPLICATION, SCHEMA, VERSION, migrate


class LedgerFile:
    """One SQLite file. A process that finds it locked waits up to `wait` seconds."""

    def __init__(self, path: Path, wait: float) -> None:
        self.path = path
        self._wait = wait

    def create(self, budget: Mapping[str, str | None]) -> None:
        """Write a whole new ledger with this row of the table `budget`; if two processes create it, the first wins."""
        try:
            with (
                made_beside(self.path) as temporary,
                contextlib.closing(sqlite3.connect(temporary, isolation_level=None)) as connection,
            ):
                # One transaction: each statement by itself would wait for the disk several times.
                connection.executescript(f"PRAGMA synchronous = EXTRA; BEGIN; {SCHEMA}")
                marks = ", ".join("?" * len(budget))
                connection.execute(
                    f"INSERT INTO budget (only, {', '.join(budget)}) VALUES (1, {marks})",  # noqa: S608
                    tuple(budget.values()),
                )
                connection.execute("INSERT INTO promises (time, epsilon) SELECT created, epsilon FROM budget")
                connection.execute("COMMIT")
        except OSError as error:
            raise self.unavailable(f"cannot be created: {error.strerror}") from None
        except sqlite3.Error:
            raise self.unavailable("cannot be created") from None

    def upgrade(self) -> None:
        """Require that the file is a ledger, and bring one of an older version to this version."""
        with self.connection() as connection:
            if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
                raise self.not_a_ledger()
            if 0 < _version(connection) < VERSION:
                # Immediate: if several processes open an old ledger at once, one migrates it and the others see that.
                connection.execute("BEGIN IMMEDIATE")
                if (version := _version(connection)) < VERSION:
                    migrate(connection, version)
                connection.execute("COMMIT")
            version = _version(connection)
        if version != VERSION:
            raise InvalidFormat(
                f"{self.path} is a ledger of version {version}; this Thresher reads versions 1 to {VERSION}.",
                hint="Upgrade Thresher.",
            )

    @contextlib.contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """A connection for one operation: none is shared between threads or carried over a fork.

        Whatever goes wrong before COMMIT is rolled back by closing.
        """
        try:
            connection = sqlite3.connect(
                f"{self.path.absolute().as_uri()}?mode=rw", uri=True, timeout=self._wait, isolation_level=None
            )
        except sqlite3.Error:
            raise self.unavailable("cannot be opened") from None
        with contextlib.closing(connection):
            try:
                connection.execute("PRAGMA synchronous = EXTRA")
                yield connection
            except sqlite3.OperationalError as error:
                busy = getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
                reason = f"is in use by another process for more than {self._wait:g} seconds"
                raise self.unavailable(reason if busy else "cannot be read or written") from None
            except InvalidFormat:
                raise self.not_a_ledger() from None
            except (UnicodeEncodeError, sqlite3.InterfaceError, sqlite3.ProgrammingError):
                raise InvalidSetting(
                    "ledger", "cannot keep what it was given", hint="Nothing was charged or drawn. Give plain text."
                ) from None
            except ThresherError:
                raise
            except (sqlite3.Error, TypeError, ValueError, ArithmeticError):
                raise self.not_a_ledger() from None

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """A connection that reads: all its statements see the same state of the file."""
        with self.connection() as connection:
            connection.execute("BEGIN")
            self._check_version(connection)
            yield connection

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A connection that holds the write lock from its first statement on, and commits at the end of the block.

        Because of the lock nobody can charge between the moment when a sum is read and the moment when a charge is
        written.
        """
        with self.connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            self._check_version(connection)
            yield connection
            connection.execute("COMMIT")

    def _check_version(self, connection: sqlite3.Connection) -> None:
        """Require that the file still has the version that it had when it was opened: it may have been replaced."""
        version = _version(connection)
        if 0 < version != VERSION:
            raise LedgerUnavailable(
                f"The ledger {self.path} was replaced by one of version {version}.",
                hint="Nothing was charged or drawn. Open it again.",
            )

    def unavailable(self, reason: str) -> LedgerUnavailable:
        """The error for a file that cannot be used now."""
        return LedgerUnavailable(
            f"The ledger {self.path} {reason}.",
            hint="Nothing was charged or drawn. Check the path and its permissions.",
        )

    def not_a_ledger(self) -> InvalidFormat:
        """The error for a file that holds something else, or damaged content."""
        return InvalidFormat(
            f"{self.path} is not a Thresher ledger, or is damaged.",
            hint="Nothing was charged or drawn. Restore it from a backup; a new ledger would forget what was spent.",
        )


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])
