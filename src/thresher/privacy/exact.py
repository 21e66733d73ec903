"""The exact guarantee of one round: hockey-stick divergences of the dominating pair (T, T+1).

Symbols, as in docs/privacy.md: p sampling rate, τ threshold, E = e^ε, T the number of Bernoulli(p) trials up to
the τ-th success. Internally E travels as `excess` = E − 1, which keeps its precision when ε is small, and deltas
travel as logarithms, so that nothing underflows. Everything returned is an upper bound: `_OUTWARD` exceeds the
accumulated rounding error (below 1e-10), and series are cut where that raises the result.
"""

from __future__ import annotations

import math
import sys

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thresher.privacy.binomial import (
    Floats,
    log_point,
    lower_tail_ratio,
    miss,
    reach,
    upper_tail_ratio,
)
from thresher.privacy.settings import Adjacency

Integers = NDArray[np.int64]

_OUTWARD = math.log1p(1e-9)
_DENSE_LIMIT = 20_000
_TINY_RATE = 1e-9
_TINY_EXCESS = 1e-100
_MOST_GROUPS = 1 << 18
_LONGEST_EXPONENT = 110.0  # e^-110 is below 1e-7 of 1e-40, the smallest delta that is precise


def delta_from_log(log_delta: float) -> float:
    """exp, rounded so that a positive delta never becomes zero and never exceeds one."""
    return min(1.0, max(math.exp(log_delta), sys.float_info.min))


FINE = 5e-7
"""By how much grouping may raise delta, relatively, in a number that is reported."""


def log_delta(rate: float, threshold: int, epsilon: float, adjacency: Adjacency, *, tolerance: float = FINE) -> float:
    """ln of an upper bound of delta at `epsilon`, for one round; a search may loosen `tolerance`."""
    excess = math.expm1(epsilon)
    if adjacency == "replace":
        return log_delta_replace(rate, threshold, excess, tolerance=tolerance)
    return log_delta_add_remove(rate, threshold, excess)


def log_delta_remove(rate: float, threshold: int, excess: float) -> float:
    """ln of H_E(T ‖ T+1): what removing one unit can cost. `excess` is E − 1 > −rate.

    Reference: docs/privacy.md, section 4. The maximum over k is at k* = ⌊(τ−1)/q⌋ + 1 with q = 1 − (1−p)/E; its
    neighbours are evaluated too, so a floating-point floor cannot lower the result.
    """
    candidates = _neighbours((threshold - 1) * (1.0 + excess) / (excess + rate), threshold)
    return float(np.max(_log_remove_at(rate, threshold, excess, candidates))) + _OUTWARD


def _log_remove_at(rate: float, threshold: int, excess: float, k: Floats) -> Floats:
    """ln of Pr[X_k ≥ τ] − E·Pr[X_{k−1} ≥ τ] = Pr[X_{k−1} = τ−1]·(p − (E−1)·ratio)."""
    if excess > 0:
        log_rest = _log(rate - excess * upper_tail_ratio(k - 1, threshold, rate))
        return log_point(k - 1, threshold - 1, rate) + log_rest
    log_first = log_point(k - 1, threshold - 1, rate) + math.log(rate)
    return np.logaddexp(log_first, _log(-excess * reach(k - 1, threshold, rate)))


def log_delta_add(rate: float, threshold: int, excess: float) -> float:
    """ln of H_E(T+1 ‖ T): what adding one unit can cost, for E ≥ 1; −inf when p ≤ 1 − 1/E.

    Reference: docs/privacy.md, section 4, with q' = 1 − E(1−p) and k' = ⌊(τ−1)/q'⌋ + 1.
    """
    complement = rate * (1.0 + excess) - excess
    if not complement > 0:
        return -math.inf
    # At k = τ the bucket cannot be seen without the added unit: 1 − E·(1 − p^τ).
    log_edge = float(_log((1.0 + excess) * rate**threshold - excess))
    k = np.maximum(_neighbours((threshold - 1) / complement, threshold), threshold + 1)
    rest = rate * (1.0 + excess) - excess * lower_tail_ratio(k - 1, threshold, rate)
    return max(log_edge, float(np.max(log_point(k - 1, threshold - 1, rate) + _log(rest)))) + _OUTWARD


def log_delta_add_remove(rate: float, threshold: int, excess: float) -> float:
    """The worse of removing and adding one unit: exact, no looser than rounding."""
    return max(log_delta_remove(rate, threshold, excess), log_delta_add(rate, threshold, excess))


