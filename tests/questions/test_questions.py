"""Questions: one value to its bucket, and the form in which a question travels."""

import datetime as dt
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thresher import questions
from thresher.errors import InvalidFormat, InvalidSetting
from thresher.questions import END, Below, Bins, Cells, Dates, Joint, Prefixes, RecountedPrefixes, Values
from thresher.questions.question import Impossible

ALL = [
    Values(("country",)),
    Values(("country", "os")),
    Bins("age", (0, 18, 65)),
    Dates("day", "week"),
    Joint((Values(("country",)), Bins("age", (0, 18)), Dates("day", "month"))),
    Prefixes("word", 3, 2, frozenset({"ab", "é\x00"})),
    RecountedPrefixes("word", 4, 2, frozenset({"ab"}), frozenset({"", "é"})),
    Cells("latency", 0, 60_000, 1024),
    Below("latency", 250.5),
]


@pytest.mark.parametrize("question", ALL, ids=lambda question: question.kind)
def test_a_question_travels_as_json_and_is_the_same_value(question):
    sent = json.loads(json.dumps(question.to_dict()))
    assert questions.from_dict(sent) == question
    assert hash(questions.from_dict(sent)) == hash(question)


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"kind": "drop table"},
        {"kind": "below", "column": "a"},
        {"kind": "below", "column": "a", "split": 1, "more": 2},
        {"kind": "below", "column": "a", "split": "x"},
        {"kind": "bins", "column": "a", "edges": 5},
        {"kind": "joint", "parts": [{"kind": "below"}]},
    ],
)
def test_what_is_not_a_question_is_refused(content):
    with pytest.raises((InvalidFormat, InvalidSetting)):
        questions.from_dict(content)


def test_text_is_counted_in_one_form():
    question = Values(("word",))
    assert question.bucket("e\u0301") == question.bucket("\u00e9") == "é"
    assert question.bucket("a\x00b") == "ab"
    assert question.bucket("") == ""


@pytest.mark.parametrize("missing", [None, math.nan, float("nan")])
def test_nothing_is_no_value(missing):
    for question in (
        Values(("a",)),
        Bins("a", (0, 1)),
        Cells("a", 0, 1, 4),
        Below("a", 1),
        Prefixes("a", 1),
        Dates("a", "day"),
    ):
        assert question.bucket(missing) is None
    assert Values(("a", "b")).bucket(("x", missing)) is None


def test_bins_are_half_open_and_exclude_what_is_outside():
    question = Bins("age", (0, 18, 65))
    assert [question.bucket(age) for age in (-1, 0, 17.99, 18, 64, 65)] == [None, 0, 0, 18, 18, None]
    assert question.bucket("18") is None
    assert question.bucket(True) is None


def test_dates_are_cut_to_first_days():
    friday = dt.datetime(2024, 3, 1, 23, 59, tzinfo=dt.UTC)
    assert Dates("day", "day").bucket(friday) == dt.date(2024, 3, 1)
    assert Dates("day", "week").bucket(friday) == dt.date(2024, 2, 26)
    assert Dates("day", "month").bucket(dt.date(2024, 2, 29)) == dt.date(2024, 2, 1)
    assert Dates("day", "day").bucket("2024-03-01") is None


@pytest.mark.slow
@given(st.floats(allow_nan=False), st.integers(1, 10_000))
def test_cells_cover_every_number(number, cells):
    assert 0 <= Cells("a", -3.5, 96.5, cells).bucket(number) < cells


def test_cells_are_half_open_at_exact_edges():
    question = Cells("a", 0, 100, 100)
    assert [question.bucket(edge) for edge in range(100)] == list(range(100))
    assert question.bucket(-5) == 0
    assert question.bucket(100) == question.bucket(math.inf) == 99


def test_below_splits_at_the_point():
    assert [Below("a", 2.0).bucket(value) for value in (1.99, 2, 3)] == [True, False, False]


