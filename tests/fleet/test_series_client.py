"""Series from Python and from the command line, over the server's routes; and one on a real server with devices."""

from __future__ import annotations

import datetime as dt
import json
import threading
import time
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import pytest
from coordinator_cases import Roles
from device_cases import StillClock
from fleet_server import started
from series_cases import DAY, HOUR, TOTAL, WEEK, WORDS, follow
from server_cases import fleet_of, inside
from typer.testing import CliRunner

import thresher as th
from thresher.cli import fleet as commands
from thresher.cli import fleet_options
from thresher.client import series_requests
from thresher.client.fleet import Fleet
from thresher.client.series import SeriesHandle
from thresher.client.series_requests import SeriesSettings, series_request
from thresher.device.device import Device
from thresher.errors import BudgetExceeded, Conflict, InvalidSetting, NotFound, ThresherWarning
from thresher.privacy.series import plan_series, repeat_plan
from thresher.roles.coordinator.coordinator import Coordinator
from thresher.verbs.asking import functions
from thresher.verbs.settings import settings_of

NOW = 1_700_000_040.0  # 2023-11-14 22:14 UTC, a Tuesday


@pytest.fixture
def running(tmp_path):
    """A server's routes over a coordinator whose devices all hold words, and whose clock the test moves."""
    with inside(tmp_path / "data") as server:
        clock, roles = StillClock(NOW), Roles(WORDS)
        ledger = th.Ledger(tmp_path / "ledger.db", epsilon=10, delta=1e-4)
        server.services.coordinator = coordinator = Coordinator(
            server.services.coordinator_store, ledger, clock, roles, roles, "fleet"
        )
        with fleet_of(server) as fleet:
            yield SimpleNamespace(fleet=fleet, clock=clock, coordinator=coordinator, server=server, ledger=ledger)


def weekly(fleet, **settings):
    return fleet.series("histogram", "word", **{"every": "week", "releases": 4, **TOTAL, "warn": False} | settings)


# Python.


@pytest.mark.slow
def test_a_series_from_python(running):
    series = weekly(running.fleet, time_zone="Europe/Paris", start="2023-11-15 09:00")
    status = series.status()
    assert (status.state, status.passed, status.released) == ("running", 0, 0)
    assert series.answers() == [] and series.releases() == []
    follow(running, 9 * DAY)
    running.clock.time += WEEK  # away
    follow(running, 2 * WEEK)
    dates, answers = zip(*series.answers(), strict=True)
    paris = ZoneInfo("Europe/Paris")
    assert dates == tuple(dt.datetime(2023, 11, day, 9, tzinfo=paris) + dt.timedelta(7) for day in (8, 15, 22, 29))
    assert [answer is None for answer in answers] == [False, False, True, False]
    assert {row.bucket for row in answers[0]} == {"yes", "no"}
    assert answers[0].to_json() != answers[1].to_json()
    assert answers[0].verify().epsilon == plan_series(**TOTAL, releases=4).release.epsilon
    assert series.answers()[0][1] is answers[0]  # fetched once
    again = running.fleet.series_by_id(series.id)
    assert [str(each.gap or each.state) for each in again.releases()] == ["done", "done", "missed", "done"]
    assert again.wait(timeout=0).state == again.wait(4).state == "done"
    assert [each.id for each in running.fleet.series_list()] == [series.id]
    [charge] = running.fleet.ledger().charges
    assert (charge.series, charge.query, charge.drawn, charge.given_back) == (series.id, None, 3, 1)
    rows = series.to_pandas()
    assert rows.columns.tolist() == ["date", "word", "estimate", "lower", "upper"] and len(rows) == 6
    assert series.over_time().missed == (dates[2],)
    changes = series.changes()
    assert {row.after.label for row in changes} == {"yes", "no"}
    assert (changes.earlier, changes.later) == (dates[1], dates[3])
    assert series.changes(since=dates[0]).earlier == dates[0]
    assert series.plot(buckets=["yes"]).to_dict()
    queries = running.fleet.queries()
    assert {each.series for each in queries} == {series.id} and len(queries) == 3


