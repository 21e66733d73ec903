"""Filters on every engine: the rows that satisfy them are counted, and no other."""

from __future__ import annotations

import datetime as dt
import math
import random
from typing import Any

import pyarrow as pa
import pytest
from table_cases import Maker, counted, expected, opened

import thresher as th
from thresher.errors import InvalidSetting
from thresher.questions import Among, Below, Between, Bins, Filtered, Joint, Prefixes, Values, Where
from thresher.tables import Table
from thresher.testing import SeededRandomness

DAY = dt.date(2024, 1, 31)
NOON = dt.datetime(2024, 1, 31, 12)
ROWS: list[tuple[Any, ...]] = [
    ("fr", 1, 0.5, True, DAY, NOON),
    ("fr", 18, 0.0, False, dt.date(2024, 2, 1), NOON.replace(hour=23, microsecond=999_999)),
    ("FR", 20, 0.1, None, dt.date(1999, 12, 31), None),
    ("cafe\u0301", 64, float("nan"), True, None, dt.datetime(2024, 2, 1)),
    ("caf\u00e9", 65, 2.5, False, DAY, NOON),
    (None, 20, 2.5, True, DAY, NOON),
    ("at", None, 3.0, True, DAY, NOON),
    ("it's", 2**53 + 1, 1e300, False, DAY, NOON),
]
SCHEMA = pa.schema(
    [
        ("word", pa.string()),
        ("number", pa.int64()),
        ("share", pa.float64()),
        ("flag", pa.bool_()),
        ("day", pa.date32()),
        ("moment", pa.timestamp("us")),
    ]
)


def people(rows: list[tuple[Any, ...]]) -> pa.Table:
    return pa.table([pa.array(column, kind) for column, kind in zip(zip(*rows), SCHEMA.types)], schema=SCHEMA)  # noqa: B905


PEOPLE = people(ROWS)
WORDS, NUMBERS = Values(("word",)), Values(("number",))
QUESTIONS = [
    Filtered(NUMBERS, Where((Among("word", ("fr", "at")),))),
    Filtered(WORDS, Where((Among("word", ("cafe\u0301", "it's")),))),
    Filtered(WORDS, Where((Among("number", ("1", "20")),))),
    Filtered(WORDS, Where((Among("share", ("0.1", "0", "1e+300")),))),
    Filtered(NUMBERS, Where((Among("flag", ("true",)),))),
    Filtered(NUMBERS, Where((Among("flag", ("true", "false")),))),
    Filtered(WORDS, Where((Among("day", ("2024-01-31",)),))),
    Filtered(WORDS, Where((Between("number", 18, 65),))),
    Filtered(NUMBERS, Where((Between("number", 18),))),
    Filtered(WORDS, Where((Between("number", 17.5, 64.5),))),
    Filtered(WORDS, Where((Between("number", -1e30, 10**30),))),
    Filtered(WORDS, Where((Between("number", 2**63),))),
    Filtered(WORDS, Where((Between("share", None, 0.1),))),
    Filtered(WORDS, Where((Between("day", dt.date(2024, 1, 1), dt.date(2024, 2, 1)),))),
    Filtered(WORDS, Where((Between("moment", None, dt.date(2024, 2, 1)),))),
    Filtered(WORDS, Where((Among("word", ("fr",)), Between("number", 2, None), Among("flag", ("false",))))),
    Filtered(Bins("number", (0, 10, 100)), Where((Among("word", ("fr",)),))),
    Filtered(Joint((WORDS, Bins("number", (0, 10, 100)))), Where((Between("share", 0.0, 9.0),))),
    Filtered(Prefixes("word", 2), Where((Between("number", 18, 65),))),
    Filtered(Below("number", 19.0), Where((Among("flag", ("true", "false")),))),
    Filtered(WORDS, Where((Among("word", ("nobody",)),))),
]


@pytest.mark.slow
def test_the_same_rows_as_one_value_at_a_time(source: Maker) -> None:
    with opened(source, PEOPLE) as table:
        for question in QUESTIONS:
            assert counted(table, question) == expected(PEOPLE, question), question
        assert counted(table, WORDS) == expected(PEOPLE, WORDS)


