"""Series at the coordinator: one reservation, one query for each date, across crashes, pauses and missed dates."""

from __future__ import annotations

import dataclasses
import sqlite3
import threading

import msgspec
import pytest
from coordinator_cases import Crash, Server, request
from series_cases import DAY, HOUR, TOTAL, WEEK, WORDS, follow, series_request, states

import thresher as th
from thresher.device.policy import Policy
from thresher.errors import BudgetExceeded, Conflict, InvalidSetting, NotFound, ServerUnavailable, VerificationFailed
from thresher.ledger import Ledger
from thresher.mechanism import Release
from thresher.privacy import DEVICE, plan
from thresher.privacy.series import plan_series
from thresher.protocol.schedules import instant
from thresher.questions import Values
from thresher.roles.coordinator.ledger_rebuilding import rebuild
from thresher.verbs import HeavyHittersQuery, HistogramQuery

TRIE = HeavyHittersQuery("word", th.plan(epsilon=1.0, delta=1e-6, rounds=2), "trie")
SMALL = HistogramQuery(Values(("word",)), th.plan(0.1, 1e-8))


@pytest.fixture
def server(tmp_path):
    running = Server(tmp_path, WORDS)
    yield running
    running.close()


@pytest.mark.slow
def test_each_date_is_asked_once_and_answered(server):
    created = server.coordinator.series.create(series_request(), "ada")
    start = server.clock.time // 60 * 60
    assert (created.state, created.schedule.start, created.next, created.passed) == ("running", start, start, 0)
    assert created.last == start + 3 * WEEK
    server.coordinator.step()
    assert states(server.coordinator.series.status(created.id)) == ["running"]
    follow(server, WEEK)
    assert server.coordinator.series.status(created.id).next == start + 2 * WEEK
    follow(server, 3 * WEEK)
    status = server.coordinator.series.status(created.id)
    assert (status.state, status.released, status.next) == ("done", 4, None)
    assert states(status) == ["done"] * 4
    assert [each.due for each in status.releases] == [start + week * WEEK for week in range(4)]
    plans = plan_series(**TOTAL, releases=4)
    for each in status.releases:
        answer = server.coordinator.answer(each.query)
        assert {row.bucket for row in answer} == {"yes", "no"}
        assert answer.verify().epsilon == plans.release.epsilon
        shown = server.coordinator.status(each.query)
        assert (shown.series, shown.by, shown.guarantees.analyst.delta) == (created.id, "ada", 0.25e-6)
        assert each.ended == shown.ended < each.due + 2 * HOUR
    assert set(server.roles.drawn.values()) == {1} and len(server.roles.drawn) == 4
    assert status.total.analyst.epsilon == 1.0 and status.total.analyst.rounds == 4
    assert status.each.analyst.epsilon == plans.release.epsilon


@pytest.mark.slow
def test_a_series_pays_for_its_queries(server):
    created = server.coordinator.series.create(series_request(query=TRIE, rounds=2), "ada")
    [entry] = server.ledger.history()
    assert (entry.reference, entry.epsilon, entry.delta, entry.rounds) == (created.id, 1.0, 1e-6, 8)
    assert entry.what == "heavy_hitters of word, trie, every week, 4 releases"
    [charge] = server.coordinator.ledger_view().charges
    assert (charge.series, charge.query, charge.by) == (created.id, None, "ada")
    assert server.ledger.drawn(created.id) == set()
    follow(server, DAY)
    assert server.ledger.drawn(created.id) == {0, 1}
    follow(server, 4 * WEEK)
    assert len(server.ledger.history()) == 1
    assert server.ledger.drawn(created.id) == set(range(8))
    server.start()  # the ledger is the one that the store needs


