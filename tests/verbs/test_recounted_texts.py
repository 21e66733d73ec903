"""Texts that later levels of a trie count again: what is asked, the law of the estimates, and answers from before."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from in_memory_people import CountsPopulation, seeded
from scipy import stats

import thresher as th
from thresher.mechanism import Release, Response
from thresher.protocol.rates import share
from thresher.questions import END, Prefixes, RecountedPrefixes
from thresher.verbs import HeavyHitters, HeavyHittersQuery, drivers, heavy_hitters, query_from_dict, recounts

ALPHA = 1e-9
"""False alarm per check."""

FOUR = th.plan(1, 1e-8, rounds=4)
RATE, THRESHOLD = FOUR.sampling_rate, FOUR.threshold
WORDS = {"a": 3_000, "the": 2_000, "thirteen": 1_500, "": 900, "thesaurus": 800, "rare": 2}
BEFORE = Path(__file__).parent / "trie_answer_counted_once.json"
"""Written by `heavy_hitters(…, plan=th.plan(1, 1e-6, rounds=3), method="trie", step=2)` of Thresher 0.1.0 on 5,000
times "the", 3,000 "then", 2,500 "to", 900 "thesaurus" and one "rare"."""


def release(level: int, counts: dict[str, int], response: Response | None = None) -> Release:
    assert all(len(bucket) <= 3 * level for bucket in counts)
    return Release.of(list(counts), list(counts.values()), FOUR, private=True, columns=("word",), response=response)


def answer_of(*releases: Release) -> HeavyHitters:
    at = drivers.step(HeavyHittersQuery("word", FOUR, "trie", 3), releases)
    assert isinstance(at, drivers.Done)
    return at.answer  # type: ignore[no-any-return]


def test_found_texts_are_asked_for_again() -> None:
    people = CountsPopulation(WORDS)
    answer = heavy_hitters(people, "word", plan=FOUR, method="trie", step=3)
    first, second, third, fourth = people.asked
    assert first == Prefixes("word", 3)
    assert second == RecountedPrefixes("word", 6, 3, frozenset({"the", "thi"}), frozenset({"a", ""}))
    assert third == RecountedPrefixes("word", 9, 6, frozenset({"thesau", "thirte"}), frozenset({"a", "", "the"}))
    assert fourth == RecountedPrefixes("word", 12, 9, frozenset({"thesaurus"}), frozenset({"a", "", "the", "thirteen"}))
    assert {item.item: item.rounds for item in answer} == {"a": 4, "": 4, "the": 3, "thirteen": 2, "thesaurus": 1}
    assert [node.prefix for node in answer.trie.nodes].count("a") == 1


def test_an_estimate_is_the_total_over_the_rates() -> None:
    answer = answer_of(release(1, {"a" + END: 200, "the": 300}), release(2, {"a" + END: 220, "the" + END: 290}))
    assert (answer["a"].count, answer["a"].rounds) == (420, 2)
    assert answer["a"].estimate == pytest.approx(420 / (2 * RATE))
    assert (answer["the"].count, answer["the"].rounds) == (290, 1)
    assert answer["the"].estimate == pytest.approx(290 / RATE)
    lower, upper = answer["a"].interval
    once = answer.releases[0]["a" + END].interval
    assert lower < answer["a"].estimate < upper
    assert 1.3 < (once[1] - once[0]) / (upper - lower) < 1.5
    assert [node.estimate for node in answer.trie.children()] == sorted(
        [answer["a"].estimate, 300 / RATE], reverse=True
    )


def test_a_round_that_drops_a_text_counts_as_the_largest_count_that_is_dropped() -> None:
    answer = answer_of(release(1, {"a" + END: THRESHOLD + 3, "the": 300}), release(2, {"the" + END: 290}))
    assert (answer["a"].count, answer["a"].rounds) == (THRESHOLD + 3, 2)
    assert answer["a"].estimate == pytest.approx((2 * THRESHOLD + 2) / (2 * RATE))
    assert answer["a"].interval[0] >= THRESHOLD
    assert answer["a"].interval[1] < answer.releases[0]["a" + END].interval[1]


def test_a_round_that_no_device_completed_says_nothing() -> None:
    rates, _ = share(FOUR, 1.0, "aggregator")
    full, none = (Response(1_000, 1_000, number, rates) for number in (1_000, 0))
    rows = {"a" + END: 200, "the": 300}
    answer = answer_of(release(1, rows, full), release(2, {}, none))
    assert answer["a"].rounds == 1
    assert answer["a"].interval == answer.releases[0]["a" + END].interval


def test_texts_for_which_there_is_no_room_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recounts, "ROOM", 12)
    people = CountsPopulation(WORDS)
    answer = heavy_hitters(people, "word", plan=FOUR, method="trie", step=3)
    assert people.asked[-1].texts == {"a", ""}  # type: ignore[attr-defined]
    assert {item.item: item.rounds for item in answer} == {"a": 4, "": 4, "the": 1, "thirteen": 1, "thesaurus": 1}


def test_readings_have_the_same_numbers_at_any_confidence() -> None:
    answer = heavy_hitters(CountsPopulation(WORDS), "word", plan=FOUR, method="trie", step=3)
    usual, wide = answer.readings().by_key(), answer.readings(0.999).by_key()
    for item in answer:
        key = (item.item, item.complete)
        assert (usual[key].estimate, usual[key].lower, usual[key].upper) == (item.estimate, *item.interval)
        assert wide[key].lower < item.interval[0] <= item.interval[1] < wide[key].upper  # type: ignore[operator]


@pytest.mark.slow
def test_counts_of_all_rounds_have_the_exact_law() -> None:
    """A text of 300 units in four rounds: the total is Bin(1200, p), since no round drops it."""
    draws = np.array(
        [
            heavy_hitters(
                CountsPopulation({"a": 300, "thirteenth": 500}, seeded(seed)), "word", plan=FOUR, method="trie", step=3
            )["a"].count
            for seed in range(300)
        ]
    )
    assert p_value(draws, 1_200, RATE) > ALPHA
    assert p_value(draws, 900, RATE) < ALPHA  # three rounds only
    assert p_value(draws, 1_200, RATE * 1.1) < ALPHA


def p_value(draws: np.ndarray, trials: int, rate: float) -> float:
    """Of a two-sided test of the sum of the draws, each Bin(trials, rate)."""
    return float(stats.binomtest(int(draws.sum()), trials * len(draws), rate).pvalue)


@pytest.mark.slow
def test_intervals_cover_given_that_a_text_is_found() -> None:
    """About 1,200 found texts around the threshold. With a coverage of 95 %, fewer than 92 % of them would be covered
    in less than one of 10^5 runs of the test."""
    near = {
        f"{letter}x": int(part * THRESHOLD / RATE)
        for letter, part in zip("abcdef", (0.9, 1, 1.1, 1.3, 2, 5), strict=True)
    }
    people = near | {"thirteenth": 5_000}
    covered: dict[str, list[bool]] = {"all rounds": [], "narrower": []}
    for seed in range(260):
        answer = heavy_hitters(CountsPopulation(people, seeded(seed)), "word", plan=FOUR, method="trie", step=3)
        for item in answer.complete:
            if item.item in near:
                lower, upper = item.interval
                middle, half = (lower + upper) / 2, (upper - lower) / 2
                covered["all rounds"].append(lower <= near[item.item] <= upper)
                covered["narrower"].append(abs(near[item.item] - middle) <= 0.7 * half)
    assert len(covered["all rounds"]) > 1_000
    assert np.mean(covered["all rounds"]) > 0.92
    assert np.mean(covered["narrower"]) < 0.92


def test_an_answer_from_before_is_replayed_as_it_was() -> None:
    answer = th.load(BEFORE)
    assert isinstance(answer, HeavyHitters)
    assert not answer.query.recount
    assert [(item.item, item.count, item.rounds) for item in answer] == [
        ("the", 1185, 1),
        ("then", 694, 1),
        ("to", 566, 1),
        ("thesau", 225, 1),
    ]
    assert [item.interval for item in answer] == [(4814, 5322), (2776, 3165), (2247, 2600), (855, 1078)]
    assert answer.verify() == answer.guarantee
    # With texts counted again the second round would have been asked something else.
    content = json.loads(BEFORE.read_text())
    releases = [Release.from_json(json.dumps(each["release"])) for each in content["rounds"]]
    asked = [each["question"] for each in content["rounds"]]
    assert drivers.replay(query_from_dict(content["query"]), releases, asked).items == answer.items
    with pytest.raises(th.errors.VerificationFailed):
        drivers.replay(query_from_dict(content["query"] | {"recount": True}), releases, asked)


def test_an_answer_from_before_is_saved_and_read_again(tmp_path: Path) -> None:
    answer = th.load(BEFORE)
    answer.save(tmp_path / "again.json")
    again = th.load(tmp_path / "again.json")
    assert again.query == answer.query  # type: ignore[union-attr]
    assert again.to_json() == answer.to_json()


def test_one_shot_queries_from_before_are_those_of_today() -> None:
    query = HeavyHittersQuery("word", th.plan(1, 1e-8))
    before = {name: value for name, value in query.to_dict().items() if name != "recount"}
    assert query_from_dict(before) == query


def test_a_query_says_whether_texts_are_counted_again() -> None:
    query = HeavyHittersQuery("word", FOUR, "trie", 3)
    assert query.to_dict()["recount"] is True
    assert query_from_dict(query.to_dict()) == query
    with pytest.raises(th.errors.InvalidFormat):
        query_from_dict(query.to_dict() | {"recount": "yes"})
