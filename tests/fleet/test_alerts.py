"""Alerts at the coordinator: each rule judges each release once, across crashes, and finds released numbers only."""

from __future__ import annotations

import datetime as dt
import json
import re

import pytest
from alert_cases import ABOVE, BELOW, CHANGED, NEVER, Watched
from coordinator_cases import Crash
from series_cases import DAY, HOUR, WEEK, WORDS, follow, series_request

from thresher.errors import Conflict, InvalidFormat, InvalidSetting, NotFound, StoreUnavailable
from thresher.privacy import plan
from thresher.protocol.alert_messages import RuleRequest, StandingList
from thresher.roles.coordinator import alert_judging, alerts
from thresher.verbs import QuantilesQuery, RangesQuery, Rule, histogram
from thresher.verbs.asking import Target, functions, make


@pytest.fixture
def server(tmp_path):
    running = Watched(tmp_path)
    running.follow_words()
    yield running
    running.close()


def test_each_release_is_judged_once_by_each_rule(server):
    above, never = server.watch(ABOVE), server.watch(NEVER)
    assert (above.standing, above.problem, above.by) == (False, None, "ada")
    assert above.words == "yes is above 1,500, by its 95 % interval"
    follow(server, WEEK + DAY)
    shown = server.coordinator.alerts.alerts(server.series)
    assert [(each.index, each.rule) for each in shown] == [(1, above.id), (0, above.id)]
    [found] = shown[0].findings
    answer = server.coordinator.answer(shown[0].query)
    assert found.estimate == answer["yes"].estimate and (found.lower, found.upper) == answer["yes"].interval
    assert shown[0].text == found.text and found.text.startswith("yes is above 1,500: ")
    assert (shown[0].webhook, shown[0].delivery, shown[0].more) == (None, None, 0)
    assert shown[0].date == server.coordinator.series.status(server.series).releases[1].due
    rules = server.coordinator.alerts.rules(server.series).rules
    assert {rule.id: rule.standing for rule in rules} == {above.id: True, never.id: False}
    assert [each.alert.id for each in server.coordinator.alerts.standing().series] == [shown[0].id]
    assert server.coordinator.alerts.alert_number(server.series) == 2


def test_an_alert_stands_until_a_release_does_not_give_it(server):
    server.watch(ABOVE)
    follow(server, DAY)
    assert len(server.coordinator.alerts.standing().series) == 1
    server.roles.values = ["yes"] * 500 + ["no"] * 2_000
    follow(server, WEEK)
    assert server.coordinator.alerts.standing() == StandingList(series=[], more=0)
    assert [index for index, _ in server.found()] == [0]
    [numbers] = server.store.rule_numbers()
    assert (numbers.series, numbers.alerts, numbers.standing) == (server.series, 1, False)


def test_a_change_is_between_two_releases_also_across_a_gap(server):
    server.watch(CHANGED)
    follow(server, DAY)
    server.coordinator.series.pause(server.series, "ada")
    follow(server, WEEK)
    server.coordinator.series.resume(server.series, "ada")
    server.roles.values = ["yes"] * 6_000 + ["no"] * 2_000
    follow(server, WEEK)
    [(index, text)] = server.found()
    assert index == 2 and text.startswith("yes has changed: ")


def test_a_rule_judges_only_what_comes_after_it(server):
    follow(server, DAY)
    rule = server.watch(ABOVE)
    server.start()
    follow(server, DAY)
    assert server.found() == []
    follow(server, WEEK)
    assert [index for index, _ in server.found()] == [1]
    assert server.coordinator.alerts.remove(server.series, rule.id).rules == []
    follow(server, WEEK)
    assert [index for index, _ in server.found()] == [1]  # what was found stays
    assert server.watch(ABOVE).id == rule.id
    follow(server, WEEK)
    assert [index for index, _ in server.found()] == [1, 3]


