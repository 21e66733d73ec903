"""Plaintexts: one length for all, and only buckets that the question can have come back."""

from __future__ import annotations

import datetime as dt
import json
import unicodedata
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thresher.errors import InvalidFormat, InvalidSetting
from thresher.protocol.plaintext import (
    DECOY,
    _json,
    bucket_types,
    decode_payload,
    decoy,
    encode_bucket,
    fleet_bucket,
    payload,
    to_columns,
)
from thresher.protocol.readable import SMALLEST_BUCKET
from thresher.protocol.sealing import PrivateKey, seal
from thresher.questions import END, Below, Bins, Cells, Dates, Joint, Prefixes, Values, from_dict
from thresher.roles.aggregator.report_opening import Opening, open_reports

WORD = Values(("word",))
PAIR = Values(("country", "system"))
AGES = Bins("age", (0, 18, 65, 130))
WEEKS = Dates("day", "week")
MONTHS = Dates("day", "month")
JOINT = Joint((Values(("country",)), Bins("age", (0, 18, 65)), Dates("day", "day")))
FIRST = Prefixes("word", 2)
NEXT = Prefixes("word", 4, 2, frozenset({"th", "a" + END, "én"}))
CELLS = Cells("latency", 0, 100, 8)
BELOW = Below("latency", 50)
QUESTIONS = [WORD, PAIR, AGES, WEEKS, MONTHS, JOINT, FIRST, NEXT, CELLS, BELOW]

scalars = st.one_of(
    st.none(),
    st.text(max_size=12),
    st.text(st.sampled_from("thaéń\x00"), max_size=6),
    st.integers(),
    st.integers(-5, 140),
    st.floats(),
    st.booleans(),
    st.dates(),
    st.datetimes(),
    st.decimals(),
    st.binary(max_size=3),
    st.just(object()),
    st.lists(st.integers(), max_size=2),
)


def round_trip(question, value, size=128):
    padded = encode_bucket(question, fleet_bucket(question, value), size)
    return None if padded is None else decode_payload(payload(padded), question)


@pytest.mark.slow
@settings(deadline=None, max_examples=600)
@given(st.sampled_from(QUESTIONS), st.data())
def test_every_bucket_of_every_question_comes_back(question, data):
    arity = len(question.columns)
    value = data.draw(scalars) if arity == 1 else tuple(data.draw(scalars) for _ in range(arity))
    bucket = fleet_bucket(question, value)  # never raises, whatever is held
    padded = encode_bucket(question, bucket, 1024)
    if padded is None:
        assert bucket is None or any("\ud800" <= c <= "\udfff" for c in str(bucket))
        return
    assert len(padded) == 1024
    back = decode_payload(payload(padded), question)
    assert back == bucket
    assert type(back) is type(bucket)
    assert bucket_types(question) == tuple(
        {str: "string", float: "double", dt.date: "date32", int: "int64", bool: "bool"}[type(part)]
        for part in (back if arity > 1 else (back,))
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("word", "word"),
        ("e\u0301", "é"),
        ("a\x00b", "ab"),
        ("", ""),
        (42, "42"),
        (True, "true"),
        (np.True_, "true"),
        (np.int64(42), "42"),
        (2.5, "2.5"),
        (np.float64(2.5), "2.5"),
        (Decimal("2.50"), "2.5"),
        (dt.date(2024, 2, 29), "2024-02-29"),
        (dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC), "2024-02-29T12:00:00"),
        (None, None),
        (float("nan"), None),
        (Decimal("nan"), None),
        (b"bytes", None),
        ({"a": 1}, None),
    ],
)
def test_whole_values_are_counted_as_text(value, text):
    assert fleet_bucket(WORD, value) == text


