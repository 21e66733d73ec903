"""A series over time: its rows, its lines with gaps, its picture, and what it refuses."""

from __future__ import annotations

import datetime as dt
import json
from xml.etree import ElementTree
from zoneinfo import ZoneInfo

import pytest
from in_memory_people import CountsPopulation, NumbersPopulation

import thresher as th
from thresher.charts.numbers import count
from thresher.errors import InvalidSetting, NotReleased
from thresher.protocol.schedules import Interval, Schedule, instant
from thresher.questions import Dates, Values
from thresher.verbs import HistogramQuery, OverTime, heavy_hitters, histogram, quantiles, ranges
from thresher.verbs.changes import signed

START = dt.datetime(2026, 1, 5, 9, tzinfo=ZoneInfo("Europe/Paris"))
ONE, FOUR = th.plan(1, 1e-8), th.plan(1, 1e-8, rounds=4)
NUMBERS = NumbersPopulation([value % 100 for value in range(20_000)])


def weeks(*answers) -> OverTime:
    return OverTime([(START + dt.timedelta(weeks=week), answer) for week, answer in enumerate(answers)])


def counted(**sizes: int):
    return HistogramQuery(Values(("country",)), ONE).run(CountsPopulation(sizes))


@pytest.fixture(scope="module")
def countries() -> OverTime:
    return weeks(counted(fr=5000, de=900), None, counted(fr=5000, de=3), counted(fr=9000, de=900, at=400))


def test_rows(countries):
    table = countries.to_arrow()
    assert table.column_names == ["date", "country", "estimate", "lower", "upper"]
    assert str(table.schema.field("date").type) == "timestamp[us, tz=Europe/Paris]"
    frame = countries.to_pandas()
    assert [date.to_pydatetime() for date in frame["date"].unique()] == [countries.dates[week] for week in (0, 2, 3)]
    assert frame[["date", "country"]].value_counts().max() == 1
    row = frame[(frame["country"] == "at")].iloc[0]
    at = countries.released[-1][1]["at"]
    assert (row["estimate"], row["lower"], row["upper"]) == (at.estimate, *at.interval)
    assert countries.to_polars().shape == (len(frame), 5)
    assert countries.missed == (countries.dates[1],)
    assert "3 releases, 1 missed" in repr(countries)


PARIS = ZoneInfo("Europe/Paris")


def test_hours_are_followed_when_clocks_go_back():
    first = dt.datetime(2026, 10, 24, 22, 30, tzinfo=dt.UTC)
    dates = [(first + dt.timedelta(hours=hour)).astimezone(PARIS) for hour in range(5)]
    over_time = OverTime([(date, counted(fr=5000 + hour)) for hour, date in enumerate(dates)])
    found = over_time.to_arrow()["date"].to_pylist()
    assert [date.timestamp() for date in found] == [date.timestamp() for date in dates]
    assert dates[2] == dates[3]  # 02:30 comes twice; Python does not tell the two apart
    assert over_time.changes(since=dates[3]).earlier.fold == 1
    assert over_time.changes(since=dates[2]).earlier.fold == 0
    assert "from 2026-10-25 02:30 CEST to" in repr(over_time.changes(since=dates[2]))
    assert over_time.plot() is not None and "02:30 CET" in over_time.svg()
    with pytest.raises(InvalidSetting, match="rising"):
        OverTime([(dates[3], counted(fr=5000)), (dates[2], counted(fr=5000))])


def test_a_date_that_coincides_with_the_next_is_a_gap():
    schedule = Schedule(Interval.read("day"), instant("2011-12-29 09:00", "Pacific/Apia"), "Pacific/Apia", 3)
    dates = [dt.datetime.fromtimestamp(due, ZoneInfo("Pacific/Apia")) for due in schedule.dates()]
    assert dates[1] == dates[2]  # there was no 30 December 2011 in Samoa
    over_time = OverTime(list(zip(dates, [counted(fr=5000), None, counted(fr=5000)], strict=True)))
    assert len(over_time.released) == 2 and len(over_time.missed) == 1
    with pytest.raises(InvalidSetting, match="each only once"):
        OverTime([(date, counted(fr=5000)) for date in dates])


