"""Releases that nobody drew: each is refused where it is made, where it is read or by `verify`, with a fresh digest."""

from __future__ import annotations

import copy
import datetime as dt
import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thresher as th
from thresher.errors import InvalidFormat, InvalidSetting, VerificationFailed
from thresher.mechanism import Release, Response, sample_and_threshold
from thresher.privacy import DEVICE, ROW, Unit
from thresher.protocol.rates import share
from thresher.questions import Values
from thresher.verbs import Answer, HistogramQuery, RangesQuery

RATES, PLAN = share(th.plan(epsilon=1.0, delta=1e-8))
USER = Unit("column", "user")
FLEET = Release.of(
    [
        ("fr", 1.5, dt.date(2024, 2, 29), True),
        ("de", 0.0, dt.date(1969, 7, 20), False),
        ("it", -3.0, dt.date(1, 1, 1), True),
    ],
    [500, 70, 60],
    PLAN,
    private=True,
    columns=("country", "size", "day", "new"),
    response=Response(10_000, 10_000, 5_000, RATES),
    unit=DEVICE,
)
TABLE = Release.of(["a", "b", "c"], [500, 60, 60], PLAN, private=True, columns=("word",), unit=USER)
CONTENT = {"fleet": json.loads(FLEET.to_json()), "table": json.loads(TABLE.to_json())}


def redigested(content: Any) -> str:
    """The content as a text, with the digest of whatever stands in its rows."""
    try:
        names = [column["name"] for column in content["columns"]]
        rows = json.dumps([names, content["rows"]], sort_keys=True, separators=(",", ":"))
        content["certificate"]["digest"] = "sha256:" + hashlib.sha256(rows.encode()).hexdigest()
    except (KeyError, TypeError, AttributeError, IndexError):
        pass  # there is nothing to make a digest of
    return json.dumps(content)


def refused(text: str) -> bool:
    """Whether reading or verifying says no, in the two ways that are ours."""
    try:
        Release.from_json(text).verify()
    except (InvalidFormat, VerificationFailed):
        return True
    return False


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where anything stands in a JSON document."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        yield from places(child, (*path, key))


def changed(content: Any, path: tuple[Any, ...], change: Callable[[Any, Any], None]) -> Any:
    """A copy in which something was done to what stands at a place."""
    copied = copy.deepcopy(content)
    holder = copied
    for key in path[:-1]:
        holder = holder[key]
    change(holder, path[-1])
    return copied


STRANGE = [
    None, True, False, 0, 1, -1, 2, 0.5, -0.0, 1e308, 2**53 + 1, 2**70, float("nan"), float("inf"), "", "no", "true",
    "NaN", "1", "\ud800", [], {}, [1], {"a": 1},
]  # fmt: skip


def test_what_is_changed_here_is_valid_as_it_is() -> None:
    for kind, release in (("fleet", FLEET), ("table", TABLE)):
        assert not refused(redigested(copy.deepcopy(CONTENT[kind])))
        assert Release.from_json(release.to_json()).verify() == PLAN.guarantee.for_unit(release.unit)


def allowed(kind: str, path: tuple[Any, ...], value: Any) -> bool:
    """What is no forgery: another name for a column or for a bucket (a digest is no signature), other software."""
    if path == ("certificate", "software"):
        return isinstance(value, str)
    if path == ("certificate", "digest"):
        return True  # made anew
    buckets = len(path) > 1 and path[0] in ("rows", "columns") and path[1] < len(CONTENT[kind]["columns"]) - 4
    if buckets and path[0] == "rows":
        return len(path) == 3 or (isinstance(value, list) and len(value) == 3)  # one or all of a column; seen below
    return buckets and len(path) == 3 and path[2] == "name" and isinstance(value, str)


def same(value: Any, current: Any) -> bool:
    """A float may have been written as a whole number; nothing else may change its type."""
    kept = type(value) is type(current) or (type(value) is int and isinstance(current, float))
    return kept and bool(value == current)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["fleet", "table"])
