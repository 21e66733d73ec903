"""Synthetic data for experiments: how many of n units hold each bucket, and values for quantiles.

Counts are one multinomial draw over the buckets, never one draw a unit; the two have the same distribution.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thresher.errors import InvalidSetting
from thresher.privacy.settings import check_count

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]


def binomial(buckets: int, units: int, random: np.random.Generator) -> Counts:
    """Counts of units that each draw Binomial(B, 1/2), for B buckets.

    The values 0 to B are one more than there are buckets: the value B, of probability 2^-B, is folded into the last
    bucket, B − 1.
    Reference: paper, section 5.
    """
    from scipy.stats import binom

    size = check_count(buckets, setting="buckets", least=1)
    return _draw(_folded(binom.pmf(np.arange(size + 1), size, 0.5), size), units, random)


def geometric(buckets: int, units: int, random: np.random.Generator) -> Counts:
    """Counts of units that each draw Geometric(1/√B) on 1, 2, …; the value v goes to bucket v − 1.

    The tail, values above B, of probability (1 − 1/√B)^B, is folded into the last bucket.
    Reference: paper, section 5.
    """
    size = check_count(buckets, setting="buckets", least=1)
    rate = size**-0.5
    beyond = (1 - rate) ** size
    return _draw(_folded(np.append(rate * (1 - rate) ** np.arange(size), beyond), size), units, random)


def zipf(buckets: int, units: int, random: np.random.Generator, exponent: float = 1.0) -> Counts:
    """Counts of units that each draw bucket b with probability proportional to (b + 1)^−exponent.

    Edge cases: an exponent of 0 is uniform.
    """
    size = check_count(buckets, setting="buckets", least=1)
    if not 0 <= exponent <= 100:
        raise InvalidSetting("exponent", "must be from 0 to 100", hint="For example `exponent=1.0`.")
    weights = np.arange(1.0, size + 1) ** -exponent
    return _draw(weights / weights.sum(), units, random)


def log_normal(units: int, random: np.random.Generator, median: float = 100.0, spread: float = 1.0) -> Floats:
    """One value a unit, median · exp(spread · N(0, 1)): skewed, like waiting times."""
    if not 0 < median < np.inf:
        raise InvalidSetting("median", "must be above 0 and finite", hint="For example `median=100.0`.")
    if not 0 <= spread <= 100:
        raise InvalidSetting("spread", "must be from 0 to 100", hint="For example `spread=1.0`.")
    return random.lognormal(np.log(median), spread, check_count(units, setting="units"))


def uniform(units: int, random: np.random.Generator, lower: float = 0.0, upper: float = 1.0) -> Floats:
    """One value a unit, uniform from `lower` (included) to `upper` (excluded)."""
    if not -np.inf < lower < upper < np.inf:
        raise InvalidSetting("upper", "must be above `lower`, both finite", hint="For example `lower=0`, `upper=1`.")
    return random.uniform(lower, upper, check_count(units, setting="units"))


def _folded(probabilities: Floats, buckets: int) -> Floats:
    """The probabilities of the first buckets, everything from the last one on added to it."""
    return np.append(probabilities[: buckets - 1], probabilities[buckets - 1 :].sum())


def _draw(probabilities: Floats, units: int, random: np.random.Generator) -> Counts:
    # Rounding may leave the sum a few units in the last place above 1, which numpy refuses.
    return random.multinomial(check_count(units, setting="units"), probabilities / probabilities.sum())