@pytest.mark.slow
def test_a_verb_is_given_as_its_function_or_its_name(running):
    one = running.fleet.series(
        th.quantiles, "age", [0.5], lower=0, upper=100, every="day", releases=2, warn=False, **TOTAL
    )
    two = running.fleet.series(
        "heavy-hitters", "word", method="trie", levels=2, every="day", releases=2, warn=False, epsilon=2, delta=1e-6
    )
    assert [each.status().verb for each in (one, two)] == ["quantiles", "heavy_hitters"]
    assert two.status().query["plan"]["rounds"] == 2 and two.status().total.analyst.rounds == 4
    for wrong in ("plan", th.plan, print):
        with pytest.raises(InvalidSetting, match="verb"):
            running.fleet.series(wrong, "word", every="day", releases=2, **TOTAL)
    with pytest.raises(TypeError, match="unexpected keyword argument 'levls'"):
        running.fleet.series("histogram", "word", levls=3, every="day", releases=2, **TOTAL)
    with pytest.raises(TypeError, match="multiple values"):
        running.fleet.series("histogram", "word", column="word", every="day", releases=2, **TOTAL)
    with pytest.raises(TypeError, match="at most 1"):
        running.fleet.series("histogram", "word", "age", every="day", releases=2, **TOTAL)


def test_no_verb_has_a_setting_of_a_series():
    own = {"every", "releases", "until", "start", "time_zone", "missed", "epsilon", "delta", "plan", "name", "warn"}
    for function in functions().values():
        assert own.isdisjoint(settings_of(function))


@pytest.mark.slow
def test_a_plan_for_one_release(running):
    plan = th.plan(0.5, 1e-8)
    series = weekly(running.fleet, epsilon=None, delta=None, plan=plan)
    total = series.status().total.analyst
    assert total.epsilon == repeat_plan(plan, 4).total.epsilon and total.delta == pytest.approx(4e-8)
    assert series.status().each.analyst.epsilon == 0.5
    assert weekly(running.fleet, epsilon=None, delta=1e-7, plan=plan).status().total.analyst.delta == 1e-7
    with pytest.raises(InvalidSetting, match="plan and epsilon"):
        weekly(running.fleet, plan=plan)


@pytest.mark.slow
def test_until_and_dates_of_python(running):
    start = dt.datetime(2023, 12, 1, 12, tzinfo=ZoneInfo("Asia/Tokyo"))
    series = weekly(running.fleet, releases=None, start=start, until=dt.date(2023, 12, 31), every="day")
    schedule = series.status().schedule
    assert (schedule.releases, schedule.start) == (31, start.timestamp())
    for wrong in ({"until": "2024-01-01"}, {"releases": None}, {"every": "fortnight"}, {"time_zone": "Mars"}):
        with pytest.raises(InvalidSetting):
            weekly(running.fleet, **wrong)


def test_until_without_a_start_counts_from_now():
    chosen = SeriesSettings(every="day", until="2023-11-20", **TOTAL)
    request = series_request("histogram", {"column": "word"}, chosen, name="a", clock=StillClock(NOW + 7))
    assert (request.schedule.releases, request.schedule.start) == (7, None)


@pytest.mark.slow
def test_until_without_a_start_is_the_same_request_a_minute_later(running, monkeypatch):
    monkeypatch.setattr(series_requests, "SystemClock", lambda: running.clock)
    first = weekly(running.fleet, releases=None, until="2023-12-14", name="versions")
    running.clock.time += 61
    assert weekly(running.fleet, releases=None, until="2023-12-14", name="versions").id == first.id
    assert first.status().schedule.releases == 5


