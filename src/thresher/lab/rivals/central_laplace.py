"""Central Laplace noise: a trusted server adds noise to every bucket of a public list of buckets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from thresher.lab.data import Counts, Floats
from thresher.privacy.comparison import noise_scale
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
        return noise_scale(self.epsilon, self.adjacency)

    def estimate(self, counts: Counts, random: np.random.Generator) -> Floats:
        """Counts plus noise."""
        return counts + random.laplace(0.0, self.scale, len(counts))
