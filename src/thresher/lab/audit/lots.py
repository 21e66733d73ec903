"""Draws that are dear to make: made many at a time, and handed out once each."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from thresher.lab.audit.neighbours import Population
from thresher.lab.audit.paths import Observed
from thresher.privacy.plans import Plan


class Lot(Protocol):
    """Makes so many independent draws at once."""

    def __call__(self, population: Population, copies: int, plan: Plan) -> Observed:
        """A row a draw."""
        ...


class Lots:
    """Keeps what is left of each lot; no draw is handed out twice."""

    def __init__(self, make: Lot, draws: int) -> None:
        self._make = make
        self._draws = draws
        self._left: dict[Population, Observed] = {}

    def __call__(self, population: Population, trials: int, plan: Plan) -> Observed:
        """Draws that nobody has seen yet; a new lot has `draws` of them, or as many as are asked for."""
        kept = self._left.get(population)
        while kept is None or len(kept) < trials:
            fresh = self._make(population, max(self._draws, trials), plan)
            kept = fresh if kept is None else np.concatenate([kept, fresh])
        self._left[population] = kept[trials:]
        return kept[:trials]
