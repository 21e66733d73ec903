"""What a policy of devices allows and charges, as whole numbers: the cells of its table.

A device decides by comparing whole numbers (docs/protocol/policy.md). Here they are computed:

    limit(N, τ)   the largest rate at which N rounds of threshold τ are within the policy
    prices(τ)     rates, and what one round of threshold τ costs at each, in billionths of what a period has room for

Rates are whole numbers of 2^-32. Both hold for every threshold from τ on, every number of rounds up to N, and every
rate up to the one of the cell (docs/privacy.md, section 7).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

from thresher.errors import Unreachable
from thresher.privacy.budget import Budget
from thresher.privacy.filter import Cost, Filter
from thresher.privacy.planner import Target
from thresher.privacy.whole_numbers import BEYOND, ONE, PERIOD

ROUNDS = (*range(1, 13), 14, 16, 18, 20, 24, 28, 32, 40, 48, 64, 80, 100, 128, 200, 250, 365, 500, 1000)
"""The numbers of rounds for which a table has a limit. Others are read as the next larger one."""
THRESHOLDS = (*range(1, 64), *range(64, 128, 8), *range(128, 256, 16), *range(256, 512, 32), 512, 640, 768, 896, 1024)
"""The thresholds for which a table has a row. Others are read as the next smaller one."""
MOST_ROUNDS, LARGEST_THRESHOLD = ROUNDS[-1], 100_000
_STEP = 1.5
"""By about how much the costs of two neighbouring rates differ."""
_LEAST = 10_000
"""Rates that cost less have no cell of their own: a period has room for 100,000 rounds of them."""
_DIGITS = 3
_BITS = 5


@dataclass(frozen=True, slots=True)
class Bounds:
    """The four numbers of a policy that its table depends on."""

    max_epsilon: float
    max_delta: float
    period_epsilon: float
    period_delta: float

    @property
    def numbers(self) -> tuple[float, float, float, float]:
        """All four."""
        return self.max_epsilon, self.max_delta, self.period_epsilon, self.period_delta

    @property
    def targets(self) -> tuple[tuple[float, float], ...]:
        """What a query must be within, by itself: the bounds of a query, and those of a period unless they follow."""
        query, period = (self.max_epsilon, self.max_delta), (self.period_epsilon, self.period_delta)
        return (query,) if query[0] <= period[0] and query[1] <= period[1] else (query, period)


@functools.lru_cache(maxsize=4096)
def limit(bounds: Bounds, rounds: int, threshold: int) -> int:
    """The largest rate at which so many rounds are within the bounds of a query and of a period; 0 if none is.

    Guarantee: at this rate the rounds' exact guarantee, as `thresher.privacy.delta` computes it, is within the bounds,
    and at the next larger one it is not. So every plan that is within them is allowed.
    """
    return min(_largest(epsilon, delta, rounds, threshold) for epsilon, delta in bounds.targets)


@functools.lru_cache(maxsize=4096)
def _largest(epsilon: float, delta: float, rounds: int, threshold: int) -> int:
    target = Target(epsilon, delta, "replace", rounds)

    def holds(rate: int) -> bool:
        return rate < ONE and target.holds(rate / ONE, threshold)

    try:
        found = math.floor(Fraction(target.largest_rate(threshold)) * ONE)
    except Unreachable:
        return 0
    # The search stops a little below the largest rate: the rest is found by doubling steps, and then halving them.
    step = 1
    while holds(found + step):
        found, step = found + step, 2 * step
    while step := step // 2:
        if holds(found + step):
            found += step
    return found


@dataclass(frozen=True, slots=True)
class Prices:
    """Rates, ascending, and the cost of one round at each."""

    rates: tuple[int, ...]
    costs: tuple[int, ...]


@functools.lru_cache(maxsize=1024)
def prices(bounds: Bounds, threshold: int) -> Prices:
    """What one round of this threshold costs at rates up to the largest that is allowed.

    Guarantee: a cost is an upper bound of the share of the period's room that a round takes, for both sums of the
    filter, whatever else is asked.
    """
    highest = limit(bounds, 1, threshold)
    filter = _filter(bounds.period_epsilon, bounds.period_delta)
    if not (highest and filter.room(bounds.period_epsilon) > 0):
        return Prices((), ())

    @functools.cache
    def cost(rate: int) -> int:
        found = filter.round_cost(rate / ONE, threshold, "replace", bounds.period_epsilon)
        return _billionths(filter, bounds.period_epsilon, found)

    bits = _BITS + threshold.bit_length()
    rate, exponent = _affordable(cost, highest, bits), threshold + 1.0
    rates = {highest, max(rate, 1)}
    while rate > 1 and cost(rate) > _LEAST:
        # About here, a cost is a power of the rate: from twice, where losses are small, to τ times, where mass is bad.
        lower = max(_rounded(rate * _STEP ** (-1 / exponent), bits), 1)
        exponent = max(math.log(cost(rate) / cost(lower)) / math.log(rate / lower), 2.0)
        rate = lower
        rates.add(rate)
    ascending = sorted(rates)
    # A larger rate costs more; where rounding says otherwise, the larger cost is taken.
    return Prices(tuple(ascending), tuple(accumulate(map(cost, ascending), max)))


def _affordable(cost: Callable[[int], int], highest: int, bits: int) -> int:
    """About the largest rate of few bits that does not cost more than a period has; `highest` itself if it does not."""
    if cost(highest) <= PERIOD:
        return highest
    low, high = 0, highest
    while (middle := _rounded((low + high) / 2, bits)) > low:
        low, high = (middle, high) if cost(middle) <= PERIOD else (low, middle)
    return low


def foreign_cost(bounds: Bounds, epsilon: float, delta: float) -> int:
    """What something costs of which only its total (epsilon, delta) is known."""
    filter = _filter(bounds.period_epsilon, bounds.period_delta)
    return _billionths(filter, bounds.period_epsilon, filter.foreign_cost(epsilon, delta))


def whole_rate(rate: float) -> int:
    """A rate as a whole number of 2^-32, rounded up."""
    return math.ceil(Fraction(rate) * ONE)


@functools.lru_cache(maxsize=64)
def _filter(epsilon: float, delta: float) -> Filter:
    found = Budget.make(epsilon, delta).filter
    assert found is not None
    return found


def _billionths(filter: Filter, epsilon: float, cost: Cost) -> int:
    """The larger of the shares that a cost takes of the filter's two sums, in billionths, rounded up to few digits."""
    room = filter.room(epsilon)
    if not (room > 0 and math.isfinite(cost.renyi) and cost.bad <= filter.delta_atom):
        return BEYOND
    share = max(Fraction(cost.renyi) / Fraction(room), Fraction(cost.bad) / Fraction(filter.delta_atom))
    exact = max(math.ceil(share * PERIOD), 1)
    unit: int = 10 ** max(len(str(exact)) - _DIGITS, 0)
    return min(-(-exact // unit) * unit, BEYOND)


def _rounded(rate: float, bits: int) -> int:
    """A rate rounded down to few bits, so that tables are short."""
    whole = int(rate)
    spare = max(whole.bit_length() - bits, 0)
    return whole >> spare << spare