def test_a_round_is_drawn_before_it_opens(server, monkeypatch):
    created = server.coordinator.series.create(series_request(), "ada")
    seen = []
    opening = server.roles.open

    def open_round(configuration, target=None):
        seen.append(server.ledger.drawn(created.id))
        opening(configuration, target)

    monkeypatch.setattr(server.roles, "open", open_round)
    follow(server, 4 * WEEK)
    assert seen == [{0}, {0, 1}, {0, 1, 2}, {0, 1, 2, 3}]


@pytest.mark.parametrize("ending", ["ended", "done"])
def test_what_was_never_drawn_is_given_back_once_the_series_has_ended(server, ending):
    series = server.coordinator.series
    created = series.create(series_request(releases=4), "ada")
    before = server.ledger.left.share
    server.coordinator.step()
    (series.end if ending == "ended" else series.pause)(created.id, "ada")
    server.coordinator.step()
    [entry] = server.ledger.history()
    assert (entry.drawn, entry.given_back) == (1, 0)  # the release that runs is to finish
    follow(server, 5 * WEEK)
    [entry] = server.ledger.history()
    assert (entry.drawn, entry.given_back) == (1, 3)
    assert series.status(created.id).state == ending
    assert server.ledger.left.share > before
    assert server.ledger.reserved() == set()


def test_the_rest_is_given_back_at_once_where_no_release_runs(server):
    series, whole = server.coordinator.series, server.ledger.left.share
    created = series.create(series_request(start="2023-12-04"), "ada")
    assert server.ledger.left.share < whole
    series.end(created.id, "ada")  # without a step after it
    assert server.ledger.left.share == whole and server.ledger.reserved() == set()
    one = series.create(series_request("one", releases=1), "ada")
    two = series.create(series_request("two", query=TRIE, rounds=2, releases=1), "ada")
    server.coordinator.step()
    for each in (one, two):
        [release] = series.status(each.id).releases
        server.coordinator.cancel(release.query, "ada")
        assert series.status(each.id).state == "done"
    assert server.ledger.reserved() == set()


@pytest.mark.slow
def test_a_store_from_before_the_end_of_a_series_does_not_ask_for_it(server, tmp_path, caplog):
    running, paused, untouched = (
        server.coordinator.series.create(series_request(name, epsilon=0.1), "ada").id for name in ("a", "b", "c")
    )
    server.coordinator.series.pause(paused, "ada")
    follow(server, DAY)
    kept = tmp_path / "yesterday"
    with sqlite3.connect(tmp_path / "coordinator.db") as now, sqlite3.connect(kept) as backup:
        now.backup(backup)
    for each in (running, paused):
        server.coordinator.series.end(each, "ada")
    with sqlite3.connect(kept) as backup, sqlite3.connect(tmp_path / "coordinator.db") as now:
        backup.backup(now)
    server.start()
    follow(server, 2 * WEEK)
    series = server.coordinator.series
    assert [series.status(each).state for each in (running, paused, untouched)] == ["ended", "ended", "running"]
    assert states(series.status(running)) == ["done"] and states(series.status(untouched)) == ["done"] * 3
    assert sum("was ended: the ledger" in record.message for record in caplog.records) == 2
    assert server.ledger.reserved() == {untouched}


def test_other_queries_that_end_do_not_give_the_series_back(server):
    created = server.coordinator.series.create(series_request(), "ada")
    server.coordinator.submit(request(), "ada")
    follow(server, 3 * DAY)
    assert server.ledger.reserved() == {created.id}
    server.start()
    server.coordinator.step()
    assert server.ledger.reserved() == {created.id}
    follow(server, 4 * WEEK)
    assert states(server.coordinator.series.status(created.id)) == ["done"] * 4


def test_a_name_is_one_series_and_one_reservation(server):
    asked = series_request(start="2030-01-01 09:00", time_zone="Europe/Paris")
    first = server.coordinator.series.create(asked, "ada")
    assert server.coordinator.series.create(asked, "ada").id == first.id
    server.clock.time = first.last + WEEK  # long after the start, too
    assert server.coordinator.series.create(asked, "ada").id == first.id
    with pytest.raises(Conflict, match="name"):
        server.coordinator.series.create(series_request(releases=3), "ada")
    assert server.coordinator.series.create(series_request("other"), "bob").id != first.id
    assert [each.by for each in server.coordinator.series.all()] == ["bob", "ada"]
    assert len(server.ledger.history()) == 2


