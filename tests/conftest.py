"""What all tests share: properties are checked by examples and never by the machine's clock; a real PostgreSQL."""

import itertools
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parents[1]
_NUMBERS = itertools.count()

settings.register_profile("thresher", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("thresher")


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
