"""What all tests share: examples without a clock, a real PostgreSQL, a real MariaDB, a real Spark."""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parents[1]
_NUMBERS = itertools.count()
_IN_MEMORY, _MOST_FILES = Path("/dev/shm"), 4 << 30

JVM = (
    # The JVM lives for minutes: compiling code less thoroughly takes about a third less processor time.
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
    # Room for all code and classes that Spark makes, and for young objects: else it looks for what it can throw away.
    "-XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=512m -Xmn1g"
)

# In CI a test tries the same examples in every run, so that no change is held up by what another one broke; elsewhere
# hypothesis goes on searching.
settings.register_profile(
    "thresher",
    settings.default,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="CI" in os.environ,
)
settings.load_profile("thresher")


def pytest_configure(config: pytest.Config) -> None:
    """Keep the files of tests in memory, if it is large enough: at thousands of commits they would wait for the disk.

    What tests kill are processes, which lose nothing there either.
    """
    if "PYTEST_DEBUG_TEMPROOT" in os.environ or config.option.basetemp or not _IN_MEMORY.is_dir():
        return
    found = os.statvfs(_IN_MEMORY)
    if found.f_bavail * found.f_frsize > _MOST_FILES and not found.f_flag & (os.ST_NOEXEC | os.ST_RDONLY):
        os.environ["PYTEST_DEBUG_TEMPROOT"] = str(_IN_MEMORY)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of Spark first: workers begin with tests that are neighbours, so that one of them needs a JVM."""
    items.sort(key=lambda item: "spark" not in item.nodeid)


@contextmanager
def _server(script: str) -> Iterator[str]:
    """The address of a private database server that a script runs while its standard input is open."""
    process = subprocess.Popen(
        [sys.executable, ROOT / "scripts" / script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    address = process.stdout.readline().strip()
    assert address, f"{script} did not start; scripts/setup-machine installs what it needs"
    try:
        yield address
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(60)


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """The address of a private PostgreSQL; each worker has its own, and only if a test asks for one."""
    with _server("postgres-for-tests") as address:
        yield address


@pytest.fixture(scope="session")
def mariadb_socket() -> Iterator[str]:
    """The socket of a private MariaDB; each worker has its own, and only if a test asks for one."""
    with _server("mariadb-for-tests") as socket_path:
        yield socket_path


@pytest.fixture
def postgresql_url(postgresql_server):
    """The address of an empty database."""
    name = f"test_{next(_NUMBERS)}"
    with psycopg.connect(postgresql_server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield postgresql_server.replace("/postgres?", f"/{name}?")
    with psycopg.connect(postgresql_server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One Spark for all tests, which also serves Spark Connect, with workers that run this interpreter."""
    from thresher.tables import provide_java

    provide_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    # Bound here until Spark listens, and not listened on: nobody else is given that port while Java starts.
    with socket.socket() as place:
        place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        place.bind(("127.0.0.1", 0))
        port = place.getsockname()[1]
        session = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.plugins", "org.apache.spark.sql.connect.SparkConnectPlugin")
            .config("spark.connect.grpc.binding.port", str(port))
            .config("spark.driver.memory", "2g")
            .config("spark.driver.extraJavaOptions", JVM)
            .config("spark.log.level", "OFF")
            .getOrCreate()
        )
    session.connect_port = port
    session.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    # Both ways in which Spark evaluates: here step by step, through Spark Connect with code that it makes and compiles.
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def spark_connect(spark: Any) -> Iterator[Any]:
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession.builder.remote(f"sc://localhost:{spark.connect_port}").create()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield session
    session.client.close()
