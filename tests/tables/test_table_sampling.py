"""Ways to draw a round have one distribution; a unit's value is chosen uniformly."""

from __future__ import annotations

import datetime as dt
import decimal
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import stats
from table_cases import Maker, counted, opened

import thresher as th
from thresher.errors import InvalidSetting
from thresher.questions import Joint, Points, Values
from thresher.tables import Table, dask_engine, table
from thresher.tables.rows import LazyRows

ALPHA = 1e-9  # false alarm per check
BUCKETS = 4000  # each is an independent draw
UNITS = 40
PLAN = th.Plan(0.25, 6, 1.0, 0.5)


def p_value(drawn: Counter[int], rate: float) -> float:
    """Of counts in a release, 0 where the bucket was dropped, against Binomial(40, rate) cut at the threshold."""
    exact = stats.binom(UNITS, rate)
    cells = [exact.cdf(PLAN.threshold - 1), *(exact.pmf(count) for count in range(PLAN.threshold, 17)), exact.sf(16)]
    seen = [drawn[0], *(drawn[count] for count in range(PLAN.threshold, 17))]
    observed = [*seen, BUCKETS - sum(seen)]
    return float(stats.chisquare(observed, np.array(cells) * BUCKETS).pvalue)


def draw(population: Table) -> Counter[int]:
    release = population.ask(Values(("x",)), PLAN)
    drawn = Counter(release.counts.tolist())
    drawn[0] = BUCKETS - len(release)
    return drawn


def forty_of_each() -> pa.Table:
    return pa.table({"x": list(range(BUCKETS)) * UNITS})


@pytest.mark.parametrize("limit", [0.0, 1.0], ids=["thinning", "sampling rows"])
def test_thinning_counts_and_sampling_rows_have_the_same_distribution(
    limit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "SAMPLING_RATE_LIMIT", limit)
    population = Table(forty_of_each())
    assert population._samples_rows(Values(("x",)), PLAN) == (limit == 1.0)
    drawn = draw(population)
    assert p_value(drawn, 0.25) > ALPHA
    assert p_value(drawn, 0.275) < ALPHA  # the test can fail


def test_spark_workers_draw_from_the_same_distribution(cluster: Maker) -> None:
    population = Table(cluster(forty_of_each()), driver_limit=10)
    drawn = draw(population)
    assert p_value(drawn, 0.25) > ALPHA
    assert p_value(drawn, 0.275) < ALPHA
    again = draw(population)  # a fresh sample
    assert drawn != again


def test_both_ways_count_the_same_units(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["a"] * 500 + ["e\u0301"] * 400 + ["\u00e9"] * 300 + [None] * 200
    plan = th.Plan(1 - 2**-40, 300, 1.0, 0.5)  # so close to 1 that no coin among 1,400 is ever false
    for limit in (0.0, 1.0):
        monkeypatch.setattr(table, "SAMPLING_RATE_LIMIT", limit)
        release = Table(pa.table({"x": words})).ask(Values(("x",)), plan)
        assert dict(zip(release.buckets, release.counts.tolist(), strict=True)) == {"\u00e9": 700, "a": 500}


@pytest.mark.slow
def test_a_unit_contributes_each_of_its_rows_equally_often(source: Maker) -> None:
    # 3,000 units with three rows of value 0 and one row each of 1 and 2: rows are chosen, not distinct values.
    units, rows = 3000, [0, 0, 1, 2, 0]
    data = pa.table({"unit": [unit for unit in range(units) for _ in rows], "x": rows * units})
    found = counted(opened(source, data, unit="unit"), Values(("x",)))
    observed = [found[value] for value in (0, 1, 2)]
    assert stats.chisquare(observed, np.array([3, 1, 1]) / 5 * units).pvalue > ALPHA
    assert stats.chisquare(observed, np.array([1, 1, 1]) / 3 * units).pvalue < ALPHA  # the test can fail


@pytest.mark.slow
def test_a_unit_chooses_anew_in_another_table(local: Maker) -> None:
    data = pa.table({"unit": [1] * 64, "x": list(range(64))})
    chosen = {next(iter(counted(Table(local(data), unit="unit"), Values(("x",))))) for _ in range(12)}
    assert len(chosen) > 1  # twelve equal choices of 64 happen once in 64^11


@pytest.mark.slow
def test_rows_without_a_unit_or_a_value_do_not_count(local: Maker) -> None:
    data = pa.table({"unit": [1, 1, None, 2, 3], "x": [None, 5.0, 6.0, float("nan"), 7.0]})
    for _ in range(8):  # unit 1 must choose the row that has a value, every time
        assert counted(Table(local(data), unit="unit"), Values(("x",))) == {5.0: 1, 7.0: 1}


def test_the_unit_may_be_the_column_itself(local: Maker) -> None:
    data = pa.table({"x": [1, 1, 2, 3, 3, 3]})
    assert counted(Table(local(data), unit="x"), Values(("x",))) == {1: 1, 2: 1, 3: 1}


MOMENTS = [pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "Europe/Paris")]
COUNTABLE: list[tuple[object, list[pa.DataType]]] = [
    ("x", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]),
    (1, [pa.int8(), pa.uint32(), pa.int64(), pa.float16(), pa.float32(), pa.float64()]),
    (decimal.Decimal("1.5"), [pa.decimal32(5, 2), pa.decimal64(12, 2), pa.decimal128(38, 2), pa.decimal256(38, 2)]),
    (dt.date(2024, 2, 29), [pa.date32(), pa.date64()]),
    (dt.datetime(2024, 2, 29, 12), MOMENTS),
    (True, [pa.bool_()]),
]


