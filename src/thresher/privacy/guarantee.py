"""What a sampling rate and a threshold guarantee: the front door to the exact numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from thresher.privacy import composition, exact
from thresher.privacy.settings import (
    Adjacency,
    check_adjacency,
    check_contributions,
    check_delta,
    check_epsilon,
    check_rounds,
    check_threshold,
    upper_float,
)
from thresher.privacy.units import ROW, Unit


@dataclass(frozen=True, slots=True)
class Guarantee:
    """An (epsilon, delta) differential-privacy guarantee, against which change it protects, and whom.

    Args:
        epsilon, delta: the bounds of the guarantee.
        adjacency: "replace" hides what one unit holds, "add-remove" also that it takes part.
        rounds: over how many rounds together.
        unit: whom it protects; None where nobody has said yet what one unit is, as in a plan.
        contributions: how many values of one unit count in a round.

    Edge cases: a delta of 1 guarantees nothing, and both texts say so.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    rounds: int = 1
    unit: Unit | None = None
    contributions: int = 1

    def __str__(self) -> str:
        if not self.delta < 1:
            return "nothing is guaranteed (delta is 1)"
        rounds = "one round" if self.rounds == 1 else f"all {self.rounds} rounds together"
        whom = "" if self.unit is None else f", for {self.unit.one}"
        values = "" if self.contributions == 1 else f" of up to {self.contributions} values a unit"
        return f"({self.epsilon:g}, {self.delta:g})-differential privacy, {self.adjacency}, over {rounds}{values}{whom}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, with the promise in words."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "adjacency": self.adjacency,
            "rounds": self.rounds,
            "contributions": self.contributions,
            "unit": None if self.unit is None else str(self.unit),
            "words": str(self),
        }

    def for_unit(self, unit: Unit | None) -> Guarantee:
        """The same guarantee, for what one unit is."""
        return replace(self, unit=unit)

    def in_words(self) -> str:
        """The promise in sentences that need no mathematics."""
        if not self.delta < 1:
            return "Nothing is guaranteed (delta is 1)."
        one = "one unit" if self.unit is None else self.unit.one
        change = {
            "replace": f"had {one} held any other value{'s' * (self.contributions > 1)}",
            "add-remove": f"had {one} not taken part at all",
        }[self.adjacency]
        rows = " Each row is protected by itself: a person with several rows is protected less." * (self.unit == ROW)
        return (
            f"Whatever is released would have been almost as likely {change}: no outcome's probability "
            f"changes by more than a factor of {_rounded_up(math.exp(self.epsilon))} (epsilon = {self.epsilon:g}), "
            f"apart from events with a total probability of at most {self.delta:g} (delta).{rows}"
        )


def _rounded_up(factor: float) -> str:
    """The factor with two decimals, rounded up: a text must not promise more than holds."""
    return f"{math.ceil(100 * factor) / 100:g}" if factor < 1000 else f"{1.005 * factor:.3g}"


def delta(
    *,
    sampling_rate: float,
    threshold: int,
    epsilon: float,
    adjacency: Adjacency = "replace",
    rounds: int = 1,
    contributions: int = 1,
) -> float:
    """The delta that sampling at `sampling_rate` with `threshold` guarantees at `epsilon`.

    Guarantee: an upper bound, rounded outward. One round, add-remove: exact to a relative error of 1e-6. One round,
    replace: a proved bound within a few per cent of the supremum. Several rounds, each with fresh coins: the smallest
    of composed privacy losses (about 1e-4 above exact), basic and advanced composition. A round in which up to
    `contributions` distinct buckets of a unit count, each with its own coin, costs at most what so many rounds cost.
    Edge cases: a result too small for a float is given as the smallest positive one, never as zero.
    Reference: docs/privacy.md, sections 4 to 6.
    """
    rate, threshold = upper_float(sampling_rate), check_threshold(threshold)
    epsilon, adjacency = check_epsilon(epsilon), check_adjacency(adjacency)
    if (times := _times(rounds, contributions)) == 1:
        return exact.delta_from_log(exact.log_delta(rate, threshold, epsilon, adjacency))
    rounds_as_one = [composition.Rounds(rate, threshold, times)]
    return composition.compose(rounds_as_one, epsilon=epsilon, adjacency=adjacency).delta


def epsilon(
    *,
    sampling_rate: float,
    threshold: int,
    delta: float,
    adjacency: Adjacency = "replace",
    rounds: int = 1,
    contributions: int = 1,
) -> float:
    """The smallest epsilon at which sampling at `sampling_rate` with `threshold` guarantees `delta`.

    Guarantee: an upper bound, as for `delta`.
    Edge cases: infinite where delta is below the probability that a bucket of exactly τ units is sampled whole (p^τ in
    one round), or so little above it that outward rounding makes up the difference: no finite epsilon covers that
    event. Zero where delta alone already covers everything.
    """
    rate, threshold = upper_float(sampling_rate), check_threshold(threshold)
    delta, adjacency = check_delta(delta), check_adjacency(adjacency)
    if (times := _times(rounds, contributions)) == 1:
        return composition.epsilon_of_round(rate, threshold, delta, adjacency)
    rounds_as_one = [composition.Rounds(rate, threshold, times)]
    return composition.compose(rounds_as_one, delta=delta, adjacency=adjacency).epsilon


def _times(rounds: int, contributions: int) -> int:
    """How many rounds of one contribution cost as much."""
    rounds = check_rounds(rounds)
    return rounds * check_contributions(contributions, rounds)
