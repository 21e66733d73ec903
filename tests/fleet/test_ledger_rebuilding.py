"""A ledger that was lost is made again from the coordinator's store, with all that was ever charged."""

from __future__ import annotations

import json

import pytest
from coordinator_cases import MINUTE, Server, request
from server_cases import histogram_request, inside
from typer.testing import CliRunner

import thresher as th
from thresher.cli.app import app
from thresher.errors import BudgetExceeded, Conflict, InvalidFormat, InvalidSetting
from thresher.ledger import Ledger
from thresher.privacy import DEVICE
from thresher.roles.coordinator.ledger_rebuilding import rebuild
from thresher.roles.coordinator.store import CoordinatorStore, NewRound, StoredQuery
from thresher.server.server_ledger import FleetBudget, rebuild_ledger
from thresher.verbs import HeavyHittersQuery

TRIE = HeavyHittersQuery("word", th.plan(epsilon=0.5, delta=1e-6, rounds=2), "trie")


@pytest.fixture
def server(tmp_path):
    running = Server(tmp_path, ["yes"] * 3_000, epsilon=4.0)
    yield running
    running.close()


def used(server):
    """One query is done, one was cancelled after its first release, one runs, and one did not fit the budget."""
    coordinator = server.coordinator
    coordinator.submit(request("done"), "ada")
    server.run()
    stopped = coordinator.submit(request("stopped", TRIE), "ada").id
    while not coordinator.releases(stopped):
        coordinator.step()
        server.clock.time += MINUTE
    coordinator.cancel(stopped, "ada")
    coordinator.submit(request("running"), "bob")
    with pytest.raises(BudgetExceeded):
        coordinator.submit(request("refused", HeavyHittersQuery("word", th.plan(20, 1e-4))), "ada")
    return server.ledger.history()


def amounts(entries):
    return {
        (entry.reference, entry.what, entry.epsilon, entry.delta, entry.rounds, entry.adjacency, entry.unit)
        for entry in entries
    }


def test_a_lost_ledger_is_rebuilt_with_every_charge(server, tmp_path):
    before = used(server)
    again = Ledger(tmp_path / "again.db", 4.0, 1e-4, unit=DEVICE)
    assert rebuild(server.store, again).entered == len(before) == 3
    assert amounts(again.history()) == amounts(before)
    asked = {query.id: query.created for query in server.store.queries()}
    assert [entry.time.timestamp() for entry in again.history()] == [asked[entry.reference] for entry in before]
    assert float(again.budget.sums.renyi) == pytest.approx(sum(entry.renyi * entry.rounds for entry in before))
    assert again.reserved() == {"q3"}  # which goes on
    assert (rebuild(server.store, again).entered, len(again.history())) == (0, 3)
    server.ledger = again
    server.start()
    server.run()
    assert [status.state for status in server.coordinator.queries()] == ["refused", "done", "cancelled", "done"]
    with pytest.raises(BudgetExceeded):
        server.coordinator.submit(request("more", HeavyHittersQuery("word", th.plan(20, 1e-4))), "ada")


def test_what_goes_on_is_rebuilt_as_a_reservation(server, tmp_path):
    """In a budget that renews it must count in each period in which it may still be drawn."""
    submitted = server.coordinator.submit(request(query=TRIE), "ada")
    server.coordinator.step()
    again = Ledger(tmp_path / "again.db", 4.0, 1e-4, unit=DEVICE, period="30d", clock=server.clock)
    rebuild(server.store, again)
    assert (again.drawn(submitted.id), again.reserved()) == ({0}, {submitted.id})
    server.clock.time += 31 * 86_400
    assert 0 < again.left.share < 1
    server.ledger = again
    server.start()
    server.run()
    [entry] = again.history()
    assert entry.drawn + entry.given_back == entry.rounds
    assert again.periods.used == 2