def test_every_field_of_a_release_is_checked(kind: str) -> None:
    content = CONTENT[kind]
    tried = 0
    for path in list(places(content))[1:]:
        current: Any = content
        for key in path:
            current = current[key]
        for value in STRANGE:
            if same(value, current) or allowed(kind, path, value):
                continue
            forged = redigested(changed(content, path, lambda holder, key, v=value: holder.__setitem__(key, v)))
            assert refused(forged), (path, value)
            tried += 1
        if isinstance(path[-1], str) and path != ("certificate", "digest"):
            assert refused(redigested(changed(content, path, lambda holder, key: holder.pop(key)))), path
        if isinstance(current, dict):
            assert refused(redigested(changed(content, (*path, "extra"), lambda holder, key: holder.update({key: 1}))))
    assert tried > 1000


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["fleet", "table"])
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_other_value_anywhere_is_refused(kind: str, data: st.DataObject) -> None:
    content = CONTENT[kind]
    path = data.draw(st.sampled_from(list(places(content))[1:]))
    current: Any = content
    for key in path:
        current = current[key]
    plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    value = data.draw(plain | st.lists(plain, max_size=3) | st.dictionaries(st.text(max_size=5), plain, max_size=3))
    if same(value, current) or allowed(kind, path, value):
        return
    assert refused(redigested(changed(content, path, lambda holder, key: holder.__setitem__(key, value))))


def test_strange_buckets_are_refused() -> None:
    """A bucket may be renamed by whoever rewrites a file, but not to what no release can hold."""
    for column in range(4):
        kind = CONTENT["fleet"]["columns"][column]["type"]
        fits: dict[str, tuple[type, ...]] = {
            "string": (str,), "double": (int, float), "date32[day]": (int,), "bool": (bool,)
        }  # fmt: skip
        for value in STRANGE:
            if type(value) in fits[kind] and value not in ("\ud800", 2**70, 2**53 + 1):
                continue
            content = copy.deepcopy(CONTENT["fleet"])
            content["rows"][column][1] = value
            assert refused(redigested(content)), (column, value)
    for value in (float("nan"), float("inf"), -0.0, "nan", "Infinity"):
        content = copy.deepcopy(CONTENT["fleet"])
        content["rows"][1][1] = value
        assert refused(redigested(content)), value


def row(content: Any, source: int, target: int) -> None:
    for column in content["rows"]:
        column[target] = column[source]


def add(content: Any, place: int, column: dict[str, str], values: list[Any]) -> None:
    content["columns"].insert(place, column)
    content["rows"].insert(place, values)


def swap(content: Any, first: int, second: int) -> None:
    for column in content["rows"]:
        column[first], column[second] = column[second], column[first]


@pytest.mark.parametrize(
    "forge",
    [
        lambda content: row(content, 1, 2),  # the same bucket twice
        lambda content: content["rows"][0].__setitem__(2, "b"),
        lambda content: swap(content, 0, 1),  # out of order
        lambda content: swap(content, 1, 2),
        lambda content: content["rows"][0].append("d"),
        lambda content: content["rows"].append(content["rows"][0]),
        lambda content: content["columns"].append({"name": "total", "type": "int64"}),
        lambda content: add(content, 5, {"name": "total", "type": "int64"}, [1, 2, 3]),
        lambda content: add(content, 0, {"name": "word", "type": "string"}, ["a", "b", "c"]),
        lambda content: (content["columns"].pop(0), content["rows"].pop(0)),
        lambda content: content["columns"][0].update(type="int64"),
        lambda content: content["columns"][1].update(type="double"),
        lambda content: content["certificate"].update(private="no"),
        lambda content: content["certificate"].update(private=1),
        lambda content: (content.update(unit="row"), content["certificate"].update(unit="column:user")),
        lambda content: (content.update(version=2), content.pop("unit"), content["certificate"].pop("unit")),
        lambda content: (content["plan"].update(epsilon=0.5), content["certificate"].update(epsilon=0.5)),
    ],
)
def test_forgeries(forge: Callable[[Any], object]) -> None:
    content = copy.deepcopy(CONTENT["table"])
    forge(content)
    assert refused(redigested(content))


