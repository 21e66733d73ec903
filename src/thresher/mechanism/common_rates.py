"""Several rounds of one answer on one scale: the numbers of all of them stand for the same devices.

The rounds of a query may be asked of very different numbers of devices: one round closes early, another is open by day.
All numbers of an answer stand for the devices of the round that was asked of the most. A device that another round did
not ask is taken for one that did not complete it; those that did are taken for a random part, as in one round.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thresher.mechanism.release import Release, ReleasedBucket
from thresher.privacy.intervals import intervals

LEAST_RATE = 0.5
"""A round saw enough devices to be relied on if its rate is at least this part of the highest rate of the answer."""


def common_rates(releases: Sequence[Release]) -> tuple[float, ...]:
    """The part that each round sampled of the devices of the round that asked the most; of a table, the plan's p.

    Guarantee: the same as `Release.rate` where every round asked equally many devices and some completed each.
    Edge cases: a round that nobody completed counts as if one device had, so that the rate is above 0. A bound of what
    such a round dropped is then larger than the number of all devices, and so it holds.
    """
    most = max((release.response.asked for release in releases if release.response is not None), default=0)
    return tuple(
        release.rate
        if release.response is None or not most
        else release.response.kept_rate * max(release.response.completed, 1) / most
        for release in releases
    )


def rows_at(release: Release, rate: float, confidence: float | None = None) -> list[ReleasedBucket]:
    """The rows of a release with the estimates and intervals that its counts have at this rate.

    Edge cases: at the release's own rate these are the rows as they are; without a confidence it is the release's.
    """
    confidence = release.confidence if confidence is None else confidence
    if rate == release.rate:
        estimates, ends = release.estimates, release.intervals_at(confidence)
    else:
        counts = release.counts
        estimates = counts / rate
        ends = np.column_stack(intervals(rate, release.plan.threshold, counts, confidence))
    rows = zip(release.buckets, release.counts.tolist(), estimates.tolist(), ends.tolist(), strict=True)
    return [ReleasedBucket(bucket, count, estimate, (lower, upper)) for bucket, count, estimate, (lower, upper) in rows]
