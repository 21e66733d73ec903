"""The coordinator: checks before it stores, charges before it asks, and goes on after a crash at any call."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
import shutil
import threading

import pytest
from coordinator_cases import MINUTE, PLAN, Crash, Server, request

import thresher as th
from thresher.errors import (
    BudgetExceeded,
    Conflict,
    InvalidFormat,
    InvalidSetting,
    NotFound,
    QueryEnded,
    ServerUnavailable,
    VerificationFailed,
)
from thresher.mechanism import Release
from thresher.privacy import DEVICE, ROW
from thresher.protocol.analyst_messages import QueryRequest
from thresher.protocol.recomputation import check_configuration
from thresher.questions import Bins, Dates, Joint, Values
from thresher.roles.coordinator import admission
from thresher.roles.coordinator import coordinator as coordinator_module
from thresher.roles.coordinator.coordinator import Coordinator
from thresher.roles.coordinator.views import query_of
from thresher.verbs import HeavyHittersQuery, HistogramQuery, QuantilesQuery, RangesQuery, query_from_dict
from thresher.verbs.drivers import replay
from thresher.verbs.recounts import FoundTexts

WORDS = ["yes"] * 3_000 + ["no"] * 2_000 + ["nay"] * 1_000
TRIE = HeavyHittersQuery("word", th.plan(epsilon=1.0, delta=1e-6, rounds=2), "trie")


@pytest.fixture
def server(tmp_path):
    running = Server(tmp_path, WORDS)
    yield running
    running.close()


def test_a_histogram_from_submission_to_answer(server):
    submitted = server.coordinator.submit(request(), "ada")
    assert submitted.state == "running"
    assert submitted.rounds == []
    assert server.coordinator.step() == 1.0
    status = server.coordinator.status(submitted.id)
    assert [round.state for round in status.rounds] == ["open"]
    assert status.rounds[0].completed == len(WORDS)  # live, before the round has closed
    server.run()
    status = server.coordinator.status(submitted.id)
    assert status.state == "done"
    assert status.rounds[0].state == "released"
    answer = server.coordinator.answer(submitted.id)
    assert {row.bucket for row in answer} == {"yes", "no", "nay"}
    assert answer.verify() == answer.plan.guarantee.for_unit(DEVICE)
    assert answer.release.response.completed == len(WORDS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "query",
    [
        TRIE,
        QuantilesQuery("age", (0.5,), th.plan(epsilon=1.0, delta=1e-6, rounds=4), 0, 100, "search"),
        QuantilesQuery("age", (0.1, 0.9), th.plan(epsilon=1.0, delta=1e-6, rounds=3), 0, 100, "hierarchy"),
        RangesQuery("age", th.plan(epsilon=1.0, delta=1e-6, rounds=3), 0, 100, 4),
    ],
    ids=lambda query: query.describe(),
)
def test_all_verbs_and_the_client_gets_the_same_answer(tmp_path, query):
    values = WORDS if isinstance(query, HeavyHittersQuery) else [number % 100 for number in range(6_000)]
    server = Server(tmp_path, values)
    submitted = server.coordinator.submit(request(query=query), "ada")
    server.run()
    status = server.coordinator.status(submitted.id)
    assert status.state == "done"
    answer = server.coordinator.answer(status.id)
    # The client has the status and the releases, nothing else.
    releases = [Release.from_json(text) for text in server.coordinator.releases(status.id)]
    again = replay(query_from_dict(status.query), releases)
    assert again.to_json() == answer.to_json()
    assert 1 <= len(releases) <= query.plan.rounds
    for configuration in server.roles.configurations.values():
        check_configuration(configuration)
    server.close()


def test_estimates_divide_by_those_who_completed(tmp_path):
    server = Server(tmp_path, ["same"] * 8_000, completing=0.5)
    submitted = server.coordinator.submit(request(), "ada")
    server.run()
    row = server.coordinator.answer(submitted.id)["same"]
    assert abs(row.estimate - 8_000) < 8_000 * 7 / row.count**0.5  # seven standard errors: 1e-11
    assert row.estimate > 1.5 * row.count / server.coordinator.answer(submitted.id).plan.sampling_rate
    server.close()


# Before anything is stored.


REFUSED = [
    (request(query=HistogramQuery(Values(("word",)), th.plan(1.0, 1e-6, adjacency="add-remove"))), InvalidSetting),
    (request(query=HistogramQuery(Values(("word",)), th.Plan(0.5, 2, 1.0, 1e-8))), VerificationFailed),
    (request(contact_rate=1e-6), InvalidSetting),
    (request(query=HistogramQuery(Joint(tuple(Bins(f"c{i}", (0.12345678, 1.0)) for i in range(9))), PLAN)),
     InvalidSetting),
    (request(query=dataclasses.replace(TRIE, step=30)), InvalidSetting),
    (request(query=HistogramQuery(Values(("w" * 201,)), PLAN)), InvalidSetting),
    (request(query=HistogramQuery(Values(("a\nb",)), PLAN)), InvalidSetting),
    (request(query=HistogramQuery(Values(tuple(map(str, range(33)))), PLAN), bucket_size=4096), InvalidSetting),
    (QueryRequest(name="x", query={"verb": "histogram"}), InvalidFormat),
    (QueryRequest(name="x", query={"verb": "drop tables"}), InvalidFormat),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "error"), REFUSED)
def test_what_cannot_be_run_is_neither_stored_nor_charged(server, wrong, error):
    for method in (server.coordinator.preview, lambda asked: server.coordinator.submit(asked, "ada")):
        with pytest.raises(error):
            method(wrong)
    assert server.coordinator.queries() == []
    assert server.ledger.history() == []


@pytest.mark.parametrize(
    ("wrong", "setting", "said"),
    [
        (HistogramQuery(Values(("word",)), PLAN, tuple(f"value{i:015d}" for i in range(100_000))), "domain", "2 MiB"),
        pytest.param(
            HistogramQuery(Bins("word", tuple(i + 0.123456789 for i in range(150_000))), PLAN),
            "bins",
            "too many",
            marks=pytest.mark.slow,
        ),
        (dataclasses.replace(TRIE, step=4096), "step", "at most 2,042 with 2 levels"),
    ],
)
def test_a_refusal_names_the_setting_that_was_given(server, wrong, setting, said):
    with pytest.raises(InvalidSetting, match=said) as refused:
        server.coordinator.preview(request(query=wrong))
    assert refused.value.setting == setting


@pytest.mark.parametrize(
    ("wrong", "setting", "said"),
    [
        (lambda: dataclasses.replace(TRIE, step=5001), "step", "at most 5,000 with 2 levels"),
        (
            lambda: QuantilesQuery("word", (0.5,), PLAN, 1.0, math.nextafter(1.0, 2.0), "search"),
            "upper",
            "above lower",
        ),
    ],
)
def test_what_no_fleet_could_run_is_no_query(wrong, setting, said):
    with pytest.raises(InvalidSetting, match=said) as refused:
        wrong()
    assert refused.value.setting == setting


def test_a_bucket_size_that_fits_is_taken(server):
    joint = HistogramQuery(Joint(tuple(Bins(f"c{i}", (0.12345678, 1.0)) for i in range(9))), PLAN)
    assert server.coordinator.submit(request(query=joint, bucket_size=256), "ada").state == "running"
    deep = dataclasses.replace(TRIE, step=30)
    assert server.coordinator.submit(request("deep", deep, bucket_size=128), "ada").state == "running"


def test_a_domain_is_counted_as_text(tmp_path):
    server = Server(tmp_path, [1, True] * 3_000)
    query = HistogramQuery(Values(("number",)), PLAN, (1, True, 7))
    submitted = server.coordinator.submit(request(query=query), "ada")
    server.run()
    answer = server.coordinator.answer(submitted.id)
    assert {row.bucket for row in answer} == {"1", "true"}
    assert answer.below_threshold == ["7"]
    server.close()


def test_a_domain_of_bins_and_dates_is_read_from_text_as_lines_of_a_file_are(server):
    def asked(question, *domain):
        return request(query=HistogramQuery(question, PLAN, domain))

    bins, months = Bins("number", (0, 18, 65)), Dates("day", "month")
    both = Joint((bins, Values(("word",))))
    for question, text, counted in (
        (bins, "18", 18.0),
        (months, "2024-02-01", dt.date(2024, 2, 1)),
        (both, ("18", 1), (18.0, "1")),
    ):
        assert admission.admit(asked(question, text)).query.domain == (counted,)
    for question, wrong in ((bins, "65"), (bins, "x"), (bins, 17), (months, "2024-02-15"), (both, ("65", 1))):
        with pytest.raises(InvalidSetting, match="domain"):
            server.coordinator.submit(asked(question, wrong), "ada")
    assert server.ledger.history() == []


def test_the_preview_says_what_it_would_cost_and_charges_nothing(server):
    shown = server.coordinator.preview(request(contact_rate=0.5))
    assert (shown.cost_epsilon, shown.left_epsilon, shown.fits) == (1.0, 3.0, True)
    assert shown.contacted == len(WORDS) / 2
    assert shown.guarantees.contact_list.delta > shown.guarantees.analyst.delta
    assert any("knows who was contacted" in words for words in shown.words)
    assert dict(shown.sees)[1_000_000] > 0.999
    dear = HistogramQuery(Values(("word",)), th.plan(epsilon=20, delta=1e-4))
    assert not server.coordinator.preview(request(query=dear)).fits
    assert server.ledger.history() == []
    assert server.coordinator.queries() == []


def test_the_preview_says_what_holds_against_whoever_adds_devices_or_reports(server):
    usual = server.coordinator.preview(request())
    assert usual.guarantees.injected == usual.guarantees.contact_list == usual.guarantees.analyst
    assert any("The same holds against whoever can add devices or reports" in words for words in usual.words)
    by_devices = server.coordinator.preview(request(sampled_by="device"))
    assert by_devices.guarantees.injected.delta == 1
    assert any("nothing is promised against them" in words for words in by_devices.words)
    submitted = server.coordinator.submit(request(), "ada")
    assert submitted.settings.sampled_by == "aggregator"
    assert submitted.guarantees == usual.guarantees


# The charge.


def test_a_name_is_one_query_and_one_charge(server):
    first = server.coordinator.submit(request(), "ada")
    assert server.coordinator.submit(request(), "ada").id == first.id
    assert len(server.ledger.history()) == 1
    with pytest.raises(Conflict):
        server.coordinator.submit(request(seconds=5.0), "ada")
    assert server.coordinator.submit(request(), "bob").id != first.id  # names are each caller's own
    charges = server.coordinator.ledger_view().charges
    assert [(charge.by, charge.query) for charge in charges] == [("ada", "q1"), ("bob", "q2")]
    assert charges[0].what == "histogram of word"


def test_no_budget_is_refused_again_and_again(server):
    dear = request(query=HistogramQuery(Values(("word",)), th.plan(epsilon=20, delta=1e-4)))
    for _ in range(2):
        with pytest.raises(BudgetExceeded):
            server.coordinator.submit(dear, "ada")
    [status] = server.coordinator.queries()
    assert status.state == "refused"
    assert "of the budget" in status.problem
    assert server.ledger.history() == []
    assert server.coordinator.step() is None
    with pytest.raises(QueryEnded):
        server.coordinator.answer(status.id)


def test_refused_queries_are_not_kept_for_ever(server, monkeypatch):
    monkeypatch.setattr(coordinator_module, "_REFUSED", 3)
    server.coordinator.submit(request("taken"), "ada")
    plan = th.plan(epsilon=20, delta=1e-4)
    for number in range(5):
        server.clock.time += 1
        with pytest.raises(BudgetExceeded):
            server.coordinator.submit(request(f"n{number}", HistogramQuery(Values(("word",)), plan)), "ada")
    assert [status.name for status in server.coordinator.queries()] == ["n4", "n3", "n2", "taken"]
    with pytest.raises(BudgetExceeded):  # one that is forgotten is looked at anew
        server.coordinator.submit(request("n0", HistogramQuery(Values(("word",)), plan)), "ada")


def test_a_query_that_another_ledger_was_charged_for_ends_the_taking_of_queries(server, tmp_path):
    """As where two coordinators run on one store: together they would spend two budgets."""
    other = Coordinator(
        server.store, th.Ledger(tmp_path / "other.db", epsilon=3, delta=1e-4), server.clock, server.roles, server.roles,
        "test-fleet",
    )  # fmt: skip
    server.coordinator.submit(request(), "ada")
    with pytest.raises(Conflict, match="ledger"):
        other.submit(request("second"), "ada")
    assert [status.name for status in server.coordinator.queries()] == ["first"]
    assert server.coordinator.submit(request("second"), "ada").state == "running"


def test_a_foreign_ledger_entry_is_not_taken_for_a_charge(server):
    server.ledger.charge(0.5, 1e-7, "query q1: looks alike", unit=DEVICE)
    server.coordinator.submit(request(), "ada")
    assert len(server.ledger.history()) == 2
    assert server.coordinator.ledger_view().charges[0].query is None


@pytest.mark.parametrize("ending", ["cancelled", "failed"])
def test_a_ledger_from_before_a_query_is_refused_however_the_query_ended(server, tmp_path, ending):
    """A backup of the ledger would forget a query whose first round was released before it was stopped."""
    before = tmp_path / "before.db"
    shutil.copy(server.ledger.path, before)
    query = server.coordinator.submit(request(query=TRIE), "ada").id
    while not server.coordinator.releases(query):
        server.coordinator.step()
        server.clock.time += MINUTE
    if ending == "cancelled":
        server.coordinator.cancel(query, "ada")
    else:
        server.coordinator._fail(query, "internal")
    server.run()
    assert server.coordinator.status(query).state == ending
    server.ledger = th.Ledger(before)
    with pytest.raises(Conflict, match="does not hold what"):
        server.start()
    server.ledger = th.Ledger(tmp_path / "ledger.db")
    server.start()


def test_an_old_ledger_is_noticed_before_the_next_query_too(server, tmp_path):
    before = server.ledger.path.read_bytes()
    query = server.coordinator.submit(request(), "ada").id
    server.coordinator.step()
    server.coordinator.cancel(query, "ada")
    server.ledger.path.write_bytes(before)
    with pytest.raises(Conflict, match="does not hold what"):
        server.coordinator.submit(request("second"), "ada")
    assert server.ledger.history() == []


def test_a_query_that_was_never_charged_needs_no_charge(server, monkeypatch):
    """Cancelled between being stored and being charged: it has no round."""

    def crash(*arguments, **settings):
        raise Crash

    monkeypatch.setattr(server.ledger, "reserve", crash)
    with pytest.raises(Crash):
        server.coordinator.submit(request(), "ada")
    monkeypatch.undo()
    [stored] = server.store.queries()
    assert (stored.state, server.ledger.history()) == ("received", [])
    server.start().cancel(stored.id, "ada")
    server.start().submit(request("second"), "ada")
    assert server.ledger.references() == {"q2"}


def test_a_ledger_that_was_restored_learns_which_rounds_opened_since(server, tmp_path):
    submitted = server.coordinator.submit(request(query=TRIE), "ada")
    before = tmp_path / "before.db"
    before.write_bytes(server.ledger.path.read_bytes())
    while len(server.store.releases(submitted.id)) < 1:
        server.coordinator.step()
        server.clock.time += MINUTE
    server.coordinator.step()
    drawn = server.ledger.drawn(submitted.id)
    assert len(drawn) == 2
    server.ledger = th.Ledger(before)
    assert server.ledger.drawn(submitted.id) == set()
    server.start()
    assert server.ledger.drawn(submitted.id) == drawn
    server.ledger = th.Ledger(tmp_path / "copy.db", epsilon=3, delta=1e-4)
    server.ledger.reserve(TRIE.plan, "heavy_hitters", unit=DEVICE, reference=submitted.id)
    server.ledger.give_back(submitted.id)
    with pytest.raises(Conflict, match="given back"):
        server.start()


def test_a_store_that_was_restored_draws_no_round_again(server, tmp_path):
    """The ledger knows that the first round was drawn. The store, restored from before it was planned, does not."""
    submitted = server.coordinator.submit(request(query=TRIE), "ada")
    server.ledger.draw(submitted.id, 0)
    server.run()
    status = server.coordinator.status(submitted.id)
    assert (status.state, status.rounds) == ("failed", [])
    assert "drawn-before" in status.problem
    assert not server.roles.drawn


def test_a_store_that_was_restored_does_not_go_on_with_what_has_ended(server, monkeypatch):
    """The ledger has given back the rounds of one query. The collector knows the round of another one otherwise."""
    given_back = server.coordinator.submit(request("first", TRIE), "ada")
    server.ledger.give_back(given_back.id)
    server.run()
    status = server.coordinator.status(given_back.id)
    assert (status.state, status.problem) == ("failed", "The query could not go on (given-back).")

    def forward(round):
        raise Conflict("Only a closed round can be forwarded.")

    ended = server.coordinator.submit(request("second", TRIE), "ada")
    monkeypatch.setattr(server.roles, "forward", forward)
    server.run()
    status = server.coordinator.status(ended.id)
    assert (status.state, status.problem) == ("failed", "The query could not go on (stores-differ).")
    assert not server.roles.drawn


def test_a_cancelled_query_gives_back_what_never_opened(server):
    submitted = server.coordinator.submit(request(query=TRIE), "ada")
    reserved = server.ledger.left.share
    server.coordinator.step()
    server.coordinator.cancel(submitted.id, "ada")
    [entry] = server.ledger.history()
    assert (entry.drawn, entry.given_back) == (1, TRIE.plan.rounds - 1)
    assert reserved < server.ledger.left.share < 1
    [charge] = server.coordinator.ledger_view().charges
    assert (charge.drawn, charge.given_back) == (1, TRIE.plan.rounds - 1)
    assert 0 < charge.share < 1 - reserved


def test_a_ledger_for_anything_but_devices_is_refused(server, tmp_path):
    server.ledger = th.Ledger(tmp_path / "rows.db", epsilon=3, delta=1e-4, unit=ROW)
    with pytest.raises(Conflict, match="one device"):
        server.start()


def test_as_many_queries_as_are_allowed(server):
    coordinator = server.start(most_open=1)
    first = coordinator.submit(request(), "ada")
    with pytest.raises(Conflict, match="runs at most 1 query at a time, and has no place left"):
        coordinator.submit(request("second"), "ada")
    assert coordinator.submit(request(), "ada").id == first.id
    server.run()
    assert coordinator.submit(request("second"), "ada").state == "running"


# Rounds.


def test_a_round_closes_at_its_deadline_or_when_enough_have_completed(tmp_path):
    server = Server(tmp_path, WORDS)
    enough = server.coordinator.submit(request("enough", completions=100), "ada")
    late = server.coordinator.submit(request("late", completions=1_000_000), "ada")
    server.coordinator.step()
    assert server.coordinator.status(enough.id).state == "done"
    assert server.coordinator.status(late.id).rounds[0].state == "open"
    server.clock.time += MINUTE - 0.5
    assert server.coordinator.step() == 0.5
    server.clock.time += 0.5
    server.coordinator.step()
    assert server.coordinator.status(late.id).state == "done"
    server.close()


def test_reports_are_forgotten_before_a_round_counts_as_released(server):
    submitted = server.coordinator.submit(request(), "ada")
    server.run()
    assert server.roles.forgotten == [(f"{submitted.id}-r0", "released")] * 2  # both roles
    assert server.roles.drawn == {f"{submitted.id}-r0": 1}


def test_keys_are_those_of_the_round_and_in_use_until_its_release(server):
    submitted = server.coordinator.submit(request(query=TRIE), "ada")
    server.coordinator.step()
    server.roles.key = dataclasses.replace(server.roles.key, key_id="k2")
    assert server.coordinator.keys_in_use() == {"k1"}
    server.clock.time += MINUTE
    server.coordinator.step()
    assert server.coordinator.keys_in_use() == {"k2"}
    server.run()
    assert server.coordinator.keys_in_use() == set()
    assert server.coordinator.status(submitted.id).state == "done"


# Stopping.


def test_cancelling_deletes_unread_and_refunds_nothing(server):
    submitted = server.coordinator.submit(request(), "ada")
    server.coordinator.step()
    status = server.coordinator.cancel(submitted.id, "operator")
    assert status.state == "cancelled"
    assert status.rounds[0].state == "dropped"
    assert server.roles.forgotten == [(f"{submitted.id}-r0", "unread")] * 2
    assert server.ledger.spent.epsilon == 1.0
    assert server.coordinator.step() is None
    assert server.coordinator.cancel(submitted.id, "ada").state == "cancelled"
    assert server.coordinator.releases(submitted.id) == []
    with pytest.raises(QueryEnded):
        server.coordinator.answer(submitted.id)


def test_a_query_that_is_done_stays_done(server):
    submitted = server.coordinator.submit(request(), "ada")
    with pytest.raises(Conflict):
        server.coordinator.answer(submitted.id)
    server.run()
    assert server.coordinator.cancel(submitted.id, "ada").state == "done"
    with pytest.raises(NotFound):
        server.coordinator.cancel("nothing", "ada")
    with pytest.raises(NotFound):
        server.coordinator.status("'; drop table queries")


def test_cancelling_while_a_release_is_drawn(server):
    """The step is inside the aggregator; cancelling does not wait for it, and its release is not kept."""
    submitted = server.coordinator.submit(request(completions=1), "ada")
    inside, go_on = threading.Event(), threading.Event()
    draw = server.roles._draw

    def slow(*arguments):
        inside.set()
        assert go_on.wait(10)
        return draw(*arguments)

    server.roles._draw = slow
    stepping = threading.Thread(target=server.coordinator.step)
    stepping.start()
    assert inside.wait(10)
    assert server.coordinator.cancel(submitted.id, "ada").state == "cancelled"
    go_on.set()
    stepping.join(10)
    assert server.coordinator.releases(submitted.id) == []
    assert server.coordinator.status(submitted.id).rounds[0].state == "dropped"


def test_a_verb_that_fails_ends_its_query_and_no_other(server, monkeypatch):
    broken = server.coordinator.submit(request(query=TRIE), "ada")
    sound = server.coordinator.submit(request("sound"), "ada")

    def fail(*arguments):
        raise ValueError("a value: secret")

    monkeypatch.setattr(FoundTexts, "add", fail)
    server.run()
    status = server.coordinator.status(broken.id)
    assert status.state == "failed"
    assert "secret" not in status.problem
    assert "internal" in status.problem
    assert server.coordinator.status(sound.id).state == "done"
    charges = {entry.reference: entry for entry in server.ledger.history()}
    assert (charges[broken.id].drawn, charges[broken.id].given_back) == (1, TRIE.plan.rounds - 1)
    assert charges[sound.id].drawn == charges[sound.id].rounds


def test_a_role_that_errs_for_good_ends_the_query(server):
    submitted = server.coordinator.submit(request(completions=1), "ada")

    def refuse(*arguments):
        raise NotFound("This aggregator does not hold that key.")

    server.roles.release = refuse
    server.run(seconds=1.0)
    status = server.coordinator.status(submitted.id)
    assert (status.state, status.rounds[0].state) == ("failed", "dropped")
    assert "not-found" in status.problem


@pytest.mark.parametrize("method", ["open", "progress", "close", "forward", "release", "forget", "public_key"])
def test_a_role_that_is_down_is_waited_for(server, method):
    submitted = server.coordinator.submit(request(seconds=10 * MINUTE, completions=len(WORDS)), "ada")
    working, failures = getattr(server.roles, method), [0]

    def down(*arguments):
        failures[0] += 1
        if failures[0] <= 20:
            raise ServerUnavailable("Not now.")
        return working(*arguments)

    setattr(server.roles, method, down)
    server.run(seconds=1.0)
    assert server.coordinator.status(submitted.id).state == "done"
    assert failures[0] > 20


# Crashes.


def crash_and_recover(server: Server, calls: int) -> bool:
    """Crash at the given call, start again, ask again as a client would; whether there was such a call."""
    server.calls = calls
    try:
        server.coordinator.submit(request(query=TRIE), "ada")
        server.run()
        crashed = server.calls is None
    except Crash:
        crashed = True
    server.calls = None
    server.start()
    if not any(query.name == "first" for query in server.coordinator.queries()):
        server.coordinator.submit(request(query=TRIE), "ada")
    server.run()
    return crashed


@pytest.mark.slow
def test_a_crash_at_any_call_is_recovered_from(tmp_path):
    """Between any two calls to a store, a ledger or a role: one charge, one draw a round, one answer."""
    calls, crashed = 0, True
    while crashed:
        folder = tmp_path / str(calls)
        folder.mkdir()
        server = Server(folder, WORDS)
        crashed = crash_and_recover(server, calls)
        [status] = server.coordinator.queries()
        assert status.state == "done"
        assert len(server.ledger.history()) == 1
        assert set(server.roles.drawn.values()) == {1}
        assert [round.state for round in status.rounds] == ["released"] * len(status.rounds)
        forgotten = {name for name, how in server.roles.forgotten if how == "released"}
        assert forgotten == set(server.roles.configurations)
        server.coordinator.answer(status.id)
        server.close()
        calls += 1
    assert calls > 40  # every one of them


@pytest.mark.slow
@pytest.mark.parametrize("calls", range(0, 24))
def test_a_crash_while_cancelling(tmp_path, calls):
    server = Server(tmp_path, WORDS)
    submitted = server.coordinator.submit(request(), "ada")
    server.coordinator.step()
    server.calls = calls
    try:
        server.coordinator.cancel(submitted.id, "ada")
    except Crash:
        server.start()
    server.calls = None
    server.coordinator.cancel(submitted.id, "ada")
    server.run()
    status = server.coordinator.status(submitted.id)
    assert (status.state, status.rounds[0].state) == ("cancelled", "dropped")
    assert {how for _, how in server.roles.forgotten} == {"unread"}
    assert len(server.ledger.history()) == 1
    server.close()


def test_submitting_from_many_threads_charges_each_name_once(server):
    errors: list[Exception] = []

    def submit() -> None:
        try:
            server.coordinator.submit(request(), "ada")
            server.coordinator.step()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=submit) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert errors == []
    assert len(server.ledger.history()) == 1
    assert len(server.coordinator.queries()) == 1


def test_the_stored_query_has_the_exact_plan(server):
    submitted = server.coordinator.submit(request(contact_rate=0.4, sampled_by="aggregator"), "ada")
    server.coordinator.step()
    stored = query_of(server.store.query(submitted.id))
    [configuration] = server.roles.configurations.values()
    assert configuration.rates.sampling_rate == stored.plan.exact_rate <= PLAN.exact_rate
    assert configuration.planned == stored.plan
    assert submitted.settings.sampled_by == "aggregator"


def test_the_fleet_at_a_glance(server):
    view = server.coordinator.fleet_view()
    assert (view.enrolled, view.fleet) == (len(WORDS), "test-fleet")
    assert set(view.roles.values()) == {"ready"}

    def down() -> None:
        raise ServerUnavailable("Not now.")

    server.roles.public_key = down
    assert server.coordinator.fleet_view().roles["aggregator"] == "server-unavailable"