def log_delta_replace(rate: float, threshold: int, excess: float, *, tolerance: float = FINE) -> float:
    """ln of an upper bound of what changing one unit's value can cost; within a few per cent of the supremum.

    The two buckets that change are dominated by (T, T'+1) against (T+1, T'). Conditioning on the second one,
    the cost is the mean of the removal cost at E·r(i), r(i) = (1−p)·i/(i−τ+1), over T' = i.

    Reference: docs/privacy.md, section 5.
    """
    # Below it divisions overflow. Delta is then above 1e-30 and changes by less than 1e-100: `_OUTWARD` covers that.
    excess = max(excess, _TINY_EXCESS)
    if rate < _TINY_RATE:  # so few are sampled that the other bucket hardly tells: its worst cost is close enough
        return _worst_log_cost(rate, threshold, excess)
    longest = longest_wait(rate, threshold)
    if longest - threshold <= _DENSE_LIMIT:
        mean = _replace_dense(rate, threshold, excess, longest) + _OUTWARD
    else:
        mean = _replace_grouped(rate, threshold, excess, longest, tolerance) + _OUTWARD
    return max(mean, log_delta_remove(rate, threshold, excess))  # a mean of a convex cost: never below it


def longest_wait(rate: float, threshold: int) -> int:
    """A value that T exceeds with probability below e^−110; what lies beyond is added at its worst cost.

    Bernstein's inequality: (τ+s)/p trials with s² ≥ 2L·((τ+s)(1−p) + s·p/3) give fewer than τ successes with
    probability at most e^−L, since failures exceed their mean by s with variance (τ+s)(1−p) and steps up to p.
    """
    half = _LONGEST_EXPONENT * (1 - 2 * rate / 3)
    spare = half + math.sqrt(half * half + 2 * _LONGEST_EXPONENT * threshold * (1 - rate))
    return math.ceil((threshold + spare) / rate)


def _replace_dense(rate: float, threshold: int, excess: float, longest: int) -> float:
    """Every value of T one by one: the removal cost at each comes from running sums of Pr[T = k]."""
    wait = np.arange(threshold, longest + 1, dtype=np.float64)
    cost_excess = _excess_at(rate, threshold, excess, wait)
    at = _best_k_after(threshold, excess, wait)
    last = int(max(longest, at.max()))
    k = np.arange(threshold, last + 1, dtype=np.float64)
    log_mass = log_point(k - 1, threshold - 1, rate) + math.log(rate)
    scale = float(log_mass.max())
    mass = np.exp(log_mass - scale)
    below = np.concatenate([[0.0], np.cumsum(mass)[:-1]])
    index = (at - threshold).astype(np.int64)
    cost = np.maximum(mass[index] - cost_excess * below[index], 0.0)
    beyond = miss(longest, threshold, rate) * math.exp(_worst_log_cost(rate, threshold, excess))
    total = math.exp(scale) * float((np.exp(log_mass[: len(wait)]) * cost).sum()) + float(beyond)
    if total > 1e-280:
        return math.log(total)
    return _log_sum(log_mass[: len(wait)] + scale + _log(cost), float(beyond))


def _replace_grouped(rate: float, threshold: int, excess: float, longest: int, tolerance: float) -> float:
    """Values of T in groups. The cost is convex in E, so a chord bounds each group from above and the cost at
    the group's mean bounds it from below; groups are split until the two agree to `tolerance`, or there are too many.
    """
    span = longest - threshold + 1
    edges = np.unique(threshold + np.rint(np.geomspace(1, span, 400)).astype(np.int64))
    edges = np.unique(np.concatenate([[threshold], edges, _quantile_edges(rate, threshold, longest)]))
    beyond = float(miss(longest, threshold, rate)) * math.exp(_worst_log_cost(rate, threshold, excess))
    while True:
        first, last = edges[:-1].astype(np.float64), edges[1:].astype(np.float64) - 1
        single = first == last
        mass = np.where(
            single,
            np.exp(log_point(first - 1, threshold - 1, rate) + math.log(rate)),
            _between_each(rate, threshold, edges - 1),
        )
        shifted = _between_each(rate, threshold, edges)  # the same groups under T − 1
        high, low = (_excess_at(rate, threshold, excess, end) for end in (first, last))
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = np.clip(np.nan_to_num((1 + excess) * shifted / mass - 1), low, high)
            share = np.where(single, 1.0, np.clip(np.nan_to_num((mean - low) / (high - low)), 0, 1))
        chord = share * _cost(rate, threshold, high) + (1 - share) * _cost(rate, threshold, low)
        upper = mass * chord
        gap = np.where(single, 0.0, upper - mass * np.minimum(_cost(rate, threshold, mean), chord))
        total = float(upper.sum()) + beyond
        if gap.sum() <= tolerance * total or total < 1e-280 or len(edges) > _MOST_GROUPS:
            return math.log(total) if total > 0 else -math.inf
        pieces = np.sqrt(gap * len(gap) / (0.5 * tolerance * total))
        pieces = np.minimum(np.clip(np.ceil(pieces), 1, 16), last - first + 1).astype(np.int64)
        edges = _split(edges, pieces)


