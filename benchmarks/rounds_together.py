"""Ranges of six levels against one round of a histogram, in one run: 5,000 devices over HTTP, all on one machine.

A round is open for a fixed time, as in a fleet whose devices come when they come. All six rounds of ranges are open at
the same time, and each device answers them in one visit.
"""

from __future__ import annotations

import threading
import time

import numpy as np

import thresher as th
from measurement import Measurement
from thresher.client.fleet import Fleet
from thresher.questions import Values
from thresher.simulator.local_server import local_server
from thresher.simulator.population import Population, zipf
from thresher.simulator.simulation import Simulation, simulate
from thresher.verbs import Histogram, HistogramQuery, Ranges, RangesQuery

BUDGET = ("--budget-epsilon", "100", "--budget-delta", "1e-3")
DEVICES = 5_000
LEVELS = 6
SECONDS = 60.0
BEFORE = f"sequential = {LEVELS}: before, the rounds were open one after another"


def measure() -> list[Measurement]:
    one = HistogramQuery(Values(("age",)), th.plan(epsilon=2, delta=1e-6))
    six = RangesQuery("age", th.plan(epsilon=2, delta=1e-6, rounds=LEVELS), 0.0, 64.0, 2)
    column = zipf([str(age) for age in np.random.default_rng(1).permutation(64)], DEVICES, 1)
    with local_server(*BUDGET) as server, Fleet(server.url, key=server.analyst_key) as fleet:
        simulation = Simulation(server.url, server.enrolment_key, Population({"age": column}))
        fleet = fleet.with_rounds(seconds=SECONDS)

        def ask() -> tuple[Histogram, float, Ranges, float]:
            started = time.perf_counter()
            histogram: Histogram = fleet.submit(one)
            between = time.perf_counter()
            ranges: Ranges = fleet.submit(six)
            return histogram, between - started, ranges, time.perf_counter() - between

        found = simulate(simulation, ask, stop=threading.Event())
    assert found is not None
    histogram, alone, ranges, together = found
    answered = [release.response.completed for release in (*histogram.releases, *ranges.releases) if release.response]
    assert len(answered) == 1 + LEVELS
    note = f"{min(answered):,} devices or more of {DEVICES:,} completed every round"
    return [
        _row("histogram, one round", alone, "s", None, f"a round is open for {SECONDS:g} s"),
        _row(f"ranges, {LEVELS} levels", together, "s", None, note),
        _row(f"ranges of {LEVELS} levels ÷ histogram", together / alone, "times", 1.25, BEFORE),
    ]


def _row(name: str, value: float, unit: str, target: float | None, note: str) -> Measurement:
    return {"name": name, "value": value, "unit": unit, "target": target, "note": note}
