"""A role's tables in one schema of a PostgreSQL database, which several processes may share."""

from __future__ import annotations

import contextlib
import hashlib
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from thresher.errors import StoreUnavailable, require
from thresher.roles.database.database import Kind, Mark, Row, Transaction, Value, unavailable
from thresher.roles.database.idle_connections import IdleConnections

if TYPE_CHECKING:
    import psycopg

_CONNECT_SECONDS = 10
_SETTINGS = {
    "synchronous_commit": "on",
    "default_transaction_isolation": "read committed",
    "lock_timeout": "30s",
    # A process that hangs in the middle of a transaction must not keep the others from closing a round.
    "idle_in_transaction_session_timeout": "60s",
    "client_min_messages": "error",
    # A batch touches few rows of large tables, by their keys: scanning them all is never right.
    "random_page_cost": "1.1",
    "jit": "off",
}


class PostgreSQL:
    """One schema.

    Guarantee: that of `Database`. A connection that was lost while idle is replaced without an error.
    Edge cases: a fork does not inherit connections.
    """

    def __init__(self, address: str, schema: str, *, create: bool = True) -> None:
        self._psycopg: Any = require("psycopg", "postgres")
        self._address = address
        self.schema = schema
        self._lock_number = _number(f"{schema} rounds")
        self._claim: psycopg.Connection[Row] | None = None
        self._claiming = threading.Lock()
        self._idle: IdleConnections[psycopg.Connection[Row]] = IdleConnections()
        if create:
            self._create_schema()

    @contextlib.contextmanager
    def transaction(self, *, write: bool = True) -> Iterator[PostgreSQLTransaction]:
        """See `Database`."""
        connection = self._begin(write)
        transaction = PostgreSQLTransaction(connection, self._psycopg.Error, self._lock_number)
        try:
            yield transaction
            # The answer to COMMIT in a transaction that has failed is ROLLBACK, without an error.
            if transaction.run("COMMIT").statusmessage != "COMMIT":
                raise unavailable("did not commit")
        except BaseException as error:
            self._end(connection, error)
            raise
        self._idle.keep(connection)

    def scrub(self) -> None:
        """Do nothing: reports are deleted by dropping their tables, whose files PostgreSQL removes at once."""

    def claim(self) -> None:
        """See `Database`. PostgreSQL releases this lock of a session when this process ends, however it ends."""
        with self._claiming:
            if self._claim is not None:
                try:
                    self._claim.execute("SELECT 1")
                    return
                except self._psycopg.Error:  # the database was restarted, and the lock went with the connection
                    self._claim.close()
                    self._claim = None
            self._idle.check_open()
            connection = self._connect()
            transaction = PostgreSQLTransaction(connection, self._psycopg.Error, self._lock_number)
            try:
                [(claimed,)] = transaction.fetch("SELECT pg_try_advisory_lock(?)", (_number(f"{self.schema} owner"),))
                if not claimed:
                    raise unavailable("is in use by another server")
            except BaseException:
                connection.close()
                raise
            self._claim = connection

    def close(self) -> None:
        """Close all connections."""
        self._idle.close()
        if self._claim is not None:
            with contextlib.suppress(self._psycopg.Error):
                # So that another process can claim at once: the database notices a closed connection only later.
                self._claim.execute("SELECT pg_advisory_unlock_all()")
            self._claim.close()

    def _begin(self, write: bool) -> psycopg.Connection[Row]:
        """A connection with an open transaction. If an idle connection was lost, a new one is made."""
        begin = "BEGIN" if write else "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        while True:
            idle = self._idle.take()
            connection = idle or self._connect()
            try:
                connection.execute(begin)
                return connection
            except self._psycopg.Error as error:
                connection.close()
                if idle is None:
                    raise unavailable(_reason(error)) from None
                self._idle.drop()  # a server that ended this connection has probably ended the others too

    def _end(self, connection: psycopg.Connection[Row], error: BaseException) -> None:
        """Undo what an error has interrupted. After an error of the database the connection is not used again."""
        if isinstance(error, StoreUnavailable):
            connection.close()
            return
        try:
            connection.execute("ROLLBACK")
        except self._psycopg.Error:
            connection.close()
        else:
            self._idle.keep(connection)

    def _connect(self) -> psycopg.Connection[Row]:
        # No statement is prepared: a plan made while a round's tables were empty would be used when they are large.
        settings = {"search_path": self.schema, **_SETTINGS}
        try:
            connection: psycopg.Connection[Row] = self._psycopg.connect(
                self._address,
                autocommit=True,
                prepare_threshold=None,
                connect_timeout=_CONNECT_SECONDS,
                application_name="thresher",
                # A network that drops packets silently is noticed within half a minute.
                keepalives_idle=10,
                keepalives_interval=5,
                keepalives_count=3,
                tcp_user_timeout=25_000,
            )
        except self._psycopg.Error as error:
            raise _not_connected(error) from None
        try:
            chosen = ", ".join(["set_config(%s, %s, false)"] * len(settings))
            connection.execute(f"SELECT {chosen}", [text for pair in settings.items() for text in pair])
        except self._psycopg.Error as error:
            connection.close()
            raise unavailable(_reason(error)) from None
        return connection

    def _create_schema(self) -> None:
        with self.transaction() as transaction:
            transaction.lock(shared=False)
            # Looked up first, because an account that may use a schema may not be allowed to make one.
            if not transaction.fetch("SELECT 1 FROM pg_namespace WHERE nspname = ?", (self.schema,)):
                transaction.execute(f'CREATE SCHEMA "{self.schema}"')


