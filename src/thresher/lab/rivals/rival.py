"""What every rival histogram offers."""

from __future__ import annotations

from typing import ClassVar, Protocol

import numpy as np

from thresher.lab.data import Counts, Floats


class Rival(Protocol):
    """A mechanism for histograms over a known number of buckets."""

    name: ClassVar[str]

    def estimate(self, counts: Counts, random: np.random.Generator) -> Floats:
        """Estimated counts of the clients whose true counts these are, one a bucket."""
        ...
