"""What the stores of aggregator and coordinator promise, on SQLite and on PostgreSQL: each thing is written once."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from store_cases import NOW

from thresher.errors import Conflict, NotFound
from thresher.mechanism.response import RoundNumbers
from thresher.roles.aggregator.store import AggregatorStore
from thresher.roles.coordinator.store import NewRound, StoredQuery

# The aggregator


def test_batches_are_kept_once_until_the_release(aggregator):
    assert aggregator.add_batch("r1", 1, b"digest 1", b"reports 1")
    assert aggregator.add_batch("r1", 0, b"digest 0", b"reports 0")
    assert not aggregator.add_batch("r1", 1, b"digest 1", b"reports 1")
    with pytest.raises(Conflict):
        aggregator.add_batch("r1", 1, b"digest 2", b"reports 2")
    assert aggregator.batch_numbers("r1") == [0, 1]
    assert aggregator.batch("r1", 1) == b"reports 1"
    for round, number in (("r1", 2), ("r2", 0), ("odd\0", 0)):
        with pytest.raises(NotFound):
            aggregator.batch(round, number)
    with pytest.raises(NotFound):
        aggregator.add_batch("odd\0", 0, b"", b"")
    assert aggregator.batch_numbers("r2") == []
    assert aggregator.release("r1") is None
    aggregator.open_round("r1", b"hash")
    aggregator.open_round("r1", b"hash")
    with pytest.raises(Conflict):
        aggregator.open_round("r1", b"other")
    assert aggregator.store_release("r1", '{"first": 1}', malformed=2, duplicates=3) == '{"first": 1}'
    assert aggregator.store_release("r1", '{"second": 2}', malformed=9) == '{"first": 1}'
    assert aggregator.rounds_to_forget() == ["r1"]
    assert aggregator.batch("r1", 0) == b"reports 0"
    with pytest.raises(Conflict):
        aggregator.add_batch("r1", 2, b"digest 2", b"reports 2")
    aggregator.forget("r1")
    aggregator.forget("r1")
    aggregator.forget("unknown")
    assert aggregator.rounds_to_forget() == []
    assert aggregator.batch_numbers("r1") == []
    assert not aggregator.add_batch("r1", 1, b"digest 1", b"reports 1"), "known ones are acknowledged again"
    assert aggregator.release("r1") == '{"first": 1}'
    assert aggregator.dropped() == (2, 3)
    aggregator.open_round("r1", b"hash")
    with pytest.raises(NotFound):
        aggregator.store_release("r9", "{}")


def test_reports_deleted_unread_are_never_released(aggregator):
    aggregator.add_batch("r1", 0, b"digest", b"reports")
    aggregator.forget("r1")
    assert aggregator.rounds_to_forget() == []
    assert aggregator.batch_numbers("r1") == []
    for late in (
        lambda: aggregator.add_batch("r1", 1, b"other", b"late"),
        lambda: aggregator.open_round("r1", b"hash"),
        lambda: aggregator.store_release("r1", "{}"),
    ):
        with pytest.raises(Conflict):
            late()
    assert aggregator.release("r1") is None


@pytest.mark.slow
def test_one_release_stands_when_two_are_stored_at_once(store_url):
    stores = [AggregatorStore.open(store_url) for _ in range(2)]
    for attempt in range(10):
        name = f"r{attempt}"
        stores[0].open_round(name, b"hash")
        begun = threading.Barrier(2)

        def store_it(worker, name=name, begun=begun):
            begun.wait()
            return stores[worker].store_release(name, f'{{"by": {worker}}}')

        with ThreadPoolExecutor(2) as pool:
            returned = list(pool.map(store_it, range(2)))
        assert returned[0] == returned[1] == stores[0].release(name)
    for store in stores:
        store.close()


# The coordinator


def query(id="q1", name="daily", by="ann", created=NOW):
    return StoredQuery(id, by, name, "histogram", "what", "{}", "{}", '{"plan": 1}', "received", created)


def test_queries_are_idempotent_by_caller_and_name(coordinator):
    assert coordinator.create_query(query()) == (query(), True)
    assert coordinator.create_query(query(id="q2")) == (query(), False)
    other, new = coordinator.create_query(query(id="q3", by="bob", created=NOW - 5))
    assert new and other.id == "q3"
    assert coordinator.query("q1") == query()
    assert coordinator.query("q2") is None
    assert coordinator.query("odd\0") is None
    assert [found.id for found in coordinator.queries()] == ["q3", "q1"]
    assert coordinator.set_state("q1", "running", expected=["received"])
    assert not coordinator.set_state("q1", "running", expected=["received"])
    assert not coordinator.set_state("q9", "running", expected=["received"])
    assert [found.id for found in coordinator.queries(["running"])] == ["q1"]
    assert coordinator.set_state("q1", "failed", expected=["running", "received"], ended=NOW + 9, problem="key lost")
    ended = coordinator.query("q1")
    assert (ended.state, ended.ended, ended.problem) == ("failed", NOW + 9, "key lost")


def test_only_old_refusals_are_forgotten(coordinator):
    for number in range(4):
        coordinator.create_query(query(id=f"q{number}", name=f"n{number}", created=NOW + number))
    for number in (0, 1, 3):
        coordinator.set_state(f"q{number}", "refused", expected=["received"], ended=NOW)
    coordinator.delete_refused(2)
    assert [found.id for found in coordinator.queries()] == ["q1", "q2", "q3"]
    coordinator.delete_refused(0)
    assert [found.id for found in coordinator.queries()] == ["q2"]


def test_rounds_and_releases_are_written_once(coordinator):
    def plan(index, round, configuration=b"{}"):
        coordinator.plan_rounds("q1", [NewRound(index, round, configuration, NOW + 60, 5)], NOW)
        return coordinator.rounds("q1")[index]

    first = plan(0, "q1-0")
    assert plan(0, "another", b"{other}") == first
    assert (first.round, first.index, first.configuration, first.state, first.target) == (
        "q1-0",
        0,
        b"{}",
        "planned",
        5,
    )
    plan(1, "q1-1")
    coordinator.set_round_state("q1-0", "open", opened=NOW + 1)
    coordinator.set_round_state("q1-0", "closed", numbers=RoundNumbers(9, 8, 7), closed=NOW + 2)
    coordinator.set_round_state("q1-0", "forwarded", batches=1)
    found = coordinator.round("q1-0")
    assert (found.asked, found.contacted, found.completed, found.batches) == (9, 8, 7, 1)
    assert (found.opened, found.closed, found.released, found.state) == (NOW + 1, NOW + 2, None, "forwarded")
    assert coordinator.releases("q1") == []
    assert coordinator.store_release("q1-1", '{"r": 1}', NOW + 3) == '{"r": 1}'
    assert coordinator.releases("q1") == []  # held back until those before it are there
    assert coordinator.store_release("q1-0", '{"r": 0}', NOW + 4) == '{"r": 0}'
    assert coordinator.store_release("q1-0", '{"r": 2}', NOW + 5) == '{"r": 0}'
    coordinator.set_round_state("q1-0", "dropped")
    assert [(round.round, round.state, round.released) for round in coordinator.rounds("q1")] == [
        ("q1-0", "released", NOW + 4),
        ("q1-1", "released", NOW + 3),
    ]
    assert coordinator.releases("q1") == ['{"r": 0}', '{"r": 1}']
    assert coordinator.rounds("q2") == [] == coordinator.releases("odd\0")
    assert coordinator.round("q9") is None
    with pytest.raises(NotFound):
        coordinator.store_release("q9", "{}", NOW)


def test_only_open_rounds_are_ended_and_never_later_than_they_were(coordinator):
    states = ["released", "open", "open", "closed"]
    rounds = [NewRound(index, f"q1-{index}", b"{}", NOW + 60, None) for index, _ in enumerate(states)]
    coordinator.plan_rounds("q1", rounds, NOW)
    coordinator.plan_rounds("q2", [NewRound(0, "q2-0", b"{}", NOW + 60, None)], NOW)
    for index, state in enumerate(states):
        coordinator.set_round_state(f"q1-{index}", state)
    coordinator.set_round_state("q2-0", "open")
    assert coordinator.end_open_rounds("q1", NOW + 5) == 2
    assert coordinator.end_open_rounds("q1", NOW + 9) == 2
    assert [round.deadline - NOW for round in coordinator.rounds("q1")] == [60, 5, 5, 60]
    assert [round.deadline - NOW for round in coordinator.rounds("q2")] == [60]
    assert coordinator.end_open_rounds("q9", NOW) == 0
    coordinator.plan_rounds("q2", [NewRound(1, "q2-1", b"{}", NOW + 60, None)], NOW)
    assert coordinator.end_open_rounds("q2", NOW) == 0  # its step is opening
    assert [round.deadline - NOW for round in coordinator.rounds("q2")] == [60, 60]


def test_tokens_expire_and_are_revoked(coordinator):
    assert coordinator.add_token("t1", "analyst", b"h1", "Ann", now=NOW)
    assert coordinator.add_token("t2", "operator", b"h2", "Op", now=NOW + 1, expires=NOW + 10)
    assert not coordinator.add_token("t3", "operator", b"h1", "Eve", now=NOW)
    assert [token.id for token in coordinator.tokens()] == ["t1", "t2"]
    assert coordinator.token(b"h3") is None
    assert coordinator.token(b"h1").valid(NOW)
    assert coordinator.token(b"h2").valid(NOW + 9.9) and not coordinator.token(b"h2").valid(NOW + 10)
    assert coordinator.revoke_token("t1", NOW + 2)
    assert coordinator.revoke_token("t1", NOW + 3)
    assert coordinator.token(b"h1").revoked == NOW + 2
    assert not coordinator.token(b"h1").valid(NOW)
    assert not coordinator.revoke_token("t9", NOW) and not coordinator.revoke_token("\0", NOW)
