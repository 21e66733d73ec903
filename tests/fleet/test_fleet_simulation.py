"""Thousands of random steps through lost requests, lost answers, replays, crashes and rotations.

Nothing is counted twice, nothing that was acknowledged is lost, no release changes, no charge is given back.

Every device holds a value of its own, so any count of 2 proves double counting.
"""

from __future__ import annotations

import random
import secrets
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from one_process_fleet import FAULTS, OneProcessFleet

from thresher.device.state import FileState
from thresher.roles.collector.collector import Collector
from thresher.roles.collector.reports import NewVisit, Outcome, Visited

REAL_SAVE = FileState.save
NAMES = [f"device-{number}" for number in range(7)]
names = st.sampled_from(NAMES)
subsets = st.integers(1, 127).map(lambda bits: [name for place, name in enumerate(NAMES) if bits >> place & 1])
faults = st.lists(st.sampled_from(FAULTS), max_size=6)


class FleetMachine(RuleBasedStateMachine):
    """The protocol under every fault that docs/protocol.md, section 7 names."""

    def __init__(self) -> None:
        super().__init__()
        self._directory = tempfile.TemporaryDirectory(prefix="fleet-simulation-")
        self.fleet = OneProcessFleet(Path(self._directory.name))
        self.seen: dict[str, str] = {}
        self.charged: dict[str, float] = {}
        self.asked = 0
        self.most_asked = 12
        self.counted = 0

    @initialize()
    def enrol(self) -> None:
        for name in NAMES:
            self.fleet.enrol(name)

    @precondition(lambda self: self.asked < self.most_asked)
    @rule(
        seconds=st.sampled_from([60.0, 900.0, 3600.0]), completions=st.sampled_from([None, 3, 7]), at_once=st.booleans()
    )
    def ask(self, seconds: float, completions: int | None, at_once: bool) -> None:
        self.asked += 1
        query = self.fleet.ask(f"query-{self.asked}", seconds=seconds, completions=completions)
        # The same name again is the same query, and costs nothing more.
        assert self.fleet.ask(f"query-{self.asked}", seconds=seconds, completions=completions) == query
        if at_once:
            self.fleet.step()

    def keep_busy(self) -> None:
        """Devices that find no open round prove nothing."""
        states = [round.state for status in self.fleet.coordinator.queries() for round in status.rounds]
        if "open" not in states and self.asked < self.most_asked:
            self.ask(900.0, None, at_once=True)

    @rule(several=subsets, faults=faults)
    def visit(self, several: list[str], faults: list[str]) -> None:
        self.keep_busy()
        self.fleet.wires.faults = list(faults)
        for name in several:
            self.fleet.visit(name)
            for round in self.fleet.waiting(name):
                self.fleet.send(name, round)
        self.fleet.wires.faults = []

    @rule(several=subsets)
    def check_in_only(self, several: list[str]) -> None:
        self.keep_busy()
        for name in several:
            self.fleet.visit(name)

    @rule(name=names, faults=faults)
    def send_again(self, name: str, faults: list[str]) -> None:
        self.fleet.wires.faults = list(faults)
        for round in self.fleet.waiting(name):
            self.fleet.send(name, round)
        self.fleet.wires.faults = []

    @rule(choice=st.integers(0, 10_000))
    def replay_old_bytes(self, choice: int) -> None:
        """Somebody recorded a report and hands it in again: accepted again, or closed, and it changes nothing."""
        recorded = sorted((key, sealed) for key, each in self.fleet.sent.items() for sealed in each)
        if recorded:
            (name, round), sealed = recorded[choice % len(recorded)]
            outcome = self.fleet.hand_in(name, round, sealed)
            if outcome in (Outcome.ACCEPTED, Outcome.AGAIN):
                self.fleet.acknowledged[round].add(name)

    @rule(choice=st.integers(0, 10_000))
    def other_bytes(self, choice: int) -> None:
        """A device that has reported tries again with other bytes: refused."""
        reported = sorted((round, name) for round, each in self.fleet.acknowledged.items() for name in each)
        if reported:
            round, name = reported[choice % len(reported)]
            [sealed] = self.fleet.sent[name, round]
            other = bytes([sealed[0] ^ 1]) + sealed[1:]
            assert self.fleet.hand_in(name, round, other) not in (Outcome.ACCEPTED, Outcome.AGAIN)

    @rule(name=names)
    def reboot(self, name: str) -> None:
        self.fleet.reboot(name)

    @rule(faults=faults)
    def step(self, faults: list[str]) -> None:
        self.fleet.wires.faults = list(faults)
        self.fleet.step()
        self.fleet.wires.faults = []

    @rule(role=st.sampled_from(["aggregator", "collector", "coordinator"]))
    def restart(self, role: str) -> None:
        self.fleet.restart(role)

    @rule(seconds=st.sampled_from([1.0, 100.0, 1000.0]))
    def wait(self, seconds: float) -> None:
        self.fleet.clock.time += seconds

    @rule()
    def rotate_the_key(self) -> None:
        aggregator = self.fleet.roles["aggregator"]
        aggregator.rotate()
        aggregator.retire_keys(self.fleet.coordinator.keys_in_use())

    @rule(choice=st.integers(0, 10_000))
    def close_early(self, choice: int) -> None:
        """The collector is told to close, as at a deadline that came first; the coordinator finds out later."""
        running = [
            each.round for status in self.fleet.coordinator.queries() for each in status.rounds if each.state == "open"
        ]
        if running:
            self.fleet.collector.close(running[choice % len(running)])

    @rule(choice=st.integers(0, 10_000), faults=faults)
    def cancel(self, choice: int, faults: list[str]) -> None:
        running = [status.id for status in self.fleet.coordinator.queries() if status.state == "running"]
        if running and choice % 5 == 0:
            self.fleet.wires.faults = [fault for fault in faults if not fault.startswith("die")]
            self.fleet.coordinator.cancel(running[choice % len(running)], "analyst")
            self.fleet.wires.faults = []

    @invariant()
    def the_same_bytes_are_sent(self) -> None:
        assert all(len(each) == 1 for each in self.fleet.sent.values())

    @invariant()
    def releases_hold(self) -> None:
        for status in self.fleet.coordinator.queries():
            texts = self.fleet.coordinator.releases(status.id)
            released = [round for round in status.rounds if round.state == "released"]
            for round, text in zip(released, texts, strict=True):
                assert self.seen.setdefault(round.round, text) == text, "a release was drawn again"

    @invariant()
    def charges_only_grow(self) -> None:
        entries = self.fleet.ledger.history()
        names = [entry.reference for entry in entries]
        asked = {status.id for status in self.fleet.coordinator.queries()}
        assert len(set(names)) == len(names) and asked.issuperset(names), "a query was charged twice"
        now = {str(entry.id): entry.epsilon for entry in entries}
        assert self.charged.items() <= now.items(), "a charge was given back"
        self.charged = now

    def teardown(self) -> None:
        try:
            self.finish()
        finally:
            self.tidy_up()

    def tidy_up(self) -> None:
        for store in self.fleet.stores.values():
            store.close()
        self._directory.cleanup()

    def finish(self) -> None:
        """Let the faults end and time pass: queries end, and every report is accounted for."""
        self.fleet.wires.faults = []
        for _ in range(20):
            self.fleet.step()
            self.fleet.clock.time += 1000.0
        for status in self.fleet.coordinator.queries():
            assert status.state in ("done", "cancelled"), status.problem
        self.releases_hold()
        for round, release in self.fleet.releases().items():
            assert set(release.counts.tolist()) <= {1}, "a report was counted twice"
            counted = set(release.buckets)
            # A report that was taken without its answer arriving is counted too; none that was acknowledged is missing.
            assert self.fleet.acknowledged[round] <= counted, "an acknowledged report was lost"
            assert counted <= {name for name, sent in self.fleet.sent if sent == round}
            self.counted += len(counted)
            assert release.response is not None
            assert release.response.completed == len(counted)


