"""Connections to databases, each opened as an engine in the way of its library, and left as they were.

What is done on a connection happens in a transaction or a savepoint that is rolled back when the engine is closed.
Settings that Ibis makes are undone then. Meanwhile the connection is not for other use.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any

import pyarrow as pa

from thresher.errors import require
from thresher.questions.spelling import as_text
from thresher.tables.column_kinds import DECLARABLE, Kind, check_distinct, kind_of_narwhals
from thresher.tables.cursor_rows import ArrowCursorRows, CursorRows, no_rows, subquery
from thresher.tables.database_errors import ABORTED, CHANGES, DENIED, told, trouble
from thresher.tables.duckdb_engine import RelationEngine
from thresher.tables.engine import Engine
from thresher.tables.loaded_engine import LoadedEngine
from thresher.tables.objects import decoded
from thresher.tables.sql_text import Selection, check_reads, not_one_select, quoted
from thresher.tables.text_encodings import check_postgresql, check_sqlite

_DIALECTS = {"postgresql": "postgres", "sqlite": "sqlite", "duckdb": "duckdb", "snowflake": "snowflake"}
_ON_POSTGRESQL = {
    "transaction_read_only": "on",
    "client_encoding": "'UTF8'",
    "standard_conforming_strings": "on",  # Ibis writes backslashes as they are
    "quote_all_identifiers": "off",  # which names of types would have
}
"""Settings under which PostgreSQL is asked."""
_BACKTICKS = ("mysql", "mariadb", "bigquery", "databricks")


def postgresql(connection: Any, selection: Selection, stack: ExitStack, where: object = "PostgreSQL") -> Engine:
    """A psycopg connection: Ibis counts in a transaction, or a savepoint of the caller's, that may only read."""
    ibis = require("ibis", "ibis")
    import psycopg

    query = selection.query("postgres")
    check_reads(query, "postgres", selection.setting)
    if connection.info.transaction_status == psycopg.pq.TransactionStatus.INERROR:
        raise ABORTED.error("data", where)
    _set(connection, stack, row_factory=psycopg.rows.tuple_row, cursor_factory=psycopg.Cursor)

    def run() -> Engine:
        check_postgresql(connection.info.parameter_status("server_encoding"), "UTF8")
        stack.enter_context(connection.transaction(force_rollback=True))
        for setting, value in _ON_POSTGRESQL.items():
            connection.execute(f"SET LOCAL {setting} = {value}")
        backend = ibis.postgres.from_connection(connection)  # sets the session's time zone, until the rollback
        types = _types_on_postgresql(connection, query)
        schema = {name: _type_for_ibis(backend, each) for name, each in types.items()}
        return _counted_by_ibis(backend, _as_ibis_reads(query, types), schema)

    return told(run, selection.setting, where)


def _types_on_postgresql(connection: Any, query: str) -> dict[str, str]:
    """The columns' types, as PostgreSQL names them, without reading a row or making a view, as Ibis would."""
    with connection.cursor() as cursor:
        cursor.execute(no_rows(query), binary=True)  # in the protocol that takes one statement alone
        names = [column.name for column in cursor.description]
        codes = [column.type_code for column in cursor.description]
        modifiers = [cursor.pgresult.fmod(place) for place in range(len(names))]
        check_distinct(names)
        named = """
            SELECT CASE WHEN type.typtype = 'e' THEN 'enum' ELSE format_type(given.code, given.modifier) END
            FROM unnest(%s::oid[], %s::int[]) WITH ORDINALITY AS given (code, modifier, place)
            JOIN pg_catalog.pg_type AS type ON type.oid = given.code ORDER BY given.place"""
        return dict(zip(names, (name for (name,) in cursor.execute(named, [codes, modifiers])), strict=True))


def _type_for_ibis(backend: Any, name: str) -> Any:
    """The type of this name on PostgreSQL; one that is not known where Ibis takes it for something else."""
    import ibis.expr.datatypes as dt

    with suppress(Exception):
        dtype = backend.compiler.type_mapper.from_string(name)
        if name != "money" and not dtype.is_geospatial():
            return dtype
    return dt.unknown


def _as_ibis_reads(query: str, types: dict[str, str]) -> str:
    """The query as Ibis reads it: a SELECT, with enumerations as text, for which PostgreSQL's functions take none."""
    if "enum" not in types.values() and not query.upper().startswith("VALUES"):
        return query
    columns = [
        f"CAST({quoted(name)} AS TEXT) AS {quoted(name)}" if kind == "enum" else quoted(name)
        for name, kind in types.items()
    ]
    return subquery(query, ", ".join(columns))