def test_an_old_ledger_gets_what_it_lacks(server, tmp_path):
    server.coordinator.submit(request("first"), "ada")
    old = tmp_path / "old.db"
    old.write_bytes(server.ledger.path.read_bytes())
    used(server)
    ledger = Ledger(old)
    rebuilt = rebuild(server.store, ledger)
    assert (rebuilt.entered, rebuilt.present) == (3, 1)
    assert amounts(ledger.history()) == amounts(server.ledger.history())


def copied(ledger, path):
    path.write_bytes(ledger.path.read_bytes())
    return Ledger(path)


def rounds_of(ledger):
    return {entry.reference: (entry.drawn, entry.given_back, entry.ended is None) for entry in ledger.history()}


LEVELS = HeavyHittersQuery("word", th.plan(epsilon=0.5, delta=1e-6, rounds=6), "trie")


def stopped_in_all_ways(server, monkeypatch):
    """A trie that was done early, one that was cancelled, one that failed and one that runs, by their ids."""
    coordinator = server.coordinator
    done = coordinator.submit(request("done", LEVELS), "ada").id  # "yes" is found before the sixth level
    server.run()
    ids = [done]
    for name in ("cancelled", "failed", "running"):
        ids.append(coordinator.submit(request(name, LEVELS), "ada").id)
        coordinator.step()
        if name == "cancelled":
            coordinator.cancel(ids[-1], "ada")
        if name == "failed":
            with monkeypatch.context() as broken:
                broken.setattr(server.roles, "progress", lambda round: {}[round])
                for _ in range(5):
                    coordinator.step()
    assert [coordinator.status(id).state for id in ids] == ["done", "cancelled", "failed", "running"]
    return ids


def test_charges_that_an_older_ledger_holds_stay_as_they_are(server, tmp_path, monkeypatch):
    """With what they have given back: entering them again whole would be refused, and the server could not start."""
    done, cancelled, failed, running = stopped_in_all_ways(server, monkeypatch)
    old = copied(server.ledger, tmp_path / "old.db")
    before = rounds_of(old)
    assert all(before[id][1] > 0 for id in (done, cancelled, failed))
    assert before[running] == (1, 0, True)
    later = server.coordinator.submit(request("later", LEVELS), "ada").id
    server.clock.time += MINUTE
    server.coordinator.step()
    drawn = server.ledger.drawn(running)
    assert len(drawn) == 2
    for entered in (1, 0):
        assert rebuild(server.store, old).entered == entered
        after = rounds_of(old)
        assert {id: after[id] for id in (done, cancelled, failed)} == {
            id: before[id] for id in (done, cancelled, failed)
        }
        assert (old.drawn(running), old.reserved()) == (drawn, {running, later})
    server.ledger = old
    server.start()
    server.run()
    assert [server.coordinator.status(id).state for id in (running, later)] == ["done", "done"]
    assert all(drawn + back == 6 for drawn, back, _ in rounds_of(old).values())


def test_queries_that_have_ended_since_an_older_ledger_was_kept(server, tmp_path):
    """The old ledger has their rounds reserved. Those that opened are drawn, and a start gives the others back."""
    coordinator = server.coordinator
    done, cancelled = (coordinator.submit(request(name, LEVELS), "ada").id for name in ("done", "cancelled"))
    old = copied(server.ledger, tmp_path / "old.db")
    coordinator.step()
    coordinator.cancel(cancelled, "ada")
    server.run()
    missing = coordinator.submit(request("missing", LEVELS), "ada").id
    coordinator.step()
    coordinator.cancel(missing, "ada")
    assert (rebuild(server.store, old).entered, rebuild(server.store, old).entered) == (1, 0)
    for id in (done, cancelled):
        assert old.drawn(id) == server.ledger.drawn(id)
    assert old.drawn(missing) == set(range(6))  # nobody knows what a lost charge has given back
    server.ledger = old
    server.start().step()
    known = rounds_of(old)
    for id in (done, cancelled):
        drawn = len(old.drawn(id))
        assert known[id] == (drawn, 6 - drawn, False)
        assert drawn < 6
    assert known[missing] == (6, 0, False)


