"""Times with a zone are instants, counted on the wall clock of one zone, whatever a column, file or session says."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import duckdb
import ibis
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from database_cases import on_datafusion
from table_cases import Maker, counted

import thresher as th
from thresher.errors import InvalidSetting
from thresher.questions import Dates, Filtered, Values
from thresher.questions.conditions import Between, Where
from thresher.questions.spelling import read_time
from thresher.tables import Table, time_zones

PLAN = th.Plan(0.5, 20, 1.0, 1e-3)
NEW_YORK, TOKYO, PARIS = "America/New_York", "Asia/Tokyo", "Europe/Paris"
EVENING = dt.datetime(2024, 1, 31, 20, 0, tzinfo=ZoneInfo(NEW_YORK))
# An hour apart; on the wall clock of Paris, where clocks go back that night, they are the same time.
BEFORE, AFTER = dt.datetime(2024, 10, 27, 0, 30, tzinfo=dt.UTC), dt.datetime(2024, 10, 27, 1, 30, tzinfo=dt.UTC)
INSTANTS = [EVENING, BEFORE, AFTER, None]
NAIVE = [dt.datetime(2024, 1, 31, 20, 0)] * len(INSTANTS)


def rows(zone: str) -> pa.Table:
    return pa.table(
        {"at": pa.array(INSTANTS, pa.timestamp("us", zone)), "plain": NAIVE, "unit": list(range(len(INSTANTS)))}
    )


def wall(time: dt.datetime, zone: str) -> dt.datetime:
    return time.astimezone(ZoneInfo(zone)).replace(tzinfo=None)


def assert_one_rule(data: Any, unit: str | None = "unit", **settings: Any) -> None:
    """The same months and times on every engine, for the default zone and for others."""
    with Table(data, **settings) as table:
        assert counted(table, Dates("at", "month")) == {dt.date(2024, 2, 1): 1, dt.date(2024, 10, 1): 2}
    for zone in ("UTC", NEW_YORK, PARIS):
        for each in (None, unit) if zone == PARIS else (None,):
            with Table(data, unit=each, time_zone=zone, **settings) as table:
                expected: dict[dt.datetime, int] = {}
                for instant in INSTANTS[:3]:
                    expected[wall(instant, zone)] = expected.get(wall(instant, zone), 0) + 1
                assert counted(table, Values(("at",))) == expected, (zone, each)
                assert counted(table, Values(("plain",))) == {NAIVE[0]: len(NAIVE)}, (zone, each)
                days: dict[dt.date, int] = {}
                for time, count in expected.items():
                    days[time.date()] = days.get(time.date(), 0) + count
                assert counted(table, Dates("at", "day")) == days, (zone, each)
    with Table(data, time_zone=NEW_YORK, **settings) as table:
        assert counted(table, Dates("at", "month")) == {dt.date(2024, 1, 1): 1, dt.date(2024, 10, 1): 2}


@pytest.mark.slow
def test_every_engine_has_one_rule(engine: Maker) -> None:
    assert_one_rule(engine(rows(NEW_YORK)))


@pytest.mark.slow
def test_the_zone_of_a_column_does_not_matter(local: Maker) -> None:
    for zone in ("UTC", TOKYO):
        with Table(local(rows(zone))) as table:
            assert counted(table, Dates("at", "month")) == {dt.date(2024, 2, 1): 1, dt.date(2024, 10, 1): 2}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv", "rows.jsonl"])
def test_every_file_has_the_same_rule(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    types = {"at": "times", "plain": "times"}
    if name.endswith("parquet"):
        pq.write_table(rows(NEW_YORK), path)
    else:
        texts = [None if instant is None else instant.isoformat() for instant in INSTANTS]
        table = rows(NEW_YORK).set_column(0, "at", pa.array(texts))
        form = "HEADER, FORMAT csv" if name.endswith("csv") else "FORMAT json"
        duckdb.connect().from_arrow(table).query("rows", f"COPY rows TO '{path}' ({form})")
    assert_one_rule(str(path), types=types)


@pytest.mark.slow
def test_objects_have_the_same_rule() -> None:
    assert_one_rule(
        pd.DataFrame({"at": pd.Series(INSTANTS, dtype=object), "plain": NAIVE, "unit": range(len(INSTANTS))}),
        types={"at": "times", "plain": "times"},
    )
    with Table(INSTANTS, types={"value": "times"}, time_zone=NEW_YORK) as table:
        assert counted(table, Dates("value", "month")) == {dt.date(2024, 1, 1): 1, dt.date(2024, 10, 1): 2}


@pytest.mark.parametrize("zone", [None, NEW_YORK])
@pytest.mark.parametrize("make", ["parquet", "arrow", "pandas", "polars", "lazy", "duckdb"])
def test_nanoseconds_are_cut_down(tmp_path: Path, make: str, zone: str | None) -> None:
    """Also before 1970, and also in the last nanosecond of a day."""
    last = [-1, 1_735_689_600 * 10**9 - 1]
    table = pa.table({"at": pa.array(last, pa.timestamp("ns", zone))})
    pq.write_table(table, tmp_path / "rows.parquet", version="2.6")
    data = {
        "parquet": lambda: tmp_path / "rows.parquet",
        "arrow": lambda: table,
        "pandas": table.to_pandas,
        "polars": lambda: pl.from_arrow(table),
        "lazy": lambda: pl.from_arrow(table).lazy(),
        "duckdb": lambda: duckdb.connect().from_arrow(table),
    }[make]()
    with Table(data) as population:
        assert counted(population, Dates("at", "day")) == {dt.date(1969, 12, 31): 1, dt.date(2024, 12, 31): 1}
        assert counted(population, Values(("at",))) == {
            dt.datetime(1969, 12, 31, 23, 59, 59, 999999): 1,
            dt.datetime(2024, 12, 31, 23, 59, 59, 999999): 1,
        }


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["s", "ms"])
def test_coarser_times_with_a_zone_are_counted(unit: str, tmp_path: Path) -> None:
    table = pa.table({"at": pa.array(INSTANTS[:1], pa.timestamp(unit, TOKYO))})
    pq.write_table(table, tmp_path / "rows.parquet")
    for data in (table, table.to_pandas(), tmp_path / "rows.parquet", duckdb.connect().from_arrow(table)):
        with Table(data, time_zone=NEW_YORK) as population:
            assert counted(population, Values(("at",))) == {dt.datetime(2024, 1, 31, 20): 1}


def test_a_time_beyond_the_calendar_is_no_value() -> None:
    connection = duckdb.connect()
    relation = connection.sql(
        "SELECT unnest([TIMESTAMPTZ 'infinity', TIMESTAMPTZ '-infinity', TIMESTAMPTZ '200000-01-01 00:00:00+00', "
        "TIMESTAMPTZ '9999-12-31 20:00:00+00', TIMESTAMPTZ '2024-02-01 01:00:00+00']) AS at"
    )
    for zone, found in ((TOKYO, 1), (NEW_YORK, 2)):  # the fourth is in the year 10000 in Tokyo
        with Table(relation, time_zone=zone) as population:
            assert sum(counted(population, Values(("at",))).values()) == found


FAR = "('294276-12-31 23:59:59.999999+00'), ('infinity'), ('-infinity'), ('4713-01-01 00:00:00+00 BC')"


@pytest.mark.parametrize("unit", [None, "who"])
@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", NEW_YORK])
def test_an_instant_that_postgresql_cannot_show_stops_no_count(
    postgresql_connection: Any, zone: str, unit: str | None
) -> None:
    postgresql_connection.execute(
        f"CREATE TEMPORARY TABLE far AS SELECT at::timestamptz, ctid::text AS who FROM (VALUES {FAR}, "
        "('2024-06-15 12:00:00+00')) AS rows (at), (VALUES ('(0,0)'::tid)) AS places (ctid)"
    )
    try:
        with Table(postgresql_connection, table="far", time_zone=zone, unit=unit) as population:
            assert list(counted(population, Dates("at", "month"))) == [dt.date(2024, 6, 1)]
            where = Where((Between("at", dt.date(2024, 1, 1), dt.date(2025, 1, 1)),))
            assert counted(population, Filtered(Values(("who",)), where)) == {"(0,0)": 1}
    finally:
        postgresql_connection.execute("DROP TABLE far")


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_an_instant_that_datafusion_cannot_show_stops_no_count(unit: str) -> None:
    noon = {"s": 1, "ms": 1_000, "us": 1_000_000}[unit] * 43_200
    table = pa.table({"at": pa.array([2**63 - 1, -(2**63) + 1, noon], pa.timestamp(unit, "UTC"))})
    with Table(on_datafusion(table), time_zone=TOKYO) as population:
        assert counted(population, Values(("at",))) == {dt.datetime(1970, 1, 1, 21): 1}


@pytest.mark.parametrize("zone", ["", ", 'UTC'"])
@pytest.mark.parametrize("digits", [0, 3, 6, 9])
def test_a_time_that_clickhouse_cannot_show_stops_no_count(clickhouse_client: Any, digits: int, zone: str) -> None:
    """It stores any number of ticks, and says that times after the year 9999 are in 9999."""
    clickhouse_client.command("DROP TABLE IF EXISTS far")
    clickhouse_client.command(f"CREATE TABLE far (at DateTime64({digits}{zone}), who String) ENGINE = Memory")
    ticks = [-1, 10**digits * 43_200]
    far = [2**63 - 1, -(2**63) + 1]
    if digits < 9:
        far.append(10**digits * 253_402_300_800)
    for each in ticks + far:
        quoted = zone.replace("'", "\\'")
        stored = f"reinterpret(toInt64({each}), 'DateTime64({digits}{quoted})')"
        clickhouse_client.command(f"INSERT INTO far SELECT {stored}, 'u{each}'")
    for unit in (None, "who"):
        with Table(ibis.clickhouse.from_connection(clickhouse_client).table("far"), unit) as population:
            found = counted(population, Dates("at", "day"))
            assert found == {dt.date(1969, 12, 31): 1, dt.date(1970, 1, 1): 1}
    clickhouse_client.command("DROP TABLE far")


def test_nanoseconds_of_an_instant_are_cut_down_on_datafusion() -> None:
    table = pa.table({"at": pa.array([-1, 1_735_689_600 * 10**9 - 1], pa.timestamp("ns", "UTC"))})
    with Table(on_datafusion(table)) as population:
        assert counted(population, Dates("at", "day")) == {dt.date(1969, 12, 31): 1, dt.date(2024, 12, 31): 1}


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", NEW_YORK])
def test_the_first_and_last_instants_of_a_zone(zone: str) -> None:
    """Of a database whose calendar ends there, too."""
    first, last = time_zones.shown_instants(zone)
    ends = [first - 1, first, last, last + 1]
    with Table(pa.table({"at": pa.array(ends, pa.timestamp("us", "UTC"))}), time_zone=zone) as population:
        assert sorted(counted(population, Values(("at",)))) == [dt.datetime.min, dt.datetime.max]


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_the_calendar_ends_at_the_same_instant_in_every_unit(unit: str) -> None:
    last = 253_402_300_800  # the first second of the year 10000, UTC
    seconds = [last - 1, last, last + 5 * 3600 - 1, last + 5 * 3600]
    at = pa.array(seconds, pa.int64()).cast(pa.timestamp("s", "UTC")).cast(pa.timestamp(unit, "UTC"))
    table = pa.table({"at": at})
    for data in (table, pl.from_arrow(table), pl.from_arrow(table).lazy(), duckdb.connect().from_arrow(table)):
        for zone, found in (("UTC", 1), (NEW_YORK, 3)):  # in New York, the year 9999 ends five hours later
            with Table(data, time_zone=zone) as population:
                assert sum(counted(population, Values(("at",))).values()) == found


@pytest.mark.slow
def test_instants_that_are_units_stay_apart_where_a_clock_goes_back() -> None:
    hour = 3_600_000_000
    at = pa.array([1_730_611_800_000_000, 1_730_611_800_000_000 + hour], pa.int64()).cast(pa.timestamp("us", "UTC"))
    table = pa.table({"at": at, "x": [1, 1]})  # both are half past one on 3 November 2024 in New York
    for data in (table, pl.from_arrow(table), pl.from_arrow(table).lazy(), duckdb.connect().from_arrow(table)):
        with Table(data, unit="at", time_zone=NEW_YORK) as population:
            assert counted(population, Values(("x",))) == {1: 2}


@pytest.mark.parametrize("name", ["localtime", "posixrules", "Factory", "/etc/localtime"])
def test_zones_of_the_machine_are_refused(name, monkeypatch):
    every = available_timezones() | {"localtime", "posixrules", "Factory"}  # some machines have them
    monkeypatch.setattr("thresher.tables.time_zones.available_timezones", lambda: every)
    monkeypatch.setattr(time_zones, "_zones", time_zones._zones.__wrapped__)
    assert time_zones.check_zone(PARIS) == PARIS
    for check in (time_zones.check_zone, time_zones.check_time_zone):
        with pytest.raises(InvalidSetting, match="must be the name of a time zone"):
            check(name)


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ["Mars/Olympus", "", "utc", "../etc/passwd", "Europe", None, 5, "Europe/Paris'"])
def test_an_unknown_zone_is_refused_before_anything_is_charged(tmp_path: Path, wrong: Any) -> None:
    ledger = th.Ledger(tmp_path / "ledger.db", epsilon=5, delta=1e-2)
    with pytest.raises(InvalidSetting, match="time_zone"):
        Table(rows("UTC"), time_zone=wrong)
    if wrong is not None:
        with pytest.raises(InvalidSetting, match="time_zone"):
            th.histogram(rows("UTC"), "at", plan=PLAN, dates="day", time_zone=wrong, ledger=ledger)
    assert ledger.history() == []


@pytest.mark.slow
def test_the_verb_takes_a_zone_and_reads_domains_in_it() -> None:
    many = pa.concat_tables([rows("UTC").slice(0, 1)] * 1000)
    answer = th.histogram(many, "at", plan=PLAN, dates="month", time_zone=NEW_YORK)
    assert [row.bucket for row in answer] == [dt.date(2024, 1, 1)]
    assert [row.bucket for row in th.histogram(many, "at", plan=PLAN, dates="month")] == [dt.date(2024, 2, 1)]
    for domain in ([EVENING], [EVENING.isoformat()], ["2024-02-01T01:00Z"], [dt.datetime(2024, 1, 31, 20)]):
        answer = th.histogram(many, "at", plan=PLAN, domain=domain, time_zone=NEW_YORK)
        assert [(row.bucket, row.estimate is not None) for row in answer] == [(dt.datetime(2024, 1, 31, 20), True)]


def test_a_zone_is_for_tables_that_are_opened_here() -> None:
    with Table(rows("UTC")) as table, pytest.raises(InvalidSetting, match="time_zone"):
        th.histogram(table, "at", plan=PLAN, time_zone=NEW_YORK)


def test_single_texts_are_read_in_a_zone() -> None:
    zone = ZoneInfo(NEW_YORK)
    assert read_time("2024-02-01T01:00Z", zone) == read_time("2024-02-01T10:00+09", zone) == wall(EVENING, NEW_YORK)
    assert read_time("2024-02-01T01:00", zone) == dt.datetime(2024, 2, 1, 1)
    assert read_time("0001-01-01T00:00Z", zone) is None


def test_a_device_reads_its_own_wall_clock() -> None:
    assert Dates("at", "month").bucket(EVENING) == dt.date(2024, 1, 1)
    assert Values(("at",)).bucket(EVENING) == dt.datetime(2024, 1, 31, 20)
