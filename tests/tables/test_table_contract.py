"""One suite for every engine: the same questions, the same counts, the same types."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from table_cases import Maker, counted, expected, opened

import thresher as th
from thresher.questions import END, Below, Bins, Cells, Dates, Joint, Prefixes, Question, RecountedPrefixes, Values
from thresher.tables import Table
from thresher.testing import SeededRandomness

SCHEMA = pa.schema(
    [
        ("word", pa.string()),
        ("number", pa.int64()),
        ("share", pa.float64()),
        ("flag", pa.bool_()),
        ("day", pa.date32()),
        ("moment", pa.timestamp("us")),
        ("user id", pa.int64()),
    ]
)

QUESTIONS: list[Question] = [
    Values(("word",)),
    Values(("number",)),
    Values(("share",)),
    Values(("flag",)),
    Values(("day",)),
    Values(("moment",)),
    Values(("word", "number", "flag")),
    Bins("share", (-5, 0, 1.5, 2, 8)),
    Bins("number", (0, 3, 9)),
    Dates("day", "week"),
    Dates("moment", "day"),
    Dates("moment", "month"),
    Joint((Values(("word",)), Bins("share", (0, 1, 10)), Dates("day", "month"))),
    Joint((Values(("word",)), Cells("share", -1, 2, 7))),
    Joint((Values(("flag",)), Values(("day",)), Cells("number", 0, 10, 4))),
    Prefixes("word", 2),
    Prefixes("word", 4, known=2, parents=frozenset({"th", "K" + END, "it"})),
    Prefixes("word", 4, known=2, parents=frozenset({"K" + END})),
    RecountedPrefixes("word", 4, known=2, parents=frozenset({"th"}), texts=frozenset({"K", "\u00e9"})),
    RecountedPrefixes("word", 8, known=4, texts=frozenset({"the", "🎉"})),
    Cells("share", -1, 2, 7),
    Cells("number", 0, 10, 2**40),
    Below("share", 1.5),
    Below("number", 2.0),
]

TYPES = {
    "word": pa.string(),
    "number": pa.int64(),
    "share": pa.float64(),
    "flag": pa.bool_(),
    "day": pa.date32(),
    "moment": pa.timestamp("us"),
}


def people(rows: int = 600, seed: int = 7) -> pa.Table:
    pick = random.Random(seed)
    # No NUL, no empty text and no infinity, which CSV files and JSON cannot tell from other things.
    words = ["e\u0301", "\u00e9", "K", "\u212a", "then", "the", 'it\'s "it"', "two\nlines", "🎉", "ﬁ", "가", "가", None]
    days = [dt.date(2020, 2, 29), dt.date(1969, 12, 31), dt.date(2024, 1, 1), dt.date(2023, 12, 31), None]
    moments = [
        dt.datetime(2020, 2, 29, 23, 59, 59, 123456),
        dt.datetime(1969, 12, 31, 1),
        dt.datetime(2024, 1, 1),
        None,
    ]
    columns = {
        "word": words,
        "number": [1, -2, 2**62, 5, 0, None],
        "share": [0.0, -0.0, 1.5, -3.25, 7.0, 0.1, 1e300, None],
        "flag": [True, False, None],
        "day": days,
        "moment": moments,
        "user id": [None, *range(rows // 4)],
    }
    return pa.table({name: [pick.choice(held) for _ in range(rows)] for name, held in columns.items()}, schema=SCHEMA)


@pytest.fixture(scope="module")
def plan() -> th.Plan:
    return th.plan(epsilon=1.0, delta=1e-4)


@pytest.mark.slow
def test_every_question_counts_what_single_values_say(source: Maker) -> None:
    table = people()
    population = opened(source, table)
    for question in QUESTIONS:
        assert counted(population, question) == expected(table, question), question


@pytest.mark.slow
def test_released_buckets_have_the_same_types_everywhere(source: Maker, plan: th.Plan) -> None:
    table = pa.concat_tables([people()] * 8)
    population = opened(source, table)
    for name, kind in TYPES.items():
        release = population.ask(Values((name,)), plan)
        assert release.columns == (name,)
        assert release.table.schema.field(name).type == kind
        assert len(release) > 0
        release.verify()
    joint = population.ask(Values(("flag", "number")), plan)
    assert joint.columns == ("flag", "number")


def test_counts_below_the_threshold_stay_in_the_engine(source: Maker) -> None:
    table = pa.table({"word": [f"w{number}" for number in range(5000)] + ["many"] * 30})
    buckets, counts = Table(source(table))._tally(Values(("word",)), at_least=20)
    assert buckets.num_rows == 1
    assert counts.tolist() == [30]


@pytest.mark.slow
def test_each_unit_is_counted_once_with_a_value_it_holds(source: Maker) -> None:
    table = people()
    population = opened(source, table, unit="user id")
    for question in (Values(("word",)), Values(("share", "flag"))):
        holding = [
            (row["user id"], question.bucket(value))
            for row in table.to_pylist()
            if row["user id"] is not None
            and question.bucket(value := row["word"] if len(question.columns) == 1 else (row["share"], row["flag"]))
            is not None
        ]
        found = counted(population, question)
        assert sum(found.values()) == len({unit for unit, _ in holding})
        assert set(found) <= {bucket for _, bucket in holding}
        # The choice is made once: another round sees the same value of every unit.
        assert counted(population, question) == found


@pytest.mark.slow
def test_several_columns_of_a_unit_come_from_one_row(source: Maker) -> None:
    table = pa.table({"unit": [1, 1, 1, 1] * 50, "a": [1, 2, 3, 4] * 50, "b": [10, 20, 30, 40] * 50})
    many = pa.concat_tables([table.set_column(0, "unit", pa.array([unit] * 200)) for unit in range(40)])
    found = counted(opened(source, many, unit="unit"), Values(("a", "b")))
    assert sum(found.values()) == 40
    assert all(b == 10 * a for a, b in found)


@pytest.mark.slow
def test_rounds_on_one_column_see_one_value_for_each_unit(engine: Maker) -> None:
    table = pa.table({"unit": [number % 50 for number in range(500)], "x": [float(number) for number in range(500)]})
    population = Table(engine(table), unit="unit")
    whole = counted(population, Values(("x",)))
    assert len(whole) == 50
    below = counted(population, Below("x", 250.0))
    assert below.get(True, 0) == sum(count for value, count in whole.items() if value < 250.0)


@pytest.mark.slow
def test_an_empty_table_and_a_column_of_nulls_give_empty_releases(engine: Maker, plan: th.Plan) -> None:
    empty = pa.table({"word": pa.array([], pa.string()), "x": pa.array([], pa.float64())})
    nulls = pa.table({"word": pa.array([None] * 90, pa.string()), "x": pa.array([None] * 90, pa.float64())})
    for table in (empty, nulls):
        population = Table(engine(table))
        for question in (Values(("word",)), Bins("x", (0, 1)), Below("x", 0.5), Prefixes("word", 2)):
            release = population.ask(question, plan)
            assert len(release) == 0
            assert release.columns == question.columns


@pytest.mark.slow
def test_text_of_any_kind_is_counted(engine: Maker) -> None:
    words = [
        "",
        "a\x00b",
        "ab",
        "\x00",
        "a\x00\u0301",
        "á",
        "line\r\nline",
        "'",
        '"',
        "\\",
        "%s",
        "🤦🏼‍♂️",
        "\u2028",
        " a ",
        "A",
    ]
    table = pa.table({"word": [word for index, word in enumerate(words) for _ in range(index + 1)]})
    population = Table(engine(table))
    for question in (
        Values(("word",)),
        Prefixes("word", 1),
        Prefixes("word", 3, known=1, parents=frozenset({"a", "á"})),
    ):
        assert counted(population, question) == expected(table, question)


@pytest.mark.slow
def test_the_order_of_released_rows_does_not_depend_on_the_engine(engine: Maker) -> None:
    table = pa.table({"word": ["b"] * 300 + ["a"] * 300 + ["c"] * 400})
    plan = th.Plan(0.999, 2, 1.0, 1e-5)
    release = Table(engine(table), randomness=SeededRandomness(5)).ask(Values(("word",)), plan)
    again = Table(engine(table.take(list(range(999, -1, -1)))), randomness=SeededRandomness(5)).ask(
        Values(("word",)), plan
    )
    assert release.table.equals(again.table)
    assert not release.private
    assert release.buckets[0] == "c"
    assert list(release.counts) == sorted(release.counts, reverse=True)


@pytest.mark.slow
def test_distinct_values_beyond_the_limit_are_counted_in_the_engine(engine: Maker) -> None:
    table = people()
    population = Table(engine(table), cache_limit=3)
    for question in (Cells("share", -1, 2, 7), Prefixes("word", 3), Below("number", 2.0)):
        assert counted(population, question) == expected(table, question)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "two"),
    [
        ([1, 2, 2, None], "2"),
        (np.array([1.0, 2.0, 2.0, np.nan]), 2.0),
        ((1, 2, 2), "2"),
        (range(3), 2),
        (pa.array([1, 2]), 2),
        (np.array([1, 2, 2], object), "2"),
    ],
)
def test_one_column_data_is_called_value(data: Any, two: Any) -> None:
    found = counted(Table(data), Values(("value",)))
    assert found[two] == sum(1 for value in (data.tolist() if hasattr(data, "tolist") else data) if value == 2)
    assert all(count > 0 and bucket == bucket for bucket, count in found.items())
