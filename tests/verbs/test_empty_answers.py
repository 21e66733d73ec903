"""An answer without anything in it says what size would have been seen. That follows from the plan alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import thresher as th
from thresher.privacy import DEVICE

PLAN = th.plan(1, 1e-8)
FEW = pa.table({"x": [*range(20)], "g": ["canary"] * 20})
ASKED: dict[str, Any] = {
    "histogram": lambda data, **more: th.histogram(data, "x", plan=PLAN, **more),
    "heavy_hitters": lambda data, **more: th.heavy_hitters(data, "g", plan=PLAN, **more),
    "quantiles": lambda data, **more: th.quantiles(data, "x", 0.5, lower=0, upper=64, plan=PLAN, **more),
    "ranges": lambda data, **more: th.ranges(data, "x", lower=0, upper=64, plan=PLAN, **more),
    "mean": lambda data, **more: th.mean(data, "x", lower=0, upper=64, plan=PLAN, **more),
}
WORDS = {"mean": "A point that {} are rounded to", "quantiles": "A cell with {}", "ranges": "A cell with {}"}


def seen(verb: str, units: str) -> str:
    return WORDS.get(verb, "A value held by {}").format(f"{PLAN.smallest_visible()} {units}")


@pytest.mark.slow
@pytest.mark.parametrize("verb", ASKED)
def test_every_verb_says_what_would_have_been_seen(verb: str) -> None:
    # 20 units are fewer than the threshold: nothing can be released.
    assert PLAN.threshold > 20
    answer = ASKED[verb](FEW)
    for text in (str(answer), repr(answer)):
        assert "Nothing was released." in text
        assert f"{seen(verb, 'rows')} would have been seen with a probability of 95 %" in text
        assert f"one of {PLAN.smallest_visible(0.5)} with 50 %" in text
        assert "canary" not in text
    assert "show_data_errors=True" in repr(answer)
    assert repr(answer) == repr(ASKED[verb](FEW.slice(0, 1)))
    assert f"{seen(verb, 'units')} would" in str(ASKED[verb](FEW, unit="x" if verb == "heavy_hitters" else "g"))


@pytest.mark.parametrize("verb", ["quantiles", "ranges", "mean"])
def test_groups(verb: str) -> None:
    for more in ({}, {"groups": ["a"]}):
        answer = ASKED[verb](FEW, by="g", **more)
        assert f"{seen(verb, 'rows of one group')} would have been seen" in repr(answer)


def test_devices() -> None:
    answer = ASKED["histogram"](FEW)
    (release,) = answer.releases
    of_a_fleet = replace(answer, releases=(replace(release, unit=DEVICE),))
    assert f"{seen('histogram', 'devices')} would have been seen" in repr(of_a_fleet)
    assert "show_data_errors" not in repr(of_a_fleet)  # nobody holds that data


@pytest.mark.slow
def test_rounds() -> None:
    plan = th.plan(1, 1e-8, rounds=3)
    answer = th.ranges(FEW, "x", lower=0, upper=64, plan=plan)
    assert f"{plan.smallest_visible()} rows would have been seen with a probability of 95 % in each round" in repr(
        answer
    )


def test_an_answer_that_has_something_says_nothing_of_it() -> None:
    # 2,000 units are below the threshold with a probability far below 1e-9.
    answer = th.histogram(["a"] * 2_000, "value", plan=PLAN)
    assert answer.nothing_in_words() == ""
    assert "would have been seen" not in f"{answer} {answer!r}"
