"""Rounds that are open together on a real server over sockets: one visit answers all, closing now, ending early."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from fleet_server import RunningServer, started
from typer.testing import CliRunner

import thresher as th
from thresher.cli import fleet as commands
from thresher.client.fleet import Fleet, QueryHandle
from thresher.device.device import Device
from thresher.device.policy import Policy
from thresher.device.state import MemoryState
from thresher.errors import NotFound
from thresher.verbs import HeavyHittersQuery, RangesQuery

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

LEVELS, PEOPLE = 6, 12
RANGES = RangesQuery("age", th.plan(epsilon=1.0, delta=1e-6, rounds=LEVELS), 0.0, 64.0, 2)
POLICY = Policy(period_epsilon=100.0, period_delta=0.5)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    arguments = ("--come-back", "1", "--round-seconds", "3600", "--budget-epsilon", "100", "--budget-delta", "1e-2")
    with started(tmp_path_factory.mktemp("together") / "data", *arguments) as running:
        yield running


@pytest.fixture
def fleet(server: RunningServer) -> Iterator[Fleet]:
    with Fleet(server.url, server.analyst) as connection:
        yield connection


@pytest.fixture(scope="module")
def devices(server: RunningServer) -> Iterator[list[tuple[Device, MemoryState]]]:
    made = []
    for number in range(PEOPLE):
        state = MemoryState()
        holds = {"age": str(number), "word": "yes"}
        made.append((Device(server.url, server.enrolment_key, holds, policy=POLICY, state=state), state))
        made[-1][0].enrol()
    yield made
    for device, _ in made:
        device.close()


def opened(handle: QueryHandle, rounds: int) -> Any:
    for _ in range(600):
        status = handle.status()
        if [round.state for round in status.rounds].count("open") >= rounds:
            return status
        time.sleep(0.1)
    raise AssertionError("the rounds do not open")


def test_one_visit_answers_every_round_of_a_step_for_one_charge(
    fleet: Fleet, devices: list[tuple[Device, MemoryState]]
) -> None:
    handle = fleet.submit(RANGES, wait=False, warn=False)
    assert "its 6 rounds are open at the same time" in repr(handle)
    opened(handle, LEVELS)
    device, state = devices[0]
    before = set(state.load().spends)
    outcomes = {outcome.round: outcome.status for outcome in device.check_in()}
    assert [outcomes[f"{handle.id}-r{index}"] for index in range(LEVELS)] == ["taken"] * LEVELS
    assert len(set(state.load().spends) - before) == 1  # all rounds of the query are one spend
    for other, _ in devices[1:]:
        other.check_in()
    status = handle.close_now()
    assert handle.wait(60).state == "done"
    assert [round.completed for round in handle.status().rounds] == [PEOPLE] * LEVELS
    assert [release.response.completed for release in handle.releases() if release.response] == [PEOPLE] * LEVELS
    assert max(round.deadline for round in status.rounds) < status.created + 3600
    assert handle.result().rounds_asked == LEVELS
    with pytest.raises(NotFound):
        fleet.query("qnothing").close_now()


def test_a_closed_round_takes_no_more_reports(fleet: Fleet, devices: list[tuple[Device, MemoryState]]) -> None:
    handle = fleet.submit(RANGES, wait=False, warn=False)
    opened(handle, LEVELS)
    devices[0][0].check_in()
    handle.close_now()
    assert handle.wait(60).state == "done"
    late = {outcome.round for outcome in devices[1][0].check_in()}
    assert not any(round.startswith(f"{handle.id}-") for round in late)
    assert {round.completed for round in handle.status().rounds} == {1}


def test_a_round_ends_by_itself_when_everybody_has_answered(
    fleet: Fleet, devices: list[tuple[Device, MemoryState]]
) -> None:
    handle = fleet.with_rounds(until_all=True).submit(RANGES, wait=False, warn=False)
    opened(handle, LEVELS)
    for device, _ in devices[:-1]:
        device.check_in()
    time.sleep(2.5)
    assert [round.state for round in handle.status().rounds] == ["open"] * LEVELS
    devices[-1][0].check_in()
    assert handle.wait(60).state == "done"
    assert {round.completed for round in handle.status().rounds} == {PEOPLE}


def test_close_as_a_command(server: RunningServer, fleet: Fleet) -> None:
    trie = HeavyHittersQuery("word", th.plan(epsilon=1.0, delta=1e-6, rounds=2), "trie")
    handle = fleet.submit(trie, wait=False, warn=False)
    opened(handle, 1)
    place = ["--server", server.url]
    run = CliRunner(env={"THRESHER_KEY": server.analyst, "COLUMNS": "200"})
    shown = run.invoke(commands.app, ["show", handle.id, *place])
    assert "It takes 2 hours in all, up to 2 steps of 1 hour one after another." in shown.output
    closed = run.invoke(commands.app, ["close", handle.id, *place, "--json"])
    [round] = json.loads(closed.output)["query"]["rounds"]
    assert round["deadline"] <= time.time()
    assert handle.wait(60).state == "done"  # nobody answered, so the trie has no second level
    plan = ["query", "ranges", "age", "--lower", "0", "--upper", "64", "--epsilon", "1", "--delta", "1e-6", "--plan"]
    preview = run.invoke(commands.app, [*plan, "--until-all", "--seconds", "0.5", *place])
    assert "It takes at most 0.5 seconds in all: its 6 rounds are open at the same time." in preview.output
    assert "Warning: A round is open for 0.5 s, and devices visit every 1 s" in preview.output
