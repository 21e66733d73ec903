"""The console's plain functions: forms to queries, queries to Python, answers to rows, numbers to charts."""

from __future__ import annotations

import datetime as dt
import math
from types import SimpleNamespace
from xml.etree import ElementTree

import pyarrow as pa
import pytest

import thresher as th
from thresher.charts.numbers import amount, percent, printable
from thresher.console import ask_form as asking
from thresher.console.answer_tables import PAGE, Column, Reading, Row, bars, branches, reading
from thresher.console.downloads import KINDS, Provenance, download
from thresher.console.pages.ask import visibility_chart
from thresher.console.pages.queries import progress
from thresher.console.python_line import python_line
from thresher.console.rendering import left, sentence, when
from thresher.errors import InvalidSetting, ThresherError
from thresher.questions import Bins, Dates, Values
from thresher.verbs import HeavyHittersQuery, HistogramQuery, QuantilesQuery, QueryTaker, RangesQuery
from thresher.verbs.places import SCREEN
from thresher.verbs.trie import Trie, TrieNode

ONE, SIX = th.plan(1.0, 1e-8), th.plan(1.0, 1e-8, rounds=6)
TWO_VALUES = th.plan(1.0, 1e-8, contributions=2)


@pytest.mark.parametrize(
    ("given", "query"),
    [
        ({"attribute": "country"}, HistogramQuery(Values(("country",)), ONE)),
        ({"attribute": "country, os"}, HistogramQuery(Values(("country", "os")), ONE)),
        (
            {"attribute": "country", "histogram_domain": "fr\n\n de \nfr"},
            HistogramQuery(Values(("country",)), ONE, ("fr", "de")),
        ),
        (
            {"attribute": "age", "histogram_group": "bins", "histogram_upper": "90", "histogram_bins": "3"},
            HistogramQuery(Bins("age", (0, 30, 60, 90)), ONE),
        ),
        (
            {"attribute": "day", "histogram_group": "dates", "histogram_dates": "month"},
            HistogramQuery(Dates("day", "month"), ONE),
        ),
        ({"attribute": "w", "verb": "heavy_hitters"}, HeavyHittersQuery("w", ONE)),
        ({"attribute": "airport", "histogram_contributions": "2"}, HistogramQuery(Values(("airport",)), TWO_VALUES)),
        (
            {"attribute": "w", "verb": "heavy_hitters", "heavy_hitters_contributions": "2"},
            HeavyHittersQuery("w", TWO_VALUES),
        ),
        (
            {"attribute": "w", "verb": "heavy_hitters", "heavy_hitters_method": "trie", "heavy_hitters_levels": "6"},
            HeavyHittersQuery("w", SIX, "trie", 6),
        ),
        (
            {"attribute": "n", "verb": "quantiles", "quantiles_probabilities": "0.5; .9"},
            QuantilesQuery("n", (0.5, 0.9), SIX, 0.0, 1000.0, "hierarchy", whole=False),
        ),
        (
            {
                "attribute": "n",
                "verb": "quantiles",
                "quantiles_method": "search",
                "quantiles_probabilities": "0.5 0.9",
                "quantiles_steps": "3",
            },
            QuantilesQuery("n", (0.5, 0.9), SIX, 0.0, 1000.0, "search", whole=False),
        ),
        (
            {"attribute": "n", "verb": "ranges", "ranges_lower": "-5"},
            RangesQuery("n", SIX, -5.0, 1000.0, whole=False),
        ),
        (
            {"attribute": "n", "verb": "ranges", "ranges_whole": "yes", "ranges_branching": "5"},
            RangesQuery("n", SIX, 0.0, 1000.0, 5, True),
        ),
    ],
)
def test_fields_make_queries_and_queries_make_python(given, query):
    made = asking.to_query(asking.filled(given))
    assert made == query
    assert asking.to_request(asking.filled(given)).query == query.to_dict()
    line = python_line(query, "http://server")
    assert run(line) == query


