"""The four verbs as values: checked before anybody is asked, sent and read back, run like the verbs."""

import datetime as dt
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from in_memory_people import CountsPopulation, NumbersPopulation

import thresher as th
from thresher.errors import InvalidFormat, InvalidSetting
from thresher.mechanism import Response
from thresher.mechanism.release import Release
from thresher.protocol.rates import share
from thresher.questions import Below, Bins, Cells, Dates, Joint, Prefixes, Values
from thresher.verbs import (
    HeavyHitters,
    HeavyHittersQuery,
    HistogramQuery,
    QuantilesQuery,
    QueryTaker,
    RangesQuery,
    query_from_dict,
)
from thresher.verbs.drivers import Next, replay, step

ONE = th.plan(epsilon=1.0, delta=1e-8)
FOUR = th.plan(epsilon=1.0, delta=1e-8, rounds=4)
QUERIES = [
    HistogramQuery(Values(("country",)), ONE),
    HistogramQuery(Values(("a", "b")), ONE, (("x", 1), ("y", 2))),
    HistogramQuery(Bins("age", (0, 18, 65)), ONE, (0.0, 18.0)),
    HistogramQuery(Dates("day", "week"), ONE, (dt.date(2024, 1, 1),)),
    HistogramQuery(Values(("at",)), ONE, (dt.datetime(2024, 1, 1, 12),)),
    HistogramQuery(Joint((Values(("a",)), Dates("day", "month"))), ONE, (("x", dt.date(2024, 1, 1)),)),
    HeavyHittersQuery("word", ONE),
    HeavyHittersQuery("word", FOUR, "trie", 2),
    QuantilesQuery("latency", (0.5, 0.99), FOUR, 0, 60_000, "search"),
    QuantilesQuery("latency", (0.5,), FOUR, 0.5, 60_000.0, "hierarchy", 8),
    RangesQuery("age", FOUR, 0, 128, 2),
    RangesQuery("age", FOUR, 0, 128, whole=True),
]


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.describe())
def test_to_dict_and_back_through_json(query):
    again = query_from_dict(json.loads(json.dumps(query.to_dict())))
    assert again == query
    assert again.first_question == query.first_question


def test_first_questions():
    first = [query.first_question for query in QUERIES[6:]]
    assert first == [
        Values(("word",)),
        Prefixes("word", 2),
        Below("latency", 20_000.0),  # two quantiles split the first bracket at two points
        Cells("latency", 0.5, 60_000.0, 8),
        Cells("age", 0, 128, 2),
        Cells("age", 0, 256, 4),
    ]


def test_numpy_numbers_are_sent_as_numbers():
    query = HistogramQuery(Values(("n",)), ONE, tuple(np.array([1, 2])))
    assert query.to_dict()["domain"] == [1, 2]
    with pytest.raises(InvalidSetting):
        HistogramQuery(Values(("n",)), ONE, (object(),)).to_dict()


WRONG = [
    {"verb": "unknown"},
    {"verb": None},
    {"extra": 1},
    {"plan": None},
    {"plan": {}},
    {"plan": {"format": "thresher-plan", "version": 1}},
    {"lower": "0"},
    {"lower": True},
    {"lower": 128},
    {"upper": float("inf")},
    {"branching": 2.5},
    {"branching": 1},
    {"branching": 10**9},
    {"column": 5},
    {"column": ""},
    {"column": ["a"]},
]


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.describe())
def test_several_values_count_only_for_verbs_that_count_several(query):
    plan = th.plan(epsilon=4, delta=1e-6, rounds=query.plan.rounds, contributions=2)
    content = query.with_plan(plan).to_dict()
    if query.counts_several:
        assert query_from_dict(content).several == 2
    else:
        with pytest.raises(InvalidSetting, match="contributions must be 1"):
            query_from_dict(content)


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_refused(wrong):
    content = QUERIES[-1].to_dict() | wrong
    with pytest.raises((InvalidFormat, InvalidSetting)):
        query_from_dict(content)


