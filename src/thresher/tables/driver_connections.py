"""Connections of database drivers that Ibis does not count on: their rows are read here, as text."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any

from thresher.errors import InvalidSetting
from thresher.tables.column_kinds import check_distinct
from thresher.tables.cursor_rows import CursorRows, no_rows, values_of
from thresher.tables.database_errors import NO_SAVEPOINT, number_of, told
from thresher.tables.engine import Engine
from thresher.tables.lent_connections import rolled_back
from thresher.tables.loaded_engine import LoadedEngine
from thresher.tables.sql_text import Selection, check_reads, quoted
from thresher.tables.text_encodings import CHARACTER_SETS, check_mysql, check_postgresql

_MYSQL = ("pymysql", "MySQLdb", "mysql", "mariadb")
"""Libraries that connect to MySQL and MariaDB."""


def dbapi(connection: Any, selection: Selection, stack: ExitStack) -> Engine:
    """A connection of any other driver: its rows are read here, and their values are text."""
    if inspect.iscoroutinefunction(connection.commit):
        raise InvalidSetting("data", "is an asynchronous connection", hint="Give one that is not.")
    library = type(connection).__module__.partition(".")[0]
    if library == "psycopg2":
        return _psycopg2(connection, selection, stack)
    on_mysql = library in _MYSQL
    query = selection.query("mysql", quote="`") if on_mysql else selection.query("", quote=None)
    if on_mysql:
        check_reads(query, "mysql", selection.setting)

    def run() -> Engine:
        if on_mysql:
            _only_read_on_mysql(connection, stack)
            with closing(connection.cursor()) as cursor:
                cursor.execute(CHARACTER_SETS)
                check_mysql(list(values_of(cursor.fetchone())))
        names = _names(connection, query)
        return LoadedEngine(CursorRows(connection.cursor, query, library, names), untyped=names)

    return told(run, selection.setting, library)


def _psycopg2(connection: Any, selection: Selection, stack: ExitStack) -> Engine:
    """A psycopg2 connection: its rows are read here, as PostgreSQL writes them as text."""
    query = selection.query("postgres")
    check_reads(query, "postgres", selection.setting)

    def run() -> Engine:
        for client in (connection.get_parameter_status("client_encoding"), connection.encoding):
            check_postgresql(connection.get_parameter_status("server_encoding"), client)
        _only_read_on_psycopg2(connection, stack)
        names = _names(connection, query)
        # With a name the cursor is on the server, and the driver does not fetch all rows at once. As text, no time that
        # Python's calendar lacks stops it.
        rows = CursorRows(
            lambda: connection.cursor("thresher_rows", withhold=connection.autocommit),
            query,
            "psycopg2",
            names,
            lambda name: f"CAST({quoted(name)} AS TEXT)",
        )
        return LoadedEngine(rows, untyped=names)

    return told(run, selection.setting, "psycopg2")


def _names(connection: Any, query: str) -> list[str]:
    """The names of a query's columns."""
    with closing(connection.cursor()) as cursor:
        cursor.execute(no_rows(query))
        names = [column[0] for column in cursor.description]
    check_distinct(names)
    return names


def _only_read_on_psycopg2(connection: Any, stack: ExitStack) -> None:
    """Only read, and leave an open transaction as it is, also where something fails in it."""
    execute = _executing(connection)
    if connection.get_transaction_status() == 0:
        if connection.autocommit:
            execute("BEGIN")
            stack.callback(execute, "ROLLBACK")
        else:
            stack.callback(connection.rollback)  # the driver begins a transaction with the first statement
    stack.enter_context(rolled_back(execute))
    execute("SET LOCAL transaction_read_only = on")


def _only_read_on_mysql(connection: Any, stack: ExitStack) -> None:
    """Only read, where each statement is committed; in a transaction, undo what a function of the SELECT writes.

    An open transaction cannot be made to read only, and to begin another one would commit it.
    """
    execute = _executing(connection)
    execute("SAVEPOINT thresher_reading")
    try:
        execute("ROLLBACK TO SAVEPOINT thresher_reading")
    except Exception as error:
        if number_of(error) != NO_SAVEPOINT:
            raise
        execute("START TRANSACTION READ ONLY")
        stack.callback(execute, "ROLLBACK")
    else:
        stack.enter_context(rolled_back(execute))


def _executing(connection: Any) -> Callable[[str], None]:
    """What executes statements that give no rows."""

    def execute(statement: str) -> None:
        with closing(connection.cursor()) as cursor:
            cursor.execute(statement)

    return execute