def test_the_same_rule_is_added_once(server):
    first = server.watch(ABOVE)
    assert server.watch(ABOVE) == first
    assert server.watch(ABOVE, "ops").id != first.id
    listed = server.coordinator.alerts.rules(server.series)
    assert len(listed.rules) == 2 and listed.webhooks == ["chat", "ops"]
    for number in range(alerts.MOST_RULES - 2):
        server.watch(Rule("above", number))
    with pytest.raises(Conflict, match="has 20 rules"):
        server.watch(NEVER)
    assert server.watch(ABOVE) == first  # it is there
    server.coordinator.alerts.remove(server.series, first.id)
    server.coordinator.alerts.remove(server.series, first.id)  # repeated
    server.watch(NEVER)


# Crashes.


@pytest.mark.slow
def test_a_crash_anywhere_neither_loses_nor_repeats_an_alert(tmp_path):
    """Crash before each call to the store or a role in turn, and go on; all runs find the same alerts."""
    crashes = 0
    for calls in range(0, 120, 8):
        folder = tmp_path / str(calls)
        folder.mkdir()
        server = Watched(folder)
        server.follow_words(releases=2)
        server.watch(ABOVE, "ops")
        server.watch(BELOW)
        server.calls = calls
        try:
            follow(server, WEEK + DAY)
        except Crash:
            crashes += 1
        server.calls = None
        server.start()
        follow(server, WEEK + DAY)
        released = [each.index for each in server.coordinator.series.status(server.series).releases if each.ended]
        assert sorted(index for index, _ in server.found()) == sorted(2 * released)
        assert len(server.coordinator.alerts.due_deliveries(10)) == len(released)
        server.close()
    assert crashes > 7


def test_a_judgement_that_was_stored_is_not_made_again(server, monkeypatch):
    server.watch(ABOVE)
    storing = server.store.store_judgement

    def crash_after(*arguments, **settings):
        storing(*arguments, **settings)
        raise Crash

    with monkeypatch.context() as patched:
        patched.setattr(server.store, "store_judgement", crash_after)
        with pytest.raises(Crash):
            follow(server, DAY)
    server.start()
    monkeypatch.setattr(alerts, "judged", lambda *_: pytest.fail("judged again"))
    follow(server, DAY)
    assert len(server.found()) == 1


def test_a_store_that_is_away_delays_judging(server, monkeypatch):
    server.watch(ABOVE)

    def away(*_, **__):
        raise StoreUnavailable("The database is away.")

    for name in ("series_to_judge", "store_judgement"):
        with monkeypatch.context() as patched:
            patched.setattr(server.store, name, away)
            follow(server, HOUR * 2)
            assert server.found() == []
    follow(server, HOUR)
    assert len(server.found()) == 1


def test_a_step_judges_for_a_short_time_only(server, monkeypatch):
    """What a crash left is made up for bit by bit, and rounds go on meanwhile."""
    server.watch(ABOVE)
    server.watch(NEVER)
    with monkeypatch.context() as patched:
        patched.setattr(server.coordinator.alerts, "judge_due", lambda: None)
        follow(server, 2 * WEEK + DAY)
    judgements, storing = [], server.store.store_judgement
    monkeypatch.setattr(
        server.store, "store_judgement", lambda *given, **more: judgements.append(given[1]) or storing(*given, **more)
    )
    server.start()
    ticks = iter(range(100))
    server.coordinator.alerts._timer = lambda: next(ticks) * alerts.SLICE_SECONDS  # a judgement takes all the time
    for number in range(6):
        assert server.coordinator.step() == 0.0
        assert judgements == [0, 0, 1, 1, 2, 2][: number + 1]
    assert server.coordinator.step() > 0
    assert [index for index, _ in server.found()] == [0, 1, 2]


# What cannot be judged.


def test_a_rule_that_cannot_be_judged_holds_up_nobody(server, monkeypatch, caplog):
    broken, whole = server.watch(CHANGED), server.watch(ABOVE)
    real = alert_judging.judged

    def judged(rule, points):
        if rule == CHANGED:
            raise ZeroDivisionError("canary")
        return real(rule, points)

    with monkeypatch.context() as patched:
        patched.setattr(alerts, "judged", judged)
        follow(server, DAY)
    assert [index for index, _ in server.found()] == [0]
    problems = {rule.id: rule.problem for rule in server.coordinator.alerts.rules(server.series).rules}
    assert problems == {broken.id: "The last release could not be judged (internal).", whole.id: None}
    assert "canary" not in caplog.text and "ZeroDivisionError" in caplog.text
    follow(server, WEEK)
    assert {rule.problem for rule in server.coordinator.alerts.rules(server.series).rules} == {None}


