"""A whole fleet on loopback whose coins are known: what everybody but the devices can see of it, as text.

The server is the shipped one with its console, on a real socket; devices are the shipped ones. Time stands still until
the test moves it, and ids are replaced by their place, so that two fleets that differ in nothing look the same.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import logging
import re
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import uvicorn
from device_cases import StillClock

import thresher as th
from thresher.console.adapter import console_pages
from thresher.device.device import Device
from thresher.device.policy import Policy
from thresher.protocol.analyst_messages import QueryRequest, RoundSettings
from thresher.protocol.messages import encode
from thresher.protocol.plaintext import fleet_bucket
from thresher.questions import Below, Bins, Cells, Dates, Joint, Prefixes, Values
from thresher.roles.aggregator import round_drawing as tally
from thresher.server.app import App
from thresher.server.assembly import Settings, assembled
from thresher.server.data_directory import ROLES, DataDirectory
from thresher.server.services import Services
from thresher.verbs import HeavyHittersQuery, HistogramQuery, QuantilesQuery, RangesQuery


class Zeros:
    """Random bits that are all zero: every coin of the aggregator comes up heads."""

    private = False

    def fill(self, buffer: Any) -> None:
        buffer[...] = 0


THRESHOLD = 5
GENEROUS = Policy(max_epsilon=50, max_delta=0.4, period_epsilon=1e6, period_delta=0.9, min_threshold=1)
LOWER, UPPER = 0.0, 64.0


@functools.cache
def plan(rounds: int = 1) -> Any:
    return th.plan(epsilon=3.0, delta=1e-3, threshold=THRESHOLD, rounds=rounds)


def queries() -> dict[str, Any]:
    """Every verb, in every way that asks devices another kind of question."""
    both = Joint((Values(("word",)), Bins("amount", (0.0, 16.0, 32.0, 64.0))))
    return {
        "values": HistogramQuery(Values(("word",)), plan()),
        "several": HistogramQuery(Values(("word", "day")), plan()),
        "joint": HistogramQuery(both, plan()),
        "bins": HistogramQuery(Bins("amount", (0.0, 16.0, 32.0, 64.0)), plan()),
        "dates": HistogramQuery(Dates("day", "week"), plan()),
        "domain": HistogramQuery(Values(("word",)), plan(), domain=("alpha", "nobody")),
        "hitters": HeavyHittersQuery("word", plan()),
        "trie": HeavyHittersQuery("path", plan(3), method="trie", step=1),
        "search": QuantilesQuery("age", (0.5,), plan(3), LOWER, UPPER, method="search"),
        "hierarchy": QuantilesQuery("amount", (0.5,), plan(2), LOWER, UPPER, method="hierarchy"),
        "ranges": RangesQuery("amount", plan(2), LOWER, UPPER),
    }


@dataclass
class Seen:
    """What can be seen of a fleet, part by part."""

    parts: dict[str, str] = field(default_factory=dict)

    def differences(self, other: Seen) -> list[str]:
        return [
            name for name in self.parts.keys() | other.parts.keys() if self.parts.get(name) != other.parts.get(name)
        ]


@contextlib.contextmanager
def served(directory: Path, clock: StillClock) -> Iterator[tuple[str, Services, DataDirectory]]:
    """A server of all roles with its console, on a free port of loopback. Nobody steps its coordinator but the test."""
    directory.mkdir(mode=0o700)
    for kind in ("operator", "analyst"):  # lists are sorted by ids that follow from these
        (directory / f"{kind}.token").write_text(f"thresher-{kind}-{'x' * 43}")
        (directory / f"{kind}.token").chmod(0o600)
    settings = Settings(data_dir=directory, budget_epsilon=100.0, budget_delta=0.9, come_back=1.0)
    with contextlib.ExitStack() as stack:
        data = stack.enter_context(DataDirectory(directory, ROLES))
        services = stack.enter_context(assembled(settings, data, clock))
        app = App(services, console_pages(services))
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        config = uvicorn.Config(
            app, log_config=None, access_log=False, lifespan="off", ws="none", interface="asgi3", date_header=False
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", services, data
        finally:
            server.should_exit = True
            thread.join()
            app.close()


class Lines(logging.Handler):
    """Every line that is logged, of this package also what is only for finding mistakes."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.name} {record.levelname} {record.getMessage()}")


