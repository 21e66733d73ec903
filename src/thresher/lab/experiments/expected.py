"""Expected errors in closed form, so that a wrong simulation cannot hide in its noise.

Both follow from one identity of De Moivre's: with X = Bin(c, p), the mean of X − cp over X ≥ k is k(1 − p)·Pr[X = k].
"""

from __future__ import annotations

import math

import numpy as np

from thresher.lab.data import Counts, Floats
from thresher.privacy.binomial import log_point, miss

_NEGLECTED = 42.0
"""Terms below e^-42 of the largest are left out of sums."""


def threshold_error(counts: Counts, sampling_rate: float, threshold: int) -> float:
    """Mean absolute error per bucket, in units, of sample-and-threshold; a dropped bucket counts as zero.

    Guarantee: exact, c·Pr[X < τ] plus the mean of |X/p − c| over X ≥ τ, averaged over the buckets.
    Edge cases: empty buckets are always right.
    """
    sizes, weights = _distinct(counts)
    p = sampling_rate
    kept = np.where(
        threshold > sizes * p,
        _excess(sizes, np.full(len(sizes), threshold), p),
        2 * _excess(sizes, _above_mean(sizes, p), p) - _excess(sizes, np.full(len(sizes), threshold), p),
    )
    return float(np.dot(weights, sizes * miss(sizes, threshold, p) + kept / p)) / len(counts)


def laplace_error(counts: Counts, sampling_rate: float, scale: float) -> float:
    """Mean absolute error per bucket, in units, of (X + Laplace(scale)) ÷ p on every bucket, the empty ones too.

    Guarantee: E|d + Laplace(b)| = E|d| + b·E[e^(−|d|/b)] with d = X − cp, both exact up to a relative e^-40.
    """
    sizes, weights = _distinct(counts)
    p = sampling_rate
    spread = 2 * _excess(sizes, _above_mean(sizes, p), p)
    empty = len(counts) - int(weights.sum())
    each = spread + scale * _mean_of_exponential(sizes, p, scale)
    return float(np.dot(weights, each) + empty * scale) / (p * len(counts))


def _distinct(counts: Counts) -> tuple[Counts, Counts]:
    sizes, weights = np.unique(counts[counts > 0], return_counts=True)
    return sizes.astype(np.int64), weights.astype(np.int64)


def _above_mean(sizes: Counts, p: float) -> Counts:
    above: Counts = np.floor(sizes * p).astype(np.int64) + 1
    return above


def _excess(sizes: Counts, least: Counts, p: float) -> Floats:
    """The mean of X − cp over X ≥ least; the same as that of cp − X over X < least."""
    return np.asarray(least * (1 - p) * np.exp(log_point(sizes, least, p)), dtype=np.float64)


def _mean_of_exponential(sizes: Counts, p: float, scale: float) -> Floats:
    """E[e^(−|X − cp|/scale)], summed outwards from the mean: beyond it each term is below the last."""
    result = np.zeros(len(sizes))
    if not len(sizes):
        return result
    widest = 12 * math.sqrt(float(sizes.max()) * p) + 60
    steps = np.arange(int(min(_NEGLECTED * scale, widest)) + 1, dtype=np.float64)
    above, odds, fade = _above_mean(sizes, p).astype(np.float64), p / (1 - p), math.exp(-1 / scale)
    start = np.exp(log_point(sizes, above, p) - (above - sizes * p) / scale)
    rising = above[:, None] + steps
    factors = np.maximum(sizes[:, None] - rising, 0.0) / (rising + 1) * (odds * fade)
    result += start * (1 + np.cumprod(factors, axis=1).sum(axis=1))
    below = above - 1
    start = np.exp(log_point(sizes, below, p) - (sizes * p - below) / scale)
    falling = np.maximum(below[:, None] - steps, 0.0)
    factors = falling / (sizes[:, None] - falling + 1) * (fade / odds)
    result += start * (1 + np.cumprod(factors, axis=1).sum(axis=1))
    return result