def test_numbers_and_dates_keep_their_type():
    assert round_trip(AGES, 20) == 18.0
    assert round_trip(WEEKS, dt.date(2024, 2, 29)) == dt.date(2024, 2, 26)
    assert round_trip(CELLS, 1e9) == 7
    assert round_trip(BELOW, 49.9) is True
    assert round_trip(JOINT, ("FR", 20, dt.date(2024, 2, 29))) == ("FR", 18.0, dt.date(2024, 2, 29))
    assert round_trip(PAIR, ("FR", 3)) == ("FR", "3")
    assert round_trip(PAIR, ("FR", None)) is None
    assert round_trip(JOINT, (None, 20, dt.date(2024, 2, 29))) is None


class Awkward:
    """A value that fails in whatever way it is looked at."""

    def __float__(self):
        raise RuntimeError

    def __str__(self):
        raise RuntimeError


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.kind)
@pytest.mark.parametrize("value", [Awkward(), 10**400, dt.date.min, "\ud800"], ids=["awkward", "huge", "min", "lone"])
def test_no_value_stops_a_device(question, value):
    arity = len(question.columns)
    round_trip(question, value if arity == 1 else (value,) * arity)


def test_prefixes_extend_what_is_known():
    assert round_trip(NEXT, "then") == "then"
    assert round_trip(NEXT, "theory") == "theo"
    assert round_trip(NEXT, "the") == "the" + END
    assert round_trip(NEXT, "th") == "th" + END
    assert round_trip(NEXT, "a") is None
    assert round_trip(NEXT, "other") is None
    assert round_trip(FIRST, "") == END


IMPOSSIBLE = [
    (WORD, ["a\x00b"]),
    (WORD, [42]),
    (WORD, [None]),
    (WORD, ["a", "b"]),
    (WORD, []),
    (WORD, "a"),
    (WORD, [["a"]]),
    (WORD, {"word": "a"}),
    (PAIR, ["a"]),
    (AGES, [17]),
    (AGES, [130]),  # the last edge ends the last interval
    (AGES, ["0"]),
    (AGES, [False]),  # equal to 0, but not a number
    (CELLS, [8]),
    (CELLS, [-1]),
    (CELLS, [1.5]),
    (CELLS, [True]),
    (BELOW, [1]),
    (BELOW, ["true"]),
    (WEEKS, ["2024-02-27"]),
    (MONTHS, ["2024-02-26"]),
    (WEEKS, ["20240226"]),
    (WEEKS, ["2024-W09-1"]),
    (WEEKS, ["2024-02-26T00:00:00"]),
    (WEEKS, [19779]),
    (NEXT, ["xx" + END]),
    (NEXT, ["thenx"]),
    (NEXT, ["the"]),  # neither whole nor ended
    (NEXT, ["then" + END]),
    (NEXT, ["t" + END + "e" + END]),
    (NEXT, ["a" + END]),  # complete already
    (NEXT, [END]),
    (NEXT, [""]),
    (WORD, {"decoy": "0" * 31}),
    (WORD, {"decoy": "G" * 32}),
    (WORD, {"decoy": 5}),
    (WORD, {"decoy": "0" * 32, "more": 1}),
    (WORD, {}),
    (WORD, None),
    (WORD, 5),
]


@pytest.mark.parametrize(("question", "content"), IMPOSSIBLE)
def test_what_the_question_cannot_have_is_refused_without_a_word_of_it(question, content):
    with pytest.raises(InvalidFormat) as caught:
        decode_payload(json.dumps(content).encode(), question)
    assert "then" not in str(caught.value)


@pytest.mark.slow
@settings(deadline=None, max_examples=400)
@given(
    st.sampled_from(QUESTIONS),
    st.one_of(st.binary(max_size=60), st.text('[]{}",:0123456789etrufalsn. ').map(str.encode)),
)
def test_any_bytes_are_a_bucket_or_an_invalid_format(question, content):
    try:
        bucket = decode_payload(content, question)
    except InvalidFormat:
        return
    assert bucket is DECOY or decode_payload(payload(encode_bucket(question, bucket, 4096)), question) == bucket


