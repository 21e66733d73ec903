"""The filter: which queries fit a total (epsilon, delta) when each is chosen after the releases of those before it.

Two conditions are kept side by side, and every round counts on both:

    Σ R ≤ ρ   and  Σ Pr[T ≤ c] ≤ δ_atom        Rényi costs of one order α, and the mass of what they leave out
    Σ ε ≤ ε   and  Σ δ         ≤ δ_plain       the plain sum

A query fits if one of the two holds after it. The order α and the three parts of delta are fixed when a budget is made.

Symbols, as in docs/privacy.md, section 7: p sampling rate, τ threshold, T the number of Bernoulli(p) trials up to the
τ-th success, α the order, c ≥ τ the cut. A round is *bad* if T ≤ c.
"""

from __future__ import annotations

import functools
import math
import sys
from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from thresher.errors import InvalidSetting
from thresher.privacy.binomial import Floats, log_point, miss, reach
from thresher.privacy.exact import longest_wait
from thresher.privacy.losses import at_ends, groups, loss_at
from thresher.privacy.settings import Adjacency

PLAIN, RENYI, ATOM = Decimal("0.1"), Decimal("0.8"), Decimal("0.1")
"""How delta is split: between the plain sum, the Rényi costs and the bad events."""

_SMALLEST_EPSILON, _SMALLEST_DELTA = 1e-6, 1e-300
_DENSE_LIMIT = 50_000
_IMPRECISE = 1e-290
_OUTWARD = 1e-9  # more than the error of a logarithm of a sum here, which is below 1e-10


@dataclass(frozen=True, slots=True)
class Cost:
    """What one round costs in the filter: its Rényi cost, the probability that it is bad, and the cut behind both."""

    renyi: float
    bad: float
    cut: int


@dataclass(frozen=True, slots=True)
class Filter:
    """The order and the parts of delta of one budget. They never change.

    Reference: docs/privacy.md, section 7.
    """

    order: float
    delta_plain: float
    delta_renyi: float
    delta_atom: float

    @classmethod
    def best(cls, epsilon: float, delta: float) -> Filter:
        """The order that lets the most through for a total of (epsilon, delta), with the usual split of delta.

        The Rényi cost of a round with small losses grows in proportion to the order, so the best order is where ρ/α is
        largest. That does not depend on the plans that will be asked, and the optimum is flat.
        """
        for setting, value, least in (("epsilon", epsilon, _SMALLEST_EPSILON), ("delta", delta, _SMALLEST_DELTA)):
            if not value >= least:
                raise InvalidSetting(
                    setting, f"must be at least {least:g} for an adaptive budget", hint="Give more, or add up: 'sum'."
                )
        parts = tuple(_below(delta, part) for part in (PLAIN, RENYI, ATOM))
        return cls(_best_order(epsilon, parts[1]), *parts)

    def room(self, epsilon: float) -> float:
        """ρ: how much Rényi cost fits a total of `epsilon`, rounded down; 0 where none does."""
        return max(_down(epsilon - self._conversion), 0.0)

    def epsilon(self, renyi: float) -> float:
        """The smallest epsilon in whose room this Rényi cost fits, rounded up."""
        return max(upward(renyi + self._conversion), 0.0)

    @property
    def _conversion(self) -> float:
        """ε − ρ: what turning a Rényi cost into an epsilon at `delta_renyi` adds, rounded up.

        Its terms can nearly cancel, one another or epsilon, so the margin is a part of the terms and not of their sum.
        """
        excess = self.order - 1
        terms = -math.log1p(1 / excess), -math.log(self.delta_renyi) / excess, -math.log(self.order) / excess
        return math.fsum(terms) + 1e-12 * math.fsum(map(abs, terms))

    def round_cost(self, sampling_rate: float, threshold: int, adjacency: Adjacency, epsilon: float) -> Cost:
        """The cost of one round with the cut that is best for a total of `epsilon`.

        Guarantee: an upper bound for both laws of the round, and for both directions under add-remove.
        """
        return _round_cost(sampling_rate, threshold, adjacency, self.order, self.room(epsilon), self.delta_atom)

    def foreign_cost(self, epsilon: float, delta: float) -> Cost:
        """The cost of something else that is known to be (epsilon, delta)-differentially private, whatever it is.

        Every such mechanism is a post-processing of one that reveals everything with probability delta and otherwise
        answers truthfully with odds e^ε : 1.
        Reference: Kairouz, Oh and Viswanath 2017, theorem 3.3 and its proof.
        """
        alpha = self.order
        log_sum = np.logaddexp(alpha * epsilon, (1 - alpha) * epsilon) - np.logaddexp(epsilon, 0.0)
        return Cost(upward(max(float(log_sum) + _OUTWARD, 0.0) / (alpha - 1)), delta, 0)