def run(line: str) -> object:
    """What the line would send to a fleet."""
    sent = []

    class Fleet(QueryTaker):
        def __init__(self, url: str, *, key: str) -> None:
            assert (url, key) == ("http://server", "a-token")

        def submit(self, query, **settings):
            sent.append(query)

    names = SimpleNamespace(Fleet=Fleet)
    for verb in ("histogram", "heavy_hitters", "quantiles", "ranges"):
        setattr(names, verb, getattr(th, verb))
    eval(line, {"th": names, "token": "a-token"})
    return sent[0]


@pytest.mark.parametrize(
    ("given", "setting"),
    [
        ({}, "attribute"),
        ({"attribute": "x" * 300}, "column"),
        ({"attribute": "a", "verb": "count"}, "verb"),
        ({"attribute": "a", "epsilon": ""}, "epsilon"),
        ({"attribute": "a", "epsilon": "nan"}, "epsilon"),
        ({"attribute": "a", "epsilon": "-1"}, "epsilon"),
        ({"attribute": "a", "delta": "1"}, "delta"),
        ({"attribute": "a", "histogram_group": "bins", "histogram_bins": "1e9"}, "bins"),
        ({"attribute": "a", "histogram_group": "bins", "histogram_bins": "2.5"}, "bins"),
        ({"attribute": "a", "histogram_group": "bins", "histogram_upper": "-1"}, "lower"),
        ({"attribute": "a,b", "histogram_group": "dates"}, "column"),
        ({"attribute": "a,a"}, "column"),
        ({"attribute": "a", "verb": "quantiles", "quantiles_probabilities": ""}, "probabilities"),
        ({"attribute": "a", "verb": "quantiles", "quantiles_probabilities": "2"}, "probabilities"),
        ({"attribute": "a", "verb": "ranges", "ranges_levels": "100000"}, "levels"),
        ({"attribute": "a", "verb": "ranges", "ranges_upper": "0"}, "lower"),
        ({"attribute": "a", "contact": "0"}, "devices contacted"),
        ({"attribute": "a", "minutes": "-1"}, "minutes"),
        ({"attribute": "a", "bucket_size": "8"}, "longest answer"),
        ({"attribute": "a", "name": "../x"}, "name"),
    ],
)
def test_wrong_fields_are_named(given, setting):
    with pytest.raises(InvalidSetting) as raised:
        asking.to_request(asking.filled(given))
    assert raised.value.setting == setting


def test_settings_of_rounds():
    fields = asking.filled({"attribute": "a", "contact": "50", "minutes": "2", "completions": "10"})
    settings = asking.to_request(fields).settings
    assert (settings.contact_rate, settings.seconds, settings.completions) == (0.5, 120.0, 10)
    assert asking.to_request(asking.filled({"attribute": "a"})).settings.seconds is None


def test_numbers_as_they_are_written():
    assert [amount(each) for each in (1, 0.25, 1e-8, 1234.5, 1e-8 * 9.96, 0, math.nan, 1e7)] == [
        "1", "0.25", "1e-8", "1,234.5", "9.96e-8", "0", "–", "10,000,000",
    ]  # fmt: skip
    assert [percent(each) for each in (0, 1, 0.25, 0.0485, 1e-9, 0.99999, 0.304)] == [
        "0 %", "100 %", "25 %", "4.85 %", "< 0.01 %", "> 99.99 %", "30.4 %",
    ]  # fmt: skip
    assert when(dt.datetime(2026, 1, 2, 3, 4, tzinfo=dt.UTC).timestamp()) == "2 Jan 2026, 03:04 UTC"
    assert printable("a\u202eb\x00\u200d\u00a0") == "a\ufffdb\ufffd\u200d\u00a0"


def table(number: int) -> Reading:
    rows = [
        Row((f"Row {index}", str(index)), (f"row {index}", index if index % 7 else None)) for index in range(number)
    ]
    return Reading((Column("name", "Name", number=False), Column("size", "Size")), tuple(rows), "size", True)


def test_rows_are_searched_sorted_and_paged():
    first = table(100).page()
    assert (first.number, first.last, first.found, len(first.rows)) == (1, 4, 100, PAGE)
    assert first.rows[0].keys[1] == 99
    last = table(100).page(number=99)
    assert (last.number, last.first_row, last.last_row) == (4, 76, 100)
    assert [row.keys[1] for row in last.rows[-15:]] == [None] * 15  # without a number: last, both ways
    assert table(100).page(descending=False, number=4).rows[-1].keys[1] is None
    found = table(100).page(search=" ROW 98 ", sort="name", descending=False)
    assert [row.cells[0] for row in found.rows] == ["Row 98"]
    assert table(100).page(sort="nonsense").sort == "size"
    empty = table(0).page()
    assert (empty.first_row, empty.last_row, empty.last) == (0, 0, 1)