@pytest.mark.parametrize(
    "wrong",
    [
        {"domain": "canary"},
        {"domain": [["canary", "x"]]},
        {"domain": [{"canary": "2024-01-01"}]},
        {"domain": [{"date": "canary"}]},
        {"domain": [{"date": "2024-01-01", "time": "canary"}]},
        {"domain": ["canary", 1]},
        {"domain": []},
        {"question": {"kind": "below", "column": "canary", "split": 1.0}},
        {"question": {"kind": "values"}},
        {"question": 3},
        {"question": {"kind": "bins", "column": "age", "edges": [2, 1]}},
        {"plan": FOUR.to_dict()},
    ],
)
def test_a_wrong_histogram_is_refused_without_quoting_it(wrong):
    with pytest.raises((InvalidFormat, InvalidSetting)) as caught:
        query_from_dict(QUERIES[0].to_dict() | wrong)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        (QUERIES[6], {"method": "guess"}),
        (QUERIES[6], {"step": "1"}),
        (QUERIES[7], {"step": 0}),
        (QUERIES[7], {"step": 10_000}),
        (QUERIES[8], {"probabilities": []}),
        (QUERIES[8], {"probabilities": 0.5}),
        (QUERIES[8], {"probabilities": ["0.5"]}),
        (QUERIES[8], {"probabilities": [0.5, 0.5]}),
        (QUERIES[8], {"probabilities": [0.1, 0.2, 0.3, 0.4, 0.5]}),
    ],
)
def test_wrong_settings_of_a_verb(query, wrong):
    with pytest.raises((InvalidFormat, InvalidSetting)):
        query_from_dict(query.to_dict() | wrong)


def test_nothing_is_asked_by_looking():
    class Nobody(th.Population):
        def ask(self, question, plan):
            raise AssertionError("asked")

    for query in QUERIES:
        assert query.first_question is not None
        with pytest.raises(AssertionError):
            query.run(Nobody())


def test_another_plan():
    wider = th.plan(epsilon=2.0, delta=1e-8)
    assert QUERIES[0].with_plan(wider).plan == wider


def test_running_is_the_verb():
    words = CountsPopulation({"yes": 9_000, "no": 5_000, "rare": 2})
    found = HeavyHittersQuery("word", FOUR, "trie").run(words)
    assert isinstance(found, HeavyHitters)
    assert {item.item for item in found.complete} == {"yes", "no"}
    calls = []
    HistogramQuery(Values(("word",)), ONE).run(words, lambda *told: calls.append(told))
    assert calls == [(1, 1, "histogram of word")]


# Fleets as data.


class Taker(QueryTaker):
    """Stands for a fleet: remembers what it was given."""

    def submit(self, query, *, wait, progress):
        self.query, self.wait = query, wait
        return "submitted"


def test_a_fleet_gets_the_whole_query():
    fleet = Taker()
    assert th.histogram(fleet, "word", epsilon=1, delta=1e-8, domain=iter("ab"), wait=False) == "submitted"
    assert (fleet.query, fleet.wait) == (HistogramQuery(Values(("word",)), ONE, ("a", "b")), False)
    th.heavy_hitters(fleet, "word", epsilon=1, delta=1e-8, method="trie", levels=4, step=2)
    assert (fleet.query, fleet.wait) == (QUERIES[7], True)
    th.quantiles(fleet, "latency", [0.5, 0.99], lower=0, upper=60_000, plan=FOUR, method="search")
    assert fleet.query == QUERIES[8]
    th.ranges(fleet, "age", lower=0, upper=128, branching=2, plan=FOUR)
    assert fleet.query == QUERIES[10]


def test_what_is_for_tables_is_not_for_fleets(tmp_path):
    ledger = th.Ledger(tmp_path / "ledger.db", epsilon=1, delta=1e-6)
    with pytest.raises(InvalidSetting, match="ledger"):
        th.histogram(Taker(), "word", epsilon=1, delta=1e-8, ledger=ledger)
    with pytest.raises(InvalidSetting, match="unit"):
        th.histogram(Taker(), "word", epsilon=1, delta=1e-8, unit="user")
    with pytest.raises(InvalidSetting, match="wait"):
        th.histogram({"word": ["a"]}, "word", epsilon=1, delta=1e-8, wait=False)


# Uneven rounds: levels of a hierarchy that other numbers of devices completed.


