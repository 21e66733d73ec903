"""The store of series, on SQLite and on PostgreSQL: a date has one query or one gap, whoever asks first."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from thresher.errors import ThresherError
from thresher.protocol.states import GapState, QueryState, SeriesState
from thresher.roles.coordinator.series_store import StoredRelease, StoredSeries
from thresher.roles.coordinator.store import CoordinatorStore, NewRound, StoredQuery
from thresher.roles.database.migrations import migrate
from thresher.roles.database.schema import MIGRATIONS

NOW = 1_700_000_000.0
RUNNING, PAUSED, ENDED = SeriesState.RUNNING, SeriesState.PAUSED, SeriesState.ENDED


def series(id="s1", by="ada", name="weekly", state=RUNNING, query="{}", created=NOW) -> StoredSeries:
    return StoredSeries(id, by, name, "histogram", "what", query, "{}", "{}", "{}", state, 0, created)


def query(number=0, series="s1", name=None) -> StoredQuery:
    id = f"{series}-{number}"
    return StoredQuery(
        id,
        "ada",
        name or id,
        "histogram",
        "what",
        "{}",
        "{}",
        "{}",
        QueryState.RECEIVED,
        NOW,
        series=series,
        number=number,
    )


def test_a_name_is_one_series(coordinator):
    stored, new = coordinator.create_series(series())
    assert new and stored == series() == coordinator.series("s1") == coordinator.series_outline("s1")
    again, new = coordinator.create_series(series("s2"))
    assert not new and again == stored and coordinator.series("s2") is None
    coordinator.create_series(series("s3", by="bob", created=NOW + 1))
    assert [each.id for each in coordinator.all_series()] == ["s1", "s3"]
    assert coordinator.series_named("bob", "weekly").id == "s3"
    assert coordinator.series_named("eve", "weekly") is None
    assert coordinator.series_asked_by() == {"s1": "ada", "s3": "bob"}
    assert coordinator.count_series([RUNNING]) == 2 and coordinator.count_series([PAUSED, ENDED]) == 0
    assert coordinator.series("no such\n") is None


def test_a_long_query_is_whole_only_where_it_is_asked_for(coordinator):
    long = '{"domain":[' + ",".join(f'"{number}"' for number in range(3_000)) + '],"plan":{}}'
    coordinator.create_series(series(query=long))
    assert coordinator.series("s1").query == long
    assert coordinator.series_outline("s1").query == coordinator.all_series()[0].query == '{"plan":{}}'
    release = dataclasses.replace(query(), query='{"plan":{}}')
    assert coordinator.start_release(release)
    assert coordinator.query("s1-0").query == long and coordinator.outline("s1-0").query == '{"plan":{}}'


def test_a_date_has_one_query(coordinator):
    coordinator.create_series(series())
    assert not coordinator.start_release(query(1))  # not the next date
    assert coordinator.start_release(query(0))
    assert not coordinator.start_release(query(0, name="again"))
    assert coordinator.start_release(query(1))
    assert coordinator.series("s1").passed == 2
    assert [each.id for each in coordinator.queries()] == ["s1-0", "s1-1"]
    assert coordinator.query("s1-1") == query(1)
    coordinator.set_state("s1-1", QueryState.DONE, expected=[QueryState.RECEIVED], ended=NOW + 5)
    assert coordinator.releases_of("s1") == [
        StoredRelease(0, "s1-0", QueryState.RECEIVED, None),
        StoredRelease(1, "s1-1", QueryState.DONE, NOW + 5),
    ]
    assert coordinator.released() == {"s1": 1}
    assert coordinator.asking("s1")
    coordinator.set_state("s1-0", QueryState.FAILED, expected=[QueryState.RECEIVED], ended=NOW + 5)
    assert not coordinator.asking("s1")


def test_many_who_ask_for_a_date_at_once_get_one_query(coordinator):
    coordinator.create_series(series())
    with ThreadPoolExecutor(4) as pool:
        started = list(pool.map(lambda each: coordinator.start_release(query(0, name=f"n{each}")), range(8)))
    assert sorted(started) == [False] * 7 + [True]
    assert len(coordinator.queries()) == coordinator.series("s1").passed == 1


@pytest.mark.parametrize("state", [SeriesState.RECEIVED, PAUSED, SeriesState.DONE, ENDED])
def test_only_a_running_series_asks(coordinator, state):
    coordinator.create_series(series(state=state))
    assert not coordinator.start_release(query(0))
    assert coordinator.queries() == [] and coordinator.series("s1").passed == 0


def test_a_query_that_cannot_be_stored_leaves_the_date_as_it_was(coordinator):
    coordinator.create_series(series())
    coordinator.create_query(dataclasses.replace(query(0, name="taken"), id="q1", series=None, number=None))
    with pytest.raises(ThresherError):
        coordinator.start_release(query(0, name="taken"))
    assert coordinator.series("s1").passed == 0
    assert coordinator.start_release(query(0))


def test_gaps(coordinator):
    coordinator.create_series(series())
    assert coordinator.pass_dates("s1", 0, 2, GapState.MISSED)
    assert not coordinator.pass_dates("s1", 0, 2, GapState.PAUSED)
    assert not coordinator.start_release(query(1))
    assert coordinator.start_release(query(2))
    assert coordinator.pass_dates("s1", 3, 4, GapState.PAUSED)
    assert coordinator.gaps("s1") == {0: GapState.MISSED, 1: GapState.MISSED, 3: GapState.PAUSED}
    assert coordinator.series("s1").passed == 4
    assert coordinator.gaps("s2") == {}
    coordinator.set_series_state("s1", ENDED, expected=[RUNNING], now=NOW, by="ada", ended=True)
    assert not coordinator.pass_dates("s1", 4, 5, GapState.MISSED)


def test_states_and_who_changed_them(coordinator):
    coordinator.create_series(series(state=SeriesState.RECEIVED))
    received = [SeriesState.RECEIVED]
    assert coordinator.set_series_state("s1", RUNNING, expected=received, now=NOW + 1)
    assert coordinator.series("s1").changed_by is coordinator.series("s1").changed is None
    assert coordinator.set_series_state("s1", PAUSED, expected=[RUNNING], now=NOW + 2, by="bob")
    assert not coordinator.set_series_state("s1", PAUSED, expected=[RUNNING], now=NOW + 3, by="eve")
    stored = coordinator.series("s1")
    assert (stored.state, stored.changed, stored.changed_by, stored.ended) == (PAUSED, NOW + 2, "bob", None)
    assert coordinator.set_series_state("s1", ENDED, expected=[PAUSED], now=NOW + 4, by="ada", ended=True)
    assert coordinator.series("s1").ended == NOW + 4
    assert [each.id for each in coordinator.unsettled_series()] == ["s1"]
    coordinator.settle_series("s1", NOW + 5)
    coordinator.settle_series("s1", NOW + 6)
    assert coordinator.unsettled_series() == [] and coordinator.series("s1").settled == NOW + 5


def test_only_what_was_not_reserved_is_deleted(coordinator):
    coordinator.create_series(series())
    coordinator.create_series(series("s2", name="other", state=SeriesState.RECEIVED))
    coordinator.delete_received_series("s1")
    coordinator.delete_received_series("s2")
    assert [each.id for each in coordinator.all_series()] == ["s1"]


def test_the_ledger_must_have_the_series_and_not_its_queries(coordinator):
    coordinator.create_series(series())
    coordinator.create_series(series("s2", name="other", state=SeriesState.RECEIVED))
    coordinator.start_release(query(0))
    coordinator.set_state("s1-0", QueryState.RUNNING, expected=[QueryState.RECEIVED])
    coordinator.plan_rounds("s1-0", [NewRound(0, "s1-0-r0", b"{}", NOW, None)], NOW)
    alone = dataclasses.replace(query(), id="q1", name="q1", series=None, number=None, state=QueryState.RUNNING)
    coordinator.create_query(alone)
    assert coordinator.charged_ids() == {"s1", "q1"}
    assert coordinator.asked_by() == {"q1": "ada"}


def test_a_store_from_before_series_takes_them(store_url):
    from thresher.roles.database.postgresql import PostgreSQL
    from thresher.roles.database.sqlite import SQLite

    on_postgresql = store_url.startswith("postgresql")
    raw = PostgreSQL(store_url, "thresher_coordinator") if on_postgresql else SQLite(Path(store_url) / "coordinator.db")
    assert migrate(raw, "coordinator", MIGRATIONS["coordinator"][:2]) == 2
    with raw.transaction() as transaction:
        transaction.execute(
            "INSERT INTO queries (id, asked_by, name, verb, what, query, settings, prepared, state, created) "
            "VALUES ('q1', 'ada', 'a', 'histogram', 'what', '{}', '{}', '{}', 'running', 1.0)"
        )
    raw.close()
    store = CoordinatorStore.open(store_url)
    [before] = store.queries()
    assert (before.id, before.series, before.number) == ("q1", None, None)
    store.create_series(series())
    assert store.start_release(query(0))
    assert store.charged_ids() == {"q1", "s1"}
    store.close()