def walk(seed: int, steps: int) -> FleetMachine:
    """A long walk with weights of our own: more visits than cancellations, so that most rounds have reports."""
    dice = random.Random(seed)
    machine = FleetMachine()
    machine.most_asked = steps
    machine.enrol()

    def several() -> list[str]:
        return dice.sample(NAMES, dice.randint(1, len(NAMES)))

    def some_faults() -> list[str]:
        return dice.choices(FAULTS, k=dice.randint(0, 6))

    moves: list[tuple[int, Callable[[], None]]] = [
        (30, lambda: machine.visit(several(), some_faults())),
        (10, lambda: machine.check_in_only(several())),
        (10, lambda: machine.send_again(dice.choice(NAMES), some_faults())),
        (20, lambda: machine.step(some_faults())),
        (5, lambda: machine.ask(dice.choice([60.0, 900.0]), dice.choice([None, 3, 7]), dice.random() < 0.5)),
        (4, lambda: machine.replay_old_bytes(dice.randrange(10_000))),
        (4, lambda: machine.other_bytes(dice.randrange(10_000))),
        (3, lambda: machine.reboot(dice.choice(NAMES))),
        (4, lambda: machine.restart(dice.choice(["aggregator", "collector", "coordinator"]))),
        (6, lambda: machine.wait(dice.choice([1.0, 15.0, 100.0]))),
        (2, lambda: machine.rotate_the_key()),
        (2, lambda: machine.close_early(dice.randrange(10_000))),
        (2, lambda: machine.cancel(dice.randrange(10_000), some_faults())),
    ]
    weights, calls = zip(*moves, strict=True)
    try:
        for number in range(steps):
            dice.choices(calls, weights)[0]()
            machine.the_same_bytes_are_sent()
            if number % 10 == 0:
                machine.releases_hold()
                machine.charges_only_grow()
        machine.finish()
    finally:
        machine.tidy_up()
    return machine


