"""A value that one device holds, below the threshold, is nowhere to be found: no log, answer, metric, error or file.

Its device's coin comes up heads, so its report is real: sealed at the collector, opened and counted by the aggregator.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import socket
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fleet_server
import pytest
from canary_cases import (
    Watching,
    await_looks,
    bodies,
    contents,
    found_in,
    identities,
    path_of,
    pieces,
    right_bodies,
    spellings,
    tokens_of,
)
from fleet_server import RunningServer, started
from fleet_under_load import BUDGET, Handful, ask, await_query, histogram, released, three_servers

from thresher.privacy.plans import Plan

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

PLAN = Plan(sampling_rate=2**-4, threshold=10, epsilon=3.0, delta=1e-3)
COMMON = "common"
DEVICES = 24
SERVE = (*BUDGET, "--come-back", "1")
# The command has no setting for its log; this is everything that Python's root logger would ever show.
PROBE = "the log is open"
ALL_LOGS = f"import logging; logging.basicConfig(level=1); logging.getLogger('test').debug({PROBE!r}); "


@pytest.fixture(autouse=True)
def all_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_server, "_BOOT", ALL_LOGS + fleet_server._BOOT)


@dataclass
class Servers:
    """Where each role answers; with one process, all the same."""

    aggregator: RunningServer
    collector: RunningServer
    coordinator: RunningServer

    @property
    def each(self) -> list[RunningServer]:
        every = (self.aggregator, self.collector, self.coordinator)
        return list({id(server): server for server in every}.values())

    @property
    def directories(self) -> list[Path]:
        return [server.data_dir for server in self.each]

    def of(self, role: str) -> Path:
        """A role's own files."""
        return getattr(self, role).data_dir / role


@contextlib.contextmanager
def together(tmp_path: Path, *arguments: str) -> Iterator[Servers]:
    with started(tmp_path / "data", *SERVE, *arguments) as server:
        yield Servers(server, server, server)


@contextlib.contextmanager
def apart(tmp_path: Path) -> Iterator[Servers]:
    with three_servers(tmp_path, *BUDGET) as servers:
        yield Servers(*servers)


@dataclass
class Round:
    """A round that has been released, and what went into it."""

    canary: str
    few: Handful
    sealed: list[bytes]
    answers: list[bytes]


def look_around(servers: Servers, few: Handful, query: str) -> None:
    """Ask everybody for everything that there is to be read; the answers are kept."""
    for server in servers.each:
        with few.client() as client:
            client.base_url = server.url
            for path in ("/metrics", "/healthz", "/readyz", "/openapi.json"):
                assert client.get(path).status_code == 200
    for token in (servers.coordinator.analyst, servers.coordinator.operator):
        with few.client(token) as client:
            client.base_url = servers.coordinator.url
            for path in ("", f"/{query}", f"/{query}/releases"):
                assert client.get(f"/v1/queries{path}").status_code == 200
            for path in ("ledger", "fleet", "operator/tokens", "operator/enrolment-keys", "operator/keys"):
                client.get(f"/v1/{path}")
            read_console(client, query)


def read_console(client: Any, query: str) -> None:
    """Sign in and follow every link of the console's pages."""
    token = client.headers["Authorization"].removeprefix("Bearer ")
    form = client.get("/login").text
    mark = re.search(r'name="csrf" value="([^"]+)"', form)
    assert mark is not None
    origin = {"Origin": str(client.base_url).rstrip("/")}
    entered = client.post("/login", data={"csrf": mark[1], "token": token, "next": "/"}, headers=origin)
    assert entered.status_code == 303, entered.text
    todo, done = ["/", f"/queries/{query}", f"/queries/{query}/answer"], set()
    while todo:
        path = todo.pop()
        if path in done:
            continue
        done.add(path)
        answer = client.get(path)
        assert answer.status_code < 500, (path, answer.text)
        if "html" in answer.headers.get("content-type", ""):
            todo += [link.replace("&amp;", "&") for link in re.findall(r'(?:href|hx-get|src)="(/[^"#]*)"', answer.text)]
    assert len(done) > 5


