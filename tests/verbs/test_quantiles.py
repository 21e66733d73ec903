"""Quantiles by search and from a hierarchy: close to the truth, and never further than they say."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from in_memory_people import CountsPopulation, NumbersPopulation
from scipy.stats import binom

import thresher as th
from thresher.errors import InvalidSetting, NotReleased, VerificationFailed
from thresher.privacy.units import MEMBER
from thresher.questions import Below, Cells
from thresher.verbs import Quantiles, QuantilesQuery, quantiles
from thresher.verbs.drivers import questions_of, replay
from thresher.verbs.quantile_search import split_points

TEN = th.plan(1, 1e-8, rounds=10)
FIVE = th.plan(1, 1e-8, rounds=5)
THIRTY = th.plan(1, 1e-8, rounds=30)
IN_TURN = Path(__file__).parent / "quantile_answer_in_turn.json"
"""Written by `quantiles(…, [0.25, 0.5, 0.9], lower=0, upper=100, plan=th.plan(2, 1e-6, rounds=7), method="search")` of
Thresher 0.1.0 on 3,000 log-normal numbers."""
ALPHA = 1e-9  # false alarm of each check on how often intervals cover


@pytest.fixture(scope="module")
def log_normal() -> NumbersPopulation:
    return NumbersPopulation(np.random.default_rng(7).lognormal(0, 1, 1_000_000))


@pytest.fixture(scope="module")
def few() -> NumbersPopulation:
    return NumbersPopulation(np.random.default_rng(8).gamma(2.0, 10.0, 20_000))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["search", "hierarchy"])
def test_a_million_values(log_normal: NumbersPopulation, method: str) -> None:
    """Within six standard errors of sampling plus the weight of the bracket it was interpolated in."""
    plan = TEN if method == "hierarchy" else THIRTY  # a search needs about ten for each quantile
    answer = quantiles(log_normal, "x", [0.25, 0.5, 0.9], plan=plan, lower=0, upper=50, method=method)  # type: ignore[arg-type]
    assert answer.rounds_asked == plan.rounds
    for found in answer:
        off = abs(log_normal.rank(found.value) - found.probability)
        assert off < 6 * found.error.sampling + found.error.resolution
        assert found.interval[0] <= found.value <= found.interval[1]
        assert found.rank[0] <= found.probability <= found.rank[1]
        assert found.error.bound < 0.25
    assert answer.guarantee == plan.guarantee.for_unit(MEMBER)


def _misses(people: NumbersPopulation, method: str, runs: int, shift: float = 0.0) -> tuple[int, int]:
    """In how many seeded runs some interval of values, and of ranks, does not contain the truth."""
    plan = FIVE if method == "hierarchy" else TEN
    values = ranks = 0
    for seed in range(runs):
        answer = quantiles(
            people.seeded(seed),
            "x",
            [0.5],
            plan=plan,
            lower=0,
            upper=100,
            method=method,  # type: ignore[arg-type]
            branching=3 if method == "hierarchy" else None,
        )
        (found,) = answer
        truth = float(np.quantile(people.numbers, 0.5 + shift, method="inverted_cdf"))
        values += not found.interval[0] <= truth <= found.interval[1]
        ranks += not found.rank[0] <= people.rank(found.value) + shift <= found.rank[1]
    return values, ranks


@pytest.mark.slow
@pytest.mark.parametrize("method", ["search", "hierarchy"])
def test_intervals_cover_the_truth_as_often_as_they_say(few: NumbersPopulation, method: str) -> None:
    runs = 150
    allowed = int(binom.ppf(1 - ALPHA, runs, 0.05))
    values, ranks = _misses(few, method, runs)
    assert values <= allowed and ranks <= allowed
    shifted_values, shifted_ranks = _misses(few, method, runs, shift=0.12)
    assert shifted_values > allowed and shifted_ranks > allowed  # the check can fail


def test_search_asks_for_the_middle_of_its_bracket() -> None:
    people = CountsPopulation({float(value): 100 for value in range(1_000)})
    answer = quantiles(people, "x", [0.3], plan=TEN, lower=0, upper=1024, method="search")
    splits = [question.split for question in people.asked if isinstance(question, Below)]
    assert len(splits) == answer.rounds_asked == 10
    assert splits[:4] == [512.0, 256.0, 384.0, 320.0]
    assert answer[0.3].value == pytest.approx(300, abs=25)


def test_released_splits_are_shared_between_quantiles() -> None:
    people = CountsPopulation({float(value): 200 for value in range(1_000)})
    quantiles(people, "x", [0.2, 0.6], plan=TEN, lower=0, upper=1000, method="search")
    splits = [question.split for question in people.asked if isinstance(question, Below)]
    # Both begin with the same bracket, which is split at two points; then each has a bracket of its own.
    assert splits[:4] == pytest.approx([1000 / 3, 2000 / 3, 1000 / 6, 500.0])
    assert len(set(splits)) == len(splits) == 10


def test_one_step_splits_every_bracket_and_none_twice() -> None:
    assert split_points([(0.0, 8.0)] * 3 + [(8.0, 16.0)]) == [2.0, 4.0, 6.0, 12.0]
    assert split_points([(0.0, 8.0), (2.0, 6.0), (8.0, 9.0)]) == [4.0, 3.0, 8.5]  # two middles that are the same
    tight = math.nextafter(1.0, 2.0)
    assert split_points([(1.0, tight)] * 2 + [(3.0, 4.0)]) == [3.5]  # no float is between them
    last = math.nextafter(tight, 2.0)
    assert split_points([(1.0, last)] * 3) == [tight]


def test_a_search_takes_as_many_steps_as_a_quantile_has_rounds() -> None:
    for probabilities, plan, steps in (((0.5,), TEN, 10), ((0.2, 0.8), TEN, 5), ((0.2, 0.6), FIVE, 3)):
        query = QuantilesQuery("x", probabilities, plan, 0.0, 1000.0, "search")
        people = CountsPopulation({float(value): 200 for value in range(1_000)})
        sizes, driven, received = [], query.rounds(), None
        with pytest.raises(StopIteration):
            while True:
                questions = driven.send(received)
                sizes.append(len(questions))
                received = [people.ask(question, plan) for question in questions]
        assert len(sizes) == query.steps == steps
        assert sum(sizes) == plan.rounds and max(sizes) == len(probabilities)


def test_a_dropped_side_counts_as_zero_and_says_so() -> None:
    people = CountsPopulation({1.0: 5_000, 90.0: 20})
    answer = quantiles(people, "x", [0.999], plan=TEN, lower=0, upper=100, method="search")
    (found,) = answer
    assert found.error.threshold > 0
    hidden = TEN.threshold - 1
    assert found.error.threshold <= hidden / (5_000 * TEN.sampling_rate * 0.7)
    assert found.rank[1] == 1.0 and found.rank[0] < 0.999


def test_numbers_outside_the_bounds_count_as_at_the_bounds() -> None:
    people = CountsPopulation({-50.0: 4_000, 5.0: 2_000, 500.0: 4_000})
    for method, plan in (("search", TEN), ("hierarchy", FIVE)):
        answer = quantiles(people, "x", [0.2, 0.8], plan=plan, lower=0, upper=10, method=method)  # type: ignore[arg-type]
        assert answer[0.2].value < 0.5
        assert answer[0.8].value > 9.5


def test_hierarchy_levels_are_asked_once_each() -> None:
    people = CountsPopulation({float(value): 100 for value in range(100)})
    answer = quantiles(
        people, "x", [0.1, 0.5, 0.9, 0.99], plan=FIVE, lower=0, upper=100, method="hierarchy", branching=3
    )
    assert people.asked == [Cells("x", 0, 100, 3**level) for level in range(1, 6)]
    assert len(answer) == 4


@pytest.mark.parametrize("method", ["search", "hierarchy"])
def test_nothing_released_is_an_answer(method: str) -> None:
    answer = quantiles(CountsPopulation({1.0: 3}), "x", [0.5], plan=TEN, lower=0, upper=10, method=method)  # type: ignore[arg-type]
    (found,) = answer
    assert math.isnan(found.value)
    assert found.interval == (0, 10) and found.rank == (0, 1) and found.error.bound == 1
    assert json.loads(answer.to_json())["rows"][0]["value"] is None


@pytest.mark.slow
def test_a_single_value_is_found_to_the_last_float() -> None:
    plan = th.plan(1, 1e-8, rounds=80)
    answer = quantiles(CountsPopulation({0.75: 100_000}), "x", [0.5], plan=plan, lower=0, upper=1, method="search")
    assert answer[0.5].value == pytest.approx(0.75)
    assert answer.rounds_asked < 80  # no bracket could be split any further


@pytest.mark.slow
def test_tables_and_json() -> None:
    people = CountsPopulation({float(value): 100 for value in range(1_000)})
    answer = quantiles(people, "x", [0.5, 0.9], plan=TEN, lower=0, upper=1000)
    table = answer.to_arrow()
    assert table.column_names[:4] == ["probability", "value", "lower", "upper"]
    assert {"sampling_error", "resolution_error", "threshold_error", "rank_error_bound"} <= set(table.column_names)
    assert (
        answer.to_pandas()["value"].tolist() == answer.to_polars()["value"].to_list() == list(answer.to_dict().values())
    )
    content = json.loads(answer.to_json())
    assert content["confidence"] == 0.95 and content["plan"]["rounds"] == 10
    assert answer.verify() == TEN.guarantee.for_unit(MEMBER)
    assert "0.5: " in repr(answer)
    with pytest.raises(NotReleased):
        answer[0.3]


def test_a_seeded_draw_guarantees_nothing(few: NumbersPopulation) -> None:
    answer = quantiles(few.seeded(1), "x", [0.5], plan=TEN, lower=0, upper=100)
    assert not answer.private
    with pytest.raises(VerificationFailed):
        answer.verify()


@pytest.mark.parametrize(
    "wrong",
    [
        {"probabilities": []},
        {"probabilities": [0]},
        {"probabilities": [1]},
        {"probabilities": [float("nan")]},
        {"probabilities": [0.5, 0.5]},
        {"probabilities": [part / 20 for part in range(1, 12)], "method": "search"},
        {"lower": 10},
        {"lower": float("nan")},
        {"lower": float("-inf")},
        {"upper": float("inf")},
        {"lower": -1.7e308, "upper": 1.7e308},
        {"lower": "zero"},
        {"method": "guess"},
        {"method": "hierarchy", "branching": 1},
        {"method": "hierarchy", "branching": 50},
        {"column": ""},
        {"column": "", "method": "hierarchy"},
    ],
)
def test_requests_that_are_refused_before_anything_is_asked(wrong: dict[str, object]) -> None:
    people = CountsPopulation({1.0: 5_000})
    settings = {"column": "x", "probabilities": [0.5], "plan": TEN, "lower": 0, "upper": 10} | wrong
    with pytest.raises(InvalidSetting):
        quantiles(people, **settings)  # type: ignore[arg-type]
    assert people.asked == []


def test_progress_is_reported() -> None:
    seen: list[tuple[int, int, str]] = []
    people = CountsPopulation({float(value): 100 for value in range(100)})
    answer = quantiles(people, "x", [0.5], plan=FIVE, lower=0, upper=100, progress=lambda *args: seen.append(args))
    assert isinstance(answer, Quantiles)
    assert [(done, total) for done, total, _ in seen] == [(done, 5) for done in range(1, 6)]
    assert {what for _, _, what in seen} == {"quantiles of x, hierarchy"}


def test_a_search_of_earlier_versions_is_read_in_its_own_order():
    answer = th.load(IN_TURN)
    assert answer.query.together is False
    assert answer.query.steps == answer.rounds_asked == 7
    assert answer.to_dict() == pytest.approx({0.25: 10.0835, 0.5: 19.2862, 0.9: 69.7588}, abs=1e-4)
    assert "together" not in answer.query.to_dict()
    now = replace(answer.query, together=True)
    assert now.steps == 3
    with pytest.raises(VerificationFailed):  # the order matters: these questions are not those of a new search
        replay(now, answer.releases, [question.to_dict() for question in questions_of(answer.query, answer.releases)])


def test_verbs_of_one_value_refuse_plans_of_several():
    several = th.plan(1, 1e-8, rounds=4, contributions=3)
    query = QuantilesQuery("x", (0.5,), several, 0.0, 1.0)
    with pytest.raises(InvalidSetting, match="contributions"):
        _ = query.first_question
