"""How often intervals of ranks and quantiles hold, and how wide they are: the proved ones and those from all levels.

A hierarchy is asked again and again of the same people. For each rank at an edge, and for each quantile, the stated
bound (averaged) is divided by the 95th percentile of the actual errors: 1 would be perfect, below 1 the bound is too
small. A row has the median of these quotients over all ranks, or all quantiles, and in which part of all repetitions
their intervals held.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from thresher.lab import data
from thresher.lab.data import Floats
from thresher.lab.experiments.people import NumberPeople
from thresher.lab.experiments.runner import Row, Task
from thresher.lab.experiments.settings import DELTA, Settings, plan_of
from thresher.lab.experiments.statistics import summary
from thresher.verbs.accuracy import CONFIDENCE
from thresher.verbs.hierarchy import Hierarchy
from thresher.verbs.ranges import Ranges, RangesQuery

LEVELS = 6
UPPER = 1000.0
EPSILON = 1.0
WANTED = (0.05, 0.25, 0.5, 0.75, 0.9, 0.95)
POPULATIONS = (3_000, 10_000, 100_000, 1_000_000)
TIMES = 10
"""Repetitions for each of the settings': a 95th percentile needs many."""
METHODS = ("proved", "from all levels")
ANSWERS = ("ranks", "quantiles")
_TAIL = (1 - CONFIDENCE) / 2


def _mixed(parts: tuple[float, ...], *values: Callable[[int, np.random.Generator], Floats]) -> Any:
    """Values of several kinds, each for its part of the units."""

    def draw(units: int, random: np.random.Generator) -> Floats:
        kinds = random.choice(len(parts), units, p=parts)
        return np.choose(kinds, [value(units, random) for value in values])

    return draw


def _at(value: float) -> Callable[[int, np.random.Generator], Floats]:
    return lambda units, random: np.full(units, value)


def _normal(mean: float, spread: float) -> Callable[[int, np.random.Generator], Floats]:
    return lambda units, random: random.normal(mean, spread, units)


def _delays(units: int, random: np.random.Generator) -> Floats:
    """Whole minutes with many ties: most people wait about as long, some much longer."""
    longer = random.choice([0, 1, 5], units, p=[0.25, 0.6, 0.15])
    return np.asarray(np.floor(60 + random.gamma(2.0, 12.0, units) * longer), dtype=np.float64)


def _even(units: int, random: np.random.Generator) -> Floats:
    return data.uniform(units, random, 0, UPPER)


def _tens(units: int, random: np.random.Generator) -> Floats:
    return np.asarray(150 + 10 * random.integers(0, 40, units), dtype=np.float64)


VALUES: dict[str, Callable[[int, np.random.Generator], Floats]] = {
    "uniform": _even,
    "log-normal": lambda units, random: data.log_normal(units, random, median=55.0),
    "heavy tail": lambda units, random: 40 * random.pareto(1.3, units),
    "two hills": _mixed((0.6, 0.4), _normal(200, 30), _normal(800, 20)),
    "delays": _delays,
    "spikes": _mixed((0.7, 0.3), _even, _tens),
    "round numbers": lambda units, random: np.asarray(10.0 * random.integers(0, 80, units)),
    "two values": _mixed((0.5, 0.5), _at(200.1), _at(700.7)),
    "one value": _at(333.3),
}
WHOLE = ("delays",)
SHOWN = ("uniform", "log-normal", "heavy tail", "two hills", "delays", "spikes")
"""In the figure. Of one or two values all ranks are 0, ½ or 1, and there is hardly an error to compare with."""


def tasks(settings: Settings) -> list[Task]:
    """One task a kind of values and number of people; for a first look fewer of both."""
    runs = TIMES * settings.repetitions
    shown, populations = (SHOWN, POPULATIONS) if settings.repetitions > 3 else (SHOWN[1:3], POPULATIONS[:3:2])
    return [
        Task("interval_widths", rows, {"values": values, "people": people, "runs": runs}, settings.seed)
        for values in shown
        for people in populations
    ]


