"""What analytics may know of the people they ask: one method."""

from __future__ import annotations

from typing import Protocol

from thresher.mechanism.release import Release
from thresher.privacy.plans import Plan
from thresher.privacy.units import MEMBER, Unit
from thresher.questions import Question


class Population(Protocol):
    """Anything that can be asked a question: a table, a Spark frame, a fleet.

    `ask` is one round: every unit that has an answer is in exactly one bucket, each is kept by a fresh coin of the
    plan's rate, counts below the plan's threshold are dropped.

    A population may say what one unit is in an attribute `unit`, a `thresher.privacy.Unit`. Without it, each member is
    a unit.
    """

    def ask(self, question: Question, plan: Plan) -> Release:
        """One round: a fresh sample's answer to the question."""
        ...


def unit_of(population: Population) -> Unit:
    """What one unit of a population is, from what it says itself, never from what its members hold."""
    unit = getattr(population, "unit", None)
    return unit if isinstance(unit, Unit) else MEMBER