@pytest.mark.parametrize(
    ("question", "sent", "read"),
    [
        (WORD, "e\u0301", "é"),
        (WORD, "\u212b", "Å"),
        (WORD, "\u0344", "\u0308\u0301"),  # in two steps of Unicode: its normal form is longer
        (FIRST, "e\u0301" + END, "é" + END),
        (FIRST, "e\u0301", DECOY),  # what was the first two characters there is one here: cut where we would not
        (NEXT, "the\u0344", "thë\u0301"),
        (NEXT, "the\u0301", DECOY),
    ],
)
def test_what_another_unicode_took_for_normal_is_normalised_and_not_malformed(question, sent, read):
    """A device of an older Unicode is honest; what it holds must not be in the number of malformed reports."""
    assert decode_payload(json.dumps([sent]).encode(), question) == read


def test_a_device_of_an_older_unicode_is_counted_and_not_malformed(monkeypatch):
    """End to end: on the device the characters are unassigned, so that nothing composes; at the aggregator it does."""
    key = PrivateKey.generate("k")
    opening = Opening("k", key.to_bytes(), b"info", WORD, 64)
    with monkeypatch.context() as older:
        older.setattr(unicodedata, "normalize", lambda form, text: text)
        older.setattr(unicodedata, "is_normalized", lambda form, text: True)
        padded = [encode_bucket(WORD, fleet_bucket(WORD, text), 64) for text in ("e\u0301", "é", "e\u0301")]
    sealed = [seal(each, key.public, b"info") for each in padded]
    assert open_reports(sealed, opening) == (Counter({"é": 3}), 0)


def test_deep_nesting_is_malformed():
    with pytest.raises(InvalidFormat):
        decode_payload(b"[" * 4000, WORD)


def test_spellings_of_one_bucket_are_equal():
    assert decode_payload(b'[ "\\u0061" ]', WORD) == decode_payload(b'["a"]', WORD) == "a"
    assert decode_payload(b"[18]", AGES) == decode_payload(b"[1.8e1]", AGES) == 18.0


def test_json_is_written_as_ecmascript_writes_it():
    """`JSON.stringify` escapes quotes, backslashes and what is below U+0020, and nothing else."""
    short = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    codes = [*range(0x10000), 0x10000, 0x1F600, 0x1D165, 0x2F800, 0x10FFFF]
    for character in (chr(code) for code in codes if not 0xD800 <= code < 0xE000):
        escaped = short.get(character) or (f"\\u{ord(character):04x}" if character < " " else character)
        assert _json((character + "x",)) == f'["{escaped}x"]'.encode()


@pytest.mark.parametrize(
    ("question", "value", "content"),
    [
        (AGES, 20, b"[18]"),
        (Bins("x", (-1.0, -0.0, 1.0)), 0.5, b"[0]"),
        (Bins("x", (1e-7, 1e21, 1e22)), 1e-6, b"[1e-7]"),
        (Bins("x", (1e-7, 1e21, 1e22)), 10**21, b"[1e+21]"),
        (Bins("x", (1e20, 1e21)), 1e20, b"[100000000000000000000]"),
        (Bins("x", (5e-324, 0.1)), 0.01, b"[5e-324]"),
        (JOINT, ('a"\x01\u2028', 20, "2024-02-29"), '["a\\"\\u0001\u2028",18,"2024-02-29"]'.encode()),
        (BELOW, 10**400, b"[false]"),
        (CELLS, 10**400, b"[7]"),
        (CELLS, -(10**400), b"[0]"),
        (WEEKS, "0001-01-03", b'["0001-01-01"]'),
        (FIRST, "\U0001f600", b'["\xf0\x9f\x98\x80\\u0000"]'),
    ],
)
def test_a_bucket_has_the_same_bytes_in_every_language(question, value, content):
    padded = encode_bucket(question, fleet_bucket(question, value), 64)
    assert payload(padded) == content
    exact = len(content) + 2
    assert encode_bucket(question, fleet_bucket(question, value), exact) == padded[:exact]
    assert encode_bucket(question, fleet_bucket(question, value), exact - 1) is None