def test_a_line_has_gaps(countries):
    line = countries.line("de")
    assert [reading is None for reading in line] == [False, True, True, False]
    assert countries.line("fr")[3].estimate == pytest.approx(9000, abs=1500)
    assert countries.line(("fr",)) == countries.line("fr")
    assert list(countries.buckets.values()) == ["fr", "de", "at"]  # the largest first
    with pytest.raises(NotReleased):
        countries.line("es")


@pytest.mark.slow
def test_every_verb_has_rows():
    words = CountsPopulation({"the": 9_000, "then": 4_000, "a": 5_000})
    bounds = {"lower": 0, "upper": 100, "plan": FOUR}
    series = {
        "date item estimate lower upper": heavy_hitters(words, "word", plan=ONE),
        "date item complete estimate lower upper": heavy_hitters(words, "word", plan=FOUR, method="trie"),
        "date probability value lower upper": quantiles(NUMBERS, "x", [0.9, 0.5], method="hierarchy", **bounds),
        "date from to estimate lower upper": ranges(NUMBERS, "x", **bounds),
    }
    for columns, answer in series.items():
        over_time = weeks(answer, answer)
        table = over_time.to_arrow()
        assert table.column_names == columns.split()
        assert len(table) == 2 * len(over_time.buckets)
        found = over_time.changes()
        assert len(found) == len(over_time.buckets) and not found.changed
        assert all(row.interval[0] <= 0 <= row.interval[1] for row in found)
        assert all(low <= 0 <= high for low, high in (row.relative_interval for row in found) if low is not None)
    searched = quantiles(NUMBERS, "x", [0.5], lower=0, upper=100, plan=FOUR)
    reading = searched.readings(0.999).rows[0]
    assert reading.lower <= searched[0.5].interval[0] and searched[0.5].interval[1] <= reading.upper


def test_readings_agree_with_the_answers_at_95_percent():
    words = CountsPopulation({"the": 9_000, "then": 4_000, "a": 5_000})
    for method, plan in (("one-shot", ONE), ("trie", FOUR)):
        found = heavy_hitters(words, "word", plan=plan, method=method)
        again = [(row.label, row.estimate, (row.lower, row.upper)) for row in found.readings().rows]
        assert again == [(item.label, item.estimate, item.interval) for item in found.items]
        wider = found.readings(0.99).rows
        for row, item in zip(wider, found.items, strict=True):
            assert row.lower < item.interval[0] <= item.interval[1] < row.upper
    tree = ranges(NUMBERS, "x", plan=FOUR, lower=0, upper=100)
    rows = tree.readings().rows
    assert len(rows) == 16
    assert all((row.lower, row.upper) == tree.count(*row.key).interval for row in rows)
    found = quantiles(NUMBERS, "x", [0.5], plan=FOUR, lower=0, upper=100, method="hierarchy")
    assert found.source.interval(0.5) == found[0.5].interval


def test_chosen_ranges_are_followed():
    answer = ranges(NUMBERS, "x", plan=FOUR, lower=0, upper=100)
    over_time = OverTime([(START, answer)], ranges=[(0, 25), (25, 100)])
    assert list(over_time.buckets.values()) == ["0 to under 25", "25 to under 100"]
    assert over_time.line((0, 25))[0].estimate == answer.count(0, 25).estimate
    with pytest.raises(InvalidSetting, match="ranges"):
        OverTime([(START, counted(fr=5000))], ranges=[(0, 1)])


def test_quantiles_that_are_not_known_are_null():
    nobody = NumbersPopulation([1.0])
    over_time = weeks(quantiles(nobody, "x", [0.5], plan=FOUR, lower=0, upper=100))
    assert over_time.to_arrow()["value"].null_count == 1
    assert over_time.to_arrow()["upper"].to_pylist() == [100]
    assert "nothing was released yet" in over_time.svg()


def test_a_column_called_date_keeps_its_name():
    days = CountsPopulation({dt.date(2026, 1, 1): 5000})
    over_time = weeks(HistogramQuery(Dates("date", "day"), ONE).run(days))
    assert over_time.to_arrow().column_names[:2] == ["release_date", "date"]