def sqlite(connection: Any, selection: Selection, stack: ExitStack, where: object = "SQLite") -> Engine:
    """A sqlite3 connection: Ibis counts there if all columns have a declared type, else rows are read here.

    Ibis would take the type of a column that has none from the first row.
    """
    ibis = require("ibis", "ibis")
    query = selection.query("sqlite")
    check_reads(query, "sqlite", selection.setting)
    _set(connection, stack, text_factory=str)

    def run() -> Engine:
        types = _types_on_sqlite(lambda: sqlite3.Cursor(connection), query)
        if None in types.values():
            return _read_from_sqlite(lambda: sqlite3.Cursor(connection), query, where, types)
        return _counted_by_ibis(ibis.sqlite.from_connection(_Lent(connection, stack)), query, types)

    return told(run, selection.setting, where)


class _Lent:
    """A caller's SQLite connection as Ibis gets it: without commits and rollbacks, and with rows as tuples.

    Ibis cannot change what LIKE means in the caller's SELECT; Thresher's own questions have none. At the end, functions
    that Ibis made are removed.
    """

    def __init__(self, connection: Any, stack: ExitStack) -> None:
        self._connection = connection
        before = self._functions()

        def restore() -> None:
            for name, arguments in self._functions() - before:
                connection.create_window_function(name, arguments, None)  # removes a function of any sort

        stack.callback(restore)

    def _functions(self) -> set[tuple[str, int]]:
        return set(self.execute("SELECT name, narg FROM pragma_function_list"))

    def cursor(self) -> sqlite3.Cursor:
        return sqlite3.Cursor(self._connection)

    def execute(self, query: str, *values: Any) -> sqlite3.Cursor:
        return self.cursor() if "case_sensitive_like" in query else self.cursor().execute(query, *values)

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    def close(self) -> None: ...

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def _types_on_sqlite(cursor: Callable[[], Any], query: str) -> dict[str, Any]:
    """The columns' types for Ibis, by what tables declare; None where nothing is declared, as of expressions.

    SQLite tells declared types of a view alone; this one is in the temporary schema, and rolled back.
    """
    from ibis.backends.sql.datatypes import SQLiteType

    def rows(statement: str) -> list[Any]:
        with closing(cursor()) as each:
            each.execute(statement)
            return list(each.fetchall()) if each.description else []

    ((encoding,),) = rows("PRAGMA encoding")
    check_sqlite(encoding)
    try:
        with rolled_back(rows):
            rows(f"CREATE TEMP VIEW thresher_types AS {query}")
            found = {row[1]: row[2] for row in rows("PRAGMA temp.table_info(thresher_types)")}
    except Exception as error:
        if trouble(error) not in (CHANGES, DENIED):
            raise
        # The connection takes no view, not even a temporary one (PRAGMA query_only).
        with closing(cursor()) as each:
            each.execute(no_rows(query))
            found = {column[0]: "" for column in each.description}
    types = {name: SQLiteType.from_string(declared) for name, declared in found.items()}
    return {name: None if each.is_unknown() else each for name, each in types.items()}


@contextmanager
def rolled_back(execute: Callable[[str], object]) -> Iterator[None]:
    """What is done in the block is undone at its end, also where it failed."""
    execute("SAVEPOINT thresher_reading")
    try:
        yield
    finally:
        execute("ROLLBACK TO SAVEPOINT thresher_reading")
        execute("RELEASE SAVEPOINT thresher_reading")


def _read_from_sqlite(cursor: Callable[[], Any], query: str, where: object, types: dict[str, Any]) -> Engine:
    """Rows of SQLite that are read here: each column as it is declared, or as text."""
    declared = {name: kind for name, each in types.items() if (kind := _kind_in_text(each)) is not None}

    def select(name: str) -> str:
        column = quoted(name)
        if declared.get(name) == "booleans":
            column = f"(CASE {column} WHEN 0 THEN 'false' WHEN 1 THEN 'true' END)"
        # As bytes, and never null: no value can stop a driver, nor change the type that it gives a column.
        return (
            f"CAST(CASE typeof({column}) WHEN 'real' THEN 'r' || printf('%!.17g', {column}) "
            f"WHEN 'text' THEN 't' || hex({column}) WHEN 'integer' THEN 't' || hex({column}) ELSE '' END AS BLOB)"
        )

    rows = CursorRows(cursor, query, where, list(types), select, _spelled_by_sqlite)
    return LoadedEngine(rows, untyped=[name for name in types if name not in declared], declared=declared)


