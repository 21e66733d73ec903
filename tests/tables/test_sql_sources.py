"""Databases as data: the same people are counted through every door, and a caller's connection is left as it was."""

from __future__ import annotations

import gc
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from types import SimpleNamespace
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
from pymysql.constants import CLIENT
from pymysql.cursors import DictCursor
from sql_cases import DOORS, PEOPLE, ROWS, SELECT, TYPES, Databases
from table_cases import counted, expected

import thresher as th
from thresher.errors import InvalidSetting, MissingExtra
from thresher.questions import Bins, Dates, Prefixes, Question, Values
from thresher.tables import Table
from thresher.testing import SeededRandomness

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Ibis itself

QUESTIONS: list[Question] = [
    Values(("country",)),
    Values(("age",)),
    Bins("latency", (0, 250, 500, 1000)),
    Dates("seen", "month"),
    Prefixes("country", 1),
]


@pytest.fixture(scope="module")
def databases(postgresql_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Databases]:
    with psycopg.connect(postgresql_server, autocommit=True) as connection:
        connection.execute("create database people_of_tests")
        connection.execute("alter database people_of_tests set timezone = 'Asia/Tokyo'")
    yield Databases(postgresql_server.replace("/postgres?", "/people_of_tests?"), tmp_path_factory.mktemp("databases"))
    with psycopg.connect(postgresql_server, autocommit=True) as connection:
        connection.execute("drop database people_of_tests with (force)")


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest, databases: Databases) -> Iterator[Any]:
    with ExitStack() as stack:
        yield DOORS[request.param](databases, stack)


@pytest.mark.slow
def test_every_door_counts_the_same(door: Any) -> None:
    for selected in ({"table": "people"}, {"sql": SELECT}):
        declared = _declared(door, selected)
        with Table(door, types=declared, **selected) as table:
            for question in QUESTIONS:
                assert counted(table, question) == expected(PEOPLE, question)
        with Table(door, "who", types=declared, **selected) as table:
            assert sum(counted(table, QUESTIONS[2]).values()) == len(set(PEOPLE["who"].to_pylist()))


def _declared(door: Any, selected: dict[str, str]) -> dict[str, str]:
    """What a user must declare: the columns of which the database does not say a type."""
    with Table(door, **selected) as table:
        return {name: kind for name, kind in TYPES.items() if table._engine.untyped(name)}


@pytest.mark.slow
def test_the_five_verbs_on_an_address(databases: Databases) -> None:
    """The same seeds give the same answers as on the same rows in DuckDB."""
    target = {"epsilon": 1, "delta": 1e-4}
    asked = {
        th.histogram: {"column": "country"},
        th.heavy_hitters: {"column": "country", "method": "trie", "levels": 2},
        th.quantiles: {"column": "latency", "probabilities": [0.5], "lower": 0, "upper": 1024},
        th.ranges: {"column": "age", "lower": 0, "upper": 128},
        th.mean: {"column": "latency", "lower": 0, "upper": 1024},
    }
    for verb, settings in asked.items():
        answers = []
        for data, selected in ((databases.address("postgresql"), {"sql": SELECT}), (duckdb.from_arrow(PEOPLE), {})):
            with Table(data, randomness=SeededRandomness(3), **selected) as table:
                answers.append(verb(table, **settings, **target).to_arrow())
        # The points of a mean are drawn by the database, without a seed.
        assert answers[0].equals(answers[1]) or verb is th.mean, verb
        assert verb(databases.address("postgresql"), table="other.people", **settings, **target).plan is not None


# What of the caller's is left as it was.