def test_what_does_not_fit_the_budget_is_not_kept(server):
    server.ledger.charge(2.5, 1e-7, "something else", unit=DEVICE)
    assert not server.coordinator.series.preview(series_request()).fits
    for _ in range(2):
        with pytest.raises(BudgetExceeded):
            server.coordinator.series.create(series_request(), "ada")
    assert server.coordinator.series.all() == []
    assert len(server.ledger.history()) == 1
    assert server.coordinator.step() is None


# Before anything is stored.


def changed(asked, **changes):
    return msgspec.structs.replace(asked, **changes)


ADD_REMOVE = HistogramQuery(Values(("word",)), plan(1, 1e-6, adjacency="add-remove"))
WEAK = HistogramQuery(Values(("word",)), th.Plan(0.5, 2, 1.0, 1e-8))


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        (series_request(every="hour", seconds=2 * HOUR), InvalidSetting, "seconds must be at most 1 hour"),
        (series_request(start="2020-01-01"), InvalidSetting, "start lies in the past"),
        (series_request(time_zone="Mars"), InvalidSetting, "time_zone"),
        (series_request(start="never"), InvalidSetting, "start must be a date"),
        (changed(series_request(), epsilon=0.9), VerificationFailed, "guarantee"),
        (changed(series_request(), epsilon=-1.0), InvalidSetting, "epsilon"),
        (changed(series_request(), epsilon=1e-5), InvalidSetting, "epsilon must be at least 0.0001"),
        (changed(series_request(), query=WEAK.to_dict()), VerificationFailed, "guarantee"),
        (changed(series_request(), query=ADD_REMOVE.to_dict()), InvalidSetting, "adjacency"),
    ],
)  # fmt: skip
def test_what_cannot_run_is_neither_stored_nor_reserved(server, wrong, error, said):
    series = server.coordinator.series
    for method in (series.preview, lambda asked: series.create(asked, "ada")):
        with pytest.raises(error, match=said):
            method(wrong)
    assert series.all() == [] and server.ledger.history() == []


@pytest.mark.slow
def test_too_many_rounds_and_too_many_series(server):
    long = changed(series_request(), schedule=changed(series_request().schedule, every="hour", releases=6_000))
    two_rounds = TRIE.with_plan(plan_series(**TOTAL, releases=4, rounds=2).release)
    with pytest.raises(InvalidSetting, match="releases times 2 rounds each must be at most 10,000"):
        server.coordinator.series.create(changed(long, query=two_rounds.to_dict()), "ada")
    server.coordinator.series._most = 1
    server.coordinator.series.create(series_request(), "ada")
    with pytest.raises(Conflict, match="as many as this server takes"):
        server.coordinator.series.create(series_request("second"), "ada")


@pytest.mark.slow
def test_the_preview_shows_dates_and_totals_and_reserves_nothing(server):
    shown = server.coordinator.series.preview(
        series_request(releases=52, start="2023-12-04 09:00", time_zone="Europe/Paris")
    )
    assert len(shown.dates) == 5 and shown.dates[1] - shown.dates[0] == WEEK
    assert shown.last == instant("2024-11-25 09:00", "Europe/Paris")
    assert (shown.cost_epsilon, shown.cost_delta, shown.left_epsilon, shown.rounds) == (1.0, 1e-6, 3.0, 52)
    assert shown.window == pytest.approx(0.1 * WEEK)
    assert shown.fits and shown.guarantees.analyst.rounds == 52
    assert shown.release.smallest_visible == plan(1, 1e-6, rounds=52).smallest_visible()
    assert shown.release.guarantees.analyst.rounds == 1
    assert any("every week, 52 times" in words for words in shown.words)
    assert server.ledger.history() == [] and server.coordinator.series.all() == []