def test_more_may_be_spent_than_the_budget_has(server, tmp_path):
    used(server)
    small = Ledger(tmp_path / "small.db", 1.0, 1e-4)
    assert rebuild(server.store, small).entered == 3
    assert small.budget.guaranteed[0] > 1.0
    assert (small.left.epsilon, small.left.share) == (0.0, 0.0)
    server.ledger = small
    with pytest.raises(BudgetExceeded):
        server.start().submit(request("more"), "ada")


def test_charges_that_the_store_knows_nothing_of_stay(server, tmp_path):
    """As after the store was restored from before its first query: moving them away would forget what was spent."""
    before = used(server)
    ledger = Ledger(tmp_path / "kept.db", 4.0, 1e-4)
    ledger.charge(1, 1e-6, "histogram of word", unit=DEVICE)
    rebuilt = rebuild(server.store, ledger)
    assert (rebuilt.entered, rebuilt.present, rebuilt.forgotten) == (len(before), 0, 1)
    assert len(ledger.history()) == len(before) + 1


def test_what_was_spent_on_queries_that_a_restored_store_forgot_stays_spent(server, tmp_path):
    """The fleet's ledger from before a restore knows more than the store in some queries, and less in others."""
    before = tmp_path / "before.db"
    server.coordinator.submit(request("first"), "ada")
    before.write_bytes(server.ledger.path.read_bytes())
    ledger = Ledger(before)
    ledger.charge(0.25, 1e-7, "a query after the backup", unit=DEVICE)
    used(server)
    rebuilt = rebuild(server.store, ledger)
    assert (rebuilt.entered, rebuilt.present) == (3, 1)
    assert ledger.budget.spent_epsilon == pytest.approx(server.ledger.budget.spent_epsilon + 0.25)
    server.ledger = ledger
    server.start()


def stored(id, state, query="{"):
    return StoredQuery(id, "ada", id, "histogram", "histogram of word", query, "{}", "{}", state, 1.0)


def test_plans_are_found_in_rounds_and_never_guessed(coordinator, tmp_path):
    """On both databases. What cannot be read stops all of it before anything is entered."""
    plan = th.plan(1, 1e-8)
    whole = json.dumps({"plan": plan.to_dict()})
    for id, state, text in (
        ("q1", "done", whole),
        ("q2", "failed", "{"),
        ("q3", "cancelled", whole),
        ("q4", "received", whole),
        ("q5", "refused", whole),
    ):
        coordinator.create_query(stored(id, state, text))
    ledger = Ledger(tmp_path / "ledger.db", 10, 1e-4)
    with pytest.raises(InvalidFormat, match="q2"):
        rebuild(coordinator, ledger)
    assert ledger.history() == []
    coordinator.plan_rounds("q2", [NewRound(0, "q2-1", whole.encode(), 9.0, None)], 1.0)
    assert rebuild(coordinator, ledger).entered == 3
    assert ledger.references() == {"q1", "q2", "q3"}  # all that may have been charged
    assert [entry.epsilon for entry in ledger.history()] == [1.0, 1.0, 1.0]
    assert coordinator.charged_ids() == {"q1", "q2"}  # all that must have been


# The command.


def run(*arguments):
    return CliRunner().invoke(app, ["ledger", "rebuild", *map(str, arguments)])


