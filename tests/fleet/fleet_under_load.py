"""Devices and analysts that keep a real server busy over loopback, and remember all that it promised them.

Every device holds a value of its own, its coins always come up heads and the threshold is 1: what is released is
exactly what was handed in, so a count of 2 proves double counting and a missing name proves a loss.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from fleet_server import RunningServer, started
from one_process_fleet import AGREES, HEADS

from thresher.device.core import DeviceCore, Request
from thresher.device.state import MemoryState
from thresher.mechanism import Release
from thresher.privacy.plans import Plan
from thresher.protocol.messages import Report, Visit, encode
from thresher.questions import Values
from thresher.verbs import HeavyHittersQuery, HistogramQuery

EVERYTHING = Plan(sampling_rate=2**-12, threshold=1, epsilon=0.05, delta=0.0003)
"""Drops nothing from devices whose coins are `HEADS`, and is small enough for many queries in one ledger."""
LETTERS = Plan(sampling_rate=2**-12, threshold=1, epsilon=0.05, delta=0.0012, rounds=4)
BUDGET = ("--budget-epsilon", "100", "--budget-delta", "0.99")
SERVE = (*BUDGET, "--come-back", "1", "--no-console")
PAUSE = 0.02
GONE = (httpx.TransportError, OSError)


COUNT_ALL = {"sampled_by": "device"}
"""The coins are the devices', and the devices of these tests toss none."""


def histogram(plan: Plan = EVERYTHING) -> dict[str, Any]:
    return HistogramQuery(Values("name"), plan).to_dict()


def by_letters() -> dict[str, Any]:
    """A query of several rounds, which is replayed from its releases after every kill."""
    return HeavyHittersQuery("name", LETTERS, method="trie").to_dict()


@dataclass
class Promises:
    """What was sent, what was acknowledged, and what has been read so far."""

    sent: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    acknowledged: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)
    reports: Counter[str] = field(default_factory=Counter)
    """What became of reports."""
    releases: dict[tuple[str, int], str] = field(default_factory=dict)
    charges: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    queries: dict[str, str] = field(default_factory=dict)
    """Ids by name."""
    problems: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def broken(self, words: str) -> None:
        self.problems.append(words)


def post(client: httpx.Client, request: Request) -> httpx.Response:
    headers = {"Authorization": f"Bearer {request.token}"}
    return client.request(request.method, request.path, content=request.body, headers=headers)


class Devices(threading.Thread):
    """Some devices that visit in turn. A new one is enrolled in every pass, up to `most`.

    With several servers, which share a store, each request goes to one of them at random.
    """

    def __init__(
        self, servers: Sequence[RunningServer], prefix: str, first: int, most: int, promises: Promises
    ) -> None:
        super().__init__(name=f"devices-{prefix}", daemon=True)
        self.servers, self.prefix, self.most, self.promises = servers, prefix, most, promises
        self.key = servers[0].enrolment_key
        self.devices: dict[str, DeviceCore] = {}
        self.first = first
        self.ended = threading.Event()
        self.dice = random.Random(prefix)

    def run(self) -> None:
        with contextlib.ExitStack() as stack:
            self.clients = [stack.enter_context(server.client()) for server in self.servers]
            while not self.ended.is_set():
                for _ in range(self.first if not self.devices else 1):
                    if len(self.devices) < self.most:
                        self.enrol()
                for name in list(self.devices):
                    if self.ended.is_set():
                        break
                    self.visit(name)
                time.sleep(3 * PAUSE)

    def post(self, request: Request) -> httpx.Response:
        return post(self.dice.choice(self.clients), request)

    def enrol(self) -> None:
        name = f"{self.prefix}{len(self.devices)}"
        device = DeviceCore({"name": name}, AGREES, MemoryState(), HEADS)
        try:
            answer = self.post(device.enrol_request(self.key))
        except GONE:
            time.sleep(PAUSE)
            return
        self.saw("enrol", answer)
        if answer.status_code == 200:
            device.enrolled(answer.content)
            self.devices[name] = device

    def visit(self, name: str) -> None:
        device = self.devices[name]
        asked = device.visit_request(rounds=True)
        if asked is None or not self.send(name, asked):
            return
        while (request := device.visit_request(rounds=False)) is not None:
            if not self.send(name, request):
                return

    def send(self, name: str, request: Request) -> bool:
        """One request of a visit; whether it was answered."""
        device = self.devices[name]
        # Some are sent twice although they were acknowledged, as by a proxy that repeats requests.
        for _ in range(1 + (bool(request.reports) and self.dice.random() < 0.1)):
            with self.promises.lock:
                for round in request.reports:
                    self.promises.sent[round].add(name)
            try:
                answer = self.post(request)
            except GONE:
                time.sleep(PAUSE)
                return False
            self.saw("visit", answer)
            if answer.status_code != 200:
                return False
            for outcome in device.visited(request, answer.content):
                with self.promises.lock:
                    self.promises.reports[outcome.status] += 1
                    if outcome.status == "taken":
                        self.promises.acknowledged[outcome.round].add(name)
                if outcome.status not in ("taken", "closed"):
                    self.promises.broken(f"a report is {outcome.status}")
        return True

    def saw(self, what: str, answer: httpx.Response) -> None:
        status = answer.status_code
        with self.promises.lock:
            self.promises.statuses[what, status] += 1
        if status == 503 and not int(answer.headers.get("retry-after", "0")) >= 1:
            self.promises.broken(f"{what}: 503 without Retry-After")
        if status not in (200, 503):
            self.promises.broken(f"{what}: {status} {answer.text}")


