"""Roles in memory behind the coordinator's ports, a clock that a test moves, and crashes at any call."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from device_cases import StillClock

import thresher as th
from thresher.errors import Conflict, NotFound
from thresher.mechanism import Release, Response, thin, threshold
from thresher.mechanism.response import RoundNumbers
from thresher.privacy import DEVICE
from thresher.protocol.analyst_messages import QueryRequest, RoundSettings
from thresher.protocol.configurations import RoundConfiguration
from thresher.protocol.plaintext import fleet_bucket, to_columns
from thresher.protocol.recomputation import check_configuration
from thresher.protocol.sealing import PublicKey
from thresher.questions import Values
from thresher.roles.collector.enrolment import Overview
from thresher.roles.coordinator.coordinator import Coordinator
from thresher.roles.coordinator.store import CoordinatorStore
from thresher.verbs import HistogramQuery

PLAN = th.plan(epsilon=1.0, delta=1e-6)
MINUTE = 60.0


class Roles:
    """Collector and aggregator of a fleet whose devices all check in at once and hold one value a column."""

    def __init__(self, values: list[Any], completing: float = 1.0) -> None:
        self.values = values
        self.completing = completing
        self.configurations: dict[str, RoundConfiguration] = {}
        self.closed: set[str] = set()
        self.releases: dict[str, str] = {}
        self.drawn: Counter[str] = Counter()
        self.forgotten: list[tuple[str, str]] = []
        self.key = PublicKey("k1", bytes(32))
        self.waiting = 1

    @property
    def completed(self) -> int:
        return int(len(self.values) * self.completing)

    # The collector.

    def open(self, configuration: RoundConfiguration, target: int | None = None) -> None:
        known = self.configurations.setdefault(configuration.round, configuration)
        if known != configuration:
            raise Conflict("Another configuration.")

    def progress(self, round: str) -> RoundNumbers:
        if round not in self.configurations:
            raise NotFound("No such round.")
        return RoundNumbers(len(self.values), len(self.values), self.completed)

    def waited_for(self, round: str) -> int:
        return self.waiting

    def close(self, round: str) -> RoundNumbers:
        numbers = self.progress(round)
        self.closed.add(round)
        return numbers

    def forward(self, round: str) -> int:
        assert round in self.closed
        return 1

    def overview(self) -> Overview:
        return Overview(len(self.values), len(self.values), [])

    # The aggregator.

    def public_key(self) -> PublicKey:
        return self.key

    def add_batch(self, round: str, number: int, blob: bytes) -> None:
        raise NotImplementedError

    def release(self, configuration: RoundConfiguration, batches: int, response: Response) -> str:
        name = configuration.round
        if name not in self.releases:
            self.drawn[name] += 1
            self.releases[name] = self._draw(configuration, response)
        return self.releases[name]

    def forget(self, round: str) -> None:
        self.forgotten.append((round, "released" if round in self.releases else "unread"))

    def _draw(self, configuration: RoundConfiguration, response: Response) -> str:
        question, plan, _ = check_configuration(configuration)
        buckets = Counter(fleet_bucket(question, value, random.random()) for value in self.values[: self.completed])
        buckets.pop(None, None)
        keys, sizes = list(buckets), np.array(list(buckets.values()), dtype=np.int64)
        sampled = thin(sizes, plan)
        kept = np.flatnonzero(threshold(sampled, plan))
        import pyarrow as pa

        columns = to_columns([keys[index] for index in kept], question)
        table = pa.table(columns, names=list(question.columns))
        release = Release.of(
            table, sampled[kept], plan, private=True, columns=question.columns, response=response, unit=DEVICE
        )
        return release.to_json()


class Crash(BaseException):
    """The process is gone: nothing of ours catches it."""


class Crashing:
    """Passes calls on, and crashes before the one that the counter reaches."""

    def __init__(self, target: Any, tick: Callable[[], None]) -> None:
        self._target = target
        self._tick = tick

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        if not callable(value):
            return value

        def call(*arguments: Any, **settings: Any) -> Any:
            self._tick()
            return value(*arguments, **settings)

        return call


class Server:
    """A coordinator with its store and ledger on disk, which can be killed and started again."""

    def __init__(self, folder: Any, values: list[Any], epsilon: float = 3.0, completing: float = 1.0) -> None:
        self.clock = StillClock(1_700_000_000.0)
        self.store = CoordinatorStore.open(folder)
        self.ledger = th.Ledger(folder / "ledger.db", epsilon=epsilon, delta=1e-4)
        self.roles = Roles(values, completing)
        self.ids = 0
        self.calls: int | None = None
        self.coordinator = self.start()

    def start(self, **settings: Any) -> Coordinator:
        def new_id() -> str:
            self.ids += 1
            return f"q{self.ids}"

        parts = [Crashing(part, self._tick) for part in (self.store, self.ledger, self.roles, self.roles)]
        store, ledger, collector, aggregator = parts
        self.coordinator = Coordinator(
            store, ledger, self.clock, collector, aggregator, "test-fleet", new_id=new_id, **settings
        )
        return self.coordinator

    def _tick(self) -> None:
        if self.calls is not None:
            self.calls -= 1
            if self.calls < 0:
                self.calls = None
                raise Crash

    def run(self, seconds: float = MINUTE, most: int = 200) -> None:
        """Step and let time pass until nothing is due."""
        for _ in range(most):
            if self.coordinator.step() is None:
                return
            self.clock.time += seconds
        raise AssertionError("the coordinator does not come to rest")

    def close(self) -> None:
        self.store.close()


def request(name: str = "first", query: Any = None, **settings: Any) -> QueryRequest:
    query = query or HistogramQuery(Values(("word",)), PLAN)
    return QueryRequest(name=name, query=query.to_dict(), settings=RoundSettings(**{"seconds": MINUTE} | settings))
