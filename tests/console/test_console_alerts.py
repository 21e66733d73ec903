"""How the console words alerts and rules."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest

from thresher.console.alerts_shown import MOST_OLDER, shown_alerts
from thresher.console.rendering import environment
from thresher.protocol.alert_messages import (
    AlertStatus,
    FindingStated,
    RuleList,
    RuleStatus,
    StandingAlert,
    StandingList,
)
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


def alert_status(rule: str, index: int, *buckets: str, more: int = 0) -> AlertStatus:
    findings = [
        FindingStated(bucket=each, estimate=9.0, lower=8.0, upper=10.0, text=f"{each} is above 5: 9.")
        for each in buckets or ("fr",)
    ]
    return AlertStatus(
        id=f"{rule}-{index}",
        series="s1",
        rule=rule,
        words="words",
        index=index,
        date=86_400.0 * index,
        query=f"s1-{index}",
        found=0.0,
        text="",
        findings=findings,
        more=more,
        webhook=None,
        delivery=None,
        tries=0,
    )


def alerts_part(rules: list[RuleStatus], **content: Any) -> str:
    pages = environment()
    own = {"alerts": [], "alerts_more": 0, "zone": "UTC", "series": {"id": "s1"}, "is_open": True, "csrf": "x"}
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


def test_every_alert_of_the_last_release_is_shown_and_those_that_stand_are_red():
    last = [alert_status(f"r{number}", 9) for number in range(8)]
    late = alert_status("late", 8)  # its rule has not judged the last release yet
    older = [alert_status("r0", index) for index in range(7, -1, -1)]
    shown = shown_alerts([*last, late, *older], {"r0", "r1", "late"})
    assert [each.alert for each in shown] == [*last, late, *older[:MOST_OLDER]]
    assert [each.alert.id for each in shown if each.stands] == ["r0-9", "r1-9", "late-8"]
    page = alerts_part([rule_status(Rule("above", 5))], alerts=shown, alerts_more=2)
    assert page.count('<li class="alert">') == 3
    assert "2 older alerts are not shown." in text_of(page)
    assert shown_alerts([], {"r0"}) == []


def test_what_is_left_out_of_an_alert_is_said_once():
    shown = shown_alerts([alert_status("r1", 0, "a", "b", more=5)], ())
    said = text_of(alerts_part([], alerts=shown))
    assert said.count("And 5 more.") == 1
    assert "a is above 5: 9." in said and "b is above 5: 9." in said


def test_a_long_bucket_does_not_hide_the_number():
    long = "w" * 500
    rules = [rule_status(Rule("below", 7, long)), rule_status(Rule("below", 8, (long, "b")))]
    page = alerts_part(rules, alerts=shown_alerts([alert_status("r1", 0, long)], ()))
    assert "w… is below 7, by" in text_of(page) and "w… is below 8, by" in text_of(page)
    assert "w… is above 5: 9." in text_of(page) and long not in text_of(page)
    assert f'title="{long} is above 5: 9."' in page


def test_the_home_page_has_one_line_for_each_series():
    pages = environment()
    standing = StandingList(series=[StandingAlert(alert=alert_status("r1", 0, "ß", "b"), more=4)], more=3)
    page = pages.get_template("home_series.html").render(
        parts=pages.get_template("parts.html").module,
        standing=standing,
        series_names={"s1": "histogram of word"},
        series_cards=[],
        series_more=0,
    )
    said = text_of(page)
    assert page.count('<li class="alert">') == 1
    assert "Histogram of word : ß is above 5: 9. And 4 more" in said
    assert "b is above" not in said
    assert "3 more series have alerts" in said
