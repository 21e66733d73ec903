"""The column evaluator and the value evaluator are one function: hypothesis looks for a value on which they differ."""

from __future__ import annotations

import datetime as dt
import functools
import random
import unicodedata
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from table_cases import Maker, counted, expected, opened

from thresher.questions import (
    END,
    Below,
    Bins,
    Cells,
    Dates,
    Joint,
    Prefixes,
    Question,
    RecountedPrefixes,
    Values,
    normal,
)
from thresher.tables import Table

pytestmark = pytest.mark.slow

# Letters that combine, decompose, turn into ASCII, or are longer than they look; and the usual ones.
LETTERS = "ab K\u212a\u037e;e\u0301\u00e9\u0323\u1e9b\u0307ᄀ\u1161가🎉\u0345\x00'\"\\\n%"
texts = st.one_of(st.text(LETTERS, max_size=6), st.text(st.characters(exclude_categories=["Cs"]), max_size=6))
wholes = st.one_of(st.integers(-20, 20), st.integers(-(2**63), 2**63 - 1))
finite = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False)
floats = st.one_of(st.floats(-3, 12), st.floats(allow_subnormal=False), st.sampled_from([0.0, -0.0, 0.1, 0.3, 2.0]))
days = st.dates(dt.date(1600, 1, 1), dt.date(2200, 12, 31))
moments = st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 12, 31))
edges = st.lists(st.one_of(st.integers(-20, 20).map(float), finite), min_size=2, max_size=9, unique=True).map(sorted)


def column(values: st.SearchStrategy[Any], kind: pa.DataType) -> st.SearchStrategy[pa.Array]:
    return st.lists(st.one_of(st.none(), values), max_size=25).map(lambda held: pa.array(held, kind))


TEXT, WHOLE, FLOAT = column(texts, pa.string()), column(wholes, pa.int64()), column(floats, pa.float64())
DAY, MOMENT = column(days, pa.date32()), column(moments, pa.timestamp("us"))
FLAG = column(st.booleans(), pa.bool_())
NUMBER = st.one_of(WHOLE, FLOAT)


@st.composite
def prefixes(draw: st.DrawFn) -> Prefixes:
    known = draw(st.integers(0, 3))
    parents = frozenset(draw(st.lists(st.one_of(texts, texts.map(lambda text: text + END)), max_size=5)))
    asked = (known + draw(st.integers(1, 3)), known, frozenset(parent[:known] for parent in parents))
    if draw(st.booleans()):
        return Prefixes("x", *asked)
    found = (normal(text) for text in draw(st.lists(texts, max_size=5)))
    return RecountedPrefixes("x", *asked, frozenset(text for text in found if text is not None and len(text) < known))


@st.composite
def cells(draw: st.DrawFn) -> Cells:
    lower = draw(st.floats(-1e6, 1e6))
    width = draw(st.floats(1e-3, 1e6))
    return Cells("x", lower, lower + width, draw(st.one_of(st.integers(1, 100), st.integers(1, 2**40))))


@st.composite
def one_column(draw: st.DrawFn) -> tuple[Question, pa.Table]:
    choices: list[tuple[st.SearchStrategy[Any], st.SearchStrategy[pa.Array]]] = [
        (st.just(Values(("x",))), st.one_of(TEXT, WHOLE, FLOAT, DAY, MOMENT, FLAG)),
        (edges.map(lambda held: Bins("x", tuple(held))), NUMBER),
        (st.sampled_from(["day", "week", "month"]).map(lambda every: Dates("x", every)), st.one_of(DAY, MOMENT)),
        (prefixes(), TEXT),
        (cells(), NUMBER),
        (finite.map(lambda split: Below("x", split)), NUMBER),
    ]
    question, values = draw(st.sampled_from(choices))
    return draw(question), pa.table({"x": draw(values)})


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(case=one_column())
def test_columns_agree_with_values(local: Maker, case: tuple[Question, pa.Table]) -> None:
    question, table = case
    with opened(local, table) as population:
        assert counted(population, question) == expected(table, question)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    rows=st.lists(st.tuples(texts, st.one_of(st.none(), floats), st.one_of(st.none(), days)), max_size=25), held=edges
)
def test_several_columns_agree_with_values(local: Maker, rows: list[Any], held: list[float]) -> None:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    kinds = [pa.string(), pa.float64(), pa.date32()]
    table = pa.table(
        [pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)], names=["a", "b", "c"]
    )
    joint = Joint((Values(("a",)), Bins("b", tuple(held)), Dates("c", "week")))
    with opened(local, table) as population:
        for question in (Values(("a", "b", "c")), joint):
            assert counted(population, question) == expected(table, question)


