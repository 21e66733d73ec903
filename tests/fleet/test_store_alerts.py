"""The store of rules and alerts, on SQLite and on PostgreSQL: one alert for a rule and a date, whoever judges first."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from thresher.errors import Conflict
from thresher.protocol.states import DeliveryState, QueryState, SeriesState
from thresher.roles.coordinator.alert_store import RuleNumbers, StoredAlert, StoredRule
from thresher.roles.coordinator.series_store import StoredSeries
from thresher.roles.coordinator.store import CoordinatorStore, StoredQuery
from thresher.roles.database.migrations import migrate
from thresher.roles.database.schema import MIGRATIONS

NOW = 1_700_000_000.0
WAITING, SENT, GIVEN_UP = DeliveryState.WAITING, DeliveryState.SENT, DeliveryState.GIVEN_UP


def rule(id="r1", series="s1", webhook=None, created=NOW) -> StoredRule:
    return StoredRule(id, series, "{}", webhook, "ada", created)


def alert(rule="r1", number=0, series="s1", webhook=None, found=NOW) -> StoredAlert:
    waiting = None if webhook is None else WAITING
    next_try = None if webhook is None else found
    return StoredAlert(f"{rule}-{number}", series, rule, number, "words", found, "[]", 0, webhook, waiting, 0, next_try)


def judge(store, number=0, found=None, rule="r1", problem=None, most=100):
    return store.store_judgement(rule, number, found, problem, most_waiting=most)


@pytest.fixture
def store(coordinator):
    """Two series; the first has two releases that are done, and one that is not."""
    for id in ("s1", "s2"):
        coordinator.create_series(
            StoredSeries(id, "ada", id, "histogram", "what", "{}", "{}", "{}", "{}", SeriesState.RUNNING, 0, NOW)
        )
    coordinator.add_rule(rule("early"), 5)
    for number, state in enumerate((QueryState.DONE, QueryState.DONE, QueryState.RUNNING)):
        name = f"s1-{number}"
        coordinator.start_release(
            StoredQuery(name, "ada", name, "h", "w", "{}", "{}", "{}", state, NOW, series="s1", number=number)
        )
    return coordinator


def test_a_rule_begins_after_what_is_done(store):
    assert [each.judged for each in store.rules("s1")] == [-1]
    assert store.series_to_judge() == {"s1"}
    assert store.add_rule(rule(created=NOW + 1), 5).judged == 1
    assert store.add_rule(rule("r2", "s2"), 5).judged == -1
    assert [each.id for each in store.rules("s1")] == ["early", "r1"]
    judge(store, 1, rule="early")
    assert store.series_to_judge() == set()
    store.set_state("s1-2", QueryState.DONE, expected=[QueryState.RUNNING])
    assert store.series_to_judge() == {"s1"}
    assert store.rules("no such\n") == []


def test_a_series_has_so_many_rules(store):
    store.add_rule(rule(), 2)
    with pytest.raises(Conflict, match="2 rules"):
        store.add_rule(rule("r2"), 2)
    assert store.add_rule(rule(), 2).id == "r1"
    store.add_rule(rule("r2", "s2"), 2)
    assert not store.remove_rule("s2", "r1") and not store.remove_rule("s1", "no such\n")
    assert store.remove_rule("s1", "r1") and not store.remove_rule("s1", "r1")
    assert [each.id for each in store.rules("s1")] == ["early"]


def test_many_who_add_rules_at_once_do_not_exceed_the_number(store):
    def add(number):
        try:
            return store.add_rule(rule(f"n{number}"), 4).id
        except Conflict:
            return None

    with ThreadPoolExecutor(4) as pool:
        added = [each for each in pool.map(add, range(8)) if each]
    assert len(added) == 3 and len(store.rules("s1")) == 4


def test_a_date_is_judged_once(store):
    store.add_rule(rule("r1", "s2"), 5)
    assert judge(store, 0, alert(series="s2"))
    assert not judge(store, 0, dataclasses.replace(alert(series="s2"), words="others"))
    assert judge(store, 1, None, problem="odd") and store.rules("s2")[0].problem == "odd"
    assert judge(store, 2, alert(number=2, series="s2")) and store.rules("s2")[0].problem is None
    assert not judge(store, 1, alert(number=1, series="s2"))  # dates are judged in order
    assert not judge(store, 9, alert("gone", 9), rule="gone")
    assert store.alerts("s2", 10) == [alert(number=2, series="s2"), alert(series="s2")]
    assert store.alerts("s2", 1) == [alert(number=2, series="s2")] and store.alerts("s1", 10) == []
    assert store.rule_numbers() == [RuleNumbers("s1", "early", 0, False), RuleNumbers("s2", "r1", 2, True)]
    assert store.rule_numbers("s2") == [RuleNumbers("s2", "r1", 2, True)]
    assert store.standing_alerts(10) == ([alert(number=2, series="s2")], 1)
    judge(store, 3)
    assert store.rule_numbers("s2") == [RuleNumbers("s2", "r1", 2, False)] and store.standing_alerts(10) == ([], 0)


def test_alerts_that_stand_are_found_by_series_that_are_open(store):
    for id in ("s3", "s4"):
        store.create_series(
            StoredSeries(id, "ada", id, "histogram", "what", "{}", "{}", "{}", "{}", SeriesState.RUNNING, 0, NOW)
        )
    for number, series in enumerate(("s2", "s2", "s3", "s4")):
        name = f"n{number}"
        store.add_rule(rule(name, series), 5)
        judge(store, 0, alert(name, 0, series, found=NOW + number), rule=name)
    found, total = store.standing_alerts(2)
    assert [each.rule for each in found] == ["n3", "n2"] and total == 3
    store.set_series_state("s4", SeriesState.ENDED, expected=[SeriesState.RUNNING], by="ada", now=NOW)
    found, total = store.standing_alerts(2)
    assert [each.rule for each in found] == ["n2", "n1", "n0"] and total == 2
    assert store.alert_number("s2") == 2 and store.alert_number("s1") == 0


def test_many_who_judge_at_once_store_one_alert(store):
    store.add_rule(rule("r1", "s2"), 5)
    with ThreadPoolExecutor(4) as pool:
        stored = list(pool.map(lambda _: judge(store, 0, alert(series="s2")), range(8)))
    assert sorted(stored) == [False] * 7 + [True]
    assert len(store.alerts("s2", 10)) == 1


def test_a_rule_that_was_added_again_keeps_its_alerts(store):
    store.add_rule(rule("r1", "s2"), 5)
    judge(store, 0, alert(series="s2"))
    store.remove_rule("s2", "r1")
    assert store.rule_numbers("s2") == [] and len(store.alerts("s2", 10)) == 1
    store.add_rule(rule("r1", "s2"), 5)
    assert judge(store, 0, dataclasses.replace(alert(series="s2"), words="others"))
    [kept] = store.alerts("s2", 10)
    assert kept.words == "words"


def test_messages_wait_and_end_once(store):
    store.add_rule(rule("r1", "s2", webhook="ops"), 5)
    for number in range(4):
        judge(store, number, alert("r1", number, "s2", "ops", NOW + number), most=3)
    assert [each.delivery for each in store.alerts("s2", 10)] == [GIVEN_UP, WAITING, WAITING, WAITING]
    assert [each.number for each in store.due_deliveries(NOW + 1, 10, 10)] == [0, 1]
    assert [each.number for each in store.due_deliveries(NOW + 9, 2, 10)] == [0, 1]
    assert [each.number for each in store.due_deliveries(NOW + 9, 10, 1)] == [0]  # one of a webhook
    store.note_delivery("r1-0", SENT)
    store.note_delivery("r1-0", WAITING, NOW)  # it has ended
    store.note_delivery("r1-1", WAITING, NOW + 50)
    assert [each.number for each in store.due_deliveries(NOW + 9, 10, 10)] == [2]
    [again] = [each for each in store.due_deliveries(NOW + 50, 10, 10) if each.number == 1]
    assert (again.tries, again.next_try, again.delivery) == (1, NOW + 50, WAITING)
    assert store.delivery_numbers() == {WAITING: 2, SENT: 1, GIVEN_UP: 1}
    store.remove_rule("s2", "r1")
    assert store.due_deliveries(NOW + 99, 10, 10) == []
    assert store.delivery_numbers() == {WAITING: 0, SENT: 1, GIVEN_UP: 3}


def test_a_store_from_before_alerts_takes_them(store_url):
    from thresher.roles.database.postgresql import PostgreSQL
    from thresher.roles.database.sqlite import SQLite

    on_postgresql = store_url.startswith("postgresql")
    raw = PostgreSQL(store_url, "thresher_coordinator") if on_postgresql else SQLite(Path(store_url) / "coordinator.db")
    assert migrate(raw, "coordinator", MIGRATIONS["coordinator"][:3]) == 3
    raw.close()
    store = CoordinatorStore.open(store_url)
    assert store.add_rule(rule(), 5) == rule()
    assert judge(store, 0, alert()) and store.alerts("s1", 10) == [alert()]
    store.close()