def test_the_tree_is_listed_from_top_to_bottom():
    found = [("t", None, False), ("the", "t", False), ("and", None, True)]
    found += [("the", "the", True), ("then", "the", True), ("there", "the", True), ("to", "t", True)]
    nodes = [
        TrieNode(prefix, 100 - place, 100.0 - place, (200 - 2 * place, 201 - 2 * place), complete, parent)
        for place, (prefix, parent, complete) in enumerate(found)
    ]
    listed = branches(Trie(tuple(nodes)))
    depth, seen = 0, []
    for branch in listed:
        seen.append((depth, branch.label, branch.complete))
        depth += branch.grows
        depth -= branch.closes
        assert branch.grows or depth >= 0
    assert depth == 0  # every branch that opens is closed
    assert seen[0] == (0, "t…", False)
    assert (2, "the", True) in seen and (1, "to", True) in seen and (0, "and", True) in seen


def test_bars_of_bins_keep_their_order_where_only_the_largest_are_shown():
    edges = tuple(range(71))
    people = pa.table({"x": [float(value) for value in range(70) for _ in range(500 + 100 * (value * 9 % 70))]})
    answer = th.histogram(people, "x", bins=list(edges), plan=ONE)
    shown = bars(answer)
    starts = [float(bar.label.split(" to ")[0]) for bar in shown]
    assert len(answer) == 70 and len(shown) == SCREEN
    assert starts == sorted(starts) and 0.0 not in starts  # the smallest is left out


def test_bars_and_rows_have_a_place_for_each_bin_that_was_not_released():
    people = pa.table({"x": [5.0] * 3_000 + [25.0] * 9_000 + [31.0]})
    answer = th.histogram(people, "x", bins=[0, 10, 20, 30, 40], plan=ONE)
    labels = ["0 to under 10", "10 to under 20", "20 to under 30", "30 to under 40"]
    assert [(bar.label, bar.estimate is None) for bar in bars(answer)] == list(
        zip(labels, [False, True, False, True], strict=True)
    )
    page = reading(answer).page()
    assert [row.cells[0] for row in page.rows] == labels
    assert [row.cells[1] for row in page.rows][1::2] == ["below threshold"] * 2
    listed = th.histogram(people, "x", bins=[0, 10, 20, 30, 40], domain=[20.0, 10.0], plan=ONE)
    assert [row.cells[0] for row in reading(listed).page().rows] == labels[1:3]


@pytest.mark.slow
def test_a_very_deep_tree_is_listed_too():
    nodes = [
        TrieNode(
            "x" * depth,
            5000 - depth,
            5000.0 - depth,
            (5000 - depth,) * 2,
            False,
            "x" * (depth - 1) if depth > 1 else None,
        )
        for depth in range(1, 2000)
    ]
    listed = branches(Trie(tuple(nodes)), most=3000)
    assert len(listed) == 1999
    assert sum(branch.grows for branch in listed) == sum(branch.closes for branch in listed) == 1998


def test_the_curve_of_what_is_seen_is_the_plans():
    root = ElementTree.fromstring(visibility_chart(ONE.sampling_rate, ONE.threshold, ONE.smallest_visible()))
    line = next(element for element in root.iter() if element.get("class") == "line")
    points = [tuple(map(float, point.split())) for point in line.get("d")[1:].split("L")]
    low, high = math.log10(round(ONE.threshold / 2)), math.log10(12 * ONE.smallest_visible())
    for x, y in points[:: len(points) // 10]:
        size = round(10 ** (low + (high - low) * x / 1000))
        assert 1 - y / 1000 == pytest.approx(ONE.sees(size), abs=0.02)


def test_progress_never_passes_one():
    rounds = [SimpleNamespace(state=state, completed=9, target=3) for state in ("released", "open", "closed")]
    assert progress(SimpleNamespace(state="running", rounds=rounds, rounds_planned=2)) == 1.0
    assert progress(SimpleNamespace(state="done", rounds=[], rounds_planned=5)) == 1.0
    assert progress(SimpleNamespace(state="running", rounds=[], rounds_planned=5)) == 0.0


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (1e-4, "0.0001"),
        (1e-4 - 1e-8, "9.99e-5"),  # and not all of it
        (9.99999, "9.9999"),
        (10 - 0.3 * 3, "9.1"),  # 9.1 but for floating point
        (99.0, "99"),
        (12345.9, "12,345"),
        (0.0, "0"),
        (-1e-18, "0"),
    ],
)
def test_what_is_left_is_never_rounded_up(value, written):
    assert left(value) == written
    assert float(left(value).replace(",", "")) <= max(value, 0) * (1 + 1e-11)


