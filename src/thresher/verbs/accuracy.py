"""How far an answer may be off: what sampling, cells and the threshold each contribute, and bounds on all of it.

A fraction is read off two disjoint sets of buckets, inside and outside. Their sampled counts are independent binomials
of the same rate, so the inside count, given both, is that of a simple random sample. What was dropped only hides units:
each dropped bucket has at most τ − 1 sampled ones. Bounds take whichever of the possible counts is worse.

Everything here is computed from released counts and public settings.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

from thresher.charts.numbers import amount
from thresher.errors import InvalidSetting
from thresher.privacy.intervals import ends
from thresher.privacy.plans import Plan
from thresher.privacy.settings import check_probability

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Error:
    """Why an answer may be off, part by part. In ranks (fractions of all units) or, for counts, in units.

    `sampling` is the standard error of an answer from one sample, an estimate; averaging several makes it smaller.
    `resolution` is the estimated weight of the cell that the answer was
    interpolated in. `threshold` is how far dropped buckets can move the sampled answer: a bound that holds in every
    release, for an answer put together from as few buckets as possible; an answer from all levels of a hierarchy can be
    off by less. `bound` covers all three together: the answer is off by no more with probability `confidence`.
    """

    sampling: float
    resolution: float
    threshold: float
    bound: float
    confidence: float = CONFIDENCE


@dataclass(frozen=True, slots=True)
class Seen:
    """Released sampled counts inside and outside a set, and how many sampled units may be hidden on either side."""

    inside: int
    outside: int
    hidden_inside: int
    hidden_outside: int
    unevenness: float = 1.0
    """How many times more densely one part of the two sets may have been sampled than another."""

    @property
    def total(self) -> int:
        """The released sampled count on both sides."""
        return self.inside + self.outside

    @property
    def fraction(self) -> float:
        """The released share inside; NaN where nothing was released."""
        return self.inside / self.total if self.total else math.nan

    def lower(self, tail: float) -> float:
        """A fraction that the true one is below with probability at most `tail`: Clopper and Pearson's bound.

        Guarantee: conservative, since sampling without replacement has lighter tails (Uhlmann 1966). Where the sets
        were not sampled at one rate, the odds inside can be off by their ratio, and the bound moves by all of it.
        """
        from scipy.special import betaincinv

        if not self.inside:
            return 0.0
        return scaled_odds(
            float(betaincinv(self.inside, self.outside + self.hidden_outside + 1, tail)), 1 / self.unevenness
        )

    def upper(self, tail: float) -> float:
        """A fraction that the true one is above with probability at most `tail`."""
        from scipy.special import betainccinv

        if not self.outside:
            return 1.0
        return scaled_odds(
            float(betainccinv(self.inside + self.hidden_inside + 1, self.outside, tail)), self.unevenness
        )

    def threshold_error(self) -> float:
        """How far the hidden units can move the sampled fraction."""
        if not self.total:
            return 1.0
        least = self.inside / (self.total + self.hidden_outside)
        most = (self.inside + self.hidden_inside) / (self.total + self.hidden_inside)
        return max(self.fraction - least, most - self.fraction)


def scaled_odds(fraction: float, factor: float) -> float:
    """The fraction whose odds are `factor` times as large."""
    if factor == 1 or fraction in (0.0, 1.0):
        return fraction
    return fraction * factor / (1 - fraction + fraction * factor)


def rank_standard_error(fraction: float, total: int, sampling_rate: float) -> float:
    """Standard error of a sampled fraction: √((1−p)·F(1−F)/m), with m the released sampled count.

    Edge cases: 0.5, the largest there is, where nothing was released.
    """
    if not total:
        return 0.5
    return math.sqrt((1 - sampling_rate) * fraction * (1 - fraction) / total)


def count_standard_error(estimate: float, sampling_rate: float) -> float:
    """Standard error of count ÷ p for a set of about `estimate` units: √(k(1−p)/p)."""
    return math.sqrt(max(estimate, 0.0) * (1 - sampling_rate) / sampling_rate)


def count_bounds(
    plan: Plan, least: int, most: int, tail: float, rates: tuple[float, float] | None = None
) -> tuple[int, int]:
    """How many units a set may have whose sampled count is from `least` to `most`.

    `rates` are the lowest and the highest rate that parts of the set were sampled at, where not all at the plan's.

    Guarantee: each end is wrong with probability at most `tail`, by inverting the binomial law of the sampled count. A
    sum of binomials of several rates lies, stochastically, between those of the lowest and the highest; each end takes
    the worse.
    """
    slowest, fastest = rates or (plan.sampling_rate, plan.sampling_rate)
    return _count_bounds(slowest, fastest, least, most, tail)


# Levels of a hierarchy share cells, and every range that is read off one answer asks for the same counts again.
@functools.lru_cache(maxsize=4096)
def _count_bounds(slowest: float, fastest: float, least: int, most: int, tail: float) -> tuple[int, int]:
    lower, upper = ends(slowest, 0, [least, most], tail)
    if fastest > slowest:
        lower, _ = ends(fastest, 0, [least], tail)
    return int(lower[0]), int(upper[1])


@dataclass(frozen=True, slots=True)
class Quantile:
    """The number `value` that a part `probability` of all units is below.

    `interval` is where the true quantile lies. `rank` is which part of all units may truly be below `value`. Both hold
    with probability `error.confidence`; `error` says why, in ranks.
    """

    probability: float
    value: float
    interval: tuple[float, float]
    rank: tuple[float, float]
    error: Error

    @classmethod
    def unknown(cls, probability: float, lower: float, upper: float) -> Quantile:
        """The answer where nothing was released: not a number, somewhere between the bounds."""
        return cls(probability, math.nan, (lower, upper), (0.0, 1.0), Error(0.5, 1.0, 1.0, 1.0))


def check_quantile(value: object) -> float:
    """A probability strictly between 0 and 1."""
    return check_probability(value, setting="probabilities")


def check_bounds(lower: float, upper: float) -> tuple[float, float]:
    """Public bounds: finite numbers, the lower one below the upper, their distance finite too."""
    for setting, value in (("lower", lower), ("upper", upper)):
        if isinstance(value, bool) or not hasattr(value, "__float__"):
            raise InvalidSetting(setting, "must be a number", hint="Give public bounds: `lower=0`, `upper=60_000`.")
    try:
        low, high = float(lower), float(upper)
    except OverflowError:
        low = high = math.inf
    if not (low < high and math.isfinite(low) and math.isfinite(high) and math.isfinite(high - low)):
        raise InvalidSetting(
            "lower",
            "must be below `upper`, and both must be finite numbers",
            hint="For example `lower=0`, `upper=60_000`.",
        )
    return low, high


def clipped_in_words(lower: float, upper: float) -> str:
    """What a verb with public bounds does with values outside of them, as a sentence."""
    within = f"{amount(lower)} to {amount(upper)}"
    return f"Values outside {within} count as at the nearest bound: that is bias, which no interval shows."
