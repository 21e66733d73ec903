"""What will be seen: which buckets are released, with what error, and what a released count says.

All exact, from the binomial law of a bucket's sampled count X_k ~ Bin(k, p) and the threshold τ.
Reference: docs/privacy.md, section 8.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thresher.privacy.binomial import Floats, miss, reach

Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


def seen_probability(rate: float, threshold: int, count: float) -> float:
    """Probability that a bucket held by `count` units is released: Pr[X ≥ τ]."""
    return float(reach(count, threshold, rate))


def smallest_visible(rate: float, threshold: int, probability: float) -> int:
    """The smallest bucket that is released with at least the given probability."""
    low, high = threshold - 1, threshold
    while seen_probability(rate, threshold, high) < probability:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if seen_probability(rate, threshold, middle) < probability:
            low = middle
        else:
            high = middle
    return high


def visible_size(rate: float, threshold: int, probability: float) -> float:
    """Like `smallest_visible`, but a real number, so that neighbouring thresholds can be compared."""
    from scipy import optimize

    if seen_probability(rate, threshold, threshold) >= probability:
        return float(threshold)
    high = 2 * (threshold + 20) / rate
    while seen_probability(rate, threshold, high) < probability:
        high *= 2
    return float(
        optimize.brentq(lambda size: seen_probability(rate, threshold, size) - probability, threshold, high, rtol=1e-12)
    )


def relative_error(rate: float, threshold: int, count: int) -> float:
    """Root mean square error of a bucket's estimate, over its count; a bucket that is dropped counts as zero.

    Edge cases: close to 1 where the bucket is hardly ever released, sqrt((1−p)/(p·count)) where it always is.
    """
    mean = count * rate
    once = float(reach(count - 1, threshold - 1, rate))
    twice = float(reach(count - 2, threshold - 2, rate))
    lost = float(miss(count, threshold, rate))
    # E[(X/p − k)²; X ≥ τ] + k²·Pr[X < τ], each moment of X as a tail of a smaller binomial.
    second = mean * (count - 1) * rate * twice + mean * once
    squared = (second - 2 * mean * mean * once) / rate**2 + count**2 * (1 - lost) + count**2 * lost
    return math.sqrt(max(squared, 0.0)) / count


def intervals(rate: float, threshold: int, sampled: ArrayLike, confidence: float) -> tuple[Integers, Integers]:
    """Smallest and largest number of units that a released sampled count is compatible with.

    Guarantee: for every k, given that a bucket of k units *is released*, the interval contains k with probability at
    least `confidence`. It inverts the two one-sided tests of the binomial truncated at τ; near the threshold the
    untruncated interval would miss far more often, since only lucky draws are seen there.
    Edge cases: a count equal to τ has the lower end τ: any smaller sample would not be here.
    """
    values, inverse = np.unique(np.asarray(sampled, dtype=np.int64), return_inverse=True)
    tail = (1.0 - confidence) / 2
    ends = np.empty((2, len(values)))
    # Far above τ a bucket is released as good as surely, and conditioning on it changes nothing.
    far = values > threshold + 15 * math.sqrt(threshold) + 60
    for part, conditional in ((~far, True), (far, False)):
        ends[:, part] = _ends(rate, threshold, values[part].astype(np.float64), tail, conditional)
    lower, upper = ends.astype(np.int64)
    return lower[inverse], upper[inverse]


def _ends(rate: float, threshold: int, count: Floats, tail: float, conditional: bool) -> tuple[Floats, Floats]:
    """The smallest and the largest k that are compatible with each sampled count."""

    def released(k: Floats) -> Floats:
        return reach(k, threshold, rate) if conditional else np.ones_like(k)

    def plausible_from_below(k: Floats) -> Booleans:
        """Whether a bucket of k units, once released, shows at least this count often enough."""
        return np.asarray(reach(k, count, rate) > tail * released(k))

    def implausible_from_above(k: Floats) -> Booleans:
        """Whether a bucket of k units, once released, hardly ever shows as little as this count."""
        at_most = miss(k, count + 1, rate)
        if conditional:
            at_most = at_most - miss(k, threshold, rate)
        return np.asarray(at_most <= tail * released(k))

    from scipy import special

    farthest = np.ceil((count + 40 + 12 * np.sqrt(count)) / rate)
    z = float(special.ndtri(1 - tail))
    guess = (count + z * z * (1 - rate) / 2) / rate
    spread = z * np.sqrt(count * (1 - rate) + (z * (1 - rate) / 2) ** 2) / rate
    lower = _first_true(plausible_from_below, count - 1, farthest, guess - spread)
    upper = _first_true(implausible_from_above, count, farthest, guess + spread) - 1
    return lower, upper


def _first_true(test: Callable[[Floats], Booleans], low: Floats, high: Floats, guess: Floats) -> Floats:
    """For each entry, the smallest whole k in (low, high] at which a test that turns true once is true.

    `guess` only saves time: a narrow bracket around it is used where the test confirms it.
    """
    width = np.ceil(4 + 0.02 * np.abs(high - low) ** 0.5)
    left = np.clip(np.floor(guess) - width, low, high)
    right = np.clip(np.ceil(guess) + width, low + 1, high)
    above, below = test(np.maximum(left, low + 1)), test(right)
    low, high = np.where(above | (left <= low), low, left), np.where(above & (left > low), left, high)
    high, low = np.where(below, np.minimum(high, right), high), np.where(below, low, np.maximum(low, right))
    while True:
        middle = np.floor((low + high) / 2)
        between = (low < middle) & (middle < high)  # above 2^53 there are gaps, with no float to go on with
        if not between.any():
            return high
        true = test(middle)
        low, high = np.where(between & ~true, middle, low), np.where(between & true, middle, high)
