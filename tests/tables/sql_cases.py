"""One table of people in real databases, and every way to give it as data."""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import adbc_driver_postgresql.dbapi
import adbc_driver_sqlite.dbapi
import duckdb
import ibis
import psycopg
import psycopg2
import pyarrow as pa
import pymysql
import pytest
import sqlalchemy as sa

NUMBER = 400
PEOPLE = pa.table(
    {
        "who": [f"u{index // 2}" for index in range(NUMBER)],
        "country": ["fr", "FR", "de", "e\u0301", "\u00e9", "it's; -- 'x'", None, "at"] * (NUMBER // 8),
        "age": pa.array([None if index % 7 == 0 else index % 90 for index in range(NUMBER)], pa.int64()),
        "latency": [float(index * index % 997) for index in range(NUMBER)],
        "seen": [dt.datetime(2024, 1, 1) + dt.timedelta(hours=7 * index) for index in range(NUMBER)],
    }
)
ROWS = [tuple(row.values()) for row in PEOPLE.to_pylist()]
TYPES = {"who": "text", "country": "text", "age": "whole numbers", "latency": "floats", "seen": "times"}
SELECT = (
    "select who, country, age, latency, seen from people where coalesce(country, '') not like '%zz%' -- everybody;\n;"
)
COLUMNS = "who text, country text, age bigint, latency double precision, seen timestamp"


def fill_postgresql(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("create schema other")
        for name in ("people", "other.people"):
            connection.execute(f"create table {name} ({COLUMNS})")
            connection.cursor().executemany(f"insert into {name} values (%s, %s, %s, %s, %s)", ROWS)


def fill_sqlite(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"create table people ({COLUMNS})")
        rows = [(*row[:4], row[4].isoformat(" ")) for row in ROWS]
        connection.executemany("insert into people values (?, ?, ?, ?, ?)", rows)


def fill_duckdb(path: Path) -> None:
    with closing(duckdb.connect(path)) as connection:
        connection.from_arrow(PEOPLE).create("people")


class Databases:
    """The addresses of three databases that hold the same people."""

    def __init__(self, postgresql: str, folder: Path) -> None:
        self.postgresql = postgresql
        self.files = {"sqlite": folder / "people.db", "duckdb": folder / "people.duckdb"}
        fill_postgresql(postgresql)
        fill_sqlite(self.files["sqlite"])
        fill_duckdb(self.files["duckdb"])

    def address(self, scheme: str) -> str:
        return self.postgresql if scheme == "postgresql" else f"{scheme}:///{self.files[scheme]}"


DOORS: dict[str, Callable[[Databases, ExitStack], Any]] = {
    "postgresql://": lambda on, _: on.address("postgresql"),
    "sqlite://": lambda on, _: on.address("sqlite"),
    "duckdb://": lambda on, _: on.address("duckdb"),
    "psycopg": lambda on, stack: stack.enter_context(closing(psycopg.connect(on.postgresql))),
    "psycopg2": lambda on, stack: stack.enter_context(closing(psycopg2.connect(on.postgresql))),
    "sqlite3": lambda on, stack: stack.enter_context(closing(sqlite3.connect(on.files["sqlite"]))),
    "duckdb": lambda on, stack: stack.enter_context(closing(duckdb.connect(on.files["duckdb"], read_only=True))),
    "adbc postgresql": lambda on, stack: stack.enter_context(adbc_driver_postgresql.dbapi.connect(on.postgresql)),
    "adbc sqlite": lambda on, stack: stack.enter_context(adbc_driver_sqlite.dbapi.connect(str(on.files["sqlite"]))),
    "sqlalchemy psycopg": lambda on, stack: engine(on.postgresql.replace("://", "+psycopg://"), stack),
    "sqlalchemy psycopg2": lambda on, stack: engine(on.postgresql.replace("://", "+psycopg2://"), stack),
    "sqlalchemy sqlite": lambda on, stack: engine(on.address("sqlite"), stack),
    "sqlalchemy connection": lambda on, stack: stack.enter_context(
        engine(on.postgresql.replace("://", "+psycopg://"), stack).connect()
    ),
    "ibis": lambda on, stack: stack.enter_context(
        disconnected(ibis.postgres.from_connection(stack.enter_context(closing(psycopg.connect(on.postgresql)))))
    ),
}
"""Each makes something that `data` may be; what it opened is closed with the stack."""


def engine(address: str, stack: ExitStack) -> sa.Engine:
    made = sa.create_engine(address)
    stack.callback(made.dispose)
    return made


@contextmanager
def disconnected(backend: Any) -> Iterator[Any]:
    yield backend
    backend.disconnect()


ON_POSTGRESQL = [name for name in DOORS if name.startswith(("postgresql", "psycopg", "adbc p", "sqlalchemy p", "ibis"))]

NO_TIME_ZONES = pytest.mark.filterwarnings("ignore:Unable to set session timezone")  # of Ibis


def to_mariadb(mariadb_socket: str, **settings: Any) -> Any:
    """A connection to the tables of MariaDB."""
    return pymysql.connect(unix_socket=mariadb_socket, user="root", database="warehouse", **settings)
