"""Binomial numbers with small *relative* error, far into the tails, for one or many n at once.

Symbols: X_n ~ Bin(n, p); τ the threshold; T the number of trials up to the τ-th success, so that
Pr[T ≤ k] = Pr[X_k ≥ τ].

A probability of 1e-40 computed as a difference of log-gammas of 1e9 would carry an error of 1e-6; here the
point probabilities come from Loader's saddle-point form and the tails from series of positive terms.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

_CHUNK = 1 << 18


@cache
def _small_stirling_errors() -> Floats:
    half_log_two_pi = 0.5 * math.log(2 * math.pi)
    errors = [math.nan] + [math.lgamma(n + 1) - (n + 0.5) * math.log(n) + n - half_log_two_pi for n in range(1, 16)]
    return np.array(errors)


def stirling_error(n: Floats) -> Floats:
    """Log of n! minus Stirling's approximation of it, for whole n ≥ 1."""
    square = 1.0 / (n * n)
    series = (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680))) / n
    return np.where(n < 16, _small_stirling_errors()[np.minimum(n, 15).astype(np.int64)], series)


def _deviance(x: Floats, mean: Floats) -> Floats:
    """x·ln(x/mean) + mean − x without cancellation when x is near its mean."""
    difference = x - mean
    ratio = difference / (x + mean)
    square = ratio * ratio
    series = np.zeros_like(ratio)
    for order in range(10, 0, -1):
        series = square * (series + 1 / (2 * order + 1))
    near = difference * ratio + 2 * x * ratio * series
    far = x * np.log(x / mean) - difference
    return np.where(np.abs(ratio) < 0.1, near, far)


def log_point(trials: ArrayLike, successes: ArrayLike, rate: float) -> Floats:
    """ln Pr[Bin(trials, rate) = successes], relative error of the probability about 1e-13.

    Edge cases: successes outside 0…trials give −inf.
    Reference: C. Loader, "Fast and accurate computation of binomial probabilities", 2000.
    """
    n, v = np.broadcast_arrays(np.asarray(trials, dtype=np.float64), np.asarray(successes, dtype=np.float64))
    inside = (v > 0) & (v < n)
    safe_n = np.where(inside, n, 2.0)
    safe_v = np.where(inside, v, 1.0)
    rest = safe_n - safe_v
    log_interior = (
        stirling_error(safe_n)
        - stirling_error(safe_v)
        - stirling_error(rest)
        - _deviance(safe_v, safe_n * rate)
        - _deviance(rest, safe_n * (1.0 - rate))
        + 0.5 * np.log(safe_n / (2 * math.pi * safe_v * rest))
    )
    with np.errstate(invalid="ignore"):
        edge = np.where(v == 0, n * math.log1p(-rate), np.where(v == n, n * math.log(rate), -np.inf))
    return np.where(inside, log_interior, np.where(n < 0, -np.inf, edge))


def upper_tail_ratio(trials: ArrayLike, threshold: int, rate: float) -> Floats:
    """A lower bound, tight to 1e-15, of Pr[X_n ≥ τ] / Pr[X_n = τ−1].

    Each term of the series is the last one times (n−v)/(v+1) · p/(1−p); all are positive, so there is no
    cancellation, and the neglected rest (below e^−40 of the sum) only lowers the result.
    """
    return _ratio_series(
        np.atleast_1d(np.asarray(trials, dtype=np.float64)),
        threshold,
        lambda n, step: np.maximum(n - (threshold - 1 + step), 0.0) / (threshold + step),
        rate / (1.0 - rate),
        math.inf,
    )


def lower_tail_ratio(trials: ArrayLike, threshold: int, rate: float) -> Floats:
    """A lower bound, tight to 1e-15, of Pr[X_n ≤ τ−1] / Pr[X_n = τ−1], for n ≥ τ."""
    return 1.0 + _ratio_series(
        np.atleast_1d(np.asarray(trials, dtype=np.float64)),
        threshold,
        lambda n, step: (threshold - 1 - step) / (n - threshold + 2 + step),
        (1.0 - rate) / rate,
        threshold - 1,
    )


def _ratio_series(
    trials: Floats, threshold: int, factor: Callable[[Floats, Floats], Floats], odds: float, longest: float
) -> Floats:
    """Sum of cumulative products of factor(n, 0..m)·odds, a block of rows at a time."""
    length = int(min(9 * math.sqrt(threshold) + 40, longest))
    if length == 0:
        return np.zeros_like(trials)
    steps = np.arange(length, dtype=np.float64)
    rows = max(1, _CHUNK // length)
    sums = [
        np.cumprod(factor(block[:, None], steps) * odds, axis=1).sum(axis=1)
        for block in (trials[start : start + rows] for start in range(0, len(trials), rows))
    ]
    return np.concatenate(sums)


def reach(trials: ArrayLike, threshold: ArrayLike, rate: float) -> Floats:
    """Pr[X_n ≥ τ]: the probability that a bucket of n units reaches the threshold; relative error below 1e-10."""
    from scipy import special

    n, least = np.broadcast_arrays(np.asarray(trials, dtype=np.float64), np.asarray(threshold, dtype=np.float64))
    possible = (n >= least) & (least > 0)
    value = np.asarray(special.betainc(np.where(possible, least, 1), np.where(possible, n - least + 1, 1), rate))
    few = possible & (least < _FEW) & (rate < _SMALL_RATE)
    if few.any():
        value[few] = _reach_few(n[few], least[few], rate)
    return np.where(possible, value, np.where(least <= 0, 1.0, 0.0))


_SMALL_RATE, _FEW = 1e-4, 64
"""Here `betainc` works with 1 − p, as a float, and its relative error grows to 1e-16/p; beyond, it is below 1e-11."""


def _reach_few(n: Floats, least: Floats, rate: float) -> Floats:
    """`reach` for small rates and few successes: a series of positive terms below the mean, the other tail above it."""
    below = n * rate < least
    term, total = below.astype(np.float64), np.ones_like(least)
    for step in range(int(9 * math.sqrt(_FEW) + 40)):
        term = term * np.maximum(n - least - step, 0.0) / (least + 1 + step) * (rate / (1.0 - rate))
        total = total + term
        if np.all(term < 1e-17 * total):
            break
    return np.where(below, np.exp(log_point(n, least, rate)) * total, 1.0 - miss(n, least, rate))


def miss(trials: ArrayLike, threshold: ArrayLike, rate: float) -> Floats:
    """Pr[X_n < τ], with its own relative precision (not as 1 − reach)."""
    from scipy import special

    n, least = np.broadcast_arrays(np.asarray(trials, dtype=np.float64), np.asarray(threshold, dtype=np.float64))
    possible = (n >= least) & (least > 0)
    value = special.betaincc(np.where(possible, least, 1), np.where(possible, n - least + 1, 1), rate)
    return np.where(possible, value, np.where(least <= 0, 0.0, 1.0))
