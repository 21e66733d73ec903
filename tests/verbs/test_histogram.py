"""Histograms: one round, a public domain, and an honest line for the rest."""

from __future__ import annotations

import json

import pytest
from in_memory_people import CountsPopulation, seeded

import thresher as th
from thresher.errors import InvalidSetting, NotReleased, VerificationFailed
from thresher.mechanism import Release
from thresher.privacy import Plan
from thresher.privacy.units import MEMBER
from thresher.questions import Bins, Question, Values
from thresher.verbs import HistogramQuery

PLAN = th.plan(1, 1e-8)
COUNTRIES = {"fr": 5_000, "de": 3_000, "at": 400, "rare": 3}
COUNTRY = Values(("country",))


def histogram(people, question, plan, *, domain=None, progress=None):
    return HistogramQuery(question, plan, domain).run(people, progress)


def test_it_reads_like_a_release() -> None:
    answer = histogram(CountsPopulation(COUNTRIES), COUNTRY, PLAN)
    assert [row.bucket for row in answer] == ["fr", "de", "at"]
    assert len(answer) == 3
    assert "fr" in answer and "rare" not in answer
    low, high = answer["fr"].interval
    assert low <= answer["fr"].estimate <= high
    assert answer.to_dict().keys() == {"fr", "de", "at"}
    assert answer.to_arrow().column_names == ["country", "count", "estimate", "lower", "upper"]
    assert answer.to_pandas()["country"].tolist() == answer.to_polars()["country"].to_list() == ["fr", "de", "at"]
    assert answer.guarantee == PLAN.guarantee.for_unit(MEMBER) == answer.verify()
    assert answer.plan == PLAN and answer.private
    assert Release.from_json(answer.release.to_json()).to_dict() == answer.to_dict()
    with pytest.raises(NotReleased):
        answer["rare"]


def test_estimates_are_within_what_the_binomial_law_allows() -> None:
    """Six standard deviations: a false alarm in two of a billion buckets."""
    answer = histogram(CountsPopulation(COUNTRIES), COUNTRY, PLAN)
    for bucket in ("fr", "de"):
        deviation = (COUNTRIES[bucket] * (1 - PLAN.sampling_rate) / PLAN.sampling_rate) ** 0.5
        assert abs(answer[bucket].estimate - COUNTRIES[bucket]) < 6 * deviation
        assert abs(answer[bucket].estimate - 2 * COUNTRIES[bucket]) > 6 * deviation


def test_a_domain_shows_what_is_below_the_threshold_and_hides_the_rest() -> None:
    answer = histogram(CountsPopulation(COUNTRIES), COUNTRY, PLAN, domain=["fr", "rare", "nowhere", "at", "fr"])
    assert [row.bucket for row in answer] == ["fr", "at"]
    assert answer.below_threshold == ["rare", "nowhere"]
    rows = answer.to_arrow().to_pylist()
    assert [(row["country"], row["status"]) for row in rows] == [
        ("fr", "released"),
        ("at", "released"),
        ("rare", "below threshold"),
        ("nowhere", "below threshold"),
    ]
    assert all(rows[2][name] is None for name in ("count", "estimate", "lower", "upper"))
    assert answer.verify() == PLAN.guarantee.for_unit(MEMBER)
    for text in (str(answer), answer._repr_html_()):
        assert "below threshold" in text
        assert "other: everything below the threshold" in text
        assert "de" not in [word.strip() for word in text.split()]


def test_a_rare_bucket_and_one_that_nobody_holds_look_the_same() -> None:
    answer = histogram(CountsPopulation(COUNTRIES), COUNTRY, PLAN, domain=["rare", "nowhere"])
    rare, nowhere = (dict(row) for row in answer.to_arrow().to_pylist())
    assert rare.pop("country") == "rare" and nowhere.pop("country") == "nowhere"
    assert rare == nowhere


def test_domains_of_numbers_and_of_several_columns() -> None:
    ages = CountsPopulation({20: 4_000, 70: 4_000})
    answer = histogram(ages, Bins("age", (0, 18, 65, 130)), PLAN, domain=[0, 18, 65])
    assert answer.to_arrow()["age"].to_pylist() == [*[row.bucket for row in answer], 0]
    pairs = CountsPopulation({("fr", "a"): 4_000, ("fr", "b"): 2})
    joint = histogram(pairs, Values(("country", "os")), PLAN, domain=[("fr", "a"), ("fr", "b")])
    assert joint.below_threshold == [("fr", "b")]
    assert "fr · b" in str(joint)


def test_a_domain_of_an_empty_release() -> None:
    answer = histogram(CountsPopulation({}), COUNTRY, PLAN, domain=[1, 2])
    assert len(answer) == 0
    assert answer.to_arrow()["status"].to_pylist() == ["below threshold"] * 2
    assert answer.to_arrow()["country"].to_pylist() == [1, 2]
    assert len(histogram(CountsPopulation({}), COUNTRY, PLAN).to_arrow()) == 0


@pytest.mark.parametrize("domain", [[], "fr", [None], [["unhashable"]], 5])
def test_domains_that_are_refused_before_anything_is_asked(domain: object) -> None:
    people = CountsPopulation(COUNTRIES)
    with pytest.raises(InvalidSetting, match="domain"):
        histogram(people, COUNTRY, PLAN, domain=domain)  # type: ignore[arg-type]
    assert people.asked == []


def test_a_domain_of_another_type_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="another type"):
        histogram(CountsPopulation(COUNTRIES), COUNTRY, PLAN, domain=["fr", 7]).to_arrow()


def test_several_rounds_are_refused() -> None:
    people = CountsPopulation(COUNTRIES)
    with pytest.raises(InvalidSetting, match="must be 1 for a histogram"):
        histogram(people, COUNTRY, th.plan(1, 1e-8, rounds=2))
    assert people.asked == []


def test_a_seeded_draw_guarantees_nothing() -> None:
    answer = histogram(CountsPopulation(COUNTRIES, seeded(1)), COUNTRY, PLAN)
    assert not answer.private
    with pytest.raises(VerificationFailed):
        _ = answer.guarantee
    assert json.loads(answer.to_json())["guarantee"] is None
    assert json.loads(answer.to_json())["more"]["certificate"]["private"] is False


def test_progress_is_reported() -> None:
    seen: list[tuple[int, int, str]] = []
    histogram(CountsPopulation(COUNTRIES), COUNTRY, PLAN, progress=lambda *args: seen.append(args))
    assert seen == [(1, 1, "histogram of country")]


class _Stubborn(th.Population):
    """A population that answers with another plan than it was asked with."""

    def ask(self, question: Question, plan: Plan) -> Release:
        return CountsPopulation(COUNTRIES).ask(question, th.plan(2, 1e-8))


def test_an_answer_that_was_drawn_with_another_plan_guarantees_nothing() -> None:
    with pytest.raises(VerificationFailed, match="another plan"):
        _ = histogram(_Stubborn(), COUNTRY, PLAN).guarantee
