"""The lonely person: what one unit alone holds changes nothing that an analyst can observe.

Nobody who alone holds a value can be released. So for any such value, everything that an analyst can see of a query
must be byte for byte what it is if that person holds nothing, given the same coins: release, schema, errors, output,
warnings, files, ledger. THRESHER_LONELY=100 looks a hundred times as long.
"""

from __future__ import annotations

import datetime as dt
import math
import unicodedata
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hostile_values import ABSENT, LONG_TEXT, made, values
from hypothesis import given
from hypothesis import strategies as st
from lonely_people import (
    FILES,
    NOTHING,
    OBJECTS,
    PEOPLE,
    TYPED,
    UNITS,
    Row,
    lonely,
    spark_frames,
    typed_values,
    with_lonely,
    with_units,
)
from lonely_search import TIMES, bounded
from observing import observe

import thresher as th
from thresher.questions import normal
from thresher.questions.spelling import as_text, read_float, read_time

ONE = th.plan(epsilon=2.0, delta=1e-4)
THREE = th.plan(epsilon=6.0, delta=1e-3, rounds=3)
TWICE = th.plan(epsilon=4.0, delta=1e-4, contributions=2)
THREE_TWICE = th.plan(epsilon=6.0, delta=1e-3, rounds=3, contributions=2)
Ask = Callable[..., Any]

# Each verb, with the column that it asks about.
VERBS: dict[str, tuple[str, Ask]] = {
    "values of text": ("word", lambda data, **rest: th.histogram(data, "word", plan=ONE, **rest)),
    "values of numbers": ("age", lambda data, **rest: th.histogram(data, "age", plan=ONE, **rest)),
    "values of floats": ("share", lambda data, **rest: th.histogram(data, "share", plan=ONE, **rest)),
    "values of dates": ("day", lambda data, **rest: th.histogram(data, "day", plan=ONE, **rest)),
    "values of decimals": ("price", lambda data, **rest: th.histogram(data, "price", plan=ONE, **rest)),
    "two columns": ("word", lambda data, **rest: th.histogram(data, ["word", "age"], plan=ONE, **rest)),
    "domain": ("word", lambda data, **rest: th.histogram(data, "word", domain=["paris", "nice"], plan=ONE, **rest)),
    "bins": ("age", lambda data, **rest: th.histogram(data, "age", bins=[29, 35, 43], plan=ONE, **rest)),
    "weeks": ("day", lambda data, **rest: th.histogram(data, "day", dates="week", plan=ONE, **rest)),
    "months": ("at", lambda data, **rest: th.histogram(data, "at", dates="month", plan=ONE, **rest)),
    "one-shot": ("word", lambda data, **rest: th.heavy_hitters(data, "word", plan=ONE, **rest)),
    "trie": ("word", lambda data, **rest: th.heavy_hitters(data, "word", method="trie", plan=THREE, step=2, **rest)),
    "search": ("age", lambda data, **rest: th.quantiles(data, "age", 0.5, lower=0, upper=64, plan=THREE, **rest)),
    "hierarchy": (
        "share",
        lambda data, **rest: th.quantiles(
            data, "share", [0.5, 0.9], lower=0, upper=1, method="hierarchy", plan=THREE, branching=2, **rest
        ),
    ),
    "several values": ("word", lambda data, **rest: th.histogram(data, "word", plan=TWICE, **rest)),
    "several numbers": ("share", lambda data, **rest: th.histogram(data, "share", plan=TWICE, **rest)),
    "several months": ("at", lambda data, **rest: th.histogram(data, "at", dates="month", plan=TWICE, **rest)),
    "several beginnings": (
        "word",
        lambda data, **rest: th.heavy_hitters(data, "word", method="trie", plan=THREE_TWICE, step=2, **rest),
    ),
    "ranges": ("age", lambda data, **rest: th.ranges(data, "age", lower=0, upper=64, plan=THREE, branching=4, **rest)),
}
NUMBERS = ("search", "hierarchy", "ranges")


def alone(verb: str, value: Any) -> bool:
    """Whether nobody else can be in this value's bucket, or is asked about one that it shares."""
    value = made(value)
    try:
        text = as_text(value)
    except Exception:
        return True
    if text is None:
        return True
    if verb in NUMBERS:
        return read_float(text) is None  # every number shares a cell with others
    if verb == "bins":
        number = read_float(text)
        return number is None or not 29 <= number < 43
    if verb in ("weeks", "months", "several months"):
        time = read_time(text)
        return time is None or time.year != 2024
    if verb in ("trie", "several beginnings"):
        return str(normal(text))[:1] not in ("p", "l")
    return unicodedata.normalize("NFC", text.replace("\x00", "")) not in {
        str(as_text(row[VERBS[verb][0]])) for row in PEOPLE
    }


