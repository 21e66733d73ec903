"""A mean and a sum from released counts at public points, with intervals and the parts of the error.

It needs the counts of one group of units only, so that the same function serves a whole column and each group of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from thresher.privacy.intervals import ends
from thresher.privacy.point_intervals import Floats, mean_bounds, mean_range, sum_bounds
from thresher.privacy.totals import seen_by_luck
from thresher.verbs.accuracy import CONFIDENCE


@dataclass(frozen=True, slots=True)
class MeanError:
    """Why a mean may be off, part by part, in the unit of the values.

    `sampling` and `rounding` are standard errors, and estimates: of the random choice of units, and of the random
    rounding to points, for values that are spread evenly between their two points. `threshold` is how far points that
    were not released can move the mean of the sample: a bound that holds in every release. `bound` covers all three
    together: the mean is off by no more with probability `confidence`.

    Clipping is in none of them: a value outside the bounds counts as at the nearest bound, which is bias that a release
    cannot show.
    """

    sampling: float
    rounding: float
    threshold: float
    bound: float
    confidence: float = CONFIDENCE


@dataclass(frozen=True, slots=True)
class Average:
    """A mean and a sum with their intervals, both of values that are clipped to the bounds.

    `interval` and `sum_interval` hold with probability `error.confidence` each, including all that points below the
    threshold may hide. The sum estimates all units that hold a value; the mean times a number of units would count
    those without a value too.
    Edge cases: where nothing was released, `mean` and `sum` are NaN and `interval` has the bounds.
    """

    mean: float
    interval: tuple[float, float]
    sum: float
    sum_interval: tuple[float, float]
    error: MeanError

    @property
    def known(self) -> bool:
        """Whether anything was released."""
        return not math.isnan(self.mean)


def average(
    points: Sequence[float],
    counts: Mapping[float, int],
    *,
    threshold: int,
    rate: float | None,
    confidence: float = CONFIDENCE,
) -> Average:
    """The mean and the sum that released counts by point tell.

    Args:
        points: all public points, rising.
        counts: the sampled count of each released point; other points have been dropped.
        threshold: τ; a dropped point may have up to τ − 1 sampled units.
        rate: the part of all units that was sampled; None where it is not known, and then the sum is not known.
        confidence: that of the intervals.

    Guarantee: each end of an interval is wrong with probability at most (1 − confidence) / 2, whatever the dropped
    points hide; see `thresher.privacy.point_intervals`.
    Reference: docs/privacy.md, "Means".
    """
    at = np.asarray(points, dtype=np.float64)
    seen = np.array([counts.get(point, 0) for point in points], dtype=np.float64)
    hidden = np.where(seen > 0, 0.0, threshold - 1.0)
    tail = (1 - confidence) / 2
    wide = float(at[-1] - at[0])
    total, sums = math.nan, (-math.inf, math.inf)
    if rate is not None:
        low, high = sum_bounds(at, seen, hidden, tail)
        sums = low / rate + 0.0, high / rate + 0.0  # -0.0 becomes 0.0
        if seen_by_luck(rate, threshold, seen[seen > 0]):
            given = _sums_given_release(at, seen, rate, threshold, tail)
            sums = min(sums[0], given[0]), max(sums[1], given[1])
    if not seen.sum():
        unknown = MeanError(wide, wide, wide, wide, confidence)
        return Average(math.nan, (float(at[0]), float(at[-1])), math.nan, sums, unknown)
    if rate is not None:
        total = float(at @ seen) / rate
    mean = float(at @ seen / seen.sum())
    interval = mean_bounds(at, seen, hidden, tail)
    least, most = mean_range(at, seen, hidden)
    sampling, rounding = _standard_errors(at, seen, mean, rate or 0.0)
    bound = max(mean - interval[0], interval[1] - mean)
    error = MeanError(sampling, rounding, max(mean - least, most - mean), bound, confidence)
    return Average(mean, interval, total, sums, error)


def _sums_given_release(at: Floats, seen: Floats, rate: float, threshold: int, tail: float) -> tuple[float, float]:
    """Bounds of the sum over released points, each bounded by its own law given that it was released."""
    known = seen > 0
    fewest, most = ends(rate, threshold, seen[known].astype(np.int64), tail / int(known.sum()))
    one, other = at[known] * fewest, at[known] * most
    return float(np.minimum(one, other).sum()), float(np.maximum(one, other).sum())


def _standard_errors(at: Floats, seen: Floats, mean: float, rate: float) -> tuple[float, float]:
    """The standard errors of sampling and of rounding.

    A value that is spread evenly between two points a distance Δ apart is rounded with variance Δ²/6. The rest of the
    variance of the sampled points is that of the values, of which a part `rate` is sampled without replacement.
    """
    units = float(seen.sum())
    squares = np.diff(at) ** 2
    around = (np.concatenate([squares[:1], squares]) + np.concatenate([squares, squares[-1:]])) / 2
    variance = float(seen @ (at - mean) ** 2) / units
    rounding = min(variance, float(seen @ around) / units / 6)
    return math.sqrt((1 - rate) * (variance - rounding) / units), math.sqrt(rounding / units)
