"""Alerts: keeps the rules of series, judges each new release by them, and says what is to be sent to webhooks.

Each rule judges each release once, in the order of dates: the store notes the judgement and its alert in the same
transaction. A release is judged together with the one before it, as a rule for a change needs. All of it is computed
from stored releases, so it asks nothing and costs nothing.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from thresher.clock import Clock
from thresher.errors import Conflict, InvalidFormat, InvalidSetting, NotFound, ThresherError
from thresher.protocol.alert_messages import (
    AlertStatus,
    FindingStated,
    RuleList,
    RuleRequest,
    RuleStatus,
    StandingAlert,
    StandingList,
)
from thresher.protocol.messages import encode
from thresher.protocol.schedules import Schedule
from thresher.protocol.states import ACTIVE_QUERY, OPEN_SERIES, DeliveryState, QueryState
from thresher.roles.computing import Compute
from thresher.roles.coordinator import alert_views
from thresher.roles.coordinator.alert_judging import CheckedRule, check_rule, judged, stated
from thresher.roles.coordinator.alert_store import StoredAlert, StoredRule
from thresher.roles.coordinator.round_runner import RETRY_SECONDS, UNAVAILABLE
from thresher.roles.coordinator.series import found_series
from thresher.roles.coordinator.series_store import StoredRelease, StoredSeries
from thresher.roles.coordinator.series_views import schedule_of
from thresher.roles.coordinator.store import CoordinatorStore

_log = logging.getLogger("thresher.coordinator")

MOST_RULES = 20
"""How many rules a series may have."""
SHOWN = 200
"""How many alerts of a series are shown, the newest."""
SLICE_SECONDS = 0.25
"""For how long a step judges. What is left is judged in the next step, after the rounds."""
MOST_WAITING = 10_000
"""How many messages may wait to be sent to one webhook."""
EACH = 2
"""How many messages to one webhook are sent at a time."""
PAUSES = (10.0, 60.0, 300.0, 1_800.0, 7_200.0, 21_600.0)
"""Seconds after each failed try to send an alert. After the last of them there is one more try."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """An alert that is to be posted now."""

    alert: str
    webhook: str
    """The name of the webhook."""
    body: bytes = field(repr=False)
    tries: int = 0
    """How many tries failed before."""


class AlertKeeper:
    """The coordinator's part that keeps rules and alerts.

    Guarantee: a rule and a date have one alert at most, whatever crashes. An alert has released numbers only.
    Its message is sent at least once, or given up after `len(PAUSES) + 1` tries. Methods may be called from any thread;
    `judge_due` is called by one step at a time.
    """

    def __init__(
        self,
        store: CoordinatorStore,
        clock: Clock,
        *,
        answer: Callable[[str], Any],
        compute: Compute,
        webhooks: Collection[str] = (),
        public_url: str | None = None,
        most_rules: int = MOST_RULES,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        """`answer` gives the answer of a query that is done; `webhooks` are the names of those that are allowed."""
        self._store = store
        self._clock = clock
        self._answer = answer
        self._compute = compute
        self._webhooks = sorted(webhooks)
        self._public_url = public_url
        self._most_rules = most_rules
        self._timer = timer
        self._to_judge: set[str] = set()
        self._to_look = True  # whether there may be others in the store

    # What an analyst may do.

    def add(self, series: str, request: RuleRequest | bytes, by: str) -> RuleStatus:
        """Store a rule; it judges the releases that are made from now on. A request in bytes is decoded first.

        Guarantee: a rule that the series has already is not added again. A rule that does not make sense for the
        series, or that names a webhook which the operator has not allowed, is not stored.
        """
        found = found_series(self._store.series(series))
        checked: CheckedRule = self._compute(check_rule, request, found.query)
        if checked.webhook is not None and checked.webhook not in self._webhooks:
            raise InvalidSetting(
                "webhook",
                "must be the name of one that the operator has allowed",
                hint=f"Allowed: {', '.join(self._webhooks)}."
                if self._webhooks
                else "None is allowed: see thresher serve --alert-webhook.",
            )
        if found.state not in OPEN_SERIES:
            raise Conflict("This series has ended, so there is nothing left to judge.")
        rule = StoredRule(_rule_id(series, checked), series, checked.content, checked.webhook, by, self._clock.now())
        stored = self._store.add_rule(rule, self._most_rules)
        return alert_views.rule_status(stored, self._standing(series), self._webhooks)

    def remove(self, series: str, rule: str) -> RuleList:
        """Remove a rule of a series; returns those that are left. Alerts that it gave stay.

        Edge cases: a rule that is not there changes nothing, so that the request may be repeated.
        """
        self._find(series)
        self._store.remove_rule(series, rule)
        return self.rules(series)

    def rules(self, series: str) -> RuleList:
        """The rules of a series, oldest first, and the webhooks that a rule may name; `NotFound` for no such series."""
        self._find(series)
        standing = self._standing(series)
        return RuleList(
            rules=[alert_views.rule_status(rule, standing, self._webhooks) for rule in self._store.rules(series)],
            webhooks=self._webhooks,
        )

    def alerts(self, series: str, most: int = SHOWN) -> list[AlertStatus]:
        """The newest alerts of a series, newest first; `NotFound` if there is no such series."""
        self._find(series)
        return self._shown(self._store.alerts(series, most))

    def alert_number(self, series: str) -> int:
        """How many alerts a series has in all; `NotFound` if there is no such series."""
        return self._store.alert_number(self._find(series).id)

    def standing(self, most_series: int = SHOWN) -> StandingList:
        """The series that may still ask and whose last release gave alerts, newest first, at most so many.

        Edge cases: an alert that cannot be read is left out. A series is counted but not listed if none of its can be.
        """
        alerts, number = self._store.standing_alerts(most_series)
        by_series: dict[str, list[AlertStatus]] = {}
        for alert in self._shown(alerts):
            by_series.setdefault(alert.series, []).append(alert)
        found = [
            StandingAlert(alert=each[0], more=max(0, sum(len(one.findings) + one.more for one in each) - 1))
            for each in by_series.values()
        ]
        return StandingList(series=found, more=max(0, number - len(found)))

    def _shown(self, alerts: Sequence[StoredAlert]) -> list[AlertStatus]:
        """Alerts as messages, without those that cannot be read."""
        schedules: dict[str, Schedule] = {}
        found = []
        for alert in alerts:
            try:
                if alert.series not in schedules:
                    schedules[alert.series] = schedule_of(self._find(alert.series))
                found.append(alert_views.alert_status(alert, schedules[alert.series]))
            except (InvalidFormat, InvalidSetting, NotFound):
                _log.warning("an alert of series %s cannot be read", alert.series)
        return found

    def _find(self, series: str) -> StoredSeries:
        return found_series(self._store.series_outline(series))

    def _standing(self, series: str) -> set[str]:
        return {each.rule for each in self._store.rule_numbers(series) if each.standing}

    # What the loop does.

    def look_again(self) -> None:
        """Note that a query has ended, so that there may be something to judge."""
        self._to_look = True

    def judge_due(self) -> float | None:
        """Judge for a quarter of a second; seconds until there is more to judge, None if there is not.

        Guarantee: begins no judgement after that time, so that rounds go on. A release or a rule that cannot be judged
        does not hold up others.
        """
        if self._to_look:
            self._to_look = False
            try:
                self._to_judge |= self._store.series_to_judge()
            except UNAVAILABLE:
                self._to_look = True
                return RETRY_SECONDS
        end = self._timer() + SLICE_SECONDS
        while self._to_judge:
            series = min(self._to_judge)
            try:
                more = self._judge_next(series)
            except UNAVAILABLE:
                return RETRY_SECONDS
            except Exception as error:
                # Only the class of the error is logged, since its message could quote a value.
                _log.warning("series %s could not be judged: %s", series, type(error).__name__)
                more = False
            if not more:
                self._to_judge.discard(series)
            if self._timer() >= end:
                break
        return 0.0 if self._to_judge else None

    def _judge_next(self, series: str) -> bool:
        """Judge the next release of a series by the first rule that has not judged it; whether there was one."""
        rules = self._store.rules(series)
        before: StoredRelease | None = None
        for release in _judgeable(self._store.releases_of(series)):
            rule = next((rule for rule in rules if rule.judged < release.number), None)
            if rule is not None:
                points = self._points(series, [release] if before is None else [before, release])
                self._judge(rule, release.number, points)
                return True
            before = release
        return False

    def _points(self, series: str, releases: Sequence[StoredRelease]) -> list[Any] | ThresherError:
        """The dates of releases with their answers, or why they cannot be read."""
        try:
            schedule = schedule_of(self._find(series))
            return [(alert_views.date_of(schedule, each.number), self._answer(each.query)) for each in releases]
        except UNAVAILABLE:
            raise
        except ThresherError as error:
            return error

    def _judge(self, rule: StoredRule, number: int, points: list[Any] | ThresherError) -> None:
        alert, problem = None, None
        try:
            if isinstance(points, ThresherError):
                raise points
            read = alert_views.rule_of(rule)
            found = judged(read, points)
        except InvalidSetting as error:
            problem = error.message
        except Exception as error:
            code = error.code if isinstance(error, ThresherError) else "internal"
            _log.warning("a rule of series %s could not be judged: %s", rule.series, type(error).__name__)
            problem = f"The last release could not be judged ({code})."
        else:
            if found is not None:
                alert = self._alert(rule, number, read.describe(), found.findings)
        self._store.store_judgement(rule.id, number, alert, problem, most_waiting=MOST_WAITING)

    def _alert(self, rule: StoredRule, number: int, words: str, findings: Sequence[Any]) -> StoredAlert:
        kept: list[FindingStated] = stated(findings)
        now = self._clock.now()
        sent = rule.webhook is not None
        return StoredAlert(
            id=f"{rule.id}-{number}",
            series=rule.series,
            rule=rule.id,
            number=number,
            words=words,
            found=now,
            findings=msgspec.json.encode(kept).decode(),
            more=len(findings) - len(kept),
            webhook=rule.webhook,
            delivery=DeliveryState.WAITING if sent else None,
            next_try=now if sent else None,
        )

    # What the sender does.

    def due_deliveries(self, most: int) -> list[Delivery]:
        """The messages that are to be sent now, the one that has waited longest first, few to each webhook."""
        found = []
        for alert in self._store.due_deliveries(self._clock.now(), most, EACH):
            assert alert.webhook is not None
            try:
                body = encode(alert_views.posted(alert, self._find(alert.series), self._public_url))
            except (InvalidFormat, InvalidSetting, NotFound):
                _log.warning("an alert of series %s cannot be read", alert.series)
                self._store.note_delivery(alert.id, DeliveryState.GIVEN_UP)
            else:
                found.append(Delivery(alert.id, alert.webhook, body, alert.tries))
        return found

    def note_sent(self, delivery: Delivery) -> None:
        """Note that the receiver took a message."""
        self._store.note_delivery(delivery.alert, DeliveryState.SENT)

    def note_failed(self, delivery: Delivery) -> None:
        """Note that a try failed; it is sent again after a pause, or given up after the last try."""
        if delivery.tries < len(PAUSES):
            next_try = self._clock.now() + PAUSES[delivery.tries]
            self._store.note_delivery(delivery.alert, DeliveryState.WAITING, next_try)
        else:
            _log.warning("an alert was not taken by its webhook %s, and is not sent again", delivery.webhook)
            self._store.note_delivery(delivery.alert, DeliveryState.GIVEN_UP)


def _judgeable(releases: Sequence[StoredRelease]) -> list[StoredRelease]:
    """The releases that are done, up to the first date whose query has not ended: dates are judged in their order."""
    found = []
    for release in releases:
        if release.state in ACTIVE_QUERY:
            break
        if release.state == QueryState.DONE:
            found.append(release)
    return found


def _rule_id(series: str, checked: CheckedRule) -> str:
    """The same rule of the same series has the same id, however often it is added."""
    content = "\n".join((series, checked.webhook or "", checked.content))
    return f"r{hashlib.sha256(content.encode()).hexdigest()[:16]}"
