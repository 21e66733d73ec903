"""Rounds for the tests of devices: a plan, a key, configurations that hold together."""

from __future__ import annotations

from typing import Any

from thresher.fleet import rates
from thresher.fleet.messages import CheckedIn, RoundConfiguration, configuration_hash
from thresher.fleet.plaintext import decode_payload, payload
from thresher.fleet.sealing import PrivateKey, open_sealed
from thresher.privacy.plans import Plan
from thresher.questions import Values

PLAN = Plan(1 / 16, 12, 1.0, 1e-8, "replace", 3)
KEY = PrivateKey.from_bytes("key-1", bytes(range(32)))
START = 1_000_000.0


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


def checked_in(*rounds: RoundConfiguration) -> CheckedIn:
    return CheckedIn(rounds=list(rounds), come_back=60.0)


def opened(sealed: bytes, of: RoundConfiguration, key: PrivateKey = KEY) -> Any:
    """What a report says: a bucket, or DECOY."""
    return decode_payload(payload(open_sealed(sealed, key, configuration_hash(of))), of.asked)
