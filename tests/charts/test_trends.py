"""Lines over time: names that do not overlap, round dates, gaps, and pictures with nothing in them."""

from __future__ import annotations

import datetime as dt
import math
from itertools import pairwise
from xml.etree import ElementTree
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thresher import charts
from thresher.charts.calendar import date_ticks, day, instant, minute
from thresher.charts.trend_layout import period_of, spread

DAY = dt.timedelta(days=1)
START = dt.datetime(2026, 1, 5, 9, tzinfo=dt.UTC)
PARIS = ZoneInfo("Europe/Paris")


@pytest.mark.slow
@given(st.lists(st.floats(-50, 400), max_size=8))
def test_names_are_kept_apart_in_their_order(places):
    found = spread(places, 16, 0, 340)
    ordered = [spot for _, spot in sorted(zip(places, found, strict=True))]
    assert all(after - before >= 16 - 1e-9 for before, after in pairwise(ordered))
    assert all(-1e-9 <= spot <= 340 + 1e-9 for spot in found)
    if all(after - before >= 16 for before, after in pairwise(sorted(places))):
        assert found == pytest.approx([min(max(place, 0), 340) for place in places], abs=8 * 16)


def test_names_stay_where_there_is_room_and_share_the_way_where_there_is_not():
    assert spread([10, 300, 100], 16, 0, 340) == [10, 300, 100]
    assert spread([100, 100], 16, 0, 340) == [92, 108]
    assert spread([339, 340, 338], 16, 0, 340) == [324, 340, 308]
    assert spread([0, 0, 0], 16, 0, 20) == [0, 16, 32]  # there is no room for all


@pytest.mark.parametrize(
    ("length", "labels"),
    [
        (dt.timedelta(hours=5), ["5 Jan, 09:00", "10:00", "11:00", "12:00", "13:00", "14:00"]),
        (5 * DAY, ["6 Jan 2026", "7 Jan", "8 Jan", "9 Jan", "10 Jan"]),
        (5 * 7 * DAY, ["12 Jan 2026", "19 Jan", "26 Jan", "2 Feb", "9 Feb"]),
        (200 * DAY, ["Feb 2026", "Mar", "Apr", "May", "Jun", "Jul"]),
        (500 * DAY, ["Apr 2026", "Jul", "Oct", "Jan 2027", "Apr"]),
        (5 * 365 * DAY, ["2027", "2028", "2029", "2030", "2031"]),
    ],
)
def test_dates_are_round_and_say_what_changes(length, labels):
    assert [text for _, text in date_ticks(START, START + length, 6)] == labels


@pytest.mark.slow
@given(
    st.datetimes(dt.datetime(1990, 1, 1), dt.datetime(2100, 1, 1), timezones=st.sampled_from([dt.UTC, PARIS])),
    st.timedeltas(dt.timedelta(minutes=1), 9000 * DAY),
)
def test_any_period_has_a_few_dates(start, length):
    stop = instant(start) + length
    found = date_ticks(start, stop.astimezone(start.tzinfo), 6)
    assert 1 <= len(found) <= 6
    assert all(instant(start) <= instant(moment) <= stop for moment, _ in found)
    assert all(before != after for (_, before), (_, after) in pairwise(found))


def test_a_day_in_words():
    assert day(START) == "5 Jan 2026, 09:00"
    assert day(START.replace(hour=0)) == "5 Jan 2026"


def hours(first: dt.datetime, number: int) -> list[dt.datetime]:
    """Dates an hour apart, as time passes, on the clocks of Paris."""
    return [(first + hour * dt.timedelta(hours=1)).astimezone(PARIS) for hour in range(number)]


AUTUMN = hours(dt.datetime(2026, 10, 24, 22, 30, tzinfo=dt.UTC), 5)
SPRING = hours(dt.datetime(2026, 3, 28, 23, 0, tzinfo=dt.UTC), 5)


