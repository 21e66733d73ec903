"""One table as every engine holds it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from database_cases import DATABASES, database_maker
from sql_cases import Databases
from table_cases import HOSTILE_SETTINGS, Maker, opened_by_ibis

_QUIET = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
_SPARK = (pytest.mark.slow, _QUIET)

LOCAL = [
    *("pandas", "polars", "polars-lazy", "pyarrow", "duckdb"),
    *(pytest.param(engine, marks=pytest.mark.slow) for engine in ("ibis", "dask")),
]
CLUSTER = [pytest.param("spark", marks=_SPARK), pytest.param("spark-connect", marks=_SPARK)]
ENGINES = [*LOCAL, *CLUSTER]
# Ibis itself calls functions that other packages deprecate.
_WARNS = pytest.mark.filterwarnings("ignore::DeprecationWarning")
BEHIND_IBIS = [pytest.param(name, marks=(pytest.mark.slow, _WARNS)) for name in DATABASES]
CONTRACT = {
    *("test_table_contract", "test_table_collations", "test_table_contributions"),
    *("test_table_filters", "test_table_time_zones"),
}
"""The modules whose tests of engines run on databases too."""
FILES = ["parquet", "csv", "tsv.gz"]


def make(name: str, request: pytest.FixtureRequest) -> Maker:
    """What turns an Arrow table into this engine's frame, or into a file."""
    if name in ("parquet", "csv", "tsv.gz", "jsonl"):
        folder: Path = request.getfixturevalue("tmp_path")
        return lambda table: _write(table, folder / f"table.{name}", name)
    if name in DATABASES:
        return database_maker(name, request)
    if name == "spark":
        return _spark(request.getfixturevalue("spark"), "UTF8_LCASE")
    if name == "spark-connect":
        return _spark(request.getfixturevalue("spark_connect"), "UNICODE_CI_AI_RTRIM")
    return _FRAMES[name]


def _write(table: pa.Table, path: Path, name: str) -> str:
    if name == "parquet":
        pa.parquet.write_table(table, path)
        return str(path)
    options = {
        "csv": "HEADER, QUOTE '\"'",
        "tsv.gz": "HEADER, DELIMITER '\t', COMPRESSION gzip",
        "jsonl": "FORMAT json",
    }
    duckdb.connect().from_arrow(table).query("rows", f"COPY rows TO '{path}' ({options[name]})")
    return str(path)


def _spark(session: Any, collation: str) -> Maker:
    """Frames whose texts have a collation under which several spellings are one."""
    from pyspark.sql.pandas.types import from_arrow_schema

    def make(table: pa.Table) -> Any:
        # Without a schema, Spark cannot tell the types of an empty table.
        schema = from_arrow_schema(table.schema)
        frame = session.createDataFrame(table if len(table) else [], schema)
        quoted = {field.name: "`" + field.name.replace("`", "``") + "`" for field in schema}
        texts = [field.name for field in schema if field.dataType.typeName() == "string"]
        return frame.selectExpr(
            *[f"collate({q}, '{collation}') AS {q}" if name in texts else q for name, q in quoted.items()]
        )

    return make


def _pandas(table: pa.Table) -> Any:
    import pandas as pd

    # pandas' own types with missing values; by default whole numbers with nulls would become floats.
    types = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
    return table.to_pandas(types_mapper=types.get)


def _polars(table: pa.Table) -> Any:
    import polars as pl

    return pl.from_arrow(table)


def _duckdb(table: pa.Table) -> Any:
    """A relation of a session under whose collation several spellings are one."""
    connection = duckdb.connect()
    for setting in HOSTILE_SETTINGS:
        connection.execute(setting)
    return connection.from_arrow(table)


def _ibis(table: pa.Table) -> Any:
    import ibis

    backend = ibis.duckdb.connect()
    for setting in HOSTILE_SETTINGS:
        backend.raw_sql(setting)
    backend.con.from_arrow(table).create("people")
    return opened_by_ibis(backend)


def _dask(table: pa.Table) -> Any:
    import dask.dataframe as dd
    import pandas as pd

    return dd.from_pandas(table.to_pandas(types_mapper=pd.ArrowDtype), npartitions=2)


_FRAMES: dict[str, Maker] = {
    "pandas": _pandas,
    "polars": _polars,
    "polars-lazy": lambda table: _polars(table).lazy(),
    "pyarrow": lambda table: table,
    "duckdb": _duckdb,
    "ibis": _ibis,
    "dask": _dask,
}


@pytest.fixture(params=BEHIND_IBIS)
def database(request: pytest.FixtureRequest) -> Maker:
    return make(request.param, request)


@pytest.fixture(scope="module")
def databases(postgresql_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Databases]:
    with psycopg.connect(postgresql_server, autocommit=True) as connection:
        connection.execute("create database people_of_tests")
        connection.execute("alter database people_of_tests set timezone = 'Asia/Tokyo'")
    yield Databases(postgresql_server.replace("/postgres?", "/people_of_tests?"), tmp_path_factory.mktemp("databases"))
    with psycopg.connect(postgresql_server, autocommit=True) as connection:
        connection.execute("drop database people_of_tests with (force)")


@pytest.fixture(scope="session")
def postgresql_connection(postgresql_server: str) -> Iterator[Any]:
    """A database whose collation "blind" takes letters of both cases, with or without accents, for one."""
    with psycopg.connect(postgresql_server, autocommit=True) as connection:
        connection.execute("CREATE DATABASE warehouse")
    address = postgresql_server.replace("/postgres?", "/warehouse?")
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION citext")
        connection.execute("CREATE COLLATION blind (provider = icu, locale = 'und-u-ks-level1', deterministic = false)")
        connection.execute("SET TimeZone = 'Asia/Tokyo'")
        yield connection


@pytest.fixture(scope="session")
def mariadb_connection(mariadb_socket: str) -> Iterator[Any]:
    """A database of Latin-1, whose collations take letters of both cases for one and ignore blanks at the end."""
    import pymysql

    pymysql.install_as_MySQLdb()  # Ibis looks for mysqlclient, which has to be compiled
    settings = {"unix_socket": mariadb_socket, "user": "root", "autocommit": True}
    with pymysql.connect(**settings, charset="utf8mb4") as connection:
        with connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE warehouse")
            cursor.execute("USE warehouse")
        yield connection


@pytest.fixture(scope="session")
def clickhouse_client() -> Iterator[Any]:
    """ClickHouse's engine in this process, through the driver that Ibis uses for servers."""
    import clickhouse_connect

    with clickhouse_connect.get_client(interface="chdb") as client:
        client.command("SET use_variant_as_common_type = 0")  # as older servers have it
        yield client


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests of `engine` on every engine, those of `source` on files too, and the contract on databases too."""
    behind_ibis = BEHIND_IBIS if metafunc.module.__name__ in CONTRACT else []
    for name, files in (("engine", []), ("source", FILES)):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, [*ENGINES, *behind_ibis, *files], indirect=True)


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> Maker:
    return make(request.param, request)


@pytest.fixture
def source(request: pytest.FixtureRequest) -> Maker:
    return make(request.param, request)


@pytest.fixture(params=LOCAL)
def local(request: pytest.FixtureRequest) -> Maker:
    return make(request.param, request)


@pytest.fixture(params=CLUSTER)
def cluster(request: pytest.FixtureRequest) -> Maker:
    return make(request.param, request)
