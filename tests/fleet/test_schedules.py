"""The dates of a series: wall clocks that change, months of any length, and until when a release may start."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thresher.errors import InvalidSetting
from thresher.protocol.schedules import Interval, Schedule, instant, releases_until

HOUR = 3600.0
DAY = 24 * HOUR
ZONES = ("UTC", "Europe/Paris", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kathmandu")


def schedule(every: str, start: str, zone: str = "Europe/Paris", releases: int = 60, missed="skip") -> Schedule:
    return Schedule(Interval.read(every), instant(start, zone), zone, releases, missed)


def wall(found: Schedule, index: int) -> str:
    """What the clocks of the zone show at a date."""
    return dt.datetime.fromtimestamp(found.due(index), ZoneInfo(found.time_zone)).strftime("%Y-%m-%d %H:%M")


def test_nine_stays_nine_when_clocks_change():
    daily = schedule("day", "2026-03-27 09:00")
    assert [wall(daily, index) for index in range(4)] == [f"2026-03-{day} 09:00" for day in (27, 28, 29, 30)]
    lengths = [daily.due(index + 1) - daily.due(index) for index in range(4)]
    assert lengths == [DAY, DAY - HOUR, DAY, DAY]
    weekly = schedule("2 weeks", "2026-10-12 09:00")
    assert [wall(weekly, index) for index in range(3)] == ["2026-10-12 09:00", "2026-10-26 09:00", "2026-11-09 09:00"]


def test_a_time_that_clocks_skip_is_that_much_later():
    daily = schedule("day", "2026-03-28 02:30")
    assert [wall(daily, index) for index in range(3)] == ["2026-03-28 02:30", "2026-03-29 03:30", "2026-03-30 02:30"]


def test_a_time_that_comes_twice_is_the_first():
    daily = schedule("day", "2026-10-24 02:30")
    assert wall(daily, 1) == "2026-10-25 02:30"
    assert [daily.due(index + 1) - daily.due(index) for index in range(2)] == [DAY, DAY + HOUR]
    # A start may name the second one by its offset; the next dates are at 02:30 all the same.
    second = schedule("day", "2026-10-25T02:30+01:00")
    assert second.due(0) == daily.due(1) + HOUR
    assert second.due(1) == daily.due(2)


def test_hours_are_time_that_passes():
    hourly = schedule("6 hours", "2026-03-28 20:00")
    assert [hourly.due(index + 1) - hourly.due(index) for index in range(5)] == [6 * HOUR] * 5
    assert wall(hourly, 1) == "2026-03-29 03:00"


def test_a_month_without_the_day_has_its_last_one():
    monthly = schedule("month", "2027-12-31 12:00")
    assert [wall(monthly, index)[:10] for index in range(6)] == [
        "2027-12-31", "2028-01-31", "2028-02-29", "2028-03-31", "2028-04-30", "2028-05-31",
    ]  # fmt: skip
    assert wall(schedule("12 months", "2028-02-29 12:00"), 1) == "2029-02-28 12:00"


@given(
    every=st.sampled_from(["day", "3 days", "week", "month", "5 months"]),
    start=st.datetimes(dt.datetime(2000, 1, 1), dt.datetime(2040, 1, 1)),
    index=st.integers(0, 200),
)
def test_the_calendar_is_that_of_pandas(every, start, index):
    start = start.replace(microsecond=0)
    interval = Interval.read(every)
    found = Schedule(interval, instant(start.isoformat(), "UTC"), "UTC", 201)
    steps = {f"{interval.unit}s": index * interval.number}
    assert pd.Timestamp(found.due(index), unit="s") == pd.Timestamp(start) + pd.DateOffset(**steps)


@pytest.mark.slow
@given(
    every=st.sampled_from(["hour", "7 hours", "day", "week", "month"]),
    start=st.integers(1_000_000_000, 2_500_000_000),
    zone=st.sampled_from(ZONES),
    missed=st.sampled_from(["skip", "late"]),
)
def test_dates_never_go_back_and_windows_do_not_overlap(every, start, zone, missed):
    found = Schedule(Interval.read(every), float(start), zone, 100, missed)
    dates = found.dates()
    assert dates[0] == start and found.last == dates[-1]
    for index in range(99):
        assert dates[index] <= found.closes(index) <= dates[index + 1]
        # A window may be empty only where a country skips a day.
        assert dates[index] < found.closes(index) or zone == "Pacific/Apia"
        if every in ("day", "week", "month"):
            shown = [dt.datetime.fromtimestamp(date, ZoneInfo(zone)) for date in dates[index : index + 2]]
            assert shown[0].date() <= shown[1].date()


def test_two_dates_coincide_where_a_country_skips_a_day():
    daily = schedule("day", "2011-12-29 09:00", "Pacific/Apia")
    assert daily.due(1) == daily.due(2) == daily.closes(1)  # nothing can start for the day that never was
    assert daily.due(3) == daily.due(2) + DAY


@pytest.mark.parametrize(
    ("every", "window"), [("hour", 360.0), ("day", 2.4 * HOUR), ("week", 16.8 * HOUR), ("month", 2.8 * DAY)]
)
def test_a_release_may_start_for_a_while(every, window):
    skipping = schedule(every, "2026-01-01", "UTC")
    assert skipping.closes(3) - skipping.due(3) == pytest.approx(window)
    late = schedule(every, "2026-01-01", "UTC", missed="late")
    assert late.closes(3) == late.due(4)


def test_until_counts_the_dates():
    every, start = Interval.read("week"), instant("2026-01-05 09:00", "Europe/Paris")

    def number(until: str) -> int:
        return releases_until(every, start, "Europe/Paris", until)

    assert number("2026-01-05") == 1
    assert number("2026-12-31") == 52
    assert number("2026-01-12 09:00") == 2
    assert number("2026-01-12 08:59") == 1
    assert number("2026-01-12T08:00+00:00") == 2
    with pytest.raises(InvalidSetting, match="before the start"):
        number("2026-01-04")
    with pytest.raises(InvalidSetting, match="more than 10,000"):
        releases_until(Interval.read("hour"), start, "UTC", "2030-01-01")


@pytest.mark.parametrize("text", ["", "year", "0 weeks", "-1 day", "1.5 days", "week\n", "2  weeks", "1000 days", 7])
def test_intervals_that_are_none(text):
    with pytest.raises(InvalidSetting, match="every"):
        Interval.read(text)


@pytest.mark.parametrize("text", ["", "soon", "1066-10-14", "9999-12-31", "2026-13-01"])
def test_starts_that_are_none(text):
    with pytest.raises(InvalidSetting, match="start"):
        instant(text, "UTC")


def test_a_start_that_clocks_skip_is_refused():
    with pytest.raises(InvalidSetting, match="Europe/Paris"):
        instant("2026-03-29 02:30", "Europe/Paris")


@pytest.mark.parametrize(
    ("setting", "changes"),
    [
        ("time_zone", {"time_zone": "Mars/Olympus"}),
        ("time_zone", {"time_zone": "../../etc/passwd"}),
        ("time_zone", {"time_zone": "localtime"}),
        ("start", {"start": 7.2e9}),
        ("start", {"start": -1.0}),
        ("missed", {"missed": "never"}),
        ("releases", {"releases": 0}),
        ("releases", {"releases": 10_001}),
        ("releases", {"every": Interval(999, "month")}),
    ],
)
def test_schedules_that_are_none(setting, changes):
    given = {"every": Interval.read("day"), "start": 1.7e9, "time_zone": "UTC", "releases": 100} | changes
    with pytest.raises(InvalidSetting) as refused:
        Schedule(**given)
    assert refused.value.setting == setting


def test_an_interval_in_words():
    assert [str(Interval.read(text)) for text in ("weeks", "1 week", "2 week", "12 hours")] == [
        "week", "week", "2 weeks", "12 hours",
    ]  # fmt: skip