def test_a_field_that_is_there_twice_is_refused() -> None:
    text = TABLE.to_json()
    assert refused(text[:-1] + ', "confidence": 0.95}')
    assert refused(text.replace('"private": true', '"private": false, "private": true'))
    with pytest.raises(InvalidFormat):
        Release.from_json("[" * 100_000)


def test_a_whole_number_may_stand_for_a_float_and_for_nothing_else() -> None:
    """Other languages write 1.0 as 1; a count is never written as 500.0."""
    content = copy.deepcopy(CONTENT["table"])
    content["plan"]["epsilon"] = content["certificate"]["epsilon"] = 1
    assert not refused(redigested(content))
    content["rows"][1][0] = 500.0
    assert refused(redigested(content))
    for place in ("plan", "certificate"):
        content = copy.deepcopy(CONTENT["table"])
        content[place]["threshold"] = float(content[place]["threshold"])
        assert refused(redigested(content))


def test_a_changed_unit_is_found_and_both_forms_say_it() -> None:
    content = copy.deepcopy(CONTENT["table"])
    assert content["unit"] == content["certificate"]["unit"] == "column:user"
    assert content["certificate"]["guarantee"].endswith("for one unit (user)")
    content["unit"] = "row"
    with pytest.raises(VerificationFailed):
        Release.from_json(redigested(content))


# Made, not read.


@pytest.mark.parametrize(
    ("buckets", "counts", "setting"),
    [
        (["a", "a"], [60, 70], "table"),
        ([1.0, 1.0], [60, 70], "table"),
        ([0.0, -0.0], [60, 70], "table"),
        ([float("nan"), 1.0], [60, 70], "bucket"),
        (["a", None], [60, 70], "table"),
        (["a"], [60.5], "counts"),
        (["a"], [60.0], "counts"),
        (["a"], [True], "counts"),
        (["a"], [2**53 + 1], "counts"),
        (["a"], [2**64], "counts"),
        (["a"], ["60"], "counts"),
        (["a"], [-60], "counts"),
        (["a"], [float("nan")], "counts"),
    ],
)
def test_rows_that_no_draw_gives_cannot_be_made(buckets: Any, counts: Any, setting: str) -> None:
    with pytest.raises(InvalidSetting) as caught:
        Release.of(buckets, counts, PLAN, private=True)
    assert caught.value.setting == setting


def test_a_bucket_of_several_columns_is_compared_whole() -> None:
    Release.of([("a", 1), ("a", 2), ("b", 1)], [60] * 3, PLAN, private=True, columns=("x", "y"))
    with pytest.raises(InvalidSetting, match="same bucket twice"):
        Release.of([("a", 1), ("a", 2), ("a", 1)], [60] * 3, PLAN, private=True, columns=("x", "y"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"private": "no"},
        {"private": 1},
        {"private": None},
        {"private": np.bool_(True)},
        {"plan": None},
        {"confidence": 1},
        {"confidence": float("nan")},
        {"response": {"asked": 1}},
        {"unit": "user"},
        {"table": TABLE.table.drop_columns(["upper"])},
        {"table": TABLE.table.append_column("more", pa.array([1, 2, 3]))},
        {"table": TABLE.table.select(["count", "estimate", "lower", "upper"])},
        {"table": TABLE.table.set_column(1, "count", pa.array([500.0, 60.0, 60.0]))},
        {"table": TABLE.table.set_column(3, "lower", pa.array([1, None, 2]))},
        {"table": TABLE.table.set_column(0, "word", pa.array([b"a", b"b", b"c"]))},
        {"table": TABLE.table.set_column(0, "word", pa.array(["a", "b", "a"]))},
        {"table": TABLE.table.to_pydict()},
    ],
)
def test_parts_of_other_types_do_not_make_a_release(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidSetting):
        Release(**({"table": TABLE.table, "plan": PLAN, "private": True} | wrong))