def run_round(servers: Servers, plan: Plan = PLAN) -> Round:
    """One device holds the canary, the others a common value; nothing but the common value is released.

    Where several values of a device count, the one holds another value beside the canary.
    """
    canary = f"canary-{secrets.token_hex(8)}"
    needles = spellings(canary)
    held: Any = canary if plan.contributions == 1 else [canary, "rare"]
    values = {f"device-{number}": COMMON for number in range(DEVICES)} | {"the-one": held}
    few = Handful(servers.collector, values)
    assert not found_in(contents(*servers.directories), needles)
    with few.client(servers.coordinator.analyst) as analyst, few.client() as client:
        analyst.base_url = servers.coordinator.url
        query = ask(analyst, "words", histogram(plan), seconds=3600, completions=len(values))
        round = await_query(analyst, query, opened=True)["rounds"][0]["round"]
        with Watching(needles, *servers.directories) as watching:
            for name in values:
                assert few.check_in(client, name).status_code == 200
            sealed = [few.sealed(name, round) for name in values]
            assert few.report(client, "the-one", round) == "taken"
            # The scan can find things: the sealed report is in the collector's files, and in nobody else's.
            assert found_in(contents(servers.of("collector")), pieces(sealed[-1:]))
            assert not found_in(contents(servers.of("coordinator")), pieces(sealed[-1:]))
            look_around(servers, few, query)
            for name in values:
                assert few.report(client, name, round) == "taken"
            await_query(analyst, query)
            await_looks(watching)
        assert not watching.found
        release = released(analyst, query)
        assert release.buckets == [COMMON] and release.counts.tolist() == [DEVICES]
        look_around(servers, few, query)
    answers = [b"%r %b" % (list(answer.headers.raw), answer.content) for answer in few.seen]
    return Round(canary, few, sealed, answers)


def nothing_is_left(servers: Servers, ended: Round) -> None:
    needles = spellings(ended.canary)
    for answer in ended.answers:
        assert not [name for name, needle in needles.items() if needle in answer]
    assert not found_in(contents(*servers.directories), needles)
    tokens = [device.token for device in ended.few.devices.values()]
    for server in servers.each:
        output = server.output.encode()
        assert not [name for name, needle in needles.items() if needle in output]
        assert not any(token.encode() in output for token in tokens)
        assert PROBE in server.output  # it was as talkative as it can be
        assert "Traceback" not in server.output


def devices_of(store: Path, few: Handful) -> dict[str, str]:
    """Tokens by device id, from the collector's own file."""
    from thresher.roles.tokens import token_hash

    tokens = {token_hash(device.token): device.token for device in few.devices.values()}
    with contextlib.closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
        return {
            id: tokens[bytes(hashed)] for id, hashed in connection.execute("SELECT device, token_hash FROM devices")
        }


def test_nobody_learns_one_of_several_values(tmp_path: Path) -> None:
    several = Plan(PLAN.sampling_rate, PLAN.threshold, PLAN.epsilon, PLAN.delta, contributions=3)
    with together(tmp_path) as servers:
        ended = run_round(servers, several)
        nothing_is_left(servers, ended)
        assert not found_in(contents(*servers.directories), pieces(ended.sealed))


@pytest.mark.parametrize("processes", [together, apart], ids=["one process", "three processes"])
def test_nobody_learns_it(processes, tmp_path: Path) -> None:
    with processes(tmp_path) as servers:
        ended = run_round(servers)
        nothing_is_left(servers, ended)
        # The sealed reports are gone, from logs and free pages too.
        assert not found_in(contents(*servers.directories), pieces(ended.sealed))
        devices = devices_of(servers.of("collector") / "collector.db", ended.few)
        assert len(devices) == DEVICES + 1
        who = identities(devices)
        assert found_in(contents(servers.of("collector")), who)  # it knows them, and the scan finds them
        assert not found_in(contents(servers.of("aggregator"), servers.of("coordinator")), who)
        for server in servers.each:
            assert not [name for name, needle in who.items() if needle in server.output.encode()]
            assert server.stop() == 0
        nothing_is_left(servers, ended)


def test_nobody_learns_it_on_postgresql(tmp_path: Path, postgresql_url: str, postgresql_server: str) -> None:
    import psycopg

    cluster = Path(postgresql_server.partition("host=")[2])
    with together(tmp_path, "--store", postgresql_url) as servers:
        canary = f"canary-{secrets.token_hex(8)}"
        values = {f"device-{number}": COMMON for number in range(DEVICES)} | {"the-one": canary}
        few = Handful(servers.collector, values)
        with few.client(servers.coordinator.analyst) as analyst, few.client() as client:
            query = ask(analyst, "words", histogram(PLAN), seconds=3600, completions=len(values))
            round = await_query(analyst, query, opened=True)["rounds"][0]["round"]
            for name in values:
                few.check_in(client, name)
                assert few.report(client, name, round) == "taken"
            await_query(analyst, query)
            assert released(analyst, query).buckets == [COMMON]
        tokens = {device.token for device in few.devices.values()}
        with psycopg.connect(postgresql_url, autocommit=True) as connection:
            connection.execute("CHECKPOINT")
            rows = connection.execute("SELECT device, token_hash FROM thresher_collector.devices").fetchall()
            from thresher.roles.tokens import token_hash

            hashes = {token_hash(token): token for token in tokens}
            who = identities({device: hashes[hashed] for device, hashed in rows})
            texts = b"".join(
                str(row[0]).encode()
                for role in ("aggregator", "coordinator")
                for (table,) in connection.execute(
                    "SELECT tablename FROM pg_tables WHERE schemaname = %s", (f"thresher_{role}",)
                ).fetchall()
                for row in connection.execute(f'SELECT t::text FROM thresher_{role}."{table}" t').fetchall()
            )
        assert COMMON.encode() in texts and not [name for name, needle in who.items() if needle in texts]
        files = list(contents(cluster, tmp_path))
        assert sum(len(content) for _, content in files) > 10_000_000
        assert any("pg_wal" in path.parts for path, _ in files)
        assert not found_in(files, spellings(canary))
        assert found_in(files, {"common": COMMON.encode()})  # the scan reads what the database writes
        assert "Traceback" not in servers.collector.output and canary not in servers.collector.output


