"""Curves are zoomed to where the data is, and say what the public range is."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

import thresher as th
from thresher.verbs.windows import Window, common_window, window_of

BUDGET = {"epsilon": 1, "delta": 1e-8}
DELAYS = pa.table({"x": np.random.default_rng(1).normal(50.0, 10.0, 60_000), "by": ["a", "b"] * 30_000})
"""Nearly all are from 20 to 80, of a public range that is twenty times as wide."""


def check(window: Window | None, values: list[float]) -> None:
    assert window is not None and window.public == (-1_000, 1_000)
    assert 0 <= window.low <= 40 and 60 <= window.high <= 500  # no other cell of 500 holds enough to be released
    assert (values[0], values[-1]) == (window.low, window.high)
    assert "public range -1,000 to 1,000" in window.in_words()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["hierarchy", "search"])
def test_a_picture_of_quantiles_shows_where_the_data_is(method: str) -> None:
    found = th.quantiles(DELAYS, "x", [0.01, 0.5, 0.99], lower=-1_000, upper=1_000, method=method, **BUDGET)
    window, (values, ranks, lows, highs) = found.window(), found.band()
    assert window.public is not None and window.high - window.low < 300
    assert (values[0], values[-1]) == (window.low, window.high)
    assert ranks == sorted(ranks) and all(low <= high for low, high in zip(lows, highs, strict=True))
    assert all(window.low <= each.value <= window.high for each in found)
    content = found.plot().to_dict()
    assert content["layer"][0]["encoding"]["x"]["scale"]["domain"] == [window.low, window.high]
    assert "public range -1,000 to 1,000" in " ".join(content["title"]["subtitle"])


@pytest.mark.slow
def test_ranges_and_groups_show_where_the_data_is() -> None:
    found = th.ranges(DELAYS, "x", lower=-1_000, upper=1_000, **BUDGET)
    check(found.window(), found.band()[0])
    groups = th.ranges(DELAYS, "x", lower=-1_000, upper=1_000, by="by", **BUDGET)
    for _, band in groups.bands():
        check(groups.window(), band[0])
    assert "public range" in " ".join(groups.plot().to_dict()["title"]["subtitle"])


@pytest.mark.slow
def test_all_of_a_range_is_shown_where_the_data_fills_it_or_nothing_is_known() -> None:
    full = th.ranges(pa.table({"x": [value % 100 for value in range(60_000)]}), "x", lower=0, upper=99, **BUDGET)
    assert full.window() == Window(0, 100) and full.window().in_words() == ""
    for method in ("hierarchy", "search"):
        nothing = th.quantiles([1.0], "value", [0.5], lower=0, upper=100, method=method, **BUDGET)
        assert nothing.window() == Window(0, 100)
        assert math.isnan(nothing.band()[1][0])


def test_a_window_has_round_ends_within_the_range() -> None:
    assert window_of([-25.9, 188.1], -1_440, 1_440, (-1_440, 1_440)) == Window(-30, 190, (-1_440, 1_440))
    assert window_of([0.02, 3], 0, 1_000, (0, 1_000)).low == 0
    assert window_of([0.5, 995], 0.3, 1_000, (0.3, 1_000)).low == 0.3
    point = window_of([7, 7], 0, 1_000, (0, 1_000))
    assert point.low < point.high and point.low <= 7 <= point.high
    wide = window_of([10, 20], 0, 1_000, (0, 1_000), intervals=[9, 900])
    assert (wide.low, wide.high) == (9, 25)
    assert "goes on beyond" in wide.in_words([(0.5, 15, 9, 900)])
    assert "goes on beyond" not in wide.in_words([(0.5, 15, 9, 25)])
    assert common_window([Window(1, 5, (0, 9)), Window(2, 7, (0, 9))]) == Window(1, 7, (0, 9))
    assert common_window([Window(1, 5, (0, 9)), Window(0, 9)]) == Window(0, 9)
    assert common_window([]) is None