def test_a_sentence_keeps_the_case_of_names():
    assert sentence("histogram of AppVersion") == "Histogram of AppVersion"
    assert sentence("") == ""


def test_an_error_finds_its_field():
    for given, field in (
        ({"epsilon": "x"}, "epsilon"),
        ({"contact": "1"}, "contact"),
        ({"verb": "quantiles", "quantiles_lower": "x"}, "quantiles_lower"),
        ({"verb": "quantiles", "quantiles_lower": "9", "quantiles_upper": "1"}, "quantiles_lower"),
        ({"verb": "ranges", "ranges_branching": "1"}, "ranges_branching"),
        (
            {"verb": "heavy_hitters", "heavy_hitters_method": "trie", "heavy_hitters_levels": "x"},
            "heavy_hitters_levels",
        ),
        ({"histogram_group": "bins", "histogram_bins": "0"}, "histogram_bins"),
        (
            {"verb": "heavy_hitters", "heavy_hitters_method": "trie", "heavy_hitters_levels": "1001"},
            "",
        ),  # rounds have no field
    ):
        fields = asking.filled({"attribute": "a", **given})
        with pytest.raises(ThresherError) as raised:
            asking.to_request(fields)
        assert asking.field_of(raised.value, fields) == field, given


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("verb", ["histogram", "heavy_hitters", "quantiles", "ranges"])
def test_an_empty_answer_is_every_kind_of_file(verb, kind):
    plan = th.plan(1, 1e-8, rounds=2 if verb in ("quantiles", "ranges") else 1)
    people = pa.table({"x": [1.5, 2.5]})
    more = {"quantiles": ([0.5],)}.get(verb, ())
    bounds = {"lower": 0, "upper": 10} if verb in ("quantiles", "ranges") else {}
    answer = getattr(th, verb)(people, "x", *more, plan=plan, **bounds)
    assert download(answer, kind, Provenance.of(answer, f"{verb} of x", 1.0))


@pytest.mark.parametrize(
    ("given", "said", "field"),
    [
        ({"histogram_group": "bins", "histogram_bins": ""}, "bins is missing", "histogram_bins"),
        ({"histogram_group": "dates", "histogram_dates": ""}, "cut to the is missing", "histogram_dates"),
        ({"histogram_group": "bins", "histogram_lower": ""}, "from and “to” are missing", "histogram_lower"),
        ({"histogram_group": "bins", "histogram_upper": "-1"}, "from must be below “to”", "histogram_lower"),
        ({"histogram_group": "bins", "attribute": "a, b"}, "attribute must be one for “bins”", "attribute"),
        ({"histogram_group": "colours"}, "counted as must be one of", ""),
        ({"verb": "quantiles", "quantiles_probabilities": ""}, "quantiles is missing", "quantiles_probabilities"),
        ({"verb": "ranges", "ranges_levels": "0"}, "levels must be from 1 to 10,000", "ranges_levels"),
        ({"verb": "ranges", "ranges_branching": "1"}, "cells split into must be from 2 to 1,024", "ranges_branching"),
    ],
)
def test_an_error_speaks_of_what_is_on_the_form(given, said, field):
    fields = asking.filled({"attribute": "a", **given})
    with pytest.raises(InvalidSetting) as raised:
        asking.to_request(fields)
    assert said in asking.as_on_the_form(raised.value, fields).message
    assert asking.field_of(raised.value, fields) == field
