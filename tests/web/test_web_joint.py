"""Browsers and Python devices in one round: everybody is counted once, by the law of one kind of device."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from chromium import chromium_profile
from page_steps import opened
from scipy import stats
from web_fleet import PLAN, web_fleet

import thresher as th
from thresher.simulator.population import Column, Population
from thresher.simulator.simulation import Simulation, simulate

pytestmark = pytest.mark.slow  # thousands of devices

ALPHA = 1e-9  # false alarm per check
PAGES, EACH, PYTHON = 4, 50, 5_000
BROWSERS = PAGES * EACH

MAKE = """async ([server, enrolmentKey, first, each]) => {
  const { Device, IndexedDBState } = await import("./device.js");
  globalThis.devices = Array.from({ length: each }, (_, i) => new Device(server, {
    enrolmentKey, attributes: { kind: "browser", all: "everybody" }, state: new IndexedDBState(`device ${first + i}`),
  }));
  await Promise.all(devices.map((device) => device.enrol()));
}"""
VISIT = """async () => {
  const outcomes = await Promise.all(devices.map((device) => device.visit()));
  return outcomes.map((each) => each.filter(({ status }) => status === "taken").length);
}"""
TOKENS = """async () => {
  const open = indexedDB.open("thresher-device");
  await new Promise((resolve) => (open.onsuccess = resolve));
  const all = open.result.transaction("states").objectStore("states").getAll();
  await new Promise((resolve) => (all.onsuccess = resolve));
  return all.result.map((text) => JSON.parse(text).token);
}"""


def p_value(heads: int, number: int, rate: float) -> float:
    return float(stats.binomtest(heads, number, rate).pvalue)


def test_the_check_can_fail() -> None:
    """Coins that always or never fall on heads are found among 200 browsers, and a tenth too much among 5,200."""
    rate = PLAN.sampling_rate
    assert p_value(BROWSERS, BROWSERS, rate) < ALPHA
    assert p_value(0, BROWSERS, rate) < ALPHA
    assert p_value(round(BROWSERS * rate), BROWSERS, 2 * rate) < ALPHA
    both = BROWSERS + PYTHON
    assert p_value(round(both * rate * 1.15), both, rate) < ALPHA
    assert p_value(round(both * rate), both, rate) > 0.1


def test_browsers_and_python_devices_in_one_round(chromium, tmp_path) -> None:
    both = BROWSERS + PYTHON
    with web_fleet(tmp_path) as fleet:
        profiles = [chromium_profile(chromium) for _ in range(PAGES)]
        tabs = [opened(profile, fleet.page) for profile in profiles]
        for number, tab in enumerate(tabs):
            tab.page.evaluate(MAKE, [fleet.server.url, fleet.server.enrolment_key, number * EACH, EACH])
        tokens = [token for tab in tabs for token in tab.evaluate(TOKENS)]
        assert len(set(tokens)) == BROWSERS

        held = {"kind": _held("python"), "all": _held("everybody")}
        simulation = Simulation(fleet.server.url, fleet.server.enrolment_key, Population(held))
        stop = threading.Event()
        living = threading.Thread(target=simulate, args=(simulation, None), kwargs={"stop": stop}, daemon=True)
        living.start()
        try:
            rounds = {"completions": both}
            thrown = fleet.ask("kind", sampled_by="device", **rounds)
            counted = fleet.ask("all", sampled_by="aggregator", **rounds)
            taken = [number for tab in tabs for number in tab.evaluate(VISIT)]
            assert taken == [2] * BROWSERS
            by_device, by_aggregator = thrown.result(timeout=120), counted.result(timeout=120)
        finally:
            stop.set()
            living.join(60)
        for handle in (thrown, counted):
            assert handle.status().rounds[0].completed == both
        rate = PLAN.sampling_rate
        # With device coins the aggregator counts what it gets: the heads of each kind of device.
        heads = _counts(by_device)
        assert p_value(heads["browser"], BROWSERS, rate) > ALPHA
        assert p_value(heads["python"], PYTHON, rate) > ALPHA
        assert p_value(_counts(by_aggregator)["everybody"], both, rate) > ALPHA
        # Nobody is asked again.
        assert [number for tab in tabs for number in tab.evaluate(VISIT)] == [0] * BROWSERS
        for profile in profiles:
            profile.close()


def _held(value: str) -> Column:
    return Column((value,), np.zeros(PYTHON, dtype=np.int32))


def _counts(answer: th.Histogram) -> dict[str, int]:
    return {next(iter(row.values())): row["count"] for row in answer.to_arrow().to_pylist()}