# Plans that nobody checked.


def test_a_plan_made_by_hand_has_no_guarantee_that_nobody_checked() -> None:
    boast = th.Plan(PLAN.sampling_rate, PLAN.threshold - 5, 1.0, 1e-8)
    for _ in range(2):  # remembered, good or bad
        with pytest.raises(VerificationFailed, match="guarantee delta"):
            _ = boast.guarantee
    release = sample_and_threshold({"a": 1000}, boast)
    for claim in (lambda: release.guarantee, release.certificate, release.to_json, release.verify):
        with pytest.raises(VerificationFailed):
            claim()
    for shown in (repr(release), str(boast), release._repr_html_(), release.promise()):
        assert "no guarantee" in shown and "1e-08)-differential" not in shown
    assert boast.stated.delta == 1e-8  # what it states, under a name that says so
    honest = th.Plan(PLAN.sampling_rate, PLAN.threshold, 1.0, 1e-8)
    assert honest.guarantee == PLAN.guarantee


def test_an_answer_whose_plan_does_not_hold_guarantees_nothing() -> None:
    boast = th.Plan(0.5, 2, 0.1, 1e-12)
    population = th.mechanism.sample_and_threshold({"a": 1000}, boast, columns=("word",), unit=ROW)
    answer = th.verbs.Histogram(HistogramQuery(Values(("word",)), boast), (population,))
    with pytest.raises(VerificationFailed):
        _ = answer.guarantee
    assert "no guarantee" in answer.promise()


# Whom it protects.


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        (None, "had one unit held"),
        (ROW, "had one row held"),
        (USER, "had one unit (user) held"),
        (Unit("column", "row"), "had one unit (row) held"),
        (DEVICE, "had one device held"),
    ],
)
def test_a_guarantee_says_whom_it_protects(unit: Unit | None, words: str) -> None:
    release = sample_and_threshold({"a": 10_000}, PLAN, unit=unit)
    assert release.verify().unit == unit
    assert words in release.guarantee.in_words()
    assert "person" not in release.guarantee.in_words().replace("a person with several rows", "")
    assert ("several rows" in release.guarantee.in_words()) == (unit == ROW)
    again = Release.from_json(release.to_json())
    assert again.unit == unit and again.certificate() == release.certificate()
    for shown in (str(release.guarantee), repr(release), release._repr_html_(), release.certificate()["guarantee"]):
        assert (f"for {unit.one}" in shown) if unit else ("for one" not in shown)


@pytest.mark.slow
def test_tables_say_their_unit() -> None:
    frame = pa.table({"user": list(range(3000)), "word": ["a"] * 3000, "size": [1.0, 2.0, 3.0] * 1000})
    for unit, expected in ((None, ROW), ("user", USER)):
        histogram = th.histogram(frame, "word", plan=PLAN, unit=unit)
        assert histogram.unit == histogram.release.unit == histogram.verify().unit == expected
        ranges = th.ranges(frame, "size", lower=0, upper=4, levels=2, epsilon=2, delta=1e-6, unit=unit)
        assert ranges.unit == ranges.guarantee.unit == expected
        assert expected.one in ranges.promise()


def test_rounds_for_different_units_do_not_add_up() -> None:
    """A query that ran during an upgrade from 0.1.0 has rounds that say nothing; two that say different things fail."""
    plan = th.plan(epsilon=1.0, delta=1e-6, rounds=2)

    def answer(*units: Unit | None) -> Answer:
        return Answer(
            RangesQuery("a", plan, 0, 1), tuple(sample_and_threshold({"a": 5_000}, plan, unit=unit) for unit in units)
        )

    assert answer(DEVICE, DEVICE).verify().unit == DEVICE
    assert answer(None, DEVICE).verify().unit is None
    with pytest.raises(VerificationFailed, match="different units"):
        answer(ROW, USER).verify()
