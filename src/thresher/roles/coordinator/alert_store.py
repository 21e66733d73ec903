"""What the coordinator keeps of alerts: the rules of each series, what they found, and what is still to be sent."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace

from thresher.errors import Conflict
from thresher.protocol.states import OPEN_SERIES, DeliveryState, QueryState
from thresher.roles.database.database import Row, Store, is_name, marks

_RULE = "id, series, rule, webhook, asked_by, created, judged, problem"
_ALERT = "id, series, rule, number, words, found, findings, more, webhook, delivery, tries, next_try"


@dataclass(frozen=True, slots=True)
class StoredRule:
    """A rule of a series. `rule` is JSON."""

    id: str
    series: str
    rule: str
    webhook: str | None
    by: str
    created: float
    judged: int = -1
    """The last date whose release was judged, from 0; -1 before the first."""
    problem: str | None = None
    """Why the last release could not be judged."""


@dataclass(frozen=True, slots=True)
class StoredAlert:
    """What a rule found in the release of one date. `findings` is JSON."""

    id: str
    series: str
    rule: str
    number: int
    words: str
    found: float
    findings: str
    more: int
    webhook: str | None = None
    delivery: DeliveryState | None = None
    tries: int = 0
    next_try: float | None = None


@dataclass(frozen=True, slots=True)
class RuleNumbers:
    """How many alerts a rule gave, and whether the last release that it judged gave one."""

    series: str
    rule: str
    alerts: int
    standing: bool


class AlertTables(Store):
    """Rules and alerts. A rule and a date have one alert at most.

    Guarantee: each method is one transaction, durable when it returns.
    """

    def add_rule(self, rule: StoredRule, most: int) -> StoredRule:
        """Store a rule of a series that is there, unless it is stored already; returns the stored rule.

        It judges the releases that are done later. `Conflict` if the series has `most` rules.
        """
        with self._database.transaction() as transaction:
            transaction.execute(
                "UPDATE series SET passed = passed WHERE id = ?", (rule.series,)
            )  # takes the row's lock
            [(number,)] = transaction.fetch(
                "SELECT COUNT(*) FROM rules WHERE series = ? AND id <> ?", (rule.series, rule.id)
            )
            if number >= most:
                raise Conflict(f"This series has {most} rules, which is as many as it may have.", hint="Remove one.")
            [(last,)] = transaction.fetch(
                "SELECT COALESCE(MAX(number), -1) FROM queries WHERE series = ? AND state = ?",
                (rule.series, QueryState.DONE),
            )
            values = (*astuple(rule)[:-2], last, None)
            transaction.execute(
                f"INSERT INTO rules ({_RULE}) VALUES ({marks(values)}) ON CONFLICT (id) DO NOTHING",  # noqa: S608
                values,
            )
            [row] = transaction.fetch(f"SELECT {_RULE} FROM rules WHERE id = ?", (rule.id,))  # noqa: S608
            return StoredRule(*row)

    def remove_rule(self, series: str, id: str) -> bool:
        """Remove a rule; its alerts stay, and what waits to be sent for it is given up. Whether there was one."""
        if not is_name(id) or not is_name(series):
            return False
        with self._database.transaction() as transaction:
            gone = transaction.execute("DELETE FROM rules WHERE id = ? AND series = ?", (id, series))
            if gone:
                transaction.execute(
                    "UPDATE alerts SET delivery = ? WHERE rule = ? AND delivery = ?",
                    (DeliveryState.GIVEN_UP, id, DeliveryState.WAITING),
                )
            return gone == 1

    def rules(self, series: str) -> list[StoredRule]:
        """The rules of a series, oldest first."""
        rows = self._find(f"SELECT {_RULE} FROM rules WHERE series = ? ORDER BY created, id", series)  # noqa: S608
        return [StoredRule(*row) for row in rows]

    def rule_numbers(self, series: str | None = None) -> list[RuleNumbers]:
        """The numbers of every rule, or of those of a series."""
        wanted, parameters = ("", ()) if series is None else ("WHERE rules.series = ? ", (series,))
        rows = self._fetch(
            "SELECT rules.series, rules.id, COUNT(alerts.id), "  # noqa: S608
            "COALESCE(MAX(CASE WHEN alerts.number = rules.judged THEN 1 ELSE 0 END), 0) "
            f"FROM rules LEFT JOIN alerts ON alerts.rule = rules.id {wanted}"
            "GROUP BY rules.series, rules.id ORDER BY rules.series, rules.id",
            *parameters,
        )
        return [RuleNumbers(series, rule, int(number), bool(standing)) for series, rule, number, standing in rows]

    def series_to_judge(self) -> set[str]:
        """The series that have a release which one of their rules has not judged."""
        rows = self._fetch(
            "SELECT DISTINCT rules.series FROM rules JOIN queries "
            "ON queries.series = rules.series AND queries.number > rules.judged WHERE queries.state = ?",
            QueryState.DONE,
        )
        return {series for (series,) in rows}

    def store_judgement(
        self, rule: str, number: int, alert: StoredAlert | None, problem: str | None, *, most_waiting: int
    ) -> bool:
        """Note that a rule judged the release of a date, with the alert that it gave; False if it had done so before.

        An alert is not sent while `most_waiting` others wait to be sent to the same webhook.
        """
        with self._database.transaction() as transaction:
            first = transaction.execute(
                "UPDATE rules SET judged = ?, problem = ? WHERE id = ? AND judged < ?", (number, problem, rule, number)
            )
            if not first or alert is None:
                return first == 1
            delivery = alert.delivery
            if delivery == DeliveryState.WAITING:
                [(waiting,)] = transaction.fetch(
                    "SELECT COUNT(*) FROM alerts WHERE delivery = ? AND webhook = ?", (delivery, alert.webhook)
                )
                delivery = DeliveryState.GIVEN_UP if waiting >= most_waiting else delivery
            values = (*astuple(alert)[:-3], delivery, *astuple(alert)[-2:])
            transaction.execute(
                f"INSERT INTO alerts ({_ALERT}) VALUES ({marks(values)}) ON CONFLICT (rule, number) DO NOTHING",  # noqa: S608
                values,
            )
            return True

    def alerts(self, series: str, most: int) -> list[StoredAlert]:
        """The alerts of a series, newest first."""
        rows = self._find(
            f"SELECT {_ALERT} FROM alerts WHERE series = ? ORDER BY number DESC, id LIMIT {most:d}",  # noqa: S608
            series,
        )
        return _alerts(rows)

    def alert_number(self, series: str) -> int:
        """How many alerts a series has, those of removed rules included."""
        [(number,)] = self._fetch("SELECT COUNT(*) FROM alerts WHERE series = ?", series)
        return int(number)

    def standing_alerts(self, most_series: int) -> tuple[list[StoredAlert], int]:
        """The alerts that stand, of at most so many series that may still ask; and how many such series there are.

        An alert stands if it is of the last release that its rule judged. The series with the newest alert comes first,
        with all its alerts, newest first.
        """
        columns = ", ".join(f"alerts.{name}" for name in _ALERT.split(", "))
        standing = (
            "FROM alerts JOIN rules ON rules.id = alerts.rule AND rules.judged = alerts.number "
            f"JOIN series ON series.id = alerts.series WHERE series.state IN ({marks(OPEN_SERIES)})"
        )
        rows = self._fetch(
            f"SELECT {_ALERT} FROM (SELECT dated.*, DENSE_RANK() OVER (ORDER BY newest DESC, series) AS place "  # noqa: S608
            f"FROM (SELECT {columns}, MAX(alerts.found) OVER (PARTITION BY alerts.series) AS newest {standing}) "
            "AS dated) AS ranked WHERE place <= ? ORDER BY place, found DESC, id",
            *OPEN_SERIES,
            most_series,
        )
        [(number,)] = self._fetch(f"SELECT COUNT(DISTINCT alerts.series) {standing}", *OPEN_SERIES)
        return _alerts(rows), int(number)

    def due_deliveries(self, now: float, most: int, each: int) -> list[StoredAlert]:
        """The alerts that are to be sent now, the one that has waited longest first; at most `each` of a webhook.

        A webhook that takes nothing has its own place in the queue, and not that of others.
        """
        rows = self._fetch(
            f"SELECT {_ALERT} FROM (SELECT {_ALERT}, ROW_NUMBER() OVER (PARTITION BY webhook ORDER BY next_try, id) "  # noqa: S608
            "AS place FROM alerts WHERE delivery = ? AND next_try <= ?) AS due WHERE place <= ? "
            "ORDER BY next_try, id LIMIT ?",
            DeliveryState.WAITING,
            now,
            each,
            most,
        )
        return _alerts(rows)

    def delivery_numbers(self) -> dict[DeliveryState, int]:
        """How many messages to webhooks are in each state."""
        rows = self._fetch("SELECT delivery, COUNT(*) FROM alerts WHERE delivery IS NOT NULL GROUP BY delivery")
        found = {DeliveryState(state): int(number) for state, number in rows}
        return {state: found.get(state, 0) for state in DeliveryState}

    def note_delivery(self, alert: str, state: DeliveryState, next_try: float | None = None) -> None:
        """Note how a try to send an alert ended, if it was still to be sent."""
        with self._database.transaction() as transaction:
            transaction.execute(
                "UPDATE alerts SET delivery = ?, next_try = ?, tries = tries + 1 WHERE id = ? AND delivery = ?",
                (state, next_try, alert, DeliveryState.WAITING),
            )


def _alerts(rows: list[Row]) -> list[StoredAlert]:
    found = [StoredAlert(*row) for row in rows]
    return [each if each.delivery is None else replace(each, delivery=DeliveryState(each.delivery)) for each in found]
