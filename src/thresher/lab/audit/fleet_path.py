"""The longest way from people to a release: real devices, real HTTP, a real server."""

from __future__ import annotations

import os
import threading

import numpy as np

from thresher.client.fleet import Fleet
from thresher.errors import VerificationFailed
from thresher.lab.audit.injected_path import ANY
from thresher.lab.audit.lots import DrawnInLots
from thresher.lab.audit.neighbours import ABSENT, Pair, Population, worst_pair
from thresher.lab.audit.paths import FLEET, Observed, observed
from thresher.lab.audit.several_values import worst_several
from thresher.mechanism import Release
from thresher.privacy.plans import Plan
from thresher.protocol.rates import SAMPLED_BY, SampledBy
from thresher.questions import Values
from thresher.simulator.local_server import local_server
from thresher.simulator.population import Column, ListColumn
from thresher.simulator.population import Population as Devices
from thresher.simulator.simulation import Simulation, simulate
from thresher.verbs import HistogramQuery

_ATTRIBUTE = "held"
_ALL = 0.999999  # what is audited is weak on purpose, and a server's budget is below 1


class FromFleet(DrawnInLots):
    """`thresher serve` on loopback, a device for every unit of every copy, and one query for all copies.

    Every lot has a server of its own, with devices of its own: a budget would not allow a second lot.

    With `injected`, all units but the last of a copy are an attacker's devices, which skip their coins if it is devices
    that toss (`sampled_by`); the aggregator's coins they cannot skip.
    """

    path = FLEET
    several_values = True

    def __init__(self, draws: int, sampled_by: SampledBy = SAMPLED_BY, *, injected: bool = False) -> None:
        super().__init__(draws)
        self._sampled_by: SampledBy = sampled_by
        self._injected = injected

    def _pairs(self, plan: Plan) -> list[Pair]:
        """The one pair that theory names: trying others costs a device for every unit."""
        return [worst_several(plan) if plan.contributions > 1 else worst_pair(plan)]

    def _lot(self, population: Population, copies: int, plan: Plan) -> Observed:
        devices = Devices({_ATTRIBUTE: _column(population, copies)})
        of_a_copy = devices.devices // copies
        with local_server(
            "--budget-composition", "sum", "--budget-epsilon", "100", "--budget-delta", str(_ALL), "--no-console"
        ) as server:
            simulation = Simulation(
                server.url,
                server.enrolment_key,
                devices,
                policy=ANY,
                randomness=lambda device: bytes if self._injected and (device + 1) % of_a_copy else os.urandom,
            )

            def ask() -> list[Release]:
                with Fleet(server.url, server.analyst_key) as fleet:
                    rounds = fleet.with_rounds(
                        completions=devices.devices, seconds=3600, bucket_size=48, sampled_by=self._sampled_by
                    )
                    handle = rounds.submit(HistogramQuery(Values((_ATTRIBUTE,)), plan), wait=False, warn=False)
                    handle.wait()
                    return list(handle.releases())

            releases = simulate(simulation, ask, stop=threading.Event())
        if releases is None or len(releases) != 1:
            raise VerificationFailed("The fleet did not give one release for one round.")
        response = releases[0].response
        if response is None or (response.asked, response.contacted, response.completed) != (devices.devices,) * 3:
            raise VerificationFailed("A release states other numbers of devices than took part.")
        return observed(releases[0], population, copies)


def _column(population: Population, copies: int) -> Column | ListColumn:
    """What the devices of all copies hold: a value, or a list of values where units hold several.

    Each copy's buckets are its own. A unit without a value has no device.
    """
    [answers] = population.answers
    names = tuple(str(bucket) for bucket in range(copies * population.buckets))
    first = np.arange(copies, dtype=np.int32) * population.buckets
    if population.holders is None:
        held = np.array([bucket for bucket in answers if bucket != ABSENT], dtype=np.int32)
        return Column(names, (first[:, None] + held).ravel())
    lists: list[list[int]] = [[] for _ in range(population.units)]
    for holder, bucket in zip(population.holders, answers, strict=True):
        lists[holder].append(bucket)
    most = max(map(len, lists))
    rows = np.array([row + [ABSENT] * (most - len(row)) for row in lists], dtype=np.int32)
    return ListColumn(names, np.where(rows == ABSENT, rows, first[:, None, None] + rows).reshape(-1, most))
