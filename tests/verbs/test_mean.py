"""Means: what is computed from released points, at every confidence, and what is refused."""

from __future__ import annotations

import datetime as dt
import json
import math

import numpy as np
import pytest

import thresher as th
from thresher.errors import InvalidSetting
from thresher.mechanism import Release, Response
from thresher.protocol.rates import share
from thresher.questions import Joint, Points, Values, from_dict
from thresher.verbs import HistogramQuery, Mean, MeanQuery, OverTime, Rule, query_from_dict
from thresher.verbs.averages import average
from thresher.verbs.drivers import replay

PLAN = th.plan(epsilon=1, delta=1e-8)
QUERY = MeanQuery("x", PLAN, (0.0, 10.0, 20.0, 100.0))


def released(counts: dict[float, int], response: Response | None = None) -> Mean:
    release = Release.of(
        np.array(list(counts), dtype=np.float64),
        list(counts.values()),
        PLAN,
        private=True,
        columns=("x",),
        response=response,
    )
    return replay(QUERY, [release])


def test_the_mean_and_the_sum_are_those_of_the_points() -> None:
    found = released({0.0: 100, 10.0: 200, 20.0: 100})
    assert found.mean == found.estimate == pytest.approx(10)
    assert found.sum == pytest.approx(4000 / PLAN.sampling_rate)
    assert found.interval[0] < 10 < found.interval[1]
    assert found.sum_interval[0] < found.sum < found.sum_interval[1]
    assert found.below_threshold == [100.0]


def test_the_threshold_part_knows_where_hidden_points_are() -> None:
    found = released({0.0: 100, 10.0: 200, 20.0: 100})
    hidden = PLAN.threshold - 1
    assert found.error.threshold == pytest.approx((4000 + 100 * hidden) / (400 + hidden) - 10)
    assert found.interval[1] - 10 > found.error.threshold
    assert 10 - found.interval[0] < 2  # nothing is hidden below
    assert found.error.bound == pytest.approx(found.interval[1] - 10)
    everything = released({0.0: 100, 10.0: 200, 20.0: 100, 100.0: 50})
    assert everything.error.threshold == 0
    assert everything.error.sampling > 0 and everything.error.rounding > 0


def test_nothing_released_is_not_known() -> None:
    found = released({})
    assert math.isnan(found.mean) and math.isnan(found.sum)
    assert found.interval == (0.0, 100.0)
    assert found.sum_interval[0] == 0 and math.isfinite(found.sum_interval[1])
    assert found.empty and found.below_threshold == list(QUERY.points)
    assert [row["value"] for row in json.loads(found.to_json())["rows"]] == [None, None]
    assert "not known" in str(found)
    assert found.shown().rows[0][1] is None


def test_a_round_that_nobody_completed_bounds_no_sum() -> None:
    nobody = average(QUERY.points, {}, threshold=25, rate=None)
    assert nobody.sum_interval == (-math.inf, math.inf)
    assert not nobody.known


def test_values_outside_the_bounds_are_clipped() -> None:
    data = [-1e9] * 2000 + [1e9] * 2000
    found = th.mean(data, "value", lower=0, upper=10, points=2, plan=PLAN)
    assert abs(found.mean - 5) < 10 * 5 / math.sqrt(4000 * PLAN.sampling_rate) < 2  # ten standard errors
    assert found.interval[1] - found.interval[0] < 2


def test_a_table_and_its_file(tmp_path) -> None:
    data = np.random.default_rng(1).normal(40, 12, 50_000)
    found = th.mean(data, "value", lower=0, upper=100, plan=PLAN)
    wide = found.interval[1] - found.interval[0]
    assert found.interval[0] - wide < data.mean() < found.interval[1] + wide
    found.save(tmp_path / "mean.json")
    again = th.load(tmp_path / "mean.json")
    assert isinstance(again, Mean)
    assert again.average == found.average
    assert again.query == found.query
    assert found.to_arrow()["statistic"].to_pylist() == ["mean", "sum"]
    assert found.verify() == found.guarantee
    assert f"{found.mean:.6g}" in repr(found)
    assert "bias" in found._repr_html_()


def test_the_wire_form() -> None:
    question = Joint((Values(("os",)), Points("x", (0, 1, 4))))
    assert from_dict(json.loads(json.dumps(question.to_dict()))) == question
    assert query_from_dict(json.loads(json.dumps(QUERY.to_dict()))) == QUERY
    assert QUERY.settings()["points"] == [0.0, 10.0, 20.0, 100.0]
    assert MeanQuery("x", PLAN, (0, 5, 10)).settings()["points"] == 3


@pytest.mark.parametrize("points", [(1.0,), (0, 0), (2, 1), (0, math.nan), (0, math.inf), "01", (-1.7e308, 1.7e308)])
def test_points_that_cannot_be(points) -> None:
    with pytest.raises(InvalidSetting, match="points"):
        Points("x", points)


def test_what_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="rounds"):
        MeanQuery("x", th.plan(1, 1e-8, rounds=2), (0, 1))
    with pytest.raises(InvalidSetting, match="more than once"):
        Joint((Points("x", (0, 1)), Points("y", (0, 1))))
    with pytest.raises(InvalidSetting, match="question"):
        HistogramQuery(Points("x", (0, 1)), PLAN)
    with pytest.raises(TypeError, match="draw"):
        Points("x", (0, 1)).bucket(0.5)


def test_a_series_of_means_changes_and_alerts() -> None:
    days = [dt.datetime(2026, 1, day, tzinfo=dt.UTC) for day in (1, 2)]
    low = released({0.0: 4000, 10.0: 2000, 20.0: 400, 100.0: 30})
    high = released({0.0: 400, 10.0: 2000, 20.0: 4000, 100.0: 30})
    over_time = OverTime(list(zip(days, (low, high), strict=True)))
    (change,) = list(over_time.changes())
    assert change.bucket == "mean"
    assert change.changed
    assert change.interval[0] < high.mean - low.mean < change.interval[1]
    alert = Rule("above", 12.0, "mean").judge(over_time)
    assert alert is not None and "mean is above 12" in alert.text
    assert Rule("above", 19.0, "mean").judge(over_time) is None
    wider = low.readings(0.999).rows[0]
    assert wider.lower < low.interval[0] and wider.upper > low.interval[1]


def test_a_fleet_counts_by_the_rate_that_answered() -> None:
    response = Response(10_000, 10_000, 5_000, share(PLAN, 1.0, "aggregator")[0])
    found = released({0.0: 100, 10.0: 200, 20.0: 100, 100.0: 50}, response)
    assert found.sum == pytest.approx(9000 / found.release.rate)
    assert found.release.rate < PLAN.sampling_rate


@pytest.mark.slow
@pytest.mark.parametrize("counts", [{0.0: 100, 10.0: 200}, {}])
def test_a_picture(tmp_path, counts) -> None:
    released(counts).plot(tmp_path / "mean.svg")
    picture = (tmp_path / "mean.svg").read_text()
    assert "Mean of x" in picture
    assert ("nothing reached" in picture) == (not counts)
