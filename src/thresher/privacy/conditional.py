"""The law of a sampled count given that it was released: X_k ~ Bin(k, p) given X_k ≥ τ.

Symbols: S(v) = Pr[X_k ≥ v], F(v) = Pr[X_k ≤ v]. Where k is far below τ/p, both S(v) and S(τ) underflow: their quotient
is computed as that of two point probabilities times that of two continued fractions. Where k is near τ/p,
Pr[τ ≤ X_k ≤ v] is a difference: it is taken between F(v) and F(τ−1), or between S(τ) and S(v+1), whichever are smaller.

Reference: docs/privacy.md, section 9.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from thresher.privacy.binomial import Floats, miss, reach, stirling_error

_TINY = 1e-200
"""Below it a tail is not used as a number: what is divided by it may have underflowed."""

_ERROR = 1e-10
"""More than the relative error of a tail for counts up to 1e9; results are rounded up by it."""


def conditional_reach(trials: ArrayLike, least: ArrayLike, threshold: int, rate: float) -> Floats:
    """Pr[X_n ≥ least | X_n ≥ τ], for least ≥ τ.

    Guarantee: an upper bound, tight to a relative 1e-9 for counts up to 1e9, however small Pr[X_n ≥ τ] is.
    Edge cases: 0 for n < least.
    """
    n, v = np.broadcast_arrays(np.asarray(trials, dtype=np.float64), np.asarray(least, dtype=np.float64))
    released = reach(n, threshold, rate)
    rare = (n >= v) & (released < _TINY)
    quotient = reach(n, v, rate) / np.where(released < _TINY, 1.0, released)
    if rare.any():
        quotient[rare] = _rare_reach(n[rare], v[rare], threshold, rate)
    return np.minimum(quotient * (1 + 2 * _ERROR), 1.0)


def conditional_at_most(trials: ArrayLike, most: ArrayLike, threshold: int, rate: float) -> Floats:
    """Pr[X_n ≤ most | X_n ≥ τ], for most ≥ τ and n ≥ τ.

    Guarantee: an upper bound; what it is too large by is at most 1e-9 of the smaller of Pr[X_n ≤ most] and Pr[X_n ≥ τ],
    over Pr[X_n ≥ τ].
    """
    n, v = np.broadcast_arrays(np.asarray(trials, dtype=np.float64), np.asarray(most, dtype=np.float64))
    released, below = reach(n, threshold, rate), miss(n, threshold, rate)
    above, at_most = reach(n, v + 1, rate), miss(n, v + 1, rate)
    # Pr[τ ≤ X ≤ v] is F(v) − F(τ−1) and S(τ) − S(v+1).
    larger, smaller = (np.where(at_most < released, *pair) for pair in ((at_most, released), (below, above)))
    quotient = (larger - smaller + 2 * _ERROR * larger) / np.where(released < _TINY, 1.0, released)
    rare = released < _TINY
    if rare.any():
        quotient[rare] = 1.0 - _rare_reach(n[rare], v[rare] + 1, threshold, rate) + _ERROR
    return np.minimum(quotient * (1 + 2 * _ERROR), 1.0)


def _rare_reach(n: Floats, v: Floats, threshold: int, rate: float) -> Floats:
    """Pr[X_n ≥ v | X_n ≥ τ] where release is rare, so that n·p is far below τ ≤ v: no tail is computed itself."""
    points = np.exp(_log_point_quotient(n, v, threshold, rate))
    return points * _tail_fraction(n, v, rate) / _tail_fraction(n, np.full_like(v, threshold), rate)


def _log_point_quotient(n: Floats, v: Floats, threshold: int, rate: float) -> Floats:
    """ln(Pr[X_n = v] / Pr[X_n = τ]), with an absolute error of about 1e-15·(v − τ).

    With A = n − τ and m = v − τ it is m·ln(odds) + ln(A!/(A−m)!) − ln((τ+m)!/τ!). Both quotients of factorials come
    from Stirling's form, ln(A!/(A−m)!) = m·ln A − (A−m+½)·ln(1−m/A) − m + …, and their large parts m·ln(·) are put
    together first.
    Edge cases: 0 for v = τ, −inf for v > n.
    """
    rest = np.maximum(n - threshold, 1.0)
    more = np.minimum(v - threshold, rest)
    top = threshold + more
    # (A−m)! is 1! as well as 0!, where Stirling's form has no logarithm.
    falls = np.where(more == rest, more - 1, more)
    odds = rate / (1.0 - rate)
    result = (
        more * np.log(rest * odds / top)
        - (more - falls) * (np.log(rest) - 1.0)
        - (rest - falls + 0.5) * np.log1p(-falls / rest)
        + (threshold + 0.5) * np.log1p(-more / top)
        + stirling_error(rest)
        - stirling_error(rest - falls)
        - stirling_error(top)
        + stirling_error(np.full_like(top, threshold))
    )
    return np.where(v > n, -np.inf, np.where(v == threshold, 0.0, result))


def _tail_fraction(n: Floats, v: Floats, rate: float) -> Floats:
    """Pr[X_n ≥ v] / Pr[X_n = v], but for the factor 1 − p: the continued fraction of the incomplete beta function.

    For n·p < v; a few steps suffice where the tail is tiny. Evaluated by Lentz's method.
    Edge cases: 1 for v > n, where it is multiplied by nothing.
    Reference: NIST Digital Library of Mathematical Functions, 8.17.22, with a = v and b = n − v + 1.
    """
    b = np.maximum(n - v + 1, 1.0)
    value = np.ones_like(v)
    ahead = np.zeros_like(v)
    behind = np.ones_like(v)
    for step in range(1, 10_000):
        half = step // 2
        if step % 2:
            term = -(v + half) * (v + b + half) * rate / ((v + 2 * half) * (v + 2 * half + 1))
        else:
            term = half * (b - half) * rate / ((v + 2 * half - 1) * (v + 2 * half))
        ahead = 1.0 / (1.0 + term * ahead)
        behind = 1.0 + term / behind
        change = ahead * behind
        value = value * change
        if np.all(np.abs(change - 1.0) < 1e-15):
            break
    return 1.0 / value
