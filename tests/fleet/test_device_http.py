"""Devices over real HTTP, against a server on loopback that drops answers, asks to wait, conflicts and closes."""

from __future__ import annotations

import asyncio
import email.utils
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from device_cases import StillClock, configuration, opened, shown

from thresher.client.fleet import Fleet
from thresher.device import http as device_http
from thresher.device.device import Device, Outcome
from thresher.device.policy import Policy
from thresher.device.state import FileState
from thresher.errors import InvalidFormat, InvalidSetting, ServerUnavailable, StoreUnavailable, Unauthorised
from thresher.protocol import messages
from thresher.protocol.messages import Enrolled, Visit
from thresher.protocol.sealing import OVERHEAD
from thresher.simulator.http_client import HttpClient

pytestmark = pytest.mark.slow  # processes and browsers take their time

DROP = "drop the answer"
ENROL, ASK, REPORT = "/v2/devices", "ask for rounds", "hand in"
Scripted = tuple[int, dict[str, str]] | str
"""A status and headers, of a problem as the server itself writes it; with a content type, of somebody else's page."""


def open_round(name: str = "round-0", **changes: Any):
    return configuration(name, deadline=time.time() + 3600, **{"sampled_by": "aggregator", **changes})


class Server(ThreadingHTTPServer):
    """As much of a collector as a device can tell.

    `faults` are answers that come first, by what is asked (`ENROL`, `ASK`, `REPORT`); then all is well.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.rounds = [open_round()]
        self.faults: dict[str, list[Scripted]] = {}
        self.requests: list[tuple[str, str, bytes]] = []
        self.statuses: dict[str, str] = {}
        self.come_back = 60.0
        self.padding = 0
        self.answers = threading.Event()
        self.answers.set()
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def bodies(self, what: str) -> list[bytes]:
        return [body for seen, _, body in self.requests if seen == what]

    def sealed(self, round: str = "round-0") -> list[bytes]:
        """The report of a round, as often as it was handed in."""
        visits = [messages.decode(Visit, body) for seen, _, body in self.requests if seen != ENROL]
        return [report.sealed for visit in visits for report in visit.reports if report.round == round]

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        assert self.headers["content-type"] == "application/json"
        visit = None if self.path == ENROL else messages.decode(Visit, body)
        what = ENROL if visit is None else ASK if visit.rounds else REPORT
        assert self.path == (ENROL if visit is None else "/v2/visit")
        self.server.requests.append((what, self.headers["authorization"], body))
        assert self.server.answers.wait(60)
        faults = self.server.faults.get(what, [])
        if fault := faults.pop(0) if faults else None:
            if fault == DROP:
                self.close_connection = True
                return
            if "Content-Type" in fault[1]:
                self.reply(fault[0], b"<html>canary", fault[1])
                return
            problem = messages.Problem(
                type="urn:thresher:problem:canary", title="", status=fault[0], code="canary", detail="canary"
            )
            self.reply(fault[0], messages.encode(problem), {**fault[1], "Content-Type": "application/problem+json"})
        elif visit is None:
            self.reply(200, messages.encode(Enrolled(version=2, token="thresher-device-1")))
        else:
            statuses = {report.round: self.server.statuses.get(report.round, "taken") for report in visit.reports}
            listed = self.server.rounds if visit.rounds else ()
            answer = shown(*listed, come_back=self.server.come_back, **statuses)
            self.reply(200, answer + b" " * (self.server.padding if visit.rounds else 0))

    def reply(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server():
    with Server() as running:
        yield running


class Waits(list[float]):
    """A sleep that only notes for how long."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


PAGE = {"Content-Type": "text/html; charset=utf-8"}


def visit(server: Server, **settings: Any) -> tuple[list[Outcome], Waits]:
    waits = Waits()
    with Device(server.url, "thresher-enrolment-1", {"word": "hello"}, sleep=waits, **settings) as device:
        return device.check_in(), waits


def test_a_visit_enrols_asks_answers_and_hands_in(server):
    outcomes, waits = visit(server)
    assert outcomes == [Outcome("round-0", "taken")]
    assert waits == []
    assert [(what, token) for what, token, _ in server.requests] == [
        (ENROL, "Bearer thresher-enrolment-1"),
        (ASK, "Bearer thresher-device-1"),
        (REPORT, "Bearer thresher-device-1"),
    ]
    [sealed] = server.sealed()
    assert len(sealed) == 64 + OVERHEAD
    assert opened(sealed, server.rounds[0]) == "hello"