def rows(settings: dict[str, Any], seed: np.random.SeedSequence) -> list[Row]:
    """Coverage and width by kind of answer and of interval."""
    kind, size = settings["values"], settings["people"]
    drawn = np.random.default_rng(seed.spawn(1)[0])
    people = NumberPeople(np.clip(VALUES[kind](size, drawn), 0, UPPER), drawn)
    query = RangesQuery("x", plan_of("exact", EPSILON, DELTA, LEVELS), 0, UPPER, whole=kind in WHOLE)
    measured = np.array(
        [
            _measured(query.run(people.with_random(np.random.default_rng(each))), people)
            for each in seed.spawn(settings["runs"])
        ]
    )
    result: list[Row] = []
    for answer, which in zip(ANSWERS, (slice(0, len(WANTED)), slice(len(WANTED), None)), strict=True):
        for method, (bound, holds) in zip(METHODS, ((1, 3), (2, 4)), strict=True):
            errors = np.quantile(measured[:, which, 0], CONFIDENCE, axis=0)
            times = measured[:, which, bound].mean(axis=0) / np.maximum(errors, 1 / size)
            exact = kind in WHOLE and answer == "quantiles"
            result.append(
                {
                    "values": kind, "people": size, "answer": answer, "method": method,
                    "times": None if exact else float(np.median(times)), "times_se": 0.0,
                    **summary("coverage", measured[:, which, holds].mean(axis=1)),
                }
            )  # fmt: skip
    return result


def _measured(answer: Ranges, people: NumberPeople) -> list[tuple[float, ...]]:
    """For each rank, then each quantile: error, proved and new bound, and whether the two intervals hold."""
    tree = answer.hierarchy
    return [*(_rank(tree, people, wanted) for wanted in WANTED), *(_quantile(answer, people, q) for q in WANTED)]


def _rank(tree: Hierarchy, people: NumberPeople, wanted: float) -> tuple[float, ...]:
    """At the first edge that is above the true quantile."""
    edge = math.floor(tree.position(_true_quantile(people, wanted))) + 1
    truth = 1.0 if edge >= tree.cells else people.rank(tree.lower + edge * tree.width)
    estimate = tree.curve.at(edge) / tree.curve.total if tree.curve.total else math.nan
    found = []
    for low, high in (tree.sure_fraction_bounds(0, edge, _TAIL), tree.fraction_bounds(0, edge, _TAIL)):
        found.append((max(estimate - low, high - estimate), float(low <= truth <= high)))
    (proved, held), (bound, holds) = found
    return abs(estimate - truth), proved, bound, held, holds


def _quantile(answer: Ranges, people: NumberPeople, wanted: float) -> tuple[float, ...]:
    tree, found = answer.hierarchy, answer.quantile(wanted)
    truth = _true_quantile(people, wanted)
    under, reached = people.rank(found.value), people.rank(found.value + (tree.last is not None))
    first, last = (tree.position(found.value + more) for more in (0, tree.last is not None))
    sure = [tree.sure_fraction_bounds(0, edge, 2 * _TAIL / tree.probes) for edge in (first, last)]
    proved = max(sure[0][1] - wanted, wanted - sure[1][0], 0.0)
    if tree.last is None:
        proved = max(wanted - sure[0][0], sure[1][1] - wanted)
    held = answer.values_between(*tree.sure_quantile_range(wanted, 2 * _TAIL))
    return (
        max(under - wanted, wanted - reached, 0.0), proved, found.error.bound,
        float(held[0] <= truth <= held[1]), float(found.interval[0] <= truth <= found.interval[1]),
    )  # fmt: skip


def _true_quantile(people: NumberPeople, wanted: float) -> float:
    return float(people.numbers[math.ceil(wanted * len(people.numbers)) - 1])
