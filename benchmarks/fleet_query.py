"""A whole query end to end: 20,000 devices, ten rounds of TrieHH++, over HTTP, everything on one machine."""

from __future__ import annotations

import resource
import threading
import time
from itertools import product
from pathlib import Path

import thresher as th
from measurement import Measurement
from thresher.client.fleet import Fleet
from thresher.simulator.local_server import local_server
from thresher.simulator.population import Population, zipf
from thresher.simulator.report import compare
from thresher.simulator.simulation import Simulation, simulate
from thresher.verbs import HeavyHitters, HeavyHittersQuery

BUDGET = ("--budget-epsilon", "100", "--budget-delta", "1e-3")
DEVICES = 20_000
ROUNDS = 10


def measure() -> list[Measurement]:
    # Words of ten letters and more, so that all ten levels are asked.
    syllables = "kalo mine suta rivo pedu".split()
    column = zipf(["".join(parts) + "x" for parts in product(syllables, repeat=3)], DEVICES, 1)
    query = HeavyHittersQuery("word", th.plan(epsilon=2, delta=1e-6, rounds=ROUNDS), "trie")
    with local_server(*BUDGET) as server, Fleet(server.url, key=server.analyst_key) as fleet:
        simulation = Simulation(server.url, server.enrolment_key, Population({"word": column}))
        fleet = fleet.with_rounds(seconds=600, completions=simulation.completions)
        # What every process needs once, however many devices it drives, is not a device's memory.
        fleet.overview()
        th.heavy_hitters(["warm"] * 100, "value", plan=query.plan, method="trie").plan.verify()
        before, started = _resident(), time.perf_counter()

        def ask() -> tuple[HeavyHitters, float, int]:
            enrolled = time.perf_counter()
            answer: HeavyHitters = fleet.submit(query)
            return answer, time.perf_counter() - enrolled, _resident()

        found = simulate(simulation, ask, stop=threading.Event())
        whole = time.perf_counter() - started
    assert found is not None
    answer, asked, after = found
    assert answer.rounds_asked == ROUNDS
    comparison = compare(answer, column)
    assert comparison.invented == 0
    result = simulation.result
    note = f"{len(comparison.lines)} prefixes found, the truth in {comparison.inside} of their intervals"
    return [
        _row(f"{DEVICES:,} devices, ten rounds: the query", asked, "s", 180, note),
        _row("the same with enrolment", whole, "s", None, f"{result.reports:,} reports"),
        _row("requests", result.requests / whole, "a second", None, "sealing and server on the same machine"),
        _row("simulator's memory a device", (after - before) / DEVICES / 1000, "kB", 2, "resident, after ten rounds"),
    ]


def _resident() -> int:
    """Bytes of memory that this process occupies."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def _row(name: str, value: float, unit: str, target: float | None, note: str) -> Measurement:
    return {"name": name, "value": value, "unit": unit, "target": target, "note": note}
