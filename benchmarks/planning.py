"""How long guarantees and plans take, after import, and how long the import takes."""

from __future__ import annotations

import itertools
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import thresher as th
from measurement import Measurement


def median_seconds(action: Callable[[], object], times: int) -> float:
    """Median of several runs after one that does not count."""
    action()
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        action()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def import_seconds(statement: str, times: int = 5) -> float:
    """Median time of an import in a fresh interpreter, less that of an interpreter that imports nothing."""

    def fresh(code: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - start

    empty = statistics.median(fresh("pass") for _ in range(times))
    return statistics.median(fresh(statement) for _ in range(times)) - empty


def measure() -> list[Measurement]:
    settings = {"sampling_rate": 0.1, "threshold": 20}
    numpy = import_seconds("import numpy")
    ours = import_seconds("import thresher")
    device = import_seconds("from thresher import Device")
    rows: list[tuple[str, float, float, str]] = [
        ("import thresher", ours, 0.3, f"{ours / numpy:.1f} × import numpy"),
        ("import the device alone", device, 0.15, f"{device / numpy:.1f} × import numpy"),
    ]
    for adjacency in ("add-remove", "replace"):
        seconds = median_seconds(lambda: th.privacy.delta(epsilon=1.0, adjacency=adjacency, **settings), 200)  # type: ignore[arg-type]  # noqa: B023
        rows.append((f"delta, one round, {adjacency}", seconds, 0.002, "p = 0.1, τ = 20, ε = 1"))
    others = (1.0 + number * 1e-9 for number in itertools.count())  # a plan that was made before costs nothing
    for rounds, target in ((1, 0.1), (16, 2.0)):
        for adjacency in ("add-remove", "replace"):
            seconds = median_seconds(
                lambda: th.plan(epsilon=next(others), delta=1e-8, rounds=rounds, adjacency=adjacency),  # type: ignore[arg-type]  # noqa: B023
                5,
            )
            rows.append((f"plan, {rounds} rounds, {adjacency}", seconds, target, "(1, 1e-8)"))
    return [
        Measurement(name=name, value=value, unit="s", target=target, note=note) for name, value, target, note in rows
    ]
