"""The same errors along other axes: how many people there are, and how small delta is."""

from __future__ import annotations

from typing import Any

import numpy as np

from thresher.lab.experiments import mechanisms
from thresher.lab.experiments.accuracy import COLUMNS as ACCURACY_COLUMNS
from thresher.lab.experiments.accuracy import measured, population
from thresher.lab.experiments.runner import Row, Task
from thresher.lab.experiments.settings import DELTA, POPULATION, RULES, Settings

COLUMNS: tuple[str, ...] = ("sweep", "population", *ACCURACY_COLUMNS)
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
    of_people, *seeds = seed.spawn(1 + len(RULES))
    people = population(
        settings["dataset"], settings["buckets"], settings["population"], np.random.default_rng(of_people)
    )
    shared = {name: settings[name] for name in ("sweep", "dataset", "population", "buckets")}
    return [
        {**shared, **row}
        for rule, each in zip(RULES, seeds, strict=True)
        for row in measured(
            people,
            settings["epsilon"],
            settings["delta"],
            rule,
            settings["repetitions"],
            each,
            names=NAMES,
            credit_amplification=settings["credit_amplification"],
        )
    ]