def test_dropped_answers_are_met_with_the_same_bytes(server):
    server.faults = {ENROL: [DROP], ASK: [DROP, DROP], REPORT: [DROP, DROP, DROP]}
    outcomes, waits = visit(server)
    assert outcomes == [Outcome("round-0", "taken")]
    assert len(waits) == 6
    assert len(server.sealed()) == 4
    assert len(set(server.sealed())) == 1


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_honoured(server, status):
    clock = StillClock(time.time())
    later = email.utils.formatdate(clock.time + 30, usegmt=True)  # in whole seconds
    server.faults = {
        ASK: [(status, {"Retry-After": "7"})],
        REPORT: [(status, {"Retry-After": "11"}), (status, {"Retry-After": later}), (500, {"Retry-After": "soon"})],
    }
    outcomes, waits = visit(server, clock=clock)
    assert outcomes == [Outcome("round-0", "taken")]
    assert waits[0] >= 7
    assert waits[1] >= 11
    assert 28 <= waits[2] <= 33
    assert waits[3] <= 2.0  # what is not understood is not waited for
    assert len(set(server.sealed())) == 1


@pytest.mark.parametrize("status", ["conflict", "closed", "rejected"])
def test_a_round_that_is_over_is_not_sent_again(server, status):
    server.faults, server.statuses = {REPORT: [DROP]}, {"round-0": status}
    with Device(server.url, "key", {"word": "hello"}, sleep=Waits()) as device:
        assert device.check_in() == [Outcome("round-0", status)]
        assert device.check_in() == []
    assert len(server.sealed()) == 2


def test_patience_ends_and_the_next_visit_sends_the_same_bytes(server, tmp_path):
    path = tmp_path / "device.json"
    server.faults = {REPORT: [(503, {"Retry-After": "3600"})]}
    assert visit(server, state=path, patience=60) == ([Outcome("round-0", "sealed")], [])
    server.rounds = []  # closed to new devices, or answered already for all this device knows
    server.faults = {ASK: [DROP]}
    outcomes, waits = visit(server, state=str(path), patience=60)
    assert outcomes == [Outcome("round-0", "taken")]
    assert len(waits) == 1
    assert len(server.sealed()) == 3
    assert len(set(server.sealed())) == 1
    assert len(server.bodies(ENROL)) == 1


def test_rounds_that_are_open_together_are_handed_in_together(server):
    server.rounds = [open_round(f"round-{number}", query=f"query-{number}") for number in range(4)]
    outcomes, _ = visit(server)
    assert outcomes == [Outcome(f"round-{number}", "taken") for number in range(4)]
    assert [what for what, _, _ in server.requests] == [ENROL, ASK, REPORT]


def test_a_report_that_is_not_decided_does_not_hold_up_the_others(server):
    server.rounds = [open_round("round-0"), open_round("round-1", query="query-1")]
    server.statuses = {"round-0": "later"}
    with Device(server.url, "key", {"word": "hello"}) as device:
        assert device.check_in() == [Outcome("round-0", "sealed"), Outcome("round-1", "taken")]
        assert len(server.requests) == 3
        server.statuses = {}
        assert device.check_in() == [Outcome("round-0", "taken")]
    assert len(server.requests) == 4
    assert len(set(server.sealed("round-0"))) == len(server.sealed("round-1")) == 1


def test_a_server_that_is_away_is_an_error_that_says_when_to_come_back(server):
    server.faults = {ASK: [(503, {"Retry-After": "900"})]}
    with pytest.raises(ServerUnavailable) as caught:
        visit(server, patience=60)
    assert caught.value.retry_after == 900
    with pytest.raises(ServerUnavailable), Device("http://127.0.0.1:9", "key", {}, patience=0) as device:
        device.check_in()


def test_a_refused_round_looks_like_silence(server):
    outcomes, _ = visit(server, policy=Policy(attributes=frozenset({"colour"})))
    assert outcomes == [Outcome("round-0", "refused", "attribute")]
    assert [what for what, _, _ in server.requests] == [ENROL, ASK]
    assert server.sealed() == []


def test_an_answer_and_a_decoy_are_the_same_requests(server):
    for holds in ({"word": "hello"}, {}, {"word": "x" * 1000}):
        with Device(server.url, "key", holds) as device:
            device.check_in()
    requests = [[(path, token, len(body)) for path, token, body in server.requests[at : at + 3]] for at in (0, 3, 6)]
    assert requests[0] == requests[1] == requests[2]


