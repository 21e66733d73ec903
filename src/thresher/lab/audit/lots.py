"""Paths whose draws are expensive: many are made at a time, and each is handed out once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from thresher.errors import InvalidSetting
from thresher.lab.audit.attacks import Event
from thresher.lab.audit.neighbours import Pair, Population
from thresher.lab.audit.paths import Observed
from thresher.privacy.plans import Plan


class DrawnInLots(ABC):
    """A mechanism that makes at least `draws` draws at a time and keeps those that nobody has seen yet."""

    path: ClassVar[str]
    several_values: ClassVar[bool] = False
    """Whether units may hold several values that count."""

    def __init__(self, draws: int) -> None:
        self._draws = draws
        self._left: dict[Population, Observed] = {}

    def pairs(self, plan: Plan) -> list[Pair]:
        """The neighbouring populations to try: few, since every draw is expensive."""
        if plan.adjacency != "replace" or plan.rounds != 1:
            raise InvalidSetting(
                "path",
                f"{self.path!r} audits one round under adjacency='replace'",
                hint="Other paths audit the rest.",
            )
        self._require_known(plan)
        return self._pairs(plan)

    def __call__(self, population: Population, trials: int, plan: Plan) -> Observed:
        """Draws that nobody has seen yet."""
        kept = self._left.get(population)
        while kept is None or len(kept) < trials:
            fresh = self._lot(population, max(self._draws, trials), plan)
            kept = fresh if kept is None else np.concatenate([kept, fresh])
        self._left[population] = kept[trials:]
        return kept[:trials]

    def events(self, plan: Plan) -> Iterator[Event] | None:
        """The guesses to try, where what is observed is not released counts; None where it is."""
        return None

    def _require_known(self, plan: Plan) -> None:
        """Refuse several values of a unit where the path has one."""
        if plan.contributions > 1 and not self.several_values:
            raise InvalidSetting(
                "path", f"{self.path!r} audits one value of a unit", hint="Leave `contributions` out, or audit a table."
            )

    @abstractmethod
    def _pairs(self, plan: Plan) -> list[Pair]: ...

    @abstractmethod
    def _lot(self, population: Population, copies: int, plan: Plan) -> Observed:
        """So many independent draws at once, a row a draw."""
