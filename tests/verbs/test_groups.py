"""Quantiles and ranges by group: one query, one price, each group as if it had been asked alone."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from in_memory_people import CountsPopulation
from scipy import stats

import thresher as th
from thresher.errors import InvalidFormat, InvalidSetting, NotReleased
from thresher.privacy.plans import Plan
from thresher.questions import Cells, Joint, Points, Values
from thresher.tables import Table
from thresher.verbs import (
    Grouped,
    HistogramQuery,
    Mean,
    Quantiles,
    QuantilesQuery,
    Ranges,
    RangesQuery,
    query_from_dict,
)
from thresher.verbs.drivers import first_questions, replay

ALPHA = 1e-9  # false alarm of each statistical check
THREE = th.plan(1, 1e-6, rounds=3)
BOUNDS = {"lower": 0, "upper": 64}
BY = {"method": "hierarchy", "plan": THREE, **BOUNDS}
DAY, NEXT = dt.datetime(2026, 1, 1, tzinfo=dt.UTC), dt.datetime(2026, 1, 2, tzinfo=dt.UTC)


def people(number: int = 30_000) -> pa.Table:
    """Versions 1.9 and 1.10 of two systems, whose times differ by 20; three people have a version of their own."""
    random = np.random.default_rng(3)
    versions = random.choice(["1.9", "1.10"], number).tolist()
    systems = random.choice(["linux", "mac"], number).tolist()
    times = random.normal(20, 4, number) + 20 * (np.array(versions) == "1.10")
    versions[:3] = ["secret"] * 3
    return pa.table({"version": versions, "os": systems, "ms": np.round(times, 1)})


@pytest.fixture(scope="module")
def frame() -> pa.Table:
    return people()


@pytest.fixture(scope="module")
def found(frame) -> Grouped[Quantiles]:
    return th.quantiles(frame, "ms", [0.5, 0.9], by="version", **BY)


def test_each_group_has_its_own_quantiles(found):
    assert isinstance(found, Grouped)
    assert found.groups == found.keys() == tuple(found) == ("1.9", "1.10")  # numbers in a version count as numbers
    assert len(found) == 2
    for group, median in (("1.9", 20), ("1.10", 40)):
        assert isinstance(found[group], Quantiles)
        low, high = found[group][0.5].interval
        assert low - 1 <= median <= high + 1  # a cell more than the interval, which is for 95 %
        assert high - low < 8
    assert [group for group, _ in found.items()] == ["1.9", "1.10"]
    assert found.values()[0] is found["1.9"]


def test_a_group_that_was_not_released_is_missing_and_nothing_tells_why(found):
    assert "secret" not in found
    assert found.missing == ()
    errors = []
    for group in ("secret", "nobody"):
        with pytest.raises(NotReleased) as caught:
            found[group]
        errors.append(str(caught.value))
    assert errors[0] == errors[1]
    assert "below the threshold, or nobody is in it" in errors[0]
    assert "secret" not in found.to_json() + repr(found) + str(found.shown())


@pytest.mark.slow
def test_the_price_is_that_of_the_query_without_groups(frame, found, tmp_path):
    alone = th.quantiles(frame, "ms", [0.5, 0.9], **BY)
    assert found.plan == alone.plan
    assert found.guarantee == alone.guarantee == found.verify()
    assert found.promise() == alone.promise()
    spent = []
    for by in (None, "version", ["version", "os"]):
        ledger = th.Ledger(tmp_path / f"{by}.db", epsilon=3, delta=1e-4)
        th.ranges(frame, "ms", by=by, plan=THREE, ledger=ledger, **BOUNDS)
        spent.append((ledger.budget.spent_epsilon, ledger.budget.spent_delta, len(ledger.history())))
    assert spent[0] == spent[1] == spent[2]
    assert first_questions(found.query) == tuple(
        Joint((Values(("version",)), Cells("ms", 0, 64, 4**level))) for level in (1, 2, 3)
    )


def test_a_unit_is_in_one_bucket_of_one_group(frame, found):
    """So are all its rows: with a unit column one row is chosen, for group and number together."""
    table = Table(frame)
    for question in first_questions(found.query):
        _, counts = table._tally(question)
        assert counts.sum() == len(frame)
    owned = frame.append_column("owner", pa.array(np.arange(len(frame)) % 1000))
    with Table(owned, "owner") as table:
        tallies = [table._tally(question) for question in first_questions(found.query)]
        assert [int(counts.sum()) for _, counts in tallies] == [1000] * 3
        in_groups = [_by_group(*tally) for tally in tallies]
        assert in_groups[0] == in_groups[1] == in_groups[2]  # each level sees the same row of a unit


def _by_group(buckets: pa.Table, counts: np.ndarray) -> Counter[str]:
    sums: Counter[str] = Counter()
    for group, count in zip(buckets["version"].to_pylist(), counts.tolist(), strict=True):
        sums[group] += count
    return sums


def test_two_columns_make_pairs(frame):
    both = th.ranges(frame, "ms", by=["version", "os"], plan=THREE, **BOUNDS)
    assert both.groups == (("1.9", "linux"), ("1.9", "mac"), ("1.10", "linux"), ("1.10", "mac"))
    assert isinstance(both["1.9", "mac"], Ranges)
    assert ["1.9", "mac"] in both
    true = int(np.count_nonzero(np.array(frame["version"].to_pylist()) == "1.10")) / 2
    low, high = both["1.10", "mac"].count(0, 64).interval
    assert low - 300 < true < high + 300  # half of them, within five standard deviations
    assert both.to_arrow().column_names[:3] == ["version", "os", "level"]
    assert both.query.describe() == "ranges of ms by version and os"
    with pytest.raises(NotReleased, match="version and os"):
        both["1.9"]


@pytest.mark.slow
def test_listed_groups_are_shown_also_where_nothing_was_released(frame):
    listed = th.quantiles(frame, "ms", 0.5, by="version", groups=["1.10", "2.0", "secret", "1.10"], **BY)
    assert listed.groups == ("1.10",)
    assert listed.missing == ("2.0", "secret")
    rows = listed.to_arrow()
    assert rows["version"].to_pylist() == ["1.10", "2.0", "secret"]
    assert rows["status"].to_pylist() == ["released", "below threshold", "below threshold"]
    assert rows["value"].null_count == 2
    assert [cells[1] for cells in listed.shown().rows[1:]] == ["below threshold"] * 2
    assert all("1.9" not in release.buckets for release in listed.releases)
    with pytest.raises(NotReleased, match="not in the list"):
        listed["1.9"]
    with pytest.raises(NotReleased, match="below the threshold"):
        listed["secret"]
    empty = th.ranges(frame, "ms", by="version", groups=["2.0"], plan=THREE, **BOUNDS)
    assert empty.empty
    assert empty.to_arrow()["version"].to_pylist() == ["2.0"]
    assert empty.readings().rows == ()


def test_listed_groups_are_read_as_what_the_column_holds(frame):
    numbered = frame.append_column("build", pa.array([index % 2 for index in range(len(frame))]))
    listed = th.quantiles(numbered, "ms", 0.5, by="build", groups=["1", "7"], **BY)
    assert (listed.groups, listed.missing) == ((1,), (7,))
    with pytest.raises(InvalidSetting) as caught:
        th.quantiles(numbered, "ms", 0.5, by="build", groups=["canary"], **BY)
    assert caught.value.setting == "groups"
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "setting"),
    [
        ({"by": "ms"}, "by"),
        ({"by": ["version", "version"]}, "by"),
        ({"by": ["version", "os", "ms"]}, "by"),
        ({"by": [""]}, "by"),
        ({"by": 7}, "by"),
        ({"groups": ["1.9"]}, "groups"),
        ({"by": "version", "groups": "1.9"}, "groups"),
        ({"by": "version", "groups": []}, "groups"),
        ({"by": ["version", "os"], "groups": ["1.9"]}, "groups"),
        ({"by": "version", "method": "search"}, "by"),
        ({"by": "canary"}, "by"),
    ],
)
def test_what_cannot_be_grouped_is_refused_before_anything_is_charged(frame, settings, setting, tmp_path):
    ledger = th.Ledger(tmp_path / "ledger.db", epsilon=3, delta=1e-4)
    with pytest.raises(InvalidSetting) as caught:
        th.quantiles(frame, "ms", [0.5], **(BY | settings), ledger=ledger)
    assert caught.value.setting == setting
    assert not ledger.history()


def test_a_group_column_may_have_the_name_of_a_number(frame):
    renamed = frame.rename_columns(["probability", "value", "ms"])
    answer = th.quantiles(renamed, "ms", 0.5, by=["probability", "value"], **BY)
    assert answer.to_arrow().column_names[:3] == ["group_probability", "group_value", "probability"]
    over_time = th.OverTime([(DAY, answer)]).to_arrow()
    keys = ["group_probability", "group_value", "probability"]
    assert over_time.column_names == ["date", *keys, "value", "lower", "upper"]


def test_an_answer_is_saved_replayed_and_read_back(found, frame, tmp_path):
    listed = th.ranges(frame, "ms", by=["version", "os"], groups=[("1.9", "mac"), ("2", "mac")], plan=THREE, **BOUNDS)
    for answer in (found, listed):
        answer.save(tmp_path / "answer.json")
        again = th.load(tmp_path / "answer.json")
        assert type(again) is Grouped
        assert (again.groups, again.missing, again.query) == (answer.groups, answer.missing, answer.query)
        assert again.to_arrow() == answer.to_arrow()
        assert again.to_json() == answer.to_json()
        assert again.shown() == answer.shown()
        assert replay(answer.query, answer.releases).to_arrow() == answer.to_arrow()
    content = json.loads(listed.to_json())
    assert (content["by"], content["more"]["missing"]) == (["version", "os"], [["2", "mac"]])
    assert content["more"]["groups"][0]["group"] == ["1.9", "mac"]


def test_queries_that_were_stored_before_there_were_groups_are_read():
    old = {"verb": "ranges", "column": "ms", "plan": THREE.to_dict(), **BOUNDS, "branching": 4}
    query = query_from_dict(old)
    assert query == RangesQuery("ms", THREE, **BOUNDS, branching=4, whole=False)
    assert query.to_dict() == old  # and servers that know no groups still read queries without them
    by = QuantilesQuery("ms", (0.5,), THREE, **BOUNDS, method="hierarchy", by=("a", "b"), groups=(("x", 1),))
    assert query_from_dict(json.loads(json.dumps(by.to_dict()))) == by
    for wrong in ({"by": "version"}, {"by": [7]}, {"groups": ["canary"]}, {"group": []}):
        with pytest.raises((InvalidFormat, InvalidSetting)) as caught:
            query_from_dict(old | wrong)
        assert "canary" not in str(caught.value)


def test_histograms_still_refuse_cells():
    question = Joint((Values(("version",)), Cells("ms", 0, 64, 4)))
    assert question.repeated
    assert not Joint((Values(("a",)), Values(("b",)))).repeated
    with pytest.raises(InvalidSetting, match="values, bins, dates"):
        HistogramQuery(question, th.plan(1, 1e-6))


def test_readings_begin_with_the_group(found):
    readings = found.readings()
    assert [row.key for row in readings.rows] == [("1.9", 0.5), ("1.9", 0.9), ("1.10", 0.5), ("1.10", 0.9)]
    assert readings.rows[0].label == "1.9 · 50 %"
    assert readings.rows[0].estimate == found["1.9"][0.5].value
    assert not readings.fixed  # a group may be below the threshold at another date
    over_time = th.OverTime([(DAY, found), (NEXT, found)])
    assert [row.estimate for row in over_time.line(("1.10", 0.9))] == [found["1.10"][0.9].value] * 2
    assert over_time.to_arrow().column_names == ["date", "version", "probability", "value", "lower", "upper"]
    assert all(change.change == 0 for change in over_time.changes())
    assert over_time._measured == "ms"


def test_ranges_of_groups_are_followed_over_time(frame):
    answer = th.ranges(frame, "ms", by="version", plan=THREE, **BOUNDS)
    assert answer.reads_ranges
    rows = answer.readings(ranges=[(0, 32)]).rows
    assert [row.key for row in rows] == [("1.9", 0.0, 32.0), ("1.10", 0.0, 32.0)]
    assert rows[0].estimate == answer["1.9"].count(0, 32).estimate


def test_means_by_group(frame):
    one = th.plan(1, 1e-6)
    answer = th.mean(frame, "ms", lower=0, upper=64, by=["version", "os"], plan=one)
    assert answer.plan == th.mean(frame, "ms", lower=0, upper=64, plan=one).plan
    assert len(answer) == 4
    for (version, _), found in answer.items():
        assert isinstance(found, Mean)
        low, high = found.interval
        assert low - 1 <= (20 if version == "1.9" else 40) <= high + 1  # room for chance: the interval is for 95 %
    assert first_questions(answer.query) == (
        Joint((Values(("version",)), Values(("os",)), Points("ms", (0, 16, 32, 48, 64)))),
    )
    assert [row.label for row in answer.readings().rows][:2] == ["1.9 · linux · mean", "1.9 · mac · mean"]
    listed = th.mean(frame, "ms", lower=0, upper=64, by="version", groups=["1.9", "2.0"], plan=one)
    assert listed.missing == ("2.0",)
    assert listed.measures
    assert listed.query.describe() == "mean of ms by version"
    assert query_from_dict(json.loads(json.dumps(listed.query.to_dict()))) == listed.query


def test_groups_of_a_filtered_part_of_all_units(frame):
    answer = th.ranges(frame, "ms", by="version", where={"os": "mac"}, plan=THREE, **BOUNDS)
    macs = np.array(frame["os"].to_pylist()) == "mac"
    true = int(np.count_nonzero(macs & (np.array(frame["version"].to_pylist()) == "1.9")))
    low, high = answer["1.9"].count(0, 64).interval
    assert low - 500 < true < high + 500  # room for chance; all systems together would be twice as many
    assert replay(answer.query, answer.releases).to_arrow() == answer.to_arrow()


def test_groups_may_be_of_any_type():
    days = [dt.date(2026, 1, 1), dt.date(2026, 1, 2)]
    table = pa.table(
        {"day": [days[index % 2] for index in range(8_000)], "ms": [float(index % 50) for index in range(8_000)]}
    )
    answer = th.quantiles(table, "ms", 0.5, by="day", groups=["2026-01-02", "2026-01-03"], **BY)
    assert answer.groups == (days[1],)
    assert answer.missing == (dt.date(2026, 1, 3),)
    assert answer.query.settings()["groups"] == ["2026-01-02", "2026-01-03"]


def _released(rounds: int) -> tuple[Plan, list[int]]:
    """Released counts of 24 cells of 12 groups with 25 people each, 0 for a dropped one, over many queries."""
    plan = Plan(sampling_rate=0.25, threshold=5, epsilon=1.0, delta=0.2)
    held = [(f"group {group}", 10.0 + 40 * half) for group in range(12) for half in (0, 1)]
    population = CountsPopulation(dict.fromkeys(held, 25))
    seen = []
    for _ in range(rounds):
        answer = th.ranges(population, "ms", by="version", plan=plan, branching=2, **BOUNDS)
        for group in range(12):
            name = f"group {group}"
            cells = dict(answer[name].hierarchy.counts[0]) if name in answer else {}
            seen += [cells.get(0, 0), cells.get(1, 0)]
    return plan, seen


def _p_value(plan: Plan, counts: list[int], rate: float) -> float:
    """A chi-square test against Binomial(25, rate), with everything below the threshold as one outcome."""
    law, top = stats.binom(25, rate), plan.threshold + 6
    chances = [law.cdf(plan.threshold - 1), *(law.pmf(value) for value in range(plan.threshold, top)), law.sf(top - 1)]
    outcomes = Counter(0 if count == 0 else min(count, top) for count in counts)
    observed = [outcomes[0], *(outcomes[value] for value in range(plan.threshold, top)), outcomes[top]]
    return float(stats.chisquare(observed, np.array(chances) * len(counts)).pvalue)


@pytest.mark.slow
def test_the_cells_of_a_group_have_the_law_of_asking_the_group_alone():
    plan, counts = _released(40)
    assert _p_value(plan, counts, plan.sampling_rate) > ALPHA
    assert _p_value(plan, counts, plan.sampling_rate * 1.25) < ALPHA  # the check can fail


@pytest.mark.slow
def test_intervals_of_groups_cover_as_often_as_they_say(frame):
    runs = 30
    plain = frame.to_pydict()
    numbers = {
        group: np.array([ms for name, ms in zip(plain["version"], plain["ms"], strict=True) if name == group])
        for group in ("1.9", "1.10")
    }
    medians = {group: float(np.quantile(values, 0.5, method="inverted_cdf")) for group, values in numbers.items()}

    table = Table(frame)  # counts once, and draws for each query

    missed = missed_if_shifted = 0
    for _ in range(runs):
        answer = th.quantiles(table, "ms", 0.5, by="version", **BY)
        for group, median in medians.items():
            low, high = answer[group][0.5].interval
            missed += not low <= median <= high
            missed_if_shifted += not low <= median + 8.0 <= high
    allowed = int(stats.binom.ppf(1 - ALPHA, 2 * runs, 0.05))
    assert missed <= allowed
    assert missed_if_shifted > allowed  # the check can fail


@pytest.mark.slow
def test_pictures_have_all_groups(frame, found, tmp_path):
    listed = th.quantiles(frame, "ms", 0.5, by="version", groups=["1.10", "2.0"], **BY)
    ranges = th.ranges(frame, "ms", by="version", plan=THREE, **BOUNDS)
    nothing = th.ranges(frame.slice(0, 3), "ms", by="version", plan=THREE, **BOUNDS)
    unknown = th.quantiles(frame.slice(0, 3), "ms", 0.5, by="version", **BY)
    said = {}
    for name, answer in {"two": found, "listed": listed, "ranges": ranges, "nothing": nothing, "none": unknown}.items():
        answer.plot(tmp_path / f"{name}.svg")
        said[name] = (tmp_path / f"{name}.svg").read_text()
        assert "differential privacy" in said[name]
    for text in ("1.9", "1.10", "50 %", "90 %", "Quantiles of ms by version"):
        assert text in said["two"]
    assert "below threshold" in said["listed"]
    assert "1.9" in said["ranges"] and "1.10" in said["ranges"]
    assert "nothing reached the threshold" in said["nothing"]
    assert "nothing reached the threshold" in said["none"]
    assert not math.isnan(found["1.9"][0.5].value)
