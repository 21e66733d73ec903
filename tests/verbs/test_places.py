"""Histograms are read along their axis: in print, notebooks, terminals and pictures alike."""

from __future__ import annotations

import datetime as dt
import io
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

import thresher as th
from thresher.cli import row_tables
from thresher.questions import Bins, Dates
from thresher.verbs.places import LONGEST_AXIS, SCREEN

PLAN = th.plan(1, 1e-8)
EDGES = [0, 10, 20, 30, 40]
LABELS = ["0 to under 10", "10 to under 20", "20 to under 30", "30 to under 40"]
BELOW = "below threshold"


def held(counts: dict[Any, int]) -> pa.Table:
    return pa.table({"x": [value for value, count in counts.items() for _ in range(count)]})


def in_order(text: str, labels: list[str]) -> bool:
    """Whether all labels are in the text, one after the other."""
    places = [text.find(label) for label in labels]
    return -1 not in places and places == sorted(places)


def drawn(chart: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a histogram's picture, and that all of them have a place on its axis, in this order."""
    bars = chart["layer"][0]
    rows: list[dict[str, Any]] = bars["data"]["values"]
    assert bars["encoding"]["y"]["scale"]["domain"] == [row["order"] for row in rows] == list(range(len(rows)))
    return rows


@pytest.mark.slow
def test_bins_stand_along_their_axis_with_every_place_that_was_not_released() -> None:
    answer = th.histogram(held({5.0: 3_000, 25.0: 9_000, 31.0: 3}), "x", bins=EDGES, plan=PLAN)
    assert answer.release.buckets == [20.0, 0.0]  # the release itself is sorted by count
    for text in (str(answer), answer._repr_html_()):
        assert in_order(text, LABELS)
        assert text.count(BELOW) == 2
    chart = answer.plot().to_dict()
    assert [row["bucket"] for row in drawn(chart)] == LABELS
    assert [row["estimate"] is None for row in drawn(chart)] == [False, True, False, True]
    assert "does not mean zero" in str(chart["title"])
    table, hidden, note = answer.listing(60)
    assert (table["x"].to_pylist(), hidden) == (LABELS, 0)
    assert [estimate is None for estimate in table["estimate"].to_pylist()] == [False, True, False, True]
    assert BELOW in note


def test_a_picture_of_nothing_has_the_axis_too() -> None:
    answer = th.histogram(held({5.0: 1}), "x", bins=EDGES, plan=PLAN)
    assert [row["bucket"] for row in drawn(answer.plot().to_dict())] == LABELS
    nothing = th.histogram(held({"a": 1}), "x", plan=PLAN).plot().to_dict()
    assert drawn(nothing) == [] and "nothing reached the threshold" in str(nothing)


def test_dates_have_every_period_from_the_first_to_the_last_and_both_ends() -> None:
    days = {dt.date(2013, 1, 8): 3_000, dt.date(2013, 1, 22): 9_000, dt.date(2013, 3, 31): 2}
    weeks = ["2013-01-07 to 2013-01-13", "2013-01-14 to 2013-01-20", "2013-01-21 to 2013-01-27"]
    answer = th.histogram(held(days), "x", dates="week", plan=PLAN)
    assert answer.listing(60).table["x"].to_pylist() == weeks
    assert in_order(str(answer), weeks) and "2013-02" not in str(answer)
    assert [row["bucket"] for row in drawn(answer.plot().to_dict())] == weeks


def test_periods_end_where_the_calendar_does() -> None:
    week, month = Dates("x", "week"), Dates("x", "month")
    assert month.label(dt.date(2024, 2, 1)) == "2024-02-01 to 2024-02-29"
    assert month.label(dt.date(2023, 12, 1)) == "2023-12-01 to 2023-12-31"
    assert Dates("x", "day").label(dt.date(2024, 2, 1)) == "2024-02-01"
    assert week.label(dt.date(9999, 12, 27)) == "9999-12-27 to 9999-12-31"
    assert list(week.axis([dt.date(9999, 12, 20), dt.date(9999, 12, 27)]))[-1] == dt.date(9999, 12, 27)
    assert list(month.axis([dt.date(2023, 12, 1), dt.date(2024, 2, 1)]))[1] == dt.date(2024, 1, 1)
    assert list(month.axis([])) == []


@pytest.mark.slow
def test_a_long_axis_is_cut_to_where_something_is_and_else_to_the_largest() -> None:
    counts = {50.5: 3_000, 53.5: 9_000}
    answer = th.histogram(held(counts), "x", bins=list(range(101)), plan=PLAN)
    assert answer.listing(60).table["x"].to_pylist() == [f"{low} to under {low + 1}" for low in range(50, 54)]
    far = th.histogram(held({0.5: 3_000, 99.5: 9_000, 50.5: 5_000}), "x", bins=list(range(101)), plan=PLAN)
    assert far.listing(2)[1:] == (1, "")
    assert far.listing(2).table["x"].to_pylist() == ["50 to under 51", "99 to under 100"]
    assert str(far).count("to under") == 3 and BELOW not in str(far)
    assert len(drawn(far.plot().to_dict())) == 100


@pytest.mark.slow
def test_numbers_and_dates_that_were_not_cut_have_their_order_and_texts_come_largest_first() -> None:
    hours = th.histogram(held({17: 3_000, 5: 9_000, 8: 5_000}), "x", plan=PLAN)
    assert hours.listing(60).table["x"].to_pylist() == ["5", "8", "17"]
    days = th.histogram(held({dt.date(2013, 1, 8): 3_000, dt.date(2012, 1, 8): 2_000}), "x", plan=PLAN)
    assert in_order(str(days), ["2012-01-08", "2013-01-08"])
    texts = th.histogram(held({"17": 3_000, "5": 9_000, "8": 5_000}), "x", plan=PLAN)
    assert texts.listing(60).table["x"].to_pylist() == ["5", "8", "17"]
    assert texts.listing(2).hidden == 1
    truths = th.histogram(held({False: 3_000, True: 9_000}), "x", plan=PLAN)
    assert truths.listing(60).table["x"].to_pylist() == ["True", "False"]


@pytest.mark.slow
def test_more_numbers_than_fit_an_axis_are_names_and_come_largest_first() -> None:
    counts = {place: 800 + (place * 7 % 500) * 20 for place in range(LONGEST_AXIS + 1)}
    answer = th.histogram(held(counts), "x", plan=PLAN)
    assert len(answer) > LONGEST_AXIS
    estimates = answer.listing(SCREEN).table["estimate"].to_pylist()
    assert estimates == sorted(estimates, reverse=True)
    assert len(drawn(answer.plot().to_dict())) == 40


def test_a_public_list_is_the_axis_or_comes_last() -> None:
    people = held({5.0: 3_000, 25.0: 9_000, 31.0: 9_000})
    bins = th.histogram(people, "x", bins=EDGES, domain=[20.0, 10.0], plan=PLAN)
    assert bins.listing(60).table["x"].to_pylist() == LABELS[1:3]
    hours = th.histogram(held({17: 3_000, 5: 9_000}), "x", domain=[17, 11, 5], plan=PLAN)
    assert hours.listing(60).table["x"].to_pylist() == ["5", "11", "17"]
    texts = th.histogram(held({"b": 3_000, "c": 9_000}), "x", domain=["a", "b", "c"], plan=PLAN)
    assert texts.listing(60).table["x"].to_pylist() == ["c", "b", "a"]
    assert [row["estimate"] is None for row in drawn(texts.plot().to_dict())] == [False, False, True]


def test_of_several_columns_each_has_its_order_and_names_go_by_size() -> None:
    rows = [("JFK", 5.0, 3_000), ("JFK", 25.0, 2_000), ("EWR", 5.0, 2_000), ("EWR", 25.0, 9_000)]
    people = pa.table(
        {
            "city": [city for city, _, count in rows for _ in range(count)],
            "delay": [delay for _, delay, count in rows for _ in range(count)],
        }
    )
    answer = th.histogram(people, ["city", "delay"], bins={"delay": EDGES}, plan=PLAN)
    table = answer.listing(60).table
    assert table["city"].to_pylist() == ["EWR", "EWR", "JFK", "JFK"]
    assert table["delay"].to_pylist() == [LABELS[0], LABELS[2]] * 2
    assert in_order(str(answer), [f"EWR · {LABELS[0]}", f"EWR · {LABELS[2]}", f"JFK · {LABELS[0]}"])
    plain = th.histogram(people.drop(["delay"]).append_column("b", people["city"]), ["city", "b"], plan=PLAN)
    assert plain.listing(60).table["city"].to_pylist() == ["EWR", "JFK"]


@pytest.mark.parametrize("width", [80, 120])
def test_the_terminal_shows_the_axis_in_one_line_a_bin(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = th.histogram(held({5.0: 3_000, 25.0: 90_000}), "x", bins=EDGES, plan=PLAN)
    screen = Console(file=io.StringIO(), width=width)
    monkeypatch.setattr(row_tables, "console", screen)
    screen.print(row_tables.rows_table(answer.listing(60).table, bars="estimate"))
    lines = screen.file.getvalue().splitlines()[1:]  # type: ignore[attr-defined]
    assert [line[:15].rstrip() for line in lines] == [label[:15].rstrip() for label in LABELS]
    assert "█" in lines[2] and "█" not in lines[1] and lines[1].count("–") == 4


def test_bins_have_all_their_places_as_an_axis() -> None:
    assert Bins("x", (0, 0.5, 2)).axis([]) == (0.0, 0.5)
    assert Bins("x", (0, 0.5, 2)).label(0.5) == "0.5 to under 2"
