"""The rounds of one query: asked one after another, never more than the plan has, and what they guarantee together."""

from __future__ import annotations

from dataclasses import dataclass

from thresher.errors import InvalidSetting, VerificationFailed
from thresher.mechanism.release import Release
from thresher.mechanism.response import stands_for
from thresher.mechanism.tabular import Tabular
from thresher.privacy.guarantee import Guarantee
from thresher.privacy.plans import Plan
from thresher.privacy.units import Unit
from thresher.questions import Question
from thresher.questions.population import Population, Progress


class Rounds:
    """Asks a population round by round and keeps every release.

    Guarantee: a plan's total is for `plan.rounds` rounds with its rate and threshold; this asks no more of them. What a
    round asks may depend on earlier releases; how many rounds there are may not.
    Reference: docs/privacy.md, section 6.
    """

    def __init__(self, population: Population, plan: Plan, progress: Progress | None = None) -> None:
        self._population = population
        self._progress = progress
        self.plan = plan
        self.releases: list[Release] = []

    @property
    def left(self) -> int:
        """How many more rounds the plan has."""
        return self.plan.rounds - len(self.releases)

    def ask(self, question: Question, what: str) -> Release:
        """One round."""
        if not self.left > 0:
            raise InvalidSetting("rounds", "are used up", hint="Make a plan with more rounds.")
        release = self._population.ask(question, self.plan)
        self.releases.append(release)
        if self._progress is not None:
            self._progress(len(self.releases), self.plan.rounds, what)
        return release


@dataclass(frozen=True, slots=True, eq=False)
class Answer(Tabular):
    """What every answer keeps: the plan, and each round's release. All the rest follows from the two.

    Guarantee: `guarantee` covers all rounds of the plan together, also where fewer were needed: what has been charged
    is not given back, since when to stop was decided by looking at releases.
    """

    plan: Plan
    releases: tuple[Release, ...]

    @property
    def private(self) -> bool:
        """Whether every round was drawn from a secure source."""
        return all(release.private for release in self.releases)

    @property
    def guarantee(self) -> Guarantee:
        """What all rounds together guarantee; raises where a seeded source drew one of them."""
        if not self.private:
            raise VerificationFailed(
                "This answer was drawn from a seeded source and guarantees nothing.",
                hint="Draw without thresher.testing.",
            )
        return self.plan.guarantee.for_unit(self.unit)

    @property
    def unit(self) -> Unit | None:
        """Whom the guarantee protects; None where nobody said it, or where rounds say different things."""
        units = {release.unit for release in self.releases}
        return units.pop() if len(units) == 1 else None

    @property
    def stands_for(self) -> str | None:
        """For whom estimates and intervals stand, in words: the devices that checked in; None for a table."""
        return stands_for(release.response for release in self.releases)

    @property
    def rounds_asked(self) -> int:
        """How many rounds were asked; at most `plan.rounds`."""
        return len(self.releases)

    def verify(self) -> Guarantee:
        """Recompute the guarantee, check every round's release and that each has this plan's rate and threshold."""
        for release in self.releases:
            if release.plan != self.plan:
                raise VerificationFailed("A round was drawn with another plan than the answer states.")
            release.verify()
        if len({release.unit for release in self.releases if release.unit is not None}) > 1:
            raise VerificationFailed("Rounds were drawn for different units, whose guarantees do not add up.")
        return self.guarantee

    def promise(self) -> str:
        """The guarantee in one line, for a title or a footer."""
        if not self.private:
            return "seeded, not private"
        try:
            return str(self.guarantee)
        except VerificationFailed:
            return self.plan.promise()
