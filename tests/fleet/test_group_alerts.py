"""Rules of series with groups: a rule names a group and a number, or a group and a range."""

from __future__ import annotations

import datetime as dt
import json

import numpy as np
import pyarrow as pa
import pytest

import thresher as th
from thresher.errors import InvalidSetting
from thresher.protocol.alert_messages import RuleRequest
from thresher.roles.coordinator import alert_judging
from thresher.verbs.alert_rules import Rule

TWO = th.plan(1, 1e-6, rounds=2)
DATES = [dt.datetime(2026, 1, day, tzinfo=dt.UTC) for day in (1, 2)]


@pytest.fixture(scope="module")
def frame() -> pa.Table:
    versions = ["1.0", "2.0"] * 6_000
    times = np.arange(12_000) % 30 + 30 * (np.arange(12_000) % 2)
    return pa.table({"version": versions, "ms": times.astype(float)})


def test_a_rule_follows_one_quantile_of_one_group(frame):
    found = th.quantiles(frame, "ms", [0.5, 0.9], lower=0, upper=64, method="hierarchy", by="version", plan=TWO)
    request = RuleRequest(rule=Rule(kind="above", bucket=("2.0", 0.5), bound=32.0).to_dict())
    checked = alert_judging.check_rule(request, json.dumps(found.query.to_dict()))
    alert = alert_judging.judged(checked.rule, [(date, found) for date in DATES])
    assert alert is not None
    assert [each.bucket for each in alert.findings] == ["2.0 · 50 %"]


def test_a_rule_reads_any_range_of_a_group_off(frame):
    found = th.ranges(frame, "ms", lower=0, upper=64, by="version", plan=TWO)
    rule = Rule(kind="above", bucket=("1.0", 0.0, 40.0), bound=4_000)
    alert = alert_judging.judged(rule, [(date, found) for date in DATES])
    assert alert is not None
    assert alert_judging.judged(Rule(kind="above", bucket=("2.0", 0.0, 8.0), bound=4_000), [(DATES[0], found)]) is None


def test_answers_with_very_many_groups_are_not_judged(frame, monkeypatch):
    found = th.ranges(frame, "ms", lower=0, upper=64, by="version", plan=TWO)
    monkeypatch.setattr(alert_judging, "MOST_NUMBERS", {"above": 99})
    with pytest.raises(InvalidSetting, match="more than 99 numbers"):
        alert_judging.judged(Rule(kind="above", bound=1.0), [(DATES[0], found)])
