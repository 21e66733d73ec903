"""A population in memory, and people to fill it with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from copy import copy
from typing import Any

import numpy as np
import pyarrow as pa

from thresher import Population, privacy
from thresher.mechanism import Randomness, Release, sample_and_threshold
from thresher.mechanism.release_table import NUMBERS
from thresher.privacy import Plan
from thresher.privacy.settings import dyadic
from thresher.questions import Below, Cells, Question
from thresher.testing import SeededRandomness


class CountsPopulation(Population):
    """Units by the value they hold: a mapping of value to count. Remembers what it was asked."""

    def __init__(self, values: Mapping[Any, int] | Iterable[Any], randomness: Randomness | None = None) -> None:
        self.counts: Mapping[Any, int] = values if isinstance(values, Mapping) else Counter(values)
        self.randomness = randomness
        self.asked: list[Question] = []

    def ask(self, question: Question, plan: Plan) -> Release:
        self.asked.append(question)
        buckets: Counter[Any] = Counter()
        for value, count in self.counts.items():
            bucket = question.bucket(value)
            if bucket is not None:
                buckets[bucket] += count
        return sample_and_threshold(buckets, plan, self.randomness, columns=question.columns)


class NumbersPopulation(Population):
    """Many numbers, asked with array arithmetic; for `Cells` and `Below` the same buckets as `question.bucket`.

    Exact counts are kept, so that repeated draws from the same people cost only the draw. `seeded` makes draws faster
    still, for tests that repeat a query hundreds of times: NumPy's binomials, and no intervals of single buckets.
    """

    def __init__(self, numbers: Any) -> None:
        self.numbers = np.sort(np.asarray(numbers, dtype=np.float64))
        self._generator: np.random.Generator | None = None
        self._tallies: dict[Question, tuple[Any, Any]] = {}

    def seeded(self, seed: int) -> NumbersPopulation:
        """The same people, drawn from a seed."""
        people = copy(self)
        people._generator = np.random.default_rng(seed)
        return people

    def ask(self, question: Question, plan: Plan) -> Release:
        if question not in self._tallies:
            self._tallies[question] = self._tally(question)
        buckets, counts = self._tallies[question]
        if self._generator is None:
            return sample_and_threshold((buckets, counts), plan, columns=question.columns)
        sampled = self._generator.binomial(counts, plan.sampling_rate)
        kept = sampled >= plan.threshold
        arrays = [buckets[kept], sampled[kept], sampled[kept] / plan.sampling_rate, sampled[kept], sampled[kept]]
        return Release(pa.table(arrays, names=[*question.columns, *NUMBERS]), plan, private=False)

    def _tally(self, question: Question) -> tuple[Any, Any]:
        if isinstance(question, Below):
            below = int(np.searchsorted(self.numbers, question.split, side="left"))
            return np.array([True, False]), np.array([below, len(self.numbers) - below])
        assert isinstance(question, Cells)
        inside = np.clip(self.numbers, question.lower, question.upper)
        share = (inside - question.lower) / (question.upper - question.lower)
        cells = np.minimum(np.floor(share * question.cells).astype(np.int64), question.cells - 1)
        starts = np.flatnonzero(np.diff(cells, prepend=-1))
        return cells[starts], np.diff(starts, append=len(cells))

    def rank(self, value: float) -> float:
        """Which part of the numbers is below a value."""
        return float(np.searchsorted(self.numbers, value, side="left")) / len(self.numbers)


def paper_plan(epsilon: float, delta: float, rounds: int) -> Plan:
    """The paper's rule, at its best, as a plan: a smaller rate keeps its guarantee, so it is rounded down."""
    rule = privacy.paper.best_rule(epsilon, delta, rounds=rounds)
    return Plan(dyadic(rule.sampling_rate), rule.threshold, epsilon, delta, "replace", rounds)


def seeded(seed: int) -> SeededRandomness:
    return SeededRandomness(seed)