def alone_typed(verb: str, value: Any) -> bool:
    if verb in NUMBERS:
        return value is None or value != value
    if isinstance(value, int) and VERBS[verb][0] in ("day", "at"):
        days = value if VERBS[verb][0] == "day" else value // 86_400_000_000
        return not 19_700 <= days <= 20_100  # around 2024
    return alone(verb, value)


BASELINES: dict[Any, Any] = {}


def check(
    name: str,
    make: Any,
    folder: Path,
    verb: str,
    row: Row,
    place: int,
    unit: bool,
    used_up: bool,
    units: type = int,
) -> None:
    """What is seen with this row is what is seen with one that holds nothing. `units` is the type of everybody's."""
    unit = unit or verb.startswith("several")  # a row has one value

    def seen(row: Row) -> Any:
        ledger = th.Ledger(folder / "privacy.db", epsilon=6, delta=1e-2)
        try:
            if used_up:
                ledger.charge(6, 1e-3, "everything", unit="user" if unit else th.privacy.ROW)
            data = make(with_units(with_lonely(row, place), units), folder)
            rest = {"unit": "user"} if unit else {}
            return observe(lambda: VERBS[verb][1](data, ledger=ledger, **rest), ledger)
        finally:
            ledger.path.unlink()

    key = (name, verb, unit, used_up, units)
    if key not in BASELINES:
        BASELINES[key] = seen({**NOTHING, "user": UNITS[units][1](NOTHING["user"])})
    found = seen(row)
    assert found == BASELINES[key]
    expected = "BudgetExceeded" if used_up else None
    assert found.get("error") == expected


PLACES = st.sampled_from([0, 1, 300, len(PEOPLE)])
VERB = st.sampled_from(sorted(VERBS))
SELDOM = st.integers(0, 9).map(lambda number: number == 0)


@st.composite
def anything(draw: st.DrawFn) -> tuple[str, Any]:
    verb = draw(VERB)
    return verb, draw(values(long=TIMES > 1).filter(lambda value: alone(verb, value)))


@st.composite
def anything_typed(draw: st.DrawFn) -> tuple[str, Any]:
    verb = draw(VERB)
    return verb, draw(typed_values(VERBS[verb][0]).filter(lambda value: alone_typed(verb, value)))


@pytest.mark.slow
@pytest.mark.parametrize("name", [*FILES, *OBJECTS])
@bounded(20)
@given(case=anything(), place=PLACES, unit=st.booleans(), used_up=SELDOM, key=st.none() | st.text(max_size=5))
def test_a_lonely_value_without_a_type(
    name: str, folder: Path, case: tuple[str, Any], place: int, unit: bool, used_up: bool, key: str | None
) -> None:
    verb, value = case
    row = lonely(VERBS[verb][0], value, key=key if name == "jsonl" else None)
    check(name, {**FILES, **OBJECTS}[name], folder, verb, row, place, unit, used_up)


@pytest.mark.slow
@pytest.mark.parametrize("name", TYPED)
@bounded(12)
@given(case=anything_typed(), place=PLACES, unit=st.booleans(), used_up=SELDOM)
def test_a_lonely_value_of_its_columns_type(
    name: str, folder: Path, case: tuple[str, Any], place: int, unit: bool, used_up: bool
) -> None:
    verb, value = case
    check(name, TYPED[name], folder, verb, lonely(VERBS[verb][0], value), place, unit, used_up)


def nobody_else(value: Any, units: type = int) -> bool:
    """Whether nobody else has this unit, however an engine reads and compares it."""
    try:
        text = as_text(made(value))
    except Exception:
        return True
    if text is None:
        return True
    number = read_float(text)
    taken = {str(as_text(UNITS[units][1](row["user"]))) for row in PEOPLE}
    return normal(text) not in taken and not (number is not None and 0 <= number <= 600)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*FILES, *OBJECTS])
@bounded(8)
@given(verb=VERB, unit=values(long=TIMES > 1).filter(nobody_else), place=PLACES, used_up=SELDOM)
def test_a_lonely_unit_without_a_type(name: str, folder: Path, verb: str, unit: Any, place: int, used_up: bool) -> None:
    """What tells a person from others may be anything too. The person holds a value that nobody else does."""
    row = {**lonely(VERBS[verb][0], "HIV+"), "user": made(unit)}
    check(name, {**FILES, **OBJECTS}[name], folder, verb, row, place, True, used_up)


