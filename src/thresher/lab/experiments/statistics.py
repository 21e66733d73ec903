"""Means with their standard errors, recall, and how far simulations are from what was expected."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thresher.lab.data import Counts, Floats


def summary(name: str, values: ArrayLike) -> dict[str, float]:
    """The mean of repetitions under `name` and its standard error under `name`_se, 0 for a single repetition."""
    drawn = np.asarray(values, dtype=np.float64)
    error = float(drawn.std(ddof=1)) / math.sqrt(len(drawn)) if len(drawn) > 1 else 0.0
    return {name: float(drawn.mean()), f"{name}_se": error}


def largest(counts: Counts, k: int) -> NDArray[np.bool_]:
    """The buckets, not empty, with a true count of at least the k-th largest; ties at the border all belong to them."""
    border = max(1, int(np.partition(counts, len(counts) - k)[len(counts) - k]))
    return np.asarray(counts >= border)


def recall(top: NDArray[np.bool_], estimates: Floats, k: int, random: np.random.Generator) -> float:
    """Which part of the k largest buckets, as `largest` gives them, is among the k largest estimates.

    Reported are the k largest estimates above 0, ties broken at random; what was not released is not reported. Where
    more than k buckets are in the top, any k of them are right; where fewer are, because the rest is empty, the number
    found is divided by theirs.
    """
    reported = np.flatnonzero(estimates > 0)
    if len(reported) > k:
        values = estimates[reported]
        least = np.partition(values, len(values) - k)[len(values) - k]
        above, tied = reported[values > least], reported[values == least]
        reported = np.concatenate((above, random.choice(tied, k - len(above), replace=False)))
    return float(np.count_nonzero(top[reported])) / min(k, int(np.count_nonzero(top)))


def normal_scores(simulated: Floats, errors: Floats, expected: Floats, repetitions: int) -> Floats:
    """Scores that are standard normal where the simulated means have the expected values.

    A mean of r repetitions divided by its estimated error has Student's distribution with r − 1 degrees of freedom; its
    quantiles are carried over to the normal distribution.
    """
    from scipy import stats

    ratio = (simulated - expected) / errors
    tail = stats.t.sf(np.abs(ratio), repetitions - 1)
    scores: Floats = np.sign(ratio) * stats.norm.isf(tail)
    return scores
