"""Real databases for the fleet's tests: every test that takes `store_url` runs on SQLite and on PostgreSQL."""

import contextlib
import itertools
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from thresher.fleet.store import AggregatorStore, CollectorStore, CoordinatorStore

ROOT = Path(__file__).parents[2]
_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def postgresql_server():
    """The address of a private PostgreSQL; each worker has its own, and only if a test asks for one."""
    process = subprocess.Popen(
        [sys.executable, ROOT / "scripts" / "postgres-for-tests"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    address = process.stdout.readline().strip()
    assert address, "PostgreSQL did not start; scripts/setup-machine installs it"
    try:
        yield address
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(60)


@pytest.fixture
def postgresql_url(postgresql_server):
    """The address of an empty database."""
    name = f"test_{next(_NUMBERS)}"
    with psycopg.connect(postgresql_server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield postgresql_server.replace("/postgres?", f"/{name}?")
    with psycopg.connect(postgresql_server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request, tmp_path):
    """Where a role's store can be opened: a directory or an address."""
    if request.param == "sqlite":
        return str(tmp_path / "stores")
    return request.getfixturevalue("postgresql_url")


@pytest.fixture
def collector(store_url):
    """A collector's store."""
    with contextlib.closing(CollectorStore.open(store_url)) as store:
        yield store


@pytest.fixture
def aggregator(store_url):
    """A aggregator's store."""
    with contextlib.closing(AggregatorStore.open(store_url)) as store:
        yield store


@pytest.fixture
def coordinator(store_url):
    """A coordinator's store."""
    with contextlib.closing(CoordinatorStore.open(store_url)) as store:
        yield store