def test_decoys_are_unique_and_as_long_as_answers():
    decoys = {decoy(64) for _ in range(1000)}
    assert len(decoys) == 1000
    assert {len(each) for each in decoys} == {64} == {len(encode_bucket(WORD, "a", 64))}
    assert all(decode_payload(payload(each), question) is DECOY for each in list(decoys)[:5] for question in QUESTIONS)


def test_the_smallest_bucket_size_has_room_for_a_decoy():
    assert len(decoy(SMALLEST_BUCKET)) == SMALLEST_BUCKET
    with pytest.raises(InvalidFormat):
        decoy(45)


def test_a_value_that_does_not_fit_is_no_value():
    longest = "x" * (64 - 2 - len('[""]'))
    assert len(encode_bucket(WORD, longest, 64)) == 64
    assert round_trip(WORD, longest, 64) == longest
    assert encode_bucket(WORD, longest + "x", 64) is None
    assert encode_bucket(WORD, None, 64) is None
    assert encode_bucket(WORD, "\ud800", 64) is None


@pytest.mark.parametrize(
    "plaintext",
    [
        b"",
        b"\0",
        bytes(64),  # length zero
        b'\x00\x05["a"]' + bytes(56) + b"\x01",
        b'\x00\x05["a"]\x01' + bytes(56),
        b"\xff\xff" + bytes(62),
        b"\x00\x3f" + bytes(62),
    ],
)
def test_wrong_padding_is_malformed(plaintext):
    with pytest.raises(InvalidFormat):
        payload(plaintext)


def test_a_payload_may_fill_the_plaintext():
    assert payload(b'\x00\x05["a"]') == b'["a"]'


def test_columns_have_the_same_type_with_and_without_buckets():
    for question in QUESTIONS:
        empty = to_columns([], question)
        assert [str(column.type).removesuffix("[day]") for column in empty] == list(bucket_types(question))
        assert len(empty) == len(question.columns)
    filled = to_columns([("FR", 18.0, dt.date(2024, 2, 29))], JOINT)
    assert [column.to_pylist() for column in filled] == [["FR"], [18.0], [dt.date(2024, 2, 29)]]
    assert [column.type for column in filled] == [column.type for column in to_columns([], JOINT)]
    assert to_columns(iter(["a", "b"]), WORD)[0].equals(pa.array(["a", "b"], pa.string()))


@pytest.mark.parametrize("edge", [2.0**53 + 2, 2.0**60, 2.0**63, 2.0**69, 1e21, -(2.0**60)])
def test_large_edges_and_points_come_back(edge: float) -> None:
    """Their text is that of a whole number which need not be the double."""
    wide = Bins("x", (edge, edge * (3 if edge > 0 else 0.5)))
    assert round_trip(wide, edge) == edge
    assert round_trip(Bins("x", (-1e300, edge, 1e300)), edge) == edge


@pytest.mark.parametrize(
    "content",
    [
        {"kind": "bins", "column": "x", "edges": ["0", "1"]},
        {"kind": "bins", "column": "x", "edges": [False, True]},
        {"kind": "points", "column": "x", "points": ["0", 1]},
        {"kind": "points", "column": "x", "points": [0, True]},
        {"kind": "cells", "column": "x", "lower": "0", "upper": 1, "cells": 2},
        {"kind": "cells", "column": "x", "lower": False, "upper": True, "cells": 2},
        {"kind": "below", "column": "x", "split": "1"},
        {"kind": "below", "column": "x", "split": True},
    ],
)
def test_constants_of_questions_are_numbers(content: dict[str, Any]) -> None:
    with pytest.raises((InvalidFormat, InvalidSetting)):
        from_dict(content)
