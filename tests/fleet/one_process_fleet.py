"""All roles and their devices in one process, on a clock that only the test moves and wires that only it cuts.

Roles are the shipped classes on real stores. Every call between them, and every request of a device, goes through a
wire that may lose the request, process it and lose the answer, or kill the caller at that instant.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
from device_cases import StillClock

from thresher.device.core import DeviceCore, Request
from thresher.device.policy import Policy, Reason
from thresher.device.spending import Charged
from thresher.device.state import FileState
from thresher.errors import ServerUnavailable
from thresher.ledger import Ledger
from thresher.mechanism import Release
from thresher.privacy.plans import Plan
from thresher.protocol import messages
from thresher.protocol.analyst_messages import QueryRequest, RoundSettings
from thresher.protocol.readable import ReadableRound
from thresher.questions import Values
from thresher.roles.aggregator.aggregator import Aggregator
from thresher.roles.aggregator.keys import KeyRing
from thresher.roles.aggregator.round_drawing import LocalDrawing
from thresher.roles.aggregator.store import AggregatorStore
from thresher.roles.collector.collector import Collector
from thresher.roles.collector.reports import NewVisit, Outcome
from thresher.roles.collector.store import CollectorStore
from thresher.roles.coordinator.coordinator import Coordinator
from thresher.roles.coordinator.store import CoordinatorStore
from thresher.roles.tokens import new_token
from thresher.verbs import HistogramQuery

EVERYTHING = Plan(sampling_rate=0.5, threshold=1, epsilon=1.0, delta=0.9)
"""Drops nothing. With `HEADS` for coins, what is released is what was handed in."""


HEADS = bytes
"""Random bytes that are all zero: coins always come up heads, and every device's answer is real."""


class Anything(Policy):
    """A device that agrees to all, since the plan above protects nobody."""

    def refusal_outright(self, round: ReadableRound, now: float) -> Reason | None:
        return None

    def refusal(self, round: ReadableRound, charged: Charged, now: float) -> Reason | None:
        return None


AGREES = Anything()


class BoundlessLedger(Ledger):
    """Keeps every charge as any ledger does, and finds room for all of them."""

    def _enter(self, order: Any, *, within_budget: bool = True) -> tuple[int, bool]:
        return super()._enter(order, within_budget=False)


class Killed(BaseException):
    """The process that was calling is gone."""


class Wires:
    """What happens to the next calls, in order; after that, all goes well."""

    def __init__(self) -> None:
        self.faults: list[str] = []

    def carry(self, call: Callable[[], Any]) -> Any:
        fault = self.faults.pop(0) if self.faults else "none"
        if fault == "lose request":
            raise ServerUnavailable("The request was lost.")
        if fault == "die before":
            raise Killed
        result = call()
        if fault == "lose answer":
            raise ServerUnavailable("The answer was lost.")
        if fault == "die after":
            raise Killed
        return result


FAULTS = ("none", "none", "lose request", "lose answer", "die before", "die after")


class Wired:
    """A role behind a wire."""

    def __init__(self, role: Any, wires: Wires) -> None:
        self._role, self._wires = role, wires

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._role(), name)
        return lambda *given, **named: self._wires.carry(lambda: method(*given, **named))


