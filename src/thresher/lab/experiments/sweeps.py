"""The errors of `accuracy` along other axes: how many people there are, and how small delta is."""

from __future__ import annotations

from typing import Any

import numpy as np

from thresher.lab.experiments import accuracy, mechanisms
from thresher.lab.experiments.runner import Row, Task
from thresher.lab.experiments.settings import DELTA, POPULATION, Settings

BUCKETS = 2**10
EPSILON = 0.5
DATASETS = ("geometric", "zipf")
NAMES = (mechanisms.THRESHOLD, mechanisms.LAPLACE, mechanisms.SHUFFLED, mechanisms.SAMPLED)


def tasks(settings: Settings) -> list[Task]:
    """One task a dataset and place on the axis."""
    sizes = [("population", size, DELTA) for size in settings.populations]
    deltas = [("delta", POPULATION, delta) for delta in settings.deltas]
    return [
        Task(
            "sweeps",
            rows,
            {
                "sweep": sweep,
                "dataset": dataset,
                "population": size,
                "delta": delta,
                "epsilon": EPSILON,
                "buckets": BUCKETS,
                "repetitions": settings.repetitions,
                "credit_amplification": settings.credit_amplification,
            },
            settings.seed,
        )
        for sweep, size, delta in (*sizes, *deltas)
        for dataset in DATASETS
    ]


def rows(settings: dict[str, Any], seed: np.random.SeedSequence) -> list[Row]:
    """Both rules at one place of a sweep."""
    place = {name: settings[name] for name in ("sweep", "population")}
    found = accuracy.rows(settings | {"epsilons": [settings["epsilon"]]}, seed, NAMES)
    return [{**place, **row} for row in found]
