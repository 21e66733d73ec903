"""Rounds that vectors are made of: a key that everybody knows, and configurations that hold together."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from thresher.privacy.plans import Plan
from thresher.protocol.configurations import RoundConfiguration
from thresher.protocol.rates import SampledBy, share
from thresher.protocol.sealing import PrivateKey
from thresher.questions import Question, Values

PLAN = Plan(1 / 16, 12, 1.0, 1e-8, "replace", 3)
"""A plan that the default policy allows."""
SECRET = bytes(range(32))
KEY = PrivateKey.from_bytes("key-1", SECRET)
START = 1_790_000_000.0


def example(
    name: str = "q1-0",
    *,
    plan: Plan = PLAN,
    question: Question | None = None,
    sampled_by: SampledBy = "aggregator",
    contact_rate: float = 1.0,
    **changes: Any,
) -> RoundConfiguration:
    """A round that a device with the default policy answers."""
    rates, exact = share(plan, contact_rate, sampled_by)
    settings: dict[str, Any] = {
        "fleet": "default",
        "query": name.partition("-")[0],
        "index": 0,
        "bucket_size": 64,
        "deadline": START + 3600.0,
        **changes,
    }
    return RoundConfiguration.of(
        round=name,
        question=question or Values(("country",)),
        plan=exact,
        rates=rates,
        key_id=KEY.key_id,
        public_key=KEY.public.raw,
        **settings,
    )


def content(configuration: RoundConfiguration | None = None) -> dict[str, Any]:
    """A configuration as JSON has it, to be changed."""
    found: dict[str, Any] = json.loads((configuration or example()).text)
    return found


def bytes_of(label: str) -> bytes:
    """32 bytes that follow from a label: in place of random ones, so that vectors can be made again."""
    return hashlib.sha256(b"thresher vectors " + label.encode()).digest()
