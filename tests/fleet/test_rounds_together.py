"""Rounds that do not depend on one another are open at the same time, survive crashes at any call, can be closed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from coordinator_cases import MINUTE, PLAN, Crash, Server, request

import thresher as th
from thresher.errors import Conflict, NotFound, ServerUnavailable
from thresher.protocol.configurations import RoundConfiguration
from thresher.protocol.messages import decode
from thresher.questions import Below, Cells, Values
from thresher.roles.coordinator import round_runner
from thresher.verbs import HeavyHittersQuery, HistogramQuery, QuantilesQuery, RangesQuery

NUMBERS = [float(number % 64) for number in range(6_000)]
WORDS = ["yes"] * 3_000 + ["no"] * 2_000 + ["nay"] * 1_000
TWO = th.plan(epsilon=1.0, delta=1e-6, rounds=2)
THREE = th.plan(epsilon=1.0, delta=1e-6, rounds=3)
SIX = th.plan(epsilon=1.0, delta=1e-6, rounds=6)
RANGES = RangesQuery("x", THREE, 0.0, 64.0, 4)
SEARCH = QuantilesQuery("x", (0.25, 0.5, 0.75), SIX, 0.0, 64.0, "search")
TRIE = HeavyHittersQuery("word", THREE, "trie")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    running = Server(tmp_path, NUMBERS)
    yield running
    running.close()


def states(server: Server, query: str) -> list[str]:
    return [round.state for round in server.coordinator.status(query).rounds]


# What is open when.


def test_all_levels_are_open_at_the_same_time_and_close_together(server: Server) -> None:
    asked = server.coordinator.submit(request(query=RANGES), "ada")
    assert server.coordinator.step() == 1.0
    rounds = server.coordinator.status(asked.id).rounds
    assert [round.state for round in rounds] == ["open"] * 3
    assert {round.deadline for round in rounds} == {server.clock.time + MINUTE}
    configurations = [decode(RoundConfiguration, round.configuration) for round in server.store.rounds(asked.id)]
    assert [each.asked for each in configurations] == [Cells("x", 0.0, 64.0, 4**level) for level in (1, 2, 3)]
    assert [each.index for each in configurations] == [0, 1, 2]
    server.clock.time += MINUTE
    assert server.coordinator.step() is None
    status = server.coordinator.status(asked.id)
    assert (status.state, status.ended) == ("done", server.clock.time)  # after the time of one round
    assert server.coordinator.answer(asked.id).count(0, 64).estimate > 0


def test_a_search_splits_once_for_each_quantile_in_a_step(server: Server) -> None:
    asked = server.coordinator.submit(request(query=SEARCH), "ada")
    server.coordinator.step()
    configurations = [decode(RoundConfiguration, round.configuration) for round in server.store.rounds(asked.id)]
    assert [each.asked for each in configurations] == [Below("x", split) for split in (16.0, 32.0, 48.0)]
    server.clock.time += MINUTE
    server.coordinator.step()
    assert states(server, asked.id) == ["released"] * 3 + ["open"] * 3
    server.clock.time += MINUTE
    server.coordinator.step()
    assert server.coordinator.status(asked.id).state == "done"
    assert len(server.coordinator.answer(asked.id).releases) == 6


def test_a_trie_asks_level_by_level(tmp_path: Path) -> None:
    server = Server(tmp_path, WORDS)
    asked = server.coordinator.submit(request(query=TRIE), "ada")
    for level in range(3):
        server.coordinator.step()
        assert states(server, asked.id) == ["released"] * level + ["open"]
        server.clock.time += MINUTE
    server.coordinator.step()
    assert server.coordinator.status(asked.id).state == "done"
    server.close()


def test_more_rounds_than_may_be_open_together_take_turns(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(round_runner, "MOST_TOGETHER", 2)
    asked = server.coordinator.submit(request(query=RANGES), "ada")
    server.coordinator.step()
    assert states(server, asked.id) == ["open"] * 2
    server.clock.time += MINUTE
    server.coordinator.step()
    assert states(server, asked.id) == ["released"] * 2 + ["open"]
    server.run()
    assert server.coordinator.answer(asked.id).count(0, 64).estimate > 0


def test_a_query_that_an_earlier_version_left_between_two_rounds_goes_on(server: Server) -> None:
    """Earlier versions opened the levels one after another."""
    asked = server.coordinator.submit(request(query=RANGES), "ada")
    plan_rounds = server.store.plan_rounds
    server.store.plan_rounds = lambda query, rounds, now: plan_rounds(query, rounds[:1], now)  # type: ignore[method-assign]
    server.coordinator.step()
    assert states(server, asked.id) == ["open"]
    server.store.plan_rounds = plan_rounds  # type: ignore[method-assign]
    server.clock.time += MINUTE
    server.start().step()
    assert states(server, asked.id) == ["released", "open", "open"]
    server.run()
    assert server.coordinator.status(asked.id).state == "done"


def test_releases_are_held_back_until_those_before_them_are_there(server: Server) -> None:
    asked = server.coordinator.submit(request(query=RANGES), "ada")
    server.coordinator.step()
    first, drawing = f"{asked.id}-r0", server.roles.release

    def slow(configuration, batches, response):
        if configuration.round == first:
            raise ServerUnavailable("Not now.")
        return drawing(configuration, batches, response)

    server.roles.release = slow  # type: ignore[method-assign]
    server.clock.time += MINUTE
    for _ in range(3):
        server.coordinator.step()
    assert states(server, asked.id)[0] == "forwarded"
    assert server.coordinator.releases(asked.id) == []
    server.roles.release = drawing  # type: ignore[method-assign]
    server.run()
    assert len(server.coordinator.releases(asked.id)) == len(server.coordinator.asked(asked.id)) == 3


# Budget.


def test_a_cancelled_step_drops_all_its_rounds_and_gives_back_what_never_opened(server: Server) -> None:
    asked = server.coordinator.submit(request(query=SEARCH), "ada")
    server.coordinator.step()
    server.coordinator.cancel(asked.id, "ada")
    assert states(server, asked.id) == ["dropped"] * 3
    assert {how for _, how in server.roles.forgotten} == {"unread"}
    assert {name for name, _ in server.roles.forgotten} == {f"{asked.id}-r{index}" for index in range(3)}
    [entry] = server.ledger.history()
    assert (entry.drawn, entry.given_back) == (3, 3)


def test_a_restored_store_draws_no_round_of_a_step_again(server: Server) -> None:
    """One round that was drawn before is enough, wherever in the step it is."""
    asked = server.coordinator.submit(request(query=RANGES), "ada")
    server.ledger.draw(asked.id, 2)
    server.coordinator.step()
    assert server.coordinator.status(asked.id).state == "failed"
    assert server.roles.configurations == {}


# Crashes.


def crashed_at(server: Server, calls: int, query: object) -> bool:
    """Crash at the given call, start again, ask again as a client would; whether there was such a call."""
    server.calls = calls
    try:
        server.coordinator.submit(request(query=query), "ada")
        server.run()
        crashed = server.calls is None
    except Crash:
        crashed = True
    server.calls = None
    server.start()
    if not server.coordinator.queries():
        server.coordinator.submit(request(query=query), "ada")
    server.run()
    return crashed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "together", "every", "least"),
    [(RangesQuery("x", TWO, 0.0, 64.0, 8), 2, 1, 60), (SEARCH, 3, 11, 150)],
    ids=["ranges", "search"],
)
def test_a_crash_at_any_call_with_several_rounds_open(
    tmp_path: Path, query: object, together: int, every: int, least: int
) -> None:
    """Between planning, charging and opening each round, closing, forwarding and releasing it: one charge, one draw.

    Of a search, which has more calls and waits in between, every eleventh call is tried.
    """
    calls, crashed = 0, True
    while crashed:
        folder = tmp_path / str(calls)
        folder.mkdir()
        server = Server(folder, NUMBERS)
        crashed = crashed_at(server, calls, query)
        [status] = server.coordinator.queries()
        rounds = status.rounds_planned
        assert status.state == "done"
        assert [round.state for round in status.rounds] == ["released"] * rounds
        assert server.roles.drawn == {f"{status.id}-r{index}": 1 for index in range(rounds)}
        [entry] = server.ledger.history()
        assert (entry.drawn, entry.given_back) == (rounds, 0)
        opened: dict[float, int] = {}
        for configuration in server.roles.configurations.values():
            opened[configuration.deadline] = opened.get(configuration.deadline, 0) + 1
        assert list(opened.values()) == [together] * (rounds // together)  # one deadline a step, whatever happened
        server.coordinator.answer(status.id)
        server.close()
        calls += every
    assert calls > least


@pytest.mark.slow
@pytest.mark.parametrize("calls", range(0, 40, 3))
def test_a_crash_while_a_step_is_cancelled(tmp_path: Path, calls: int) -> None:
    server = Server(tmp_path, NUMBERS)
    asked = server.coordinator.submit(request(query=SEARCH), "ada")
    server.coordinator.step()
    server.calls = calls
    try:
        server.coordinator.cancel(asked.id, "ada")
    except Crash:
        server.start()
    server.calls = None
    server.coordinator.cancel(asked.id, "ada")
    server.run()
    assert states(server, asked.id) == ["dropped"] * 3
    [entry] = server.ledger.history()
    assert (entry.drawn, entry.given_back) == (3, 3)
    server.close()


# Closing now.


def test_closing_now_counts_what_has_completed(tmp_path: Path) -> None:
    server = Server(tmp_path, NUMBERS, completing=0.5)
    asked = server.coordinator.submit(request(query=SEARCH, seconds=24 * 60 * MINUTE), "ada")
    server.coordinator.step()
    server.clock.time += MINUTE
    status = server.coordinator.close_rounds(asked.id)
    assert {round.deadline for round in status.rounds} == {server.clock.time}
    server.start().step()  # a crash after the request keeps it
    assert states(server, asked.id) == ["released"] * 3 + ["open"] * 3
    first, later = server.coordinator.status(asked.id).rounds[0], server.coordinator.status(asked.id).rounds[3]
    assert first.completed == len(NUMBERS) // 2
    assert later.deadline == server.clock.time + 24 * 60 * MINUTE  # a later step has its whole time
    server.coordinator.cancel(asked.id, "ada")
    [entry] = server.ledger.history()
    assert (entry.drawn, entry.given_back) == (6, 0)
    server.close()


def test_what_was_closed_stays_charged_and_what_never_opened_is_given_back(server: Server) -> None:
    asked = server.coordinator.submit(request(query=SEARCH, seconds=60 * MINUTE), "ada")
    server.coordinator.step()
    server.coordinator.close_rounds(asked.id)
    server.coordinator.cancel(asked.id, "ada")  # before the next step begins
    [entry] = server.ledger.history()
    assert (entry.drawn, entry.given_back) == (3, 3)


def test_a_step_that_is_opening_is_closed_as_a_whole_or_not_at_all(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = server.coordinator.submit(request(query=RANGES), "ada")
    opened = server.roles.open

    def open(configuration: RoundConfiguration, target: int | None = None) -> None:
        if configuration.index == 1:
            raise ServerUnavailable("The collector is down.")
        opened(configuration, target)

    monkeypatch.setattr(server.roles, "open", open)
    server.coordinator.step()
    before = server.coordinator.standing(asked.id)
    assert [round.state for round in before.rounds] == ["open", "planned", "planned"]
    with pytest.raises(Conflict, match="still opening"):
        server.coordinator.close_rounds(asked.id)
    assert server.coordinator.standing(asked.id) == before
    monkeypatch.undo()
    server.coordinator.step()
    server.coordinator.close_rounds(asked.id)
    server.coordinator.step()
    assert states(server, asked.id) == ["released"] * 3


def test_closing_where_nothing_is_open_changes_nothing(server: Server) -> None:
    asked = server.coordinator.submit(request(), "ada")
    with pytest.raises(Conflict, match="No round of this query is open now"):
        server.coordinator.close_rounds(asked.id)
    server.coordinator.step()
    once = server.coordinator.close_rounds(asked.id)
    server.clock.time += 1
    assert server.coordinator.close_rounds(asked.id) == once
    server.run()
    done = server.coordinator.status(asked.id)
    assert server.coordinator.close_rounds(asked.id).rounds == done.rounds
    with pytest.raises(NotFound):
        server.coordinator.close_rounds("nothing")
    stopped = server.coordinator.submit(request("stopped"), "ada")
    ended = server.coordinator.cancel(stopped.id, "ada")
    assert server.coordinator.close_rounds(stopped.id) == ended


@pytest.mark.slow
@pytest.mark.parametrize("calls", range(0, 3))
def test_a_crash_while_closing(tmp_path: Path, calls: int) -> None:
    server = Server(tmp_path, NUMBERS)
    asked = server.coordinator.submit(request(query=RANGES, seconds=60 * MINUTE), "ada")
    server.coordinator.step()
    server.calls = calls
    try:
        server.coordinator.close_rounds(asked.id)
    except Crash:
        server.start()
    server.calls = None
    server.coordinator.close_rounds(asked.id)
    server.coordinator.step()
    assert server.coordinator.status(asked.id).state == "done"
    server.close()


# Ending early.


def test_a_round_ends_when_nobody_is_waited_for_only_if_asked_to(server: Server) -> None:
    patient = server.coordinator.submit(request("patient", query=RANGES), "ada")
    hurried = server.coordinator.submit(request("hurried", query=RANGES, until_all=True), "ada")
    server.roles.waiting = 2
    server.coordinator.step()
    assert states(server, patient.id) == states(server, hurried.id) == ["open"] * 3
    server.roles.waiting = 0
    server.clock.time += 1
    server.coordinator.step()
    assert states(server, patient.id) == ["open"] * 3
    assert server.coordinator.status(hurried.id).state == "done"


def test_a_round_that_nobody_completed_waits_until_its_deadline(tmp_path: Path) -> None:
    server = Server(tmp_path, NUMBERS, completing=0.0)
    server.roles.waiting = 0
    asked = server.coordinator.submit(request(until_all=True), "ada")
    server.coordinator.step()
    assert states(server, asked.id) == ["open"]
    server.close()


# How long it takes.


@pytest.mark.parametrize(
    ("query", "steps", "words"),
    [
        (HistogramQuery(Values(("word",)), PLAN), 1, "It takes 1 hour in all."),
        (RANGES, 1, "It takes 1 hour in all: its 3 rounds are open at the same time."),
        (
            SEARCH,
            2,
            "It takes 2 hours in all, up to 2 steps of 1 hour one after another; the rounds of a step are open",
        ),
        (TRIE, 3, "It takes 3 hours in all, up to 3 steps of 1 hour one after another."),
    ],
    ids=["histogram", "ranges", "search", "trie"],
)
def test_how_long_a_query_takes(server: Server, query: object, steps: int, words: str) -> None:
    asked = request(query=query, seconds=60 * MINUTE)
    preview = server.coordinator.preview(asked)
    assert (preview.steps, preview.seconds) == (steps, steps * 60 * MINUTE)
    assert sum(sentence.startswith(words) for sentence in preview.words) == 1
    status = server.coordinator.submit(asked, "ada")
    assert (status.steps_planned, status.seconds) == (steps, steps * 60 * MINUTE)
    assert status.in_all.startswith(words)
    assert status.rounds_planned == query.plan.rounds  # type: ignore[attr-defined]


def test_a_round_that_is_too_short_is_said_with_the_time_in_all(server: Server) -> None:
    preview = server.coordinator.preview(request(query=SEARCH, seconds=30.0, until_all=True), come_back=MINUTE)
    [caution] = [caution for caution in preview.warnings if caution.code == "short-round"]
    assert "expect about 50 %" in caution.text
    assert "It takes at most 1 minute in all, up to 2 steps of 30 seconds one after another" in caution.text
