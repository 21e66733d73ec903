"""Rounds with known content: configurations that hold together, and reports sealed to a key."""

from __future__ import annotations

from collections.abc import Iterable

from thresher.mechanism import Response
from thresher.privacy.guarantee import delta
from thresher.privacy.plans import Plan
from thresher.protocol import plaintext
from thresher.protocol.configurations import RoundConfiguration
from thresher.protocol.rates import SampledBy, share
from thresher.protocol.sealing import PrivateKey, PublicKey, seal
from thresher.questions import Bucket, Question, Values
from thresher.roles.aggregator.report_opening import Opening

SIZE = 64
WORD = Values(("word",))


def configuration(
    key: PublicKey,
    *,
    question: Question = WORD,
    rate: float = 0.5,
    threshold: int = 3,
    sampled_by: SampledBy = "device",
    round: str = "round-1",
    deadline: float = 1e9,
    contributions: int = 1,
) -> RoundConfiguration:
    """A round of one query; its plan states the delta that its rate and threshold have."""
    stated = delta(sampling_rate=rate, threshold=threshold, epsilon=1.0, contributions=contributions)
    made = Plan(rate, threshold, 1.0, min(stated * 1.01, 0.9999), contributions=contributions)
    rates, plan = share(made, 1.0, sampled_by)
    return RoundConfiguration.of(
        fleet="fleet",
        query="query",
        index=0,
        round=round,
        question=question,
        plan=plan,
        rates=rates,
        bucket_size=SIZE,
        deadline=deadline,
        key_id=key.key_id,
        public_key=key.raw,
    )


def sealed_plain(plain: bytes, config: RoundConfiguration) -> bytes:
    key = PublicKey(config.key_id, bytes.fromhex(config.public_key))
    return seal(plain, key, config.hash)


def sealed(config: RoundConfiguration, buckets: Iterable[Bucket | None]) -> list[bytes]:
    """A report for each bucket, a decoy for None."""
    question = config.asked
    plain = (plaintext.encode_bucket(question, bucket, SIZE) or plaintext.decoy(SIZE) for bucket in buckets)
    return [sealed_plain(each, config) for each in plain]


def spelled(json: bytes) -> bytes:
    """A plaintext with any content at all."""
    return (len(json).to_bytes(2, "big") + json).ljust(SIZE, b"\0")


def opening(config: RoundConfiguration, key: PrivateKey) -> Opening:
    return Opening(key.key_id, key.to_bytes(), config.hash, config.asked, SIZE)


def response(config: RoundConfiguration, completed: int) -> Response:
    return Response(asked=completed, contacted=completed, completed=completed, rates=config.rates)
