"""For the tests of devices: a plan, a key, configurations that hold together, and a device that is enrolled."""

from __future__ import annotations

import json
import os
from typing import Any

from thresher.device.device import DeviceCore, Request
from thresher.device.policy import Policy
from thresher.device.spending import Spend
from thresher.device.state import MemoryState
from thresher.privacy.plans import Plan
from thresher.protocol import messages, rates
from thresher.protocol.configurations import RoundConfiguration
from thresher.protocol.messages import DEVICE_VERSION, Enrolled
from thresher.protocol.plaintext import decode_payload, payload
from thresher.protocol.readable import ReadableRound, read_round
from thresher.protocol.sealing import PrivateKey, open_sealed
from thresher.questions import Values

PLAN = Plan(1 / 16, 12, 1.0, 1e-8, "replace", 3)
ONCE, TWICE = Policy(period_epsilon=0.25), Policy(period_epsilon=0.3)
"""Period budgets for one and for two queries of `PLAN`, which costs far less than it states."""
KEY = PrivateKey.from_bytes("key-1", bytes(range(32)))
START = 1_000_000.0
ALWAYS = {"sampled_by": "aggregator"}
"""The device's own coin is always heads: for tests of what is answered."""


class StillClock:
    """A clock that a test moves."""

    def __init__(self, time: float = START) -> None:
        self.time = time

    def now(self) -> float:
        return self.time


def configuration(
    name: str = "round-0",
    *,
    plan: Plan = PLAN,
    contact_rate: float = 1.0,
    sampled_by: Any = "device",
    key: PrivateKey = KEY,
    **changes: Any,
) -> RoundConfiguration:
    """A round that a default policy answers."""
    shared, exact_plan = rates.share(plan, contact_rate, sampled_by)
    settings: dict[str, Any] = {
        "fleet": "fleet",
        "query": "query-0",
        "index": 0,
        "question": Values(("word",)),
        "bucket_size": 64,
        "deadline": START + 3600,
        **changes,
    }
    return RoundConfiguration.of(
        round=name, plan=exact_plan, rates=shared, key_id=key.key_id, public_key=key.public.raw, **settings
    )


def queries(number: int, first: int = 0, **changes: Any) -> list[RoundConfiguration]:
    """The first rounds of so many queries."""
    return [configuration(f"round-{each}", query=f"query-{each}", **changes) for each in range(first, first + number)]


def spends_of(core: DeviceCore) -> dict[str, Spend]:
    """What a device has been charged."""
    return core._kept.spends


def round_of(configuration: RoundConfiguration) -> ReadableRound:
    """The round as a device reads it."""
    found = read_round(configuration.text).round
    assert found is not None, "this round's configuration does not hold together"
    return found


def shown(*rounds: RoundConfiguration | str, come_back: float = 60.0, **statuses: str) -> bytes:
    """The answer to a visit: rounds that the server lists, and what became of reports, by round."""
    reports = [{"round": name, "status": status} for name, status in statuses.items()]
    texts = [each if isinstance(each, str) else each.text for each in rounds]
    return json.dumps({"version": 2, "reports": reports, "rounds": texts, "come_back": come_back}).encode()


def take(core: DeviceCore, answer: bytes) -> list[str]:
    """A request for rounds, with this answer; the rounds that wait to be handed in then."""
    request = core.visit_request(rounds=True)
    assert request is not None
    core.visited(request, answer)
    return waiting(core)


def waiting(core: DeviceCore) -> list[str]:
    """The rounds whose reports were not acknowledged yet."""
    return [outcome.round for outcome in core.outcomes() if outcome.status == "sealed"]


def noted(core: DeviceCore, round: str, status: str | None) -> str:
    """The server says what became of one report, or with None does not; where the device stands then."""
    request = Request("POST", "/v2/visit", core.token or "", b"", reports=(round,))
    [outcome] = core.visited(request, shown(**({} if status is None else {round: status})))
    return outcome.status


def answered(core: DeviceCore, *rounds: RoundConfiguration) -> list[str]:
    """A visit in which the server takes every report at once; the rounds that were reported."""
    reported = take(core, shown(*rounds))
    for name in reported:
        assert noted(core, name, "taken") == "taken"
    return reported


def opened(sealed: bytes, of: RoundConfiguration, key: PrivateKey = KEY) -> Any:
    """What a report says: a bucket, or DECOY."""
    return decode_payload(payload(open_sealed(sealed, key, of.hash)), of.asked)


def device(holds=None, *, state=None, policy=None, clock=None, randomness=os.urandom) -> DeviceCore:
    """An enrolled device."""
    attributes = {"word": "hello"} if holds is None else holds
    core = DeviceCore(attributes, policy or Policy(), state or MemoryState(), randomness, clock or StillClock())
    if core.token is None:
        core.enrolled(Enrolled(version=DEVICE_VERSION, token="thresher-device-1"))
    return core


def sealed(core: DeviceCore, round: str = "round-0") -> bytes:
    """The bytes that the device hands in for a round, as they are in a request."""
    request = core.visit_request(rounds=True)
    assert request is not None
    [found] = [each.sealed for each in messages.decode(messages.Visit, request.body).reports if each.round == round]
    return found


class Tosses:
    """Counts how often bits are drawn."""

    def __init__(self) -> None:
        self.drawn = 0

    def __call__(self, size: int) -> bytes:
        self.drawn += 1
        return os.urandom(size)