def test_an_open_transaction_of_psycopg_goes_on(databases: Databases) -> None:
    with closing(psycopg.connect(databases.postgresql, row_factory=psycopg.rows.dict_row)) as connection:
        connection.execute("set timezone = 'Europe/Paris'")
        connection.commit()
        connection.execute("insert into people (country) values ('mine')")
        with Table(connection, sql="select age, latency from people") as table:
            assert sum(counted(table, Bins("latency", (0, 1000))).values()) == len(ROWS)
        with pytest.raises(InvalidSetting, match="does not exist"):
            Table(connection, table="nobody")
        assert connection.execute("select count(*) as n from people").fetchone() == {"n": len(ROWS) + 1}
        assert connection.execute("show timezone").fetchone() == {"TimeZone": "Europe/Paris"}
        assert connection.execute("show transaction_read_only").fetchone() == {"transaction_read_only": "off"}
        assert not connection.execute("select 1 from pg_views where schemaname like 'pg_temp%'").fetchall()
        connection.rollback()
        assert connection.execute("select count(*) as n from people").fetchone() == {"n": len(ROWS)}
        connection.rollback()
        with Table(connection, table="people"):
            pass
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_an_open_transaction_of_sqlite_goes_on(databases: Databases) -> None:
    with closing(sqlite3.connect(databases.files["sqlite"])) as connection:
        connection.row_factory = sqlite3.Row
        connection.text_factory = bytes
        functions = "select name, narg from pragma_function_list"
        before = set(map(tuple, connection.execute(functions)))
        connection.execute("insert into people (age) values (200)")
        for selected in ({"table": "people"}, {"sql": "select age, age + 1 from people"}):
            with Table(connection, **selected) as table:
                assert counted(table, Bins("age", (200, 300))) == {200.0: 1}
                assert connection.execute("select 'a' like 'A'").fetchone()[0] == 1
            with pytest.raises(InvalidSetting, match="does not exist"):
                Table(connection, table="nobody")
            assert connection.in_transaction
            assert set(map(tuple, connection.execute(functions))) == before
            assert connection.execute("select 'a' like 'A'").fetchone()[0] == 1
            assert not connection.execute("select * from sqlite_temp_master").fetchall()
            assert connection.row_factory is sqlite3.Row and connection.text_factory is bytes
        connection.rollback()
        assert connection.execute("select count(*) from people where age = 200").fetchone()[0] == 0


