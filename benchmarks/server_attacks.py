"""How fast health checks and check-ins are answered while one host attacks the server: endless requests, connections
that are never used, plans that cost seconds.

The attacker is a process of its own at another loopback address. Each attack is bounded in count and time. What counts
is the ratio to the same server without an attack, in the same run.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import multiprocessing
import resource
import secrets
import socket
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import httpx

from measurement import Measurement
from thresher.privacy import Plan
from thresher.simulator.local_server import LocalServer, local_server
from thresher.verbs import HeavyHittersQuery

ATTACKER = "127.0.0.2"
SECONDS = 8.0
"""How long each attack is watched, and how long it lasts at most."""
PIECE = b"a" * (1 << 20)
CONNECTIONS = 10_000
PLANS = 64

Attack = Callable[[str, int, str], None]
VISIT = '{"versions":[2],"reports":[],"rounds":true}'


def measure() -> list[Measurement]:
    rows = []
    with local_server() as server:
        device = _token(server)
        quiet = _probe(server, device)
        rows += _rows("no attack", quiet, None)
        for name, attack in ATTACKS.items():
            with _attacked(server, attack):
                rows += _rows(name, _probe(server, device), quiet)
    return rows


# Attacks. Each opens connections from the attacker's address; a server that closes them is what we hope for.


def endless_header(host: str, port: int, _: str) -> None:
    """60 MB of one header, again and again."""
    _flood(host, port, b"GET / HTTP/1.1\r\nX: ")


def endless_trailer(host: str, port: int, _: str) -> None:
    """60 MB of one line behind a body."""
    _flood(host, port, b"POST /v2/visit HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ")


def half_sent_heads(host: str, port: int, _: str) -> None:
    """Ten thousand connections that send half a request and wait."""
    held: list[socket.socket] = []
    end = time.monotonic() + SECONDS
    while time.monotonic() < end and len(held) < CONNECTIONS:
        try:
            connection = socket.create_connection((host, port), timeout=5, source_address=(ATTACKER, 0))
            connection.sendall(b"GET / HTTP/1.1\r\nX: ")
        except OSError:
            time.sleep(0.001)
            continue
        held.append(connection)
    time.sleep(max(0.0, end - time.monotonic()))


def expensive_plans(host: str, port: int, token: str) -> None:
    """Sixty-four plans of 500 rounds and a large threshold at a time, from somebody with an analyst's token."""
    headers = {"Authorization": f"Bearer {token}"}
    end = time.monotonic() + SECONDS

    def ask(_: int) -> None:
        transport = httpx.HTTPTransport(local_address=ATTACKER)
        with httpx.Client(transport=transport, timeout=SECONDS) as client:
            while time.monotonic() < end:
                query = HeavyHittersQuery("word", _other_plan(), method="trie").to_dict()
                body = json.dumps({"name": "x", "query": query, "settings": {"bucket_size": 1024}})
                with contextlib.suppress(httpx.HTTPError):
                    status = client.post(f"http://{host}:{port}/v1/plans", content=body, headers=headers).status_code
                    assert status in (200, 429), status  # it is computed, or refused because others are

    with ThreadPoolExecutor(PLANS) as threads:
        list(threads.map(ask, range(PLANS)))


def _other_plan() -> Plan:
    """A plan that costs seconds to check and was not checked before."""
    return Plan(0.001 + secrets.randbits(32) / 2**45, 5000, 1.0, 1e-12, rounds=500)


ATTACKS: dict[str, Attack] = {
    "an endless header": endless_header,
    "an endless line after a body": endless_trailer,
    f"{CONNECTIONS:,} half-sent requests": half_sent_heads,
    f"{PLANS} expensive plans at a time": expensive_plans,
}


def _flood(host: str, port: int, start: bytes) -> None:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        with (
            contextlib.suppress(OSError),
            socket.create_connection((host, port), timeout=5, source_address=(ATTACKER, 0)) as connection,
        ):
            connection.sendall(start)
            for _ in range(60):
                connection.sendall(PIECE)


@contextlib.contextmanager
def _attacked(server: LocalServer, attack: Attack) -> Iterator[None]:
    address = urlsplit(server.url)
    arguments = (address.hostname, address.port, server.analyst_key)
    process = multiprocessing.get_context("spawn").Process(target=_run, args=(attack, *arguments))
    process.start()
    try:
        time.sleep(2.0)  # it has begun
        yield
    finally:
        process.join(4 * SECONDS)
        process.kill()
        process.join()


def _run(attack: Attack, *arguments: object) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    attack(*arguments)  # type: ignore[arg-type]


# Probes, each over a connection of its own, as a load balancer's and a device's are.


def _token(server: LocalServer) -> str:
    headers = {"Authorization": f"Bearer {server.enrolment_key}"}
    answer = httpx.post(f"{server.url}/v2/devices", json={"versions": [2]}, headers=headers, timeout=30)
    return str(answer.raise_for_status().json()["token"])


def _probe(server: LocalServer, token: str) -> dict[str, list[float | None]]:
    """Seconds of each request, None for one that failed or took five seconds."""
    taken: dict[str, list[float | None]] = {"health": [], "visit": []}
    address = urlsplit(server.url).netloc
    requests: dict[str, tuple[Any, ...]] = {
        "health": ("GET", "/healthz"),
        "visit": ("POST", "/v2/visit", VISIT, {"Authorization": f"Bearer {token}"}),
    }
    end = time.monotonic() + SECONDS - 2.0
    while time.monotonic() < end:
        for name, request in requests.items():
            start = time.perf_counter()
            try:
                with contextlib.closing(http.client.HTTPConnection(address, timeout=5)) as connection:
                    connection.request(*request)
                    good = connection.getresponse().status == 200
            except OSError:
                good = False
            taken[name].append(time.perf_counter() - start if good else None)
            time.sleep(0.05)
    return taken


def _rows(
    attack: str, taken: dict[str, list[float | None]], quiet: dict[str, list[float | None]] | None
) -> list[Measurement]:
    rows = []
    for name, all_taken in taken.items():
        answered = [seconds for seconds in all_taken if seconds is not None]
        failed = len(all_taken) - len(answered)
        slowest = f"the slowest {1000 * max(answered):.0f} ms" if answered else "none was answered"
        median = 1000 * statistics.median(answered) if answered else float("inf")
        note = f"median of {len(all_taken)}, {slowest}, {failed} failed"
        if quiet is not None:
            before = [seconds for seconds in quiet[name] if seconds is not None]
            note += f"; {median / (1000 * statistics.median(before)):.1f} × without"
        rows.append(Measurement(name=f"{attack}: {name}", value=median, unit="ms", target=None, note=note))
    return rows
