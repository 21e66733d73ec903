"""Sampling without privacy: what the sample alone costs, the floor of every comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from thresher.lab.data import Counts, Floats


@dataclass(frozen=True, slots=True)
class NotPrivate:
    """The counts of the sample as they are.

    Guarantee: none. A bucket of one sampled client is shown.
    """

    name: ClassVar[str] = "sampling, not private"

    def estimate(self, counts: Counts, random: np.random.Generator) -> Floats:
        """The counts themselves; nothing is drawn."""
        return counts.astype(np.float64)