def test_prefixes_extend_known_ones_and_mark_the_end():
    first = Prefixes("word", 2)
    assert first.bucket("then") == "th"
    assert first.bucket("a") == "a" + END
    second = Prefixes("word", 4, 2, frozenset({"th"}))
    assert second.bucket("then") == "then"
    assert second.bucket("the") == "the" + END
    assert second.bucket("th") == "th" + END
    assert second.bucket("axis") is None
    assert Prefixes("word", 3, 2, frozenset({"a" + END})).bucket("a") is None  # complete already


def test_known_texts_are_counted_again_beside_prefixes():
    question = RecountedPrefixes("word", 4, 2, frozenset({"th"}), frozenset({"a", "", "\u00e9"}))
    buckets = [question.bucket(text) for text in ("a", "", "e\u0301", "then", "th", "b", "axis", None, 7)]
    assert buckets == ["a" + END, END, "\u00e9" + END, "then", "th" + END, None, None, None, None]
    read = question.reader()
    assert [read(bucket) for bucket in buckets[:5]] == buckets[:5]
    for wrong in ("b" + END, "a", "axis"):
        with pytest.raises(Impossible):
            read(wrong)


def test_only_prefixes_that_know_of_texts_count_them_again():
    asked = RecountedPrefixes("word", 4, 2, frozenset({"th"}))
    plain = Prefixes("word", 4, 2, frozenset({"th"}))
    assert asked.to_dict() == plain.to_dict() | {"kind": "recounted_prefixes", "texts": []}
    assert asked != plain
    assert [asked.bucket(text) for text in ("a", "then")] == [plain.bucket(text) for text in ("a", "then")]


@given(st.lists(st.text(max_size=8), max_size=30), st.integers(1, 3))
def test_prefixes_of_the_next_level_extend_those_of_the_last(words, step):
    level = {Prefixes("w", step).bucket(word) for word in words}
    parents = frozenset(prefix for prefix in level if not prefix.endswith(END))
    for word in words:
        longer = Prefixes("w", 2 * step, step, parents).bucket(word)
        assert longer is None or longer[:step] in parents


@pytest.mark.parametrize(
    "make",
    [
        lambda: Values(()),
        lambda: Values(("a", "a")),
        lambda: Values(("",)),
        lambda: Bins("a", (1,)),
        lambda: Bins("a", (1, 1)),
        lambda: Bins("a", (0, math.inf)),
        lambda: Dates("a", "year"),
        lambda: Joint((Values(("a", "b")),)),
        lambda: Prefixes("a", 0),
        lambda: Prefixes("a", 2, 2),
        lambda: RecountedPrefixes("a", 4, 2, frozenset(), frozenset({"no"})),
        lambda: RecountedPrefixes("a", 4, 2, frozenset(), frozenset({END})),
        lambda: RecountedPrefixes("a", 4, 2, frozenset(), frozenset({7})),
        lambda: Cells("a", 1, 0, 4),
        lambda: Cells("a", 0, math.nan, 4),
        lambda: Cells("a", 0, 1, 0),
        lambda: Below("a", math.nan),
    ],
)
def test_questions_that_make_no_sense(make):
    with pytest.raises(InvalidSetting):
        make()


@pytest.mark.parametrize(
    ("question", "good", "bad"),
    [
        (Bins("age", (0, 18, 65)), [0, 18.0], [17, 65, -1, "18"]),
        (Dates("day", "month"), [dt.date(2024, 2, 1)], [dt.date(2024, 2, 15), "2024-02-01"]),
        (Dates("day", "week"), [dt.date(2024, 2, 5)], [dt.date(2024, 2, 1)]),
        (Joint((Values(("city",)), Bins("age", (0, 18)))), [("Rome", 0)], [("Rome", 18)]),
        (Values(("city",)), ["Rome", 3], []),
        (Values(("city", "os")), [("Rome", "x")], []),
    ],
)
def test_a_domain_names_buckets_that_values_can_have(question, good, bad):
    question.check_domain(good)
    for bucket in bad:
        with pytest.raises(InvalidSetting, match="domain"):
            question.check_domain([*good, bucket])