class PartlyAnswering(th.Population):
    """Numbers held by devices of which another part completes in every round."""

    def __init__(self, numbers, completing):
        self.numbers, self.completing = np.asarray(numbers, dtype=float), iter(completing)
        self.random = np.random.default_rng(3)

    def ask(self, question, plan):
        completed = self.random.random(len(self.numbers)) < next(self.completing)
        people = NumbersPopulation(self.numbers[completed])
        release = people.ask(question, plan)
        rates, _ = share(plan)
        response = Response(len(self.numbers), len(self.numbers), int(completed.sum()), rates)
        return Release.of(
            release.table.select(list(release.columns)),
            release.counts,
            plan,
            private=True,
            columns=release.columns,
            response=response,
        )


def test_ranges_of_uneven_rounds_estimate_all_devices():
    """False alarm: ten standard errors of the smallest sample, below 1e-20; at the plan's rate it is off by half."""
    numbers = np.arange(40_000) % 100
    plan = th.plan(epsilon=2.0, delta=1e-6, rounds=3)
    answer = RangesQuery("age", plan, 0, 128, 4).run(PartlyAnswering(numbers, [0.9, 0.5, 0.7]))
    found = answer.count(0, 50)
    tolerance = 10 * np.sqrt(20_000 / (0.5 * plan.sampling_rate))
    assert abs(found.estimate - 20_000) < tolerance < 10_000
    assert abs(answer.fraction(0, 50).estimate - 0.5) < 0.1
    assert answer.hierarchy.unevenness == pytest.approx(0.9 / 0.5, rel=0.05)
    even = RangesQuery("age", plan, 0, 128, 4).run(PartlyAnswering(numbers, [0.7, 0.7, 0.7]))
    tree, other = answer.hierarchy, even.hierarchy
    wide, narrow = (each.sure_fraction_bounds(0, 25, 0.025) for each in (tree, other))
    assert wide[1] - wide[0] > narrow[1] - narrow[0]  # what is proved allows for what the levels differ by
    low, high = tree.sure_fraction_bounds(0, 25, 1e-9)  # the ages below 50; false alarm: 2e-9
    assert low < 0.5 < high


def test_a_round_that_nobody_completed_is_no_information():
    plan = th.plan(epsilon=2.0, delta=1e-6, rounds=2)
    answer = RangesQuery("age", plan, 0, 128, 4).run(PartlyAnswering(np.arange(20_000) % 100, [0.9, 0.0]))
    low, high = answer.fraction(0, 50).interval
    assert 0.3 < low < 0.34 and 0.62 < high < 0.66  # as far as the other round tells: 32 % are below 32, 64 % below 64
    assert answer.count(32, 64).interval[0] > 6_000 < 6_400 < answer.count(32, 64).interval[1] < 7_000
    assert len(answer.releases[1]) == 0


# Replay.


def test_replayed_releases_give_the_same_answer_and_ask_for_the_next():
    query = HeavyHittersQuery("word", FOUR, "trie")
    words = CountsPopulation({"yes": 9_000, "no": 5_000})
    answer = query.run(words)
    for number in range(len(answer.releases)):
        assert step(query, answer.releases[:number]) == Next(number, (words.asked[number],))
    assert replay(query, answer.releases).to_json() == answer.to_json()


@pytest.mark.parametrize("wrong", ["no", 1, 0, None, [1], np.array([True, False]), pd.NA])
def test_what_is_true_or_false_takes_nothing_else(wrong: object, tmp_path: Path) -> None:
    target = {"epsilon": 1.0, "delta": 1e-8}
    (tmp_path / "words.csv").write_text("word\na\n")
    asked = [
        ("show_data_errors", lambda: th.histogram(["a"], "value", show_data_errors=wrong, **target)),
        ("wait", lambda: th.histogram(["a"], "value", wait=wrong, **target)),
        ("show_data_errors", lambda: th.look(tmp_path / "words.csv", show_data_errors=wrong)),
        ("warn", lambda: th.Fleet("https://fleet.example", key="a").submit(QUERIES[0], warn=wrong)),
        ("wait", lambda: th.Fleet("https://fleet.example", key="a").submit(QUERIES[0], wait=wrong)),
    ]
    if wrong is not None:
        asked += [
            ("whole", lambda: th.ranges([1], "value", lower=0, upper=8, whole=wrong, **target)),
            ("until_all", lambda: th.Fleet("https://fleet.example", key="a").with_rounds(until_all=wrong)),
        ]
    for setting, ask in asked:
        with pytest.raises(InvalidSetting, match=f"^{setting} must be True or False"):
            ask()
