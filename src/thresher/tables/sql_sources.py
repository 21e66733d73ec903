"""Databases as data: an address, an engine or a connection, with `sql` or `table`.

    data                                        where rows are counted
    postgresql://, psycopg connections          in PostgreSQL, through Ibis
    sqlite://, sqlite3 connections              in SQLite, through Ibis; here, if a column has no declared type
    duckdb://, DuckDB connections               in that DuckDB
    other addresses and Ibis backends           in the database, through Ibis
    SQLAlchemy engines and connections          as the driver's connection below them
    ADBC and other DBAPI connections            here: the driver fetches the columns that are asked about

What Thresher opens, it opens for reading where it can, and closes. A caller's connection is left as it was.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from thresher.errors import InvalidSetting, MissingExtra, require
from thresher.tables import lent_connections as lent
from thresher.tables.database_errors import told
from thresher.tables.database_url import DatabaseUrl, database_url
from thresher.tables.driver_connections import dbapi
from thresher.tables.engine import Engine
from thresher.tables.sql_text import Selection

_SECONDS = 30
"""How long to wait for a server that does not answer."""

_FILES = frozenset(
    "http https ftp ftps sftp file s3 s3a s3n gs gcs r2 az abfs abfss adl wasb wasbs hdfs webhdfs dbfs hf".split()
)
"""Schemes of addresses of files."""

Opener = Callable[..., Engine]


def is_database(data: Any) -> bool:
    """Whether `data` is a database's address, or something that is connected to one."""
    return database_url(data) is not None if isinstance(data, str) else _connected(data) is not None


def open_database(data: Any, selection: Selection | None) -> Engine:
    """The engine for rows of a database. What was opened for it is let go after it.

    Raises: `InvalidSetting` in our own words, without the address's user, password and parameters.
    """
    url = database_url(data) if isinstance(data, str) else None
    if url is not None and url.scheme in _FILES:
        raise InvalidSetting(
            "data",
            f"is an address of the scheme {url.scheme}, and Thresher does not fetch files",
            hint="Download it first, or read it into a data frame.",
        )
    if selection is None:
        raise InvalidSetting(
            "data",
            "is a database, and what to count there is missing",
            hint="Give `table='visits'` or `sql='select …'`.",
        )
    stack = ExitStack()
    try:
        if url is not None:
            engine = _ADDRESSES.get(url.scheme, _ibis)(url, selection, stack)
        else:
            engine = _open_connection(data, selection, stack)
    except BaseException:
        with suppress(Exception):  # on a connection that is lost nothing can be undone
            stack.close()
        raise
    engine.held = stack
    return engine


def _connected(data: Any) -> Opener | None:
    """What opens a connection, by the library that its class comes from; None for anything else. Imports nothing."""
    classes = {f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(data).__mro__}
    found = next((opener for name, opener in _CONNECTIONS.items() if name in classes), None)
    methods = (getattr(data, name, None) for name in ("cursor", "commit", "rollback", "close"))
    return found or (dbapi if all(map(callable, methods)) else None)


def _open_connection(connection: Any, selection: Selection, stack: ExitStack) -> Engine:
    opener = _connected(connection)
    assert opener is not None
    return opener(connection, selection, stack)


# Addresses


def _postgresql(url: DatabaseUrl, selection: Selection, stack: ExitStack) -> Engine:
    psycopg = require("psycopg", "postgres")
    connection = told(lambda: psycopg.connect(url.without_driver, connect_timeout=_SECONDS), "data", url)
    stack.callback(connection.close)
    connection.read_only = True
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ  # all rounds see one state of the data
    return lent.postgresql(connection, selection, stack, url)


def _sqlite(url: DatabaseUrl, selection: Selection, stack: ExitStack) -> Engine:
    address = f"{_file(url).absolute().as_uri()}?mode=ro"
    connection = told(lambda: sqlite3.connect(address, uri=True), "data", url)
    stack.callback(connection.close)
    return lent.sqlite(connection, selection, stack, url)


def _duckdb(url: DatabaseUrl, selection: Selection, stack: ExitStack) -> Engine:
    import duckdb

    path = str(_file(url))
    connection = told(lambda: duckdb.connect(path, read_only=True), "data", url)
    stack.callback(connection.close)
    return lent.duckdb(connection, selection, stack, url)


def _file(url: DatabaseUrl) -> Path:
    """The file of an address: sqlite:///relative/path, sqlite:////absolute/path."""
    path = Path(url.place.removeprefix("/"))
    if not path.is_file():
        raise InvalidSetting(
            "data",
            f"is a database in a file that does not exist: {str(path)!r}",
            hint=f"Three slashes begin a relative path, four an absolute one: {url.scheme}:////home/me/visits.db.",
        )
    return path


def _ibis(url: DatabaseUrl, selection: Selection, stack: ExitStack) -> Engine:
    ibis = require("ibis", "ibis")
    if url.scheme not in {entry.name for entry in ibis.util.backend_entry_points()}:
        raise InvalidSetting(
            "data",
            f"has a scheme that is not known: {url.scheme}",
            hint="Files have none. Databases have postgresql, sqlite, duckdb, mysql, or another that Ibis connects to.",
        )

    def connect() -> Any:
        try:
            backend = ibis.connect(url.without_driver)
        except ImportError:
            raise MissingExtra(
                f"The driver for {url.scheme} is not installed.",
                hint=f"Install it with: pip install 'ibis-framework[{url.scheme}]'",
            ) from None
        stack.callback(backend.disconnect)
        if backend.name == "mysql":
            backend.raw_sql("SET SESSION TRANSACTION READ ONLY").close()
        return backend

    backend = told(connect, "data", url)
    return lent.ibis_backend(backend, selection, stack, url)


_ADDRESSES: dict[str, Opener] = {"postgresql": _postgresql, "sqlite": _sqlite, "duckdb": _duckdb}


# Connections


def _sqlalchemy_engine(engine: Any, selection: Selection, stack: ExitStack) -> Engine:
    """A connection of the engine's pool, which goes back to it."""
    connection = told(engine.raw_connection, "data", engine.dialect.name)
    stack.callback(connection.close)
    return _open_connection(connection.driver_connection, selection, stack)


def _sqlalchemy_connection(connection: Any, selection: Selection, stack: ExitStack) -> Engine:
    raw = told(lambda: connection.connection.driver_connection, "data", connection.dialect.name)
    return _open_connection(raw, selection, stack)


def _ibis_backend(backend: Any, selection: Selection, stack: ExitStack) -> Engine:
    """An Ibis backend; where Thresher knows the connection below it, that connection."""
    if backend.name in ("postgres", "sqlite", "duckdb"):
        return _open_connection(backend.con, selection, stack)
    return lent.ibis_backend(backend, selection, stack)


_CONNECTIONS: dict[str, Opener] = {
    "psycopg.Connection": lent.postgresql,
    "sqlite3.Connection": lent.sqlite,
    "_duckdb.DuckDBPyConnection": lent.duckdb,
    "duckdb.DuckDBPyConnection": lent.duckdb,
    "adbc_driver_manager.Connection": lent.adbc,
    "sqlalchemy.Engine": _sqlalchemy_engine,
    "sqlalchemy.Connection": _sqlalchemy_connection,
    "ibis.BaseBackend": _ibis_backend,
}
"""Classes, each with the library that it comes from, and what opens their objects."""