def test_releases_that_cannot_be_read_hold_up_nobody(server):
    server.watch(ABOVE)
    other = server.series
    server.follow_words(name="other")
    server.watch(ABOVE)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(server.coordinator.alerts, "judge_due", lambda: None)
        follow(server, DAY)
    with server.store._database.transaction() as transaction:
        transaction.execute("UPDATE rounds SET release = '{}' WHERE query = ?", (f"{other}-0",))
    server.start()
    follow(server, DAY)
    [rule] = server.coordinator.alerts.rules(other).rules
    assert "could not be judged" in rule.problem and server.coordinator.alerts.alerts(other) == []
    assert len(server.found()) == 1


def test_rows_that_cannot_be_read_hide_no_others(server, caplog):
    broken, whole = server.watch(Rule("above", 10)), server.watch(ABOVE, "ops")
    follow(server, DAY)
    with server.store._database.transaction() as transaction:
        transaction.execute("UPDATE rules SET rule = 'canary' WHERE id = ?", (broken.id,))
        transaction.execute("UPDATE alerts SET findings = 'canary' WHERE rule = ?", (broken.id,))
    keeper = server.coordinator.alerts
    words = {rule.id: rule.words for rule in keeper.rules(server.series).rules}
    assert words == {broken.id: "This rule cannot be read.", whole.id: whole.words}
    assert [alert.rule for alert in keeper.alerts(server.series)] == [whole.id]
    assert [each.alert.rule for each in keeper.standing().series] == [whole.id]
    with server.store._database.transaction() as transaction:
        transaction.execute("UPDATE alerts SET findings = 'canary'")
    assert keeper.due_deliveries(10) == [] and server.store.delivery_numbers()["given up"] == 1
    follow(server, WEEK)
    assert [alert.index for alert in keeper.alerts(server.series)] == [1]
    assert "canary" not in caplog.text and "cannot be read" in caplog.text


def test_too_many_numbers_are_not_judged(server, monkeypatch):
    limits = dict(alert_judging.MOST_NUMBERS)
    assert max(limits.values()) <= 20_000 and limits["changed"] <= 5_000  # about half a second
    monkeypatch.setattr(alert_judging, "MOST_NUMBERS", limits | {"changed": 1})
    server.watch(CHANGED)
    server.watch(ABOVE)
    follow(server, WEEK + DAY)
    problems = [rule.problem for rule in server.coordinator.alerts.rules(server.series).rules]
    said = "rule of the kind changed cannot be judged where releases have more than 1 numbers."
    assert sorted(map(str, problems)) == ["None", said]
    assert len(server.found()) == 2
    monkeypatch.setattr(alert_judging, "MOST_NUMBERS", dict.fromkeys(limits, 1))
    follow(server, WEEK)
    assert {rule.problem is None for rule in server.coordinator.alerts.rules(server.series).rules} == {False}
    assert len(server.found()) == 2


def test_the_numbers_of_a_release_that_has_too_many_are_not_read(monkeypatch):
    monkeypatch.setattr(alert_judging, "MOST_NUMBERS", dict.fromkeys(alert_judging.MOST_NUMBERS, 1))
    answer = histogram(["yes"] * 3_000 + ["no"] * 3_000, "value", plan=plan(1, 1e-6))
    monkeypatch.setattr(type(answer), "readings", lambda *_: pytest.fail("they were read"))
    date = dt.datetime(2026, 1, 5, tzinfo=dt.UTC)
    with pytest.raises(InvalidSetting, match="more than 1 numbers"):
        alert_judging.judged(Rule("above", 5, bucket="yes"), [(date, answer)])


def test_only_the_first_findings_are_kept(tmp_path):
    server = Watched(tmp_path, [f"w{number}" for number in range(15) for _ in range(3_000)])
    server.follow_words()
    server.watch(Rule("above", 100))
    follow(server, DAY)
    [alert] = server.coordinator.alerts.alerts(server.series)
    assert len(alert.findings) == alert_judging.MOST_FINDINGS == 10 and alert.more == 5
    assert alert.text.endswith("And 5 more.")
    server.close()


