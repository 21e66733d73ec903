"""Independent computations of one round's cost in the filter, by the recurrence Pr[T=j+1] = Pr[T=j]·(1−p)·j/(j−τ+1)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import mpmath
import numpy as np


@dataclass(frozen=True)
class Truth:
    """Both Rényi costs of a round, each as (at least, at most), and the probability that the round is bad."""

    removal: tuple
    addition: tuple
    bad: object

    def cost(self, adjacency):
        """The round's cost, as (at least, at most)."""
        both = zip(self.removal, self.addition, strict=True)
        return tuple(max(r + a if adjacency == "replace" else max(r, a), 0) for r, a in both)


def by_plain_loops(rate, threshold, order, cut, last):
    """Two loops over j = τ … last in logarithms, as one would write them down; what lies beyond is left out."""
    log_mass, removal, addition, bad = threshold * math.log(rate), [], [], []
    for j in range(threshold, last):
        log_next = log_mass + math.log1p(-rate) + math.log(j) - math.log(j - threshold + 1)
        if j <= cut:
            bad.append(math.exp(log_mass))
        if j + 1 > cut:
            removal.append(order * log_next + (1 - order) * log_mass)
        addition.append(order * log_mass + (1 - order) * log_next)
        log_mass = log_next
    costs = [_log_sum(terms) / (order - 1) for terms in (removal, addition)]
    return Truth((costs[0],) * 2, (costs[1],) * 2, math.fsum(bad))


def _log_sum(terms):
    highest = max(terms)
    return highest + math.log(math.fsum(math.exp(term - highest) for term in terms))


def by_mpmath(rate, threshold, order, cut, last):
    """The same sums with 50 digits, exact in p, and with bounds for what lies beyond `last`."""
    with mpmath.workdps(50):
        p, alpha = mpmath.mpf(rate), mpmath.mpf(order)
        mass, removal, addition, bad, passed = p**threshold, mpmath.mpf(0), mpmath.mpf(0), mpmath.mpf(0), mpmath.mpf(0)
        for j in range(threshold, last):
            ratio = (1 - p) * j / (j - threshold + 1)
            bad += mass if j <= cut else 0
            power = ratio ** (alpha - 1)
            removal += mass * ratio * power if j + 1 > cut else 0
            addition += mass / power
            passed += mass
            mass *= ratio
        # Beyond, losses of a removal are below the last one, and those of an addition below −ln(1−p).
        rest = max(1 - passed, mpmath.mpf(0))
        beyond = rest * power, rest * (1 - p) ** (1 - alpha)
        sums = [[mpmath.log(value) / (alpha - 1) for value in (low, low + more)] for low, more in
                zip((removal, addition), beyond, strict=True)]  # fmt: skip
        return Truth(tuple(sums[0]), tuple(sums[1]), bad)


def by_long_doubles(rate, threshold, order, cut, last):
    """The same sums for many j, in 80-bit floats: about 19 digits."""
    real = np.longdouble
    p, alpha = real(rate), real(order)
    j = np.arange(threshold, last, dtype=real)
    log_ratio = np.log1p(((threshold - 1) - p * j) / (j - threshold + 1))
    log_mass = np.concatenate([[real(0)], np.cumsum(log_ratio)]) + threshold * np.log(p)
    removal = (log_mass[1:] + (alpha - 1) * log_ratio)[j + 1 > cut]
    addition = log_mass[:-1] - (alpha - 1) * log_ratio
    bad = np.exp(log_mass[:-1][j <= cut]).sum()
    costs = [(top := terms.max()) + np.log(np.exp(terms - top).sum()) for terms in (removal, addition)]
    return Truth((costs[0] / (alpha - 1),) * 2, (costs[1] / (alpha - 1),) * 2, bad)
