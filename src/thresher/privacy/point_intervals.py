"""Bounds on a mean and on a sum, from sampled counts at public points of which some are hidden below a threshold.

m sampled units stand at points g with counts c_g. Give every unit a standard exponential weight, and add one more unit
at the lowest point. The `tail` quantile of the weighted mean is Gaffke's lower bound for the true mean; the upper bound
has its extra unit at the highest point. With two points these are the bounds of Clopper and Pearson. The weights of one
point together are a gamma variable, so all that is needed is the law of a linear combination of gamma variables.

The bounds of a sum, of which the number of units is not known, are those of Fay and Feuer: quantiles of Σ g·Γ(c_g).

Both are computed by the saddlepoint formula of Barndorff-Nielsen (r*), whose error is far below what is rounded away.

Reference: Gaffke, "Three test statistics for a nonparametric one-sided hypothesis on the mean of a nonnegative
variable" (2005); Fay and Feuer, "Confidence intervals for directly standardized rates" (1997); docs/privacy.md,
"Means".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

_STEPS = 48
"""Halvings of the logarithm of the tilt, which is between the two numbers below."""
_TILTS = (-40.0, 60.0)
_PARTS = 8
"""How finely the number of hidden units at one point is searched for the worst case."""


def mean_bounds(points: ArrayLike, counts: ArrayLike, hidden: ArrayLike, tail: float) -> tuple[float, float]:
    """A lower and an upper bound for the mean, each wrong with probability at most `tail`.

    Args:
        points: the public points, rising; the first and the last one are the bounds of all values.
        counts: sampled units at each point; 0 where none were released.
        hidden: how many more sampled units each point may have at most.
        tail: the probability that one bound is wrong.

    Guarantee: each bound is the worst over all numbers of hidden units. Moving one unit to a lower point lowers both
    bounds, so the worst case for the lower bound has hidden units at the lowest of the points that may hide any.
    Edge cases: without any unit, the first and the last point.
    """
    at, seen, most = (np.asarray(each, dtype=np.float64) for each in (points, counts, hidden))
    wide = at[-1] - at[0]
    lower = at[0] + wide * _lowest((at - at[0]) / wide, seen, most, tail)
    upper = at[-1] - wide * _lowest(((at[-1] - at) / wide)[::-1], seen[::-1], most[::-1], tail)
    return float(min(max(lower, at[0]), at[-1])), float(max(min(upper, at[-1]), at[0]))


def mean_range(points: ArrayLike, counts: ArrayLike, hidden: ArrayLike) -> tuple[float, float]:
    """The smallest and the largest mean that the sampled units can have, with all that is hidden. There must be some.

    Guarantee: exact. The smallest has all hidden units at the points below it, and none above.
    """
    at, seen, most = (np.asarray(each, dtype=np.float64) for each in (points, counts, hidden))

    def least(at: Floats, seen: Floats, most: Floats) -> float:
        weights, totals = seen.sum() + np.cumsum(most), (at * seen).sum() + np.cumsum(at * most)
        mean = (at * seen).sum() / seen.sum()
        return float(min(mean, (totals / weights).min()))

    return least(at, seen, most), -least(-at[::-1], seen[::-1], most[::-1])


def sum_bounds(points: ArrayLike, counts: ArrayLike, hidden: ArrayLike, tail: float) -> tuple[float, float]:
    """A lower and an upper bound for the expected sum of the points of sampled units, each wrong with at most `tail`.

    Divide by the sampling rate for the sum over all units.

    Guarantee: conservative, since the number of units sampled at a point varies less than a Poisson number does.
    """
    at, seen, most = (np.asarray(each, dtype=np.float64) for each in (points, counts, hidden))
    high = _largest_sum(at, seen + np.where(at > 0, most, 0), tail)
    low = -_largest_sum(-at[::-1], (seen + np.where(at < 0, most, 0))[::-1], tail)
    return low, high


def _lowest(at: Floats, seen: Floats, most: Floats, tail: float) -> float:
    """The lowest lower bound of all that hidden units allow; points are between 0 and 1, and rise."""
    fillings = [np.zeros_like(most)]
    for place in np.flatnonzero(most):
        filled = fillings[-1]
        steps = np.unique(np.ceil(np.linspace(0, most[place], _PARTS + 1)[1:]))
        fillings += [np.where(np.arange(len(most)) == place, step, filled) for step in steps]
    counts = seen + np.array(fillings)
    counts[:, 0] += 1
    return float(_lower_means(at, counts, tail).min())


def _lower_means(at: Floats, counts: Floats, tail: float) -> Floats:
    """For each row of counts, the quantile `tail` of the mean of points with gamma weights.

    Below its expectation, the quantile is the mean under weights c / (1 + θ·g) for a tilt θ > 0, and all that the
    saddlepoint formula needs is a function of θ. The formula's probability falls in θ, which is found by halving.
    """
    from scipy.special import ndtri

    wanted = float(ndtri(tail))
    units = counts.sum(axis=1)
    low, high = (np.full(len(counts), end) for end in _TILTS)
    spread = (counts[:, at > 0] > 0).any(axis=1) & (counts[:, at < 1] > 0).any(axis=1)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        root = _mean_root(at, counts, units, np.exp(middle))[0]
        too_far = root < wanted
        low, high = np.where(too_far, low, middle), np.where(too_far, middle, high)
    found = _mean_root(at, counts, units, np.exp(high))[1]
    return np.where(spread, found, counts @ at / units)


def _mean_root(at: Floats, counts: Floats, units: Floats, tilt: Floats) -> tuple[Floats, Floats]:
    """r* and the mean for these tilts."""
    stretched = 1 + tilt[:, None] * at
    tilted = counts / stretched
    mean = (tilted @ at) / tilted.sum(axis=1)
    less_one = -(tilted @ at) * tilt / units
    scale = 1 + less_one
    root = np.sqrt(2 * (counts * _deviance(less_one[:, None] + (scale * tilt)[:, None] * at)).sum(axis=1))
    away = (at - mean[:, None]) / (scale[:, None] * stretched)
    slope = scale * tilt * np.sqrt((counts * away**2).sum(axis=1))
    return _modified(-root, -slope), mean


def _largest_sum(at: Floats, counts: Floats, tail: float) -> float:
    """The quantile 1 − `tail` of Σ g·Γ(c), with one more unit at the last and largest point if that is above 0."""
    from scipy.special import ndtri

    counts = counts.copy()
    if at[-1] > 0:
        counts[-1] += 1
    at, counts = at[counts > 0], counts[counts > 0]
    size = np.abs(at).max(initial=0.0)
    if not size:
        return 0.0
    weights, wanted = at / size, -float(ndtri(tail))
    limit = max(weights.max(), 0.0)
    low, high = _TILTS
    for _ in range(_STEPS):
        middle = (low + high) / 2
        tilt = np.exp(middle) / (1 + np.exp(middle) * limit)
        low, high = (middle, high) if _sum_root(weights, counts, tilt)[0] < wanted else (low, middle)
    return float(size * _sum_root(weights, counts, np.exp(high) / (1 + np.exp(high) * limit))[1])


def _sum_root(weights: Floats, counts: Floats, tilt: float) -> tuple[float, float]:
    """r* and the sum for this tilt, which is below 1 ÷ the largest weight."""
    shrunk = np.maximum(1 - tilt * weights, 1e-300)
    total = float((counts * weights / shrunk).sum())
    root = np.sqrt(2 * float((counts * _deviance(shrunk - 1)).sum()))
    slope = tilt * np.sqrt(float((counts * (weights / shrunk) ** 2).sum()))
    return float(_modified(np.array([root]), np.array([slope]))[0]), total


def _deviance(change: Floats) -> Floats:
    """ln(1 + x) − x / (1 + x), which is never negative. Sums of it lose no digits to cancellation."""
    above = np.maximum(change, -1 + 1e-300)
    deviance: Floats = np.maximum(np.log1p(above) - above / (1 + above), 0.0)
    return deviance


def _modified(root: Floats, slope: Floats) -> Floats:
    """Barndorff-Nielsen's r*; close to 0, where its formula has no digits left, r itself."""
    usable = (np.abs(root) > 1e-3) & (root * slope > 0)
    safe_root, ratio = np.where(usable, root, 1.0), np.where(usable, slope / np.where(usable, root, 1.0), 1.0)
    return np.where(usable, root + np.log(ratio) / safe_root, root)