@pytest.mark.parametrize("driver", [psycopg2, adbc_driver_postgresql.dbapi])
def test_an_open_transaction_of_other_drivers_goes_on(databases: Databases, driver: Any) -> None:
    with closing(driver.connect(databases.postgresql)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("insert into people (country) values ('mine')")
        with Table(connection, table="people") as table:
            seen = counted(table, Values(("country",))).get("mine", 0)
            assert seen == (1 if driver is psycopg2 else 0)  # ADBC: in a session of its own
        with pytest.raises(InvalidSetting, match="does not exist"):
            Table(connection, table="nobody")
        cursor.execute("select count(*) from people")
        assert cursor.fetchone() == (len(ROWS) + 1,)
        cursor.execute("delete from people where country = 'mine'")  # it may write again
        connection.rollback()


@pytest.mark.parametrize("autocommit", [False, True])
def test_an_idle_connection_of_psycopg2_is_idle_again(databases: Databases, autocommit: bool) -> None:
    with closing(psycopg2.connect(databases.postgresql)) as connection:
        connection.autocommit = autocommit
        with Table(connection, table="people") as table:
            assert counted(table, Values(("country",)))["at"] == len(ROWS) // 8
        assert connection.get_transaction_status() == psycopg2.extensions.TRANSACTION_STATUS_IDLE


def test_an_adbc_connection_that_commits_by_itself(databases: Databases) -> None:
    connected = adbc_driver_postgresql.dbapi.connect(databases.postgresql, autocommit=True)
    with connected as connection, Table(connection, table="people") as table:
        assert counted(table, Values(("country",)))["at"] == len(ROWS) // 8


def test_connections_of_a_pool_go_back_to_it(databases: Databases) -> None:
    engine = sa.create_engine(databases.postgresql.replace("://", "+psycopg://"), pool_size=1, max_overflow=0)
    for _ in range(2):
        with pytest.raises(InvalidSetting):
            Table(engine, table="nobody")
        with Table(engine, table="people"):
            assert engine.pool.checkedout() == 1
        assert engine.pool.checkedout() == 0
    engine.dispose()


def test_what_was_opened_is_closed(databases: Databases) -> None:
    with psycopg.connect(databases.postgresql, autocommit=True) as watching:
        others = "select count(*) from pg_stat_activity where datname = current_database() and application_name = %s"
        address = f"{databases.postgresql}&application_name=thresher_test"
        with Table(address, table="people"):
            assert watching.execute(others, ["thresher_test"]).fetchone() == (1,)
        with pytest.raises(InvalidSetting):
            Table(address, table="nobody")
        # A session ends a moment after its connection.
        watching.execute("select pg_sleep(0.05)")
        while watching.execute(others, ["thresher_test"]).fetchone() != (0,):
            watching.execute("select pg_sleep(0.05)")


def test_a_transaction_that_has_failed_is_refused(databases: Databases) -> None:
    for driver in (psycopg, psycopg2):
        with closing(driver.connect(databases.postgresql)) as connection, closing(connection.cursor()) as cursor:
            with pytest.raises(driver.Error):
                cursor.execute("select nothing")
            with pytest.raises(InvalidSetting, match="transaction has failed"):
                Table(connection, table="people")


# Encodings: a text that the server cannot send would stop the query for one person's sake.

ON_POSTGRESQL = [name for name in DOORS if name.startswith(("postgresql", "psycopg", "adbc p", "sqlalchemy p", "ibis"))]


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


# Types: what a database declares, never what rows say.


@pytest.mark.parametrize("first", ["7", "seven"])
@pytest.mark.parametrize("driver", [sqlite3, adbc_driver_sqlite.dbapi])
def test_no_row_decides_a_type_on_sqlite(tmp_path: Path, driver: Any, first: str) -> None:
    path = tmp_path / "some.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("create table some (declared integer, plain, yes boolean)")
        rows = [
            (None, None, None),
            (first, first, 1),
            *[(number % 5, number % 5, number % 2) for number in range(3000)],
        ]
        rows += [(None, b"\xff\x00", 0), (8, 1.0, 7), (9, 0.1, None)]
        connection.executemany("insert into some values (?, ?, ?)", rows)
        connection.execute("insert into some (plain) values (cast(x'ff' as text))")
    with closing(driver.connect(str(path))) as connection:
        with Table(connection, sql="select declared, plain, yes, plain || '' as made from some") as table:
            assert not table._engine.untyped("declared") and table._engine.untyped("plain")
            numbers = {**dict.fromkeys(range(5), 600), 8: 1, 9: 1, **({7: 1} if first == "7" else {})}
            assert counted(table, Values(("declared",))) == numbers
            texts = {**{str(number): 600 for number in range(5)}, "1": 601, first: 1, "0.1": 1}
            assert counted(table, Values(("plain",))) == texts
            assert counted(table, Values(("yes",))) == {True: 1501, False: 1501}
            assert counted(table, Bins("plain", (0, 1, 5))) == {0.0: 601, 1.0: 2401}
            assert counted(table, Values(("made",)))[first] == 1
        with Table(connection, table="some", types={"plain": "whole numbers"}) as table:
            assert counted(table, Values(("plain",)))[1] == 601
        found = th.look(connection, table="some")
        assert found.types["declared"] == "whole numbers" and found.known == {"declared", "yes"}
        assert set(found.declared) <= {"plain"}


def test_a_connection_that_takes_no_view(databases: Databases) -> None:
    with closing(sqlite3.connect(databases.files["sqlite"])) as connection:
        connection.execute("pragma query_only = on")
        with Table(connection, table="people", types={"age": "whole numbers"}) as table:
            assert counted(table, Values(("age",))) == expected(PEOPLE, Values(("age",)))


@pytest.mark.slow
def test_types_of_postgresql(databases: Databases) -> None:
    """Enumerations and domains are what they are made of; times outside of the calendar are no value."""
    with psycopg.connect(databases.postgresql) as connection:
        connection.execute("create type mood as enum ('good', 'bad')")
        connection.execute("create domain size as integer check (value > 0)")
        connection.execute("create table odd (m mood, s size, n numeric(8, 2), t timestamptz, d date, i inet)")
        connection.execute("insert into odd values ('good', 3, 1.50, 'infinity', 'infinity', '::1')")
        connection.execute("insert into odd values ('good', 3, 1.5, '2024-01-31 23:30-05', '2024-01-31', '::1')")
    doors = {
        "address": databases.postgresql,
        "adbc": adbc_driver_postgresql.dbapi.connect(databases.postgresql),
        "psycopg2": psycopg2.connect(databases.postgresql),
    }
    for name, door in doors.items():
        with Table(door, sql="select * from odd", types={"s": "whole numbers"}) as table:
            assert counted(table, Values(("m",))) == {"good": 2}, name
            assert counted(table, Values(("s",))) == {3: 2}, name
            assert sum(counted(table, Bins("n", (1, 2))).values()) == 2, name
            (month,) = counted(table, Dates("t", "month"))
            assert month.month == 2, name
            assert sum(counted(table, Dates("d", "day")).values()) == 1, name
            if name != "psycopg2":  # where it is text
                with pytest.raises(InvalidSetting, match="cannot be counted"):
                    table.check(Values(("i",)))
    for door in (doors["adbc"], doors["psycopg2"]):
        door.close()
    with psycopg.connect(databases.postgresql) as connection:
        connection.execute("drop table odd; drop type mood; drop domain size")


# What may be selected.


REFUSED = {
    "select age from people; delete from people": "several statements",
    "select 1 as age) as x; delete from people; select * from (select 1 as age": "several statements|not valid",
    "select 1 as age) as x, (select 2": "parentheses|not valid",
    "delete from people returning age": "no SELECT",
    "with gone as (delete from people returning age) select age from gone": "only read",
    "select age into copied from people": "only read|not valid|cannot be read",
    "-- nothing": "no SELECT",
    "select age from people /*": "do not end|not valid",
    "select age frm people where": "cannot be read|not valid",
    "select nobody from people": "column or function",
    "select nobody(age) as age from people": "column or function",
    "select age from nobody": "table that does not exist",
    " ": "not empty",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["postgresql://", "sqlite://", "duckdb://", "psycopg2", "adbc postgresql"])
def test_only_one_select_is_taken(databases: Databases, tmp_path: Path, name: str) -> None:
    ledger = th.Ledger(tmp_path / "ledger.db", epsilon=3, delta=1e-3)
    with ExitStack() as stack:
        data = DOORS[name](databases, stack)
        for sql, words in REFUSED.items():
            with pytest.raises(InvalidSetting, match=f"^sql.*({words})") as caught:
                th.histogram(data, "age", sql=sql, epsilon=1, delta=1e-4, ledger=ledger)
            assert caught.value.__cause__ is None and caught.value.__context__ is None, sql
    assert len(ledger.to_arrow()) == 0
    with psycopg.connect(databases.postgresql) as connection:
        assert connection.execute("select count(*) from people").fetchone() == (len(ROWS),)
        assert connection.execute("select to_regclass('copied')").fetchone() == (None,)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a cursor that Ibis leaves open
def test_a_caller_connection_may_not_change_data_either(databases: Databases) -> None:
    with closing(duckdb.connect()) as connection:
        connection.execute("create table people (age integer)")
        for sql in (
            "with x as (insert into people values (1) returning age) select * from x",
            "insert into people values (1)",
        ):
            with pytest.raises(InvalidSetting, match=r"only read|no SELECT"):
                Table(connection, sql=sql)
        assert connection.execute("select count(*) from people").fetchone() == (0,)
    with closing(psycopg.connect(databases.postgresql)) as connection:
        connection.execute("create sequence counter")
        sql = "select nextval('counter') as age from people"
        with pytest.raises(InvalidSetting), Table(connection, sql=sql) as table:
            counted(table, Values(("age",)))
        connection.rollback()
    gc.collect()  # a cursor that Ibis leaves open warns when it goes: here, and not in another test


REST = ") x; commit; drop table victim; select * from (select 1 as age"
HOSTILE_ON_POSTGRESQL = {
    "a text with escapes that goes on": f"select E'a'\n'\\' || 1 , ' as b {REST}, 2 as b --' as b",
    "a text in Unicode that goes on": f"select U&'a'\n'\\' || 1 , ' as b {REST}, 2 as b --' as b",
    "a backslash, if it escapes": f"select '\\' as a, ' as b {REST}, 2 as b --' as b",
    "a text in dollars after a name": f"select 1 as a$$ {REST}, 2 as b$$",
    "a text in dollars": f"select $a$ $$ $a$, '$$ {REST} --' as b",
    "a comment in a comment": f"select 1 /* /* */ ' */ as age {REST} --'",
    "the end of a comment": f"select 1 --\r as age {REST} --\n as b",
}


@pytest.mark.parametrize("text", HOSTILE_ON_POSTGRESQL)
def test_postgresql_executes_one_statement(postgresql_url: str, text: str) -> None:
    """Also under settings by which its parser finds the ends of texts elsewhere."""
    with psycopg.connect(postgresql_url, autocommit=True) as watching, ExitStack() as stack:
        watching.execute("create table victim as select 1 as age")
        for name in ("psycopg2", "psycopg"):
            for escapes in ("on", "off"):
                address = f"{postgresql_url}&options=-c%20standard_conforming_strings%3D{escapes}"
                data = DOORS[name](SimpleNamespace(postgresql=address), stack)
                with (
                    pytest.raises(InvalidSetting, match=r"^sql"),
                    Table(data, sql=HOSTILE_ON_POSTGRESQL[text]) as table,
                ):
                    counted(table, Values(("age",)))
        assert watching.execute("select to_regclass('victim')").fetchone() == ("victim",)


HOSTILE_ON_MARIADB = {
    "a backslash, if it does not escape": f"select '\\'' , ' as age {REST} -- ' as b",
    "a backslash, if it escapes": f"select '\\' as a, ' as b {REST}, 2 as b -- ' as b",
    "two minus signs": f"select 1 --1 {REST}\n",
    "a sharp": f"select 1 # ' \n {REST} # '",
    "a comment that is executed": f"select 1 as age /*! {REST} */, 2 as b",
    "a comment that MariaDB executes": f"select 1 as age /*M! {REST} */, 2 as b",
    "a comment in a comment": f"select 1 /* /* */ as age {REST} -- */",
}


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["", "NO_BACKSLASH_ESCAPES", "ANSI_QUOTES"])
def test_mariadb_executes_one_statement(mariadb_connection: Any, mariadb_socket: str, mode: str) -> None:
    with _to_mariadb(mariadb_socket, client_flag=CLIENT.MULTI_STATEMENTS) as connection:
        with closing(connection.cursor()) as cursor:
            cursor.execute("create or replace table victim as select 1 as age")
            cursor.execute("set sql_mode = %s", [mode])
        for text in HOSTILE_ON_MARIADB.values():
            with pytest.raises(InvalidSetting, match=r"^sql"), Table(connection, sql=text) as table:
                counted(table, Values(("age",)))
        with Table(connection, sql="select `age`, 'it''s; #' as b, '\\\\' as c from victim # it's") as table:
            assert counted(table, Values(("b",))) == {"it's; #": 1}


