"""A round's configuration as a device reads it: one string, hashed as it came, then parsed and checked.

Everything here is whole numbers, text and hashing, as docs/protocol/rounds.md, section 3, says it for every language.
What the round *states* (its epsilon, delta and guarantees) is not read: a device trusts its own policy.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import re
from dataclasses import dataclass, field
from typing import Any, NoReturn

from thresher import questions
from thresher.errors import InvalidFormat, ThresherError
from thresher.privacy.whole_numbers import ONE
from thresher.protocol import sealing
from thresher.protocol.sealing import PublicKey
from thresher.questions import Question

VERSION = 3
"""Of the configurations that devices answer."""
LARGEST_THRESHOLD = 100_000
MOST_ROUNDS = 1_000
"""Of one query; a round of c contributions costs as much as c rounds, and counts as c."""
SMALLEST_BUCKET = 48
"""A padded plaintext has room for a decoy."""
LARGEST_BUCKET = 4096
LARGEST_REPORT = 48_000
"""Bytes of a report: as many sealed pieces as a round has contributions."""

_HASHED = b"thresher round %d\0" % VERSION
_CONTACT = 1 << 20
_MEMBERS = frozenset(
    "version fleet query index round question plan contact_rate device_rate aggregator_rate bucket_size deadline "
    "key_id public_key guarantees".split()
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}")
_KEY = re.compile(r"[0-9a-f]{64}")
_AT_HAND = 64
SHORT = 64 << 10
"""Characters or bytes of a server up to which what was read is remembered for other devices of the process."""


@dataclass(frozen=True, slots=True)
class ReadableRound:
    """What a device reads of a round."""

    fleet: str
    query: str
    index: int
    round: str
    question: Question
    threshold: int
    rounds: int
    """Of the whole query."""
    contributions: int
    """How many values of one device count in the round."""
    contact_rate: int
    device_rate: int
    aggregator_rate: int
    bucket_size: int
    deadline: float
    public: PublicKey
    hash: bytes = field(repr=False)
    """What is sealed into every report."""

    @property
    def report_size(self) -> int:
        """Bytes of a report: a sealed piece for each contribution."""
        return self.contributions * (self.bucket_size + sealing.OVERHEAD)


@dataclass(frozen=True, slots=True)
class ShownRound:
    """A string that a server listed: `name` is None if it has no name, and `round` is None if it cannot be read."""

    name: str | None = None
    round: ReadableRound | None = None


def configuration_hash(text: str) -> bytes:
    """The hash of a configuration of version 3: over the string as it came. `InvalidFormat` if it is no UTF-8."""
    try:
        return hashlib.sha256(_HASHED + text.encode()).digest()
    except UnicodeEncodeError:
        raise InvalidFormat("A round's configuration is not well-formed text.") from None


def read_round(text: str) -> ShownRound:
    """Hash a configuration and read it; never an error, whatever the string is.

    Many devices in one process do this once for each configuration, good or bad.
    """
    return short_rounds(text) if len(text) <= SHORT else _long_rounds(text)


def _shown(text: str) -> ShownRound:
    try:
        hashed = configuration_hash(text)
        content = json.loads(text, parse_constant=_no_number)
    except (ThresherError, ValueError, RecursionError):
        return ShownRound()
    name = content.get("round") if isinstance(content, dict) else None
    if not _is_name(name):
        return ShownRound()
    try:
        return ShownRound(name, _read(content, hashed))
    except (ThresherError, TypeError, ValueError, ArithmeticError, AttributeError, LookupError, RecursionError):
        return ShownRound(name)


# A server may list strings of many MiB: of the long ones, few are kept at a time.
short_rounds = functools.lru_cache(maxsize=_AT_HAND)(_shown)
_long_rounds = functools.lru_cache(maxsize=2)(_shown)


def _read(content: dict[str, Any], hashed: bytes) -> ReadableRound | None:
    """The round, if every rule of docs/protocol/rounds.md holds; None, or any of the errors above, otherwise."""
    plan = content["plan"]
    threshold, rounds, contributions = plan["threshold"], plan["rounds"], plan.get("contributions", 1)
    contact, device, aggregator = rates = [content[f"{who}_rate"] for who in ("contact", "device", "aggregator")]
    size, deadline, key = content["bucket_size"], content["deadline"], content["public_key"]
    readable = (
        content.keys() == _MEMBERS
        and _is_whole(content["version"], VERSION, VERSION)
        and all(_is_name(content[member]) for member in ("fleet", "query", "round", "key_id"))
        and _is_whole(threshold, 1, LARGEST_THRESHOLD)
        and _is_whole(rounds, 1, MOST_ROUNDS)
        and _is_whole(contributions, 1, MOST_ROUNDS // rounds)
        and _is_whole(content["index"], 0, rounds - 1)
        and all(_is_whole(rate, 1, ONE) for rate in rates)
        and ONE in (device, aggregator)
        and contact // (contact & -contact) < _CONTACT
        and (contributions == 1 or contact == ONE)
        and _is_rate(plan["sampling_rate"], contact * device * aggregator)
        and _is_whole(size, SMALLEST_BUCKET, LARGEST_BUCKET)
        and contributions * (size + sealing.OVERHEAD) <= LARGEST_REPORT
        and type(deadline) in (int, float)
        and math.isfinite(deadline)
        and isinstance(key, str)
        and _KEY.fullmatch(key) is not None
    )
    if not readable:
        return None
    question = questions.from_dict(content["question"])
    public = PublicKey(content["key_id"], bytes.fromhex(key))
    if (question.randomised and contributions > 1) or not can_be_sealed_for(public):
        return None
    return ReadableRound(
        fleet=content["fleet"],
        query=content["query"],
        index=content["index"],
        round=content["round"],
        question=question,
        threshold=threshold,
        rounds=rounds,
        contributions=contributions,
        contact_rate=contact,
        device_rate=device,
        aggregator_rate=aggregator,
        bucket_size=size,
        deadline=float(deadline),
        public=public,
        hash=hashed,
    )


@functools.lru_cache(maxsize=_AT_HAND)
def can_be_sealed_for(public: PublicKey) -> bool:
    """Whether a public key hides anything: it is no point of small order."""
    try:
        sealing.seal(b"", public, b"")
    except InvalidFormat:
        return False
    return True


def _is_rate(rate: Any, product: int) -> bool:
    """Whether a sampling rate is exactly the product of three rates; a double times 2^64 is exact."""
    if type(rate) not in (int, float) or not 0 < rate <= 1:
        return False
    scaled = float(rate) * 2.0**64
    return scaled.is_integer() and int(scaled) << 32 == product


def _is_whole(value: Any, least: int, most: int) -> bool:
    return type(value) is int and least <= value <= most


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def _no_number(word: str) -> NoReturn:
    raise ValueError(word)  # NaN and infinities are no JSON
