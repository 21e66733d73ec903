"""Encodings of databases: a text that the server cannot send would stop the query for one person's sake."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import adbc_driver_sqlite.dbapi
import ibis
import psycopg
import pytest
from pymysql.cursors import DictCursor
from sql_cases import DOORS, NO_TIME_ZONES, ON_POSTGRESQL, to_mariadb
from table_cases import counted

from thresher.errors import InvalidSetting
from thresher.questions import Values
from thresher.tables import Table

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Ibis itself


@pytest.fixture(scope="module", params=["SQL_ASCII", "WIN1252", "EUC_JP"])
def another_encoding(request: pytest.FixtureRequest, postgresql_server: str) -> Iterator[str]:
    """The address of a database in an encoding that has no character of Unicode for some bytes."""
    with psycopg.connect(postgresql_server, autocommit=True) as connection:
        connection.execute(f"create database odd encoding '{request.param}' locale 'C' template template0")
    address = postgresql_server.replace("/postgres?", "/odd?client_encoding=utf8&")
    with psycopg.connect(address) as connection:
        connection.execute("create table people as select 'fr' as country from generate_series(1, 99)")
    yield address
    with psycopg.connect(postgresql_server, autocommit=True) as connection:
        connection.execute("drop database odd with (force)")


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_POSTGRESQL)
def test_encodings_that_unicode_does_not_cover_are_refused(another_encoding: str, name: str) -> None:
    with ExitStack() as stack, pytest.raises(InvalidSetting, match=r"^data .*server_encoding is [SWE]"):
        opened(name, another_encoding, stack)


def opened(name: str, address: str, stack: ExitStack) -> Table:
    """The table people at an address, through a door."""
    data = DOORS[name](SimpleNamespace(postgresql=address, address=lambda _: address), stack)
    return stack.enter_context(Table(data, table="people"))


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["LATIN1", "WIN1252", "SQL_ASCII"])
def test_one_text_that_a_client_encoding_lacks_stops_no_query(postgresql_url: str, encoding: str) -> None:
    with psycopg.connect(postgresql_url) as connection:
        connection.execute("create table people as select 'fr' as country from generate_series(1, 3)")
        connection.execute("insert into people values ('\u0141\u00f3d\u017a')")
    address = f"{postgresql_url}&client_encoding={encoding}"
    with ExitStack() as stack:
        for name in ("postgresql://", "psycopg", "adbc postgresql"):
            assert counted(opened(name, address, stack), Values(("country",))) == {"fr": 3, "\u0141\u00f3d\u017a": 1}
        with pytest.raises(InvalidSetting, match=rf"client_encoding is {encoding}.*set_client_encoding"):
            opened("psycopg2", address, stack)
        if encoding != "SQL_ASCII":  # under which Ibis finds no table
            backend = ibis.postgres.from_connection(stack.enter_context(closing(psycopg.connect(address))))
            with pytest.raises(InvalidSetting, match=rf"client_encoding is {encoding}"):
                Table(backend.table("people"))
        lent = stack.enter_context(closing(psycopg.connect(address)))
        with Table(lent, table="people"):
            pass
        assert lent.info.parameter_status("client_encoding") == encoding


@pytest.mark.parametrize("encoding", ["UTF-16le", "UTF-16be"])
def test_sqlite_in_another_encoding_is_refused(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "some.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"pragma encoding = '{encoding}'")
        connection.execute("create table people (country text)")
        with closing(adbc_driver_sqlite.dbapi.connect(str(path))) as other:
            for data in (connection, f"sqlite:///{path}", other):
                with pytest.raises(InvalidSetting, match=f"encoding is {encoding}"):
                    Table(data, table="people")
        backend = ibis.sqlite.from_connection(connection)
        with pytest.raises(InvalidSetting, match=f"encoding is {encoding}"):
            Table(backend.table("people"))


@pytest.mark.slow
@NO_TIME_ZONES
@pytest.mark.parametrize("character_set", ["latin1", "utf8mb3"])
def test_character_sets_that_lack_letters_are_refused(
    mariadb_connection: Any, mariadb_socket: str, character_set: str
) -> None:
    """MySQL and MariaDB would send ? for such letters."""
    with closing(mariadb_connection.cursor()) as cursor:
        cursor.execute("create or replace table letters as select 'x' as letter")
    address = f"mysql://root@localhost/warehouse?unix_socket={mariadb_socket}&charset={character_set}"
    with to_mariadb(mariadb_socket, charset=character_set, cursorclass=DictCursor) as connection:
        for data in (connection, address):
            with pytest.raises(InvalidSetting, match=rf"character set is {character_set}.*utf8mb4"):
                Table(data, table="letters")