class OneProcessFleet:
    """Three roles on three stores, and devices whose states are files."""

    def __init__(self, directory: Path, store: str | None = None) -> None:
        self.directory = directory
        self.where = store or directory
        self.clock = StillClock(1_700_000_000.0)
        self.wires = Wires()
        self.devices: dict[str, DeviceCore] = {}
        self.sent: dict[tuple[str, str], set[bytes]] = defaultdict(set)
        self.acknowledged: dict[str, set[str]] = defaultdict(set)
        self.roles: dict[str, Any] = {}
        for role in ("aggregator", "collector", "coordinator"):
            self.start(role)
        self.enrolment_key = new_token("enrolment")
        self.collector.add_enrolment_key(self.enrolment_key, "tests")

    # Roles

    def start(self, role: str) -> None:
        path = self.directory / "ledger.db"
        ledger = BoundlessLedger(path) if path.exists() else BoundlessLedger(path, 1.0, 1e-6)
        if role == "aggregator":
            store = AggregatorStore.open(self.where)
            keys = KeyRing(self.directory / "keys")
            self.roles[role] = Aggregator(store, keys, LocalDrawing(1))
            self.roles[role].recover()
        elif role == "collector":
            store = CollectorStore.open(self.where)
            aggregator = Wired(lambda: self.roles["aggregator"], self.wires)
            self.roles[role] = Collector(store, self.clock, aggregator, batch_size=3)
            self.roles[role].recover()
        else:
            store = CoordinatorStore.open(self.where)
            collector = Wired(lambda: self.roles["collector"], self.wires)
            aggregator = Wired(lambda: self.roles["aggregator"], self.wires)
            self.roles[role] = Coordinator(store, ledger, self.clock, collector, aggregator, "tests")
        self.ledger = ledger
        self.stores = {**getattr(self, "stores", {}), role: store}

    def restart(self, role: str) -> None:
        """As after kill -9: objects are dropped, only what is in the stores is left."""
        self.stores[role].close()
        self.start(role)

    @property
    def coordinator(self) -> Coordinator:
        return self.roles["coordinator"]

    @property
    def collector(self) -> Collector:
        return self.roles["collector"]

    def ask(self, name: str, *, seconds: float, completions: int | None, plan: Plan = EVERYTHING) -> str:
        query = HistogramQuery(Values(("name",)), plan)
        settings = RoundSettings(seconds=seconds, completions=completions, bucket_size=64, sampled_by="device")
        return self.coordinator.submit(QueryRequest(name=name, query=query.to_dict(), settings=settings), "analyst").id

    def step(self) -> None:
        try:
            self.coordinator.step()
        except Killed:
            for role in ("aggregator", "collector", "coordinator"):
                self.restart(role)

    # Devices

    def enrol(self, name: str) -> None:
        self.reboot(name)
        device = self.devices[name]
        device.enrolled(*self.collector.enrol([self.enrolment_key]))

    def reboot(self, name: str) -> None:
        state = FileState(self.directory / f"{name}.json")
        self.devices[name] = DeviceCore({"name": name}, AGREES, state, HEADS, self.clock)

    def visit(self, name: str) -> list[str]:
        """Ask for rounds over the wire, and hand in what waits; the rounds that wait to be sent."""
        request = self.devices[name].visit_request(rounds=True)
        assert request is not None
        return self.waiting(name) if self._ask(name, request) else []

    def _ask(self, name: str, request: Request) -> bool:
        """One request over the wire; whether the device got its answer."""
        device = self.devices[name]
        visit = messages.decode(messages.Visit, request.body)
        for report in visit.reports:
            self.sent[name, report.round].add(report.sealed)

        def asked() -> bytes:
            [identity] = self.collector.identify([device.token])
            assert identity is not None
            reports = [(report.round, report.sealed) for report in visit.reports]
            [visited] = self.collector.visit([NewVisit(identity, reports, visit.rounds)])
            assert visited is not None
            return self.collector.written(request.reports, visited, 1.0)

        try:
            answer = self.wires.carry(asked)
        except ServerUnavailable:
            return False
        except Killed:
            self.reboot(name)
            return False
        for outcome in device.visited(request, answer):
            if outcome.status == "taken":
                self.acknowledged[outcome.round].add(name)
        return True

    def waiting(self, name: str) -> list[str]:
        return [outcome.round for outcome in self.devices[name].outcomes() if outcome.status == "sealed"]

    def send(self, name: str, round: str) -> None:
        """Hand in one report over the wire."""
        device = self.devices[name]
        whole = device.visit_request(rounds=True)
        assert whole is not None
        visit = messages.decode(messages.Visit, whole.body)
        reports = [report for report in visit.reports if report.round == round]
        assert reports
        body = messages.encode(msgspec.structs.replace(visit, reports=reports, rounds=False))
        self._ask(name, replace(whole, body=body, reports=(round,), rounds=False))

    def hand_in(self, name: str, round: str, sealed: bytes) -> Outcome:
        [identity] = self.collector.identify([self.devices[name].token])
        [visited] = self.collector.visit([NewVisit(identity, [(round, sealed)], rounds=False)])
        [outcome] = visited.outcomes
        return outcome

    # What must hold

    def releases(self) -> dict[str, Release]:
        found = {}
        for status in self.coordinator.queries():
            released = [round.round for round in status.rounds if round.state == "released"]
            for round, text in zip(released, self.coordinator.releases(status.id), strict=True):
                found[round] = Release.from_json(text)
        return found