@pytest.mark.parametrize(
    ("value", "kind"),
    [(value, kind) for value, kinds in COUNTABLE for kind in kinds],
    ids=lambda each: str(each) if isinstance(each, pa.DataType) else "",
)
@pytest.mark.parametrize("plan", [PLAN, th.Plan(0.75, 6, 1.0, 0.9)], ids=["sampled rows", "thinned counts"])
def test_every_type_that_is_counted_can_be_drawn_from(value: object, kind: pa.DataType, plan: th.Plan) -> None:
    """Otherwise a query would fail after its charge. False alarm: of 400 rows fewer than 6 are sampled, below 1e-40."""
    with Table(pa.table({"x": pa.array([value] * 400, kind)})) as population:
        population.check(Values(("x",)))
        assert len(population.ask(Values(("x",)), plan)) == 1


def test_decimals_of_too_many_digits_are_refused_before_anything_is_charged() -> None:
    data = pa.table({"x": pa.array([decimal.Decimal(1)], pa.decimal256(39, 0))})
    with Table(data) as population, pytest.raises(InvalidSetting, match="cannot be counted"):
        population.check(Values(("x",)))


WORDS = ["K", "\u212a", "e\u0301", "\u00e9", "a\x00b", "ab", "e" + "\u0301" * 31, "", None, "K"]
WORDS_COUNTED = {"K": 3, "\u00e9": 2, "ab": 2, "": 1}


def viewed(words: list[str | None]) -> pa.Table:
    return pa.table({"word": pa.array(words, pa.string_view())})


@pytest.mark.parametrize(
    "make",
    [
        lambda words: pa.table({"word": pa.array(words, pa.string())}),
        lambda words: pa.table({"word": pa.array(words, pa.large_string())}),
        viewed,
        lambda words: pa.table({"word": pa.array(words).dictionary_encode()}),
        lambda words: pa.concat_tables([pa.table({"word": pa.array([word], pa.string())}) for word in words]),
        lambda words: pl.DataFrame({"word": words}),
        lambda words: pl.DataFrame({"word": pl.Series(words, dtype=pl.Categorical)}),
        lambda words: pd.DataFrame({"word": words}),
    ],
    ids=["text", "large text", "views", "dictionary", "chunks", "polars", "categorical", "pandas"],
)
def test_forms_of_text_that_others_group_are_counted_as_one_value(make: Any) -> None:
    """Arrow and Polars count text in the form in which it came; DuckDB merges the forms, and drops what is no value."""
    question = Values(("word",))
    with Table(make(WORDS * 50)) as table:
        assert counted(table, question) == {word: 50 * number for word, number in WORDS_COUNTED.items()}
        all_rows = table._reader(table._readings(question)).sampled(("word",), lambda number: np.ones(number, np.bool_))
        found = all_rows.counts(question, at_least=100)
        assert dict(zip(*found.to_pydict().values(), strict=True)) == {"K": 150, "\u00e9": 100, "ab": 100}
        no_rows = table._reader(table._readings(question)).sampled(("word",), lambda number: np.zeros(number, np.bool_))
        assert no_rows.counts(question).num_rows == 0


@pytest.mark.parametrize("polars", [False, True])
def test_text_beside_other_columns_is_counted_in_all_of_them(polars: bool) -> None:
    rows = pa.table(
        {
            "word": ["e\u0301", "\u00e9", "a", None, "a"] * 10,
            "n": pa.array([1, 1, 2, 3, None] * 10, pa.int16()),
            "day": [dt.date(2024, 1, 1)] * 50,
            "x": [0.0, -0.0, float("nan"), 1.0, 2.0] * 10,
        }
    )
    with Table(pl.from_arrow(rows) if polars else rows) as table:
        assert counted(table, Values(("word", "n", "day"))) == {
            ("\u00e9", 1, dt.date(2024, 1, 1)): 20,
            ("a", 2, dt.date(2024, 1, 1)): 10,
        }
        assert counted(table, Values(("word", "x"))) == {("\u00e9", 0.0): 20, ("a", 2.0): 10}


@pytest.mark.parametrize("at_least", [1, 11])
def test_duckdbs_own_query_for_whole_values_counts_what_narwhals_counts(at_least: int) -> None:
    rows = pa.table(
        {
            "word": ["e\u0301", "\u00e9", "a", None, "a" + "\u0301" * 31] * 10,
            "n": pa.array([1, 1, 2, 3, None] * 10, pa.int16()),
            "x": [0.0, -0.0, float("nan"), 1.0, 2.0] * 10,
            "keep": [True, True, True, False, True] * 10,
        }
    )
    with Table(rows) as table:
        for columns in (("word",), ("n",), ("x",), ("word", "n"), ("keep", "word")):
            question = Values(columns)
            quick = table._rows(question)
            assert isinstance(quick, LazyRows) and quick.tallied is not None
            both = [each.counts(question, at_least=at_least) for each in (quick, replace(quick, tallied=None))]
            assert both[0].num_rows and both[0].schema == both[1].schema
            assert sorted(both[0].to_pylist(), key=repr) == sorted(both[1].to_pylist(), key=repr)


@pytest.mark.slow
def test_a_task_that_runs_again_gives_each_unit_the_same_bucket_beside_text() -> None:
    """Random numbers follow the order of rows. One thread keeps it, and threads that group text would not."""
    words = [f"word {number % 5003}" for number in range(200_000)]
    rows = pa.table({"word": words, "n": pa.array(np.arange(200_000) % 97)})
    question = Joint((Values(("word",)), Points("n", (0, 50, 100))))

    def run() -> list[tuple[Any, ...]]:
        found = dask_engine._counted(rows, question, ["word", "n"], "UTC", "values", 0.5)
        return sorted(zip(*found.to_pydict().values(), strict=True))

    first = run()
    assert all(run() == first for _ in range(3))
