"""Units that count for several of their values, on every engine: exact counts, a uniform choice, a coin for each."""

from __future__ import annotations

import datetime as dt
import itertools
import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import test_table_contract as contract
from scipy import stats
from table_cases import Maker, as_mapping, opened

import thresher as th
from thresher.errors import InvalidSetting
from thresher.questions import END, Bins, Dates, Prefixes, Question, Values
from thresher.tables import Table
from thresher.testing import SeededRandomness
from thresher.verbs.heavy_hitters import HeavyHittersQuery
from thresher.verbs.histogram import HistogramQuery

ALPHA = 1e-9  # false alarm per check

ALL = th.Plan(1 - 2**-40, 2, 1.0, 0.5, contributions=3)
"""A rate so close to 1 that no coin among a few thousand is ever false."""


def counted(table: Table, question: Question, contributions: int, *, at_least: int = 1) -> dict[Any, int]:
    return as_mapping(*table._tally(question, at_least=at_least, contributions=contributions))


def holders(table: pa.Table, question: Question, unit: str) -> dict[Any, int]:
    """How many distinct units have each bucket, one value at a time, by the evaluator that devices use."""
    columns = [table[name].to_pylist() for name in question.columns]
    values = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
    found = {(who, question.bucket(value)) for who, value in zip(table[unit].to_pylist(), values, strict=True)}
    return dict(Counter(bucket for who, bucket in found if who is not None and bucket is not None))


def of_words(words: dict[str, list[Any]]) -> pa.Table:
    rows = [(who, word) for who, held in words.items() for word in held]
    return pa.table({"who": [who for who, _ in rows], "word": pa.array([word for _, word in rows], pa.string())})


@pytest.mark.slow
def test_units_with_few_values_are_counted_exactly(source: Maker, request: pytest.FixtureRequest) -> None:
    table = contract.people()
    takes_long = request.node.callspec.params["source"] in ("spark", "spark-connect", "dask")
    with opened(source, table, unit="user id") as population:
        for question in contract.QUESTIONS[:: 3 if takes_long else 1]:  # each is a job there
            assert counted(population, question, 25) == holders(table, question, "user id"), question


def test_values_of_one_bucket_count_once(local: Maker) -> None:
    days = [dt.date(2024, 1, 1), dt.date(2024, 1, 31), dt.date(2024, 2, 1)]
    table = pa.table(
        {
            "who": [1, 1, 1, 2, 2, 2],
            "x": [1.0, 2.0, 9.0, 1.0, 1.0, 1.5],
            "day": [*days, *days],
            "word": ["then", "the", "a", "the", "the", "there"],
        }
    )
    with Table(local(table), unit="who") as population:
        assert counted(population, Bins("x", (0, 5, 10)), 2) == {0.0: 2, 5.0: 1}
        assert counted(population, Dates("day", "month"), 2) == {days[0]: 2, days[2]: 2}
        assert counted(population, Values(("word",)), 3) == {"the": 2, "then": 1, "a": 1, "there": 1}
        assert counted(population, Prefixes("word", 3), 3) == {"the": 2, "a" + END: 1}
        extending = Prefixes("word", 4, known=3, parents=frozenset({"the"}))
        assert counted(population, extending, 3) == {"then": 1, "the" + END: 2, "ther": 1}


@pytest.mark.slow
def test_many_values_of_one_bucket_take_one_place(source: Maker) -> None:
    # Ten of eleven values are in one bin: a choice among values, not buckets, would leave the other bin out at times.
    # Of 8 units all would have both bins once in a million runs.
    held = [*(float(number) / 10 for number in range(10)), 7.0]
    table = pa.table({"who": [who for who in range(8) for _ in held], "x": held * 8})
    with opened(source, table, unit="who") as population:
        assert counted(population, Bins("x", (0, 5, 10)), 2) == {0.0: 8, 5.0: 8}


