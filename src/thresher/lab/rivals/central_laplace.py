"""Central Laplace noise: a trusted server adds noise to every bucket of a public list of buckets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from thresher.errors import InvalidSetting
from thresher.lab.data import Counts, Floats
from thresher.privacy.binomial import log_point
from thresher.privacy.settings import Adjacency, check_adjacency, check_epsilon


@dataclass(frozen=True, slots=True)
class CentralLaplace:
    """Independent Laplace noise of scale Δ/ε on every bucket, empty ones too; nothing is rounded or clipped.

    Guarantee: (epsilon, 0). Δ is 2 for replace, where two buckets change by one, and 1 for add-remove. The buckets must
    be known without looking at the data.
    Reference: Dwork, McSherry, Nissim and Smith 2006.
    """

    name: ClassVar[str] = "central Laplace"

    epsilon: float
    adjacency: Adjacency = "replace"

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_adjacency(self.adjacency)

    @property
    def scale(self) -> float:
        """The noise's scale Δ/ε; also its expected absolute value."""
        return (2 if self.adjacency == "replace" else 1) / self.epsilon

    def estimate(self, counts: Counts, random: np.random.Generator) -> Floats:
        """Counts plus noise."""
        return counts + random.laplace(0.0, self.scale, len(counts))

    def expected_absolute_error(self, counts: ArrayLike, sampling_rate: float = 1.0) -> Floats:
        """E|(Bin(k, p) + noise)/p − k| for every count k: the sample and the noise together.

        Guarantee: exact up to binomial tails beyond 9 standard deviations, which are left out. Given a gap d between
        the sampled count and its mean, E|d + noise| is |d| + scale·exp(−|d|/scale).
        Edge cases: a sampling rate of 1 gives the scale for every count.
        """
        if not 0 < sampling_rate <= 1:
            raise InvalidSetting("sampling_rate", "must be above 0 and at most 1", hint="For example 0.1.")
        sizes, positions = np.unique(np.asarray(counts, dtype=np.int64), return_inverse=True)
        if sampling_rate == 1:
            return np.full(len(positions), self.scale)
        errors = np.array([self._sampled_error(int(size), sampling_rate) for size in sizes])
        return errors[positions] / sampling_rate

    def _sampled_error(self, size: int, rate: float) -> float:
        mean, spread = size * rate, math.sqrt(size * rate * (1 - rate))
        low, high = max(0, math.floor(mean - 9 * spread - 9)), min(size, math.ceil(mean + 9 * spread + 9))
        sampled = np.arange(low, high + 1, dtype=np.float64)
        gap = np.abs(sampled - mean)
        weight = np.exp(log_point(size, sampled, rate))
        return float(weight @ (gap + self.scale * np.exp(-gap / self.scale)))