@pytest.mark.parametrize(
    ("given", "setting", "said"),
    [
        ({"start": 5}, "start", "must be a date, or a date and time"),
        ({"start": "soon"}, "start", "must be a date, or a date and time"),
        ({"start": "2199-01-01"}, "start", "between 1970 and 2070"),
        ({"start": "2024-03-31 02:30", "time_zone": "Europe/Paris"}, "start", "does not exist"),
        ({"releases": None, "until": 5}, "until", "must be a date, or a date and time"),
        ({"start": "9999-12-31"}, "start", "between 1970 and 2070"),
        ({"releases": None, "until": "9999-12-31"}, "until", "must lie within a hundred years"),
        ({"releases": None, "until": "2123-12-31"}, "until", "must lie within a hundred years"),
        ({"releases": None, "until": "2123-12-31", "every": "month"}, "until", "must lie within a hundred years"),
        ({"every": "999 months"}, "releases", "within a hundred years"),
        ({"every": "month", "releases": 1_202}, "releases", "within a hundred years"),
        ({"time_zone": "localtime"}, "time_zone", "must be the name of a time zone"),
    ],
)
def test_the_setting_that_is_wrong_is_named(given, setting, said):
    chosen = SeriesSettings(**{"every": "week", "releases": 52, **TOTAL} | given)
    with pytest.raises(InvalidSetting, match=said) as refused:
        chosen.schedule(StillClock(NOW))
    assert refused.value.setting == setting


@pytest.mark.parametrize(("every", "releases"), [("week", 5_218), ("month", 1_200)])
def test_a_series_may_last_a_hundred_years(every, releases):
    chosen = SeriesSettings(every=every, until="2123-11-14", **TOTAL)
    assert abs(chosen.schedule(StillClock(NOW)).releases - releases) <= 1


@pytest.mark.slow
def test_names_conflicts_budgets_and_warnings(running):
    first = weekly(running.fleet, name="versions")
    assert weekly(running.fleet, name="versions").id == first.id
    with pytest.raises(Conflict):
        weekly(running.fleet, name="versions", releases=5)
    with pytest.raises(BudgetExceeded):
        weekly(running.fleet, epsilon=20, delta=1e-2)
    with pytest.raises(NotFound, match="series"):
        running.fleet.series_by_id("nowhere").status()
    with pytest.raises(InvalidSetting, match="series"):
        SeriesHandle(running.fleet, "../queries")
    with pytest.warns(ThresherWarning, match="when 5 devices have completed it") as said:
        weekly(running.fleet.with_rounds(completions=5), warn=True)
    assert {each.filename for each in said} == {__file__}


def test_pause_resume_and_end_from_python(running):
    series = weekly(running.fleet)
    follow(running, DAY)
    assert series.pause().state == "paused"
    follow(running, WEEK)
    assert series.resume().state == "running"
    follow(running, WEEK)
    ended = series.end()
    assert (ended.state, ended.changed_by) == ("ended", "analyst")
    follow(running, DAY)
    assert [answer is None for _, answer in series.answers()] == [False, True, False]
    assert running.ledger.history()[0].given_back == 2


# The command.


@pytest.fixture
def command(running, monkeypatch):
    """`thresher fleet series …`, on that server."""
    monkeypatch.setattr(fleet_options, "connected", lambda *_: fleet_of(running.server))

    def run(*arguments, code=0):
        result = CliRunner().invoke(commands.app, ["series", *arguments, "--server=x"])
        assert result.exit_code == code, result.output + repr(result.exception)
        return result.stdout

    return run


CREATE = ("create", "histogram", "word", "--every=week", "--releases=4", "--epsilon=1", "--delta=1e-6")


@pytest.mark.slow
def test_the_command_creates_shows_and_lists(running, command):
    assert "There is no series yet" in command("list")
    made = json.loads(command(*CREATE, "--name=versions", "--json"))
    assert made["state"] == "running" and made["schedule"]["releases"] == 4
    assert json.loads(command(*CREATE, "--name=versions", "--json"))["id"] == made["id"]
    follow(running, DAY)
    assert "every week, 1 answer, 1 of 4 dates" in command("list")
    follow(running, WEEK)
    shown = command("show", made["id"])
    assert "histogram of word: running" in shown and f"{made['id']}-1" in shown and "2 of 4 dates" in shown
    assert "2023-11-14 22:14 UTC" in shown
    assert "running" in command("list") and json.loads(command("list", "--json"))["series"][0]["released"] == 2
    assert json.loads(command("pause", made["id"], "--json"))["state"] == "paused"
    assert "paused" in command("show", made["id"])
    assert json.loads(command("resume", made["id"], "--json"))["state"] == "running"
    assert "ended" in command("end", made["id"])


