"""Python's device goes through every trace of docs/protocol/vectors/traces.json, and a changed trace is noticed."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import httpx
import pytest
from device_cases import StillClock
from vector_changes import assert_all_are_noticed, long_traces, read

from thresher.device.device import Device
from thresher.device.policy import DEFAULT_TABLE
from thresher.device.policy_file import policy_from_dict
from thresher.device.state import MemoryState
from thresher.errors import Unauthorised
from thresher.protocol.identity import NONCE_HEADER, PROOF_HEADER, Identity
from thresher.protocol.pieces import pieces
from thresher.protocol.plaintext import payload
from thresher.protocol.readable import ReadableRound, read_round
from thresher.protocol.sealing import OVERHEAD, open_sealed
from thresher.protocol.vectors.example_rounds import KEY

TRACES = read("traces")
DEFAULT = json.loads(DEFAULT_TABLE.read_bytes())


class Crash(BaseException):
    """The power goes."""


class Runner:
    """A trace, played for one device: its clock, its network, and the event that it waits for."""

    def __init__(self, trace: dict[str, Any]) -> None:
        self.trace = trace
        self.policy = policy_from_dict(DEFAULT | trace["policy"]) if "policy" in trace else None
        self.state, self.clock = MemoryState(), StillClock()
        self.steps = list(trace["steps"])
        self.exchanges: list[dict[str, Any]] = []
        self.after: dict[str, Any] | None = None
        self.sealed: dict[str, str] = {}
        self.shown: dict[str, ReadableRound] = {}
        self.sent: set[str] = set()
        self.nonces: set[str] = set()
        self.device = self.started()

    def started(self) -> Device:
        return Device(
            "http://fleet.test",
            self.trace["enrolment_key"],
            self.trace["attributes"],
            self.state,
            self.policy,
            transport=httpx.MockTransport(self.serve),
            clock=self.clock,
            patience=0,
        )

    def run(self) -> None:
        while self.steps:
            if self.steps[0].get("restart"):
                self.steps.pop(0)
                self.device = self.started()
                continue
            try:
                self.device.run(self)  # type: ignore[arg-type]
            except Crash:
                self.ended(None)
                self.device = self.started()
            except Unauthorised:
                self.ended(None)
                self.device = self.started()

    # The event

    def is_set(self) -> bool:
        """Asked before each visit, which then begins at the time of the next step."""
        if not self.steps or self.steps[0].get("restart"):
            return True
        step = self.steps.pop(0)
        self.clock.time = step["now"]
        self.sent.clear()
        self.exchanges, self.after = list(step["exchanges"]), step.get("after")
        return False

    def wait(self, seconds: float) -> bool:
        """Asked after each visit."""
        self.ended(seconds)
        return False

    def ended(self, wait: float | None) -> None:
        assert self.exchanges == [], "a request is missing"
        if self.after is None:
            return
        kept = self.state.load()
        found = {
            "records": {name: record.status for name, record in kept.rounds.items()},
            "remembered": len(kept.rounds),
            "reasons": {name: record.reason for name, record in kept.rounds.items() if record.status == "refused"},
            "charged": sorted(kept.spends),
            "token": kept.token,
            "ends": wait is None,
        }
        expected = {"ends": False, **self.after}
        low, high = expected.pop("wait", (0, float("inf")))
        if "charged" in expected:
            expected["charged"] = sorted(expected["charged"])
        assert {name: found[name] for name in expected} == expected
        assert wait is None or low - 1e-6 <= wait <= high + 1e-6

    # The network

    def serve(self, request: httpx.Request) -> httpx.Response:
        assert self.exchanges, "a request too many"
        exchange = self.exchanges.pop(0)
        expect, answer = exchange["expect"], exchange["answer"]
        assert request.method == "POST"
        assert request.url.path == expect["path"]
        assert request.headers["content-type"] == "application/json"
        body, token = json.loads(request.content), request.headers["authorization"].removeprefix("Bearer ")
        nonce = request.headers.get(NONCE_HEADER, "")
        if expect["path"] == "/v2/devices":
            assert (body, token) == ({"versions": [2]}, self.trace["enrolment_key"])
        else:
            assert token == expect["token"]
            names = {report["round"] for report in body["reports"]}
            assert len(names) == len(body["reports"])
            assert not names & self.sent or expect["rounds"]
            self.sent |= names
            assert len(request.content) <= 256 << 10
            assert (len(names) if isinstance(expect["reports"], int) else sorted(names)) == (
                expect["reports"] if isinstance(expect["reports"], int) else sorted(expect["reports"])
            )
            assert {**body, "reports": []} == {"versions": [2], "reports": [], "rounds": expect["rounds"]}
            assert len(bytes.fromhex(nonce)) == 16
            assert nonce not in self.nonces
            self.nonces.add(nonce)
        if answer.get("crash"):
            raise Crash
        for report in body.get("reports", ()):
            assert self.sealed.setdefault(report["round"], report["sealed"]) == report["sealed"]
            self.opened(report["round"], report["sealed"])
        if answer.get("none"):
            raise httpx.ConnectError("no answer")
        return self.answered(answer, nonce, token)

    def opened(self, name: str, text: str) -> None:
        """A report has what it must have, sealed for the key of the vectors under the hash of its round."""
        sealed, shown = base64.b64decode(text, validate=True), self.shown[name]
        assert base64.b64encode(sealed).decode() == text
        assert len(sealed) == shown.contributions * (shown.bucket_size + OVERHEAD)
        found = []
        for piece in pieces(sealed, shown.bucket_size + OVERHEAD):
            plain = open_sealed(piece, KEY, shown.hash)
            assert len(plain) == shown.bucket_size
            content = payload(plain).decode()
            found.append("" if re.fullmatch(r'\{"decoy":"[0-9a-f]{32}"\}', content) else content)
        assert sorted(found) == sorted(each or "" for each in self.trace["plaintexts"][name])

    def answered(self, answer: dict[str, Any], nonce: str, token: str) -> httpx.Response:
        content, headers = answer["body"], {"content-type": "application/json", **answer.get("headers", {})}
        for text in content.get("rounds", ()) if isinstance(content, dict) else ():
            shown = read_round(text).round if isinstance(text, str) else None
            if shown is not None:
                self.shown.setdefault(shown.round, shown)
        if "proof" in answer:
            secret = bytes.fromhex(self.trace["identity_secret"]) if answer["proof"] == "valid" else bytes(32)
            headers[PROOF_HEADER] = Identity(secret).proof(nonce, token)
        raw = content if isinstance(content, str) else json.dumps(content)
        return httpx.Response(answer["status"], content=raw.encode(), headers=headers)


@pytest.mark.parametrize(
    "trace",
    [
        pytest.param(trace, id=trace["name"], marks=[pytest.mark.slow] if trace in long_traces() else [])
        for trace in TRACES
    ],
)
def test_a_trace(trace: dict[str, Any]) -> None:
    Runner(trace).run()


def test_there_are_many_and_each_has_a_name_of_its_own() -> None:
    assert len({trace["name"] for trace in TRACES}) == len(TRACES) >= 40


@pytest.mark.slow
def test_a_change_of_any_field_is_noticed() -> None:
    assert_all_are_noticed("traces", lambda trace: Runner(trace).run(), every=2)
