"""How many durable reports a second one server takes, on SQLite and on PostgreSQL, with the generator beside it.

Devices enrol first. Then each makes one visit: it asks for its rounds, seals (untimed), and hands all its reports in
with one request. A request is timed from its first byte sent to its answer read, which means that what it holds is on
disk. The same number of reports is handed in with one round open, and with four rounds open together.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import thresher as th
from measurement import Measurement
from thresher.client.fleet import Fleet, QueryHandle
from thresher.device.core import Request
from thresher.questions import Values
from thresher.simulator.device_visit import each
from thresher.simulator.local_server import LocalServer, local_server
from thresher.simulator.population import Population, words, zipf
from thresher.simulator.simulation import Simulation, run_fast
from thresher.verbs import HistogramQuery

BUDGET = ("--budget-epsilon", "100", "--budget-delta", "1e-3")
REPORTS = 40_000
TOGETHER = (1, 4)
"""Rounds that are open at the same time."""
IN_FLIGHT = 256


def measure() -> list[Measurement]:
    rows = []
    for rounds in TOGETHER:
        with local_server(*BUDGET) as server:
            rows += _load(server, "SQLite", rounds)
        with _postgresql() as url, local_server(*BUDGET, "--store", url) as server:
            rows += _load(server, "PostgreSQL", rounds)
    return rows


@contextlib.contextmanager
def _postgresql() -> Iterator[str]:
    """The address of a PostgreSQL of its own, durable, gone afterwards."""
    script = Path(__file__).parents[1] / "scripts" / "postgres-for-tests"
    process = subprocess.Popen(
        [sys.executable, script, "--durable"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait(60)
        process.stdout.close()


def _load(server: LocalServer, store: str, rounds: int) -> list[Measurement]:
    devices = REPORTS // rounds
    simulation = Simulation(
        server.url,
        server.enrolment_key,
        Population({"word": zipf(words(1000), devices, 1)}),
        workers=IN_FLIGHT,
    )
    fleet = Fleet(server.url, key=server.analyst_key).with_rounds(seconds=3600)
    query = HistogramQuery(Values(("word",)), th.plan(epsilon=1, delta=1e-8))

    def ask() -> list[QueryHandle]:
        handles = [fleet.submit(query, name=f"query-{number}", wait=False, warn=False) for number in range(rounds)]
        while not all(any(round.state == "open" for round in handle.status().rounds) for handle in handles):
            time.sleep(0.05)
        return handles

    enrolling, asking, handing_in, latencies, requests = run_fast(_phases(simulation, devices, rounds, ask))
    p50, p99 = np.quantile(latencies, (0.5, 0.99)) * 1000
    what = f"{store}, {rounds} round{'s' if rounds > 1 else ''} open"
    note = f"{devices:,} devices, {IN_FLIGHT} in flight"
    rows = [
        _row(f"{what}: durable reports", REPORTS / handing_in, "a second", 8000, note),
        _row(f"{what}: reports, whole visits", REPORTS / (asking + handing_in), "a second", None, "ask and hand in"),
        _row(f"{what}: requests", requests / REPORTS, "a report", None, "enrolment not counted"),
        _row(f"{what}: hand in, median", p50, "ms", None, "from first byte to acknowledgement"),
        _row(f"{what}: hand in, 99th percentile", p99, "ms", 200, ""),
    ]
    if rounds == 1:
        rows += [
            _row(f"{store}: visits", devices / asking, "a second", None, "each stores a contact coin; no sealing"),
            _row(f"{store}: enrolments", devices / enrolling, "a second", None, "one commit each"),
        ]
    return rows


async def _phases(
    simulation: Simulation, devices: int, rounds: int, ask: Callable[[], list[QueryHandle]]
) -> tuple[float, float, float, list[float], int]:
    """Enrol, ask, seal, hand in: the seconds of all but sealing, how long each hand-in took, and how many requests."""
    answers: dict[int, tuple[Request, bytes]] = {}
    latencies: list[float] = []
    sealed: dict[int, Request] = {}

    async def visit(device: int) -> None:
        request = simulation.core(device).visit_request(rounds=True)
        assert request is not None
        answer = await simulation.client.send(request.method, request.path, request.token, request.body)
        assert answer.status == 200, answer.status
        answers[device] = request, answer.body

    async def hand_in(device: int) -> None:
        request = sealed[device]
        started = time.perf_counter()
        answer = await simulation.client.send(request.method, request.path, request.token, request.body)
        latencies.append(time.perf_counter() - started)
        outcomes = simulation.core(device).visited(request, answer.body)
        assert [outcome.status for outcome in outcomes] == ["taken"] * rounds

    marks = [time.perf_counter()]
    await simulation.enrol()
    marks.append(time.perf_counter())
    handles = await asyncio.to_thread(ask)
    marks.append(time.perf_counter())
    await each(range(devices), visit, IN_FLIGHT)
    marks.append(time.perf_counter())
    for device in range(devices):
        core = simulation.core(device)
        core.visited(*answers[device])
        request = core.visit_request(rounds=False)
        assert request is not None and core.visit_request(rounds=False) is None
        sealed[device] = request
    started = time.perf_counter()
    await each(range(devices), hand_in, IN_FLIGHT)
    handing_in = time.perf_counter() - started
    await simulation.close()
    for handle in handles:
        handle.cancel()
    return marks[1] - marks[0], marks[3] - marks[2], handing_in, latencies, len(answers) + len(latencies)


def _row(name: str, value: float, unit: str, target: float | None, note: str) -> Measurement:
    return {"name": name, "value": float(value), "unit": unit, "target": target, "note": note}
