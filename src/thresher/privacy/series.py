"""Plans for a series: one query asked again and again, under one total guarantee.

The same plan is drawn every time and the number of releases is fixed in advance, so all rounds of all releases are
composed exactly: a series of N releases of r rounds is planned as N·r rounds.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace

from thresher.errors import InvalidSetting, Unreachable
from thresher.privacy import guarantee
from thresher.privacy.planner import make_plan
from thresher.privacy.plans import Plan
from thresher.privacy.settings import MAX_ROUNDS, check_rounds

SMALLEST_EPSILON = 1e-4
"""What one release states at least; a smaller epsilon would make its guarantee slow to recompute."""


@dataclass(frozen=True, slots=True)
class SeriesPlan:
    """What all releases of a series guarantee together, and what each one guarantees by itself.

    Both have the same sampling rate and threshold. `total.rounds` is the number of releases times `release.rounds`.
    """

    total: Plan
    release: Plan

    @property
    def releases(self) -> int:
        """How many releases there are."""
        return self.total.rounds // self.release.rounds


def plan_series(
    epsilon: float | None, delta: float | None, *, releases: int, rounds: int = 1, contributions: int = 1
) -> SeriesPlan:
    """The best plan for so many releases of so many rounds, which together cost (epsilon, delta).

    Guarantee: all releases together are (epsilon, delta)-differentially private, by exact composition. Each release
    states the epsilon that it has by itself at delta ÷ releases.
    """
    total = make_plan(epsilon, delta, rounds=rounds_in_all(releases, rounds), contributions=contributions)
    return SeriesPlan(total, one_release(total, releases))


def repeat_plan(release: Plan, releases: int, delta: float | None = None) -> SeriesPlan:
    """What a plan for one release guarantees if it is drawn so many times.

    `delta` is the total delta; by default the sum of the releases' deltas. The total epsilon is computed for it.
    """
    rounds = rounds_in_all(releases, release.rounds)
    allowed = min(releases * release.delta, math.nextafter(1.0, 0.0)) if delta is None else delta
    reached = guarantee.epsilon(
        sampling_rate=release.sampling_rate,
        threshold=release.threshold,
        delta=allowed,
        adjacency=release.adjacency,
        rounds=rounds,
        contributions=release.contributions,
    )
    if not reached <= 100:
        raise Unreachable(
            "The releases of this plan together have no epsilon of at most 100 at this delta.",
            hint="Raise delta, ask for fewer releases, or let epsilon and delta choose the plan.",
        )
    return SeriesPlan(replace(release, epsilon=max(reached, SMALLEST_EPSILON), delta=allowed, rounds=rounds), release)


@functools.lru_cache(maxsize=256)  # as plans are: pages and requests ask for the same series again and again
def one_release(total: Plan, releases: int) -> Plan:
    """What one of so many equal releases guarantees by itself, at its share of the total delta.

    Edge cases: where no epsilon fits that share, it is what all of them guarantee.
    """
    rounds, share = total.rounds // releases, total.delta / releases
    reached = guarantee.epsilon(
        sampling_rate=total.sampling_rate,
        threshold=total.threshold,
        delta=share,
        adjacency=total.adjacency,
        rounds=rounds,
        contributions=total.contributions,
    )
    if not reached <= total.epsilon:
        return replace(total, rounds=rounds)
    return replace(total, epsilon=max(reached, SMALLEST_EPSILON), delta=share, rounds=rounds)


def rounds_in_all(releases: int, rounds: int) -> int:
    """The rounds of all releases; `InvalidSetting` if they are more than can be composed."""
    releases, rounds = check_rounds(releases, setting="releases"), check_rounds(rounds)
    if not releases * rounds <= MAX_ROUNDS:
        raise InvalidSetting(
            "releases",
            f"times {rounds} rounds each must be at most {MAX_ROUNDS:,}",
            hint="Ask less often, for fewer releases, or with fewer rounds.",
        )
    return releases * rounds