@pytest.mark.slow
def test_what_is_no_value_takes_no_place(local: Maker) -> None:
    marks = "e" + "\u0301" * 99
    several = {f"one {number}": ["a", "b", None, marks] for number in range(4)}
    table = of_words({**several, "two": ["a", None], marks: ["a", "b"], "three": [None, marks]})
    table = pa.concat_tables([table, pa.table({"who": pa.array([None], pa.string()), "word": ["a"]})])
    units = [*(who for who in range(4) for _ in range(3)), 4, None]
    numbers = pa.table({"who": units, "x": [*([1.0, 2.0, float("nan")] * 4), float("nan"), 1.0]})
    with Table(local(table), unit="who") as population:
        assert counted(population, Values(("word",)), 2) == {"a": 5, "b": 4}
        assert counted(population, Prefixes("word", 1), 2) == {"a": 5, "b": 4}
    with Table(local(numbers), unit="who") as population:
        assert counted(population, Values(("x",)), 2) == {1.0: 4, 2.0: 4}


@pytest.mark.slow
def test_spellings_of_one_unit_or_value_are_one(source: Maker) -> None:
    table = of_words({"\u00e9": ["K", "a"], "e\u0301": ["\u212a", "b"], "E\u0301": ["k"]})
    with opened(source, table, unit="who") as population:
        for _ in range(2):
            assert counted(population, Values(("word",)), 3) == {"K": 1, "a": 1, "b": 1, "k": 1}
        assert counted(population, Prefixes("word", 1), 4) == {"K": 1, "a": 1, "b": 1, "k": 1}


# The choice among more than c values.

UNITS, HELD = 3000, [0, 0, 0, 0, 0, 0, 1, 2, 3, 4]
"""Five values of each unit, of which the first is in six rows."""


def p_value_of_choice(found: list[int], chosen: int) -> float:
    """Whether each unit chose so many of its values uniformly, from how many units chose each.

    Choosing c of m has the covariance c/m·(1 − c/m)·(I − J/m)·m/(m − 1), so the sum is chi-square with m − 1 degrees.
    """
    part = chosen / len(found)
    spread = UNITS * part * (1 - part) * len(found) / (len(found) - 1)
    return float(stats.chi2.sf(sum((count - UNITS * part) ** 2 for count in found) / spread, len(found) - 1))


@pytest.mark.slow
@pytest.mark.parametrize("chosen", [2, 3])
def test_units_with_more_values_choose_uniformly_among_distinct_ones(source: Maker, chosen: int) -> None:
    data = pa.table({"who": [unit for unit in range(UNITS) for _ in HELD], "x": HELD * UNITS})
    with opened(source, data, unit="who") as population:
        found = counted(population, Values(("x",)), chosen)
        assert sum(found.values()) == chosen * UNITS
        assert p_value_of_choice([found[value] for value in range(5)], chosen) > ALPHA
        kept = counted(population, Bins("x", (0, 1, 2, 3, 4, 5)), chosen)
        assert sum(kept.values()) == chosen * UNITS
        assert p_value_of_choice([kept[float(value)] for value in range(5)], chosen) > ALPHA


def test_the_test_of_the_choice_finds_a_choice_among_rows() -> None:
    pick = random.Random(1)
    rows = Counter(
        value for _ in range(UNITS) for value in list(dict.fromkeys(pick.sample(HELD, len(HELD))))[:2]
    )  # the first two distinct values of rows in random order
    assert p_value_of_choice([rows[value] for value in range(5)], 2) < ALPHA
    values = Counter(value for _ in range(UNITS) for value in pick.sample(range(5), 2))
    assert p_value_of_choice([values[value] for value in range(5)], 2) > ALPHA


def p_value_of_pairs(chosen: list[tuple[int, int]]) -> float:
    """Whether each of the ten pairs of five values is as likely as the others."""
    found = Counter(tuple(sorted(pair)) for pair in chosen)
    return float(stats.chisquare([found[pair] for pair in itertools.combinations(range(5), 2)]).pvalue)


