"""What analysts send and see of alerts: rules on a series, and what they found in its releases."""

from __future__ import annotations

from typing import Any

from thresher.protocol.messages import VERSION, Count, Message, Name, Version
from thresher.protocol.states import DeliveryState


class RuleRequest(Message, frozen=True, kw_only=True):
    """A rule for a series, and who is told."""

    rule: dict[str, Any]
    """As `thresher.verbs.Rule.to_dict` writes it."""
    webhook: Name | None = None
    """The name of a webhook that the operator has allowed; None to tell nobody."""
    version: Version = VERSION


class RuleStatus(Message, frozen=True, kw_only=True):
    """A rule of a series."""

    id: Name
    series: Name
    rule: dict[str, Any]
    words: str
    """The rule in words."""
    webhook: Name | None
    by: str
    created: float
    standing: bool
    """Whether the last release that was judged gave an alert."""
    problem: str | None
    """Why the last release could not be judged; None if it could."""


class RuleList(Message, frozen=True, kw_only=True):
    """The rules of a series, oldest first."""

    rules: list[RuleStatus]
    webhooks: list[Name]
    """The names of the webhooks that the operator has allowed."""


class FindingStated(Message, frozen=True, kw_only=True):
    """One released number that an alert speaks of; `estimate` is None for a bucket that was not released."""

    bucket: str
    estimate: float | None
    lower: float | None
    upper: float | None
    text: str


class AlertStatus(Message, frozen=True, kw_only=True):
    """An alert: what a rule found in one release. It has released numbers only."""

    id: Name
    """One rule and one date have one alert."""
    series: Name
    rule: Name
    words: str
    """The rule in words."""
    index: Count
    """Which date of the series, from 0."""
    date: float
    query: Name
    """The query whose release gave it."""
    found: float
    """When the release was judged."""
    text: str
    findings: list[FindingStated]
    """The first of them."""
    more: Count
    """How many further findings there are."""
    webhook: Name | None
    delivery: DeliveryState | None
    """Where the message to the webhook stands; None where nobody is told."""
    tries: Count
    """How often it was sent."""


class AlertList(Message, frozen=True, kw_only=True):
    """The alerts of a series, newest first."""

    alerts: list[AlertStatus]


class StandingAlert(Message, frozen=True, kw_only=True):
    """A series whose last release gave alerts: the newest of them."""

    alert: AlertStatus
    more: Count
    """How many findings its alerts have in all, besides the first one of this alert."""


class StandingList(Message, frozen=True, kw_only=True):
    """The series that may still ask and whose last release gave alerts, newest alert first."""

    series: list[StandingAlert]
    """The first of them."""
    more: Count
    """How many further series there are."""


class AlertPosted(Message, frozen=True, kw_only=True):
    """What is posted to a webhook. A message may come more than once; `id` is then the same."""

    id: Name
    series: Name
    name: Name
    """The name of the series."""
    what: str
    """What the series asks, in words."""
    rule: Name
    words: str
    """The rule in words."""
    date: str
    """The date of the release, with its offset from UTC."""
    text: str
    findings: list[FindingStated]
    more: Count
    link: str | None
    """The series in the console; None where the server does not know its public address."""
