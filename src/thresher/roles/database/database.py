"""What a store needs of its database, and how one is opened: SQLite files or PostgreSQL, with the same SQL.

SQL is written once, in the part that both understand. The PostgreSQL side translates two things: `?` for a parameter,
and `WITHOUT ROWID` after a table. A batch of rows is passed as a relation named `given`, so that a thousand reports
take a few statements and not a few thousand.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from thresher.errors import StoreUnavailable

Role = Literal["collector", "aggregator", "coordinator"]
Kind = Literal["TEXT", "BYTEA", "BIGINT", "BOOLEAN", "DOUBLE PRECISION"]
Value: TypeAlias = str | bytes | int | float | bool | None
Row: TypeAlias = tuple[Any, ...]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}")
_POSTGRESQL = ("postgresql://", "postgres://")


class Transaction(ABC):
    """Statements that happen together or not at all."""

    @abstractmethod
    def execute(self, sql: str, parameters: Sequence[Value] = ()) -> int:
        """Run a statement; the number of rows it changed."""

    @abstractmethod
    def fetch(self, sql: str, parameters: Sequence[Value] = ()) -> list[Row]:
        """Run a statement that returns rows."""

    def execute_given(self, sql: str, columns: Mapping[str, Kind], rows: Sequence[Sequence[Value]]) -> int:
        """Run a statement that reads `rows` from the relation `given`; the number of rows it changed."""
        return sum(self.execute(*part) for part in self._given(sql, columns, rows))

    def fetch_given(self, sql: str, columns: Mapping[str, Kind], rows: Sequence[Sequence[Value]]) -> list[Row]:
        """Run a statement that reads `rows` from the relation `given` and returns rows."""
        return [row for part in self._given(sql, columns, rows) for row in self.fetch(*part)]

    @staticmethod
    @abstractmethod
    def _given(
        sql: str, columns: Mapping[str, Kind], rows: Sequence[Sequence[Value]]
    ) -> Iterator[tuple[str, list[Any]]]:
        """The statement with `rows` as the relation `given`, in as many parts as the database needs; none for none."""

    @abstractmethod
    def lock(self, *, shared: bool) -> None:
        """Wait for the store's one lock, and hold it until the transaction ends.

        Guarantee: no round opens or closes while it is held shared; waiting for it is fair. What is read after this
        call is not older than the lock.
        """


class Database(Protocol):
    """One role's tables.

    Guarantee: when a `transaction()` block has ended without an error, its changes survive a crash of the process, the
    machine or the database. When it ended with an error, none of them is there; only after a connection was lost during
    the commit itself, it may be either. Every error of a driver becomes `StoreUnavailable`, and the next transaction is
    not affected. Threads may share a database.
    """

    def transaction(self, *, write: bool = True) -> AbstractContextManager[Transaction]:
        """Statements that happen together or not at all; with `write=False`, all read the state of one moment."""
        ...

    def scrub(self) -> None:
        """Overwrite what was deleted, as far as the database can."""
        ...

    def claim(self) -> None:
        """Claim these tables for this process, or fail if another process has claimed them."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...


@dataclass(frozen=True, slots=True)
class Mark:
    """What identifies a store."""

    used: bool
    """Whether there are any tables."""
    id: str | None
    """None where there are no tables, and for stores from before ids were kept."""


def look_at(where: str | Path, role: Role) -> Mark:
    """Which store is at a place; nothing is changed there."""
    if str(where).startswith(_POSTGRESQL):
        from thresher.roles.database import postgresql

        return postgresql.look_at(str(where), f"thresher_{role}")
    from thresher.roles.database import sqlite

    return sqlite.look_at(Path(where) / f"{role}.db")


def open_database(where: str | Path, role: Role) -> Database:
    """A role's database, with its tables brought to the newest version.

    `where` is a directory, for the SQLite file `<role>.db` in it, or a `postgresql://` address, for the schema
    `thresher_<role>` there.
    """
    from thresher.roles.database.migrations import migrate
    from thresher.roles.database.schema import MIGRATIONS

    database: Database
    if str(where).startswith(_POSTGRESQL):
        from thresher.roles.database.postgresql import PostgreSQL

        database = PostgreSQL(str(where), f"thresher_{role}")
    else:
        from thresher.roles.database.sqlite import SQLite

        database = SQLite(Path(where) / f"{role}.db")
    try:
        migrate(database, role, MIGRATIONS[role])
    except BaseException:
        database.close()
        raise
    return database


class Store:
    """What the stores of all roles have in common: one database, which they close."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def id(self) -> str:
        """The id of this store and of every copy of it; no other store has it."""
        with self._database.transaction(write=False) as transaction:
            [(id,)] = transaction.fetch("SELECT id FROM store_id")
            return str(id)

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    def _fetch(self, sql: str, *parameters: Value) -> list[Row]:
        with self._database.transaction(write=False) as transaction:
            return transaction.fetch(sql, parameters)

    def _find(self, sql: str, name: str) -> list[Row]:
        return self._fetch(sql, name) if is_name(name) else []


def marks(values: Collection[Value]) -> str:
    """A parameter mark for each value."""
    return ", ".join("?" * len(values))


def is_name(text: str) -> bool:
    """Whether a text can be the name of anything stored. Other texts are not looked up, so no odd text reaches SQL."""
    return _NAME.fullmatch(text) is not None


def unavailable(reason: str, *, hint: str = "Try again in a moment.", lasting: bool = False) -> StoreUnavailable:
    """The error of every store. The reason is in our words, because a driver's message may quote a row."""
    return StoreUnavailable(f"The database {reason}.", hint=f"Nothing was acknowledged. {hint}", lasting=lasting)