def test_a_filter_that_nobody_satisfies_gives_an_empty_release_of_the_same_types(source: Maker) -> None:
    plan = th.plan(1, 1e-5)
    with opened(source, PEOPLE) as table:
        nobody = table.ask(Filtered(WORDS, Where((Between("number", -9, -8),))), plan)
        everybody = table.ask(WORDS, plan)
    assert len(nobody) == 0
    assert nobody.columns == ("word",)
    assert nobody.table.schema.field("word").type == everybody.table.schema.field("word").type


def test_a_unit_chooses_among_its_rows_that_satisfy_the_filter(engine: Maker) -> None:
    # Each person holds 19 rows outside the filter and one inside, which must always be the chosen one.
    held = [(person, f"w{row}", row) for person in range(50) for row in range(20)]
    columns = [pa.array(column) for column in zip(*held, strict=True)]
    data = pa.table(columns, names=["person", "word", "number"])
    question = Filtered(WORDS, Where((Between("number", 7, 8),)))
    with Table(engine(data), "person") as table:
        assert counted(table, question) == {"w7": 50}
        assert sum(counted(table, WORDS).values()) == 50
        assert counted(table, Filtered(WORDS, Where((Among("word", ("w3",)),)))) == {"w3": 50}
        assert counted(table, question) == {"w7": 50}


@pytest.mark.slow
def test_whole_numbers_are_compared_exactly(engine: Maker) -> None:
    held = [2**53 + place for place in range(6)] + [-(2**63), 2**63 - 1, None]
    data = pa.table([pa.array(held, pa.int64())], names=["number"])
    with Table(engine(data)) as table:
        for ends in (
            (2**53 + 1, None), (None, 2**53 + 1), (2**53 + 3, 2**53 + 4), (2**53 + 0.0, 2**53 + 1), (2**63 - 1, None),
            (-(2**63), None), (None, -(2**63)), (None, -(2**63) + 1), (2**63, None), (None, 2**63), (-1e30, 1e30),
        ):  # fmt: skip
            condition = Between("number", *ends)
            found = counted(table, Filtered(NUMBERS, Where((condition,))))
            low, high = (math.inf * sign if end is None else end for sign, end in zip((-1, 1), ends, strict=True))
            assert found == {number: 1 for number in held if number is not None and low <= number < high}, ends
            assert [number in found for number in held] == [condition.holds(number) for number in held], ends


def test_several_rounds_see_the_same_choice(local: Maker) -> None:
    held = [(person, row) for person in range(200) for row in range(10)]
    data = pa.table([pa.array(column) for column in zip(*held, strict=True)], names=["person", "number"])
    where = Where((Between("number", 0, 6),))
    with Table(local(data), "person") as table:
        first, second = (counted(table, Filtered(Below("number", 3.0), where)) for _ in range(2))
        whole = counted(table, Filtered(Values(("number",)), where))
    assert first == second
    assert first[True] == sum(count for number, count in whole.items() if number < 3)
    assert sum(whole.values()) == 200


def test_sampled_rows_are_filtered() -> None:
    rows = [("fr", number) for number in range(100)] * 400
    data = pa.table([pa.array(column) for column in zip(*rows, strict=True)], names=["word", "number"])
    plan = th.plan(1, 1e-5, sampling_rate=0.1)
    seeded = SeededRandomness(7)
    with Table(data, randomness=seeded) as table:
        release = table.ask(Filtered(Values(("number",)), Where((Between("number", 40, 42),))), plan)
    assert set(release.buckets) == {40, 41}
    assert all(300 < row.estimate < 500 for row in release)


