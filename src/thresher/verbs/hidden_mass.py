"""What the dropped children of a cell hold together, as far as the counts around them tell.

Symbols: D is how many units the k dropped children of one cell hold; the filling is D ÷ (k·(τ + 2√τ)/p), between 0
and 1, since a cell that holds more is seldom dropped. The cell's own count minus its released children's is D plus an
error, which is about normal.

How full dropped cells are differs from data to data: those of numbers with ties are mostly empty, those of smooth data
are as full as they can be without being released. So the law of the filling is learned, level by level, from all cells
of the level (empirical Bayes): a weight for each of a few fillings, by expectation maximisation, starting from 0.6
for "empty" and the rest spread evenly, which counts like a few cells; its mean is that of the level. Bayes' rule then
says what D is for each cell.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FILLINGS = np.linspace(0.0, 1.0, 33)
UNKNOWN = np.array([0.6, *[0.4 / (len(FILLINGS) - 1)] * (len(FILLINGS) - 1)])
"""The law of the filling before any count is known."""
STRENGTH = 4.0
"""How many cells that law counts like."""
_STEPS = 40


def largest_dropped(threshold: int, rate: float) -> float:
    """How many units a dropped cell usually holds at most: two standard deviations above the threshold."""
    return (threshold + 2 * math.sqrt(threshold)) / rate


def learn_fillings(difference: Floats, variance: Floats, most: Floats) -> Floats:
    """The law of the filling that a level's cells show: a weight for each of `FILLINGS`.

    `difference` is what is missing from each cell's children, with an error of this `variance`; `most` is how much its
    dropped children can hold.
    """
    use = most > 0
    if not use.any():
        return UNKNOWN
    likelihood = np.exp(_log_likelihood(difference[use], variance[use], most[use]))
    weights = UNKNOWN
    for _ in range(_STEPS):
        shares = likelihood * weights
        shares /= shares.sum(axis=1, keepdims=True)
        weights = (shares.sum(axis=0) + STRENGTH * UNKNOWN) / (len(shares) + STRENGTH)
    # Expectation maximisation is slow to find that all is empty, and a little too much in each cell is much in all.
    tilted = _with_mean(weights, _level_mean(difference[use], variance[use], most[use]))
    return (STRENGTH / 4 * UNKNOWN + len(likelihood) * tilted) / (STRENGTH / 4 + len(likelihood))


def _level_mean(difference: Floats, variance: Floats, most: Floats) -> float:
    """The mean filling of a level: what is missing from all cells together, and the law before any count is known.

    What is missing is seen with an error, and is never below 0: taken as it is seen it would be too large on average
    where all is empty. So it is shrunk by its variance over its square (James and Stein).
    """
    seen, error = difference.sum() / most.sum(), variance.sum() / most.sum() ** 2
    if not error:
        return float(np.clip(seen, 0.0, 1.0))
    shrunk = max(seen - error / seen, 0.0) if seen > 0 else 0.0
    first = float(UNKNOWN @ FILLINGS)
    spread = float(UNKNOWN @ FILLINGS**2) - first**2
    return float(np.clip((shrunk / error + first / spread) / (1 / error + 1 / spread), 0.0, 1.0))


def _with_mean(weights: Floats, mean: float) -> Floats:
    """The law closest to `weights` that has this mean: weights times exp(λ · filling)."""
    low, high = -2000.0, 2000.0
    for _ in range(60):
        middle = (low + high) / 2
        tilted = _tilted(weights, middle)
        low, high = (middle, high) if tilted @ FILLINGS < mean else (low, middle)
    return _tilted(weights, (low + high) / 2)


def _tilted(weights: Floats, by: float) -> Floats:
    logs = np.log(weights) + by * FILLINGS
    shares = np.exp(logs - logs.max())
    return np.asarray(shares / shares.sum())


def hidden_moments(difference: Floats, variance: Floats, most: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of each D, given the law of the filling."""
    shares = np.exp(_log_likelihood(difference, variance, most)) * weights
    shares /= shares.sum(axis=1, keepdims=True)
    mean = shares @ FILLINGS
    spread = np.maximum(shares @ FILLINGS**2 - mean**2, 0.0)
    return mean * most, spread * most**2


def draw_hidden(
    difference: Floats, variance: float, most: float, weights: Floats, odds: Floats, chance: Floats
) -> Floats:
    """One D for each observation, by inverting its distribution at `chance`, numbers between 0 and 1.

    `odds` are by how much more likely "empty" is than `weights` say, one number for each observation.
    """
    one = np.ones_like(difference)
    shares = np.exp(_log_likelihood(difference, variance * one, most * one)) * weights
    shares[:, 0] *= odds
    sums = np.cumsum(shares, axis=1)
    at = chance * sums[:, -1]
    index = np.minimum((sums < at[:, None]).sum(axis=1), len(FILLINGS) - 1)
    before = np.where(index > 0, np.take_along_axis(sums, np.maximum(index - 1, 0)[:, None], axis=1)[:, 0], 0.0)
    part = (at - before) / np.take_along_axis(shares, index[:, None], axis=1)[:, 0]
    step = FILLINGS[1]
    filled = np.where(index > 0, FILLINGS[index] + step * (np.clip(part, 0.0, 1.0) - 0.5), 0.0)
    return np.minimum(filled, 1.0) * most


def _log_likelihood(difference: Floats, variance: Floats, most: Floats) -> Floats:
    """Of each filling, up to a constant for each cell. The grid's step adds to the error of the difference."""
    errors = variance + (most * FILLINGS[1]) ** 2 / 12
    errors = np.where(errors > 0, errors, 1.0)
    off = difference[:, None] - most[:, None] * FILLINGS
    logs = -0.5 * off * off / errors[:, None]
    return np.asarray(logs - logs.max(axis=1, keepdims=True))
