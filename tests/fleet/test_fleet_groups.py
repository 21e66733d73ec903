"""Groups on a real fleet: devices answer with their group and cell in one report, and an answer comes back by group."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import thresher as th
from thresher.simulator.local_server import local_server
from thresher.simulator.population import Column, Population
from thresher.simulator.simulation import Simulation, simulate
from thresher.verbs import Grouped

DEVICES = 900
TARGET = {"epsilon": 4.0, "delta": 2e-8}


def holders() -> tuple[Column, Column]:
    """Versions of which one is rare, and whole milliseconds: version 2.0 is 30 slower."""
    random = np.random.default_rng(5)
    versions = random.choice(2, DEVICES, p=[0.5, 0.5])
    versions[:2] = 2
    times = np.clip(random.normal(20, 4, DEVICES) + 30 * (versions == 1), 0, 63).astype(np.int32)
    return Column(("1.0", "2.0", "canary"), versions.astype(np.int32)), Column(tuple(range(64)), times)


@pytest.mark.slow
def test_quantiles_by_version_of_real_devices():
    versions, times = holders()
    with local_server() as server, th.Fleet(server.url, key=server.analyst_key) as fleet:
        simulation = Simulation(server.url, server.enrolment_key, Population({"version": versions, "ms": times}))

        def ask() -> tuple[Grouped, Grouped, Grouped]:
            asked = fleet.with_rounds(completions=simulation.completions, seconds=120)
            settings = {"lower": 0, "upper": 64, "levels": 2, **TARGET}
            one = th.quantiles(asked, "ms", [0.5], by="version", method="hierarchy", **settings)
            listed = th.ranges(asked, "ms", by=["version"], groups=["2.0", "canary"], **settings)
            return one, listed, th.mean(asked, "ms", by="version", lower=0, upper=64, points=3, **TARGET)

        found, listed, means = simulate(simulation, ask, stop=threading.Event())
    assert found.groups == ("1.0", "2.0")
    for group, held in (("1.0", 0), ("2.0", 1)):
        true = float(np.quantile(times.held[versions.held == held], 0.5, method="inverted_cdf"))
        low, high = found[group][0.5].interval
        assert low - 8 <= true <= high + 8  # two cells more than the interval, which is for 95 %
        assert found[group].stands_for is not None
    assert found.verify() == found.guarantee
    assert "canary" not in found.to_json()
    assert (listed.groups, listed.missing) == (("2.0",), ("canary",))
    assert means.groups == ("1.0", "2.0")
    for group, held in (("1.0", 0), ("2.0", 1)):
        low, high = means[group].interval
        assert (
            low - 5 <= times.held[versions.held == held].mean() <= high + 5
        )  # more room than the 95 % of the interval
    assert listed.query.to_dict()["by"] == ["version"]