# Before a rule is stored.


QUANTILES = QuantilesQuery("age", (0.5, 0.99), plan(1, 1e-6, rounds=7), 0, 128, "search")
RANGES = RangesQuery("age", plan(1, 1e-6, rounds=7), 0, 128)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "right", "wrong"),
    [
        (QUANTILES, [0.5, "50 %"], [0.7, "no"]),
        (RANGES, [(18, 65), "0 to under 8", None], [(0, 500), 18, "0 to under 9"]),
    ],
)
@pytest.mark.parametrize("kind", ["above", "below", "changed"])
def test_a_bucket_must_be_one_that_the_series_asks_for(server, query, right, wrong, kind):
    server.follow_words(name="ages", query=query, rounds=7)
    bound = None if kind == "changed" else 3
    for bucket in right:
        assert server.watch(Rule(kind, bound, bucket=bucket)).problem is None
    for bucket in wrong:
        with pytest.raises(InvalidSetting):
            server.watch(Rule(kind, bound, bucket=bucket))
    assert len(server.coordinator.alerts.rules(server.series).rules) == len(right)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["above", "below", "changed"])
@pytest.mark.parametrize("verb", sorted(functions()))
def test_every_verb_takes_rules(server, verb, kind):
    settings = {"lower": 0, "upper": 100} if verb in ("mean", "quantiles", "ranges") else {}
    settings |= {"probabilities": [0.5]} if verb == "quantiles" else {}
    query = make(verb, Target(1.0, 1e-6), {"column": "word"} | settings)
    server.follow_words(name="other", query=query, rounds=query.plan.rounds)
    assert server.watch(Rule(kind, None if kind == "changed" else 5)).problem is None
    follow(server, 2 * WEEK)
    assert [rule.problem for rule in server.coordinator.alerts.rules(server.series).rules] == [None]


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ({}, InvalidFormat), ({"kind": "above"}, InvalidSetting), ({"kind": "odd"}, InvalidSetting),
        ({"kind": "above", "bound": 10**400}, InvalidSetting), ({"kind": "changed", "bucket": {}}, InvalidSetting),
        ({"kind": "changed", "canary": 1}, InvalidFormat), ({"kind": "changed", "bucket": "\ud800"}, InvalidFormat),
        ({"kind": "changed", "bucket": ["x" * 900] * 9}, InvalidSetting),
    ],
)  # fmt: skip
def test_a_rule_that_is_wrong_is_not_stored(server, content, error):
    with pytest.raises(error) as raised:
        server.coordinator.alerts.add(server.series, RuleRequest(rule=content), "ada")
    assert "canary" not in str(raised.value)
    assert server.coordinator.alerts.rules(server.series).rules == []


def test_only_allowed_webhooks_may_be_named(server):
    with pytest.raises(InvalidSetting, match="webhook must be the name of one") as raised:
        server.watch(ABOVE, "evil")
    assert "Allowed: chat, ops." in raised.value.hint
    server.start(webhooks=())
    with pytest.raises(InvalidSetting) as raised:
        server.watch(ABOVE, "ops")
    assert "--alert-webhook" in raised.value.hint
    assert server.coordinator.alerts.rules(server.series).rules == []


def test_unknown_and_ended_series(server):
    keeper = server.coordinator.alerts
    for call in (keeper.rules, keeper.alerts, lambda series: keeper.remove(series, "r1")):
        with pytest.raises(NotFound):
            call("nowhere")
    with pytest.raises(NotFound):
        keeper.add("nowhere", RuleRequest(rule=ABOVE.to_dict()), "ada")
    server.coordinator.series.end(server.series, "ada")
    with pytest.raises(Conflict, match="has ended"):
        server.watch(ABOVE)


def test_a_series_that_cannot_be_read_takes_no_rule(server):
    with server.store._database.transaction() as transaction:
        transaction.execute("UPDATE series SET query = 'canary'")
    with pytest.raises(InvalidFormat, match="cannot be read") as raised:
        server.watch(ABOVE)
    assert "canary" not in str(raised.value)