def _quantile_edges(rate: float, threshold: int, longest: int) -> Integers:
    center, spread = threshold / rate, math.sqrt(threshold * (1 - rate)) / rate
    edges = center + spread * np.linspace(-14, 14, 200)
    return np.rint(np.clip(edges, threshold, longest)).astype(np.int64)


def _split(edges: Integers, pieces: Integers) -> Integers:
    widths = np.diff(edges)
    starts = np.repeat(edges[:-1], pieces)
    step = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    inner = starts + np.repeat(widths, pieces) * step // np.repeat(pieces, pieces)
    return np.unique(np.append(inner, edges[-1]))


def between(rate: float, threshold: int, low: Floats, high: Floats) -> Floats:
    """Pr[low < T ≤ high], from whichever tail keeps its relative precision."""
    reach_high = reach(high, threshold, rate)
    from_below = reach_high - reach(low, threshold, rate)
    from_above = miss(low, threshold, rate) - miss(high, threshold, rate)
    return np.maximum(np.where(reach_high < 0.5, from_below, from_above), 0.0)


def _between_each(rate: float, threshold: int, ends: Integers) -> Floats:
    """`between` for every two neighbours of rising `ends`; each tail is computed once."""
    reached, missed = reach(ends, threshold, rate), miss(ends, threshold, rate)
    return np.maximum(np.where(reached[1:] < 0.5, np.diff(reached), -np.diff(missed)), 0.0)


def _excess_at(rate: float, threshold: int, excess: float, wait: Floats) -> Floats:
    """E·r(i) − 1 for T' = i, written so that no precision is lost where it is near zero."""
    shifted: Floats = (wait * (excess - (1 + excess) * rate) + (threshold - 1)) / (wait - threshold + 1)
    return shifted


def _best_k(rate: float, threshold: int, excess: Floats) -> Floats:
    """k* for many E; a floor off by one only happens where two neighbours give the same cost."""
    if threshold == 1:  # whatever E is; where E is 1 − p, what follows would be 0/0
        return np.ones_like(excess)
    ratio: Floats = (threshold - 1) * (1.0 + excess) / (excess + rate)
    best: Floats = np.maximum(np.floor(ratio) + 1, threshold)
    return best


def _best_k_after(threshold: int, excess: float, wait: Floats) -> Floats:
    """k* at E·r(i), T' = i. The rate cancels out, so none of the precision is lost where it is close to one."""
    ratio: Floats = (threshold - 1) * (1.0 + excess) * wait / (excess * wait + (threshold - 1))
    best: Floats = np.maximum(np.floor(ratio) + 1, threshold)
    return best


def _cost(rate: float, threshold: int, excess: Floats) -> Floats:
    """H_E(T ‖ T+1) for many E at once, not logarithmic; the incomplete beta function serves for the tail."""
    k = _best_k(rate, threshold, excess)
    point = np.exp(log_point(k - 1, threshold - 1, rate))
    cost: Floats = np.maximum(rate * point - excess * reach(k - 1, threshold, rate), 0.0)
    return cost


def _worst_log_cost(rate: float, threshold: int, excess: float) -> float:
    """The removal cost at E·(1−p), below every E·r(i): its k* is the limit of those after longer and longer waits."""
    candidates = _neighbours((threshold - 1) * (1.0 + excess) / excess, threshold)
    return float(np.max(_log_remove_at(rate, threshold, excess - (1 + excess) * rate, candidates))) + _OUTWARD


def _neighbours(ratio: float, threshold: int) -> Floats:
    best = math.floor(ratio) + 1
    return np.maximum(np.array([best - 1, best, best + 1], dtype=np.float64), threshold)


def _log(value: ArrayLike) -> Floats:
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(np.asarray(value, dtype=np.float64), 0.0))


def _log_sum(logs: Floats, extra: float) -> float:
    peak = float(logs.max())
    if peak == -math.inf:
        return math.log(extra) if extra > 0 else -math.inf
    return float(np.logaddexp(peak + math.log(np.exp(logs - peak).sum()), _log(extra)))
