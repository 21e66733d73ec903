"""What can be asked a question: a population.

The verbs recognise a population by its type. A frame with a column or a method called `ask` is none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

from thresher.mechanism.release import Release
from thresher.privacy.plans import Plan
from thresher.privacy.units import MEMBER, Unit
from thresher.questions import Question

Progress: TypeAlias = Callable[[int, int, str], None]
"""Called after each round with how many are done, how many there are at most, and what was asked; and while a file is
read, with percent."""


class Population(ABC):
    """Anything that can be asked a question: a table, a Spark frame, people in memory.

    Subclass it to ask people of your own with the verbs, or register a class: `Population.register(MyPeople)`.

    `ask` is one round: every unit that has an answer is in exactly one bucket, each is kept by a fresh coin of the
    plan's rate, counts below the plan's threshold are dropped. With a plan of several `contributions`, every unit is in
    at most so many distinct buckets of the round, and in each of them it is kept by a coin of its own. A unit that has
    more is in some that were chosen before any coin was tossed.

        >>> class People(th.Population):
        ...     def ask(self, question, plan):
        ...         return th.mechanism.sample_and_threshold({"a": 10_000}, plan, columns=question.columns)
        >>> "a" in th.histogram(People(), "letter", epsilon=1, delta=1e-8)
        True

    A population may say what one unit is in an attribute `unit`, a `thresher.privacy.Unit`. Without it, each member is
    a unit.
    """

    __slots__ = ()

    @abstractmethod
    def ask(self, question: Question, plan: Plan) -> Release:
        """One round: a fresh sample's answer to the question.

        Args:
            question: what each unit is asked; `question.bucket(value)` is the bucket of a value.
            plan: the sampling rate and the threshold of the round.

        Returns the round's release, as `thresher.mechanism.sample_and_threshold` draws it from counts.
        """
        ...


def unit_of(population: Population) -> Unit:
    """What one unit of a population is, from what it says itself, never from what its members hold."""
    unit = getattr(population, "unit", None)
    return unit if isinstance(unit, Unit) else MEMBER