@contextlib.contextmanager
def listening() -> Iterator[Lines]:
    lines, root, ours = Lines(), logging.getLogger(), logging.getLogger("thresher")
    before = ours.level
    root.addHandler(lines)
    ours.setLevel(logging.DEBUG)
    try:
        yield lines
    finally:
        root.removeHandler(lines)
        ours.setLevel(before)


COMMON = 14
"""Devices that share their values: each value is held by more than the threshold."""


def _common(number: int) -> dict[str, Any]:
    half = number % 2
    word = ("alpha", "beta")[half]
    return {"word": word, "path": word, "amount": (20.0, 40.0)[half], "age": 4 * number, "day": DAYS[half]}


DAYS = (dt.date(2024, 3, 4), dt.date(2024, 3, 11))


def alone(values: Sequence[Any]) -> list[Any]:
    """What lonely devices hold: each value under every attribute under which nobody else is in its bucket.

    Where it would share a bucket, such as a number that is below a split point, the device holds nothing there.
    """
    taken: dict[str, set[Any]] = {
        "word": {"alpha", "beta"},
        "path": {"a", "b"},
        "amount": {1, 2},
        "age": {True, False},
        "day": set(DAYS),
    }
    asked = {
        "word": Values(("word",)),
        "path": Prefixes("path", 1),
        "amount": Cells("amount", LOWER, UPPER, 4),
        "age": Below("age", 8.0),
        "day": Dates("day", "week"),
    }
    holdings = []
    for value in values:
        held = {}
        for name, question in asked.items():
            buckets = {fleet_bucket(question, each) for each in _answers(value)} - {None}
            if not buckets & taken[name]:
                held[name] = value
            taken[name] |= buckets
        holdings.append(held)
    return holdings


def _answers(value: Any) -> list[Any]:
    """What a device that holds this may answer with: what a function returns, and one element of a list."""
    if callable(value):
        try:
            value = value()
        except BaseException:
            return []
    return list(value) if isinstance(value, list | tuple) else [value]


def seen(directory: Path, lonely: Sequence[Any]) -> Seen:
    """Run a fleet of common devices and of those that hold these, ask everything, and look everywhere."""
    clock = StillClock(1_700_000_000.0)
    with (
        mock.patch.object(tally, "SecureRandomness", Zeros),
        listening() as lines,
        served(directory, clock) as (url, services, data),
        contextlib.ExitStack() as stack,
    ):
        key = data.secret("enrolment").token
        made = [Device(url, key, _common(number), policy=GENEROUS, clock=clock, patience=0) for number in range(COMMON)]
        made += [
            Device(url, key, holds, policy=GENEROUS, clock=clock, patience=0, reading_seconds=0.2) for holds in lonely
        ]
        devices = [stack.enter_context(device) for device in made]
        for device in devices:
            device.enrol()
        analyst = _client(stack, url, data.secret("analyst").token)
        operator = _client(stack, url, data.secret("operator").token)
        asked = {}
        for name, query in queries().items():
            clock.time += 1.0
            settings = RoundSettings(completions=len(devices), seconds=3600.0)
            request = QueryRequest(name=name, query=query.to_dict(), settings=settings)
            asked[name] = analyst.post("/v1/queries", content=encode(request)).raise_for_status().json()["id"]
        outcomes = _answered(services, devices)
        look = _Look(analyst, operator, asked)
        found = look.all()
        found["outcomes"] = "\n".join(map(str, outcomes))
        found["rows"] = str(_rows(directory))
        scrubbed = _scrubbing(analyst, asked, url)
        found["log"] = "\n".join(lines.lines)
        return Seen({scrubbed(name): scrubbed(text) for name, text in found.items()})


def _client(stack: contextlib.ExitStack, url: str, token: str) -> httpx.Client:
    headers = {"Authorization": f"Bearer {token}"}
    return stack.enter_context(httpx.Client(base_url=url, headers=headers, timeout=60, trust_env=False))


def _answered(services: Services, devices: Sequence[Device]) -> list[list[str]]:
    """Let the devices answer round after round, until there is none left; what became of each."""
    outcomes: list[list[str]] = []
    for _ in range(12):
        services.the_coordinator.step()
        if not services.the_collector.open_rounds():
            break
        outcomes += [[outcome.status for outcome in device.check_in()] for device in devices]
        services.the_coordinator.step()
    assert not services.the_collector.open_rounds()
    return outcomes