def test_several_columns_are_one_bucket():
    both = CountsPopulation({("fr", 1): 5000, ("fr", 2): 3000})
    over_time = weeks(HistogramQuery(Values(("country", "floor")), ONE).run(both))
    assert over_time.to_arrow().column_names == ["date", "country", "floor", "estimate", "lower", "upper"]
    assert list(over_time.buckets.values()) == ["fr · 1", "fr · 2"]
    assert over_time.line(("fr", 2)) == over_time.line("fr · 2")


def test_answers_of_different_queries_make_no_series():
    answer = counted(fr=5000)
    other = HistogramQuery(Values(("city",)), ONE).run(CountsPopulation({"fr": 5000}))
    weaker = HistogramQuery(Values(("country",)), th.plan(2, 1e-8)).run(CountsPopulation({"fr": 5000}))
    for stranger in (other, weaker, heavy_hitters(CountsPopulation({"fr": 5000}), "country", plan=ONE)):
        with pytest.raises(InvalidSetting, match="one query"):
            weeks(answer, stranger)
    for points in (
        [(START, answer), (START, answer)],
        [(START, answer), (START - dt.timedelta(1), None)],
        [(START.replace(tzinfo=None), answer)],
        [(START, answer.release)],
    ):
        with pytest.raises(InvalidSetting, match="points"):
            OverTime(points)


def test_a_series_without_a_release():
    for points in ([], [(START, None)]):
        over_time = OverTime(points)
        assert over_time.to_arrow().column_names == ["date", "estimate", "lower", "upper"]
        assert "nothing was released yet" in over_time.svg()


@pytest.mark.slow
def test_the_picture(countries, tmp_path):
    countries.plot(tmp_path / "series.svg")
    text = (tmp_path / "series.svg").read_text()
    for words in ("Histogram of country, over time", ">fr<", ">de<", "each release: (1, 1e-08)", "missed release"):
        assert words in text
    countries.plot(tmp_path / "one.svg", buckets=["de"])
    assert ">fr<" not in (tmp_path / "one.svg").read_text()
    with pytest.raises(NotReleased):
        countries.plot(buckets=["es"])
    with pytest.raises(InvalidSetting, match="buckets"):
        countries.plot(buckets="fr")
    many = weeks(counted(**{f"c{index}": 1000 for index in range(9)}))
    with pytest.raises(InvalidSetting, match="at most 6"):
        many.svg(buckets=list(many.buckets.values())[:7])


def test_the_picture_for_a_page(countries):
    root = ElementTree.fromstring(str(countries.svg()))
    drawn = [element for element in root.iter() if element.get("class") == "line"]
    assert len(drawn) == 1  # fr at the last two dates; whatever stands alone is no line
    alone = [element for element in root.iter() if element.get("class") == "alone"]
    assert len(alone) == 4  # fr once, de twice, at once
    titles = [element.text for element in root.iter("title")]
    assert any(title.startswith("at, 26 Jan 2026, 09:00: ") for title in titles)
    assert "missed: 12 Jan 2026, 09:00" in titles
    assert not any("style" in element.attrib for element in root.iter())


def test_a_value_is_escaped():
    over_time = weeks(counted(**{"<b>": 5000}))
    assert "<b>" not in over_time.svg() and "&lt;b&gt;" in over_time.svg()


def test_it_is_public():
    assert th.OverTime is OverTime
    answer = histogram(["fr"] * 5000, "value", plan=ONE)
    assert len(th.OverTime([(START, answer)])) == 1


def test_a_change_that_is_written_as_nothing_has_no_sign():
    assert [signed(value, count) for value in (0.4, -0.4, 0.0, 1.2, -7.0)] == ["±0", "±0", "±0", "+1", "−7"]


def test_rows_over_time_as_json_have_dates_and_gaps(countries):
    content = json.loads(countries.to_json())
    assert content["what"] == "histogram of country"
    assert content["missed"] == ["2026-01-12T09:00:00+01:00"]
    assert len(content["rows"]) == countries.to_arrow().num_rows
    first = content["rows"][0]
    assert (first["date"], first["country"]) == ("2026-01-05T09:00:00+01:00", "fr")
    assert first["estimate"] == countries.released[0][1]["fr"].estimate