def look_at(address: str, schema: str) -> Mark:
    """Which store is in a schema; nothing is changed there."""
    with (
        contextlib.closing(PostgreSQL(address, schema, create=False)) as database,
        database.transaction(write=False) as transaction,
    ):
        rows = transaction.fetch("SELECT tablename FROM pg_tables WHERE schemaname = ?", (schema,))
        tables = {name for (name,) in rows}
        found = transaction.fetch("SELECT id FROM store_id") if "store_id" in tables else []
    return Mark(used=bool(tables), id=str(found[0][0]) if found else None)


class PostgreSQLTransaction(Transaction):
    """See `Transaction`."""

    def __init__(self, connection: psycopg.Connection[Row], errors: type[Exception], lock_number: int) -> None:
        self._connection = connection
        self._errors = errors
        self._lock_number = lock_number

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> psycopg.Cursor[Row]:
        """Run a statement. After one that failed, PostgreSQL refuses all others of the transaction."""
        try:
            return self._connection.execute(_translated(sql), parameters)
        except self._errors as error:
            raise unavailable(_reason(error)) from None

    def execute(self, sql: str, parameters: Sequence[Value] = ()) -> int:
        """See `Transaction`."""
        return self.run(sql, parameters).rowcount

    def fetch(self, sql: str, parameters: Sequence[Value] = ()) -> list[Row]:
        """See `Transaction`."""
        return self.run(sql, parameters).fetchall()

    def lock(self, *, shared: bool) -> None:
        """See `Transaction`.

        An advisory lock is fair. A row lock that others share all the time might never be free for closing a round.
        """
        kind = "pg_advisory_xact_lock_shared" if shared else "pg_advisory_xact_lock"
        self.run(f"SELECT {kind}(?)", (self._lock_number,))

    @staticmethod
    def _given(
        sql: str, columns: Mapping[str, Kind], rows: Sequence[Sequence[Value]]
    ) -> Iterator[tuple[str, list[Any]]]:
        """See `Transaction`. The rows are one array for each column."""
        if rows:
            arrays = ", ".join(f"?::{kind}[]" for kind in columns.values())
            given = f"WITH given ({', '.join(columns)}) AS (SELECT * FROM unnest({arrays}))"  # noqa: S608
            yield f"{given} {sql}", [list(column) for column in zip(*rows, strict=True)]


def _number(name: str) -> int:
    """The 64-bit number of an advisory lock, made from a name: all users of a database share these numbers."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], signed=True)


@lru_cache(maxsize=1000)
def _translated(sql: str) -> Any:
    return sql.replace("?", "%s").replace(" WITHOUT ROWID", "")


# When a connection cannot be made there is no SQLSTATE, only a message of the server or the driver: a pattern of it,
# what it means, and what to do. The first pattern that matches counts.
_REFUSALS: tuple[tuple[str, str, str], ...] = (
    (r"password authentication failed", "refuses this account with this password", "Check account and password."),
    (r"no password supplied", "wants a password", "Set PGPASSWORD, or write a password file or a service file."),
    (r"role .* does not exist", "knows no such account", "Check the account in the address."),
    (r"not permitted to log in", "does not let this account log in", "Give the account the right to log in."),
    (r"database .* does not exist", "does not exist on that server", "Create it, or check its name in the address."),
    (r"permission denied for database", "does not let this account connect", "Grant the account CONNECT."),
    (r"pg_hba\.conf", "does not take connections of this account from here", "Check the server's pg_hba.conf."),
    (r"authentication failed", "does not accept how this account logs in", "Check the server's pg_hba.conf."),
    (r"certificate|root\.crt", "has a certificate that is not trusted here", "Check sslmode and sslrootcert."),
    (r"does not support SSL", "does not speak TLS", "Check sslmode, and whether the server has a certificate."),
    (r"invalid URI|invalid connection option|missing .* in connection|invalid .* value",
     "has an address that cannot be read", "Check the setting store."),
)  # fmt: skip
_AWAY: tuple[tuple[str, str], ...] = (
    (r"resolve host|translate host name", "is on a machine whose name is not known"),
    (r"timeout", "does not answer in time"),
    (r"starting up|shutting down|recovery", "is starting or stopping"),
    (r"too many clients|remaining connection slots", "has no connections left"),
)


def _not_connected(error: Exception) -> StoreUnavailable:
    """Why a connection could not be made. The driver's message is left out: it may quote the address with password."""
    words = str(error)
    for pattern, reason, hint in _REFUSALS:
        if re.search(pattern, words):
            return unavailable(reason, hint=hint, lasting=True)
    for pattern, reason in _AWAY:
        if re.search(pattern, words):
            return unavailable(reason)
    if "FATAL" in words:
        return unavailable("refuses the connection", hint="Its log says why.")
    return unavailable("cannot be reached", hint="Check its address, and that it is running.")


def _reason(error: Exception) -> str:
    """Why a statement failed. The driver's message is left out: it may quote a row, or the address with password."""
    state = getattr(error, "sqlstate", None)
    if state is None:
        return "cannot be reached"
    if state == "42501":
        return f"does not let this account do what a store needs (SQLSTATE {state})"
    if state.startswith("53"):
        return f"has no room or connections left (SQLSTATE {state})"
    return f"cannot be read or written (SQLSTATE {state})"
