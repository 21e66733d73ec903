"""Filters: what satisfies a condition, and how a filter is read and written in Python, as text and on the wire."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thresher.errors import InvalidFormat, InvalidSetting
from thresher.questions import Among, Between, Bins, Filtered, Values, Where, from_dict
from thresher.questions.where_text import in_words, to_lines, to_python, to_where

names = st.text(min_size=1, max_size=12).filter(lambda name: name.encode("utf-8", "ignore").decode() == name)
numbers = st.floats(allow_nan=False, allow_infinity=False)
# The text of a large float is that of another whole number, so equality with one is refused.
few = numbers.filter(lambda number: abs(number) < 2**53)
values = st.one_of(names, st.just(""), few, st.booleans(), st.integers(), st.dates())


@st.composite
def ranges(draw: st.DrawFn) -> tuple[Any, Any]:
    ends = st.one_of(
        st.lists(numbers, min_size=2, max_size=2, unique=True),
        st.lists(st.integers(-(2**64), 2**64), min_size=2, max_size=2, unique_by=float),
        st.lists(st.dates(), min_size=2, max_size=2, unique=True),
    )
    low, high = sorted(draw(ends))
    return draw(st.sampled_from([(low, high), (None, high), (low, None)]))


filters = st.dictionaries(names, st.one_of(values, st.lists(values, min_size=1, max_size=4), ranges()), min_size=1)


@pytest.mark.slow
@given(filters)
def test_every_form_is_read_back(given: dict[str, Any]) -> None:
    where = to_where(given)
    assert where is not None
    assert to_where(to_lines(where)) == where
    assert to_where("\n".join(to_lines(where))) == where
    assert to_where(to_python(where)) == where
    assert Where.read(json.loads(json.dumps(where.to_list()))) == where
    question = Filtered(Values(("a",)), where)
    assert from_dict(json.loads(json.dumps(question.to_dict()))) == question
    assert hash(from_dict(question.to_dict())) == hash(question)


def test_as_people_write_it() -> None:
    where = to_where({"country": "fr", "version": ["1.2", "1.3"], "age": (18, 65), "joined": ("2024-01-01", None)})
    assert where is not None
    assert to_lines(where) == [
        "country = fr",
        "version in 1.2, 1.3",
        "age from 18 below 65",
        "joined >= 2024-01-01",
    ]
    assert in_words(where).startswith("country = fr and version in 1.2, 1.3 and age")
    assert to_where(["age < 65", " country=fr ", "age >= 18"]) == to_where({"age": (18, 65), "country": "fr"})
    assert to_where({"flag": True, "level": {2, 1}}) == to_where(["flag = true", "level in 1, 2"])
    assert to_where('"home town" = "a, \\"b\\""\n\n') == Where((Among("home town", ('a, "b"',)),))
    assert to_where(None) is None
    assert to_where([]) is None
    assert to_where(" \n") is None


@pytest.mark.parametrize(
    "given",
    [
        "age", "age >", "age > 18", "age <= 18", "age != 18", "= fr", "age =", "a b = c", "age >= old", "age < 1e999",
        "age from 18", "age from 65 below 18", "x in", "x in a,", 'x in "a" b', 'x = "a', "age >= 2024-02-31",
        "carrier == UA", "carrier = 'UA'", "month => 4", "month =< 4", "g = x and i = 1", "g = x OR i in 1, 2",
        "g in a, 'b'", {"a": (-(10**400), 10**400)}, {"a": 10**5000}, ["a = 1", "a = 2"], ["a >= 1", "a >= 2"],
        ["a = 1", "a < 2"], [1], 7, {"a": (1, 2, 3)}, {"a": ("x", "y")},
        {"a": (None, None)}, {"a": (1, dt.date(2024, 1, 1))}, {"a": (math.nan, 1)}, {"a": (0, math.inf)}, {"a": (2, 1)},
        {"a": (1, 1)}, {"a": (dt.datetime(2024, 1, 1), None)}, {"a": (True, 2)}, {"a": []}, {"a": None}, {"a": [None]},
        {"a": math.nan}, {"a": object()}, {"a": b"x"}, {"a": "\ud800"}, {"a": {"b": 1}}, {"": "x"}, {7: "x"},
    ],
)  # fmt: skip
def test_what_says_nothing_clear_is_refused(given: Any) -> None:
    with pytest.raises(InvalidSetting) as refused:
        to_where(given)
    assert refused.value.setting in ("where", "column")


def test_odd_values_stand_in_double_quotes() -> None:
    for value in ("= UA", "'UA'", "> 4", "x and i = 1", "rock and roll", "it's", "and", "a = b", "x or y in z"):
        where = Where((Among("g", (value,)),))
        assert to_where(to_lines(where)) == where
    assert to_where("g = salt and pepper") == Where((Among("g", ("salt and pepper",)),))
    assert to_lines(Where((Among("g", ("'UA'",)),))) == ["g = \"'UA'\""]


def test_ends_that_no_double_is_stay_whole() -> None:
    where = to_where("i >= 9007199254740993")
    assert where == to_where({"i": (2**53 + 1, None)})
    assert where is not None
    assert where.to_list() == [{"column": "i", "from": "9007199254740993", "below": None}]
    assert Where.read(where.to_list()) == where == Where.read([{"column": "i", "from": 2**53 + 1, "below": None}])
    assert Between("i", np.int64(2**53 + 1), np.uint64(2**53 + 3)) == Between("i", 2**53 + 1, 2**53 + 3)
    for digits in ("9007199254740992", "1000000000000000", "9223372036854775808", "-9223372036854775809", "9" * 20):
        with pytest.raises(InvalidFormat):
            Where.read([{"column": "i", "from": digits, "below": None}])
    assert [Between("i", 2**53 + 1).holds(held) for held in (2**53, 2**53 + 1, 2.0**53)] == [False, True, True]
    assert Between("i", 18).holds(10**400)  # an infinity, as a double
    assert not Between("i", 18).holds(-(10**400))
    with pytest.raises(InvalidSetting) as refused:
        to_where({"day": (dt.datetime(2024, 1, 1), None)})
    assert "a date without a time" in refused.value.hint


@pytest.mark.parametrize(
    "content",
    [
        None, {}, [7], [{"column": "a"}], [{"column": "a", "among": "x"}], [{"column": "a", "among": [1]}],
        [{"column": "a", "from": "x", "below": None}], [{"column": "a", "from": "20240131", "below": None}],
        [{"column": "a", "from": "2024-02-30", "below": None}], [{"column": "a", "from": "1" * 20, "below": None}],
        [{"column": "a", "from": True, "below": None}],
        [{"column": "a", "from": 1, "below": 2, "more": 3}],
    ],
)  # fmt: skip
def test_what_is_no_filter_on_the_wire_is_refused(content: Any) -> None:
    with pytest.raises(InvalidFormat):
        from_dict({"kind": "filtered", "question": Values(("a",)).to_dict(), "where": content})
    with pytest.raises(InvalidSetting):
        from_dict({"kind": "filtered", "question": Values(("a",)).to_dict(), "where": []})


def test_values_are_compared_as_devices_spell_them() -> None:
    among = Among("x", (1, 1.0, True, "é", dt.date(2024, 1, 31)))  # type: ignore[arg-type]
    assert among.values == ("1", "true", "é", "2024-01-31")
    for held in (1, 1.0, Decimal("1.00"), True, "1", "true", "e\u0301", "\x00é", dt.date(2024, 1, 31)):
        assert among.holds(held)
    for held in (None, 2, "", "1 ", math.nan, False, object(), [1], b"1", dt.datetime(2024, 1, 31)):
        assert not among.holds(held)


def test_ranges_are_half_open() -> None:
    adults, january = Between("age", 18, 65), Between("day", dt.date(2024, 1, 1), dt.date(2024, 2, 1))
    assert [adults.holds(age) for age in (17.999, 18, Decimal("64.9"), 65)] == [False, True, True, False]
    assert [january.holds(dt.date(2024, month, 1)) for month in (1, 2)] == [True, False]
    assert january.holds(dt.datetime(2024, 1, 31, 23, 59, tzinfo=dt.UTC))
    assert Between("age", 18).holds(math.inf)
    for held in (None, "20", True, math.nan, 10**400, object(), dt.date(2024, 1, 1), [20]):
        assert not adults.holds(held)
    for held in ("2024-01-01", "2024-01-31T23:59", "2024-01-31 23:59:59.9-12:00"):  # JSON has no dates
        assert january.holds(held)
    for held in (None, "2024-02-01", "2024-01-32", " 2024-01-01", "2024-01-01T", "20240101", 20, object()):
        assert not january.holds(held)


class Raises:
    def __float__(self) -> float:
        raise SystemError

    __str__ = __eq__ = __hash__ = __float__  # type: ignore[assignment]


def test_no_value_raises() -> None:
    assert not Between("age", 18).holds(Raises())
    assert not Among("age", ("18",)).holds(Raises())


def test_a_filtered_question_is_the_other_one_for_those_inside() -> None:
    question = Filtered(Bins("age", (0, 18, 65)), Where((Among("country", ("fr",)), Between("age", 10))))
    assert question.columns == ("age",)
    assert question.filters == ("country", "age")
    assert question.inputs == ("age", "country")
    assert question.ordered
    assert question.bucket((20, "fr")) == 18
    assert question.bucket((20, "at")) is None
    assert question.bucket((9, "fr")) is None
    assert question.bucket((70, "fr")) is None
    assert question.device_bucket((20, "fr")) == 18
    assert Filtered(Values(("x",)), Where((Among("x", ("a",)),))).bucket("a") == "a"
    assert Filtered(Values(("x", "y")), Where((Among("x", ("a",)),))).device_bucket(("a", 1)) == ("a", "1")
    with pytest.raises(InvalidSetting):
        Filtered(question, question.where)


def test_lists_are_narrowed_to_what_satisfies() -> None:
    question = Filtered(Values(("tag",)), Where((Among("tag", ("a", "b")), Between("size", 1))))
    assert question.narrowed([["a", "c", "b"], [0, 5, 7]]) == [["a", "b"], [5, 7]]
    assert question.narrowed(["c", (0,)]) == ["c", []]
    assert Values(("tag",)).narrowed([["a", "c"]]) == [["a", "c"]]


@pytest.mark.parametrize("number", [2.0**60, -(2.0**63), np.float64(2.0**69), np.float32(2.0**60)])
def test_a_float_whose_text_is_another_whole_number_is_refused(number: float) -> None:
    """ECMAScript fills up with zeros: 2^60 would be compared with 1152921504606847000 in a column of whole numbers."""
    with pytest.raises(InvalidSetting, match="Give an int, or text"):
        Among("i", (number,))  # type: ignore[arg-type]
    assert Among("i", (int(number), Decimal(int(number)))).values == (str(int(number)),)  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [2.0**53, 1e21, -1e300, 1e15, 0.1, 2.0**54])
def test_other_floats_are_not(number: float) -> None:
    assert Among("i", (number,)).holds(number)  # type: ignore[arg-type]
