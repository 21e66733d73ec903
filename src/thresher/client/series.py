"""A series at the server: how it stands, its answers so far, and ways to pause, resume and end it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thresher.errors import Hint, InvalidSetting
from thresher.mechanism.tabular import Tabular
from thresher.protocol.alert_messages import AlertList, AlertStatus, RuleList, RuleRequest, RuleStatus
from thresher.protocol.messages import decode, encode
from thresher.protocol.series_messages import SeriesRelease, SeriesStatus
from thresher.protocol.states import ACTIVE_QUERY, OPEN_SERIES, QueryState
from thresher.tables.time_zones import zone_of
from thresher.verbs.alert_rules import Rule
from thresher.verbs.changes import Changes
from thresher.verbs.over_time import OverTime
from thresher.verbs.query import query_from_dict

if TYPE_CHECKING:
    import pyarrow as pa

    from thresher.client.fleet import Fleet

_LOOK = 2.0


class SeriesHandle(Tabular):
    """A series at the server. `Fleet.series` makes one, `Fleet.series_by_id` finds one again.

    Example:
        >>> series = fleet.series("histogram", "app_version", every="week", releases=52, epsilon=3, delta=1e-6)
        >>> series.plot("versions.png")
        >>> series.to_pandas().columns.tolist()
        ['date', 'app_version', 'estimate', 'lower', 'upper']
    """

    def __init__(self, fleet: Fleet, id: str) -> None:
        self._fleet = fleet
        self.id = _checked("series", id, "Fleet.series_list lists them.")
        self._answers: dict[str, Any] = {}

    def status(self) -> SeriesStatus:
        """Where the series stands, with every date that has come."""
        return decode(SeriesStatus, self._fleet._connection.get(f"/v1/series/{self.id}"))

    def pause(self) -> SeriesStatus:
        """Let dates pass without asking, until it is resumed; each of them is a gap. A release that runs finishes."""
        return self._post("pause")

    def resume(self) -> SeriesStatus:
        """Ask again from the next date on."""
        return self._post("resume")

    def end(self) -> SeriesStatus:
        """Ask no more. A release that runs finishes; then what was never drawn is given back to the budget."""
        return self._post("end")

    def releases(self) -> list[SeriesRelease]:
        """The dates that have come, in order: each has the id of its query, or is a gap."""
        return self.status().releases

    def answers(self) -> list[tuple[dt.datetime, Any]]:
        """The dates whose release has ended, each with its answer; None in place of an answer is a gap.

        A gap is a date that was missed or passed while the series was paused, or whose query was cancelled or failed.
        Dates are on the wall clock of the series' time zone. An answer is fetched once and kept.

        Edge cases: Python compares dates of one zone by their wall clocks, so that the two hours of the night when
        clocks go back are equal. Compare `date.timestamp()` there.
        """
        status = self.status()
        zone, query = zone_of(status.schedule.time_zone), query_from_dict(status.query)
        found: list[tuple[dt.datetime, Any]] = []
        for each in status.releases:
            if each.state in ACTIVE_QUERY:
                continue
            answer = None
            if each.query is not None and each.state == QueryState.DONE:
                if each.query not in self._answers:
                    self._answers[each.query] = self._fleet.query(each.query).replayed(query)
                answer = self._answers[each.query]
            found.append((dt.datetime.fromtimestamp(each.due, zone), answer))
        return found

    def over_time(self, ranges: Sequence[tuple[float, float]] = ()) -> OverTime:
        """The answers so far, over time: `to_pandas()`, `plot()`, `changes()`. It is computed here and costs nothing.

        `ranges` are those to follow, for a series of `thresher.ranges`.
        """
        return OverTime(self.answers(), ranges)

    def to_arrow(self) -> pa.Table:
        """The answers so far as an Arrow table: a row for each date and bucket, with estimate, lower and upper."""
        return self.over_time().to_arrow()

    def plot(self, path: str | Path | None = None, *, buckets: Sequence[Any] | None = None) -> Any:
        """Lines with 95 % bands over time, shown in notebooks or saved; `OverTime.plot` says more."""
        return self.over_time().plot(path, buckets=buckets)

    def changes(self, since: dt.datetime | dt.date | None = None) -> Changes:
        """What changed since the release before the last, or since a date, with intervals."""
        return self.over_time().changes(since)

    def alert(self, rule: Rule, *, webhook: str | None = None) -> RuleStatus:
        """Judge every release that is made from now on by a rule. It costs nothing.

        Args:
            rule: when to alert somebody, as `thresher.verbs.Rule("above", 5000, bucket="2.0")`.
            webhook: the name of a webhook that the operator has allowed, to post alerts to; `rules_and_webhooks` lists
                them. Without it alerts are shown only.

        Returns the rule with its id. Adding the same rule again returns the first. Raises `InvalidSetting` for a rule
        that does not make sense for this series, and for a webhook that is not allowed.
        """
        if not isinstance(rule, Rule):
            raise InvalidSetting(
                "rule",
                "must be a Rule",
                hint=Hint("Make one first.", python='For example thresher.verbs.Rule("above", 5000).'),
            )
        request = RuleRequest(rule=rule.to_dict(), webhook=webhook)
        return decode(RuleStatus, self._fleet._connection.post(f"/v1/series/{self.id}/rules", encode(request)))

    def rules(self) -> list[RuleStatus]:
        """The rules of the series, oldest first."""
        return self.rules_and_webhooks().rules

    def rules_and_webhooks(self) -> RuleList:
        """The rules of the series, and the names of the webhooks that a rule may have."""
        return decode(RuleList, self._fleet._connection.get(f"/v1/series/{self.id}/rules"))

    def remove_rule(self, rule: str) -> list[RuleStatus]:
        """Remove a rule by its id; returns the rules that are left. Alerts that it gave stay."""
        path = f"/v1/series/{self.id}/rules/{_checked('rule', rule, 'SeriesHandle.rules lists them.')}"
        return decode(RuleList, self._fleet._connection.delete(path)).rules

    def alerts(self) -> list[AlertStatus]:
        """The newest alerts of the series, newest first."""
        return decode(AlertList, self._fleet._connection.get(f"/v1/series/{self.id}/alerts")).alerts

    def wait(self, dates: int | None = None, *, timeout: float | None = None) -> SeriesStatus:
        """Wait until so many dates have come and their releases have ended; by default until the series has ended.

        Edge cases: returns also after `timeout` seconds, or when the series has ended before.
        """
        waited = 0.0
        while True:
            status = self.status()
            running = [each for each in status.releases if each.state in ACTIVE_QUERY]
            enough = dates is not None and status.passed - len(running) >= dates
            over = status.state not in OPEN_SERIES and not running
            if enough or over or (timeout is not None and waited >= timeout):
                return status
            pause = _LOOK if timeout is None else min(_LOOK, timeout - waited)
            self._fleet._sleep(pause)
            waited += pause

    def __repr__(self) -> str:
        return f"<SeriesHandle {self.id} at {self._fleet._connection.url}>"

    def _post(self, change: str) -> SeriesStatus:
        return decode(SeriesStatus, self._fleet._connection.post(f"/v1/series/{self.id}/{change}"))


def _checked(setting: str, id: str, hint: str) -> str:
    """An id that can stand in a path."""
    if not id or not id.isascii() or not id.replace("-", "").replace("_", "").isalnum():
        raise InvalidSetting(setting, f"must be the id of a {setting}", hint=hint)
    return id
