"""A database that cannot be used: a wrong password reads unlike a server that is away, and is never repeated."""

from __future__ import annotations

import time
from pathlib import Path

import psycopg
import pytest
from server_cases import inside

from thresher.errors import StoreUnavailable
from thresher.roles.collector.store import CollectorStore
from thresher.roles.database.postgresql import _not_connected

SECRET = "correct-horse"


@pytest.fixture(scope="module")
def database(postgresql_server):
    """Accounts that may not do everything, at a real server; its socket's directory."""
    with psycopg.connect(postgresql_server, autocommit=True) as connection:
        for name in ("locked", "rejected", "closed_out"):
            connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'another'")
        connection.execute("CREATE ROLE nologin")
        connection.execute("CREATE DATABASE closed")
        connection.execute("REVOKE CONNECT ON DATABASE closed FROM PUBLIC")
        rules = Path(connection.execute("SHOW hba_file").fetchone()[0])
        before = rules.read_text()
        rules.write_text("local all locked scram-sha-256\nlocal all rejected reject\n" + before)
        connection.execute("SELECT pg_reload_conf()")
        end = time.monotonic() + 60
        while not connection.execute("SELECT 1 FROM pg_hba_file_rules WHERE user_name = '{locked}'").fetchone():
            assert time.monotonic() < end
    yield postgresql_server.partition("host=")[2]
    rules.write_text(before)


@pytest.mark.parametrize(
    ("account", "name", "says"),
    [
        (f"locked:{SECRET}", "postgres", "refuses this account with this password"),
        ("locked", "postgres", "wants a password"),
        ("rejected", "postgres", "does not take connections of this account"),
        (f"nobody:{SECRET}", "postgres", "knows no such account"),
        ("nologin", "postgres", "does not let this account log in"),
        ("thresher", "missing", "does not exist on that server"),
        ("closed_out", "closed", "does not let this account connect"),
    ],
)
def test_what_is_refused_says_why_and_is_not_waited_for(database, tmp_path, account, name, says, monkeypatch):
    monkeypatch.delenv("PGPASSWORD", raising=False)
    address = f"postgresql://{account}@/{name}?host={database}"
    with pytest.raises(StoreUnavailable, match=says) as refused:
        CollectorStore.open(address)
    assert refused.value.lasting
    assert SECRET not in str(refused.value)
    # A start of the server would wait an hour for a database that is away.
    with pytest.raises(StoreUnavailable, match=says), inside(tmp_path / "data", store=address, store_seconds=3600.0):
        pass


def test_what_this_account_may_not_do_says_so(database):
    with pytest.raises(StoreUnavailable, match="does not let this account do"):
        CollectorStore.open(f"postgresql://closed_out@/postgres?host={database}")


@pytest.mark.parametrize(
    ("address", "says", "lasting"),
    [
        (f"postgresql://u:{SECRET}@127.0.0.1:9/x", "cannot be reached", False),
        (f"postgresql://u:{SECRET}@no-such-machine.invalid/x", "name is not known", False),
        (f"postgresql://u:{SECRET}@/x?host=/no/such/directory", "cannot be reached", False),
        (f"postgresql://u:{SECRET}@/x?nonsense=1", "address that cannot be read", True),
    ],
)
def test_what_is_away_says_so_and_may_come_back(address, says, lasting):
    with pytest.raises(StoreUnavailable, match=says) as away:
        CollectorStore.open(address)
    assert away.value.lasting is lasting
    assert SECRET not in str(away.value)


@pytest.mark.parametrize(
    ("words", "says", "lasting"),
    [
        ("FATAL:  the database system is starting up", "is starting or stopping", False),
        ("FATAL:  sorry, too many clients already", "has no connections left", False),
        ("connection timeout expired", "does not answer in time", False),
        ("SSL error: certificate verify failed", "certificate that is not trusted", True),
        ("server does not support SSL, but SSL was required", "does not speak TLS", True),
        ("FATAL:  etwas anderes", "refuses the connection", False),
    ],
)
def test_other_words_of_the_driver(words, says, lasting):
    error = _not_connected(psycopg.OperationalError(words))
    assert says in error.message
    assert error.lasting is lasting
