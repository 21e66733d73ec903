"""Four ways to drive a query's generator: `run`, `replay`, `step` and `first_questions`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from thresher.errors import InvalidSetting, VerificationFailed
from thresher.mechanism.release import Release
from thresher.questions import Question, from_dict
from thresher.questions.population import Population, Progress, unit_of

if TYPE_CHECKING:
    from thresher.verbs.query import Query


@dataclass(frozen=True, slots=True)
class Next:
    """The questions that a query asks next, and the index of the first of their rounds."""

    index: int
    questions: tuple[Question, ...]


@dataclass(frozen=True, slots=True)
class Done:
    """A query's answer."""

    answer: Any


def run(
    query: Query,
    population: Population,
    progress: Progress | None = None,
    charge: Callable[[], object] | None = None,
) -> Any:
    """Ask a population round by round; returns the answer.

    `charge` is called right before each round. A charge that fails raises before anything is drawn, and a crash after
    it costs budget, never privacy. A table charges itself, between counting and drawing (`Table.charged`).

    Guarantee: asks no more rounds than the plan has. What a round asks may depend on earlier releases; how many rounds
    there are may not.
    Reference: docs/privacy.md, section 6.
    """
    releases: list[Release] = []

    def ask(index: int, questions: Sequence[Question]) -> Sequence[Release]:
        for question in questions:
            if charge is not None:
                charge()
            release = population.ask(question, query.plan)
            releases.append(replace(release, unit=unit_of(population)) if release.unit is None else release)
            if progress is not None:
                progress(len(releases), query.plan.rounds, query.what)
        return releases[index:]

    at = _drive(query, ask)
    assert isinstance(at, Done)
    return at.answer


def step(query: Query, releases: Sequence[Release], asked: Sequence[dict[str, Any]] | None = None) -> Next | Done:
    """What a query does after these releases: the questions of its next rounds, or its answer.

    `asked` are the questions that the rounds were really asked, as `Question.to_dict` writes them, where known.

    Guarantee: every release is used, and the same releases always give the same result. A release of another plan, of
    other columns or of another question than the query asks raises `VerificationFailed`.
    """
    used = 0

    def stored(index: int, questions: Sequence[Question]) -> Sequence[Release]:
        nonlocal used
        found = releases[index : index + len(questions)]
        used = index + len(found)
        for position, (question, release) in enumerate(zip(questions, found, strict=False), start=index):
            if release.plan != query.plan or release.columns != question.columns:
                raise VerificationFailed("A stored release belongs to another query.")
            # Read, and not compared as it was written: earlier versions wrote some questions in another form.
            if asked is not None and question != from_dict(asked[position]):
                raise VerificationFailed(
                    "A stored release answers another question than the query asks.",
                    hint="An earlier version may have asked in another order: read it with that version.",
                )
        return found

    at = _drive(query, stored)
    if used != len(releases):
        raise VerificationFailed("There are more releases than the query asks for.")
    return at


def replay(query: Query, releases: Sequence[Release], asked: Sequence[dict[str, Any]] | None = None) -> Any:
    """The query's answer from all its releases; `VerificationFailed` if one is missing."""
    at = step(query, releases, asked)
    if isinstance(at, Next):
        raise VerificationFailed("A release is missing: the query asks for more rounds.")
    return at.answer


def questions_of(query: Query, releases: Sequence[Release]) -> list[Question]:
    """The questions that a query asked, of which these are the releases, in order."""
    asked: list[Question] = []

    def remember(index: int, questions: Sequence[Question]) -> Sequence[Release]:
        asked.extend(questions)
        return releases[index : index + len(questions)]

    _drive(query, remember)
    return asked


def first_questions(query: Query) -> tuple[Question, ...]:
    """The questions of the first rounds."""
    at = _drive(query, lambda index, questions: ())
    assert isinstance(at, Next)
    return at.questions


def _drive(query: Query, supply: Callable[[int, Sequence[Question]], Sequence[Release]]) -> Next | Done:
    """Run the generator as far as `supply(index, questions)` has releases for its questions."""
    query.check_contributions()
    rounds, index = query.rounds(), 0
    received: Any = None
    while True:
        try:
            questions = tuple(query.asked(question) for question in rounds.send(received))
        except StopIteration as stopped:
            return Done(stopped.value)
        if not index + len(questions) <= query.plan.rounds:
            raise InvalidSetting("rounds", "are used up", hint="Make a plan with more rounds.")
        received = supply(index, questions)
        if len(received) < len(questions):
            return Next(index + len(received), questions[len(received) :])
        index += len(questions)
