"""Who answers: only the device's own server can end it, take its reports or make it enrol again."""

from __future__ import annotations

import asyncio
import gzip
import shutil
import threading
import time
from functools import partial

import httpx
import msgspec
import pytest
from device_cases import ALWAYS, StillClock, configuration, shown
from server_cases import ASK as ASKING
from server_cases import configuration_of, inside

from thresher.client.connection import Connection
from thresher.client.fleet import Fleet
from thresher.device.device import Device, Outcome
from thresher.device.state import DeviceState, FileState, MemoryState
from thresher.errors import ServerUnavailable, Unauthorised
from thresher.protocol import identity, messages
from thresher.protocol.configurations import RoundConfiguration
from thresher.protocol.identity import NONCE_HEADER, PROOF_HEADER, Identity
from thresher.protocol.messages import Enrolled, Problem, Visit, decode, encode

SERVER = Identity(bytes(range(32)))
OTHER = Identity(bytes(reversed(range(32))))
ENROL, ASK, REPORT = "/v2/devices", "ask for rounds", "hand in"


def page(status: int, **headers: str) -> httpx.Response:
    """What a network shows that wants a login, or a proxy that has a problem."""
    return httpx.Response(status, html="<html>Please sign in", headers=headers)


def json_page(status: int) -> httpx.Response:
    """An answer of some other service."""
    return httpx.Response(status, json={"error": "unauthorised", "code": "unauthorised"})


def problem(sent: int, code: str = "unauthorised", **changes) -> httpx.Response:
    """A problem as the server writes it."""
    whole = Problem(type=f"urn:thresher:problem:{code}", title="", status=sent, code=code, detail="")
    body = encode(msgspec.structs.replace(whole, **changes))
    return httpx.Response(sent, content=body, headers={"content-type": "application/problem+json"})


STRANGERS = {
    **{f"page {status}": partial(page, status) for status in (200, 204, 400, 401, 403, 404, 407, 409, 410, 413, 511)},
    "redirect to http": partial(page, 302, location="http://portal.example/login"),
    "redirect": partial(page, 307, location="/login"),
    **{f"json {status}": partial(json_page, status) for status in (200, 400, 401, 403, 404, 409, 410)},
    "a problem of another service": lambda: httpx.Response(401, json={"type": "about:blank", "status": 401}),
    "a problem of another status": partial(problem, 401, status=403),
    "a problem of another kind": partial(problem, 401, type="about:blank"),
    "compressed": lambda: httpx.Response(200, content=gzip.compress(b"{}"), headers={"content-encoding": "gzip"}),
    "too much": lambda: page(503, **{"retry-after": "86400"}),
}
"""Answers of somebody else, made anew for each use."""
TOLD_APART = [name for name in STRANGERS if name.startswith(("page", "redirect")) or name in ("json 401", "json 403")]


class Place:
    """Answers as the server does; from time to time, somebody else answers in its place."""

    def __init__(self) -> None:
        self.rounds: list[RoundConfiguration] = []
        self.instead: dict[str, list[httpx.Response]] = {}
        self.paths: list[str] = []
        self.known: set[str] = set()
        self.identity: Identity | None = SERVER
        self.seen = threading.Event()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        visit = None if request.url.path == ENROL else decode(Visit, request.content)
        what = ENROL if visit is None else ASK if visit.rounds else REPORT
        self.paths.append(what)
        if waiting := self.instead.get(what):
            return waiting.pop(0)
        token = request.headers["authorization"].removeprefix("Bearer ")
        if visit is None:
            made = f"thresher-device-{len(self.paths)}"
            self.known.add(made)
            public = None if self.identity is None else self.identity.public
            return self._json(encode(Enrolled(version=2, token=made, identity=public)))
        if token not in self.known:
            refused = problem(401)
            if self.identity is not None:
                refused.headers[PROOF_HEADER] = self.identity.proof(request.headers[NONCE_HEADER], token)
            return refused
        if visit.rounds:
            self.seen.set()
        taken = {report.round: "taken" for report in visit.reports}
        return self._json(shown(*(self.rounds if visit.rounds else ()), **taken))

    @staticmethod
    def _json(body: bytes) -> httpx.Response:
        return httpx.Response(200, content=body, headers={"content-type": "application/json"})

    def device(self, **settings) -> Device:
        given = {"enrolment_key": "key", "attributes": {"word": "x"}, "patience": 0, "clock": StillClock()}
        return Device("http://fleet.test", transport=httpx.MockTransport(self), **{**given, **settings})


@pytest.fixture
def place():
    return Place()


