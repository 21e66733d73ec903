"""Databases as data: the same people are counted through every door, and a caller's connection is left as it was."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import adbc_driver_postgresql.dbapi
import adbc_driver_sqlite.dbapi
import duckdb
import psycopg
import psycopg2
import pyarrow as pa
import pytest
import sqlalchemy as sa
from sql_cases import DOORS, ON_POSTGRESQL, PEOPLE, ROWS, SELECT, TYPES, Databases
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
