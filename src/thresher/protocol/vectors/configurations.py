"""Vectors for configurations: what their hash is, whether they have a name, and whether they can be read."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterator
from typing import Any

from thresher.privacy.plans import Plan
from thresher.privacy.whole_numbers import ONE
from thresher.protocol.readable import read_round
from thresher.protocol.vectors.buckets import (
    AGAIN,
    AGES,
    BELOW,
    CELLS,
    EXACT,
    JOINT,
    NEXT,
    PAIR,
    POINTS,
    RANGE,
    TWO_FILTERS,
    WEEKS,
    WORD,
)
from thresher.protocol.vectors.example_rounds import PLAN, content, example
from thresher.questions import Values

_KINDS = (WORD, PAIR, AGES, CELLS, BELOW, POINTS, WEEKS, NEXT, AGAIN, JOINT, RANGE, EXACT, TWO_FILTERS)
_SMALL_ORDER = (
    "00" * 32,
    "01" + "00" * 31,
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
)
"""Points of small order, and other spellings of them: what is sealed for them hides nothing."""


def configurations() -> list[dict[str, Any]]:
    """Strings that a server may list, good and bad."""
    return [_vector(what, text) for what, text in (*_questions(), *_spellings(), *_changed(), *_no_objects())]


def _vector(what: str, text: str) -> dict[str, Any]:
    shown = read_round(text)
    try:
        hashed = hashlib.sha256(b"thresher round 3\0" + text.encode()).hexdigest()
    except UnicodeEncodeError:
        hashed = None
    return {"what": what, "text": text, "hash": hashed, "round": shown.name, "readable": shown.round is not None}


def _questions() -> Iterator[tuple[str, str]]:
    for question in _KINDS:
        yield f"question: {question.kind}", example(question=question).text
    good = content()["question"]
    for what, wrong in (
        ("unknown kind", {"kind": "median", "column": "age"}),
        ("no kind", {"columns": ["country"]}),
        ("missing field", {"kind": "values"}),
        ("further field", {**good, "more": 1}),
        ("no column", {"kind": "values", "columns": []}),
        ("empty column", {"kind": "values", "columns": [""]}),
        ("column twice", {"kind": "values", "columns": ["a", "a"]}),
        ("edges that fall", {"kind": "bins", "column": "age", "edges": [0, 18, 17]}),
        ("one edge", {"kind": "bins", "column": "age", "edges": [0]}),
        ("no cells", {"kind": "cells", "column": "age", "lower": 0, "upper": 1, "cells": 0}),
        ("lower above upper", {"kind": "cells", "column": "age", "lower": 2, "upper": 1, "cells": 4}),
        ("one point", {"kind": "points", "column": "age", "points": [0]}),
        ("known not below length", {"kind": "prefixes", "column": "word", "length": 2, "known": 2, "parents": []}),
        ("joint of one part", {"kind": "joint", "parts": [good]}),
        ("unknown period", {"kind": "dates", "column": "day", "every": "year"}),
        (
            "filter in a filter",
            {
                "kind": "filtered",
                "question": {"kind": "filtered", "question": good, "where": [{"column": "a", "among": ["x"]}]},
                "where": [{"column": "b", "among": ["x"]}],
            },
        ),
        ("no condition", {"kind": "filtered", "question": good, "where": []}),
        *(
            (f"condition: {what}", {"kind": "filtered", "question": good, "where": [{"column": "a", **condition}]})
            for what, condition in (
                ("no text", {"among": []}),
                ("a number as text", {"among": [1]}),
                ("no end", {"from": None, "below": None}),
                ("one end", {"from": 1, "below": None}),
                ("equal ends", {"from": 1, "below": 1}),
                ("ends that fall", {"from": 2, "below": 1}),
                ("days", {"from": "2024-01-01", "below": "2024-01-02"}),
                ("days that fall", {"from": "2024-01-02", "below": "2024-01-01"}),
                ("a number and a day", {"from": 1, "below": "2024-01-02"}),
                ("digits that no double is", {"from": "9007199254740993", "below": None}),
                ("digits that are a double", {"from": "9007199254740992", "below": None}),
            )
        ),
        *_wrong_fields(good),
        ("a list", [good]),
        ("null", None),
    ):
        yield f"question: {what}", _written(content() | {"question": wrong})


def _wrong_fields(good: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Both sides of the rules of docs/protocol/answers.md, section 3."""
    ages, rounded = {"kind": "bins", "column": "age", "edges": [0, 18]}, {"kind": "points", "points": [0, 1]}
    for what, parts in (
        ("two points", [{**rounded, "column": "a"}, {**rounded, "column": "b"}]),
        ("one column twice", [good, {"kind": "values", "columns": ["country"]}]),
        ("a part of another kind", [good, {"kind": "below", "column": "age", "split": 1}]),
        ("a part of two columns", [ages, {"kind": "values", "columns": ["a", "b"]}]),
        ("two parts", [good, ages]),
    ):
        yield f"joint: {what}", {"kind": "joint", "parts": parts}
    yield "equal edges", {**ages, "edges": [0, 18, 18]}
    yield "columns that are no list", {"kind": "values", "columns": "country"}
    yield "a column with half a surrogate", {"kind": "values", "columns": ["\ud800"]}
    for cells in (2**40, 2**40 + 1):
        yield f"{cells} cells", {"kind": "cells", "column": "age", "lower": 0, "upper": 1, "cells": cells}
    yield "cells too far apart", {"kind": "cells", "column": "age", "lower": -1e308, "upper": 1e308, "cells": 1}
    yield "cells that overflow", {"kind": "cells", "column": "age", "lower": 0, "upper": 1e308, "cells": 2}
    for number in (1_000, 1_001):
        yield f"{number} points", {"kind": "points", "column": "age", "points": list(range(number))}
    yield "points too far apart", {"kind": "points", "column": "age", "points": [-1e308, 1e308]}
    prefixes: dict[str, Any] = {"kind": "prefixes", "column": "word", "length": 4, "known": 2, "parents": ["th"]}
    yield "parents of any length, marked, twice", {**prefixes, "parents": ["t", "tha", "a\0", "a\0", "e\u0301"]}
    yield "a parent that is no text", {**prefixes, "parents": [1]}
    for length in (10_000, 10_001):
        yield f"a length of {length}", {**prefixes, "length": length}
    for what, text in (("whole", "a"), ("too long", "ab"), ("decomposed", "e\u0301"), ("marked", "\0")):
        known = 3 if what == "decomposed" else 2
        yield f"a text {what}", {**prefixes, "kind": "recounted_prefixes", "known": known, "texts": [text]}
    for what, where in (
        ("not in normal form", [{"column": "a", "among": ["e\u0301", "\u00e9"]}]),
        ("31 marks", [{"column": "a", "among": ["a" + "\u0301" * 31]}]),
        ("two on one attribute", [{"column": "a", "among": ["x"]}, {"column": "a", "among": ["y"]}]),
        ("a further field", [{"column": "a", "among": ["x"], "from": 1}]),
        ("no such day", [{"column": "a", "from": "2024-02-30", "below": None}]),
        ("beyond 64 bits", [{"column": "a", "from": None, "below": "9223372036854775809"}]),
        ("a leading zero", [{"column": "a", "from": "09007199254740993", "below": None}]),
        ("ends that are one double", [{"column": "a", "from": 9007199254740992, "below": "9007199254740993"}]),
        ("digits that fall", [{"column": "a", "from": "9007199254740993", "below": 9007199254740992}]),
    ):
        yield f"where: {what}", {"kind": "filtered", "question": good, "where": where}