class Analyst(threading.Thread):
    """Asks one query after another, each until it is done, and looks whether what was once read stays as it is."""

    def __init__(
        self, server: RunningServer, prefix: str, query: dict[str, Any], settings: dict[str, Any], promises: Promises
    ) -> None:
        super().__init__(name=f"analyst-{prefix}", daemon=True)
        self.server, self.prefix, self.query, self.settings, self.promises = server, prefix, query, settings, promises
        self.token = server.analyst
        self.ended = threading.Event()
        self.end = 0.0

    def in_time(self) -> bool:
        """While servers are being killed a query may take any time; after that, two minutes."""
        if not self.ended.is_set():
            self.end = time.monotonic() + 120
        return time.monotonic() < self.end

    def run(self) -> None:
        number = 0
        with self.server.client(self.token) as client:
            while not self.ended.is_set():
                self.ask(client, f"{self.prefix}-{number}")
                number += 1

    def ask(self, client: httpx.Client, name: str) -> None:
        """Also finished once `ended` is set, so that no query is left open."""
        body = {"name": name, "query": self.query, "settings": self.settings | COUNT_ALL}
        while self.in_time():
            answer = self.call(client, "POST", "/v1/queries", json=body)
            if answer is not None:
                break
            time.sleep(0.1)
        else:
            return self.promises.broken(f"{name} could not be asked")
        query = answer["id"]
        if self.promises.queries.setdefault(name, query) != query:
            self.promises.broken(f"{name} became another query")
        while self.in_time():
            time.sleep(0.25)
            status = self.call(client, "GET", f"/v1/queries/{query}")
            if status is None or status["state"] == "running":
                continue
            if status["state"] != "done":
                self.promises.broken(f"{name} is {status['state']}: {status['problem']}")
            if read(client, query, self.promises) is not None:
                return None
        return self.promises.broken(f"{name} is not done: {status}")

    def call(self, client: httpx.Client, method: str, path: str, **content: Any) -> Any:
        return call(client, method, path, self.promises, **content)


def call(client: httpx.Client, method: str, path: str, promises: Promises, **content: Any) -> Any:
    """The JSON of an answer, or None where there was none."""
    try:
        answer = client.request(method, path, **content)
    except GONE:
        return None
    promises.statuses[path.split("/")[2], answer.status_code] += 1
    if answer.status_code == 200:
        return answer.json()
    if answer.status_code not in (429, 503):
        promises.broken(f"{method} {path}: {answer.status_code} {answer.text}")
    return None


