"""The stability-based sparse Laplace histogram: noise on buckets that occur, a threshold that hides which do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from thresher.lab.data import Counts, Floats
from thresher.privacy.comparison import noise_scale, stability_threshold
from thresher.privacy.settings import Adjacency, check_adjacency, check_delta, check_epsilon


@dataclass(frozen=True, slots=True)
class StabilityHistogram:
    """Laplace noise of scale Δ/ε on the buckets that occur; what stays below the threshold is estimated as zero.

    Guarantee: (epsilon, delta), for buckets that nobody listed beforehand. Δ is 2 for replace and 1 for add-remove. A
    bucket that one client brings into being is shown with probability exp(−(threshold − 1)/scale)/2, which is δ for
    add-remove and δ/2 for replace, where a client may do so in one bucket and undo it in another.
    Reference: Korolova, Kenthapadi, Mishra and Ntoulas 2009; Bun, Nissim and Stemmer 2016.
    """

    name: ClassVar[str] = "stability-based Laplace"

    epsilon: float
    delta: float
    adjacency: Adjacency = "replace"

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta)
        check_adjacency(self.adjacency)

    @property
    def scale(self) -> float:
        """The noise's scale Δ/ε."""
        return noise_scale(self.epsilon, self.adjacency)

    @property
    def threshold(self) -> float:
        """The smallest noisy count that is shown: 1 + scale·ln(1/δ'), δ' = δ for replace and 2δ for add-remove."""
        return stability_threshold(self.scale, self.delta, self.adjacency)

    def estimate(self, counts: Counts, random: np.random.Generator) -> Floats:
        """Noisy counts of the buckets that occur and reach the threshold; zero for all others."""
        noisy = counts + random.laplace(0.0, self.scale, len(counts))
        return np.where((counts > 0) & (noisy >= self.threshold), noisy, 0.0)