_NO_TIME_ZONES = pytest.mark.filterwarnings("ignore:Unable to set session timezone")  # of Ibis


@pytest.mark.slow
@_NO_TIME_ZONES
def test_an_address_of_mysql_only_reads(mariadb_connection: Any, mariadb_socket: str) -> None:
    for scheme in ("mysql", "mysql+pymysql"):
        address = f"{scheme}://root@localhost/warehouse?unix_socket={mariadb_socket}"
        with closing(mariadb_connection.cursor()) as cursor:
            cursor.execute("create or replace table people as select 7 as age from seq_1_to_9")
            cursor.execute("create or replace sequence numbers")
            cursor.execute("create or replace view gone as select nextval(numbers) as age from people")
        with Table(address, table="people") as table:
            assert counted(table, Values(("age",))) == {7: 9}
        with pytest.raises(InvalidSetting), Table(address, table="gone") as table:
            counted(table, Values(("age",)))


@pytest.mark.slow
@_NO_TIME_ZONES
@pytest.mark.parametrize("character_set", ["latin1", "utf8mb3"])
def test_character_sets_that_lack_letters_are_refused(
    mariadb_connection: Any, mariadb_socket: str, character_set: str
) -> None:
    """MySQL and MariaDB would send ? for such letters."""
    address = f"mysql://root@localhost/warehouse?unix_socket={mariadb_socket}&charset={character_set}"
    with _to_mariadb(mariadb_socket, charset=character_set, cursorclass=DictCursor) as connection:
        for data in (connection, address):
            with pytest.raises(InvalidSetting, match=rf"character set is {character_set}.*utf8mb4"):
                Table(data, table="people")