@pytest.mark.slow
def test_the_preview_warns_where_devices_would_stop_answering(server):
    server.coordinator.policy = Policy(period_epsilon=0.5)
    daily = server.coordinator.series.preview(series_request(releases=30, every="day"))
    [caution] = daily.warnings
    assert caution.code == "device-budget" and "30 releases in 30 days, a device answers" in caution.text
    assert daily.release.warnings == []
    assert server.coordinator.series.preview(series_request(releases=30, every="week")).warnings == []


# Dates that were missed.


@pytest.mark.slow
@pytest.mark.parametrize(("missed", "expected"), [("skip", "missed"), ("late", "done")])
def test_a_server_that_was_down_skips_a_date_or_asks_late(server, missed, expected):
    created = server.coordinator.series.create(series_request(missed=missed), "ada")
    follow(server, DAY)
    server.clock.time += WEEK  # down over the second date, and back a day after it
    server.start()
    follow(server, DAY)
    status = server.coordinator.series.status(created.id)
    assert states(status) == ["done", expected]
    follow(server, 3 * WEEK)
    assert states(server.coordinator.series.status(created.id)) == ["done", expected, "done", "done"]


def test_a_server_that_is_back_within_the_window_asks(server):
    created = server.coordinator.series.create(series_request(), "ada")
    follow(server, DAY)
    server.clock.time = created.schedule.start + WEEK + 16 * HOUR
    follow(server, DAY)
    assert states(server.coordinator.series.status(created.id)) == ["done", "done"]


@pytest.mark.slow
def test_of_many_missed_dates_only_the_last_is_asked_late(server):
    created = server.coordinator.series.create(series_request(releases=6, missed="late"), "ada")
    follow(server, DAY)
    server.clock.time += 3 * WEEK
    follow(server, DAY)
    assert states(server.coordinator.series.status(created.id)) == ["done", "missed", "missed", "done"]


def test_a_series_that_slept_through_its_end_is_done(server):
    created = server.coordinator.series.create(series_request(), "ada")
    server.clock.time += 100 * WEEK
    assert server.coordinator.step() is None
    status = server.coordinator.series.status(created.id)
    assert (status.state, states(status), status.released) == ("done", ["missed"] * 4, 0)
    assert server.roles.configurations == {}


@pytest.mark.slow
def test_a_role_that_is_down_does_not_lose_the_date(server, monkeypatch):
    """Its query is stored and waits, also beyond the window."""
    created = server.coordinator.series.create(series_request(), "ada")

    def down():
        raise ServerUnavailable("The aggregator is away.")

    with monkeypatch.context() as patched:
        patched.setattr(server.roles, "public_key", down)
        follow(server, 2 * DAY)
    follow(server, DAY)
    assert states(server.coordinator.series.status(created.id)) == ["done"]


# People.


@pytest.mark.slow
def test_dates_pass_while_a_series_is_paused(server):
    series = server.coordinator.series
    created = series.create(series_request(releases=5), "ada")
    follow(server, DAY)
    paused = series.pause(created.id, "bob")
    assert (paused.state, paused.changed_by, paused.changed) == ("paused", "bob", server.clock.time)
    assert series.pause(created.id, "eve").changed_by == "bob"  # it is paused already
    follow(server, 2 * WEEK)
    server.start()
    series = server.coordinator.series
    assert states(series.status(created.id)) == ["done", "paused", "paused"]
    resumed = series.resume(created.id, "ada")
    assert (resumed.state, resumed.changed_by) == ("running", "ada")
    follow(server, 3 * WEEK)
    status = series.status(created.id)
    assert (status.state, states(status)) == ("done", ["done", "paused", "paused", "done", "done"])