@pytest.mark.slow
def test_every_pair_of_values_is_chosen_as_often(engine: Maker) -> None:
    # Each unit has five values of its own, which tell what each unit chose.
    data = pa.table({"who": [unit for unit in range(UNITS) for _ in range(5)], "x": list(range(5 * UNITS))})
    with Table(engine(data), unit="who") as population:
        values = sorted(counted(population, Values(("x",)), 2))
    assert len(values) == 2 * UNITS
    units = [(first // 5, second // 5) for first, second in zip(values[::2], values[1::2], strict=True)]
    assert units == [(unit, unit) for unit in range(UNITS)]
    assert p_value_of_pairs([(a % 5, b % 5) for a, b in zip(values[::2], values[1::2], strict=True)]) > ALPHA


@pytest.mark.slow
def test_every_pair_of_shared_values_is_chosen_as_often() -> None:
    data = pa.table({"who": [unit for unit in range(UNITS) for _ in range(5)], "x": list(range(5)) * UNITS})
    with Table(data, unit="who") as population:
        rows: Any = population._engine.several(("x",), "who", 2)
        kept = rows.collect(rows.frame).sort_by("u")["v0"].to_pylist()
        rows.close()
    assert p_value_of_pairs(list(zip(kept[::2], kept[1::2], strict=True))) > ALPHA
    neighbours = [(start % 5, (start + 1) % 5) for start in range(UNITS)]
    assert p_value_of_pairs(neighbours) < ALPHA  # each value as often as the others, and not each pair


@pytest.mark.slow
def test_every_query_chooses_anew_and_its_rounds_see_the_same_values(engine: Maker) -> None:
    letters = [chr(first + number) * 2 for first in map(ord, "a\u03b1") for number in range(17)]
    data = of_words({"one": letters, "two": letters})
    with Table(engine(data), unit="who") as population:
        kept = []
        for _ in range(2):
            with population.charged(lambda: None) as asked:
                first = counted(asked, Prefixes("word", 1), 8)
                again = counted(asked, Prefixes("word", 1), 8)
                parents = frozenset(first)
                assert first == again
                assert sum(first.values()) == 2 * 8
                assert {word[0] for word in counted(asked, Prefixes("word", 2, 1, parents), 8)} == parents
                assert not population._several
            kept.append(first)
            assert kept_by(population) == []
        # Two units choose 8 of 34 each, in 18,156,204² ways, of which at most 12,870 give the same counts.
        assert kept[0] != kept[1]
        chosen = [counted(population, Values(("word",)), 8) for _ in range(2)]
        assert chosen[0] != chosen[1]
        assert kept_by(population) == []


def kept_by(population: Table) -> list[Any]:
    """What an engine keeps for a table: tables on our own connection to DuckDB, or frames on a cluster."""
    engine: Any = population._engine
    if getattr(engine, "_own", None) is not None:
        return list(engine._own.execute("SHOW TABLES").fetchall())
    return list(getattr(engine, "_persisted", ()))


# Verbs.


def towns(units: int = 400) -> pa.Table:
    """Every unit has been in "anderlecht", every second one in "antwerp" too, every fourth one in "ghent" as well."""
    held = {
        f"u{number}": ["anderlecht"] * 3 + ["antwerp"] * (number % 2 == 0) + ["ghent"] * 2 * (number % 4 == 0)
        for number in range(units)
    }
    return of_words(held)


TOWNS = {"anderlecht": 400, "antwerp": 200, "ghent": 100}


@pytest.mark.slow
def test_how_many_units_hold_a_value(local: Maker) -> None:
    with Table(local(towns()), unit="who") as population:
        h = HistogramQuery(Values(("word",)), ALL).run(population)
        assert {row.bucket: row.count for row in h} == TOWNS
        found = HeavyHittersQuery("word", ALL).run(population)
        assert {item.item: item.count for item in found} == TOWNS


@pytest.mark.slow
def test_how_many_units_hold_a_value_by_a_trie(source: Maker) -> None:
    plan = th.Plan(1 - 2**-40, 2, 1.0, 0.5, rounds=6, contributions=3)
    with opened(source, towns(), unit="who") as population:
        found = HeavyHittersQuery("word", plan, "trie", 2).run(population)
    assert {item.item: round(item.estimate) for item in found} == TOWNS
    counts = {node.prefix: round(node.estimate) for node in found.trie.nodes}
    assert counts["an"] == 400  # a unit with two towns of this beginning counts once
    assert counts["ant" + "w"] == counts["gh"] * 2 == 200


@pytest.mark.slow
def test_a_seed_gives_the_same_release_where_nobody_has_more(local: Maker) -> None:
    plan = th.Plan(0.5, 5, 1.0, 0.5, contributions=3)
    data = towns()
    shuffled = data.take(random.Random(3).sample(range(len(data)), len(data)))
    releases = []
    for table in (data, shuffled):
        with Table(local(table), unit="who", randomness=SeededRandomness(4)) as population:
            releases.append(population.ask(Values(("word",)), plan).table)
    assert releases[0].equals(releases[1])
    assert releases[0].num_rows == 3


@pytest.mark.slow
def test_verbs_count_several_values(tmp_path: Path) -> None:
    data = towns(4000)
    h = th.histogram(data, "word", epsilon=1, delta=1e-6, unit="who", contributions=3)
    assert h.plan.contributions == 3
    assert "up to 3 chosen at random (how many units have more is not public)" in h.to_json()
    assert set(h.to_dict()) == set(TOWNS)
    found = th.heavy_hitters(data, "word", plan=h.plan, unit="who")
    assert {item.item for item in found} == set(TOWNS)
    assert h.query.describe() == "histogram of word, up to 3 values a unit"
    assert h.query.settings()["contributions"] == found.query.settings()["contributions"] == 3
    with Table(data, unit="who") as table:
        assert set(th.histogram(table, "word", plan=h.plan).to_dict()) == set(TOWNS)
    one = th.histogram(data, "word", epsilon=1, delta=1e-6, unit="who")
    assert one.query.settings()["contributions"] is None
    assert "one of its values" in one.to_json()


@pytest.mark.slow
def test_several_values_need_a_unit(tmp_path: Path) -> None:
    ledger = th.Ledger(tmp_path / "ledger.db", epsilon=10, delta=1e-2)
    plan = th.plan(1, 1e-4, sampling_rate=0.1, contributions=2)
    for verb in (th.histogram, th.heavy_hitters):
        with pytest.raises(InvalidSetting, match="each row is a unit") as refused:
            verb(towns(), "word", plan=plan, ledger=ledger)
        assert refused.value.setting == "contributions"
        assert "anderlecht" not in str(refused.value)
    with pytest.raises(InvalidSetting, match="each row is a unit"):
        Table(towns()).ask(Values(("word",)), plan)
    with pytest.raises(InvalidSetting, match="here a unit has one value"):
        th.quantiles(pa.table({"x": [1.0]}), "x", [0.5], lower=0, upper=1, plan=plan, ledger=ledger)
    assert not ledger.history()


@pytest.mark.parametrize("wrong", [0, -1, 1001, 2.5, True, "2"])
def test_contributions_are_whole_numbers_from_one(wrong: Any) -> None:
    with pytest.raises(InvalidSetting) as refused:
        th.histogram(towns(), "word", epsilon=1, delta=1e-6, unit="who", contributions=wrong)
    assert refused.value.setting == "contributions"


# Coins.

GROUPS, MEMBERS = 400, 40
HALF = th.Plan(0.5, 1, 1.0, 0.5, contributions=2)


def of_pairs() -> pa.Table:
    """Groups of units that all hold the same two values."""
    rows = [
        (f"{group} {member}", f"{group} {side}")
        for group in range(GROUPS)
        for member in range(MEMBERS)
        for side in "ab"
    ]
    return pa.table({"who": [who for who, _ in rows], "word": [word for _, word in rows]})


def p_value_of_coins(counts: dict[Any, int]) -> tuple[float, float]:
    """Whether the two values of a group have the law of single coins, and whether they are independent.

    With independent coins the difference of the two sampled counts has variance 2·40·p(1 − p).
    """
    both = np.array([[counts.get(f"{group} {side}", 0) for side in "ab"] for group in range(GROUPS)])
    p, spread = HALF.sampling_rate, MEMBERS * HALF.sampling_rate * (1 - HALF.sampling_rate)
    total = (both.sum() - 2 * GROUPS * MEMBERS * p) / np.sqrt(2 * GROUPS * spread)
    apart = (((both[:, 0] - both[:, 1]) ** 2).sum()) / (2 * spread)
    return 2 * float(stats.norm.sf(abs(total))), 2 * min(
        float(stats.chi2.cdf(apart, GROUPS)), float(stats.chi2.sf(apart, GROUPS))
    )


@pytest.mark.slow
def test_each_value_of_a_unit_has_its_own_coin(engine: Maker) -> None:
    with Table(engine(of_pairs()), unit="who", driver_limit=10) as population:  # on Spark, its workers draw
        release = population.ask(Values(("word",)), HALF)
    assert min(p_value_of_coins(dict(zip(release.buckets, release.counts.tolist(), strict=True)))) > ALPHA


def test_the_test_of_coins_finds_one_coin_for_both_values() -> None:
    drawn = np.random.default_rng(5)
    counts = {f"{group} a": int(number) for group, number in enumerate(drawn.binomial(MEMBERS, 0.5, GROUPS))}
    one_coin = counts | {name.replace("a", "b"): count for name, count in counts.items()}
    assert p_value_of_coins(one_coin)[1] < ALPHA
    other = {f"{group} b": int(number) for group, number in enumerate(drawn.binomial(MEMBERS, 0.5, GROUPS))}
    assert min(p_value_of_coins(counts | other)) > ALPHA
    one_value = counts | dict.fromkeys(other, 0)  # successes capped at one a unit, after tossing
    assert min(p_value_of_coins(one_value)) < ALPHA


def test_rare_buckets_stay_in_the_engine(local: Maker) -> None:
    table = of_words({f"u{number}": [f"w{number}", "many"] for number in range(300)})
    with Table(local(table), unit="who") as population:
        assert counted(population, Values(("word",)), 2, at_least=20) == {"many": 300}
        assert counted(population, Prefixes("word", 4), 2, at_least=20) == {"many": 300}


# Databases behind Ibis.


@pytest.mark.slow
def test_several_values_on_databases(database: Maker) -> None:
    units = ["u1", "U1", "\u00e9", "e\u0301", "u1"]
    table = pa.table({"who": units * 5, "x": [number // 5 for number in range(25)]})
    with Table(database(table), unit="who") as population:
        for question in (Values(("x",)), Bins("x", (0, 2, 5))):
            assert set(counted(population, question, 5).values()) == {3}, question
    many = pa.table({"who": [f"u{unit}" for unit in range(UNITS) for _ in HELD], "x": HELD * UNITS})
    with Table(database(many), unit="who") as population:
        found = counted(population, Values(("x",)), 2)
        assert sum(found.values()) == 2 * UNITS
        assert p_value_of_choice([found[value] for value in range(5)], 2) > ALPHA
        rows = population._engine.several(("x",), "who", 2)
        kept = as_mapping(*_buckets(rows, Values(("x",))))
        assert sum(kept.values()) == 2 * UNITS
        rows.close()


def _buckets(rows: Any, question: Question) -> Any:
    from thresher.tables.column_keys import buckets

    return buckets(rows.counts(question), question)