def _to_mariadb(mariadb_socket: str, **settings: Any) -> Any:
    return pymysql.connect(unix_socket=mariadb_socket, user="root", database="warehouse", **settings)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a cursor that Ibis leaves open
@pytest.mark.parametrize("name", ["psycopg", "psycopg2", "sqlalchemy psycopg2"])
@pytest.mark.parametrize("autocommit", [False, True])
def test_no_function_writes_on_postgresql(postgresql_url: str, name: str, autocommit: bool) -> None:
    """Nor where the connection commits each statement."""
    with psycopg.connect(postgresql_url, autocommit=True) as watching, ExitStack() as stack:
        watching.execute("create table people as select 1 as age from generate_series(1, 9)")
        watching.execute("create function gone() returns int language sql as 'delete from people returning age'")
        data = DOORS[name](SimpleNamespace(postgresql=postgresql_url), stack)
        if isinstance(data, sa.Engine):
            data = sa.create_engine(data.url, isolation_level="AUTOCOMMIT" if autocommit else "READ COMMITTED")
            stack.callback(data.dispose)
        else:
            data.autocommit = autocommit
        with pytest.raises(InvalidSetting), Table(data, sql="select gone() as age") as table:
            counted(table, Values(("age",)))
        with Table(data, table="people") as table:
            assert sum(counted(table, Values(("age",))).values()) == 9
        if not isinstance(data, sa.Engine):
            with data.cursor() as cursor:
                cursor.execute("delete from people")  # it may write again
            data.rollback()
        gc.collect()  # a cursor that Ibis leaves open warns when it goes: here, and not in another test
        assert watching.execute("select count(*) from people").fetchone() == (
            0 if autocommit and not isinstance(data, sa.Engine) else 9,
        )