def test_columns_without_a_type_are_read_as_the_condition_needs(tmp_path: Any) -> None:
    path = tmp_path / "people.csv"
    path.write_text("word,age,day\nfr,18,2024-01-31\nfr,65,2024-02-01\nat,x,none\nat, 020 ,2024-01-02T10:00\n")
    ages, words = Values(("age",)), Values(("word",))
    january = Between("day", dt.date(2024, 1, 1), dt.date(2024, 2, 1))
    with Table(str(path)) as table:
        assert counted(table, Filtered(words, Where((Between("age", 18, 65),)))) == {"fr": 1, "at": 1}
        assert counted(table, Filtered(ages, Where((Between("age", 18, 65),)))) == {"18": 1, " 020 ": 1}
        assert counted(table, Filtered(ages, Where((Among("age", ("18", "x")),)))) == {"18": 1, "x": 1}
        assert counted(table, Filtered(Bins("age", (0, 50, 99)), Where((Among("age", ("18", "x")),)))) == {0.0: 1}
        assert counted(table, Filtered(words, Where((january,)))) == {"fr": 1, "at": 1}
    with Table(["fr", 20, 20.0, None, object()]) as table:
        value = Values(("value",))
        assert counted(table, Filtered(value, Where((Among("value", ("20",)),)))) == {"20": 2}
        assert counted(table, Filtered(value, Where((Between("value", 20, 21),)))) == {"20": 2}


def test_decimals_are_compared_as_numbers() -> None:
    data = pa.table({"price": pa.array(["1.20", "3.50"]).cast(pa.decimal128(9, 2)), "word": ["a", "b"]})
    with Table(data) as table:
        assert counted(table, Filtered(WORDS, Where((Among("price", ("1.2",)),)))) == {"a": 1}
        assert counted(table, Filtered(WORDS, Where((Between("price", 1.3),)))) == {"b": 1}


@pytest.mark.parametrize(
    ("where", "problem"),
    [
        ({"nowhere": "fr"}, "is not in the data"),
        ({"number": "twenty"}, "does not fit column 'number'"),
        ({"number": 1.5}, "does not fit column 'number'"),
        ({"flag": 7}, "does not fit column 'flag'"),
        ({"word": (1, 2)}, "holds text"),
        ({"number": ("2024-01-01", None)}, "holds whole numbers"),
        ({"day": (1, 2)}, "holds dates"),
        ({"moment": "2024-01-31T12:00"}, "holds times"),
        ({"tags": "a"}, "cannot be counted"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_charged(tmp_path: Any, where: Any, problem: str) -> None:
    data = PEOPLE.append_column("tags", pa.array([["a"]] * len(ROWS)))
    ledger = th.Ledger(tmp_path / "privacy.db", epsilon=3, delta=1e-3)
    with pytest.raises(InvalidSetting, match=problem) as refused:
        th.histogram(data, "word", where=where, epsilon=1, delta=1e-5, ledger=ledger)
    assert refused.value.setting == "where"
    assert "twenty" not in str(refused.value)
    assert ledger.history() == []


def test_a_column_without_values_satisfies_nothing() -> None:
    data = pa.table({"word": ["fr", "fr"], "none": pa.nulls(2)})
    with Table(data) as table:
        assert counted(table, Filtered(WORDS, Where((Among("none", ("a",)),)))) == {}


def test_no_value_of_a_row_changes_what_a_filter_does(local: Maker) -> None:
    odd = ["\x00fr", "fr", "e" + "\u0301" * 40, "'; DROP TABLE people; --", '"', "\\", "", "\ud7ff"]
    data = pa.table({"word": odd, "number": [random.Random(word).randrange(99) for word in odd]})
    with Table(local(data)) as table:
        assert counted(table, Filtered(Values(("number",)), Where((Among("word", ("fr",)),)))) == dict.fromkeys(
            data["number"].to_pylist()[:2], 1
        )
        assert (
            len(counted(table, Filtered(WORDS, Where((Among("word", ("'; DROP TABLE people; --", "\\", '"', "")),)))))
            == 4
        )


def test_a_histogram_with_a_filter() -> None:
    data = pa.table({"word": ["fr", "at"] * 5000, "number": [20] * 5000 + [70] * 5000})
    found = th.histogram(data, "word", where={"number": (18, 65)}, epsilon=1, delta=1e-8)
    assert found.query.what == "histogram of word where number from 18 below 65"
    assert set(found.release.buckets) == {"fr", "at"}
    assert all(row.interval[0] <= 2500 <= row.interval[1] or abs(row.estimate - 2500) < 400 for row in found)
