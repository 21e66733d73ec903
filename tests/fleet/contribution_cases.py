"""For the tests of rounds in which several values of a device count: a fleet of shipped parts, and faulty devices."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from device_cases import StillClock, noted
from store_cases import Handed, accept

from thresher.device.core import DeviceCore
from thresher.device.policy import Policy
from thresher.mechanism import Release, Response
from thresher.mechanism.coins import coins
from thresher.privacy.plans import Plan
from thresher.privacy.rates import ONE
from thresher.protocol import plaintext, sealing
from thresher.protocol.configurations import RoundConfiguration
from thresher.protocol.messages import Visit, decode
from thresher.protocol.rates import SampledBy, share
from thresher.questions import Question, Values
from thresher.roles.aggregator.aggregator import Aggregator
from thresher.roles.aggregator.keys import KeyRing
from thresher.roles.aggregator.round_drawing import LocalDrawing
from thresher.roles.aggregator.store import AggregatorStore
from thresher.roles.collector.collector import Collector
from thresher.roles.collector.reports import NewVisit, Outcome
from thresher.roles.collector.store import CollectorStore
from thresher.roles.tokens import new_token

ANYTHING = Policy(
    max_epsilon=100, max_delta=0.999, period_epsilon=100, period_delta=0.999, min_threshold=1, period_days=1e-6
)
"""Answers each of these rounds: the period is so short that nothing is remembered."""


class ShippedFleet:
    """A collector and an aggregator on stores of their own, and devices that hold what is given."""

    def __init__(
        self,
        directory: Path,
        held: Sequence[Any],
        kind: type[DeviceCore] = DeviceCore,
        *,
        randomness: Any = os.urandom,
        batch_size: int = 5000,
    ) -> None:
        self.clock = StillClock(1_700_000_000.0)
        self.keys = KeyRing(directory / "keys")
        self.aggregator = Aggregator(AggregatorStore.open(directory), self.keys, LocalDrawing(1))
        self.batches: list[bytes] = []
        self.collector = Collector(CollectorStore.open(directory), self.clock, self, batch_size=batch_size)
        enrolment = new_token("enrolment")
        self.collector.add_enrolment_key(enrolment, "tests")
        self.devices = [kind({"tag": tags}, ANYTHING, None, randomness, self.clock) for tags in held]
        for device, enrolled in zip(self.devices, self.collector.enrol([enrolment] * len(held)), strict=True):
            device.enrolled(enrolled)
        self.identities = self.collector.identify([device.token for device in self.devices])
        self.asked = 0

    def add_batch(self, round: str, number: int, blob: bytes) -> None:
        """What the collector forwards passes through here, for a look at it."""
        self.batches.append(blob)
        self.aggregator.add_batch(round, number, blob)

    def configuration(
        self, plan: Plan, sampled_by: SampledBy = "device", question: Question | None = None
    ) -> RoundConfiguration:
        rates, exact = share(plan, 1.0, sampled_by)
        key = self.aggregator.public_key()
        self.asked += 1
        return RoundConfiguration.of(
            fleet="tests",
            query=f"q{self.asked}",
            index=0,
            round=f"q{self.asked}-r0",
            question=question or Values(("tag",)),
            plan=exact,
            rates=rates,
            bucket_size=64,
            deadline=self.clock.now() + 60,
            key_id=key.key_id,
            public_key=key.raw,
        )

    def reports(self, configuration: RoundConfiguration) -> list[Handed]:
        """Open a round; the report of every device."""
        self.collector.open(configuration)
        found = []
        visits = self.collector.visit([NewVisit(identity) for identity in self.identities])
        for device, identity, visited in zip(self.devices, self.identities, visits, strict=True):
            device.visited(device.visit_request(rounds=True), self.collector.written((), visited, 1.0))
            request = device.visit_request(rounds=False)
            found += [Handed(each.round, identity, each.sealed) for each in decode(Visit, request.body).reports]
        return found

    def close(self, configuration: RoundConfiguration) -> Release:
        """Close a round and release it."""
        closed = self.collector.close(configuration.round)
        response = Response(closed.asked, closed.contacted, closed.completed, configuration.rates)
        batches = self.collector.forward(configuration.round)
        release = Release.from_json(self.aggregator.release(configuration, batches, response))
        self.collector.forget(configuration.round)
        self.aggregator.forget(configuration.round)
        self.clock.time += 100
        return release

    def ask(self, plan: Plan, sampled_by: SampledBy = "device", question: Question | None = None) -> Release:
        """A whole round, in which every device completes."""
        configuration = self.configuration(plan, sampled_by, question)
        reports = self.reports(configuration)
        assert len(reports) == len(self.devices)
        assert set(accept(self.collector, reports)) == {Outcome.ACCEPTED}
        for device in self.devices:
            noted(device, configuration.round, "taken")
        return self.close(configuration)


def counts_of(release: Release) -> dict[Any, int]:
    return dict(zip(release.buckets, release.counts.tolist(), strict=True))


class _Faulty(DeviceCore):
    """A device that seals what `_sent` says, in place of what it should."""

    def _sent(self, held: list[str], contributions: int, rate: float) -> list[str]:
        raise NotImplementedError

    def _seal(self, round, held) -> bytes:
        size, contributions = 64, round.contributions
        sent = self._sent(self._reader.attributes["tag"], contributions, round.device_rate / ONE)
        assert len(sent) <= contributions
        real = [plaintext.encode_bucket(round.question, each, size) for each in sent]
        padded = [*real, *(plaintext.decoy(size) for _ in range(contributions - len(sent)))]
        return b"".join(sealing.seal(each, round.public, round.hash) for each in padded)


_random = np.random.default_rng()


class OneCoin(_Faulty):
    """One coin for all its values."""

    def _sent(self, held, contributions, rate):
        taken = _random.choice(sorted(set(held)), min(contributions, len(set(held))), replace=False)
        return [str(each) for each in taken] if coins(1, rate)[0] else []


class Repeated(_Faulty):
    """Two equal values are two."""

    def _sent(self, held, contributions, rate):
        taken = _random.choice(held, contributions, replace=False)
        return [str(each) for each, heads in zip(taken, coins(contributions, rate), strict=True) if heads]


class CappedAfterwards(_Faulty):
    """Tosses for all its values, and sends as many successes as it may."""

    def _sent(self, held, contributions, rate):
        values = sorted(set(held))
        heads = [each for each, head in zip(values, coins(len(values), rate), strict=True) if head]
        return [str(each) for each in _random.permutation(heads)[:contributions]]
