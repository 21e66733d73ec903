"""Rank errors of quantiles, by binary search and by hierarchy, with the paper's rule and with the exact plan."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np

from thresher.lab import data
from thresher.lab.experiments.people import NumberPeople
from thresher.lab.experiments.runner import Row, Task
from thresher.lab.experiments.settings import DELTA, POPULATION, RULES, Settings, plan_of
from thresher.lab.experiments.statistics import summary
from thresher.verbs.quantiles import Method, QuantilesQuery

VALUES = ("uniform", "log-normal")
METHODS: tuple[Method, ...] = get_args(Method)
ROUNDS = 10
WANTED = 0.3
"""Not the median, which for uniform values is the very first split."""

UPPER = 50.0
TIMES = 2
"""Runs are cheap and their errors vary: this many for each repetition."""


def tasks(settings: Settings) -> list[Task]:
    """One task a kind of values and total epsilon."""
    runs = TIMES * settings.repetitions
    return [
        Task(
            "quantile_errors",
            rows,
            {"values": values, "epsilon": epsilon, "delta": DELTA, "people": POPULATION, "runs": runs},
            settings.seed,
        )
        for values in VALUES
        for epsilon in settings.total_epsilons
    ]


def rows(settings: dict[str, Any], seed: np.random.SeedSequence) -> list[Row]:
    """Mean absolute rank error of one quantile by rule and method."""
    drawn = np.random.default_rng(seed.spawn(1)[0])
    size, kind = settings["people"], settings["values"]
    numbers = data.uniform(size, drawn, 0, UPPER) if kind == "uniform" else data.log_normal(size, drawn, median=1.0)
    people = NumberPeople(numbers, drawn)
    result: list[Row] = []
    for rule in RULES:
        plan = plan_of(rule, settings["epsilon"], settings["delta"], ROUNDS)
        for method in METHODS:
            query = QuantilesQuery("x", (WANTED,), plan, lower=0, upper=UPPER, method=method, branching=2)
            errors = []
            for each in seed.spawn(settings["runs"]):
                answer = query.run(people.with_random(np.random.default_rng(each)))
                errors.append(_error(people, answer[WANTED].value))
            shared = {name: settings[name] for name in ("values", "epsilon", "delta")}
            result.append({**shared, "rounds": ROUNDS, "rule": rule, "method": method, **summary("rank_error", errors)})
    return result


def _error(people: NumberPeople, value: float) -> float:
    """A quantile without any answer counts as the largest error there is."""
    return max(WANTED, 1 - WANTED) if np.isnan(value) else abs(people.rank(value) - WANTED)