def test_the_hour_that_comes_twice_in_words():
    assert [day(moment) for moment in AUTUMN[1:4]] == [
        "25 Oct 2026, 01:30",
        "25 Oct 2026, 02:30 CEST",
        "25 Oct 2026, 02:30 CET",
    ]
    assert minute(AUTUMN[3]) == "2026-10-25 02:30 CET" and minute(AUTUMN[4]) == "2026-10-25 03:30"


@pytest.mark.slow
@pytest.mark.parametrize("dates", [AUTUMN, SPRING])
def test_hours_are_equally_far_apart_when_clocks_change(dates):
    line = [charts.Trend("a", [(5.0, 4, 6)] * 5)]
    root = ElementTree.fromstring(str(charts.trends_svg(dates, line, title="t")))
    places = [float(circle.get("cx").removesuffix("%")) for circle in root.iter("circle")]
    steps = [after - before for before, after in pairwise(places)]
    assert len(steps) == 4 and steps == pytest.approx([steps[0]] * 4, rel=0.01) and steps[0] > 0
    layers = charts.trends(dates, line, title="t", subtitle="s").to_dict()["layer"]
    rows = next(rows for layer in layers if "run" in (rows := layer.get("data", {}).get("values", [{}]))[0])
    assert [after["date"] - before["date"] for before, after in pairwise(rows)] == [3_600_000] * 4
    assert [row["when"] for row in rows] == [day(moment) for moment in dates]


def test_a_time_that_clocks_skip_is_no_tick():
    start, stop = period_of(SPRING)
    assert [text for _, text in date_ticks(start, stop, 6)] == ["29 Mar", "01:00", "03:00", "04:00", "05:00"]
    assert instant(start) < instant(SPRING[0]) and instant(stop) > instant(SPRING[-1])


DATES = [START + week * 7 * DAY for week in range(5)]
LINES = [
    charts.Trend("with a gap", [(10.0, 8, 12), (11.0, 9, 13), None, (12.0, 10, 14), (math.nan, 0, 100)]),
    charts.Trend("<without> an interval", [(5.0, None, None)] * 5),
    charts.Trend("never there", [None] * 5),
]


def test_gaps_bands_and_names_of_a_page():
    markup = charts.trends_svg(DATES, LINES, title="t", missed=[DATES[2]])
    root = ElementTree.fromstring(str(markup))
    classes = [element.get("class") for element in root.iter()]
    assert (
        classes.count("line") == 2 and classes.count("alone") == 1
    )  # two weeks, a gap, one week alone; the other line
    assert "never there" not in markup and "&lt;without&gt;" in markup and "nan" not in markup
    assert sum(element.text == "×" or "×" in "".join(element.itertext()) for element in root.findall("text")) == 1


@pytest.mark.slow
def test_the_same_picture_for_files():
    made = charts.trends(DATES, LINES, title="t", subtitle="s", missed=[DATES[2]]).to_dict()
    assert "grey cross" in str(made["title"])
    names = [
        row["label"] for layer in made["layer"] for row in layer.get("data", {}).get("values", []) if "label" in row
    ]
    assert set(names) == {"with a gap", "<without> an interval"}
    empty = charts.trends(DATES, LINES[2:], title="t", subtitle="s").to_dict()
    assert "nothing was released yet" in str(empty)


def test_measured_values_need_not_begin_at_zero():
    line = [charts.Trend("50 %", [(1000.0 + week, 990, 1020) for week in range(5)])]
    values = charts.trends_svg(DATES, line, title="t", measured="latency")
    counts = charts.trends_svg(DATES, line, title="t")
    assert ">0<" in counts and ">0<" not in values and "latency" in values


def test_many_dates_have_no_points_of_their_own():
    dates = [START + number * DAY for number in range(365)]
    markup = charts.trends_svg(dates, [charts.Trend("a", [(5.0, 4, 6)] * 365)], title="t")
    assert markup.count("<circle") == 0 and len(markup) < 40_000
