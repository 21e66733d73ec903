"""The real server with the console in it, whose devices are rows of a table that answer at once.

Coordinator, ledger, stores, tokens, application and pages are the shipped ones; only the collector's and aggregator's
ports are answered from the rows, so that ten thousand buckets take no ten thousand devices.
"""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import uvicorn

import thresher as th
from thresher.console import routes
from thresher.console.adapter import ServerDesk, ServerDoor, ServerOperations
from thresher.device.policy import Policy
from thresher.mechanism import Release, Response, thin, threshold
from thresher.mechanism.response import RoundNumbers
from thresher.privacy.budget import Composing
from thresher.protocol.analyst_messages import RoundSettings
from thresher.protocol.configurations import RoundConfiguration
from thresher.protocol.plaintext import fleet_bucket, to_columns
from thresher.protocol.recomputation import check_configuration
from thresher.protocol.sealing import PublicKey
from thresher.roles.aggregator.aggregator import Aggregator
from thresher.roles.collector.enrolment import Overview
from thresher.roles.coordinator.coordinator import Coordinator
from thresher.server.app import App
from thresher.server.assembly import Settings, assembled
from thresher.server.data_directory import DataDirectory
from thresher.simulator.simulation import POLICY


class Rows:
    """Collector and aggregator of devices that hold one row each. `pace` is how long a round fills up, in seconds."""

    def __init__(self, rows: list[dict[str, Any]], pace: float = 0.0) -> None:
        self.rows = rows
        self.pace = pace
        self.silent = 0.05
        self.check_ins: list[tuple[float, int]] = []
        self.opened: dict[str, float] = {}
        self.closed: dict[str, RoundNumbers] = {}
        self.releases: dict[str, str] = {}

    def open(self, configuration: RoundConfiguration, target: int | None = None) -> None:
        self.opened.setdefault(configuration.round, time.time())

    def progress(self, round: str) -> RoundNumbers:
        if round in self.closed:
            return self.closed[round]
        part = min(1.0, (time.time() - self.opened[round]) / self.pace) if self.pace else 1.0
        asked = int(len(self.rows) * part)
        return RoundNumbers(asked, asked, int(asked * (1 - self.silent)))

    def waited_for(self, round: str) -> int:
        return len(self.rows) - self.progress(round).asked

    def close(self, round: str) -> RoundNumbers:
        return self.closed.setdefault(round, self.progress(round))

    def forward(self, round: str) -> int:
        return 1

    def forget(self, round: str) -> None:
        pass

    def overview(self) -> Overview:
        return Overview(len(self.rows), int(len(self.rows) * 0.93), self.check_ins)

    def public_key(self) -> PublicKey:
        return PublicKey("k1", bytes(32))

    def add_batch(self, round: str, number: int, blob: bytes) -> None:
        raise NotImplementedError

    def release(self, configuration: RoundConfiguration, batches: int, response: Response) -> str:
        question, plan, _ = check_configuration(configuration)
        held = self.rows[: response.completed]
        columns = question.columns
        values = [tuple(row.get(name) for name in columns) if len(columns) > 1 else row.get(columns[0]) for row in held]
        buckets = Counter(fleet_bucket(question, value, random.random()) for value in values)
        buckets.pop(None, None)
        keys, sizes = list(buckets), np.array(list(buckets.values()), dtype=np.int64)
        sampled = thin(sizes, plan)
        kept = np.flatnonzero(threshold(sampled, plan))
        table = pa.table(to_columns([keys[index] for index in kept], question), names=list(columns))
        release = Release.of(table, sampled[kept], plan, private=True, columns=columns, response=response)
        return self.releases.setdefault(configuration.round, release.to_json())


class MovableClock:
    """The machine's time, which a test can push forward."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def now(self) -> float:
        return time.time() + self.ahead


@dataclass
class ConsoleServer:
    """A running server and what a test needs of it."""

    url: str
    analyst: str
    operator: str
    coordinator: Coordinator
    rows: Rows
    console_clock: MovableClock
    aggregator: Aggregator
    ledger: th.Ledger


@contextlib.contextmanager
def console_server(
    directory: Path,
    rows: list[dict[str, Any]],
    *,
    epsilon: float = 20.0,
    delta: float = 1e-5,
    pace: float = 0.0,
    attributes: tuple[str, ...] = (),
    operated: bool = True,
    policy: Policy | None = None,
    composition: Composing | None = None,
    period: str | None = None,
    moved: bool = False,
) -> Iterator[ConsoleServer]:
    """A server in a thread, on a free port. Not `operated` is one whose other roles run elsewhere.

    The ledger has the clock of the pages, which a test moves. `moved` has the coordinator follow it, too.
    """
    settings = Settings(data_dir=directory / "data", port=0)
    with DataDirectory(settings.data_dir, settings.roles) as data, assembled(settings, data) as services:
        ports = Rows(rows, pace)
        clock = MovableClock()
        budget = {"epsilon": epsilon, "delta": delta, "composition": composition, "period": period}
        ledger = th.Ledger(directory / "ledger.db", **budget, clock=clock)
        defaults = RoundSettings(seconds=600, completions=max(1, int(len(rows) * 0.9)))
        services.coordinator = Coordinator(
            services.coordinator_store,
            ledger,
            clock if moved else services.clock,
            ports,
            ports,
            "demo",
            defaults,
            policy=policy or POLICY,
        )
        pages = routes(
            ServerDesk(services),
            ServerDoor(services),
            ServerOperations(services) if operated else None,
            clock=clock,
            attributes=attributes,
        )
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        app = App(services, pages)
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off", ws="none"))
        running = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        stopping = threading.Event()
        stepping = threading.Thread(target=_step, args=(services.coordinator, stopping), daemon=True)
        running.start()
        stepping.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield ConsoleServer(
                f"http://127.0.0.1:{listener.getsockname()[1]}",
                data.secret("analyst").token,
                data.secret("operator").token,
                services.coordinator,
                ports,
                clock,
                services.the_aggregator,
                ledger,
            )
        finally:
            stopping.set()
            server.should_exit = True
            server.force_exit = True
            running.join(10)
            stepping.join(10)
            listener.close()


def _step(coordinator: Coordinator, stopping: threading.Event) -> None:
    while not stopping.is_set():
        coordinator.step()
        stopping.wait(0.05)


def people(number: int = 6000, seed: int = 7) -> list[dict[str, Any]]:
    """Devices with a country, a word, a version, a waiting time and a day; common values and a long tail."""
    random = np.random.default_rng(seed)
    countries = [
        "France",
        "Deutschland",
        "Italia",
        "España",
        "Polska",
        "Portugal",
        "Österreich",
        "Ελλάδα",
        "مصر",
        "ישראל",
    ]
    words = (
        "the then there these they to today tomorrow top and any answer are art be been before bread by water".split()
    )
    country = random.choice(len(countries), number, p=_falling(len(countries), 1.1))
    word = random.choice(len(words), number, p=_falling(len(words), 0.8))
    waits = np.exp(random.normal(4.6, 0.7, number))
    days = random.integers(0, 60, number)
    return [
        {
            "country": countries[country[index]],
            "word": words[word[index]],
            "latency_ms": float(waits[index]),
            "day": f"2026-{9 + days[index] // 30:02d}-{1 + days[index] % 30:02d}",
            "os": "Android" if country[index] % 3 else "iOS",
        }
        for index in range(number)
    ]


def _falling(number: int, exponent: float) -> Any:
    weights = 1 / np.arange(1, number + 1) ** exponent
    return weights / weights.sum()