def test_the_command_previews_and_reserves_nothing(running, command):
    arguments = (*CREATE, "--time-zone=Europe/Paris", "--start=2023-12-01 09:00", "--missed=late", "--plan")
    shown = " ".join(command(*arguments).split())
    assert "every week, 4 times in all" in shown and "asked as soon as the server is back" in shown
    assert "Dates: 2023-12-01 09:00 CET, 2023-12-08 09:00 CET" in shown and "it fits" in shown
    preview = json.loads(command(*arguments, "--json"))
    assert preview["cost_epsilon"] == 1.0 and len(preview["dates"]) == 4
    assert running.ledger.history() == [] and running.fleet.series_list() == []


@pytest.mark.slow
def test_the_command_takes_a_verbs_settings(running, command):
    asked = "--quantile=0.5 --lower=0 --upper=100 --epsilon=2 --delta=1e-6 --seconds=60 --json".split()
    dates = ("--every=2 days", "--start=2023-12-01", "--until=2023-12-31")
    made = json.loads(command("create", "quantiles", "age", *asked, *dates))
    assert made["schedule"]["releases"] == 16
    assert (made["verb"], made["schedule"]["every"], made["settings"]["seconds"]) == ("quantiles", "2 days", 60.0)
    with pytest.raises(AssertionError, match=r"missed. must be"):
        command(*CREATE, "--missed=never")
    with pytest.raises(AssertionError, match="There is no such series"):
        command("show", "nowhere")


# HTTP, and a real server.


def test_routes_want_an_analysts_token(running):
    server = running.server
    for method, path in (
        ("POST", "/v1/series/plans"), ("POST", "/v1/series"), ("GET", "/v1/series"), ("GET", "/v1/series/s1"),
        ("POST", "/v1/series/s1/pause"), ("POST", "/v1/series/s1/resume"), ("POST", "/v1/series/s1/end"),
    ):  # fmt: skip
        assert server.ask(method, path).status_code == 401
        assert server.ask(method, path, server.token("enrolment")).status_code == 403
    assert server.ask("POST", "/v1/series", server.token("analyst"), content=b"{}").status_code == 400
    assert server.ask("GET", "/v1/series/s1", server.token("analyst")).status_code == 404


@pytest.mark.slow
@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_a_series_on_a_real_server_across_a_kill(tmp_path, store, request):
    where = ("--store", request.getfixturevalue("postgresql_url")) if store == "postgresql" else ()
    budget = ("--budget-epsilon", "40", "--budget-delta", "1e-3")
    with started(tmp_path / "data", "--come-back", "1", "--no-console", *budget, *where) as server:
        devices = [
            Device(server.url, server.enrolment_key, {"word": "yes" if number % 15 else "no"}) for number in range(120)
        ]
        stop = threading.Event()

        def visit() -> None:
            while not stop.is_set():
                for device in devices:
                    device.check_in()
                time.sleep(0.2)

        with Fleet(server.url, server.analyst) as fleet:
            asking = fleet.with_rounds(completions=120, seconds=600)
            series = asking.series(
                "histogram", "word", every="hour", releases=3, epsilon=8, delta=1e-5, missed="late", warn=False
            )
            assert series.wait(1, timeout=5).state == "running"  # nobody has answered yet
            server.kill()
            server.start()
            thread = threading.Thread(target=visit)
            thread.start()
            try:
                assert series.wait(1, timeout=60).released == 1
            finally:
                stop.set()
                thread.join(60)
            server.kill()
            server.start()
            [(date, answer)] = series.answers()
            assert "yes" in answer and date.timestamp() == series.status().schedule.start
            assert series.status().next == date.timestamp() + HOUR
            series.end()
            deadline = time.monotonic() + 30
            while fleet.ledger().charges[0].given_back != 2 and time.monotonic() < deadline:
                time.sleep(0.2)
            [charge] = fleet.ledger().charges
            assert (charge.drawn, charge.given_back) == (1, 2)
        for device in devices:
            device.close()
