"""What a histogram does not show: how many units are in none of its released buckets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from thresher.errors import Hint, InvalidSetting, NotReleased
from thresher.mechanism.release import Release
from thresher.privacy.settings import check_count
from thresher.privacy.totals import total_interval


@dataclass(frozen=True, slots=True)
class Other:
    """How many of all units are in no released bucket, estimated, with an interval.

    Units are among them whose bucket was dropped and units that have no bucket at all: without a value, or outside the
    filter. How many are of which kind is not public.

    Guarantee: given which buckets were released, `interval` contains the true number with a probability of at least
    the release's confidence. It is post-processing of the release and of the public number of units.
    """

    estimate: float
    interval: tuple[int, int]
    units: int
    """How many units there are."""
    what: str
    """Which of them are meant, in words."""
    whom: str
    """What units are called in a sentence."""

    def in_words(self) -> str:
        """For example "everything below the threshold or without a value: 1,234 units, 1,100 to 1,350"."""
        return f"{self.what}: {self.estimate:,.0f} {self.whom}, {self.interval[0]:,} to {self.interval[1]:,}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "estimate": self.estimate,
            "lower": self.interval[0],
            "upper": self.interval[1],
            "units": self.units,
        }


def other_of(release: Release, what: str, units: int | None = None) -> Other:
    """The units that are in none of a release's rows; `what` says in words which they are.

    `units` is how many there are, where the release does not say it.

    Raises `NotReleased` where that number is not public or not known, and where a unit may be in several buckets.
    Edge cases: all units, exactly, where nothing was released. Numbers below zero are zero.
    """
    if release.adjacency != "replace":
        raise NotReleased(
            "How many units there are is not public under add-remove, and so the rest is not known.",
            hint="Plan with `adjacency='replace'`, which hides what a unit holds and not how many units there are.",
        )
    if release.plan.contributions > 1:
        raise NotReleased(
            "A unit may be in several buckets here, so the rest does not follow from the counts.",
            hint="Ask with `contributions=1`, where a unit is in one bucket.",
        )
    everyone = release.everyone if units is None else check_count(units, setting="units")
    if everyone is None:
        raise NotReleased(
            "How many units there are is not known of this table, and so the rest is not.",
            hint=Hint(
                "It is public under replace-one: count the units.",
                python="Give their number, which is public under replace-one: h.other_among(1_000_000).",
            ),
        )
    if units is not None and units < int(release.counts.sum()):
        raise InvalidSetting("units", "are fewer than the sample has", hint="Count all units, whatever they hold.")
    least, most = total_interval(release.rate, release.plan.threshold, release.counts, release.confidence)
    estimate = everyone - float(release.counts.sum()) / release.rate
    ends = max(everyone - most, 0), max(everyone - least, 0)
    return Other(max(estimate, 0.0), ends, everyone, what, "units" if release.response is None else "devices")
