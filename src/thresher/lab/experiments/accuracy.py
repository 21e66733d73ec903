"""Errors and recall of histograms: sample-and-threshold beside its rivals, all on the same sample in a repetition.

Samples are drawn as counts per bucket, Binomial(count, p), which has the same distribution as tossing a coin for each
person; with NumPy's generator, for speed: nothing here is a private release.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidSetting
from thresher.lab import data, shakespeare
from thresher.lab.experiments import mechanisms
from thresher.lab.experiments.runner import Row, Task
from thresher.lab.experiments.settings import DELTA, POPULATION, RULES, Rule, Settings, plan_of
from thresher.lab.experiments.statistics import largest, mean_and_error, recall

COLUMNS: tuple[str, ...] = (
    "dataset",
    "buckets",
    "epsilon",
    "delta",
    "rule",
    "mechanism",
    "mae",
    "mae_se",
    "mae_expected",
    "recall",
    "recall_se",
)

Counts = NDArray[np.int64]


def tasks(settings: Settings) -> list[Task]:
    """One task a dataset and histogram size, the largest first."""
    if "shakespeare" in settings.datasets and settings.text is None:
        shakespeare.fetch()  # once, before several processes would
    return [
        Task("accuracy", _task_settings(settings, dataset, buckets), settings.seed)
        for buckets in reversed(settings.buckets)
        for dataset in settings.datasets
    ]


def _task_settings(settings: Settings, dataset: str, buckets: int) -> dict[str, Any]:
    chosen: dict[str, Any] = {
        "dataset": dataset,
        "buckets": buckets,
        "population": POPULATION,
        "epsilons": list(settings.epsilons),
        "delta": DELTA,
        "repetitions": settings.repetitions,
        "credit_amplification": settings.credit_amplification,
    }
    if dataset == "shakespeare":
        chosen["text"] = None if settings.text is None else str(settings.text)
        chosen["text_digest"] = settings.text_digest
    return chosen


def rows(settings: dict[str, Any], seed: np.random.SeedSequence) -> list[Row]:
    """All epsilons, rules and mechanisms of one dataset and histogram size; the population is drawn once."""
    of_people, *seeds = seed.spawn(1 + len(RULES) * len(settings["epsilons"]))
    people = population(
        settings["dataset"],
        settings["buckets"],
        settings["population"],
        np.random.default_rng(of_people),
        settings.get("text"),
    )
    cases = [(epsilon, rule) for epsilon in settings["epsilons"] for rule in RULES]
    return [
        {"dataset": settings["dataset"], "buckets": settings["buckets"], **row}
        for (epsilon, rule), each in zip(cases, seeds, strict=True)
        for row in measured(
            people,
            epsilon,
            settings["delta"],
            rule,
            settings["repetitions"],
            each,
            credit_amplification=settings["credit_amplification"],
        )
    ]


def population(dataset: str, buckets: int, units: int, random: np.random.Generator, text: str | None = None) -> Counts:
    """How many people hold each bucket. Shakespeare's words are as many as there are."""
    if dataset == "binomial":
        return data.binomial(buckets, units, random)
    if dataset == "geometric":
        return data.geometric(buckets, units, random)
    if dataset == "zipf":
        return data.zipf(buckets, units, random)
    if dataset == "shakespeare":
        return shakespeare.shakespeare(buckets, text)
    raise InvalidSetting("dataset", "must be binomial, geometric, zipf or shakespeare")


def measured(
    people: Counts,
    epsilon: float,
    delta: float,
    rule: Rule,
    repetitions: int,
    seed: np.random.SeedSequence,
    *,
    names: Sequence[str] | None = None,
    credit_amplification: bool = False,
) -> list[Row]:
    """Mean absolute error per bucket as a part of all people, and recall of the largest tenth, for each mechanism.

    Guarantee: in a repetition every mechanism gets the same sample, at the rule's rate, and its estimates are divided
    by that rate. `mae_expected` is analytic where it is known and None elsewhere.
    """
    plan = plan_of(rule, epsilon, delta)
    rate, units = plan.sampling_rate, int(people.sum())
    chosen = mechanisms.at(plan, names=names, credit_amplification=credit_amplification)
    k = max(1, len(people) // 10)
    top = largest(people, k)
    errors = np.zeros((len(chosen), repetitions))
    recalls = np.zeros((len(chosen), repetitions))
    for repetition, each in enumerate(seed.spawn(repetitions)):
        random = np.random.default_rng(each)
        sample = random.binomial(people, rate)
        for place, mechanism in enumerate(chosen):
            estimates = mechanism.estimate(sample, random) / rate
            errors[place, repetition] = np.abs(estimates - people).mean() / units
            recalls[place, repetition] = recall(top, estimates, k, random)
    result: list[Row] = []
    for place, mechanism in enumerate(chosen):
        error, error_spread = mean_and_error(errors[place])
        found, found_spread = mean_and_error(recalls[place])
        expected = mechanism.expected_error(people, rate)
        result.append(
            {
                "epsilon": epsilon,
                "delta": delta,
                "rule": rule,
                "mechanism": mechanism.name,
                "mae": error,
                "mae_se": error_spread,
                "mae_expected": None if expected is None else expected / units,
                "recall": found,
                "recall_se": found_spread,
            }
        )
    return result


def write_csv(path: Path, rows: Sequence[Row], columns: Sequence[str]) -> None:
    """The rows as a file; what is not known is left empty."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