@st.composite
def lonely_unit(draw: st.DrawFn) -> tuple[type, Any]:
    kind = draw(st.sampled_from(list(UNITS)))
    return kind, draw(st.one_of(st.none(), UNITS[kind][2].filter(lambda value: nobody_else(value, kind))))


def typed_row(verb: str, unit: Any) -> Row:
    """Somebody with this unit and a value of the column's type that nobody else holds."""
    value = {"word": "HIV+", "age": 7, "share": math.nan, "day": dt.date(1999, 1, 1), "price": Decimal("7.50")}
    column = VERBS[verb][0]
    return {**lonely(column, None if verb in NUMBERS else value.get(column)), "user": made(unit)}


@pytest.mark.slow
@pytest.mark.parametrize("name", TYPED)
@bounded(6)
@given(verb=VERB, unit=lonely_unit(), place=PLACES, used_up=SELDOM)
def test_a_lonely_unit_of_its_columns_type(
    name: str, folder: Path, verb: str, unit: tuple[type, Any], place: int, used_up: bool
) -> None:
    check(name, TYPED[name], folder, verb, typed_row(verb, unit[1]), place, True, used_up, unit[0])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
@pytest.mark.parametrize("name", ["spark", "spark_connect"])
@bounded(6)
@given(case=anything_typed(), unit=st.none() | lonely_unit(), place=PLACES, used_up=SELDOM)
def test_a_lonely_person_on_spark(
    name: str,
    request: pytest.FixtureRequest,
    folder: Path,
    case: tuple[str, Any],
    unit: tuple[type, Any] | None,
    place: int,
    used_up: bool,
) -> None:
    """A lonely value, or a lonely unit with one: each query takes seconds here, so one test has both."""
    verb, value = case
    make = spark_frames(request.getfixturevalue(name))
    if unit is None:
        check(name, make, folder, verb, lonely(VERBS[verb][0], value), place, False, used_up)
    else:
        check(name, make, folder, verb, typed_row(verb, unit[1]), place, True, used_up, unit[0])


QUICK: list[tuple[str, Any]] = [
    ("values of numbers", "HIV+"),
    ("values of numbers", "7.5"),
    ("values of dates", "06/13/2024"),
    ("values of text", LONG_TEXT),
    ("two columns", 2**70),
    ("bins", "HIV+"),
    ("search", "HIV+"),
    ("trie", '"\nparis,30\n"'),
]


@pytest.mark.parametrize(
    "name", ["csv", *(pytest.param(name, marks=pytest.mark.slow) for name in ("jsonl", "pandas objects"))]
)
def test_a_lonely_value_in_a_hurry(name: str, folder: Path) -> None:
    for verb, value in QUICK[:: 1 if name == "csv" else 3]:
        check(name, {**FILES, **OBJECTS}[name], folder, verb, lonely(VERBS[verb][0], value), 1, False, False)


@pytest.mark.slow
def test_a_budget_that_is_used_up_is_all_that_is_said(folder: Path) -> None:
    for verb, value in (("bins", "HIV+"), ("search", 2**70), ("values of numbers", ABSENT)):
        check("csv", FILES["csv"], folder, verb, lonely(VERBS[verb][0], value), 0, False, True)
    check("duckdb", TYPED["duckdb"], folder, "values of numbers", lonely("age", -1), 0, False, True)


@pytest.mark.slow
def test_another_spelling_is_never_released(folder: Path) -> None:
    """A collation grouped `PaRiS` with everybody's `paris` and released the one or the other."""
    for spelling in ("PaRiS", "pa\u0301ris", "PARIS"):
        for unit in (False, True):
            row = lonely("word", spelling)
            check("duckdb collated", TYPED["duckdb collated"], folder, "values of text", row, 0, unit, False)


def test_the_instrument_sees_what_is_released(folder: Path) -> None:
    """Many people who hold a value do change what is seen: else nothing would be measured."""
    ask = VERBS["values of text"][1]
    first, second = (observe(lambda rows=rows: ask(FILES["csv"](rows, folder))) for rows in (PEOPLE, PEOPLE[:300]))
    assert '"paris"' in first["json"]
    assert first["json"] != second["json"]
    assert first["schema"] == second["schema"]
