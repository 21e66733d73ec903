"""How the console words alerts and rules."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest

from thresher.console.rendering import environment
from thresher.protocol.alert_messages import RuleList, RuleStatus
from thresher.verbs.alert_rules import Rule


def text_of(page: str) -> str:
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", page)))


def rule_status(rule: Rule, id: str = "r1", *, standing: bool = False) -> RuleStatus:
    return RuleStatus(
        id=id,
        series="s1",
        rule=rule.to_dict(),
        words=rule.describe(),
        webhook=None,
        by="ana",
        created=0.0,
        standing=standing,
        problem=None,
    )


def alerts_part(rules: list[RuleStatus], **content: Any) -> str:
    pages = environment()
    own = {"alerts": [], "zone": "UTC", "series": {"id": "s1"}, "is_open": True, "csrf": "x"}
    return pages.get_template("series_alerts.html").render(
        parts=pages.get_template("parts.html").module, rules=RuleList(rules=rules, webhooks=[]), **own | content
    )


@pytest.mark.parametrize("bucket", ["fr", "ßeta", "ǆ", "iPhone"])
def test_a_rule_shows_its_bucket_as_it_is(bucket):
    said = text_of(alerts_part([rule_status(Rule("above", 100, bucket))]))
    assert f" {bucket} is above 100" in said


def test_a_rule_for_any_number_is_a_sentence():
    assert " Any number is above 100" in text_of(alerts_part([rule_status(Rule("above", 100))]))


def test_an_attribute_keeps_its_name():
    shown = environment().filters["what"]
    assert shown("heavy_hitters of word") == "heavy hitters of word"
    assert shown("histogram of heavy_hitters") == "histogram of heavy_hitters"
