"""How many durable reports a second one server takes, on SQLite and on PostgreSQL, with the generator beside it.

Devices enrol, check in and seal first; then only the reports are timed, each from its first byte sent to its
acknowledgement read. An acknowledgement means that the report is on disk.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import thresher as th
from measurement import Measurement
from thresher.client.fleet import Fleet
from thresher.device.core import Request
from thresher.questions import Values
from thresher.simulator.device_visit import each
from thresher.simulator.local_server import LocalServer, local_server
from thresher.simulator.population import Population, words, zipf
from thresher.simulator.simulation import Simulation, run_fast
from thresher.verbs import HistogramQuery

BUDGET = ("--budget-epsilon", "100", "--budget-delta", "1e-3")
DEVICES = 40_000
IN_FLIGHT = 256


def measure() -> list[Measurement]:
    with local_server(*BUDGET) as server:
        rows = _load(server, "SQLite")
    with _postgresql() as url, local_server(*BUDGET, "--store", url) as server:
        rows += _load(server, "PostgreSQL")
    return rows


@contextlib.contextmanager
def _postgresql() -> Iterator[str]:
    """The address of a PostgreSQL of its own, durable, gone afterwards."""
    script = Path(__file__).parents[1] / "scripts" / "postgres-for-tests"
    process = subprocess.Popen([sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait(60)
        process.stdout.close()


def _load(server: LocalServer, store: str) -> list[Measurement]:
    simulation = Simulation(
        server.url,
        server.enrolment_key,
        Population({"word": zipf(words(1000), DEVICES, 1)}),
        workers=IN_FLIGHT,
    )
    fleet = Fleet(server.url, key=server.analyst_key).with_rounds(seconds=3600)
    query = HistogramQuery(Values(("word",)), th.plan(epsilon=1, delta=1e-8))
    handle = fleet.submit(query, wait=False)
    enrolling, checking, sending, latencies = run_fast(_phases(simulation))
    handle.cancel()
    p50, p99 = np.quantile(latencies, (0.5, 0.99)) * 1000
    note = f"{DEVICES:,} devices, {IN_FLIGHT} in flight"
    return [
        _row(f"{store}: durable reports", DEVICES / sending, "a second", 8000, note),
        _row(f"{store}: report, median", p50, "ms", None, "from first byte to acknowledgement"),
        _row(f"{store}: report, 99th percentile", p99, "ms", 200, ""),
        _row(f"{store}: check-ins", DEVICES / checking, "a second", None, "each stores a contact coin; no sealing"),
        _row(f"{store}: enrolments", DEVICES / enrolling, "a second", None, "one commit each"),
    ]


async def _phases(simulation: Simulation) -> tuple[float, float, float, list[float]]:
    """Enrol, check in and seal, report: the seconds of each, and the latency of every report."""
    answers: dict[int, bytes] = {}
    latencies: list[float] = []
    requests: list[Request] = []

    async def check_in(device: int) -> None:
        request = simulation.core(device).check_in_request()
        answer = await simulation.client.send(request.method, request.path, request.token, request.body)
        assert answer.status == 200, answer.status
        answers[device] = answer.body

    async def report(device: int) -> None:
        request = requests[device]
        started = time.perf_counter()
        answer = await simulation.client.send(request.method, request.path, request.token, request.body)
        latencies.append(time.perf_counter() - started)
        assert answer.status == 200, answer.status

    marks = [time.perf_counter()]
    await simulation.enrol()
    marks.append(time.perf_counter())
    await each(range(DEVICES), check_in, IN_FLIGHT)
    marks.append(time.perf_counter())
    for device in range(DEVICES):
        core = simulation.core(device)
        (round,) = core.take(answers[device])
        requests.append(core.report_request(round))
    started = time.perf_counter()
    await each(range(DEVICES), report, IN_FLIGHT)
    sending = time.perf_counter() - started
    await simulation.close()
    return marks[1] - marks[0], marks[2] - marks[1], sending, latencies


def _row(name: str, value: float, unit: str, target: float | None, note: str) -> Measurement:
    return {"name": name, "value": float(value), "unit": unit, "target": target, "note": note}
