"""`kill -9` at random instants under load, on SQLite and on PostgreSQL.

Every acknowledged report is counted exactly once, no release is drawn again, no charge is given back or made twice, and
the server comes back by itself. With THRESHER_LONG=1 in the environment there are 50 kills on each store.
"""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import threading
import time
from pathlib import Path

import fleet_server
import pytest
from fleet_server import RunningServer, started
from fleet_under_load import BUDGET, SERVE, Load, three_servers
from own_postgresql import OwnPostgreSQL, own_postgresql

LONG = os.environ.get("THRESHER_LONG") == "1"
KILLS = 50 if LONG else 5

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800 if LONG else 300)]


def interrupted_start(server: RunningServer, seconds: float) -> None:
    """A start that is killed before or soon after it is ready: recovery itself is interrupted."""
    before = server.process

    def start() -> None:
        with contextlib.suppress(RuntimeError):  # "the server ended", as it should
            server.start()

    starting = threading.Thread(target=start)
    starting.start()
    while server.process is before:
        time.sleep(0.01)
    time.sleep(seconds)
    server.kill()
    starting.join(60)


def kill_again_and_again(server: RunningServer, dice: random.Random, kills: int) -> None:
    for _ in range(kills):
        time.sleep(dice.uniform(0.05, 1.5))
        server.kill()
        if dice.random() < 0.2:
            interrupted_start(server, dice.uniform(0.02, 0.5))
        server.start()


def finished(load: Load) -> None:
    """Every promise was kept, also after one more kill; and there was something to keep."""
    seen = load.check()
    load.asked.kill()
    load.asked.start()
    assert load.check() == seen
    print(f"{dict(seen)}, {dict(load.promises.statuses)}")
    # One of the queries waits for a third of the devices, however often the server is killed.
    assert seen["queries"] >= 3 and seen["completed"] >= 26
    for server in (load.server, load.asked):
        assert "Traceback" not in server.output and "internal error" not in server.output


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_kill_9_at_random_instants(store: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    seed = secrets.randbelow(1 << 32)
    print(f"seed {seed}")  # shown if it fails
    where = ("--store", request.getfixturevalue("postgresql_url")) if store == "postgresql" else ()
    with started(tmp_path / "data", *SERVE, *where) as server:
        with Load(server) as load:
            load.under_way()
            kill_again_and_again(server, random.Random(seed), KILLS)
        finished(load)


def test_kill_9_of_one_role_or_another(tmp_path: Path) -> None:
    """Three processes on real HTTP between them; the others live on while one is away."""
    seed = secrets.randbelow(1 << 32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    with three_servers(tmp_path, *BUDGET, "--no-console") as servers:
        _, collector, coordinator = servers
        with Load(collector, coordinator=coordinator) as load:
            load.under_way()
            for number in range(KILLS):
                time.sleep(dice.uniform(0.05, 2.0))
                server = servers[number % 3] if number < 3 else dice.choice(servers)
                server.kill()
                time.sleep(dice.uniform(0.0, 0.5))
                server.start()
        finished(load)
        assert "Traceback" not in servers[0].output and "internal error" not in servers[0].output


def test_kill_9_of_one_of_two_collectors(tmp_path: Path, postgresql_url: str) -> None:
    """They share a database: each request of a device goes to one of them, at random."""
    dice = random.Random()
    where = ("--store", postgresql_url)
    with (
        started(tmp_path / "first", *SERVE, *where) as first,
        started(tmp_path / "second", "--role", "collector", "--come-back", "1", *where) as second,
    ):
        with Load(first, beside=[second], letters=False) as load:
            load.under_way()
            for number in range(KILLS // 2):
                time.sleep(dice.uniform(0.05, 1.5))
                server = (second, first)[number % 2]
                server.kill()
                time.sleep(dice.uniform(0.0, 0.5))
                server.start()
        finished(load)
        assert "Traceback" not in second.output and "internal error" not in second.output


def test_a_first_start_that_is_killed(tmp_path: Path) -> None:
    """Whatever of the data directory was made, the next start finishes it."""
    dice = random.Random()
    with contextlib.closing(RunningServer(tmp_path / "data", SERVE)) as server:
        for _ in range(20 if LONG else 3):
            interrupted_start(server, dice.uniform(0.02, 0.6))
        server.start()
        with server.client(server.analyst) as client:
            assert client.get("/readyz").status_code == 200
            assert client.get("/v1/ledger").json()["charges"] == []
    assert "Traceback" not in server.output


def terminate_connections(cluster: OwnPostgreSQL) -> int:
    import psycopg

    with psycopg.connect(cluster.url, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'thresher'"
        ).fetchall()
    return len(rows)


def test_a_database_that_loses_connections_and_restarts(tmp_path: Path) -> None:
    """The server lives on; its database does not."""
    dice = random.Random()
    with own_postgresql() as cluster, started(tmp_path / "data", *SERVE, "--store", cluster.url) as server:
        with Load(server, letters=False) as load:
            load.under_way()
            lost = 0
            for number in range(24 if LONG else 6):
                time.sleep(dice.uniform(0.3, 1.2))
                if number % 3 == 2:
                    cluster.stop_at_once()
                    time.sleep(dice.uniform(0.0, 0.8))
                    cluster.start()
                else:
                    lost += terminate_connections(cluster)
            assert server.process is not None and server.process.poll() is None, server.output
        assert lost > 0
        finished(load)


def test_a_server_that_acknowledges_and_does_not_store_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative control: one report in two is answered with 200 and dropped.

    One of the queries waits for 26 reports that are stored: that none was dropped before has probability 2^-26.
    """
    careless = (
        "from thresher.roles.collector.collector import Collector, Outcome, Visited; real = Collector.visit; "
        "Collector.visit = lambda self, given: [Visited((Outcome.ACCEPTED,) * len(each.reports), ()) "
        "if each.reports and each.reports[0][1][0] % 2 == 0 else real(self, [each])[0] for each in given]; "
    )
    monkeypatch.setattr(fleet_server, "_BOOT", careless + fleet_server._BOOT)
    with started(tmp_path / "data", *SERVE) as server:
        with Load(server, letters=False, seconds=1.0) as load:
            load.under_way()
            time.sleep(1)
        with pytest.raises(AssertionError):
            load.check()