@functools.cache
def generated(rows: int = 4000) -> pa.Table:
    """Many values of every kind in one table, for engines that are slow to start a job."""
    pick = random.Random(11)

    def text() -> str:
        letters = (
            LETTERS
            if pick.random() < 0.7
            else [chr(pick.choice([pick.randrange(0x20, 0xD800), 0x1F300])) for _ in "abc"]
        )
        return "".join(pick.choice(letters) for _ in range(pick.randrange(6)))

    def number() -> float:
        return pick.choice(
            [pick.uniform(-3, 12), pick.gauss(0, 1e200), round(pick.uniform(0, 10), 1), -0.0, float("inf")]
        )

    values = {
        "text": ([text() for _ in range(rows)], pa.string()),
        "whole": ([pick.choice([pick.randrange(-9, 9), pick.getrandbits(63)]) for _ in range(rows)], pa.int64()),
        "float": (
            [pick.choice([None, float("nan"), *[number() for _ in range(8)]]) for _ in range(rows)],
            pa.float64(),
        ),
        "filled": ([float(pick.randrange(50)) for _ in range(rows)], pa.float64()),
        "day": ([dt.date(1900, 1, 1) + dt.timedelta(pick.randrange(60000)) for _ in range(rows)], pa.date32()),
        "moment": (
            [dt.datetime(1900, 1, 1) + dt.timedelta(hours=pick.random() * 1e6) for _ in range(rows)],
            pa.timestamp("us"),
        ),
    }
    return pa.table({name: pa.array(held, kind) for name, (held, kind) in values.items()})


BATCH: list[Question] = [
    Values(("text",)),
    Values(("float",)),
    Values(("whole", "day")),
    Bins("float", tuple(edge / 7 for edge in range(-20, 60))),
    Bins("whole", (-5, -1, 0.5, 3, 2.0**62)),
    Dates("day", "week"),
    Dates("moment", "week"),
    Dates("moment", "month"),
    Joint((Values(("text",)), Bins("float", (0, 1, 10)), Dates("day", "month"))),
    Prefixes("text", 1),
    Prefixes("text", 3, 2, frozenset({"ab", "e\u0301", "\u00e9a", "K;", "가a", "a" + END})),
    RecountedPrefixes("text", 4, 2, frozenset({"ab"}), frozenset({"a", "\u00e9", "가"})),
    Cells("float", 0.1, 0.3, 13),
    Cells("float", -1e3, 1e7, 2**40),
    Cells("whole", 0, 2.0**63, 1000),
    Cells("filled", 0, 49, 49),  # 49 times the reciprocal of 49 is below 1, and no row is missing
    Below("float", 0.1),
    Below("whole", 2.0**62),
]


@functools.cache
def expected_of_batch() -> list[tuple[Question, Any]]:
    """Each question with what single values say, computed once for all engines."""
    return [(question, expected(generated(), question)) for question in BATCH]


def test_a_large_batch_agrees_with_values_on_a_cluster(cluster: Maker) -> None:
    frame = cluster(generated())
    for question, wanted in expected_of_batch():
        # Without the cache, so that the cluster itself evaluates every kind of question.
        assert counted(Table(frame, cache_limit=1), question) == wanted, question


def test_a_large_batch_agrees_with_values_on_this_machine(local: Maker) -> None:
    table = generated()
    frame = local(table)
    for question, wanted in expected_of_batch():
        for limit in (1, 10**6):
            population = opened(lambda _: frame, table, cache_limit=limit)
            assert counted(population, question) == wanted, question


@functools.cache
def every_character() -> tuple[pa.Table, Any]:
    """Every character whose normal form is another text, decomposed ones too, and how often each form is there."""
    characters = [chr(code) for code in range(1, 0x30000) if unicodedata.category(chr(code)) not in ("Cs", "Cn", "Co")]
    changed = [text for text in characters if not unicodedata.is_normalized("NFC", text)]
    decomposed = [unicodedata.normalize("NFD", text) for text in characters]
    held = changed + [text for text, whole in zip(decomposed, characters, strict=True) if text != whole]
    table = pa.table({"x": held})
    return table, expected(table, Values(("x",)))


def test_text_is_normalised_as_python_does_for_every_character(engine: Maker) -> None:
    table, wanted = every_character()
    assert counted(Table(engine(table)), Values(("x",))) == wanted


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.uint32(), pa.float32(), pa.float16(), pa.large_string(), pa.string_view()]
)
def test_narrow_and_wide_arrow_types_are_counted(kind: pa.DataType) -> None:
    text = pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    values = ["a", "b", "b", None] if text else [1, 2, 2, None]
    table = pa.table(
        {
            "x": pa.array(values).cast(pa.int64() if not text else kind).cast(kind)
            if not pa.types.is_float16(kind)
            else pa.array([1, 2, 2, None], kind)
        }
    )
    assert list(counted(Table(table), Values(("x",))).values()) in ([1, 2], [2, 1])
