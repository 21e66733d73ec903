"""A full disk and a lost database: 503 with Retry-After, nothing acknowledged is lost, and it mends by itself.

Every device holds a value of its own and the threshold is 1, so a release names exactly the reports that were counted.
"""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fleet_server import started
from fleet_under_load import SERVE, Handful, ask, await_query, histogram, released
from own_postgresql import own_postgresql

from thresher.errors import NotFound

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

NAMES = [f"device-{number}" for number in range(20)]
HALF = len(NAMES) // 2


@contextlib.contextmanager
def small_disk(path: Path, megabytes: int) -> Iterator[Path]:
    """A file system of a few megabytes."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=700", "tmpfs", str(path)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def fill(disk: Path) -> Path:
    """Take all the room there is."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while file.write(b"x" * size) == size:
                    pass
    with pytest.raises(OSError) as full:
        (disk / "more").write_bytes(b"x" * 4096)
    assert full.value.errno == errno.ENOSPC
    (disk / "more").unlink(missing_ok=True)
    return filler


def is_unavailable(answer: httpx.Response) -> bool:
    """503 as it should be: with Retry-After, and without a word about the machine."""
    if answer.status_code == 503:
        assert int(answer.headers["retry-after"]) >= 1
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["code"] in ("store-unavailable", "ledger-unavailable")
        assert "/" not in answer.json()["detail"] and "sql" not in answer.text.lower()
    return answer.status_code == 503


def all_unavailable(few: Handful, round: str, names: list[str], client: httpx.Client) -> None:
    """Reports and enrolments are refused for now; the process lives."""
    for name in names:
        assert few.report(client, name, round) == 503 and is_unavailable(few.seen[-1])
    enrol = few.devices[names[0]].enrol_request(few.server.enrolment_key)
    headers = {"Authorization": f"Bearer {enrol.token}"}
    assert is_unavailable(client.post(enrol.path, content=enrol.body, headers=headers))
    assert client.get("/healthz").status_code == 200


def everybody_counted(client: httpx.Client, query: str) -> None:
    release = released(client, query)
    assert sorted(release.buckets) == sorted(NAMES)
    assert set(release.counts.tolist()) == {1}
    assert release.response is not None and release.response.completed == len(NAMES)


def test_a_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 24) as disk, started(disk / "data", *SERVE) as server:
        few = Handful(server, {name: name for name in NAMES})
        with few.client() as client, server.client(server.analyst) as analyst:
            query = ask(analyst, "first", seconds=3600, completions=len(NAMES))
            round = await_query(analyst, query, opened=True)["rounds"][0]["round"]
            for name in NAMES:
                assert few.check_in(client, name).status_code == 200
            for name in NAMES[:HALF]:
                assert few.report(client, name, round) == "taken"
            bytes_before = {name: few.sealed(name, round) for name in NAMES}
            filler = fill(disk)
            all_unavailable(few, round, NAMES[HALF:], client)
            charges = analyst.get("/v1/ledger").json()["charges"]
            refused = {"name": "second", "query": histogram(), "settings": {"seconds": 4}}
            assert is_unavailable(analyst.post("/v1/queries", json=refused))
            # Killed on a full disk it starts again, in the room that its logs had, or says what is wrong.
            server.kill()
            try:
                server.start()
            except RuntimeError as ended:
                assert "no room" in str(ended) or "space" in str(ended)
            assert "Traceback" not in server.output
            filler.unlink()
            if server.process.poll() is not None:
                server.start()
            assert analyst.get("/v1/ledger").json()["charges"] == charges
            for name in NAMES:  # those that were acknowledged are so again
                assert few.report(client, name, round) == "taken"
                assert few.sealed(name, round) == bytes_before[name]
            await_query(analyst, query)
            everybody_counted(analyst, query)


def test_a_disk_that_fills_up_while_a_round_is_released(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 24) as disk, started(disk / "data", *SERVE) as server:
        few = Handful(server, {name: name for name in NAMES})
        with few.client() as client, server.client(server.analyst) as analyst:
            for seconds in (6, 30, 150):  # a slow machine needs a longer round
                query = ask(analyst, f"open-{seconds}", seconds=seconds)
                status = await_query(analyst, query, opened=True)["rounds"][0]
                with contextlib.suppress(NotFound):  # over already, for a device that checked in too late
                    for name in NAMES:
                        few.check_in(client, name)
                        few.report(client, name, status["round"])
                filler = fill(disk)
                if time.time() < status["deadline"]:
                    break
                filler.unlink()
                await_query(analyst, query)
            time.sleep(max(0.0, status["deadline"] - time.time()) + 2.5)
            assert analyst.get(f"/v1/queries/{query}").json()["state"] == "running"  # tried, and tried again
            filler.unlink()
            await_query(analyst, query)
            everybody_counted(analyst, query)
            asked = analyst.get("/v1/queries").json()["queries"]
            assert len(analyst.get("/v1/ledger").json()["charges"]) == len(asked)


def test_a_lost_database(tmp_path: Path) -> None:
    with own_postgresql() as cluster, started(tmp_path / "data", *SERVE, "--store", cluster.url) as server:
        few = Handful(server, {name: name for name in NAMES})
        with few.client() as client, server.client(server.analyst) as analyst:
            query = ask(analyst, "first", seconds=3600, completions=len(NAMES))
            round = await_query(analyst, query, opened=True)["rounds"][0]["round"]
            for name in NAMES:
                assert few.check_in(client, name).status_code == 200
            for name in NAMES[:HALF]:
                assert few.report(client, name, round) == "taken"
            cluster.stop_at_once()
            all_unavailable(few, round, NAMES[HALF:], client)
            assert is_unavailable(few.check_in(client, NAMES[0]))
            assert is_unavailable(analyst.get(f"/v1/queries/{query}"))
            ready = analyst.get("/readyz")
            assert ready.status_code == 503
            assert ready.json()["roles"] == dict.fromkeys(
                ("collector", "aggregator", "coordinator"), "store unavailable"
            )
            cluster.start()
            for name in NAMES:  # at once, without a restart
                assert few.report(client, name, round) == "taken"
            await_query(analyst, query)
            everybody_counted(analyst, query)
            assert analyst.get("/readyz").status_code == 200
    assert "Traceback" not in server.output