@pytest.mark.slow
def test_delete_the_ledger_rebuild_it_and_start_again(tmp_path):
    data = tmp_path / "data"
    with inside(data, budget_epsilon=5.0, budget_delta=1e-5) as server:
        answer = server.ask("POST", "/v1/queries", server.token("analyst"), json=histogram_request())
        assert answer.status_code in (200, 201), answer.text
        before = server.services.coordinator.ledger_view()
    ledger = data / "coordinator" / "ledger.db"
    ledger.unlink()
    with pytest.raises(Conflict, match="missing") as caught, inside(data):
        pass
    assert f"thresher ledger rebuild --data-dir {data}" in caught.value.hint
    assert not ledger.exists()  # a start does not make one that has forgotten everything
    result = run("--data-dir", data)
    assert isinstance(result.exception, InvalidSetting) and result.exception.setting == "budget-epsilon"
    assert not ledger.exists()
    result = run(
        "--data-dir", data, "--budget-epsilon", 5, "--budget-delta", 1e-5, "--budget-composition", "adaptive", "--json"
    )
    assert result.exception is None, result.exception
    assert json.loads(result.stdout)["entered"] == 1
    assert "Charges entered: 0" in run("--data-dir", data).stdout
    with inside(data) as server:
        after = server.services.coordinator.ledger_view()
    assert (after.epsilon, after.delta, after.unit) == (before.epsilon, before.delta, "device")
    assert (after.left_epsilon, after.left_delta) == (before.left_epsilon, before.left_delta)
    assert [(each.query, each.by, each.what) for each in after.charges] == [
        (each.query, each.by, each.what) for each in before.charges
    ]


def test_an_old_copy_is_refused_with_the_same_advice(tmp_path):
    data = tmp_path / "data"
    with inside(data) as server:
        old = (data / "coordinator" / "ledger.db").read_bytes()
        server.ask("POST", "/v1/queries", server.token("analyst"), json=histogram_request())
    (data / "coordinator" / "ledger.db").write_bytes(old)
    with pytest.raises(Conflict, match="does not hold") as caught, inside(data):
        pass
    assert "thresher ledger rebuild" in caught.value.hint


def test_a_running_server_and_a_directory_without_a_coordinator_are_left_alone(tmp_path):
    with inside(tmp_path / "data"), pytest.raises(InvalidSetting, match="in use"):
        rebuild_ledger(tmp_path / "data", None, FleetBudget())
    for wrong in (tmp_path / "none", tmp_path):
        with pytest.raises(InvalidSetting, match="no coordinator"):
            rebuild_ledger(wrong, None, FleetBudget(5, 1e-5, "sum"))
    (tmp_path / "coordinator").mkdir(mode=0o700)
    tmp_path.chmod(0o700)
    with pytest.raises(InvalidSetting, match="store"):
        rebuild_ledger(tmp_path, None, FleetBudget(5, 1e-5, "sum"))
    result = run("--data-dir", tmp_path, "--store", "postgresql://ada:secret@localhost/x")
    assert isinstance(result.exception, InvalidSetting) and "secret" not in str(result.exception)


@pytest.mark.slow
def test_from_postgresql_and_not_while_another_has_it(postgresql_url, tmp_path):
    (tmp_path / "data" / "coordinator").mkdir(mode=0o700, parents=True)
    (tmp_path / "data").chmod(0o700)
    store = CoordinatorStore.open(postgresql_url)
    store.create_query(stored("q1", "done", json.dumps({"plan": th.plan(1, 1e-8).to_dict()})))
    store.close()
    ledger, rebuilt = rebuild_ledger(tmp_path / "data", postgresql_url, FleetBudget(5, 1e-5, "sum"))
    assert (rebuilt.entered, ledger.references()) == (1, {"q1"})


def test_another_budget_is_refused_without_advice_to_make_another_ledger(tmp_path):
    (tmp_path / "fleet").mkdir(mode=0o700)
    (tmp_path / "fleet" / "coordinator").mkdir(mode=0o700)
    CoordinatorStore.open(tmp_path / "fleet" / "coordinator").close()
    with pytest.raises(InvalidSetting, match=r"^budget-epsilon must"):
        rebuild_ledger(tmp_path / "fleet", None, FleetBudget(-1.0, 1e-6, "adaptive"))
    rebuild_ledger(tmp_path / "fleet", None, FleetBudget(4.0, 1e-6, "adaptive"))
    with pytest.raises(InvalidSetting, match=r"^budget-delta differs from the ledger's, which is 1e-06") as refused:
        rebuild_ledger(tmp_path / "fleet", None, FleetBudget(4.0, 1e-5, "adaptive"))
    assert refused.value.hint == "Leave --budget-delta out: a fleet's budget is fixed at its first start."