@pytest.mark.parametrize("path", [ENROL, ASK])
@pytest.mark.parametrize("status", [401, 403])
def test_a_wrong_token_is_said_once_and_not_insisted_on(server, path, status):
    server.faults = {path: [(status, {})]}
    with pytest.raises(Unauthorised, match="enrolment key" if path == ENROL else "this device"):
        visit(server)
    assert len(server.bodies(path)) == 1


def test_a_token_that_a_report_is_refused_for_is_judged_by_the_next_visit(server, tmp_path):
    server.faults = {REPORT: [(401, {})]}
    assert visit(server, state=tmp_path / "device.json") == ([Outcome("round-0", "sealed")], [])
    assert visit(server, state=tmp_path / "device.json")[0] == [Outcome("round-0", "taken")]
    assert len(set(server.sealed())) == 1


def test_redirects_are_not_followed(server):
    server.faults = {ASK: [(307, {"Location": "/v1/elsewhere", **PAGE})]}
    with pytest.raises(ServerUnavailable) as caught:
        visit(server, patience=0)
    assert "canary" not in str(caught.value)
    assert [what for what, _, _ in server.requests] == [ENROL, ASK]


def test_an_endless_answer_is_not_read(server, monkeypatch):
    monkeypatch.setattr(device_http, "LARGEST_ANSWER", 100_000)
    server.padding = 200_000
    with pytest.raises(InvalidFormat):
        visit(server)
    server.padding = 1_000
    assert visit(server)[0] == [Outcome("round-0", "taken")]


def test_enrolling_happens_once(server, tmp_path):
    path = tmp_path / "device.json"
    with Device(server.url, "key", {"word": "hello"}, path) as device:
        device.enrol()
        device.enrol()
    assert FileState(path).load().token == "thresher-device-1"
    with Device(server.url, None, {"word": "hello"}, path) as device:  # the key is not needed any more
        assert device.check_in() == [Outcome("round-0", "taken")]
    assert len(server.bodies(ENROL)) == 1


def test_a_device_that_can_keep_nothing_does_not_enrol(server, tmp_path):
    """Every attempt would leave one more device at the server."""
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="Nothing was sent"):
            visit(server, state=tmp_path / "missing" / "device.json")
    assert server.requests == []


def test_visits_of_one_device_take_turns(server, tmp_path):
    """From threads and from an event loop at once: one enrolment, one coin, one report."""
    errors: list[BaseException] = []
    with Device(server.url, "thresher-enrolment-1", {"word": "hello"}, tmp_path / "device.json") as device:

        def visits() -> None:
            try:
                device.check_in()
            except BaseException as error:
                errors.append(error)

        async def more() -> None:
            await asyncio.gather(*(device.check_in_async() for _ in range(3)))

        threads = [threading.Thread(target=visits) for _ in range(4)]
        for thread in threads:
            thread.start()
        asyncio.run(more())
        for thread in threads:
            thread.join()
    assert errors == []
    assert len(server.bodies(ENROL)) == len(server.sealed()) == 1
    assert len(server.bodies(ASK)) == 7


def test_a_server_that_hangs_costs_patience(monkeypatch):
    """What is waited for an answer counts, not only the pauses between attempts."""
    monkeypatch.setattr(device_http, "TIMEOUT", 0.2)
    waits = Waits()
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        url = f"http://127.0.0.1:{hanging.getsockname()[1]}"
        device = Device(url, "key", {"word": "hello"}, patience=0.1, sleep=waits)
        with device, pytest.raises(ServerUnavailable):
            device.check_in()
    assert waits == []


@pytest.mark.parametrize(
    "address",
    ["fleet.example", "http://", "http:///x", "http://127.0.0.1:99999", "http://127.0.0.1:0", "http://[::1",
     "http://exa mple", "http://ex\u200bample", "ftp://fleet.example", "http://a\r\nX: y"],
)  # fmt: skip
def test_addresses_that_cannot_be_are_refused_at_once(address):
    """Not after minutes, as a server that does not answer, nor with an error of the HTTP library."""
    for make in (lambda: Device(address, "key", {}), lambda: Fleet(address, "key"), lambda: HttpClient(address)):
        with pytest.raises(InvalidSetting, match="server"):
            make()


