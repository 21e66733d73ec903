"""How many units all released buckets hold together, and so how many are in none of them.

Symbols: m buckets were released. Bucket i is held by k_i units and has the sampled count X_i ~ Bin(k_i, p) given
X_i ≥ τ; V is the sum of the sampled counts, K the sum of the k_i. Given which buckets were released, the X_i are
independent.

Reference: docs/privacy.md, section 9.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from thresher.privacy.conditional import conditional_reach
from thresher.privacy.intervals import ends
from thresher.privacy.visibility import smallest_visible

_LUCK = 1e-4
_SHARE = 1 / 50
"""The part of a tail that is spent on finding the buckets whose release was not as good as sure, half on each step."""


def total_interval(rate: float, threshold: int, sampled: ArrayLike, confidence: float) -> tuple[int, int]:
    """Smallest and largest number of units that all released buckets together are compatible with.

    Args:
        rate: p, the rate at which units were sampled.
        threshold: τ.
        sampled: the sampled counts of buckets that were released; all of them, or those of a public list.
        confidence: at least how often the interval contains K.

    Guarantee: for all k_i, given which buckets were released, the interval contains K with at least this probability.

    - Upper end: given release, X_i is stochastically larger than Bin(k_i, p), so V is larger than Bin(K, p), and the
      upper limit of a plain binomial holds.
    - Lower end: release is *sure* for k_i where Pr[Bin(k_i, p) < τ] ≤ η. There X_i equals a plain binomial but for a
      probability of η. For every other k_i, X_i is stochastically smaller than τ + Bin(k_i − τ, p): the first τ
      successes take at least τ trials. With g buckets of this second kind, V is smaller than gτ + Bin(K − gτ, p), and
      the larger g is, the smaller is the K that this allows. g is at most the number of counts below c, which a bucket
      of the second kind reaches, once released, with a probability of at most η. The errors, m·η twice and the
      binomial's, are together at most the tail.

    Edge cases: (0, 0) where nothing was released. Close to a plain binomial interval where all counts are far above τ;
    a bucket whose count is below c, about τ + 9√τ, puts the lower end down by up to τ(1−p)/p units. Where everybody is
    sampled the sum is the truth.
    """
    counts = np.asarray(sampled, dtype=np.int64)
    total, tail = int(counts.sum()), (1.0 - confidence) / 2
    if not len(counts) or rate == 1:
        return total, total
    _, (upper,) = ends(rate, 0, [total], tail)
    error = tail * _SHARE / (2 * len(counts))
    near = int((counts < surely_released(rate, threshold, error)).sum())
    (lower,), _ = ends(rate, 0, [total - near * threshold], tail * (1 - _SHARE))
    return min(int(lower) + near * threshold, int(upper)), int(upper)


def seen_by_luck(rate: float, threshold: int, sampled: ArrayLike) -> bool:
    """Whether what these counts are of might as well not have been seen at all: none is far above the threshold.

    Then an interval must hold given that something was released. Where one count is as high as this function asks,
    something would have been released but for a probability of 1e-4 or less, which makes no difference.
    """
    counts = np.asarray(sampled, dtype=np.int64)
    return bool(len(counts)) and rate < 1 and int(counts.max()) < surely_released(rate, threshold, _LUCK)


def surely_released(rate: float, threshold: int, error: float) -> int:
    """A sampled count c that a bucket reaches, once released, with probability `error` at most if Pr[X < τ] > error."""
    largest = smallest_visible(rate, threshold, 1 - error) - 1
    if largest < threshold:
        return threshold

    def rarely(count: int) -> bool:
        return float(conditional_reach(largest, count, threshold, rate)) <= error

    low, high = threshold, threshold + 1  # reached with certainty at the threshold
    while not rarely(high):
        low, high = high, 2 * high - threshold
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if rarely(middle) else (middle, high)
    return high