# What is sent.


def test_a_message_has_released_numbers_only(server):
    server.roles.values = [*WORDS, "canary"]
    server.start(public_url="https://fleet.example")
    server.watch(Rule("above", 1_000), "ops")
    server.watch(Rule("below", 5_000, bucket="rare"), "chat")
    follow(server, WEEK + DAY)
    bodies = [delivery.body for delivery in server.coordinator.alerts.due_deliveries(10)]
    assert len(bodies) == 4
    released = {0: set(), 1: set()}
    for number in (0, 1):
        answer = server.coordinator.answer(f"{server.series}-{number}")
        for row in answer:
            place = answer.release.buckets.index(row.bucket)
            released[number] |= {row.estimate, *answer.release.intervals_at(0.975)[place]}
    for body in bodies:
        content = json.loads(body)
        assert set(content) == {
            "id", "series", "name", "what", "rule", "words", "date", "text", "findings", "more", "link"
        }  # fmt: skip
        assert content["link"] == f"https://fleet.example/series/{server.series}"
        assert (content["name"], content["what"]) == ("weekly", "histogram of word")
        assert re.fullmatch(r"r[0-9a-f]{16}-[01]", content["id"]) and content["date"].startswith("2023-11-")
        assert b"canary" not in body
        for finding in content["findings"]:
            assert set(finding) == {"bucket", "estimate", "lower", "upper", "text"}
            if finding["bucket"] == "rare":  # it was not released: what is said follows from the plan alone
                assert finding["estimate"] is finding["lower"] is None
            else:
                assert {finding["estimate"], finding["lower"], finding["upper"]} <= released[int(content["id"][-1])]


def test_failed_tries_are_made_again_and_then_given_up(server):
    keeper = server.coordinator.alerts
    server.watch(ABOVE, "ops")
    follow(server, DAY)
    body = None
    for number, pause in enumerate((*alerts.PAUSES, None)):
        [delivery] = keeper.due_deliveries(10)
        assert (delivery.webhook, delivery.tries) == ("ops", number)
        assert body in (None, delivery.body)
        body = delivery.body
        assert body.decode() not in repr(delivery)
        keeper.note_failed(delivery)
        assert keeper.due_deliveries(10) == []
        if pause is not None:
            server.clock.time += pause - 1
            assert keeper.due_deliveries(10) == []
            server.clock.time += 1
            server.start()  # pauses are kept
            keeper = server.coordinator.alerts
    server.clock.time += WEEK
    assert keeper.due_deliveries(10) == []
    [alert] = keeper.alerts(server.series)
    assert (alert.delivery, alert.tries) == ("given up", len(alerts.PAUSES) + 1)


def test_what_was_sent_and_whose_rule_was_removed_is_not_sent(server):
    keeper = server.coordinator.alerts
    server.watch(ABOVE, "ops")
    removed = server.watch(ABOVE, "chat")
    follow(server, DAY)
    deliveries = {each.webhook: each for each in keeper.due_deliveries(10)}
    keeper.remove(server.series, removed.id)
    keeper.note_sent(deliveries["ops"])
    keeper.note_sent(deliveries["chat"])  # it was under way
    assert keeper.due_deliveries(10) == []
    states = {alert.webhook: alert.delivery for alert in keeper.alerts(server.series)}
    assert states == {"ops": "sent", "chat": "given up"}


def test_a_long_queue_takes_no_more(server, monkeypatch):
    monkeypatch.setattr(alerts, "MOST_WAITING", 1)
    server.watch(ABOVE, "ops")
    follow(server, WEEK + DAY)
    assert len(server.coordinator.alerts.due_deliveries(10)) == 1
    assert [alert.delivery for alert in server.coordinator.alerts.alerts(server.series)] == ["given up", "waiting"]


def test_a_series_request_is_not_changed_by_rules(server):
    """Asking again for a series under its name returns it, whatever rules it has meanwhile."""
    server.watch(ABOVE)
    assert server.coordinator.series.create(series_request(), "ada").id == server.series
