"""Closing rounds now, by the analyst's Python over a server's own routes: what is waited for, and what not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from server_cases import Inside, fleet_of, histogram_request, inside

import thresher as th
from thresher.client.fleet import Fleet, QueryHandle
from thresher.errors import Conflict, ServerUnavailable
from thresher.protocol.configurations import RoundConfiguration
from thresher.verbs import HeavyHittersQuery, RangesQuery

RANGES = RangesQuery("x", th.plan(epsilon=1.0, delta=1e-6, rounds=3), 0.0, 64.0, 4)
TRIE = HeavyHittersQuery("word", th.plan(epsilon=1.0, delta=1e-6, rounds=2), "trie")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Inside]:
    with inside(tmp_path / "data") as running:
        yield running


class Sleep:
    """In place of sleeping, the coordinator makes a step after so many pauses."""

    def __init__(self, server: Inside, before: int) -> None:
        self.server = server
        self.before = before
        self.slept: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)
        if len(self.slept) == self.before:
            self.server.services.the_coordinator.step()


def asked(server: Inside, sleep: Sleep, query: RangesQuery | HeavyHittersQuery = RANGES) -> QueryHandle:
    fleet: Fleet = fleet_of(server, sleep=sleep)
    handle = fleet.submit(query, wait=False, warn=False)
    assert isinstance(handle, QueryHandle)
    return handle


def test_rounds_that_are_about_to_open_are_waited_for(server: Inside) -> None:
    sleep = Sleep(server, before=3)
    handle = asked(server, sleep)
    status = handle.close_now()
    assert len(sleep.slept) == 3
    assert [round.state for round in status.rounds] == ["open"] * 3
    assert all(round.deadline <= server.services.clock.now() for round in status.rounds)


def test_all_rounds_of_a_step_that_is_opening_are_waited_for(server: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    collector = server.services.the_collector
    opened = collector.open

    def open(configuration: RoundConfiguration, target: int | None = None) -> None:
        if configuration.index == 1:
            raise ServerUnavailable("The collector is down.")
        opened(configuration, target)

    sleep = Sleep(server, before=2)
    handle = asked(server, sleep)
    monkeypatch.setattr(collector, "open", open)
    server.services.the_coordinator.step()
    assert [round.state for round in handle.status().rounds] == ["open", "planned", "planned"]
    monkeypatch.undo()
    assert len({round.deadline for round in handle.close_now().rounds}) == 1
    assert len(sleep.slept) == 2


def test_waiting_ends(server: Inside) -> None:
    sleep = Sleep(server, before=1000)
    handle = asked(server, sleep)
    with pytest.raises(Conflict, match="No round of this query is open now"):
        handle.close_now()
    assert 10 <= sum(sleep.slept) < 13


def test_the_next_step_is_not_closed_in_place_of_one_that_has_closed(
    server: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rounds would close before any device has seen them."""
    sleep = Sleep(server, before=1)
    handle = asked(server, sleep, TRIE)
    coordinator = server.services.the_coordinator
    coordinator.step()
    handle.close_now()

    def forward(round: str) -> int:
        raise ServerUnavailable("The aggregator is down.")

    monkeypatch.setattr(server.services.the_collector, "forward", forward)
    coordinator.step()
    assert [round.state for round in handle.status().rounds] == ["closed"]
    with pytest.raises(Conflict, match="No round of this query is open now"):
        handle.close_now()
    assert sleep.slept == []


def test_an_ended_query_stays_as_it_is(server: Inside) -> None:
    sleep = Sleep(server, before=1)
    handle = asked(server, sleep)
    ended = handle.cancel()
    assert (handle.close_now(), sleep.slept) == (ended, [])


def test_an_empty_object_is_no_body(server: Inside) -> None:
    analyst = server.token("analyst")
    id = server.ask("POST", "/v1/queries", analyst, json=histogram_request()).json()["id"]
    early = server.ask("POST", f"/v1/queries/{id}/close", analyst)
    assert (early.status_code, early.json()["code"]) == (409, "conflict")
    server.services.the_coordinator.step()
    for body in (b"", b"{}", b" {}\n"):
        assert server.ask("POST", f"/v1/queries/{id}/close", analyst, content=body).status_code == 200
    assert server.ask("POST", f"/v1/queries/{id}/close", analyst, content=b'{"now": true}').status_code == 400
