"""A collector that cheats: it forwards one person's report among reports that it has sealed itself.

The aggregator's key is public, so a collector (or whoever has enrolled devices) can seal any bucket without tossing a
coin. It chooses how many of its own reports stand beside the target's, and withholds everybody else's.
"""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

from thresher.clock import SystemClock
from thresher.device.core import DeviceCore
from thresher.device.policy import Policy
from thresher.lab.audit.lots import DrawnInLots
from thresher.lab.audit.neighbours import Pair, Population, injected_pairs
from thresher.lab.audit.paths import INJECTED, Observed, observed
from thresher.mechanism import Release, Response
from thresher.privacy.plans import Plan
from thresher.privacy.rates import Rates
from thresher.protocol.configurations import RoundConfiguration
from thresher.protocol.messages import DEVICE_VERSION, Enrolled, Visit, Visited, decode, encode
from thresher.protocol.plaintext import encode_bucket
from thresher.protocol.rates import SampledBy, share
from thresher.protocol.sealing import PublicKey, seal
from thresher.questions import Values
from thresher.roles.aggregator.aggregator import Aggregator
from thresher.roles.aggregator.keys import KeyRing
from thresher.roles.aggregator.round_drawing import LocalDrawing
from thresher.roles.aggregator.store import AggregatorStore

_ATTRIBUTE = "held"
_QUESTION = Values((_ATTRIBUTE,))
_BUCKET_SIZE = 48
_OPEN_SECONDS = 3600.0
_DRAWS = 1000
_ALL = 0.999999  # what is audited is weak on purpose
ANY = Policy(max_epsilon=100, max_delta=_ALL, period_epsilon=100, period_delta=_ALL, min_threshold=1)
"""The policy of devices that answer whatever is audited."""


class FromInjected(DrawnInLots):
    """A real device for the target, reports that the attacker seals, and a real aggregator.

    Of a population's units the last is the target; the others are the attacker's. Every draw has buckets of its own,
    and all draws of a lot are one round.
    """

    path = INJECTED

    def __init__(self, sampled_by: SampledBy) -> None:
        super().__init__(_DRAWS)
        self._sampled_by = sampled_by
        self._rounds = itertools.count()

    def _pairs(self, plan: Plan) -> list[Pair]:
        """The target holds the attacker's value or another; the attacker adds as many reports as serve it best."""
        return injected_pairs(plan)

    def _lot(self, population: Population, copies: int, plan: Plan) -> Observed:
        """What one round's release shows."""
        [answers] = population.answers
        rates, exact = share(plan, 1.0, self._sampled_by)
        with tempfile.TemporaryDirectory(prefix="thresher-audit-") as folder:
            store = AggregatorStore.open(Path(folder))
            aggregator = Aggregator(store, KeyRing(Path(folder) / "keys"), LocalDrawing(1))
            try:
                configuration = self._configuration(exact, rates, aggregator.public_key())
                names = [str(copy * population.buckets) for copy in range(copies)]
                reports = [
                    report
                    for copy, name in enumerate(names)
                    for report in (
                        _of_the_target(str(copy * population.buckets + answers[-1]), configuration),
                        *_of_the_attacker(name, len(answers) - 1, configuration),
                    )
                ]
                response = Response(len(reports), len(reports), len(reports), rates)
                aggregator.add_batch(configuration.round, 0, b"".join(reports))
                release = Release.from_json(aggregator.release(configuration, 1, response))
            finally:
                aggregator.close()
                store.close()
        release.verify()  # an honest aggregator's certificate is right, whatever a collector does
        return observed(release, population, copies)

    def _configuration(self, plan: Plan, rates: Rates, key: PublicKey) -> RoundConfiguration:
        name = f"audit-{next(self._rounds)}"
        return RoundConfiguration.of(
            fleet="audit",
            query=name,
            index=0,
            round=name,
            question=_QUESTION,
            plan=plan,
            rates=rates,
            bucket_size=_BUCKET_SIZE,
            deadline=SystemClock().now() + _OPEN_SECONDS,
            key_id=key.key_id,
            public_key=key.raw,
        )


def _of_the_target(held: str, configuration: RoundConfiguration) -> bytes:
    """The report of an honest device, which knows nothing of the attack."""
    device = DeviceCore({_ATTRIBUTE: held}, ANY)
    device.enrolled(Enrolled(version=DEVICE_VERSION, token="thresher-device-target"))  # noqa: S106
    asked = device.visit_request(rounds=True)
    shown = Visited(version=DEVICE_VERSION, reports=[], rounds=[configuration.text], come_back=60.0)
    assert asked is not None, "there is always something to ask"
    device.visited(asked, encode(shown))
    handed_in = device.visit_request(rounds=False)
    assert handed_in is not None, "the device answers whatever is audited"
    [report] = decode(Visit, handed_in.body).reports
    return report.sealed


def _of_the_attacker(held: str, number: int, configuration: RoundConfiguration) -> list[bytes]:
    """Reports that nobody tossed a coin for."""
    plain = encode_bucket(_QUESTION, held, _BUCKET_SIZE)
    assert plain is not None, "the names of buckets are short"
    public = PublicKey(configuration.key_id, bytes.fromhex(configuration.public_key))
    return [seal(plain, public, configuration.hash) for _ in range(number)]