@functools.lru_cache(maxsize=64)
def _best_order(epsilon: float, delta: float) -> float:
    """The order with the largest ρ/α, rounded to a short number.

    It is looked for on ever finer grids. (`scipy.optimize` would take every server half a second to import.)
    """

    def worth(log_excess: float) -> float:
        order = 1 + math.exp(log_excess)
        return Filter(order, 0.0, delta, 0.0).room(epsilon) / order

    # An order of about 1 + √(ln(1/δ)/ε) or 1 + 2·ln(1/δ)/ε is best, where epsilon is large or small.
    guess = math.log(math.sqrt(-math.log(delta) / epsilon) - 2 * math.log(delta) / epsilon)
    best = guess
    # Three wide grids: where epsilon is small and delta large, the best is as much as 8 from the guess.
    for width in (4.0, 4.0, 4.0, 0.1, 0.002, 0.00004):
        grid = np.linspace(best - width, best + width, 161)
        best = float(grid[np.argmax([worth(each) for each in grid])])
    return float(f"{1 + math.exp(best):.6g}")


@functools.lru_cache(maxsize=4096)
def _round_cost(
    rate: float, threshold: int, adjacency: Adjacency, order: float, room: float, delta_atom: float
) -> Cost:
    removal, bad, cuts = _removal(rate, threshold, order)
    addition = _addition(rate, threshold, order)
    total = removal + addition if adjacency == "replace" else np.maximum(removal, addition)
    total = np.maximum(total, 0.0)
    with np.errstate(divide="ignore", over="ignore"):
        share = np.maximum(total / room if room > 0 else np.full_like(total, np.inf), bad / delta_atom)
    best = int(np.argmin(share))
    return Cost(upward(float(total[best])), float(bad[best]), int(cuts[best]))


def _removal(rate: float, threshold: int, order: float) -> tuple[Floats, Floats, Floats]:
    """For each cut: ln Σ_{j>c} Pr[T=j]^α Pr[T=j−1]^{1−α} / (α−1), Pr[T ≤ c], and the cut.

    What lies beyond the last j has the smallest losses: its mass times e^{(α−1)ℓ} for the last loss ℓ is added.
    """
    if (longest := longest_wait(rate, threshold)) - threshold <= _DENSE_LIMIT:
        last = np.arange(threshold, longest + 1, dtype=np.float64)
        log_mass = log_point(last - 1, threshold - 1, rate) + math.log(rate)
        terms = log_mass[1:] + (order - 1) * loss_at(rate, threshold, last[1:])
        cuts = last[:-1]
    else:
        first, last, mass, shifted = groups(rate, threshold)
        values, masses = at_ends(loss_at(rate, threshold, first), loss_at(rate, threshold, last), mass, shifted)
        parts = (_log(masses) + (order - 1) * values).reshape(-1, len(first))
        terms = np.logaddexp.reduce(parts, axis=0)
        cuts = first - 1
        # A group whose mass is too small for a precise float cannot be summed: it must be bad.
        start = int(np.max(np.nonzero(mass[: len(mass) // 2] < _IMPRECISE)[0], initial=-1)) + 1
        terms, cuts = terms[start:], cuts[start:]
    beyond = _log(miss(last[-1:], threshold, rate)) + (order - 1) * loss_at(rate, threshold, last[-1:])
    log_sums = np.logaddexp.accumulate(np.concatenate([beyond, terms[::-1]]))[:0:-1]
    bad = np.maximum(reach(cuts, threshold, rate) * (1 + _OUTWARD), sys.float_info.min)
    return (log_sums + _OUTWARD) / (order - 1), bad, cuts


def _addition(rate: float, threshold: int, order: float) -> float:
    """ln Σ_{j>τ} Pr[T=j−1]^α Pr[T=j]^{1−α} / (α−1); never more than the largest loss, −ln(1−p)."""
    largest = -math.log1p(-rate)
    if (longest := longest_wait(rate, threshold)) - threshold <= _DENSE_LIMIT:
        last = np.arange(threshold + 1, longest + 1, dtype=np.float64)
        terms = log_point(last - 2, threshold - 1, rate) + math.log(rate)
        terms = terms - (order - 1) * loss_at(rate, threshold, last)
    else:
        first, last, mass, shifted = groups(rate, threshold)
        values, masses = at_ends(-loss_at(rate, threshold, last), -loss_at(rate, threshold, first), shifted, mass)
        terms = _log(masses) + (order - 1) * values
    # What is beyond may be too little for a float, and still count where the order is large.
    beyond = _log(np.maximum(miss(last[-1:] - 1, threshold, rate), sys.float_info.min)) + (order - 1) * largest
    log_sum = float(np.logaddexp.reduce(np.concatenate([terms, beyond])))
    return min((log_sum + _OUTWARD) / (order - 1), largest * (1 + _OUTWARD))


def _log(masses: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.log(masses)


def _below(delta: float, part: Decimal) -> float:
    """A part of delta, as delta is written: a tenth of 1e-6 is 1e-7. It is never more."""
    exact = Decimal(repr(delta)) * part
    found = float(exact)
    return found if Decimal(repr(found)) <= exact else math.nextafter(found, 0.0)


def upward(value: float) -> float:
    """The value rounded up by more than a few operations can have lost."""
    return math.nextafter(value * (1 + 1e-12), math.inf)


def _down(value: float) -> float:
    return math.nextafter(value * (1 - 1e-12) if value > 0 else value * (1 + 1e-12), -math.inf)
