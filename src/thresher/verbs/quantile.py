"""One quantile and its error, whichever way it was found; and the settings that every way takes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from thresher.errors import InvalidSetting
from thresher.privacy.settings import check_probability
from thresher.verbs.accuracy import Error


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
            raise InvalidSetting(setting, "must be a number", hint="Give public bounds: lower=0, upper=60_000.")
    low, high = float(lower), float(upper)
    if not (low < high and math.isfinite(low) and math.isfinite(high) and math.isfinite(high - low)):
        raise InvalidSetting(
            "lower", "must be below upper, and both must be finite numbers", hint="For example lower=0, upper=60_000."
        )
    return low, high