def test_errors_do_not_repeat_what_was_sent(tmp_path: Path) -> None:
    """A marker in every field, path and header of requests that are refused."""
    marker = f"canary{secrets.token_hex(8)}"
    with together(tmp_path) as servers:
        server = servers.collector
        few = Handful(server, {"one": "x"})
        tokens = tokens_of(server, few.devices["one"].token)
        right = right_bodies(server)
        refused = 0
        with server.client() as client:
            document = client.get("/openapi.json").json()

            def provoke(method: str, path: str, token: str | None, **content: Any) -> None:
                nonlocal refused
                headers = {"Content-Type": "application/json", **content.pop("headers", {})}
                if token is not None:
                    headers["Authorization"] = token
                answer = client.request(method, path, headers=headers, **content)
                assert answer.status_code != 500, (method, path, content)
                if answer.status_code >= 400:
                    refused += 1
                    said = answer.text + repr(answer.headers.raw)
                    assert marker not in said, (method, path, content, answer.text)

            for path, item in document["paths"].items():
                for method, operation in item.items():
                    [kind, *_] = [kind for entry in operation["security"] for kind in entry] or [None]
                    token = f"Bearer {tokens[kind]}" if kind else None
                    at = path_of(path, marker)
                    if "/events" not in path:
                        for way in (token, None, marker, f"Bearer {marker}", f"Bearer thresher-{kind}-{marker * 2}"):
                            provoke(method, at, way)
                    for other in (f"{at}/{marker}", f"{at}?{marker}={marker}", f"{at}%2f{marker}%00%ff", f"{at}%0a"):
                        if "/events" not in path:
                            provoke(method, other, token)
                    for unknown in ("PATCH", marker[:8].upper()):
                        provoke(unknown, at, token, headers={"X-Marker": marker, "Cookie": marker, "Accept": marker})
                    if operation["operationId"] in right:
                        for body in bodies(right[operation["operationId"]], marker):
                            provoke(method, at, token, content=body)
                        provoke(method, at, token, content=b"{}", headers={"Content-Type": marker})
            for path in ("/", "/login", "/queries", f"/{marker}", f"/queries/{marker}", "/operate", "/ask/plan"):
                provoke("GET", path, None)
                provoke("POST", path, None, content=f"csrf={marker}&token={marker}&next=/{marker}".encode())
        for raw in (
            f"GET /{marker}\x00 HTTP/9.9\r\n\r\n", f"{marker}\r\n\r\n", f"GET / HTTP/1.1\r\n{marker}\r\n\r\n",
            f"POST /v2/visit HTTP/1.1\r\nHost: {marker}\r\nContent-Length: {marker}\r\n\r\n",
            f"POST /v2/visit HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{marker}\r\n",
        ):  # fmt: skip
            with socket.create_connection(("127.0.0.1", server.port), timeout=10) as wire:
                wire.sendall(raw.encode())
                wire.shutdown(socket.SHUT_WR)
                answer = b"".join(iter(lambda: wire.recv(65536), b""))
            assert marker.encode() not in answer
        assert refused > 500
        assert server.stop() == 0
        assert marker not in server.output and "Traceback" not in server.output
        assert "internal error" not in server.output


LEAKS = (
    "import thresher.roles.aggregator.report_opening as p; real = p.decode_payload; "
    "p.decode_payload = lambda content, question: (logging.debug('%r', content), real(content, question))[1]; "
    "import thresher.roles.database.sqlite as s; "
    "s._PRAGMAS = s._PRAGMAS.replace('secure_delete = ON', 'secure_delete = OFF'); "
)


def test_a_server_that_leaks_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: one that logs what it opens, and deletes without overwriting."""
    monkeypatch.setattr(fleet_server, "_BOOT", fleet_server._BOOT.replace(ALL_LOGS, ALL_LOGS + LEAKS))
    with together(tmp_path) as servers:
        ended = run_round(servers)
        with pytest.raises(AssertionError, match="plain"):
            nothing_is_left(servers, ended)
        assert found_in(contents(*servers.directories), pieces(ended.sealed))