class _Look:
    """All that an analyst, an operator and anybody else can read."""

    def __init__(self, analyst: httpx.Client, operator: httpx.Client, asked: dict[str, str]) -> None:
        self._analyst, self._operator, self._asked = analyst, operator, asked

    def all(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, id in self._asked.items():
            for part in ("", "/releases"):
                found[f"{name}{part}"] = self._text(self._analyst, f"/v1/queries/{id}{part}")
            found[f"{name} answer"] = self._answer(name, id)
        for path in ("/v1/queries", "/v1/ledger", "/v1/fleet"):
            found[path] = self._text(self._analyst, path)
        for path in ("/v1/operator/enrolment-keys", "/v1/operator/tokens"):
            found[path] = self._text(self._operator, path)
        found |= {f"page {path}": text for path, text in self._pages().items()}
        for path in ("/healthz", "/readyz", "/metrics"):
            with httpx.Client(base_url=self._analyst.base_url, trust_env=False) as anybody:
                found[path] = self._text(anybody, path)
        found["operator's metrics"] = self._text(self._operator, "/metrics")
        return found

    def _text(self, client: httpx.Client, path: str) -> str:
        answer = client.get(path)
        headers = {name: value for name, value in answer.headers.items() if name != "set-cookie"}
        return f"{answer.status_code} {headers} {answer.text}"

    def _answer(self, name: str, id: str) -> str:
        token = self._analyst.headers["authorization"].removeprefix("Bearer ")
        with th.Fleet(str(self._analyst.base_url).rstrip("/"), token, patience=0) as fleet:
            return _shown(fleet.query(id).result(progress=lambda *_: None))

    def _pages(self) -> dict[str, str]:
        found = {}
        with httpx.Client(base_url=self._operator.base_url, trust_env=False, follow_redirects=True) as browser:
            mark = re.search(r'name="csrf" value="([^"]+)"', browser.get("/login").text)
            assert mark is not None
            token = self._operator.headers["authorization"].removeprefix("Bearer ")
            browser.post("/login", data={"csrf": mark[1], "token": token}).raise_for_status()
            pages = ["/", "/queries", "/ledger", "/operate", "/ask"]
            for page in [*pages, *(f"/queries/{id}" for id in self._asked.values())]:
                answer = browser.get(page)
                assert answer.status_code == 200, page
                found[page] = answer.text
        return found


def _shown(answer: Any) -> str:
    """An answer in words, and as a table where it is one."""
    table = answer.to_arrow() if hasattr(answer, "to_arrow") else ""
    return f"{answer!r} {table}"


def _rows(directory: Path) -> dict[str, int]:
    """How many rows each table of each store has."""
    rows = {}
    for path in sorted(directory.rglob("*.db")):
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"):
                [(rows[f"{path.name} {table}"],)] = connection.execute(f'SELECT COUNT(*) FROM "{table}"')
    return rows


def _scrubbing(analyst: httpx.Client, asked: dict[str, str], url: str) -> Callable[[str], str]:
    """Replace whatever is drawn anew for every fleet: ids, keys, marks of forms, the port."""
    names = {id: f"query-{name}" for name, id in asked.items()}
    for name, id in asked.items():
        for each in analyst.get(f"/v1/queries/{id}").json()["rounds"]:
            names[each["round"]] = f"round-{name}-{each['index']}"
    names[url] = "http://server"
    names[url.partition("//")[2]] = "server"
    drawn = re.compile("|".join(map(re.escape, sorted(names, key=len, reverse=True))))
    random = re.compile(
        r'(?<=name="csrf" value=")[^"]+|(?<=name="csrf" content=")[^"]+|k\d{6}-[0-9a-f]{8}|first-[0-9a-f]{12}'
        r"|console-[0-9a-f]{12}|chart-\d+"  # charts are counted over the life of a process
        r"|(?<![.\w])[0-9a-f]{16}(?:[0-9a-f]{16}|[0-9a-f]{48})?\b"
    )
    return lambda text: random.sub("*", drawn.sub(lambda found: names[found[0]], text))
