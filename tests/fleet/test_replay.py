"""Replaying a query from stored releases: the same answer, the next round, and nothing that does not belong to it."""

import dataclasses

import pytest

import thresher as th
from thresher.errors import VerificationFailed
from thresher.mechanism import Release, sample_and_threshold
from thresher.questions import Values
from thresher.verbs import HeavyHittersQuery, HistogramQuery, QuantilesQuery
from thresher.verbs.drivers import Next, replay, step

PLAN = th.plan(epsilon=1.0, delta=1e-6, rounds=3)
QUERY = HeavyHittersQuery("word", PLAN, "trie")
WORDS = {"yes": 9_000, "no": 5_000, "nay": 4_000}


class People(th.Population):
    """Draws rounds, and remembers what was asked."""

    def __init__(self) -> None:
        self.asked: list[dict] = []

    def ask(self, question, plan) -> Release:
        self.asked.append(question.to_dict())
        counts: dict = {}
        for word, count in WORDS.items():
            bucket = question.bucket(word)
            if bucket is not None:
                counts[bucket] = counts.get(bucket, 0) + count
        return sample_and_threshold(counts, plan, columns=question.columns)


@pytest.fixture
def run():
    people = People()
    return people, QUERY.run(people)


def test_the_same_releases_give_the_same_answer(run):
    people, answer = run
    stored = [Release.from_json(release.to_json()) for release in answer.releases]
    again = replay(QUERY, stored, people.asked)
    assert again.to_json() == answer.to_json()
    assert again.verify() == answer.guarantee
    assert replay(QUERY, stored).to_json() == answer.to_json()


def test_the_next_round_is_asked_for_where_releases_end(run):
    people, answer = run
    for number in range(len(answer.releases)):
        at = step(QUERY, answer.releases[:number], people.asked[:number])
        assert isinstance(at, Next)
        assert at.index == number
        assert [question.to_dict() for question in at.questions] == [people.asked[number]]
        with pytest.raises(VerificationFailed, match="missing"):
            replay(QUERY, answer.releases[:number], people.asked[:number])


def test_releases_of_another_plan_column_or_question_are_refused(run):
    people, answer = run
    releases = list(answer.releases)
    other = th.plan(epsilon=1.1, delta=1e-6, rounds=3)
    with pytest.raises(VerificationFailed):
        replay(dataclasses.replace(QUERY, plan=other), releases)
    with pytest.raises(VerificationFailed):
        replay(dataclasses.replace(QUERY, column="name"), releases)
    with pytest.raises(VerificationFailed, match="question"):
        replay(QUERY, releases, [people.asked[1], *people.asked[1:]])
    # A level too early is another question: its parents differ.
    with pytest.raises(VerificationFailed):
        replay(QUERY, [releases[0], *releases[2:]], [people.asked[0], *people.asked[2:]])


def test_more_releases_than_the_query_asks_for_are_refused():
    single = th.plan(epsilon=1.0, delta=1e-6)
    query = HistogramQuery(Values(("word",)), single)
    release = query.run(People()).release
    assert replay(query, [release]).release.to_json() == release.to_json()
    with pytest.raises(VerificationFailed, match="more releases"):
        replay(query, [release, release])


def test_an_early_end_needs_no_further_rounds():
    """A search that cannot be split any further asks for fewer rounds than its plan has; replay ends with it."""
    query = QuantilesQuery("x", (0.5,), PLAN, 0.0, 1e-323, "search")  # one number is between these
    release = sample_and_threshold({True: 9_000, False: 9_000}, PLAN, columns=("x",))
    answer = replay(query, [release])
    assert answer.rounds_asked == 1 < PLAN.rounds