def read(client: httpx.Client, query: str, promises: Promises) -> list[str] | None:
    """Read a query's releases and the ledger; what was read before must be there unchanged."""
    answer = call(client, "GET", f"/v1/queries/{query}/releases", promises)
    ledger = call(client, "GET", "/v1/ledger", promises)
    if answer is None or ledger is None:
        return None
    for number, text in enumerate(answer["releases"]):
        if promises.releases.setdefault((query, number), text) != text:
            promises.broken(f"release {number} of {query} was drawn again")
    charges = {entry["id"]: (entry["what"], entry["epsilon"], entry["delta"]) for entry in ledger["charges"]}
    with promises.lock:
        if not promises.charges.items() <= charges.items():
            # Another thread may have read a later ledger in between: only what is missing from a fresh look counts.
            fresh = call(client, "GET", "/v1/ledger", promises)
            again = {} if fresh is None else {entry["id"] for entry in fresh["charges"]}
            if fresh is not None and not promises.charges.keys() <= set(again):
                promises.broken("a charge was given back")
        promises.charges |= charges
    return answer["releases"]


class Load:
    """Devices and analysts at work: `with Load(server) as load: …` ends them, and lets open queries finish."""

    def __init__(
        self,
        server: RunningServer,
        *,
        coordinator: RunningServer | None = None,
        beside: Sequence[RunningServer] = (),
        devices: int = 80,
        threads: int = 4,
        letters: bool = True,
        seconds: float = 3.0,
    ) -> None:
        """Devices go to `server` and those `beside` it; analysts to `coordinator`, if that is another one."""
        self.server = server
        self.asked = coordinator or server
        self.promises = Promises()
        most = devices // threads
        servers = (server, *beside)
        self.devices = [Devices(servers, prefix, most // 2, most, self.promises) for prefix in "abcdefgh"[:threads]]
        ways = [
            ("time", histogram(), {"seconds": seconds}),
            ("enough", histogram(), {"seconds": 60, "completions": devices // 3}),
            ("both", histogram(), {"seconds": 2 * seconds, "completions": devices // 4}),
        ]
        if letters:
            ways.append(("letters", by_letters(), {"seconds": seconds, "completions": devices // 4}))
        self.analysts = [
            Analyst(self.asked, prefix, query, settings, self.promises) for prefix, query, settings in ways
        ]

    def __enter__(self) -> Load:
        for thread in (*self.devices, *self.analysts):
            thread.start()
        return self

    def under_way(self) -> None:
        """Wait until reports are being taken."""
        end = time.monotonic() + 60
        while not any(self.promises.acknowledged.values()):
            assert time.monotonic() < end, self.promises
            time.sleep(0.05)

    def __exit__(self, *error: object) -> None:
        # Devices go on while the last queries finish: a round that waits for completions needs them.
        for threads in (self.analysts, self.devices):
            for thread in threads:
                thread.ended.set()
            for thread in threads:
                thread.join(150)
                if thread.is_alive():
                    self.promises.broken(f"{thread.name} hangs")

    def check(self) -> Counter[str]:
        """Fail unless every promise was kept; how much there was to keep."""
        promises = self.promises
        seen: Counter[str] = Counter()
        with self.asked.client(self.asked.analyst) as client:
            charged = Counter(entry["query"] for entry in client.get("/v1/ledger").json()["charges"])
            statuses = client.get("/v1/queries").json()["queries"]
            assert {status["id"] for status in statuses} == set(promises.queries.values())
            assert charged == Counter(dict.fromkeys(promises.queries.values(), 1)), "not one charge for each query"
            for status in statuses:
                texts = read(client, status["id"], promises)
                assert status["state"] == "done", status
                assert texts is not None and len(texts) == len(status["rounds"])
                for round, text in zip(status["rounds"], texts, strict=True):
                    self._check_release(status["verb"], round, Release.from_json(text), seen)
        assert not promises.problems, promises.problems[:10]
        return seen + Counter(queries=len(statuses))

    def _check_release(self, verb: str, round: dict[str, Any], release: Release, seen: Counter[str]) -> None:
        acknowledged, sent = self.promises.acknowledged[round["round"]], self.promises.sent[round["round"]]
        counts = release.counts.tolist()
        assert release.response is not None and release.response.completed == round["completed"]
        assert len(acknowledged) <= round["completed"] <= len(sent)
        seen.update(rounds=1, acknowledged=len(acknowledged), completed=round["completed"])
        if verb != "histogram":
            assert sum(counts) <= round["completed"]
            return
        counted = set(release.buckets)
        assert set(counts) <= {1}, "a report was counted twice"
        assert acknowledged <= counted, "an acknowledged report was lost"
        assert counted <= sent and len(counted) == round["completed"]


class Handful:
    """A few devices that do one step at a time, on one connection each call."""

    def __init__(self, server: RunningServer, values: dict[str, str], column: str = "name") -> None:
        """`values` says what each device holds, by its name."""
        self.server = server
        self.devices: dict[str, DeviceCore] = {}
        self.seen: list[httpx.Response] = []
        with self.client() as client:
            for name, value in values.items():
                device = DeviceCore({column: value}, AGREES, MemoryState(), HEADS)
                device.enrolled(post(client, device.enrol_request(server.enrolment_key)).content)
                self.devices[name] = device

    def client(self, token: str | None = None) -> httpx.Client:
        """A client whose every answer is kept in `seen`."""

        def keep(answer: httpx.Response) -> None:
            answer.read()
            self.seen.append(answer)

        return self.server.client(token, event_hooks={"response": [keep]})

    def check_in(self, client: httpx.Client, name: str) -> httpx.Response:
        device = self.devices[name]
        request = device.visit_request(rounds=True)
        assert request is not None
        answer = post(client, request)
        if answer.status_code == 200:
            device.visited(request, answer.content)
        return answer

    def sealed(self, name: str, round: str) -> bytes:
        sealed = self.devices[name]._record(round).sealed
        assert sealed is not None
        return sealed

    def report(self, client: httpx.Client, name: str, round: str) -> int | str:
        """Hand in what waits, without noting the answer: the same bytes can be handed in again.

        Returns what became of it, or the status of a request that was refused.
        """
        device = self.devices[name]
        report = Report(round=round, sealed=self.sealed(name, round))
        body = encode(Visit(versions=[2], reports=[report], rounds=False))
        answer = post(client, Request("POST", "/v2/visit", device.token or "", body))
        return answer.json()["reports"][0]["status"] if answer.status_code == 200 else answer.status_code


def ask(client: httpx.Client, name: str, query: dict[str, Any] | None = None, **settings: Any) -> str:
    """Ask so that everything that is reported is counted."""
    settings = COUNT_ALL | settings
    answer = client.post("/v1/queries", json={"name": name, "query": query or histogram(), "settings": settings})
    assert answer.status_code == 200, answer.text
    return answer.json()["id"]


def await_query(client: httpx.Client, query: str, *, opened: bool = False, seconds: float = 180) -> dict[str, Any]:
    """The status of a query once it is done, or, with `opened`, once its round is open."""
    end = time.monotonic() + seconds
    while True:
        status = client.get(f"/v1/queries/{query}").json()
        rounds = status.get("rounds", [])
        if (opened and rounds and rounds[-1]["state"] == "open") or status.get("state") == "done":
            return status
        assert time.monotonic() < end, status
        time.sleep(0.1)


def released(client: httpx.Client, query: str) -> Release:
    [text] = client.get(f"/v1/queries/{query}/releases").json()["releases"]
    return Release.from_json(text)


@contextlib.contextmanager
def three_servers(directory: Path, *arguments: str) -> Iterator[tuple[RunningServer, RunningServer, RunningServer]]:
    """Aggregator, collector and coordinator as three processes; the coordinator has these further arguments."""
    with started(directory / "aggregator", "--role", "aggregator") as aggregator:
        keys = aggregator.data_dir / "aggregator"
        with started(
            directory / "collector", "--role", "collector", "--come-back", "1",
            "--aggregator", aggregator.url, "--peer-key-file", str(keys / "collector.key"),
        ) as collector:  # fmt: skip
            key = collector.data_dir / "collector" / "coordinator.key"
            with started(
                directory / "coordinator", "--role", "coordinator", *arguments,
                "--collector", collector.url, "--peer-key-file", str(key),
                "--aggregator", aggregator.url, "--peer-key-file", str(keys / "coordinator.key"),
            ) as coordinator:  # fmt: skip
                yield aggregator, collector, coordinator