@pytest.mark.parametrize("key", ["schlüssel", "a\0b", "two words", "a\r\nX: y"])
def test_keys_that_cannot_be_sent_are_refused_at_once_and_not_shown(server, key):
    for make in (lambda: Device(server.url, key, {}), lambda: Fleet(server.url, key)):
        with pytest.raises(InvalidSetting, match="key") as refused:
            make()
        assert key not in str(refused.value)


def test_the_end_of_a_line_is_not_part_of_a_key(server):
    with Device(server.url, "thresher-enrolment-1\n", {"word": "hello"}) as device:
        device.check_in()
    assert server.requests[0][1] == "Bearer thresher-enrolment-1"


def test_settings_that_make_no_sense_are_refused(server):
    with pytest.raises(InvalidSetting, match="attributes"):
        Device(server.url, "key")
    with pytest.raises(InvalidSetting, match="patience"):
        Device(server.url, "key", {}, patience=float("nan"))
    with pytest.raises(InvalidSetting, match="enrolment_key"), Device(server.url, attributes={}) as device:
        device.check_in()


# Asyncio


def test_the_same_visit_without_blocking(server):
    server.faults = {ASK: [(503, {"Retry-After": "0"})], REPORT: [DROP]}
    waits, server.answers = Waits(), threading.Event()
    device = Device(server.url, "key", {"word": "hello"}, sleep=waits)

    async def meanwhile() -> list[Outcome]:
        visiting = asyncio.create_task(device.check_in_async())
        while not server.requests:  # a visit that kept the loop for itself would wait for an answer in vain
            await asyncio.sleep(0.01)
        server.answers.set()
        return await visiting

    assert asyncio.run(meanwhile()) == [Outcome("round-0", "taken")]
    assert waits == []  # it waits in the loop, and does not sleep
    assert len(set(server.sealed())) == 1 < len(server.sealed())


def test_many_devices_in_one_event_loop(server):
    async def all_of_them() -> list[list[Outcome]]:
        devices = [Device(server.url, "key", {"word": "hello"}) for _ in range(20)]
        return await asyncio.gather(*(device.check_in_async() for device in devices))

    assert asyncio.run(all_of_them()) == [[Outcome("round-0", "taken")]] * 20
    assert len(set(server.sealed())) == 20


# Running


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_runs_until_stopped_and_waits_for_a_server_that_is_away(server):
    server.faults = {ASK: [(503, {})]}
    server.come_back = 1.0
    stop = threading.Event()
    with Device(server.url, "key", {"word": "hello"}, patience=0) as device:
        running = threading.Thread(target=device.run, args=(stop,))
        running.start()
        until(lambda: len(server.bodies(ASK)) >= 3)
        stop.set()
        running.join(60)
        assert not running.is_alive()
    assert len(server.sealed()) == 1


def test_stopping_ends_a_wait_and_keeps_the_bytes(server, tmp_path):
    path = tmp_path / "device.json"
    server.faults = {REPORT: [(503, {"Retry-After": "3600"})]}
    stop = threading.Event()
    with Device(server.url, "key", {"word": "hello"}, path, patience=10_000) as device:
        running = threading.Thread(target=device.run, args=(stop,))
        running.start()
        until(lambda: len(server.sealed()) == 1)
        stop.set()
        running.join(60)
        assert not running.is_alive()
    assert visit(server, state=path)[0] == [Outcome("round-0", "taken")]
    assert len(set(server.sealed())) == 1


KILLED = """
import os, sys
from thresher.device import Device
url, path = sys.argv[1:]
Device(url, "key", {"word": "hello"}, path, sleep=lambda seconds: os._exit(9)).check_in()
"""


def test_a_process_that_dies_after_sending_is_followed_by_one_that_sends_the_same(server, tmp_path):
    path = tmp_path / "device.json"
    server.faults = {REPORT: [DROP]}
    died = subprocess.run([sys.executable, "-c", KILLED, server.url, str(path)], timeout=60, check=False)
    assert died.returncode == 9
    assert json.loads(path.read_text())["rounds"]["round-0"]["status"] == "sealed"
    assert visit(server, state=path)[0] == [Outcome("round-0", "taken")]
    assert len(server.sealed()) == 2
    assert len(set(server.sealed())) == 1


def test_importing_thresher_brings_no_network():
    code = (
        "import sys, thresher, thresher.client, thresher.device; "
        "print({'httpx', 'starlette', 'uvicorn'} & set(sys.modules))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert shown.stdout.strip() == "set()"
