"""The original TrieHH: clients vote for prefixes, popular ones grow, and words are found without counts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from thresher.errors import InvalidSetting
from thresher.privacy.settings import check_delta, check_epsilon, check_rounds

END = "$"
"""Marks the end of a word, so that a word and a longer one that begins with it are told apart."""


@dataclass(frozen=True, slots=True)
class TrieHH:
    """In each of L rounds a batch of clients, of fixed size and without repetition, votes for prefixes.

    In round r a client votes for the first r characters of its word, end mark included, if the first r − 1 were found;
    prefixes with θ votes or more are found. Words whose end mark is found are the result. Words of L characters or more
    cannot end.

    Guarantee: (epsilon, delta) for replace, as its authors prove: ε = L·ln(1/(1 − γθ)) for a batch of γn clients, and
    δ ≤ (θ − 2)/((θ − 3)·θ!). Only words are released, never counts or the votes.
    Reference: Zhu, Kairouz, McMahan, Sun and Li 2020, Corollary 1 and Algorithm 1, as their published code states them;
    not compared with the article itself.
    """

    name: ClassVar[str] = "TrieHH"

    epsilon: float
    delta: float
    rounds: int = 10

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta)
        check_rounds(self.rounds)

    @property
    def threshold(self) -> int:
        """θ, the smallest from 4 on with (θ − 2)/((θ − 3)·θ!) ≤ δ and θ ≥ e^(ε/L) − 1."""
        theta = 4
        while (theta - 2) / ((theta - 3) * math.factorial(theta)) > self.delta or theta < self._growth - 1:
            theta += 1
        return theta

    def batch(self, clients: int) -> int:
        """How many of n clients vote in a round: γn = n(1 − e^(−ε/L))/θ, rounded down."""
        return int(clients * (1 - 1 / self._growth) / self.threshold)

    def discover(self, words: Mapping[str, int], random: np.random.Generator) -> frozenset[str]:
        """The words found among clients of which `words[w]` hold the word w.

        A batch's votes are one multivariate hypergeometric draw over the words, not one draw a client.
        Edge cases: a batch smaller than θ finds nothing.
        """
        if any(END in word for word in words):
            raise InvalidSetting("words", f"must not contain {END}, which marks their end")
        marked = [word + END for word in words]
        held = np.fromiter(words.values(), dtype=np.int64, count=len(marked))
        size = self.batch(int(held.sum()))
        found: set[str] = set()
        level = {""}
        for length in range(1, self.rounds + 1):
            voting = random.multivariate_hypergeometric(held, size, method="marginals")
            votes: Counter[str] = Counter()
            for index in np.flatnonzero(voting):
                word = marked[index]
                if len(word) >= length and word[: length - 1] in level:
                    votes[word[:length]] += int(voting[index])
            level = {prefix for prefix, count in votes.items() if count >= self.threshold}
            found |= level
        return frozenset(prefix[:-1] for prefix in found if prefix.endswith(END))

    @property
    def _growth(self) -> float:
        return math.exp(self.epsilon / self.rounds)
