"""Errors and recall of histograms: sample-and-threshold beside its rivals, all on the same sample in a repetition.

Samples are drawn as counts per bucket, Binomial(count, p), which has the same distribution as tossing a coin for each
person. They are drawn with NumPy's generator, for speed: nothing here is a private release.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from thresher.errors import InvalidSetting
from thresher.lab import data, shakespeare
from thresher.lab.data import Counts
from thresher.lab.experiments import mechanisms
from thresher.lab.experiments.runner import Row, Task
from thresher.lab.experiments.settings import DELTA, POPULATION, RULES, Rule, Settings, plan_of
from thresher.lab.experiments.statistics import largest, recall, summary

_SYNTHETIC = {"binomial": data.binomial, "geometric": data.geometric, "zipf": data.zipf}


def tasks(settings: Settings) -> list[Task]:
    """One task a dataset and histogram size, the largest first."""
    if "shakespeare" in settings.datasets and settings.text is None:
        shakespeare.fetch()  # once, before several processes would
    text = {
        "text": None if settings.text is None else str(settings.text),
        "text_digest": settings.text_digest if "shakespeare" in settings.datasets else None,
    }
    return [
        Task(
            "accuracy",
            rows,
            {
                "dataset": dataset,
                "buckets": buckets,
                "population": POPULATION,
                "epsilons": list(settings.epsilons),
                "delta": DELTA,
                "repetitions": settings.repetitions,
                "credit_amplification": settings.credit_amplification,
                **(text if dataset == "shakespeare" else {}),
            },
            settings.seed,
        )
        for buckets in reversed(settings.buckets)
        for dataset in settings.datasets
    ]


def rows(settings: dict[str, Any], seed: np.random.SeedSequence, names: Sequence[str] | None = None) -> list[Row]:
    """All epsilons, rules and mechanisms of one dataset and histogram size; the population is drawn once."""
    of_people, *seeds = seed.spawn(1 + len(RULES) * len(settings["epsilons"]))
    dataset, buckets = settings["dataset"], settings["buckets"]
    random = np.random.default_rng(of_people)
    people = population(dataset, buckets, settings["population"], random, settings.get("text"))
    cases = [(epsilon, rule) for epsilon in settings["epsilons"] for rule in RULES]
    return [
        {"dataset": dataset, "buckets": buckets, **row}
        for (epsilon, rule), each in zip(cases, seeds, strict=True)
        for row in measured(
            people,
            epsilon,
            settings["delta"],
            rule,
            settings["repetitions"],
            each,
            names=names,
            credit_amplification=settings["credit_amplification"],
        )
    ]


def population(dataset: str, buckets: int, units: int, random: np.random.Generator, text: str | None = None) -> Counts:
    """How many people hold each bucket. Shakespeare's words are as many as there are."""
    if dataset == "shakespeare":
        return shakespeare.shakespeare(buckets, text)
    if dataset not in _SYNTHETIC:
        raise InvalidSetting("dataset", "must be binomial, geometric, zipf or shakespeare")
    return _SYNTHETIC[dataset](buckets, units, random)


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
        expected = mechanism.expected_error(people, rate)
        result.append(
            {
                "epsilon": epsilon,
                "delta": delta,
                "rule": rule,
                "mechanism": mechanism.name,
                **summary("mae", errors[place]),
                "mae_expected": None if expected is None else expected / units,
                **summary("recall", recalls[place]),
            }
        )
    return result