def run_machine(examples: int, steps: int) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(
        FleetMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )


@pytest.mark.slow
def test_nothing_is_lost_or_counted_twice() -> None:
    run_machine(examples=5, steps=30)


@pytest.mark.slow
def test_nothing_is_lost_or_counted_twice_in_thousands_of_steps() -> None:
    run_machine(examples=30, steps=60)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_long_walks(seed: int) -> None:
    assert walk(seed, steps=150).counted > 30


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, secrets.randbelow(1 << 32)], ids=["kept", "fresh"])
def test_longer_walks(seed: int) -> None:
    """One seed is new in every run; a seed that fails is in the message, and is kept here from then on.

    That something was counted shows that the walk went somewhere. About a hundred rounds of up to 7 reports make some
    200 to 300 with a deviation below 30, so a floor of 20 says nothing about luck.
    """
    try:
        assert walk(seed, steps=1000).counted > 20
    except Exception as error:
        raise AssertionError(f"The walk with seed {seed} failed.") from error


def test_a_collector_that_acknowledges_before_it_stores_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: of some 50 reports that this walk acknowledges, each is lost with probability 1/2."""
    real = Collector.visit

    def careless(self: Collector, visits: Sequence[NewVisit]) -> list[Visited | None]:
        [visit] = visits
        lost = bool(visit.reports) and visit.reports[0][1][0] % 2 == 0
        return [Visited((Outcome.ACCEPTED,) * len(visit.reports), ())] if lost else real(self, visits)

    monkeypatch.setattr(Collector, "visit", careless)
    with pytest.raises(AssertionError):
        walk(1, steps=150)


def test_a_device_that_seals_anew_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: state that is not saved before the bytes are sent."""
    monkeypatch.setattr(FileState, "save", lambda self, state: None if state.rounds else REAL_SAVE(self, state))
    with pytest.raises(AssertionError):
        walk(1, steps=150)


def test_batches_that_nobody_announced_are_not_counted(tmp_path: Path) -> None:
    """A report that is handed over again under another number: the round is not released."""
    fleet = OneProcessFleet(tmp_path)
    fleet.enrol("device-0")
    query = fleet.ask("query", seconds=60, completions=None)
    fleet.step()
    [round] = fleet.visit("device-0")
    sealed: Any = fleet.devices["device-0"]._record(round).sealed
    fleet.send("device-0", round)
    fleet.clock.time += 100
    aggregator = fleet.roles["aggregator"]
    aggregator.add_batch(round, 7, sealed)
    for _ in range(8):
        fleet.step()
    status = fleet.coordinator.status(query)
    assert status.state != "done"
    assert not fleet.releases()