@pytest.mark.slow
@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("autocommit", [False, True])
def test_no_function_writes_on_mariadb(
    mariadb_connection: Any, mariadb_socket: str, autocommit: bool, begun: bool
) -> None:
    """It is refused where each statement is committed, and undone in a transaction, which goes on."""
    with _to_mariadb(mariadb_socket, autocommit=autocommit) as connection, closing(connection.cursor()) as cursor:
        for statement in (
            "create or replace table people as select 1 as age from seq_1_to_9",
            "create or replace function gone() returns int modifies sql data begin delete from people; return 1; end",
            *(["begin", "insert into people values (2)"] if begun else []),
        ):
            cursor.execute(statement)
        if autocommit and not begun:
            with (
                pytest.raises(InvalidSetting, match="only read"),
                Table(connection, sql="select gone() as age") as table,
            ):
                counted(table, Values(("age",)))
        else:
            with Table(connection, sql="select gone() as age") as table:
                assert counted(table, Values(("age",))) == {"1": 1}
        with Table(connection, table="people") as table:
            assert counted(table, Values(("age",))) == {"1": 9, **({"2": 1} if begun else {})}
        connection.rollback()
        cursor.execute("select count(*) from people")
        assert cursor.fetchone() == (9,)
        cursor.execute("delete from people")  # it may write again