def _kind_in_text(dtype: Any) -> Kind | None:
    """As what the text of a column is read; None where nothing is declared that text can be read as."""
    if dtype is None:
        return None
    import ibis
    import narwhals as nw

    frame = nw.from_native(ibis.table({"column": dtype}, name="rows"))
    kind = kind_of_narwhals(frame.collect_schema()["column"])
    return "floats" if kind == "decimals" else kind if kind in DECLARABLE else None


def _spelled_by_sqlite(cell: bytes) -> str | None:
    """A cell of `_read_from_sqlite` as text; None for nulls, blobs and text that is not UTF-8."""
    form, rest = cell[:1], cell[1:]
    if form == b"t":
        return decoded(bytes.fromhex(rest.decode()))
    return as_text(float(rest)) if form == b"r" else None


def duckdb(connection: Any, selection: Selection, stack: ExitStack, where: object = "DuckDB") -> Engine:
    """A DuckDB connection, which counts itself."""
    import duckdb

    query = selection.query("duckdb") if selection.sql is None else selection.sql

    def run() -> Engine:
        # Another connection reads the text: one that cannot be read would end the caller's transaction.
        with closing(duckdb.connect()) as reading:
            statements = reading.extract_statements(query)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise not_one_select("holds several statements" if len(statements) > 1 else "is no SELECT")
        # The only semicolons are at the end. DuckDB takes nothing that changes data as a subquery.
        ends = [place for place, _ in duckdb.tokenize(query) if query.encode()[place : place + 1] == b";"]
        return RelationEngine(connection.sql(subquery(query.encode()[: min(ends, default=None)].decode())))

    return told(run, selection.setting, where)


def adbc(connection: Any, selection: Selection, stack: ExitStack) -> Engine:
    """An ADBC connection: its driver fetches Arrow batches, with the database's types.

    A session of its own reads: an error would end the caller's transaction, and drivers have no savepoints. It does not
    see what the caller has not committed. SQLite's driver would decide types by rows: it is read as sqlite3 is.
    """
    vendor = str(connection.adbc_get_info().get("vendor_name") or "ADBC")
    dialect, quote = _DIALECTS.get(vendor.lower(), ""), "`" if vendor.lower() in _BACKTICKS else '"'
    query = selection.query(dialect, quote)

    def run() -> Engine:
        if vendor.lower() == "sqlite":
            return _read_from_sqlite(connection.cursor, query, vendor, _types_on_sqlite(connection.cursor, query))
        clone = stack.enter_context(closing(connection.adbc_clone()))
        if dialect == "postgres":
            with closing(clone.cursor()) as cursor:
                cursor.execute("SET client_encoding = 'UTF8'")
                cursor.execute("SET default_transaction_read_only = on")
                cursor.execute("SET transaction_read_only = on")
                cursor.execute("SELECT current_setting('server_encoding'), current_setting('client_encoding')")
                check_postgresql(*cursor.fetchone())
        rows = ArrowCursorRows(clone, query, vendor, quote)
        return LoadedEngine(rows, untyped=[field.name for field in rows.schema if _is_opaque(field.type)])

    return told(run, selection.setting, vendor)


def _is_opaque(dtype: pa.DataType) -> bool:
    """Whether a driver writes a type that Arrow lacks as text."""
    extension = isinstance(dtype, pa.BaseExtensionType)
    return extension and dtype.extension_name == "arrow.opaque" and bool(pa.types.is_string(dtype.storage_type))


def ibis_backend(backend: Any, selection: Selection, stack: ExitStack, where: object = None) -> Engine:
    """An Ibis backend of any other database."""
    from thresher.tables.ibis_engine import IbisEngine

    def run() -> Engine:
        if selection.sql is None:
            *database, name = selection.parts
            return IbisEngine.open(backend.table(name, database=tuple(database) or None))
        query = selection.query(backend.dialect)
        check_reads(query, backend.dialect, "sql")
        return IbisEngine.open(backend.sql(query))

    return told(run, selection.setting, where or backend.name)


def _counted_by_ibis(backend: Any, query: str, schema: dict[str, Any]) -> Engine:
    from thresher.tables.ibis_engine import IbisEngine

    return IbisEngine.open(backend.sql(query, schema=schema))


def _set(connection: Any, stack: ExitStack, **attributes: Any) -> None:
    """Set attributes of a connection until the stack is closed."""
    for name, value in attributes.items():
        stack.callback(setattr, connection, name, getattr(connection, name))
        setattr(connection, name, value)
