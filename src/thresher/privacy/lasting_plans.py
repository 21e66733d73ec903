"""The plan with which a budget lasts for a given number of queries, chosen freely one after another."""

from __future__ import annotations

import functools
import math
from decimal import ROUND_FLOOR, Decimal, localcontext

from thresher.errors import InvalidSetting, Unreachable
from thresher.privacy import guarantee
from thresher.privacy.budget import MOST_QUERIES, Budget
from thresher.privacy.planner import descend, logit, make_plan
from thresher.privacy.plans import Plan
from thresher.privacy.settings import (
    Adjacency,
    check_contributions,
    check_count,
    check_probability,
    check_rounds,
    dyadic,
)
from thresher.privacy.visibility import visible_size

_LEAST_LOGIT, _MOST_LOGIT = logit(2.0**-40), logit(0.999)
_PLANNED_BITS = 32
_SEARCH_PRECISION, _FINAL_PRECISION = 2e-3, 1e-7


def lasting_plan(
    budget: Budget,
    queries: int,
    *,
    rounds: int = 1,
    contributions: int = 1,
    adjacency: Adjacency = "replace",
    probability: float = 0.95,
) -> Plan:
    """The plan of which `queries` fit into what is left of a budget, and that sees the smallest buckets.

    Args:
        budget: What is left is what its sums leave.
        queries: How many queries, each chosen after seeing those before it.
        rounds: How many rounds each of them has.
        contributions: How many values of a unit count in a round.
        adjacency: Against which change it protects.
        probability: With which probability the smallest bucket shall be seen.

    Guarantee: so many queries with this plan are accepted, in any order with their releases.
    Raises: `Unreachable` where nothing that is left allows so many.
    """
    queries = check_count(queries, setting="queries", least=1, example=52)
    if queries > MOST_QUERIES:
        raise InvalidSetting("queries", f"must be at most {MOST_QUERIES:,}")
    rounds, probability = check_rounds(rounds), check_probability(probability)
    contributions = check_contributions(contributions, rounds)
    if not budget.fits:
        raise _none(queries)
    found = [
        each
        for each in (
            _by_filter(budget, queries, rounds, contributions, adjacency, probability),
            _by_sum(budget, queries, rounds, contributions, adjacency),
        )
        if each is not None and budget.affords(budget.price(each)) >= queries
    ]
    if not found:
        raise _none(queries)
    return min(found, key=lambda each: each.smallest_visible(probability))


def _none(queries: int) -> Unreachable:
    return Unreachable(
        f"What is left of the budget does not allow {queries:,} more {'query' if queries == 1 else 'queries'}.",
        hint="Ask for fewer queries, or let the budget be enlarged.",
    )


def _by_sum(budget: Budget, queries: int, rounds: int, contributions: int, adjacency: Adjacency) -> Plan | None:
    """The plan that gets an equal part of what the plain sum leaves."""
    epsilon, delta = (_part(left, queries) for left in (budget.left_epsilon, budget.left_delta))
    try:
        return make_plan(min(epsilon, 100.0), delta, rounds=rounds, contributions=contributions, adjacency=adjacency)
    except (InvalidSetting, Unreachable):
        return None


def _part(left: float, queries: int) -> float:
    """`left / queries`, rounded down in decimal to 15 digits, of which `queries` fit whatever is left."""
    with localcontext() as context:
        context.prec, context.rounding = 15, ROUND_FLOOR
        return float(Decimal(repr(left)) / queries)


def _by_filter(
    budget: Budget, queries: int, rounds: int, contributions: int, adjacency: Adjacency, probability: float
) -> Plan | None:
    """The plan that uses up what the filter leaves."""
    if budget.filter is None:
        return None
    room, atom = (float(bound - spent) for spent, bound in (budget.parts["renyi"], budget.parts["bad"]))
    if not (room > 0 and atom > 0):
        return None
    times, terms = queries * rounds * contributions, budget.filter

    def fits(log_odds: float, threshold: int) -> bool:
        cost = terms.round_cost(_rate(log_odds), threshold, adjacency, budget.epsilon)
        return times * cost.renyi <= room and times * cost.bad <= atom

    near = logit(0.1)  # where the last search ended: neighbouring thresholds have neighbouring rates

    def largest(threshold: int, precision: float) -> float:
        nonlocal near
        low, high, width = near, near, 64 * precision
        while low > _LEAST_LOGIT and not fits(low, threshold):
            low, high, width = low - width, low, 2 * width
        while high < _MOST_LOGIT and (high == low or fits(high, threshold)):
            low, high, width = high, min(high + width, _MOST_LOGIT), 2 * width
        while high - low > precision:
            middle = (low + high) / 2
            low, high = (middle, high) if fits(middle, threshold) else (low, middle)
        near = low
        return low

    @functools.cache
    def visible(threshold: int) -> float:
        return visible_size(_rate(largest(threshold, _SEARCH_PRECISION)), threshold, probability)

    start = max(1, round(1.2 * (math.log(times) - math.log(atom))))
    threshold = descend(visible, start)
    rate = dyadic(_rate(largest(threshold, _FINAL_PRECISION)), significant_bits=_PLANNED_BITS)
    delta = _part(terms.delta_plain, queries)
    epsilon = guarantee.epsilon(
        sampling_rate=rate,
        threshold=threshold,
        delta=delta,
        adjacency=adjacency,
        rounds=rounds,
        contributions=contributions,
    )
    if not 0 < epsilon <= 100:
        return None
    return Plan(rate, threshold, epsilon, delta, adjacency, rounds, contributions)


def _rate(odds: float) -> float:
    return 1 / (1 + math.exp(-odds))