@pytest.mark.parametrize(
    ("given", "setting"),
    [
        ({}, "data"),
        ({"sql": "select 1", "table": "people"}, "sql"),
        ({"table": ""}, "table"),
        ({"table": "people.."}, "table"),
        ({"sql": 7}, "sql"),
    ],
)
def test_exactly_one_is_given(databases: Databases, given: dict[str, Any], setting: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        Table(databases.address("duckdb"), **given)
    assert caught.value.setting == setting


def test_only_databases_have_them(tmp_path: Path) -> None:
    (tmp_path / "some.csv").write_text("age\n1\n")
    for data in ([1, 2], PEOPLE, str(tmp_path / "some.csv"), tmp_path / "some.csv"):
        with pytest.raises(InvalidSetting, match="is for databases"):
            th.histogram(data, "age", table="people", epsilon=1, delta=1e-4)
    with Table(PEOPLE) as table, pytest.raises(InvalidSetting, match=r"^sql is for data that is opened here"):
        th.histogram(table, "age", sql="select 1", epsilon=1, delta=1e-4)
    with pytest.raises(InvalidSetting, match=r"^table is for tables"):
        th.histogram(th.Fleet("https://fleet.invalid", key="k" * 40), "age", table="people", epsilon=1, delta=1e-4)


def test_names_of_tables_are_quoted(tmp_path: Path) -> None:
    with closing(duckdb.connect()) as connection:
        connection.execute('create schema "my schema"; create table "my schema"."a.b ""c""" as select 1 as x')
        with Table(connection, table='my schema."a.b ""c"""') as table:
            assert counted(table, Values(("x",))) == {1: 1}


def test_missing_packages_are_named(databases: Databases, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "psycopg", None)
        with pytest.raises(MissingExtra, match=r"thresher\[postgres\]"):
            Table(databases.postgresql, table="people")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "ibis", None)
        for scheme in ("postgresql", "sqlite"):
            with pytest.raises(MissingExtra, match=r"thresher\[ibis\]"):
                Table(databases.address(scheme), table="people")
    with pytest.raises(MissingExtra, match=r"ibis-framework\[mssql\]"):
        Table("mssql://user:secret@127.0.0.1:1/x", table="people")


def test_look_says_what_a_database_declares(databases: Databases) -> None:
    found = th.look(databases.address("postgresql"), table="people")
    assert found.types == TYPES and found.rows == 0 and not found.declared
    assert "no row was read" in str(found)
    with closing(psycopg2.connect(databases.postgresql)) as connection:
        found = th.look(connection, 50, sql=SELECT)
        assert found.rows == 50 and found.types == TYPES | {"latency": "whole numbers"}  # rows say no more
        assert set(found.declared) == {"age", "latency", "seen"}


def test_a_driver_that_nobody_knows(databases: Databases) -> None:
    """Any DBAPI connection: here that of sqlite3, in a class of its own, whose rows are mappings."""

    class Connection:
        def __init__(self, connection: sqlite3.Connection) -> None:
            connection.row_factory = lambda cursor, row: dict(zip([c[0] for c in cursor.description], row, strict=True))
            self.cursor, self.commit = connection.cursor, connection.commit
            self.rollback, self.close = connection.rollback, connection.close

    with closing(sqlite3.connect(databases.files["sqlite"])) as connection:
        with Table(Connection(connection), table="people", types={"age": "whole numbers"}) as table:
            for question in QUESTIONS:
                assert counted(table, question) == expected(PEOPLE, question)
        with pytest.raises(InvalidSetting, match="letters and digits"):
            Table(Connection(connection), table='"people"')


@pytest.mark.parametrize("name", ON_POSTGRESQL[:3])
def test_values_alone_are_a_select(databases: Databases, name: str) -> None:
    with ExitStack() as stack:
        table = stack.enter_context(Table(DOORS[name](databases, stack), sql="values (7), (7)"))
        assert [*counted(table, Values(("column1",))).values()] == [2]


def test_settings_of_postgresql_that_write_names_otherwise(databases: Databases) -> None:
    address = f"{databases.postgresql}&options=-c%20quote_all_identifiers%3Don"
    with Table(address, table="people") as table:
        assert counted(table, Values(("age",))) == expected(PEOPLE, Values(("age",)))


def test_rows_of_a_database_know_their_number(databases: Databases) -> None:
    with closing(psycopg2.connect(databases.postgresql)) as connection:
        answer = th.histogram(connection, "country", table="people", epsilon=1, delta=1e-4)
    assert isinstance(answer.to_arrow(), pa.Table) and answer.release.units == len(ROWS)


@pytest.mark.parametrize(
    "address", ["https://h/x.csv", "HTTP://h/x.csv?a=1", "s3://b/x.parquet", "gs://b/*.csv", "file:///x"]
)
@pytest.mark.parametrize("selected", [{}, {"table": "people"}], ids=str)
def test_addresses_of_files_are_not_fetched(address: str, selected: dict[str, str]) -> None:
    for asked in (Table, th.look):
        with pytest.raises(InvalidSetting, match=r"data .* does not fetch files\. Download it first"):
            asked(address, **selected)
