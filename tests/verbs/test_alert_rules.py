"""Rules on a series: what alerts, what does not, how often chance does, and what is refused."""

from __future__ import annotations

import datetime as dt
import json
import math

import pytest
from in_memory_people import CountsPopulation, NumbersPopulation, seeded
from scipy import stats

import thresher as th
from thresher.errors import InvalidFormat, InvalidSetting
from thresher.questions import Values
from thresher.verbs import HistogramQuery, OverTime, Rule, quantiles

START = dt.datetime(2026, 1, 5, tzinfo=dt.UTC)
PLAN = th.plan(1, 1e-8)
ALPHA = 1e-9  # false alarm per check


def weeks(*answers) -> OverTime:
    return OverTime([(START + dt.timedelta(weeks=week), answer) for week, answer in enumerate(answers)])


def counted(randomness=None, **sizes: int):
    return HistogramQuery(Values(("country",)), PLAN).run(CountsPopulation(sizes, randomness))


def test_above_and_below():
    series = weeks(counted(fr=9000, de=500))
    alert = Rule("above", 5000, "fr").judge(series)
    assert alert.date == START
    assert alert.text.startswith("fr is above 5,000: ")
    assert [finding.bucket for finding in Rule("above", 5000).judge(series).findings] == ["fr"]
    assert [finding.bucket for finding in Rule("below", 5000).judge(series).findings] == ["de"]
    assert Rule("above", 12_000).judge(series) is None
    assert Rule("below", 5000, "fr").judge(series) is None


def test_the_interval_must_lie_beyond_unless_the_estimate_is_to_decide():
    answer = counted(fr=5000)
    estimate, (lower, upper) = answer["fr"].estimate, answer["fr"].interval
    series = weeks(answer)
    between = (lower + estimate) / 2
    assert Rule("above", between, "fr").judge(series) is None
    assert Rule("above", lower - 1, "fr").judge(series) is not None
    assert Rule("above", lower, "fr").judge(series) is None  # not beyond
    assert Rule("above", between, "fr", judged_by="estimate").judge(series) is not None
    assert Rule("below", upper + 1, "fr").judge(series) is not None
    assert Rule("below", upper, "fr").judge(series) is None
    wider = answer.readings(0.9999).rows[0]
    assert Rule("above", wider.lower, "fr", confidence=0.9999).judge(series) is None
    assert Rule("above", wider.lower - 1, "fr", confidence=0.9999).judge(series) is not None


def test_a_bucket_that_was_not_released_is_below_what_would_have_been():
    series = weeks(counted(fr=5000, de=5000), counted(fr=5000))
    most = PLAN.smallest_visible(0.95) - 1
    alert = Rule("below", most + 1, "de").judge(series)
    assert alert.findings[0].estimate is None and alert.findings[0].upper == most
    assert "was not released" in alert.text
    assert Rule("below", most, "de").judge(series) is None
    assert Rule("above", 0, "de").judge(series) is None
    assert Rule("below", 1000, "never there").judge(series) is not None
    assert [finding.bucket for finding in Rule("below", 1000).judge(series).findings] == ["de"]


def test_changed():
    series = weeks(counted(seeded(1), fr=9000, de=5000, at=9000), counted(seeded(2), fr=3000, de=5000, it=9000))
    found = {finding.bucket: finding for finding in Rule("changed").judge(series).findings}
    assert set(found) == {"fr", "at", "it"}
    assert found["fr"].text.startswith("fr has changed: ")
    assert found["it"].text.startswith("it appeared: ") and found["at"].text.startswith("at vanished: ")
    assert found["at"].estimate is None
    assert [each.bucket for each in Rule("changed", bucket="fr").judge(series).findings] == ["fr"]
    assert Rule("changed", bucket="de", confidence=0.9999).judge(series) is None
    assert Rule("changed").judge(weeks(counted(fr=9000))) is None


