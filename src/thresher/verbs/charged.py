"""A population whose first question is paid for before it is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from thresher.mechanism.release import Release
from thresher.privacy.plans import Plan
from thresher.questions import Question
from thresher.questions.population import Population, unit_of


class Charged(Population):
    """Calls `charge` once, right before the first round.

    Every check of a query comes before its first round, so a query that is refused costs nothing; a charge that fails
    raises before anything is drawn; and a crash after it costs budget, never privacy.
    """

    def __init__(self, population: Population, charge: Callable[[], object]) -> None:
        self._population = population
        self._charge: Callable[[], object] | None = charge

    def ask(self, question: Question, plan: Plan) -> Release:
        """One round, paid for."""
        if self._charge is not None:
            self._charge()
            self._charge = None
        release = self._population.ask(question, plan)
        return replace(release, unit=unit_of(self._population)) if release.unit is None else release
