"""Databases as data: one SELECT is taken, whatever a text looks like to a parser, and nothing is written."""

from __future__ import annotations

import gc
from contextlib import ExitStack, closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import psycopg
import pytest
import sqlalchemy as sa
from pymysql.constants import CLIENT
from sql_cases import DOORS, NO_TIME_ZONES, ROWS, Databases, to_mariadb
from table_cases import counted

import thresher as th
from thresher.errors import InvalidSetting
from thresher.questions import Values
from thresher.tables import Table

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Ibis itself


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
    with to_mariadb(mariadb_socket, client_flag=CLIENT.MULTI_STATEMENTS) as connection:
        with closing(connection.cursor()) as cursor:
            cursor.execute("create or replace table victim as select 1 as age")
            cursor.execute("set sql_mode = %s", [mode])
        for text in HOSTILE_ON_MARIADB.values():
            with pytest.raises(InvalidSetting, match=r"^sql"), Table(connection, sql=text) as table:
                counted(table, Values(("age",)))
        with Table(connection, sql="select `age`, 'it''s; #' as b, '\\\\' as c from victim # it's") as table:
            assert counted(table, Values(("b",))) == {"it's; #": 1}


@pytest.mark.slow
@NO_TIME_ZONES
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
    with to_mariadb(mariadb_socket, autocommit=autocommit) as connection, closing(connection.cursor()) as cursor:
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
