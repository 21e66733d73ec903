"""Shuffled Bernoulli noise: every client adds a coin to every bucket, and a shuffler hides who sent what."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from thresher.errors import InvalidSetting, Unreachable
from thresher.lab.data import Counts, Floats
from thresher.lab.rivals.shuffle_accounting import smallest_noise_rate
from thresher.privacy.settings import check_delta, check_epsilon

Parameter = Literal["published", "smallest"]
Analyser = Literal["debiased", "truncated"]


@dataclass(frozen=True, slots=True)
class ShuffledBernoulli:
    """Each of m clients reports its bucket, and every bucket once more with probability q; only totals are seen.

    The noise rate q, at most 1/2, is one of
    - `published`: 50·ln(2/δ)/(ε²m), for epsilon up to 1;
    - `smallest`: the smallest that exact accounting of one client's change of bucket allows.

    The estimate is one of
    - `debiased`: total − m·q, unbiased, on which the paper's experiments seem to rest;
    - `truncated`: noise of rate 1 − q, which hides as much, and zero unless the total exceeds m, as no empty bucket's
      can. Balcer and Cheu's own; biased for small counts, exact for empty buckets.

    Guarantee: (epsilon, delta) for replace, against whoever sees the shuffled reports; the number of clients is public.
    Balcer and Cheu prove `published` for one bucket, which composes to (2ε, 2δ) for the two that a change of bucket
    touches; that it gives (epsilon, delta) for the two is by `shuffle_delta`, tested for epsilon from 0.1 to 1.
    Edge cases: with too few clients q would exceed 1/2 and `Unreachable` is raised; if `capped`, fair coins are used
    instead, the most noise there is, and the guarantee is only what `shuffle_delta` says.
    Reference: Balcer and Cheu 2020, the protocol for histograms. The constant 50 is as later works and code quote it;
    it was not compared with the article itself. Exact accounting shows that it suffices where it was tested.
    """

    name: ClassVar[str] = "shuffled Bernoulli"

    epsilon: float
    delta: float
    parameter: Parameter = "published"
    analyser: Analyser = "debiased"
    capped: bool = False

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta)
        if self.parameter not in ("published", "smallest"):
            raise InvalidSetting("parameter", "must be 'published' or 'smallest'")
        if self.parameter == "published" and not self.epsilon <= 1:
            raise InvalidSetting("epsilon", "must be at most 1 for the published parameter", hint="Use 'smallest'.")
        if self.analyser not in ("debiased", "truncated"):
            raise InvalidSetting("analyser", "must be 'debiased' or 'truncated'")

    def noise_rate(self, clients: int) -> float:
        """The probability q with which a client adds itself to a bucket."""
        try:
            if self.parameter == "smallest":
                return smallest_noise_rate(clients, self.epsilon, self.delta)
            ones = 50 * math.log(2 / self.delta) / self.epsilon**2
            if not ones <= clients / 2:
                raise Unreachable(
                    f"The published parameter needs more than {clients} clients at this epsilon and delta.",
                    hint="Take more clients or `parameter='smallest'`; `capped=True` simulates fair coins.",
                )
        except Unreachable:
            if not self.capped:
                raise
            return 0.5
        return ones / clients

    def estimate(self, counts: Counts, random: np.random.Generator) -> Floats:
        """Estimates from one draw a bucket: the coins of all clients add up to Bin(m, q)."""
        clients = int(counts.sum())
        rate = self.noise_rate(clients)
        if self.analyser == "debiased":
            totals = counts + random.binomial(clients, rate, len(counts))
            return np.asarray(totals - clients * rate, dtype=np.float64)
        totals = counts + random.binomial(clients, 1 - rate, len(counts))
        return np.where(totals > clients, totals - clients * (1 - rate), 0.0)

    def variance(self, clients: int) -> float:
        """The variance of each debiased estimate, m·q(1 − q)."""
        rate = self.noise_rate(clients)
        return clients * rate * (1 - rate)
