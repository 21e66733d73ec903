"""Stored rules and alerts as the messages that analysts and webhooks get. All numbers in them are released."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Collection

import msgspec

from thresher.errors import InvalidFormat, InvalidSetting
from thresher.protocol.alert_messages import AlertPosted, AlertStatus, FindingStated, RuleStatus
from thresher.protocol.schedules import Schedule
from thresher.roles.coordinator.alert_store import StoredAlert, StoredRule
from thresher.roles.coordinator.series_store import StoredSeries
from thresher.roles.coordinator.series_views import release_id, schedule_of
from thresher.tables.time_zones import zone_of
from thresher.verbs.alert_rules import Rule


def date_of(schedule: Schedule, number: int) -> dt.datetime:
    """A date of a series on its own wall clock."""
    return dt.datetime.fromtimestamp(schedule.due(number), zone_of(schedule.time_zone))


def rule_of(rule: StoredRule) -> Rule:
    """The rule itself; `InvalidFormat` or `InvalidSetting` if it cannot be read."""
    try:
        return Rule.from_dict(json.loads(rule.rule))
    except ValueError:
        raise InvalidFormat("This stored rule cannot be read.") from None


def rule_status(rule: StoredRule, standing: Collection[str], webhooks: Collection[str]) -> RuleStatus:
    """A rule; `standing` are the ids of those whose last release gave an alert."""
    try:
        read = rule_of(rule)
    except (InvalidFormat, InvalidSetting):
        read = None
    return RuleStatus(
        id=rule.id,
        series=rule.series,
        rule={} if read is None else read.to_dict(),
        words="This rule cannot be read." if read is None else read.describe(),
        webhook=rule.webhook,
        by=rule.by,
        created=rule.created,
        standing=rule.id in standing,
        problem=rule.problem
        if rule.webhook is None or rule.webhook in webhooks
        else "The operator does not allow its webhook any more.",
    )


def alert_status(alert: StoredAlert, schedule: Schedule) -> AlertStatus:
    """An alert as analysts see it."""
    findings = _findings(alert)
    return AlertStatus(
        id=alert.id,
        series=alert.series,
        rule=alert.rule,
        words=alert.words,
        index=alert.number,
        date=schedule.due(alert.number),
        query=release_id(alert.series, alert.number),
        found=alert.found,
        text=_text(findings, alert.more),
        findings=findings,
        more=alert.more,
        webhook=alert.webhook,
        delivery=alert.delivery,
        tries=alert.tries,
    )


def posted(alert: StoredAlert, series: StoredSeries, public_url: str | None) -> AlertPosted:
    """An alert as a webhook gets it: the same bytes at each try."""
    findings = _findings(alert)
    return AlertPosted(
        id=alert.id,
        series=series.id,
        name=series.name,
        what=series.what,
        rule=alert.rule,
        words=alert.words,
        date=date_of(schedule_of(series), alert.number).isoformat(),
        text=_text(findings, alert.more),
        findings=findings,
        more=alert.more,
        link=None if public_url is None else f"{public_url}/series/{series.id}",
    )


def _findings(alert: StoredAlert) -> list[FindingStated]:
    try:
        return msgspec.json.decode(alert.findings, type=list[FindingStated])
    except msgspec.MsgspecError:
        raise InvalidFormat("This stored alert cannot be read.") from None


def _text(findings: list[FindingStated], more: int) -> str:
    return " ".join([*(each.text for each in findings), *([f"And {more:,} more."] if more else [])])
