"""What `print` and notebooks show: a few rows with intervals, aligned, for every verb, with and without groups."""

from __future__ import annotations

import html
import re

import pyarrow as pa
import pytest
from rich.cells import cell_len

import thresher as th
from thresher.charts.numbers import fitted

LONG, WIDE = "a label that is so long that it cannot stand in its column", "日本語のラベル"
DATA = pa.table(
    {
        "place": [name for name in ("fr", WIDE, LONG, "x\u0301e") for _ in range(3_000)],
        "ms": [float(number % 100) for number in range(12_000)],
    }
)
BOUNDS = {"lower": 0, "upper": 100}
ONE, TWO = (th.plan(1, 1e-6, rounds=rounds) for rounds in (1, 2))
CASES = {
    "histogram": lambda data, **by: th.histogram(data, "place", plan=ONE),
    "heavy hitters": lambda data, **by: th.heavy_hitters(data, "place", plan=ONE),
    "quantiles": lambda data, **by: th.quantiles(data, "ms", [0.5, 0.9], **BOUNDS, plan=TWO, **by),
    "search": lambda data, **by: th.quantiles(data, "ms", [0.5, 0.9], **BOUNDS, plan=TWO, method="search"),
    "ranges": lambda data, **by: th.ranges(data, "ms", **BOUNDS, plan=TWO, **by),
    "mean": lambda data, **by: th.mean(data, "ms", **BOUNDS, plan=ONE, **by),
}
GROUPED = ("quantiles", "ranges", "mean")


def in_a_notebook(answer) -> str:
    return html.unescape(re.sub("<[^>]*>", " ", answer._repr_html_()))


def interval(text: str) -> bool:
    return bool(re.search(r"[\d.,]+ (to )?[\d.,]+", text))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_numbers_and_their_intervals_are_shown(name):
    answer = CASES[name](DATA)
    for text in (str(answer), in_a_notebook(answer)):
        assert interval(text.splitlines()[1] if text == str(answer) else text)
        if answer.query.clipping:
            assert text.count("count as at the nearest bound: that is bias") == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", GROUPED)
def test_groups_are_shown_in_aligned_columns(name):
    answer = CASES[name](DATA, by="place", groups=["fr", "nowhere", WIDE, LONG])
    lines = [line for line in str(answer).splitlines() if re.search(" to |below threshold", line)]
    rows = [line for line in lines if not line.startswith("Values")]
    assert {cell_len(re.sub("   [^ ]+ to .*", "", row)) for row in rows} == {48}
    assert any(row.startswith("a label that") and "…" in row for row in rows)
    assert name == "mean" or sum("· 50 % are below" in row for row in rows) == 3
    assert any(row.startswith("nowhere") and "below threshold" in row for row in rows)
    shown = in_a_notebook(answer)
    assert LONG in shown and WIDE in shown and "below threshold" in shown


def test_many_groups_are_cut():
    many = pa.table({"g": [number % 30 for number in range(60_000)], "ms": [5.0] * 60_000})
    text = str(th.quantiles(many, "ms", [0.5, 0.9], by="g", **BOUNDS, plan=TWO))
    assert text.count("% are below") == 20 and "… 40 more rows" in text


@pytest.mark.parametrize("name", CASES)
def test_nothing_ends_in_two_full_stops(name):
    for by in ({}, {"by": "place"} if name in GROUPED else {}):
        answer = CASES[name](DATA.slice(0, 3), **by)
        assert "Nothing was released" in str(answer) and "Nothing was released" in in_a_notebook(answer)
        assert ".." not in str(answer) + in_a_notebook(answer)


@pytest.mark.parametrize("text", ["", "a", WIDE, LONG, WIDE * 9, "x\u0301" * 40, "\x1b[31m" * 9])
def test_labels_take_the_columns_that_they_are_given(text):
    assert cell_len(fitted(text, 20)) == 20
    assert "\x1b" not in fitted(text, 20)
