"""Which alerts of a series its page shows, and which of them stand."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from thresher.protocol.alert_messages import AlertStatus

MOST_OLDER = 6
"""How many alerts of earlier releases are shown, the newest."""


@dataclass(frozen=True, slots=True)
class ShownAlert:
    """An alert, and whether it stands: it is of the last release that its rule judged."""

    alert: AlertStatus
    stands: bool


def shown_alerts(newest_first: Sequence[AlertStatus], standing: Collection[str]) -> list[ShownAlert]:
    """Every alert that stands or is of the newest release with an alert, then the newest of the others.

    `standing` are the rules whose last judged release gave an alert. That alert is the newest one of its rule.
    """
    last: list[ShownAlert] = []
    older: list[ShownAlert] = []
    left = set(standing)
    for alert in newest_first:
        stands = alert.rule in left
        left.discard(alert.rule)
        is_last = stands or alert.index == newest_first[0].index
        (last if is_last else older).append(ShownAlert(alert, stands))
    return last + older[:MOST_OLDER]
