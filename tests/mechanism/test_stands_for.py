"""For whom a number stands: everybody in a table, and of a fleet those that checked in while the round was open."""

import json

import pyarrow as pa
import pytest

import thresher as th
from thresher.mechanism import Release, Response
from thresher.mechanism.response import stands_for
from thresher.privacy.rates import ONE, Rates
from thresher.questions import Values
from thresher.verbs import HeavyHittersQuery, HistogramQuery, QuantilesQuery, RangesQuery
from thresher.verbs.drivers import replay

ONE_ROUND, TWO = th.plan(1, 1e-8), th.plan(1, 1e-8, rounds=2)
WHOM = "the 512 devices that checked in while the round was open, from the 500 of them that completed it"

SEVERAL = (
    "the 600 devices that checked in while the round with the most devices was open, "
    "from the 500 devices that completed each round"
)


def release(plan, column="word", values=("a",), asked=512):
    rates = Rates(ONE, ONE, round(plan.sampling_rate * ONE))
    table = pa.table({column: list(values)})
    response = Response(asked, asked, 500, rates)
    return Release.of(table, [plan.threshold] * len(values), plan, private=True, columns=(column,), response=response)


def answers():
    yield replay(HistogramQuery(Values(("word",)), ONE_ROUND), [release(ONE_ROUND)])
    yield replay(HeavyHittersQuery("word", ONE_ROUND), [release(ONE_ROUND)])
    cells = [release(TWO, "x", [1]), release(TWO, "x", [5], asked=600)]
    yield replay(RangesQuery("x", TWO, 0.0, 100.0), cells)
    yield replay(QuantilesQuery("x", (0.5,), TWO, 0.0, 100.0, "hierarchy"), cells)


@pytest.mark.slow
@pytest.mark.parametrize("answer", list(answers()), ids=lambda answer: type(answer).__name__)
def test_answers_of_a_fleet_say_it(answer):
    several = len(getattr(answer, "releases", ())) > 1
    whom = SEVERAL if several else WHOM
    assert answer.stands_for == whom
    picture = json.dumps(answer.plot().to_dict()).replace('", "', " ")  # long lines are wrapped
    assert f"Numbers stand for {whom}." in picture
    assert "devices that checked in" in picture.replace(whom, "")  # the axis or the note says so too
    assert "all units" not in picture


@pytest.mark.slow
def test_a_table_stands_for_everybody():
    answer = th.ranges([1.0] * 3000, "value", lower=0, upper=10, plan=TWO)
    assert answer.stands_for is None
    picture = json.dumps(answer.plot().to_dict())
    assert "all units" in picture
    assert "stand for" not in picture
    assert stands_for([None]) is None


def test_a_release_in_a_notebook_says_it():
    assert WHOM in release(ONE_ROUND)._repr_html_()
