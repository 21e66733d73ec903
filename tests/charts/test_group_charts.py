"""Pictures of groups: a row for each in the given order, readable names, intervals cut with an arrow."""

from __future__ import annotations

import math

import pytest

from thresher import charts
from thresher.charts import GroupRow

NAN = math.nan
GROUPS = [
    GroupRow("1.9", [(100.0, 90.0, 110.0), (300.0, 250.0, 5_000.0)]),
    GroupRow("1.10", [(120.0, 110.0, 130.0), (310.0, 300.0, 330.0)]),
    GroupRow("2.0", None),
]
TITLES = {"title": "Quantiles of ms by version", "subtitle": "s", "measured": "ms"}


def layers(chart) -> list[dict]:
    return chart.to_dict()["layer"]


def values(chart, place: int) -> list[dict]:
    return layers(chart)[place]["data"]["values"]


@pytest.mark.slow
def test_rows_are_in_the_given_order_with_all_names():
    groups = [GroupRow(f"version {place} {'long ' * 20}", [(float(place), 0.0, 20.0)]) for place in range(15)]
    picture = charts.group_intervals(["mean"], groups, **TITLES).to_dict()
    axis = picture["layer"][1]["encoding"]["y"]
    assert axis["scale"]["domain"] == list(range(15))
    assert axis["axis"]["labelOverlap"] is False
    assert all(f"version {place} " in axis["axis"]["labelExpr"] for place in range(15))
    assert picture["height"] >= 15 * 20
    assert "mean" in picture["layer"][1]["encoding"]["x"]["title"]  # one number needs no legend


@pytest.mark.slow
def test_an_interval_that_would_hide_all_others_is_cut_and_says_so():
    picture = charts.group_intervals(["50 %", "95 %"], GROUPS, **TITLES)
    rows = values(picture, 1)
    low, high = layers(picture)[1]["encoding"]["x"]["scale"]["domain"]
    assert high < 600
    assert [row["right_cut"] for row in rows] == [False, True, False, False]
    assert all(low <= row["left"] <= row["right"] <= high for row in rows)
    assert rows[1]["upper"] == 5_000.0  # the tooltip has the whole interval
    assert "An arrow" in picture.to_dict()["title"]["subtitle"][1]
    plain = charts.group_intervals(["50 %", "95 %"], GROUPS[1:], **TITLES)
    assert "An arrow" not in plain.to_dict()["title"]["subtitle"][1]


def test_a_group_without_numbers_is_said_to_be_below_the_threshold():
    picture = charts.group_intervals(["50 %", "95 %"], GROUPS, **TITLES)
    assert layers(picture)[-1]["mark"]["text"] == "below threshold"
    assert values(picture, -1) == [{"group": 2}]
    page = charts.group_rows_svg(["50 %", "95 %"], GROUPS)
    assert [(name, text) for name, _, text in page.rows] == [
        ("1.9", "100 / 300"),
        ("1.10", "120 / 310"),
        ("2.0", "below threshold"),
    ]
    assert page.cut
    assert page.rows[0][1].count("<circle") == 2
    assert "<circle" not in page.rows[2][1]


@pytest.mark.parametrize("groups", [[], [GroupRow("a", None)], [GroupRow("a", [(NAN, 0.0, 9.0)])]])
def test_nothing_to_draw_is_said(groups):
    picture = charts.group_intervals(["50 %"], groups, **TITLES).to_dict()
    assert picture["data"]["values"] == [{"text": "nothing reached the threshold"}]
    assert charts.group_rows_svg(["50 %"], groups).axis is None


def test_one_number_without_an_interval_has_an_axis_around_it():
    page = charts.group_rows_svg(["mean"], [GroupRow("a", [(5.0, None, None)])])
    assert page.axis is not None
    assert not page.cut


def test_distributions_of_groups_share_their_axes_and_keep_their_order():
    band = ([0.0, 1.0, 2.0], [0.0, 0.5, 1.0], [0.0, 0.4, 1.0], [0.0, 0.6, 1.0])
    groups = [("b", band), ("a", band), ("long " * 20 + "one", band), ("long " * 20 + "two", band)]
    picture = charts.group_distributions(groups, title="t", subtitle="s", note="n", measured="ms", missing=["z"])
    content = picture.to_dict()
    assert [name[:4] for name in content["facet"]["sort"]] == ["1: b", "2: a", "3: l", "4: l"]  # told apart
    assert len({row["group"] for row in content["data"]["values"]}) == 4
    assert "Below the threshold: z." in content["title"]["subtitle"]
    nothing = charts.group_distributions([], title="t", subtitle="s", note="n", measured="ms").to_dict()
    assert nothing["data"]["values"] == [{"text": "nothing reached the threshold"}]


def test_intervals_that_are_all_long_are_shown_whole():
    groups = [GroupRow(str(place), [(200.0 + place, 150.0, 1_200.0 - place)]) for place in range(6)]
    assert not charts.group_rows_svg(["mean"], groups).cut
    assert charts.group_rows_svg(["mean"], [*groups, GroupRow("long", [(200.0, 0.0, 90_000.0)])]).cut
