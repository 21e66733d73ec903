"""The longest way from people to a release: real devices, real HTTP, a real server."""

from __future__ import annotations

import threading

import numpy as np

from thresher.analytics.queries import HistogramQuery
from thresher.errors import InvalidSetting, VerificationFailed
from thresher.fleet.client import Fleet
from thresher.fleet.policy import Policy
from thresher.fleet.simulator.local_server import local_server
from thresher.fleet.simulator.population import Column
from thresher.fleet.simulator.population import Population as Devices
from thresher.fleet.simulator.running import Simulation, simulate
from thresher.lab.audit.neighbours import ABSENT, Pair, Population, worst_pair
from thresher.lab.audit.paths import Observed, require_only_rows
from thresher.mechanism import Release
from thresher.privacy.plans import Plan
from thresher.questions import Values

_ATTRIBUTE = "held"
_ALL = 0.999999  # what is audited is weak on purpose, and a server's budget is below 1
_POLICY = Policy(max_epsilon=100, max_delta=_ALL, period_epsilon=100, period_delta=_ALL, min_threshold=1)


class FromFleet:
    """`thresher serve` on loopback, a device for every unit of every copy, and one query for all copies.

    Draws are made `draws` at a time and handed out once each. Every lot has a server of its own, with devices of its
    own: a budget would not allow a second lot.
    """

    def __init__(self, draws: int) -> None:
        self._draws = draws
        self._lots: dict[Population, Observed] = {}

    def pairs(self, plan: Plan) -> list[Pair]:
        """The one pair that theory names: trying others costs a device for every unit."""
        if plan.adjacency != "replace" or plan.rounds != 1:
            raise InvalidSetting(
                "path", "'fleet' audits one round under adjacency='replace'", hint="Other paths audit the rest."
            )
        return [worst_pair(plan)]

    def __call__(self, population: Population, trials: int, plan: Plan) -> Observed:
        """Draws nobody has seen yet."""
        kept = self._lots.get(population)
        while kept is None or len(kept) < trials:
            fresh = _lot(population, max(self._draws, trials), plan)
            kept = fresh if kept is None else np.concatenate([kept, fresh])
        self._lots[population] = kept[trials:]
        return kept[:trials]


def _lot(population: Population, copies: int, plan: Plan) -> Observed:
    [answers] = population.answers
    held = np.array([bucket for bucket in answers if bucket != ABSENT], dtype=np.int32)
    buckets = (np.arange(copies, dtype=np.int32)[:, None] * population.buckets + held).ravel()
    names = tuple(str(bucket) for bucket in range(copies * population.buckets))
    devices = Devices({_ATTRIBUTE: Column(names, buckets)})
    with local_server("--budget-epsilon", "100", "--budget-delta", str(_ALL), "--no-console") as server:
        simulation = Simulation(server.url, server.enrolment_key, devices, policy=_POLICY)

        def ask() -> list[Release]:
            with Fleet(server.url, server.analyst_key) as fleet:
                rounds = fleet.with_rounds(completions=len(buckets), seconds=3600, bucket_size=48)
                handle = rounds.submit(HistogramQuery(Values((_ATTRIBUTE,)), plan), wait=False)
                handle.wait()
                return list(handle.releases())

        releases = simulate(simulation, ask, stop=threading.Event())
    if releases is None or len(releases) != 1:
        raise VerificationFailed("The fleet did not give one release for one round.")
    return _observed(releases[0], population, copies, len(buckets))


def _observed(release: Release, population: Population, copies: int, devices: int) -> Observed:
    """What the release shows; beside its rows, only that every device took part."""
    require_only_rows(release)
    response = release.response
    if response is None or (response.asked, response.contacted, response.completed) != (devices,) * 3:
        raise VerificationFailed("A release states other numbers of devices than took part.")
    observed = np.zeros(copies * population.buckets, dtype=np.int64)
    observed[np.array([int(bucket) for bucket in release.buckets], dtype=np.int64)] = release.counts
    return observed.reshape(copies, population.buckets)