def _spellings() -> Iterator[tuple[str, str]]:
    """The same or nearly the same content, written differently: each has a hash of its own."""
    good = content()
    text = _written(good)
    yield "spaces", json.dumps(good)
    yield "lines", json.dumps(good, indent=2)
    yield "carriage returns and tabs", json.dumps(good, indent="\t").replace("\n", "\r\n")
    yield "keys in another order", _written(dict(reversed(list(good.items()))))
    yield "blanks around", f" \n{text}\t "
    yield "letters escaped", text.replace('"default"', '"\\u0064efault"')
    yield "names of members escaped", text.replace('"fleet"', '"\\u0066leet"')
    yield "a solidus escaped", text.replace('"country"', '"cou\\/ntry"')
    accents = example(question=Values(("naïve café",))).text
    yield "not ASCII", accents
    yield "not ASCII, escaped", json.dumps(json.loads(accents))
    emoji = example(question=Values(("🦀",))).text
    yield "beyond U+FFFF", emoji
    yield "beyond U+FFFF, escaped", json.dumps(json.loads(emoji))
    yield "U+2028 in a string", text.replace('"country"', '"cou\u2028ntry"')
    yield "decomposed", text.replace('"country"', '"cafe\u0301"')
    yield "a deadline with an exponent", text.replace("1790003600.0", "1.7900036e9")
    yield "a whole deadline", text.replace("1790003600.0", "1790003600")
    yield "a rate with an exponent", text.replace("0.0625", "625e-4")
    yield "a rate with many digits", text.replace("0.0625", "0.06250000000000000000000000000000000")
    yield "half a surrogate", text.replace("country", "\ud800")
    yield "half a surrogate, escaped, in what is not read", text.replace('"epsilon":', '"\\ud800":1,"epsilon":')
    for asked in (
        {"kind": "bins", "column": "age", "edges": [0, 7777]},
        {"kind": "below", "column": "age", "split": 7777},
    ):
        yield "an infinite number", _written(good | {"question": asked}).replace("7777", "1e999")
    yield "a byte order mark", "\ufeff" + text
    yield "something behind it", text + "x"
    yield "a comma too many", text[:-1] + ",}"
    yield "a comment", "/* */" + text
    yield "single quotes", text.replace('"', "'")
    yield "a raw line break in a string", text.replace('"country"', '"cou\nntry"')
    yield "NaN", text.replace("1790003600.0", "NaN")
    yield "Infinity", text.replace("1790003600.0", "Infinity")