def test_a_missed_release_gives_the_same_alert_again():
    points = weeks(counted(fr=9000)).points
    rule = Rule("above", 5000)
    later = OverTime([*points, (START + dt.timedelta(weeks=1), None)])
    assert rule.judge(later) == rule.judge(OverTime(points))
    assert rule.judge(OverTime([(START, None)])) is None
    assert rule.judge(OverTime([])) is None


@pytest.mark.slow
def test_chance_alone_seldom_alerts_also_where_any_bucket_may():
    """Sixty buckets that do not change: one rule for all of them alerts in at most 5 % of pairs of releases."""
    sizes = {f"c{index}": 100 + 40 * index for index in range(60)}
    runs, alerts, unshared = 100, 0, 0
    for seed in range(runs):
        series = weeks(counted(seeded(2 * seed), **sizes), counted(seeded(2 * seed + 1), **sizes))
        alerts += Rule("changed").judge(series) is not None
        unshared += any(not low <= 0 <= high for low, high in (row.interval for row in series.changes(confidence=0.95)))
    assert stats.binom.sf(alerts - 1, runs, 0.05) > ALPHA
    assert stats.binom.sf(unshared - 1, runs, 0.05) < ALPHA  # the test can fail


def test_quantiles():
    plan = th.plan(1, 1e-8, rounds=4)
    numbers = NumbersPopulation([value % 100 for value in range(20_000)])
    series = weeks(quantiles(numbers, "x", [0.5, 0.9], plan=plan, lower=0, upper=100, method="hierarchy"))
    assert Rule("above", 30, 0.5).judge(series).findings[0].bucket == "50 %"
    assert Rule("above", 30, "50 %").judge(series) is not None
    assert Rule("above", 70, 0.5).judge(series) is None
    with pytest.raises(InvalidSetting, match="bucket"):
        Rule("above", 30, 0.75).judge(series)


RULES = [
    Rule("above", 5000),
    Rule("below", 0.5, "fr", judged_by="estimate"),
    Rule("changed", bucket=("fr", 3), confidence=0.999),
    Rule("above", 1, True),
    Rule("below", 300, 0.5),
]


@pytest.mark.parametrize("rule", RULES, ids=Rule.describe)
def test_rules_and_alerts_are_plain_values(rule):
    assert Rule.from_dict(json.loads(json.dumps(rule.to_dict()))) == rule
    assert rule.describe()


def test_an_alert_as_json():
    alert = Rule("above", 5000, "fr").judge(weeks(counted(fr=9000)))
    content = json.loads(json.dumps(alert.to_dict(), allow_nan=False))
    assert content["date"] == START.isoformat() and content["text"] == alert.text
    assert content["findings"][0]["bucket"] == "fr"
    assert Rule.from_dict(content["rule"]) == alert.rule


@pytest.mark.parametrize(
    "settings",
    [
        {"kind": "near", "bound": 1},
        {"kind": "above"},
        {"kind": "above", "bound": math.nan},
        {"kind": "above", "bound": "12"},
        {"kind": "above", "bound": True},
        {"kind": "changed", "bound": 3},
        {"kind": "changed", "judged_by": "estimate"},
        {"kind": "above", "bound": 1, "judged_by": "hope"},
        {"kind": "above", "bound": 1, "confidence": 1},
        {"kind": "above", "bound": 1, "confidence": 0.99999999},
        {"kind": "above", "bound": 1, "bucket": ""},
        {"kind": "above", "bound": 1, "bucket": {"a": 1}},
        {"kind": "above", "bound": 1, "bucket": ["a", None]},
        {"kind": "above", "bound": 1, "bucket": math.inf},
        {"kind": "above", "bound": 1, "bucket": []},
        {"kind": "above", "bound": 1, "bucket": "x" * 2000},
        {"kind": ["above"], "bound": 1},
    ],
)
def test_rules_are_checked_when_they_are_made(settings):
    with pytest.raises(InvalidSetting):
        Rule.from_dict(settings)


@pytest.mark.parametrize("content", [{}, {"kind": "above", "bound": 1, "colour": "red"}, [], "above"])
def test_what_is_no_rule_is_refused(content):
    with pytest.raises(InvalidFormat):
        Rule.from_dict(content)