def test_a_date_that_passed_while_paused_is_not_asked_after_resuming(server):
    """Even if no step was made meanwhile, and the date could still be asked."""
    series = server.coordinator.series
    created = series.create(series_request(missed="late"), "ada")
    follow(server, DAY)
    series.pause(created.id, "ada")
    server.clock.time = created.schedule.start + WEEK + HOUR
    series.resume(created.id, "ada")
    follow(server, DAY)
    assert states(series.status(created.id)) == ["done", "paused"]


def test_a_series_that_is_paused_to_its_end_is_done(server):
    created = server.coordinator.series.create(series_request(), "ada")
    server.coordinator.series.pause(created.id, "ada")
    follow(server, 5 * WEEK)
    status = server.coordinator.series.status(created.id)
    assert (status.state, states(status)) == ("done", ["paused"] * 4)


def test_an_ended_series_finishes_the_release_that_runs(server):
    series = server.coordinator.series
    created = series.create(series_request(), "ada")
    server.coordinator.step()
    ended = series.end(created.id, "bob")
    assert (ended.state, ended.next, ended.changed_by, ended.ended) == ("ended", None, "bob", server.clock.time)
    follow(server, 5 * WEEK)
    status = series.status(created.id)
    assert (status.state, states(status), status.ended) == ("ended", ["done"], ended.ended)
    for change in (series.pause, series.resume, series.end):
        assert change(created.id, "eve") == status
    assert server.coordinator.step() is None


def test_a_release_can_be_cancelled_like_any_query(server):
    series = server.coordinator.series
    created = series.create(series_request(), "ada")
    server.coordinator.step()
    query = series.status(created.id).releases[0].query
    server.coordinator.cancel(query, "ada")
    follow(server, 4 * WEEK)
    status = series.status(created.id)
    assert (status.state, states(status)) == ("done", ["cancelled", "done", "done", "done"])
    assert ("unread") in {how for _, how in server.roles.forgotten}


def test_an_unknown_series(server):
    series = server.coordinator.series
    for look in (series.status, lambda id: series.pause(id, "ada"), lambda id: series.end(id, "ada")):
        for id in ("s1", "", "'; DROP TABLE series"):
            with pytest.raises(NotFound, match="series"):
                look(id)


def test_a_release_waits_for_room_and_is_not_lost(server):
    server.start(most_open=1)
    blocking = server.coordinator.submit(request("long", seconds=3 * DAY), "ada")
    created = server.coordinator.series.create(series_request(), "ada")
    follow(server, 2 * DAY)
    series = server.coordinator.series
    assert states(series.status(created.id)) == ["received"]
    with pytest.raises(Conflict, match="no place left"):
        server.coordinator.submit(request("another"), "ada")
    follow(server, 2 * DAY)
    assert states(series.status(created.id)) == ["done"]
    assert server.coordinator.status(blocking.id).state == "done"


@pytest.mark.slow
def test_series_leave_room_for_other_queries(server):
    server.start(most_open=4)
    series = server.coordinator.series
    made = [series.create(series_request(f"s{number}", releases=1, epsilon=0.1), "eve").id for number in range(6)]
    server.coordinator.step()
    assert sorted(states(series.status(each)) for each in made) == [["received"]] * 3 + [["running"]] * 3
    assert server.coordinator.submit(request("small", SMALL), "ada").state == "running"
    with pytest.raises(Conflict, match="at most 4 queries at a time"):
        server.coordinator.submit(request("another", SMALL), "ada")
    follow(server, DAY)
    assert [states(series.status(each)) for each in made] == [["done"]] * 6


@pytest.mark.slow
def test_series_beside_one_another(server):
    series = server.coordinator.series
    hourly = series.create(series_request("hourly", every="hour", releases=30, seconds=HOUR), "ada")
    daily = series.create(series_request("daily", every="day", releases=3), "ada")
    follow(server, 3 * DAY)
    assert states(series.status(hourly.id)) == ["done"] * 30
    assert states(series.status(daily.id)) == ["done"] * 3
    listed = [(each.name, each.released, each.releases) for each in series.all()]
    assert sorted(listed) == [("daily", 3, []), ("hourly", 30, [])]


