"""Running a query on releases that exist already: on the coordinator to find its next round, on the client to answer.

A query is a deterministic function of its rounds' releases (docs/protocol.md, section 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thresher import questions
from thresher.errors import VerificationFailed
from thresher.mechanism.release import Release
from thresher.privacy.plans import Plan
from thresher.questions import Question
from thresher.verbs import Population, Query


class Pending(Exception):
    """The query asks for a round that has no release yet: its index, from 0, and its question."""

    def __init__(self, index: int, question: Question) -> None:
        super().__init__(index)
        self.index = index
        self.question = question


class Replayed(Population):
    """A population that answers with stored releases, in order, and raises `Pending` where they end.

    `asked` are the questions that the rounds were really asked, as `questions.to_dict` writes them, where known.

    Guarantee: a release of another plan, of other columns or of another question than the query asks for now is an
    error: the query would not be the one that made it.
    """

    def __init__(self, releases: Sequence[Release], asked: Sequence[dict[str, Any]] | None = None) -> None:
        self._releases = releases
        self._asked = asked
        self.used = 0

    def ask(self, question: Question, plan: Plan) -> Release:
        """The next stored release."""
        index = self.used
        if index == len(self._releases):
            raise Pending(index, question)
        release = self._releases[index]
        if release.plan != plan or release.columns != question.columns:
            raise VerificationFailed("A stored release belongs to another query.")
        if self._asked is not None and questions.to_dict(question) != self._asked[index]:
            raise VerificationFailed("A stored release answers another question than the query asks.")
        self.used = index + 1
        return release


def replay(query: Query, releases: Sequence[Release], asked: Sequence[dict[str, Any]] | None = None) -> Any:
    """The query's answer from all its releases; `Pending` if it needs another round.

    Guarantee: every release is used; the same releases always give the same answer.
    """
    population = Replayed(releases, asked)
    answer = query.run(population)
    if population.used != len(releases):
        raise VerificationFailed("There are more releases than the query asks for.")
    return answer