@pytest.mark.parametrize("name", STRANGERS)
@pytest.mark.parametrize("path", [ENROL, ASK, REPORT])
def test_a_stranger_ends_nothing(place, name, path):
    """Both drivers: the visit fails or leaves its report for the next one, and that one succeeds."""
    place.rounds = [configuration(**ALWAYS)]
    for visit in (lambda each: each.check_in(), lambda each: asyncio.run(each.check_in_async())):
        place.instead = {path: [STRANGERS[name]()]}
        with place.device() as device:
            try:
                first = visit(device)
            except (ServerUnavailable, messages.InvalidFormat) as error:
                assert "sign in" not in error.message
                first = []
            assert first in ([], [Outcome("round-0", "sealed")])
            assert visit(device) == [Outcome("round-0", "taken")]


@pytest.mark.parametrize("name", STRANGERS)
def test_running_goes_on_whatever_a_stranger_says(place, name):
    place.instead = {ENROL: [STRANGERS[name]()], ASK: [STRANGERS[name]()]}
    stop, errors = threading.Event(), []
    device = place.device()

    class Once(threading.Event):
        """Waits for nothing, and ends once the server itself has been reached."""

        def wait(self, timeout=None):
            if place.seen.is_set() or len(place.paths) > 50:
                self.set()
            return self.is_set()

    stop = Once()
    try:
        device.run(stop)
    except Exception as error:
        errors.append(error)
    assert errors == []
    assert place.seen.is_set()


def test_running_ends_when_the_server_itself_refuses_the_enrolment_key(place):
    place.instead = {ENROL: [problem(401)]}
    with pytest.raises(Unauthorised, match="enrolment key"), place.device() as device:
        device.run()


def test_a_stranger_does_not_say_when_to_come_back(place):
    place.instead = {ASK: [STRANGERS["too much"]()]}
    with pytest.raises(ServerUnavailable, match="in its place") as away, place.device() as device:
        device.check_in()
    assert away.value.retry_after <= 300


def test_cookies_are_not_kept(place):
    sent: list[str | None] = []

    def serve(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers.get("cookie"))
        answer = place(request)
        answer.headers["set-cookie"] = "who=you; Path=/"
        return answer

    with Device("http://fleet.test", "key", {"word": "x"}, transport=httpx.MockTransport(serve)) as device:
        device.check_in()
        device.check_in()
    assert sent == [None] * 3


# Enrolling again


def test_a_device_that_its_server_does_not_know_any_more_enrols_again_and_keeps_what_it_did(place):
    place.rounds = [configuration(**ALWAYS)]
    state = MemoryState()
    with place.device(state=state) as device:
        assert device.check_in() == [Outcome("round-0", "taken")]
        before = state.load()
        place.known.clear()  # a backup from before its enrolment was restored
        assert device.check_in() == []
        after = state.load()
    assert place.paths.count(ENROL) == 2
    assert place.paths.count(REPORT) == 1  # the round is answered once, by whatever name the server knows the device
    assert after.token != before.token
    assert (after.rounds, after.spends, after.identity) == (before.rounds, before.spends, SERVER.public)


def test_it_enrols_again_once_a_visit(place):
    with place.device() as device:
        device.check_in()
        place.known = type("Nobody", (set,), {"add": lambda *_: None})()
        with pytest.raises(Unauthorised):
            device.check_in()
    assert place.paths.count(ENROL) == 2


def refusals(place: Place) -> dict[str, httpx.Response]:
    proof = OTHER.proof("0" * 32, "thresher-device-1")
    replayed = SERVER.proof("0" * 32, "thresher-device-1")
    made = {"no proof": problem(401), "another's": problem(401), "replayed": problem(401), "nonsense": problem(401)}
    made["another's"].headers[PROOF_HEADER] = proof
    made["replayed"].headers[PROOF_HEADER] = replayed
    made["nonsense"].headers[PROOF_HEADER] = "zz"
    return made


@pytest.mark.parametrize("name", ["no proof", "another's", "replayed", "nonsense"])
def test_without_the_proof_of_its_own_server_it_neither_enrols_again_nor_ends(place, name):
    with place.device() as device:
        device.check_in()
        place.instead = {ASK: [refusals(place)[name]]}
        with pytest.raises(ServerUnavailable, match="does not prove"):
            device.check_in()
        assert device.check_in() == []
    assert place.paths.count(ENROL) == 1


def test_without_an_enrolment_key_the_servers_own_word_is_final(place, tmp_path):
    path = tmp_path / "device.json"
    with place.device(state=path) as device:
        device.check_in()
    place.known.clear()
    with pytest.raises(Unauthorised, match="does not know"), place.device(state=path, enrolment_key=None) as device:
        device.run()
    assert FileState(path).load().token is not None


def test_a_device_of_a_server_without_an_identity_does_not_enrol_again(place):
    place.identity = None
    with place.device() as device:
        device.check_in()
        place.known.clear()
        with pytest.raises(Unauthorised):
            device.check_in()
    assert place.paths.count(ENROL) == 1


def test_a_state_of_the_first_version_is_read(tmp_path):
    path = tmp_path / "device.json"
    path.write_text('{"token":"thresher-device-1","rounds":{},"spends":{},"version":1}')
    assert FileState(path).load() == DeviceState(token="thresher-device-1")