def test_a_series_that_cannot_be_read_does_not_hold_up_the_others(server):
    series = server.coordinator.series
    broken = series.create(series_request("broken"), "ada")
    whole = series.create(series_request("whole"), "ada")
    with server.store._database.transaction() as transaction:
        transaction.execute("UPDATE series SET schedule = '{' WHERE id = ?", (broken.id,))
    follow(server, DAY)
    assert states(series.status(whole.id)) == ["done"]
    assert [each.id for each in series.all()] == [whole.id]


@pytest.mark.slow
def test_a_long_query_is_stored_once(server):
    domain = tuple(f"value {number:05d}" for number in range(5_000))
    query = dataclasses.replace(HistogramQuery(Values(("word",)), th.plan(**TOTAL)), domain=(*domain, "yes"))
    created = server.coordinator.series.create(series_request(query=query), "ada")
    assert len(created.query["domain"]) == 5_001
    [listed] = server.coordinator.series.all()
    assert "domain" not in listed.query
    follow(server, 4 * WEEK)
    status = server.coordinator.series.status(created.id)
    assert states(status) == ["done"] * 4
    for each in status.releases:
        assert len(server.coordinator.status(each.query).query["domain"]) == 5_001
        assert server.coordinator.answer(each.query)["yes"].estimate > 2_000
    with server.store._database.transaction(write=False) as transaction:
        assert transaction.fetch("SELECT id FROM query_bodies") == [(created.id,)]
    server.close()
    server.store = type(server.store).open(server.ledger.path.parent)  # which moves long queries of earlier versions
    server.start()
    assert len(server.coordinator.status(status.releases[0].query).query["domain"]) == 5_001


# The ledger.


def test_a_ledger_without_the_reservation_is_refused(server, tmp_path):
    server.coordinator.series.create(series_request(), "ada")
    server.ledger = Ledger(tmp_path / "other.db", epsilon=3, delta=1e-4)
    with pytest.raises(Conflict, match="ledger"):
        server.start()


@pytest.mark.slow
def test_a_lost_ledger_is_rebuilt_with_the_reservation(server, tmp_path):
    server.coordinator.submit(request(), "ada")
    created = server.coordinator.series.create(series_request(), "ada")
    follow(server, WEEK)
    again = Ledger(tmp_path / "again.db", 3.0, 1e-4, unit=DEVICE)
    rebuilt = rebuild(server.store, again)
    assert (rebuilt.entered, rebuilt.present, rebuilt.forgotten) == (2, 0, 0)
    amounts = [{(each.reference, each.what, each.epsilon, each.delta, each.rounds) for each in ledger.history()}
               for ledger in (server.ledger, again)]  # fmt: skip
    assert amounts[0] == amounts[1]
    server.ledger = again
    server.start()
    follow(server, 3 * WEEK)
    assert server.coordinator.series.status(created.id).state == "done"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["query", "series"])
def test_what_is_taken_while_others_are_settled_keeps_its_reservation(server, monkeypatch, kind):
    server.coordinator.submit(request("ending"), "ada")
    follow(server, HOUR)
    read = {"query": "queries", "series": "unsettled_series"}[kind]
    reading, taken = getattr(server.store, read), []

    def meanwhile(*arguments):
        found = reading(*arguments)
        if not taken and server.coordinator.payments.unsettled is False:  # in the midst of settling
            taken.append(True)
            if kind == "query":
                server.coordinator.submit(request("meanwhile"), "ada")
            else:
                server.coordinator.series.create(series_request(), "ada")
        return found

    monkeypatch.setattr(server.store, read, meanwhile)
    server.coordinator.payments.unsettled = True
    server.coordinator.step()
    assert taken and len(server.ledger.reserved()) == 1
    follow(server, 5 * WEEK)
    assert {each.state for each in server.coordinator.queries()} == {"done"}


