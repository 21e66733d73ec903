"""One table as databases behind Ibis hold it, with settings under which they would count other things.

Text has types and collations that take several spellings for one, sessions have another time zone, and columns are
called as the table calls them, in quotes.
"""

from __future__ import annotations

import datetime as dt
import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from table_cases import Maker

DATABASES = ["postgresql", "sqlite", "mariadb", "clickhouse", "datafusion", "ibis-polars"]
"""Databases that run for real; `database_maker` makes their tables."""

_NUMBERS = itertools.count()


def database_maker(name: str, request: pytest.FixtureRequest) -> Maker:
    """What turns an Arrow table into a table of this database."""
    if name == "postgresql":
        return on_postgresql(request.getfixturevalue("postgresql_connection"), "text COLLATE blind")
    if name == "mariadb":
        return on_mariadb(request.getfixturevalue("mariadb_connection"), "TEXT CHARACTER SET utf8mb4")
    if name == "clickhouse":
        return on_clickhouse(request.getfixturevalue("clickhouse_client"), "LowCardinality(Nullable(String))")
    return {"sqlite": on_sqlite(), "datafusion": on_datafusion, "ibis-polars": _on_polars}[name]


def on_postgresql(connection: Any, text: str) -> Maker:
    """Tables of PostgreSQL whose texts are of this type. It stores no NUL, which values do not have."""
    types = {
        pa.string(): text,
        pa.int64(): "bigint",
        pa.float64(): "float8",
        pa.bool_(): "boolean",
        pa.date32(): "date",
        pa.timestamp("us"): "timestamp",
    }

    def make(table: pa.Table) -> Any:
        import ibis

        name = f"people {next(_NUMBERS)}"
        connection.execute(f"CREATE TABLE {_quoted(name)} ({_columns(table, types, 'timestamptz', _quoted)})")
        with connection.cursor() as cursor, cursor.copy(f"COPY {_quoted(name)} FROM STDIN") as copy:
            for row in _rows(table):
                copy.write_row([value.replace("\x00", "") if isinstance(value, str) else value for value in row])
        return ibis.postgres.from_connection(connection).table(name)

    return make


def on_mariadb(connection: Any, text: str) -> Maker:
    """Tables of MariaDB whose texts are of this type."""
    types = {
        pa.string(): text,
        pa.int64(): "BIGINT",
        pa.float64(): "DOUBLE",
        pa.bool_(): "BOOLEAN",
        pa.date32(): "DATE",
        pa.timestamp("us"): "DATETIME(6)",
    }

    def make(table: pa.Table) -> Any:
        import ibis

        name = f"people {next(_NUMBERS)}"
        with connection.cursor() as cursor:
            columns = _columns(table, types, "TIMESTAMP(6) NULL", _in_backticks)
            cursor.execute(f"CREATE TABLE {_in_backticks(name)} ({columns})")
            places = ", ".join(["%s"] * table.num_columns)
            cursor.execute("SET time_zone = '+00:00'")  # for what is written
            rows = [[_for_mariadb(value) for value in row] for row in _rows(table)]
            if rows:
                cursor.executemany(f"INSERT INTO {_in_backticks(name)} VALUES ({places})", rows)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the server has no list of time zones
            backend = ibis.mysql.from_connection(connection)
        with connection.cursor() as cursor:
            cursor.execute("SET time_zone = '+09:00'")
        people = backend.table(name)
        flags = [field.name for field in table.schema if field.type == pa.bool_()]  # small numbers there
        return people.mutate(**{flag: people[flag] != 0 for flag in flags}) if flags else people

    return make


def _for_mariadb(value: Any) -> Any:
    """A value as the driver writes it, which leaves zones out; MariaDB has no NaN, which is no value."""
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC)
    return None if value != value else value


def on_clickhouse(client: Any, text: str) -> Maker:
    """Tables of ClickHouse whose texts are of this type."""
    types = {
        pa.string(): text,
        pa.int64(): "Nullable(Int64)",
        pa.float64(): "Nullable(Float64)",
        pa.bool_(): "Nullable(Bool)",
        pa.date32(): "Nullable(Date32)",
        pa.timestamp("us"): "Nullable(DateTime64(6))",
    }

    def make(table: pa.Table) -> Any:
        import ibis

        name = f"people {next(_NUMBERS)}"
        columns = _columns(table, types, "Nullable(DateTime64(6, 'Asia/Tokyo'))", _in_backticks)
        client.command(f"CREATE TABLE {_in_backticks(name)} ({columns}) ENGINE = Memory")
        if len(table):
            client.insert_arrow(_in_backticks(name), table)
        return ibis.clickhouse.from_connection(client).table(name)

    return make


def on_sqlite(text: str = "TEXT COLLATE NOCASE") -> Maker:
    """Tables of SQLite whose texts are of this type."""
    types = {
        pa.string(): text,
        pa.int64(): "INTEGER",
        pa.float64(): "REAL",
        pa.bool_(): "BOOLEAN",
        pa.date32(): "DATE",
        pa.timestamp("us"): "TIMESTAMP",
    }

    def make(table: pa.Table) -> Any:
        import ibis

        backend = ibis.sqlite.connect()
        backend.con.execute(f"CREATE TABLE people ({_columns(table, types, 'TIMESTAMPTZ', _quoted)})")
        rows = [[str(v) if isinstance(v, dt.date) else v for v in row] for row in _rows(table)]
        backend.con.executemany(f"INSERT INTO people VALUES ({', '.join('?' * table.num_columns)})", rows)
        return backend.table("people")

    return make


def on_datafusion(table: pa.Table) -> Any:
    """An Ibis table of DataFusion."""
    import ibis

    backend = ibis.datafusion.connect()
    backend.con.from_arrow(table, "people")
    return backend.table("people")


def _on_polars(table: pa.Table) -> Any:
    import ibis

    return ibis.polars.connect().create_table("people", table)


def _columns(table: pa.Table, types: dict[Any, str], instant: str, quoted: Callable[[str], str]) -> str:
    return ", ".join(f"{quoted(field.name)} {types.get(field.type, instant)}" for field in table.schema)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _in_backticks(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _rows(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in table.columns), strict=True)
