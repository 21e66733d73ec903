"""What all rounds of a trie say together of the whole texts that they found.

A text that one level has found is asked for again in every later level. Its units would have no bucket there, so this
costs nothing; each round is a fresh sample of the same units. Rates of all rounds are on one scale (`common_rates`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from thresher.mechanism.common_rates import LEAST_RATE, common_rates, rows_at
from thresher.mechanism.release import Release
from thresher.privacy.recounts import recount_intervals
from thresher.questions import END
from thresher.questions.question import json_bytes

ROOM = 1 << 20
"""How many bytes the texts of a question may take: a quarter of what a device is sent at most."""


@dataclass(frozen=True, slots=True)
class CountedText:
    """A whole text from all rounds that counted it.

    `count` is the sum of its released counts. A round that dropped it counts as τ − 1 in the estimate, which is the
    total ÷ the sum of the rounds' rates.
    """

    count: int
    estimate: float
    interval: tuple[int, int]
    rounds: int


class FoundTexts:
    """The whole texts that the releases of a trie show, fed with one release after another.

    Guarantee: which texts are asked for again depends on no count of theirs, given that they were found: the intervals
    of `counted` hold.
    """

    def __init__(self, *, recount: bool) -> None:
        self._recount = recount
        self._releases: list[Release] = []
        self._counts: list[dict[str, int]] = []
        self._found_in: dict[str, int] = {}
        self._again: set[str] = set()
        self._room = ROOM

    @classmethod
    def of(cls, releases: Iterable[Release], *, recount: bool) -> FoundTexts:
        """The texts of all releases, in the order of the rounds."""
        texts = cls(recount=recount)
        for release in releases:
            texts.add(release)
        return texts

    @property
    def again(self) -> frozenset[str]:
        """The texts that the next round counts again."""
        return frozenset(self._again)

    def add(self, release: Release) -> None:
        """Take what the next round released."""
        counts = zip(release.buckets, release.counts.tolist(), strict=True)
        shown = {bucket.removesuffix(END): count for bucket, count in counts if bucket.endswith(END)}
        new = sorted((text for text in shown if text not in self._found_in), key=lambda text: (len(text), text))
        for text in new:
            self._found_in[text] = len(self._releases)
            needed = json_bytes(text) + 1
            if self._recount and needed <= self._room:
                self._again.add(text)
                self._room -= needed
        self._releases.append(release)
        self._counts.append(shown)

    def counted(self, confidence: float | None = None) -> dict[str, CountedText]:
        """Every text with its numbers; intervals at this confidence, or at that of the releases."""
        groups: dict[tuple[int, bool], list[str]] = {}
        for text, found in self._found_in.items():
            groups.setdefault((found, text in self._again), []).append(text)
        result: dict[str, CountedText] = {}
        scale = common_rates(self._releases)
        for (found, again), texts in groups.items():
            rounds = [found, *(_enough(scale, found) if again else ())]
            rates = [scale[place] for place in rounds]
            result.update(zip(texts, self._together(texts, rounds, rates, confidence), strict=True))
        return result

    def _together(
        self, texts: list[str], rounds: list[int], rates: list[float], confidence: float | None
    ) -> list[CountedText]:
        first = self._releases[rounds[0]]
        confidence = first.confidence if confidence is None else confidence
        shown = np.array([[self._counts[place].get(text, 0) for place in rounds] for text in texts], dtype=np.int64)
        totals = np.maximum(shown, first.plan.threshold - 1).sum(axis=1)
        if len(rounds) == 1:
            stated = {row.bucket: row.interval for row in rows_at(first, rates[0], confidence)}
            ends = [stated[text + END] for text in texts]
        else:
            coins = None if first.response is None else first.plan.sampling_rate
            found = recount_intervals(rates, first.plan.threshold, totals, confidence, coins=coins)
            ends = np.column_stack(found).tolist()
        estimates = (totals / math.fsum(rates)).tolist()
        counts = shown.sum(axis=1).tolist()
        return [
            CountedText(count, estimate, (lower, upper), len(rounds))
            for count, estimate, (lower, upper) in zip(counts, estimates, ends, strict=True)
        ]


def _enough(rates: Sequence[float], found: int) -> list[int]:
    """The later rounds that count; which ones they are follows from the rates alone.

    A round of few devices drops most texts: it would add τ − 1 to their totals, and next to nothing to the rates.
    """
    least = LEAST_RATE * max(rates[found:])
    return [place for place, rate in enumerate(rates) if place > found and rate >= least]
