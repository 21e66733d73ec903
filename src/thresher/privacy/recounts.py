"""Intervals for buckets that several rounds counted: the first round found a bucket, and the others counted it again.

Symbols: k units hold the bucket; round j samples each of them with its own rate p_j and a fresh sample, so the sampled
counts X_1, …, X_m are independent, X_j ~ Bin(k, p_j). The bucket is looked at because X_1 ≥ τ. A later round shows X_j
only where X_j ≥ τ; where it does not, X_j counts as τ − 1, the largest count that is dropped. The *total* is
T = X_1 + Σ_{j>1} max(X_j, τ − 1), and T ÷ Σ p_j estimates k.

Reference: docs/privacy.md, section 9.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from thresher.privacy.binomial import Floats
from thresher.privacy.intervals import SLACK, Booleans, Integers, ends, in_order, intervals

_NOISE = 1e-13
"""More than the absolute error of a convolution of probabilities by FFT."""

_FAR = 12.0
"""Standard deviations of a sampled count, with 60 more added, beyond which it has a probability below 1e-20."""

_STEPS = 32
"""Grid points of k for each standard deviation of the estimate; an end is rounded outwards by no more than one."""


def recount_intervals(
    rates: Sequence[float], threshold: int, totals: ArrayLike, confidence: float, *, coins: float | None = None
) -> tuple[Integers, Integers]:
    """Smallest and largest number of units that a total over several rounds is compatible with.

    Args:
        rates: the sampling rate of each round; the first one is of the round in which the bucket was found.
        threshold: τ of all rounds.
        totals: T for each bucket; all of them were found in the same round.
        confidence: at least how often an interval contains k.
        coins: the rate of the coins, which are fresh in every round; a smaller rate means that not all devices have
            completed that round. Without it nothing but coins is in the rates.

    Guarantee: where rates are those of the coins, for every k, given that a bucket of k units is released in the first
    round, the interval contains k with probability at least `confidence`. It inverts the two one-sided tests of T,
    whose law grows stochastically with k: X_1 given X_1 ≥ τ does, and so does every max(X_j, τ − 1).
    Edge cases: of one round it is `intervals`. Where rates differ and no round could have dropped the bucket, the
    binomial law of the mean rate stands for the law of T; by Hoeffding (1956) its tails are larger. Where not all
    devices complete, the interval is widened by what T varies more if the same devices are missing in every round.
    """
    if len(rates) == 1:
        return intervals(rates[0], threshold, totals, confidence)
    tail = (1.0 - confidence) / 2
    values, inverse = np.unique(np.asarray(totals, dtype=np.int64), return_inverse=True)
    total = values.astype(np.float64)
    found = np.empty((2, len(values)))
    far = _far(rates, threshold, total, tail)
    # As many trials as there are units in all rounds together: k of m rounds are m·k trials.
    trials = ends(math.fsum(rates) / len(rates), 0, values[far], tail)
    found[0, far] = np.ceil(trials[0] / len(rates))
    found[1, far] = np.floor(trials[1] / len(rates))
    found[:, ~far] = _near(tuple(rates), threshold, tuple(total[~far].tolist()), tail)
    if coins is not None:
        estimate = total / math.fsum(rates)
        away = np.maximum(estimate - found[0], found[1] - estimate)
        more = (math.sqrt(overdispersion(rates, coins)) - 1) * away
        found = np.array([np.maximum(np.floor(found[0] - more), threshold), np.ceil(found[1] + more)])
    lower, upper = in_order(*found)
    return lower[inverse], upper[inverse]


def overdispersion(rates: Sequence[float], coins: float) -> float:
    """The variance of T if devices that miss a round also miss every round that fewer devices complete, over that of T
    if they miss rounds independently of one another; far from the threshold.

    Of a part c_j = p_j ÷ p of the devices round j then counts each with a coin p, and two rounds have
    min(c_i, c_j) − c_i·c_j of the devices in common beyond chance.
    Edge cases: 1 where everybody completes.
    """
    parts = [min(rate / coins, 1.0) for rate in rates]
    alone = math.fsum(rate * (1 - rate) for rate in rates)
    shared = math.fsum(
        min(one, other) - one * other
        for place, one in enumerate(parts)
        for at, other in enumerate(parts)
        if place != at
    )
    return 1.0 + coins * coins * shared / alone if alone > 0 else 1.0


def _far(rates: Sequence[float], threshold: int, total: Floats, tail: float) -> Booleans:
    """Totals so large that every bucket they are compatible with is released in every round as good as surely.

    By Chernoff's bound a k with Pr[T ≥ t] > tail has k·Σp ≥ t − √(2t·ln(1/tail)). If k·p of the round with the smallest
    rate is then at least τ + 9√(k·p), the same bound gives Pr[X_j < τ] ≤ exp(−9²/2) < 1e-17.
    """
    all_rounds = np.maximum(total - np.sqrt(2 * total * math.log(1 / tail)), 0.0)
    smallest = all_rounds * min(rates) / math.fsum(rates)
    return np.asarray(smallest - 9 * np.sqrt(smallest) >= threshold)


@functools.lru_cache(maxsize=64)
def _near(rates: tuple[float, ...], threshold: int, totals: tuple[float, ...], tail: float) -> tuple[Floats, Floats]:
    """The ends from the exact law of T, rounded outwards to a grid of k.

    They are kept, since a page that shows an answer computes the answer from its releases each time.
    """
    total = np.array(totals)
    if not len(total):
        return total, total
    grid = _grid(math.fsum(rates), threshold, float(total.max()), tail)
    law = functools.lru_cache(maxsize=None)(functools.partial(_law, rates, threshold))

    def plausible_from_below(k: int, t: Floats) -> Booleans:
        return np.asarray(law(k).at_least(t) * (1 + SLACK) > tail)

    def implausible_from_above(k: int, t: Floats) -> Booleans:
        return np.asarray(law(k).at_most(t) * (1 + SLACK) <= tail)

    below = np.concatenate([[threshold], grid[:-1] + 1])
    lower = below[_first_true(plausible_from_below, grid, total)]
    upper = grid[_first_true(implausible_from_above, grid, total)] - 1
    return lower, upper


def _grid(rate: float, threshold: int, total: float, tail: float) -> Floats:
    """Numbers of units from τ on, a 32nd of the estimate's standard deviation apart and at least 1.

    The last one is so large that it is implausible for every total up to this one: with μ = k·Σp, Chernoff's bound
    exp(−(μ−t)²/2μ) is below the tail.
    """
    log = math.log(1 / tail)
    last = math.ceil((total + 2 * log + 2 * math.sqrt(2 * total * log)) / rate) + 1
    grid, k = [threshold], threshold
    while k < last:
        k += max(1, math.floor(math.sqrt(k / rate) / _STEPS))
        grid.append(k)
    return np.array(grid, dtype=np.float64)


def _first_true(test: Callable[[int, Floats], Booleans], grid: Floats, total: Floats) -> Integers:
    """For each total, the index of the first k of the grid at which a test that turns true once is true, or the last.

    All totals are halved together, so that each law is computed once for all totals that need it.
    """
    low, high = np.zeros(len(total), dtype=np.int64), np.full(len(total), len(grid) - 1)
    while np.any(low < high):
        middle = (low + high) // 2
        for place in np.unique(middle[low < high]):
            here = (middle == place) & (low < high)
            passed = test(int(grid[place]), total[here])
            high[here] = np.where(passed, place, high[here])
            low[here] = np.where(passed, low[here], place + 1)
    return low


class _Total:
    """The law of T for one k: probabilities from `first` on."""

    __slots__ = ("_above", "_below", "_first")

    def __init__(self, first: int, mass: Floats) -> None:
        self._first = first
        self._below = np.concatenate([[0.0], np.cumsum(mass) + _NOISE])
        self._above = np.concatenate([np.cumsum(mass[::-1])[::-1] + _NOISE, [0.0]])

    def at_least(self, total: ArrayLike) -> Floats:
        """Pr[T ≥ total], rounded up."""
        return np.asarray(self._above[np.clip(self._place(total), 0, len(self._above) - 1)])

    def at_most(self, total: ArrayLike) -> Floats:
        """Pr[T ≤ total], rounded up."""
        return np.asarray(self._below[np.clip(self._place(total) + 1, 0, len(self._below) - 1)])

    def _place(self, total: ArrayLike) -> Integers:
        return np.asarray(total).astype(np.int64) - self._first


def _law(rates: tuple[float, ...], threshold: int, units: int) -> _Total:
    """The law of T where `units` ≥ τ hold the bucket: that of independent counts, added up with an FFT."""
    from scipy.fft import irfft, next_fast_len, rfft

    counted = [_released(units, rates[0], threshold)]
    again = {rate: _at_least_dropped(units, rate, threshold) for rate in set(rates[1:])}
    counted += [again[rate] for rate in rates[1:]]
    size = sum(len(mass) - 1 for _, mass in counted) + 1
    padded = next_fast_len(size, real=True)
    product = np.prod([rfft(mass, padded) for _, mass in counted], axis=0)
    mass = np.maximum(irfft(product, padded)[:size], 0.0)
    return _Total(sum(first for first, _ in counted), mass)


def _released(units: int, rate: float, threshold: int) -> tuple[int, Floats]:
    """The law of a count given that it is released, from τ on."""
    return threshold, _binomial(units, rate, threshold, _most(units, rate, threshold))


def _at_least_dropped(units: int, rate: float, threshold: int) -> tuple[int, Floats]:
    """The law of max(X, τ − 1), from τ − 1 on."""
    mean = units * rate
    least = max(0, math.floor(mean - _FAR * math.sqrt(mean) - 60))
    mass = _binomial(units, rate, least, _most(units, rate, threshold))
    dropped = max(threshold - 1 - least, 0)
    folded = mass[dropped:].copy()
    folded[0] += mass[:dropped].sum()
    return least + dropped, folded


def _most(units: int, rate: float, threshold: int) -> int:
    center = max(units * rate, threshold)
    return min(units, math.ceil(center + _FAR * math.sqrt(center) + 60))


def _binomial(units: int, rate: float, least: int, most: int) -> Floats:
    """Pr[X = v | least ≤ X ≤ most] for v = least … most, from the quotients of neighbours, in logarithms."""
    if rate == 1:
        return np.where(np.arange(least, most + 1) == units, 1.0, 0.0)
    below = np.arange(least, most, dtype=np.float64)
    steps = np.log((units - below) / (below + 1)) + (math.log(rate) - math.log1p(-rate))
    logs = np.concatenate([[0.0], np.cumsum(steps)])
    mass = np.exp(logs - logs.max())
    return np.asarray(mass / mass.sum())
