"""Populations for experiments: people in memory, asked with array arithmetic and sampled with NumPy's generator.

Never for people's data: what they release is marked `private=False`, and its rows have no intervals of their own
(`lower` and `upper` repeat the sampled count).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidSetting
from thresher.mechanism.release import Release
from thresher.mechanism.release_table import NUMBERS
from thresher.privacy import Plan
from thresher.questions import END, Below, Cells, Prefixes, Question, RecountedPrefixes, Values
from thresher.questions.population import Population


def vocabulary(people: int, random: np.random.Generator, words: int = 10_000) -> dict[str, int]:
    """Made-up words of two to nine letters, held in proportion to one over their rank (Zipf), by `people` in all."""
    letters = np.array(list("etaoinshrdlcumwfgypb"))
    common = 1 / np.arange(1, len(letters) + 1)
    drawn = random.choice(letters, (2 * words, 9), p=common / common.sum())
    lengths = random.integers(2, 10, 2 * words)
    found = list(dict.fromkeys("".join(row[:length]) for row, length in zip(drawn, lengths, strict=True)))[:words]
    shares = 1 / np.arange(1, len(found) + 1)
    counts = np.floor(people * shares / shares.sum()).astype(np.int64)
    counts[0] += people - counts.sum()
    return {word: int(count) for word, count in zip(found, counts, strict=True) if count}


class WordPeople(Population):
    """People who hold a word each. Counts of prefixes are kept with the prefix that they extend, level by level."""

    def __init__(self, words: Mapping[str, int], random: np.random.Generator) -> None:
        self.words = words
        self.random = random
        self._levels: dict[tuple[int, int], dict[str, dict[str, int]]] = {}

    def with_random(self, random: np.random.Generator) -> WordPeople:
        """The same people, drawn from another generator; what was counted is counted once."""
        people = WordPeople(self.words, random)
        people._levels = self._levels
        return people

    def ask(self, question: Question, plan: Plan) -> Release:
        """One round of a sample of these people."""
        if isinstance(question, Values):
            return _release(list(self.words), list(self.words.values()), question, plan, self.random)
        if not isinstance(question, Prefixes):
            raise InvalidSetting("question", "must be about whole words or prefixes")
        children = self._children(question.known, question.length)
        parents = question.parents if question.known else [""]
        tally: dict[str, int] = {}
        for parent in sorted(parents):
            tally.update(children.get(parent, {}))
        if isinstance(question, RecountedPrefixes):
            tally.update({text + END: self.words.get(text, 0) for text in sorted(question.texts)})
        return _release(list(tally), list(tally.values()), question, plan, self.random)

    def _children(self, known: int, length: int) -> dict[str, dict[str, int]]:
        """For each prefix of `known` characters of a word that is at least as long: its extensions, with counts."""
        if (known, length) not in self._levels:
            level: dict[str, dict[str, int]] = {}
            for word, count in self.words.items():
                if len(word) >= known:
                    bucket = (word + END)[:length]
                    extensions = level.setdefault(word[:known], {})
                    extensions[bucket] = extensions.get(bucket, 0) + count
            self._levels[known, length] = level
        return self._levels[known, length]


class NumberPeople(Population):
    """People who hold a number each; for `Cells` and `Below` the same buckets as `question.bucket`."""

    def __init__(self, numbers: NDArray[np.float64], random: np.random.Generator) -> None:
        self.numbers = np.sort(numbers)
        self.random = random
        self._tallies: dict[Question, tuple[NDArray[Any], NDArray[np.int64]]] = {}

    def with_random(self, random: np.random.Generator) -> NumberPeople:
        """The same people, drawn from another generator; what was counted is counted once."""
        people = NumberPeople.__new__(NumberPeople)
        people.numbers, people.random, people._tallies = self.numbers, random, self._tallies
        return people

    def ask(self, question: Question, plan: Plan) -> Release:
        """One round of a sample of these people."""
        if question not in self._tallies:
            self._tallies[question] = self._tally(question)
        buckets, counts = self._tallies[question]
        return _release(buckets, counts, question, plan, self.random)

    def rank(self, value: float) -> float:
        """Which part of the people is below a value."""
        return float(np.searchsorted(self.numbers, value, side="left")) / len(self.numbers)

    def _tally(self, question: Question) -> tuple[NDArray[Any], NDArray[np.int64]]:
        if isinstance(question, Below):
            below = int(np.searchsorted(self.numbers, question.split, side="left"))
            return np.array([True, False]), np.array([below, len(self.numbers) - below])
        if not isinstance(question, Cells):
            raise InvalidSetting("question", "must be about cells or a split point")
        inside = np.clip(self.numbers, question.lower, question.upper)
        share = (inside - question.lower) * question.cells / (question.upper - question.lower)
        cells = np.minimum(np.floor(share).astype(np.int64), question.cells - 1)
        starts = np.flatnonzero(np.diff(cells, prepend=-1))
        return cells[starts], np.diff(starts, append=len(cells))


def _release(buckets: Any, counts: Any, question: Question, plan: Plan, random: np.random.Generator) -> Release:
    import pyarrow as pa

    sampled = random.binomial(np.asarray(counts, dtype=np.int64), plan.sampling_rate)
    kept = np.flatnonzero(sampled >= plan.threshold)
    names = np.asarray(buckets)[kept] if isinstance(buckets, np.ndarray) else [buckets[index] for index in kept]
    keys = pa.array(names, pa.string()) if isinstance(names, list) else pa.array(names)
    numbers = [sampled[kept], sampled[kept] / plan.sampling_rate, sampled[kept], sampled[kept]]
    return Release(pa.table([keys, *numbers], names=[*question.columns, *NUMBERS]), plan, private=False)
