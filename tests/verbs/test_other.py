"""What a histogram does not show: how many units are in no released bucket."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import thresher as th
from thresher.errors import InvalidFormat, InvalidSetting, NotReleased, VerificationFailed
from thresher.mechanism import Release, Response
from thresher.privacy.totals import total_interval
from thresher.protocol.rates import share
from thresher.questions import Values
from thresher.tables import Table
from thresher.tables.arrow_engine import ArrowEngine
from thresher.testing import SeededRandomness
from thresher.verbs import HistogramQuery
from thresher.verbs.drivers import replay

ALPHA = 1e-9  # false alarm per check
PLAN = th.plan(epsilon=1.0, delta=1e-8)
PEOPLE = ["fr"] * 5_000 + ["at"] * 2_000 + ["xx"] * 7 + [None] * 300


def test_the_rest_is_all_units_without_those_in_released_buckets():
    h = th.histogram(PEOPLE, "value", plan=PLAN)
    least, most = total_interval(h.release.rate, PLAN.threshold, h.release.counts, 0.95)
    assert h.other.units == len(PEOPLE)
    assert h.other.interval == (max(len(PEOPLE) - most, 0), len(PEOPLE) - least)
    assert h.other.estimate == pytest.approx(max(len(PEOPLE) - sum(h.release.estimates), 0))
    assert f"other: everything below the threshold or without a value: {h.other.estimate:,.0f} units" in str(h)
    assert h.other.in_words() in h._repr_html_()
    assert len(h.to_arrow()) == len(h)  # rows are buckets


def test_an_empty_release_leaves_everybody_out_for_sure():
    h = th.histogram(["a", "b", None], "value", plan=PLAN)
    assert (len(h), h.other.estimate, h.other.interval) == (0, 3, (3, 3))


def test_with_a_domain_the_rest_is_all_that_is_not_listed_and_released():
    h = th.histogram(PEOPLE, "value", plan=PLAN, domain=["at", "xx"])
    assert list(h.release.buckets) == ["at"]
    assert h.other.interval[0] > 4_500  # those of "fr" are not listed
    assert "not listed" in h.other.what


def test_units_outside_a_filter_are_in_the_rest():
    data = {"country": ["fr"] * 4_000 + ["at"] * 4_000, "age": [20, 70] * 4_000}
    import polars as pl

    h = th.histogram(pl.DataFrame(data), "country", plan=PLAN, where={"age": 20})
    assert h.other.units == 8_000
    assert h.other.interval[0] > 3_000
    assert "filtered out" in str(h)


@pytest.mark.parametrize("unit", [None, "user"])
def test_under_add_remove_nothing_is_counted_and_nothing_is_said(unit, monkeypatch):
    monkeypatch.setattr(ArrowEngine, "size", lambda *_: pytest.fail("it was counted"))
    if unit is None:
        with pytest.raises(pytest.fail.Exception):  # the test can fail
            th.histogram(["a"] * 5_000, "value", epsilon=1, delta=1e-8)
    people = pa.table({"value": ["a"] * 5_000, "user": range(5_000)})
    h = th.histogram(people, "value", unit=unit, epsilon=1, delta=1e-8, adjacency="add-remove")
    assert h.release.units is None and h.release.everyone is None
    assert json.loads(h.to_json())["other"] is None
    assert "units" not in json.loads(h.release.to_json())
    with pytest.raises(NotReleased, match="add-remove"):
        _ = h.other
    with pytest.raises(NotReleased, match="add-remove"):
        h.other_among(5_000)
    assert h.left_out is None
    assert str(h).endswith("other: everything below the threshold")


def test_a_release_under_add_remove_cannot_have_a_number_of_units():
    plan = th.plan(epsilon=1.0, delta=1e-8, adjacency="add-remove")
    with pytest.raises(InvalidSetting, match="replace-one"):
        Release.of(["a"], [500], plan, private=True, units=1_000)


@pytest.mark.slow
def test_where_a_unit_is_in_several_buckets_the_rest_is_refused():
    import polars as pl

    people = pl.DataFrame({"who": np.arange(8_000) // 2, "what": ["a", "b"] * 4_000})
    h = th.histogram(people, "what", unit="who", epsilon=1, delta=1e-8, contributions=2)
    assert h.release.units is None
    with pytest.raises(NotReleased, match="several buckets"):
        _ = h.other


def test_where_nobody_counted_units_their_number_can_be_given():
    import polars as pl

    h = th.histogram(pl.LazyFrame({"value": PEOPLE}), "value", plan=PLAN)
    with pytest.raises(NotReleased, match="not known of this table") as error:
        _ = h.other
    assert "other_among" in error.value.hint
    least, most = total_interval(h.release.rate, PLAN.threshold, h.release.counts, 0.95)
    assert h.other_among(len(PEOPLE)).interval == (max(len(PEOPLE) - most, 0), len(PEOPLE) - least)
    with pytest.raises(InvalidSetting, match="fewer"):
        h.other_among(100)
    with pytest.raises(InvalidSetting):
        h.other_among(-1)


def test_a_saved_answer_has_the_rest(tmp_path):
    h = th.histogram(PEOPLE, "value", plan=PLAN)
    h.save(tmp_path / "answer.json")
    again = th.load(tmp_path / "answer.json")
    assert again.other == h.other
    read = Release.from_json(h.release.to_json())
    assert read.units == len(PEOPLE)
    assert read.certificate()["units"] == len(PEOPLE)
    assert read.to_json() == h.release.to_json()
    assert read.verify().epsilon == 1.0


def test_releases_without_the_number_are_written_as_before():
    release = replace(th.histogram(PEOPLE, "value", plan=PLAN).release, units=None)
    content = json.loads(release.to_json())
    assert content["version"] == 3
    assert "units" not in content and "units" not in content["certificate"]
    assert Release.from_json(release.to_json()).units is None


def test_a_changed_number_of_units_is_found():
    release = th.histogram(PEOPLE, "value", plan=PLAN).release
    content = json.loads(release.to_json())
    for changed in ({"units": 9_000}, {"units": None}, {"units": True}, {"units": "9000"}, {"version": 3}):
        with pytest.raises((InvalidFormat, VerificationFailed)):
            Release.from_json(json.dumps(content | changed))
    with pytest.raises(VerificationFailed, match="units of the table"):
        replace(release, units=1_000).verify()


RATES, FLEET_PLAN = share(PLAN)


def of_a_fleet(response: Response, counts: dict[str, int], plan: th.Plan = FLEET_PLAN) -> th.verbs.Histogram:
    release = Release.of(list(counts), list(counts.values()), plan, private=True, response=response, columns=("c",))
    return replay(HistogramQuery(Values(("c",)), plan), [release])


def test_of_a_fleet_the_rest_is_of_the_devices_that_checked_in():
    h = of_a_fleet(Response(10_000, 10_000, 5_000, RATES), {"fr": 600, "at": 300})
    assert h.other.units == 10_000
    assert h.other.estimate == pytest.approx(10_000 - 900 / (FLEET_PLAN.sampling_rate / 2))
    assert h.other.interval[0] < h.other.estimate < h.other.interval[1]
    assert "or without a value: " in str(h) and " devices, " in str(h)
    assert json.loads(h.release.to_json())["version"] == 3  # the response has the number already


def test_of_a_fleet_that_did_not_complete_everybody_is_left_out():
    h = of_a_fleet(Response(100, 50, 0, RATES), {})
    assert (h.other.estimate, h.other.interval) == (100, (100, 100))


def test_of_a_fleet_under_add_remove_there_is_none():
    rates, plan = share(th.plan(epsilon=1.0, delta=1e-8, adjacency="add-remove"))
    h = of_a_fleet(Response(10_000, 10_000, 5_000, rates), {"fr": 600}, plan)
    with pytest.raises(NotReleased, match="add-remove"):
        _ = h.other


@pytest.mark.slow
def test_the_interval_contains_the_rest_as_often_as_it_says():
    """Whole queries on a table with common, middling and rare values; the control takes another number of units."""
    sizes = [900, 300, *[100] * 30, *[70] * 30, *[5] * 40]
    people = [f"v{index}" for index, size in enumerate(sizes) for _ in range(size)] + [None] * 2_000
    runs, inside, beside = 150, 0, 0
    with Table(people, randomness=SeededRandomness(1)) as table:  # read once; every query draws anew
        for _ in range(runs):
            h = th.histogram(table, "value", plan=PLAN)
            truth = len(people) - sum(sizes[int(bucket[1:])] for bucket in h.release.buckets)
            lower, upper = h.other.interval
            inside += lower <= truth <= upper
            beside += lower <= truth + 2_000 <= upper  # as if those without a value were counted twice
    assert stats.binom.cdf(inside, runs, 0.95) > ALPHA
    assert stats.binom.cdf(beside, runs, 0.95) < ALPHA  # the test can fail
