"""Means on fleets: devices round at random, and the answer's interval holds the truth."""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import Any

import pytest
import typer
from device_cases import ALWAYS, Tosses, configuration, device, opened, sealed, shown, take
from scipy import stats
from typer.testing import CliRunner

from thresher.cli import devices
from thresher.protocol.plaintext import DECOY, fleet_bucket
from thresher.questions import Joint, Points, Values
from thresher.simulator.local_server import local_server

ALPHA = 1e-9  # false alarm per check
POINTS = Points("x", (0.0, 1.0, 4.0))
DEVICES = 400


def answer(question: Any, holds: dict[str, Any], randomness: Any = os.urandom) -> Any:
    """What a device that is always sampled says."""
    asked = configuration(question=question, **ALWAYS)
    core = device(holds, randomness=randomness)
    take(core, shown(asked))
    return opened(sealed(core), asked)


@pytest.mark.slow
def test_devices_round_at_random() -> None:
    """Two points of three quarters and one quarter: rounding to the nearest would always say 1."""
    found = Counter(answer(POINTS, {"x": 1.75}) for _ in range(DEVICES))
    assert set(found) == {1.0, 4.0}
    assert stats.binomtest(found[4.0], DEVICES, 0.25).pvalue > ALPHA
    assert stats.binomtest(found[4.0], DEVICES, 0.5).pvalue < ALPHA  # the test can fail
    assert stats.binomtest(0, DEVICES, 0.25).pvalue < ALPHA  # as it does for rounding to the nearest


def test_devices_clip_and_keep_what_is_at_a_point() -> None:
    held = {-5: 0.0, 0: 0.0, 1: 1.0, 4: 4.0, 1e9: 4.0}
    assert {value: answer(POINTS, {"x": value}) for value in held} == held


@pytest.mark.parametrize("held", [{}, {"x": None}, {"x": "text"}, {"x": float("nan")}, {"x": True}, {"x": [1.5, 2.5]}])
def test_as_many_bits_are_drawn_whatever_is_held(held: dict[str, Any]) -> None:
    usual, tosses = Tosses(), Tosses()
    answer(POINTS, {"x": 1.75}, usual)
    said = answer(POINTS, held, tosses)
    assert tosses.drawn == usual.drawn > 0
    assert (said is DECOY) == (not isinstance(held.get("x"), list))


def test_a_group_and_a_point_are_one_bucket() -> None:
    question = Joint((Values(("os",)), POINTS))
    assert answer(question, {"os": "linux", "x": 4}) == ("linux", 4.0)
    assert fleet_bucket(question, ("linux", 0.5), 0.25) == ("linux", 1.0)
    assert fleet_bucket(question, ("linux", 0.5), 0.75) == ("linux", 0.0)
    assert fleet_bucket(question, ("linux", 0.5)) is None  # without a draw there is no bucket


@pytest.mark.slow
def test_a_mean_beside_the_truth() -> None:
    """Real devices over HTTP against a real server. The interval holds with 95 %: three times its width always does.

    Three intervals wide is more than five standard errors on each side, a false alarm in a million.
    """
    app = typer.Typer()
    app.command("simulate")(devices.simulate)
    with local_server("--budget-epsilon", "100", "--budget-delta", "1e-3") as server:
        arguments = ["--server", server.url, "--enrolment-key", server.enrolment_key]
        arguments += ["--analyst-key", server.analyst_key, "--devices", "1500", "--verb", "mean", "--delta", "1e-6"]
        done = CliRunner().invoke(app, [*arguments, "--seconds", "600", "--json"])
    assert done.exit_code == 0, (done.output, done.exception)
    lines = {line["what"]: line for line in json.loads(done.stdout)["comparison"]["lines"]}
    mean = lines["mean"]
    width = mean["upper"] - mean["lower"]
    assert width > 0
    assert mean["lower"] - width < mean["truth"] < mean["upper"] + width
    assert lines["sum"]["lower"] / 2 < lines["sum"]["truth"] < lines["sum"]["upper"] * 2