def _changed() -> Iterator[tuple[str, str]]:
    """One rule after another: both sides of each limit, and what is of another kind."""
    good = content()
    for member in good:
        yield f"without {member}", _written({name: value for name, value in good.items() if name != member})
    yield "a further member", _written(good | {"more": 1})
    limits: dict[str, list[Any]] = {
        "version": [2, 4, "3", None],
        "fleet": ["x" * 100, "x" * 101, "", "a/b", ".a", "a b", "é", "A.z_0:-", 1],
        "query": ["-a", "a\n", "9"],
        "round": ["x" * 100, "x" * 101, "", "a b", 5, None],
        "key_id": ["a:b", "a,b"],
        "index": [2, 3, -1, True, "0", None],
        "plan": [None, [], "plan"],
        "contact_rate": [0, -1, ONE + 1, "4294967296", True],
        "device_rate": [0, ONE + 1, None],
        "aggregator_rate": [0, ONE + 1, ONE // 16 + 1],
        "bucket_size": [48, 47, 4096, 4097, "64", True],
        "deadline": [0, -1.5, 1e300, "1790003600", None, True],
        "public_key": [good["public_key"].upper(), good["public_key"][:-1], good["public_key"] + "0", "g" * 64, 5],
        "guarantees": [None, [], {}, "none"],
    }
    for member, values in limits.items():
        for value in values:
            shown = json.dumps(value) if len(json.dumps(value)) < 30 else f"{len(value)} characters"
            yield f"{member}: {shown}", _written(good | {member: value})
    for key in _SMALL_ORDER:
        yield "public_key: a point of small order", _written(good | {"public_key": key})
    yield "deadline: too large for a double", _written(good).replace("1790003600.0", "1" + "0" * 400)
    yield from _plans(good)
    yield from _rates(good)


def _plans(good: dict[str, Any]) -> Iterator[tuple[str, str]]:
    limits: dict[str, list[Any]] = {
        "threshold": [1, 0, 100_000, 100_001, "12", None, True],
        "rounds": [1, 0, 1000, 1001, -1, "3", None],
        "contributions": [1, 2, 0, 333, 334, None, "1", True],
        "sampling_rate": [0, 1, -0.0625, 0.0626, "0.0625", None, True],
    }
    for member, values in limits.items():
        for value in values:
            yield f"plan.{member}: {json.dumps(value)}", _written(_planned(good, **{member: value}))
    for member in ("threshold", "rounds", "sampling_rate"):
        changed = copy.deepcopy(good)
        del changed["plan"][member]
        yield f"plan without {member}", _written(changed)
    yield "a plan with further members", _written(_planned(good, more=[1], epsilon="none"))
    minimal = {name: good["plan"][name] for name in ("threshold", "rounds", "sampling_rate")}
    yield "a plan with nothing else", _written(good | {"plan": minimal})
    for what, size, plan in (
        ("48,000 bytes", 52, {"contributions": 480, "rounds": 2}),
        ("48,480 bytes", 53, {"contributions": 480, "rounds": 2}),
        ("11 of the largest pieces", 4096, {"contributions": 11}),
        ("12 of the largest pieces", 4096, {"contributions": 12}),
    ):
        yield f"a report of {what}", _written(_planned(good, **plan) | {"bucket_size": size})
    several = Plan(PLAN.sampling_rate, PLAN.threshold, 1.0, 1e-8, "replace", 1, 3)
    yield "three contributions", example(plan=several).text
    rounded = {"kind": "points", "column": "age", "points": [0.0, 1.0]}
    for number in (1, 2):
        asked = _planned(good, rounds=1, contributions=number) | {"question": rounded}
        yield f"points and {number} contributions", _written(asked)
        where = [{"column": "a", "among": ["x"]}]
        for outer in (
            {"kind": "joint", "parts": [{"kind": "values", "columns": ["a"]}, rounded]},
            {"kind": "filtered", "question": rounded, "where": where},
        ):
            yield f"points in {outer['kind']} and {number} contributions", _written(asked | {"question": outer})
    half = _planned(good, contributions=3, sampling_rate=1 / 32) | {"contact_rate": ONE // 2}
    yield "three contributions and a contact coin", _written(half)


def _rates(good: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "device coins", example(sampled_by="device").text
    yield "a contact coin", example(contact_rate=0.5).text
    for what, contact, device, aggregator, rate in (
        ("no coin at all", ONE, ONE, ONE, 1),
        ("no coin at all, as 1.0", ONE, ONE, ONE, 1.0),
        ("device and aggregator coins", ONE, ONE // 4, ONE // 4, 1 / 16),
        ("a contact rate of 20 bits", (2**20 - 1) << 11, ONE, ONE // 4, (2**20 - 1) * 2.0**-23),
        ("a contact rate of 21 bits", (2**20 + 1) << 11, ONE, ONE // 4, (2**20 + 1) * 2.0**-23),
        ("the smallest contact rate", 1, ONE, ONE, 2.0**-32),
        ("the smallest sampling rate", 1, ONE, 1, 2.0**-64),
        ("a sampling rate below 2^-64", 1, ONE, 1, 2.0**-65),
        ("a rate of 32 bits", ONE, ONE, ONE // 16 + 1, (ONE // 16 + 1) / ONE),
        ("a rate that is one off", ONE, ONE, ONE // 16 + 1, 1 / 16),
        ("a rate that is nearly the product", ONE, ONE, ONE // 16, 0.06250000000000001),
        ("a rate that is no sum of halves", ONE, ONE, 429496729, 0.1),
        ("a product of 52 bits", 1048575 << 12, ONE, ONE - 1, 1048575 * (ONE - 1) * 2.0**-52),
    ):
        rates = {"contact_rate": contact, "device_rate": device, "aggregator_rate": aggregator}
        yield what, _written(_planned(good, sampling_rate=rate) | rates)


def _no_objects() -> Iterator[tuple[str, str]]:
    for text in ("", " ", "null", "true", "5", '"q1-0"', "[]", "{", "{}", '{"round":"q1-0"}', '{"round":{}}', "[" * 50):
        yield "no configuration", text
    yield "a configuration in a list", f"[{_written(content())}]"
    yield "a configuration in a string", json.dumps(_written(content()))


def _planned(good: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**good, "plan": {**good["plan"], **changes}}


def _written(value: Any) -> str:
    written = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return written.replace("\ud800", "\\ud800")
