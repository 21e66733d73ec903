"""How fast exact coins and binomials are, beside the bare keystream and numpy's floating-point samplers.

Run it with `python benchmarks/run.py randomness`. The targets are what one core is known to reach.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from measurement import Measurement
from thresher.mechanism.binomials import binomials
from thresher.mechanism.coins import coins
from thresher.mechanism.randomness import SecureRandomness
from thresher.privacy.settings import dyadic

RATE = dyadic(0.288)
COINS = 10**9
BLOCK = 10**6  # coins per call, so that the mask of one call is reused by the next
GROUPS = 10**6
UNITS = 10**8
REPEATS = 5  # the best counts: other work on the machine only ever adds time


def seconds(task: Callable[[], object], repeats: int = REPEATS) -> float:
    """The shortest time that a task took."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        task()
        times.append(time.perf_counter() - begin)
    return min(times)


def measure_coins() -> list[Measurement]:
    """A billion coins, in blocks, from one source."""
    source = SecureRandomness()
    generator = np.random.default_rng()
    draws = np.empty(BLOCK, dtype=np.uint16)

    def toss() -> None:
        for _ in range(COINS // BLOCK):
            coins(BLOCK, RATE, source)

    def keystream() -> None:
        for _ in range(COINS // BLOCK):
            source.fill(draws)

    def rival() -> None:
        for _ in range(COINS // BLOCK // 10):
            np.less(generator.random(BLOCK), RATE)

    ours = seconds(toss, 3)
    bare = seconds(keystream, 3)
    floating = 10 * seconds(rival, 1)
    note = f"{ours / bare:.2f} × the time of the bare keystream, {ours / floating:.2f} × numpy random() < p"
    return [
        Measurement(name="coins", value=COINS / ours, unit="coins/s", target=1e9, note=note),
        Measurement(
            name="bare keystream",
            value=2 * COINS / bare,
            unit="bytes/s",
            target=None,
            note="two bytes a coin",
        ),
    ]


def measure_binomials(name: str, counts: npt.NDArray[np.int64], target: float) -> Measurement:
    """One call for all counts."""
    generator = np.random.default_rng()
    ours = seconds(lambda: binomials(counts, RATE))
    floating = seconds(lambda: generator.binomial(counts, RATE))
    note = f"{ours / floating:.2g} × the time of numpy binomial(), which is not exact"
    return Measurement(name=name, value=ours, unit="s", target=target, note=note)


def zipf_counts() -> npt.NDArray[np.int64]:
    """Counts of a million buckets, the k-th most common in proportion to 1/k, that add up to `UNITS`."""
    weights = 1 / np.arange(1, GROUPS + 1)
    return np.random.default_rng(1).multinomial(UNITS, weights / weights.sum()).astype(np.int64)


def measure() -> list[Measurement]:
    """All measurements, in the order in which they are shown."""
    return [
        *measure_coins(),
        measure_binomials("Binomial(1e9, p)", np.array([10**9]), 0.1),
        measure_binomials("a million counts, Zipf", zipf_counts(), 0.2),
        measure_binomials("a million counts of 100", np.full(GROUPS, UNITS // GROUPS), 0.2),
    ]
