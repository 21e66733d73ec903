"""The whole path of a fleet (contact × coin × thinning × threshold) draws from the same law as a table.

All of it is shipped code: devices seal, the collector tosses contact coins and shuffles, the aggregator opens.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from device_cases import StillClock, noted, sealed, take
from scipy import stats
from store_cases import Handed, accept

from thresher.device.core import DeviceCore
from thresher.device.policy import Policy
from thresher.mechanism import Release, Response, sample_and_threshold
from thresher.privacy.plans import Plan
from thresher.protocol.configurations import RoundConfiguration
from thresher.protocol.rates import SampledBy, share
from thresher.questions import Among, Filtered, Question, Values, Where
from thresher.roles.aggregator.aggregator import Aggregator
from thresher.roles.aggregator.keys import KeyRing
from thresher.roles.aggregator.round_drawing import LocalDrawing
from thresher.roles.aggregator.store import AggregatorStore
from thresher.roles.collector.collector import Collector
from thresher.roles.collector.reports import NewVisit, Outcome
from thresher.roles.collector.store import CollectorStore
from thresher.roles.tokens import new_token

ALPHA = 1e-9  # false alarm per check
BUCKETS, HOLDERS, ROUNDS = 12, 25, 60
PLAN = Plan(sampling_rate=0.25, threshold=5, epsilon=1.0, delta=0.2)
POLICY = Policy(max_epsilon=50, max_delta=0.5, period_epsilon=50, period_delta=0.9, min_threshold=1, period_days=1e-6)


NAMES = Values(("name",))


def through_a_fleet(
    directory: Path, contact_rate: float, sampled_by: SampledBy, question: Question = NAMES, outside: int = 0
) -> list[int]:
    """Released counts, 0 for a dropped bucket, over many rounds of one question.

    `outside` more devices hold each bucket and another colour, by which a question may filter.
    """
    clock = StillClock(1_700_000_000.0)
    keys = KeyRing(directory / "keys")
    aggregator = Aggregator(AggregatorStore.open(directory), keys, LocalDrawing(1))
    collector = Collector(CollectorStore.open(directory), clock, aggregator)
    enrolment = new_token("enrolment")
    collector.add_enrolment_key(enrolment, "tests")
    held = [
        {"name": f"bucket {bucket}", "colour": "red" if number < HOLDERS else "blue"}
        for bucket in range(BUCKETS)
        for number in range(HOLDERS + outside)
    ]
    devices = [DeviceCore(values, POLICY, clock=clock) for values in held]
    for device, enrolled in zip(devices, collector.enrol([enrolment] * len(held)), strict=True):
        device.enrolled(enrolled)
    identities = collector.identify([device.token for device in devices])
    rates, plan = share(PLAN, contact_rate, sampled_by)
    counts = []
    for number in range(ROUNDS):
        key = aggregator.public_key()
        configuration = RoundConfiguration.of(
            fleet="tests",
            query=f"q{number}",
            index=0,
            round=f"q{number}-r0",
            question=question,
            plan=plan,
            rates=rates,
            bucket_size=64,
            deadline=clock.now() + 60,
            key_id=key.key_id,
            public_key=key.raw,
        )
        collector.open(configuration)
        reports = []
        visits = collector.visit([NewVisit(identity) for identity in identities])
        for device, identity, visited in zip(devices, identities, visits, strict=True):
            for round in take(device, collector.written((), visited, 1.0)):
                reports.append(Handed(round, identity, sealed(device, round)))
                noted(device, round, "taken")
        assert set(accept(collector, reports)) <= {Outcome.ACCEPTED}
        closed = collector.close(configuration.round)
        assert closed.completed == closed.contacted  # also those that a filter leaves out
        response = Response(closed.asked, closed.contacted, closed.completed, rates)
        batches = collector.forward(configuration.round)
        release = Release.from_json(aggregator.release(configuration, batches, response))
        assert release.private
        collector.forget(configuration.round)
        aggregator.forget(configuration.round)
        found = dict(zip(release.buckets, release.counts.tolist(), strict=True))
        counts += [found.get(f"bucket {index}", 0) for index in range(BUCKETS)]
        clock.time += 100
    return counts


def through_a_table() -> list[int]:
    truth = {f"bucket {index}": HOLDERS for index in range(BUCKETS)}
    counts = []
    for _ in range(ROUNDS):
        release = sample_and_threshold(truth, PLAN)
        found = dict(zip(release.buckets, release.counts.tolist(), strict=True))
        counts += [found.get(bucket, 0) for bucket in truth]
    return counts


def p_value(counts: list[int], rate: float) -> float:
    """A chi-square test against Binomial(HOLDERS, rate) with everything below the threshold as one outcome."""
    law = stats.binom(HOLDERS, rate)
    top = PLAN.threshold + 6
    chances = [law.cdf(PLAN.threshold - 1), *(law.pmf(value) for value in range(PLAN.threshold, top)), law.sf(top - 1)]
    seen = Counter(0 if count == 0 else min(count, top) for count in counts)
    observed = [seen[0], *(seen[value] for value in range(PLAN.threshold, top)), seen[top]]
    return float(stats.chisquare(observed, np.array(chances) * len(counts)).pvalue)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("contact_rate", "sampled_by"), [(1.0, "device"), (0.5, "device"), (1.0, "aggregator"), (0.5, "aggregator")]
)
def test_a_fleet_draws_from_the_same_law_as_a_table(tmp_path: Path, contact_rate: float, sampled_by: SampledBy) -> None:
    counts = through_a_fleet(tmp_path, contact_rate, sampled_by)
    assert p_value(counts, PLAN.sampling_rate) > ALPHA
    assert p_value(counts, PLAN.sampling_rate * 1.2) < ALPHA  # the test can fail


@pytest.mark.slow
def test_devices_outside_a_filter_change_nothing_in_the_law(tmp_path: Path) -> None:
    reds = Filtered(NAMES, Where((Among("colour", ("red",)),)))
    counts = through_a_fleet(tmp_path / "filtered", 1.0, "device", reds, outside=5)
    assert p_value(counts, PLAN.sampling_rate) > ALPHA
    unfiltered = through_a_fleet(tmp_path / "all", 1.0, "device", outside=5)
    assert p_value(unfiltered, PLAN.sampling_rate) < ALPHA  # five more that count would be seen


def test_the_table_passes_the_same_test() -> None:
    counts = through_a_table()
    assert p_value(counts, PLAN.sampling_rate) > ALPHA
    assert p_value(counts, PLAN.sampling_rate * 1.2) < ALPHA
