"""What the tests of alerts share: a coordinator with a weekly series, and rules for it."""

from __future__ import annotations

from typing import Any

from coordinator_cases import Server
from series_cases import WORDS, series_request

from thresher.protocol.alert_messages import RuleRequest, RuleStatus
from thresher.verbs import Rule

ABOVE = Rule("above", 1_500, bucket="yes")  # 3,000 are held: it misses an alert with less than 1e-14
BELOW = Rule("below", 4_000, bucket="no")  # of 2,000
CHANGED = Rule("changed")
NEVER = Rule("above", 1_000_000)


class Watched(Server):
    """A server with a weekly series of words; `watch` adds a rule to it."""

    def __init__(self, folder: Any, values: list[str] | None = None, **settings: Any) -> None:
        self.settings = {"webhooks": ("ops", "chat")} | settings
        super().__init__(folder, list(WORDS if values is None else values))

    def start(self, **settings: Any) -> Any:
        return super().start(**self.settings | settings)

    def follow_words(self, **settings: Any) -> str:
        """Start a series; its id."""
        self.series = self.coordinator.series.create(series_request(**settings), "ada").id
        return self.series

    def watch(self, rule: Rule, webhook: str | None = None) -> RuleStatus:
        request = RuleRequest(rule=rule.to_dict(), webhook=webhook)
        return self.coordinator.alerts.add(self.series, request, "ada")

    def found(self) -> list[tuple[int, str]]:
        """The date and the text of each alert, oldest first."""
        return [(alert.index, alert.text) for alert in reversed(self.coordinator.alerts.alerts(self.series))]
