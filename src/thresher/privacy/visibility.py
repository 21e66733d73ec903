"""What will be seen: which buckets are released, and with what error.

All exact, from the binomial law of a bucket's sampled count X_k ~ Bin(k, p) and the threshold τ.
Reference: docs/privacy.md, section 9.
"""

from __future__ import annotations

import math

from thresher.privacy.binomial import log_point, miss, reach


def seen_probability(rate: float, threshold: int, count: float) -> float:
    """Probability that a bucket held by `count` units is released: Pr[X ≥ τ]."""
    return float(reach(count, threshold, rate))


def smallest_visible(rate: float, threshold: int, probability: float) -> int:
    """The smallest bucket that is released with at least the given probability."""
    low, high = threshold - 1, threshold
    while not _seen_often(rate, threshold, high, probability):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if _seen_often(rate, threshold, middle, probability):
            high = middle
        else:
            low = middle
    return high


def _seen_often(rate: float, threshold: int, count: int, probability: float) -> bool:
    """Whether Pr[X ≥ τ] is at least the probability: by the smaller tail, which floats resolve much more finely."""
    if probability > 0.5:
        return float(miss(count, threshold, rate)) <= 1 - probability
    return float(reach(count, threshold, rate)) >= probability


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
    # With f the point probabilities, (x − kp)·f(x) = (1−p)·(x·f(x) − (x+1)·f(x+1)). Summed from τ on, it leaves
    # E[(X − kp)²; X ≥ τ] = (1−p)·(τ(τ − kp)·f(τ) + kp·Pr[X_{k−1} ≥ τ]), which does not cancel as moments of X would.
    edge = threshold * (threshold - mean) * math.exp(float(log_point(count, threshold, rate)))
    released = (1 - rate) * (edge + mean * float(reach(count - 1, threshold, rate)))
    return math.sqrt(max(released, 0.0) / mean**2 + float(miss(count, threshold, rate)))