def test_a_proof_is_for_one_nonce_one_token_and_one_server():
    nonce = identity.new_nonce()
    proof = SERVER.proof(nonce, "token")
    assert identity.proves(SERVER.public, nonce, "token", proof)
    assert not identity.proves(OTHER.public, nonce, "token", proof)
    assert not identity.proves(SERVER.public, identity.new_nonce(), "token", proof)
    assert not identity.proves(SERVER.public, nonce, "other", proof)
    assert not identity.proves(SERVER.public, nonce, "token", "")
    assert not identity.proves("", nonce, "token", proof)
    assert SERVER.proof("", "token") is None
    assert SERVER.proof("A" * 32, "token") is None
    assert bytes(range(32)).hex() not in repr(SERVER)


def asking(server):
    """A transport into a server in this process."""

    def serve(request: httpx.Request) -> httpx.Response:
        headers = {name: value for name, value in request.headers.items() if name != "content-length"}
        answer = server.ask(request.method, request.url.path, headers=headers, content=request.content)
        return httpx.Response(answer.status_code, content=answer.content, headers=answer.headers)

    return httpx.MockTransport(serve)


def test_devices_enrolled_after_a_backup_come_back_to_the_restored_server(tmp_path):
    """With real stores: the database from before, the same identity, and a round that was answered before."""
    with inside(tmp_path / "data") as server:
        server.enrol()
        server.services.collector.open(configuration_of(server.services.aggregator, deadline=time.time() + 3600))
    shutil.copytree(tmp_path / "data", tmp_path / "backup")
    path = tmp_path / "device.json"
    with inside(tmp_path / "data") as server:
        key = server.token("enrolment")
        with Device("http://fleet.test", key, {"word": "x"}, path, transport=asking(server)) as device:
            assert device.check_in() == [Outcome("r1", "taken")]
    before = FileState(path).load()
    shutil.rmtree(tmp_path / "data")
    shutil.copytree(tmp_path / "backup", tmp_path / "data")
    with inside(tmp_path / "data") as server:
        with Device("http://fleet.test", key, {"word": "x"}, path, transport=asking(server)) as device:
            assert device.check_in() == []
            assert device.check_in() == []
        assert server.services.collector.overview().enrolled == 2
        assert server.services.collector.progress("r1").completed == 0  # what was handed in is lost, and not said twice
    after = FileState(path).load()
    assert after.token != before.token
    assert (after.rounds, after.spends) == (before.rounds, before.spends)


def test_only_a_device_that_asks_gets_a_proof(tmp_path):
    with inside(tmp_path / "data") as server:
        token = "thresher-device-" + "x" * 43
        asked = server.ask("POST", "/v2/visit", token, json=ASKING, headers={NONCE_HEADER: "0" * 32})
        assert asked.status_code == 401
        [enrolled] = server.services.collector.enrol([server.token("enrolment")])
        assert identity.proves(enrolled.identity, "0" * 32, token, asked.headers[PROOF_HEADER])
        for headers in ({}, {NONCE_HEADER: "0"}, {NONCE_HEADER: "Z" * 32}):
            answer = server.ask("POST", "/v2/visit", token, json=ASKING, headers=headers)
            assert (answer.status_code, PROOF_HEADER in answer.headers) == (401, False)
        known = server.enrol()
        answer = server.ask("POST", "/v2/visit", known, json=ASKING, headers={NONCE_HEADER: "0" * 32})
        assert (answer.status_code, PROOF_HEADER in answer.headers) == (200, False)


def test_a_device_that_was_revoked_does_not_enrol_again(tmp_path):
    """It is known, and hears no proof: otherwise revoking would mean nothing where apps ship the enrolment key."""
    with inside(tmp_path / "data") as server:
        collector, key = server.services.collector, server.token("enrolment")
        with Device("http://fleet.test", key, {"word": "x"}, patience=0, transport=asking(server)) as device:
            assert device.check_in() == []
            assert collector.revoke_device(*collector.identify([device.core.token]))
            token = device.core.token
            with pytest.raises(ServerUnavailable, match="does not prove"):
                device.check_in()
            assert device.core.token == token


# The analyst


@pytest.mark.parametrize("name", TOLD_APART)
def test_an_analyst_is_told_that_somebody_else_answers(name):
    waits: list[float] = []
    transport = httpx.MockTransport(lambda request: STRANGERS[name]())
    with (
        pytest.raises(ServerUnavailable, match=r"between here and http.* answered in its place"),
        Fleet("http://fleet.test", "key", transport=transport, sleep=waits.append) as fleet,
    ):
        fleet.queries()
    assert waits == []


def test_what_the_server_answers_without_a_body_is_its_own():
    transport = httpx.MockTransport(lambda request: httpx.Response(204))
    assert Connection("http://fleet.test", "key", transport=transport).post("/v1/x") == b""
