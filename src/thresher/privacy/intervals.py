"""What a released count says: how many units may hold the bucket.

Reference: docs/privacy.md, section 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thresher.privacy.binomial import Floats, miss, reach
from thresher.privacy.conditional import conditional_at_most, conditional_reach

Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]
Test = Callable[[Floats, Integers], Booleans]
"""Whether something holds for the number of units k, for the entries of the sampled counts with these indices."""

SLACK = 1e-9
"""More than the relative error of a tail; a k this close to the edge is kept."""

_LARGEST = float(np.nextafter(2.0**63, 0))


def intervals(rate: float, threshold: int, sampled: ArrayLike, confidence: float) -> tuple[Integers, Integers]:
    """Smallest and largest number of units that a released sampled count is compatible with.

    Guarantee: for every k, given that a bucket of k units *is released*, the interval contains k with probability at
    least `confidence`. It inverts the two one-sided tests of the binomial truncated at τ; near the threshold the
    untruncated interval would miss far more often, since only lucky draws are seen there. The lower end is at most the
    upper one, and neither decreases when the count increases.
    Edge cases: a count equal to τ has the lower end τ: any smaller sample would not be here. Where τ(1−p) is above a
    thousand, the interval of a count right at τ lies below count ÷ p: a smaller bucket with a lucky sample is more
    plausible there. A threshold of 0 conditions on nothing. Where everybody is sampled the count is the truth. Ends are
    cut off at 2^63.
    """
    return ends(rate, threshold, sampled, (1.0 - confidence) / 2)


def ends(rate: float, threshold: int, sampled: ArrayLike, tail: float) -> tuple[Integers, Integers]:
    """`intervals` whose ends are each wrong with probability at most `tail`, given release."""
    values, inverse = np.unique(np.asarray(sampled, dtype=np.int64), return_inverse=True)
    if rate == 1:
        return values[inverse], values[inverse]
    count = values.astype(np.float64)
    found = np.empty((2, len(values)))
    far = _far(count, threshold, tail)
    for part, least in ((~far, threshold), (far, 0)):
        found[:, part] = _ends(rate, least, count[part], tail)
    lower, upper = in_order(*found)
    return lower[inverse], upper[inverse]


def in_order(lower: Floats, upper: Floats) -> tuple[Integers, Integers]:
    """The ends for rising counts as whole numbers: no end decreases, and no lower end is above its upper end.

    Rounding must not swap the two ends, nor put the ends of a larger count lower: the wider interval is taken.
    """
    low = np.minimum.accumulate(np.minimum(lower, upper)[::-1])[::-1]
    high = np.maximum.accumulate(np.maximum(lower, upper))
    return np.minimum(low, _LARGEST).astype(np.int64), np.minimum(high, _LARGEST).astype(np.int64)


def _far(count: Floats, threshold: int, tail: float) -> Booleans:
    """Counts so far above τ that every bucket they are compatible with is released as good as surely.

    By Chernoff's bound a k with Pr[X_k ≥ v] > tail has k·p ≥ v − √(2v·ln(1/tail)). If that is at least τ + 9√v, the
    same bound gives Pr[X_k < τ] ≤ exp(−9²/2) < 1e-17: conditioning on release changes less than the slack.
    """
    reached = count - (math.sqrt(2 * math.log(1 / tail)) + 9) * np.sqrt(count)
    return np.asarray((reached >= threshold) | (threshold <= 0))


def _ends(rate: float, threshold: int, count: Floats, tail: float) -> tuple[Floats, Floats]:
    """The smallest and the largest k that are compatible with each sampled count."""
    if not len(count):
        return count, count

    def plausible_from_below(k: Floats, which: Integers) -> Booleans:
        """Whether a bucket of k units, once released, shows at least this count often enough."""
        v = count[which]
        at_least = conditional_reach(k, v, threshold, rate) if threshold else reach(k, v, rate)
        return np.asarray(at_least * (1 + SLACK) > tail)

    def implausible_from_above(k: Floats, which: Integers) -> Booleans:
        """Whether a bucket of k units, once released, hardly ever shows as little as this count."""
        v = count[which]
        at_most = conditional_at_most(k, v, threshold, rate) if threshold else miss(k, v + 1, rate)
        return np.asarray(at_most * (1 + SLACK) <= tail)

    lower = _first_true(plausible_from_below, count, _waiting_time(count, rate, tail))
    upper = _first_true(implausible_from_above, count + 1, _waiting_time(count + 1, rate, 1 - tail)) - 1
    return lower, upper


def _waiting_time(successes: Floats, rate: float, probability: float) -> Floats:
    """About how many trials it takes, with this probability, to have so many successes: Cornish and Fisher's expansion.

    It tells the search where to start; it is mostly right to the unit for 100 successes and more.
    """
    from scipy.special import ndtri

    r = np.maximum(successes, 1.0)
    z = float(ndtri(probability))
    spread = np.sqrt(r * (1 - rate))
    skewness = (2 - rate) / spread
    excess = 6 / r + (rate / spread) ** 2
    quantile = (
        z + (z * z - 1) * skewness / 6 + (z**3 - 3 * z) * excess / 24 - (2 * z**3 - 5 * z) * skewness * skewness / 36
    )
    return np.asarray(np.ceil((r + spread * quantile) / rate - 0.5))


def _first_true(test: Test, least: Floats, guess: Floats) -> Floats:
    """For each entry, the smallest whole k ≥ least at which a test that turns true once is true.

    It walks from the guess with steps that double until it has passed that k, and then halves.
    """
    every = np.arange(len(least))
    start = np.clip(guess, least, 2.0**62)
    down = test(start, every)
    false, true = np.where(down, least - 1, start), np.where(down, start, np.inf)
    walking, step = every[~down | (start > least)], 1.0
    while len(walking):
        probe = np.where(down[walking], np.maximum(true[walking] - step, least[walking]), false[walking] + step)
        passed = test(probe, walking)
        true[walking] = np.where(passed, probe, true[walking])
        false[walking] = np.where(passed, false[walking], probe)
        walking = walking[(passed != ~down[walking]) & (probe > least[walking])]
        step *= 2
    while True:
        middle = np.floor((false + true) / 2)
        between = every[(false < middle) & (middle < true)]  # above 2^53 there are gaps, with no float to go on with
        if not len(between):
            return true
        probe = middle[between]
        passed = test(probe, between)
        true[between] = np.where(passed, probe, true[between])
        false[between] = np.where(passed, false[between], probe)