# A year, and crashes.


@pytest.mark.slow
def test_a_year_of_weeks_with_restarts_and_missed_weeks(server):
    created = server.coordinator.series.create(
        series_request(releases=52, start="2023-11-20 09:00", time_zone="America/New_York"), "ada"
    )
    away = {7, 8, 30}
    dear = request("dear", HeavyHittersQuery("word", plan(6, 5e-6, rounds=10), "trie"))
    while server.clock.time < created.last + DAY:
        week = server.coordinator.series.status(created.id).passed
        if week in away:
            due = created.schedule.value.due(week)
            server.clock.time = due + 3 * DAY  # down over this date
        if week == 20:
            with pytest.raises(BudgetExceeded):
                server.coordinator.submit(dear, "bob")
            server.ledger.enlarge(8)
            server.coordinator.submit(msgspec.structs.replace(dear, name="dearer"), "bob")
        server.start()
        follow(server, 2 * DAY if week + 1 in away else 3.3 * DAY)
    status = server.coordinator.series.status(created.id)
    assert status.state == "done"
    assert [index for index, state in enumerate(states(status)) if state == "missed"] == sorted(away)
    assert states(status).count("done") == 49 == status.released
    assert set(server.roles.drawn.values()) == {1} and len(server.roles.drawn) > 49  # with bob's
    charge = next(entry for entry in server.ledger.history() if entry.reference == created.id)
    assert (charge.drawn, charge.given_back) == (49, 3)
    texts = [server.coordinator.releases(each.query) for each in status.releases if each.query]
    assert len({text for [text] in texts}) > 40  # samples of their own
    truth = {"yes": 3_000, "no": 2_000}
    covered = sum(
        lower <= truth[row.bucket] <= upper
        for [text] in texts
        for row in Release.from_json(text)
        for lower, upper in [row.interval]
    )
    assert covered >= 80  # of 98; fewer with probability below 1e-5, where each covers with 95 %


@pytest.mark.slow
def test_a_crash_at_any_call_is_recovered_from(tmp_path):
    """Between any two calls to a store, a ledger or a role: one reservation, one query a date, one draw a round."""
    calls, crashed = 0, True
    while crashed:
        folder = tmp_path / str(calls)
        folder.mkdir()
        server = Server(folder, WORDS)
        asked = series_request(releases=2, query=TRIE, rounds=2)
        crashed, server.calls = False, calls
        for _ in range(2):
            try:
                created = server.coordinator.series.create(asked, "ada")
                follow(server, 2 * WEEK)
                break
            except Crash:
                crashed = True
                server.start()
        server.calls = None
        status = server.coordinator.series.status(created.id)
        assert (status.state, states(status)) == ("done", ["done", "done"])
        assert len(server.ledger.history()) == 1
        assert set(server.roles.drawn.values()) == {1}
        assert server.store.unsettled_series() == []
        for each in status.releases:
            server.coordinator.answer(each.query)
        server.close()
        calls += 17 if calls > 40 else 1
    assert calls > 100


@pytest.mark.slow
def test_pausing_and_ending_from_many_threads(server):
    series = server.coordinator.series
    created = series.create(series_request(every="hour", releases=40), "ada")
    errors: list[Exception] = []

    def work(change):
        try:
            for _ in range(10):
                change()
        except Exception as error:
            errors.append(error)

    def step():
        server.clock.time += HOUR
        server.coordinator.step()

    changes = [step, step, lambda: series.pause(created.id, "a"), lambda: series.resume(created.id, "b")]
    threads = [threading.Thread(target=work, args=(change,)) for change in changes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    series.end(created.id, "c")
    follow(server, DAY)
    assert errors == []
    status = series.status(created.id)
    assert len(states(status)) == status.passed
    assert set(server.roles.drawn.values()) <= {1}
    assert server.store.unsettled_series() == []
