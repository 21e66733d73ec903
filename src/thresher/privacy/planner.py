"""Targets in, the best sampling rate and threshold out.

For each threshold there is a largest rate that meets the target, and larger thresholds allow larger rates. What is
"best" along this frontier is the objective. Searches go from proved brackets; what is returned has been checked
against the target with the same numbers that a verifier will use.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Literal, get_args

from thresher.errors import InvalidSetting, Unreachable
from thresher.privacy import composition, exact, guarantee
from thresher.privacy.losses import COARSE, FINE
from thresher.privacy.plans import Plan
from thresher.privacy.settings import (
    MAX_THRESHOLD,
    RATE_BITS,
    Adjacency,
    check_adjacency,
    check_contributions,
    check_count,
    check_delta,
    check_epsilon,
    check_probability,
    check_rounds,
    check_threshold,
    dyadic,
)
from thresher.privacy.visibility import relative_error, visible_size
from thresher.privacy.weak_guarantees import warning_if_weak

Objective = Literal["visible", "error", "sample"]

_PLANNED_BITS = 32
"""Significant bits of a rate that the planner chooses: fine enough to waste nothing, short for the sampler."""

_SMALLEST_RATE = 2.0 ** (1 - RATE_BITS)
_SEARCH_PRECISION = 1e-3
_FINAL_PRECISION = 1e-6


def make_plan(
    epsilon: float | None = None,
    delta: float | None = None,
    *,
    sampling_rate: float | None = None,
    threshold: int | None = None,
    rounds: int = 1,
    contributions: int = 1,
    adjacency: Adjacency = "replace",
    objective: Objective = "visible",
    count: int | None = None,
    frequency: float | None = None,
    population: int | None = None,
    probability: float = 0.95,
) -> Plan:
    """The best sampling rate and threshold for a total of (epsilon, delta) over `rounds` rounds.

    In each round up to `contributions` values of a unit count, each with its own coin. It costs what so many rounds
    cost (docs/privacy.md, section 6).

    Fix nothing, `sampling_rate` (then: the smallest threshold), `threshold` (then: the largest rate), or both (then: a
    check; epsilon or delta may be left out and is computed).

    Objectives, where both are free: "visible", the smallest bucket seen with `probability`; "error", the smallest
    relative error of a bucket of `count` units; "sample", the largest rate at which a bucket of `count` units is still
    seen with `probability`. A count may be given as `frequency` of a `population`.

    Args:
        epsilon, delta: the target, over all rounds together.
        sampling_rate: the part of all units that is sampled, where it is given, as by a budget of contacts.
        threshold: the smallest sampled count that is released, where it is given.
        rounds: how many rounds the plan is for; a histogram has one, a hierarchy one for each level.
        contributions: how many distinct values of a unit count in a round.
        adjacency: "replace" (the default) hides what one unit holds; "add-remove" also hides that it takes part.
        objective: what the best plan is best at: "visible", "error" or "sample".
        count: of how many units the bucket is that "error" and "sample" look at.
        frequency, population: the same as a part of all units, and how many there are.
        probability: with which probability a bucket is to be seen.

    Returns a `Plan`, which verbs take as `plan=`. Raises `InvalidSetting` for a setting that is missing or out of
    range, `Unreachable` where nothing meets the target.

        >>> plan = th.plan(epsilon=1, delta=1e-8)
        >>> plan.threshold, plan.smallest_visible()
        (25, 106)
        >>> th.plan(epsilon=1, delta=1e-8, sampling_rate=0.05).threshold
        8

    Guarantee: the returned plan meets the target, for the exact dyadic rate that it names.
    Edge cases: `Unreachable` where no rate of at least 2^-64, or no threshold up to ten million, meets the target.
    """
    adjacency, rounds = check_adjacency(adjacency), check_rounds(rounds)
    asked = (adjacency, rounds, check_contributions(contributions, rounds))
    probability = check_probability(probability)
    if sampling_rate is not None and threshold is not None:
        given = (
            None if epsilon is None else check_epsilon(epsilon),
            None if delta is None else check_delta(delta),
        )
        return _both_fixed(dyadic(sampling_rate), check_threshold(threshold), *given, *asked)
    wanted = (_needed("epsilon", check_epsilon, epsilon), _needed("delta", check_delta, delta), *asked)
    if sampling_rate is not None:
        return _with_rate(*wanted, dyadic(sampling_rate))
    if threshold is not None:
        return _with_threshold(*wanted, check_threshold(threshold))
    return _best(*wanted, objective, _bucket_size(objective, count, frequency, population), probability)


plan = warning_if_weak(make_plan)
"""The public function. Thresher itself plans with `make_plan`, and warns where a plan is going to be used."""

# Searches take tens of milliseconds or more, and people and pages ask for the same plans again and again. What is
# remembered has passed its checks: it is of one type and in one form, and two settings that are equal mean the same.
_remembered = functools.lru_cache(maxsize=256)


@_remembered
def _with_rate(
    epsilon: float, delta: float, adjacency: Adjacency, rounds: int, contributions: int, rate: float
) -> Plan:
    target = Target(epsilon, delta, adjacency, rounds, contributions)
    return target.plan(rate, target.smallest_threshold(rate))


@_remembered
def _with_threshold(
    epsilon: float, delta: float, adjacency: Adjacency, rounds: int, contributions: int, threshold: int
) -> Plan:
    target = Target(epsilon, delta, adjacency, rounds, contributions)
    return target.plan(target.largest_rate(threshold), threshold)


@_remembered
def _best(
    epsilon: float,
    delta: float,
    adjacency: Adjacency,
    rounds: int,
    contributions: int,
    objective: Objective,
    count: int | None,
    probability: float,
) -> Plan:
    target = Target(epsilon, delta, adjacency, rounds, contributions)
    best = _best_threshold(target, objective, count, probability)
    return target.plan(target.largest_rate(best), best)


def _needed(setting: str, check: Callable[[object], float], value: object) -> float:
    if value is None:
        raise InvalidSetting(
            setting,
            "is missing",
            hint="For example `epsilon=1`, `delta=1e-8`.",
        )
    return check(value)


def _bucket_size(objective: object, count: int | None, frequency: float | None, population: int | None) -> int | None:
    if not (isinstance(objective, str) and objective in get_args(Objective)):
        raise InvalidSetting("objective", "must be 'visible', 'error' or 'sample'")
    if count is None and frequency is not None:
        if population is None:
            raise InvalidSetting("population", "is missing", hint="A frequency needs the population it is part of.")
        share = check_probability(frequency, setting="frequency")
        count = max(1, round(share * check_count(population, setting="population", least=1)))
    if objective == "visible":
        return None
    if count is None:
        raise InvalidSetting(
            "count",
            f"is missing for the objective {objective!r}",
            hint="Give the size of the bucket that matters: `count=1000`, or `frequency=0.01` and "
            "`population=100_000`.",
        )
    return check_count(count, least=1)


@_remembered
def _both_fixed(
    rate: float,
    threshold: int,
    epsilon: float | None,
    delta: float | None,
    adjacency: Adjacency,
    rounds: int,
    contributions: int,
) -> Plan:
    asked = {"adjacency": adjacency, "rounds": rounds, "contributions": contributions}
    settings = {"sampling_rate": rate, "threshold": threshold, **asked}
    if epsilon is None and delta is None:
        raise InvalidSetting("epsilon", "and `delta` are both missing", hint="Give at least one of them.")
    if epsilon is None:
        epsilon = guarantee.epsilon(delta=delta, **settings)  # type: ignore[arg-type]
        if not 0 < epsilon < math.inf:
            raise Unreachable(
                "No finite epsilon above 0 fits this sampling_rate, threshold and delta.",
                hint="Raise delta or the threshold, or state the epsilon you want.",
            )
        delta = check_delta(delta)
    elif delta is None:
        delta = guarantee.delta(epsilon=epsilon, **settings)  # type: ignore[arg-type]
    target = Target(check_epsilon(epsilon), check_delta(delta), adjacency, rounds, contributions)
    if not target.holds(rate, threshold):
        raise Unreachable(
            "This sampling_rate and threshold do not guarantee the given epsilon and delta.",
            hint="Leave one of them out to have it chosen, or leave out delta to have it computed.",
        )
    return target.plan(rate, threshold)


class Target:
    """A total (epsilon, delta) over some rounds of some contributions, and what meets it.

    `times` is how many rounds of one contribution cost as much.
    """

    def __init__(self, epsilon: float, delta: float, adjacency: Adjacency, rounds: int, contributions: int = 1) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.rounds = rounds
        self.contributions = contributions
        self.times = rounds * contributions
        self._rates: dict[int, float] = {}
        self._share = self.times**-0.25

    def plan(self, rate: float, threshold: int) -> Plan:
        """The plan with this rate and threshold."""
        return Plan(rate, threshold, self.epsilon, self.delta, self.adjacency, self.rounds, self.contributions)

    def _log_delta(self, rate: float, threshold: int, tolerance: float = FINE) -> float:
        rounds = [composition.Rounds(rate, threshold, self.times)]
        return composition.log_delta_of_rounds(rounds, self.epsilon, self.adjacency, tolerance=tolerance)

    def holds(self, rate: float, threshold: int) -> bool:
        """Whether the guarantee, as it would be reported, is within the target."""
        if exact.delta_from_log(self._log_delta(rate, threshold)) <= self.delta:
            return True
        return self.times > 1 and self._by_sums(rate, threshold) <= self.delta

    def _by_sums(self, rate: float, threshold: int) -> float:
        rounds = [composition.Rounds(rate, threshold, self.times)]
        return composition.compose(rounds, epsilon=self.epsilon, adjacency=self.adjacency).delta

    def smallest_threshold(self, rate: float) -> int:
        """The smallest threshold that meets the target at this rate."""
        goal = math.log(self.delta)
        guide = _first_threshold(lambda tau: self._log_delta(rate, tau, COARSE) <= goal, 8)
        found = _first_threshold(lambda tau: self.holds(rate, tau), min(guide, MAX_THRESHOLD))
        if found > MAX_THRESHOLD:
            raise Unreachable(
                f"No threshold up to {MAX_THRESHOLD:,} meets the target at this `sampling_rate`.",
                hint="Lower `sampling_rate`, or raise epsilon or delta.",
            )
        return found

    def largest_rate(self, threshold: int) -> float:
        """The largest dyadic rate that meets the target with this threshold."""
        rate = self.approximate_rate(threshold)
        rate = self._solve(threshold, rate * 0.998, rate * 1.003, FINE, _FINAL_PRECISION)
        margin = _FINAL_PRECISION
        while not self.holds(rounded := dyadic(rate, significant_bits=_PLANNED_BITS), threshold):
            rate, margin = rate * (1 - margin), min(2 * margin, 0.5)
            if rate < _SMALLEST_RATE:
                raise self._no_rate(threshold)
        return rounded

    def _no_rate(self, threshold: int) -> Unreachable:
        return Unreachable(
            f"No sampling rate above 2^-{RATE_BITS} meets the target with a threshold of {threshold}.",
            hint="Raise the threshold or delta.",
        )

    def approximate_rate(self, threshold: int) -> float:
        """The largest rate, to a precision that is enough to compare thresholds."""
        if threshold not in self._rates:
            if self.times == 1:
                lowest = _valid_rate(self.epsilon, self.delta, threshold)
                highest = min(math.exp(math.log(self.delta) / threshold), 1 - 1e-12)
                rate = self._solve(threshold, lowest, highest, COARSE, _FINAL_PRECISION)
            else:
                # More rounds allow less than one; by how much changes slowly from threshold to threshold.
                one_round = Target(self.epsilon, self.delta, self.adjacency, 1).approximate_rate(threshold)
                guess = one_round * self._share
                rate = self._solve(threshold, guess / 1.2, min(guess * 1.2, one_round), COARSE, _SEARCH_PRECISION)
                self._share = rate / one_round
            self._rates[threshold] = rate
        return self._rates[threshold]

    def _solve(self, threshold: int, low: float, high: float, tolerance: float, precision: float) -> float:
        """The rate at which delta meets the target, searched for between low and high and, if need be, beyond."""
        from scipy import optimize

        goal = math.log(self.delta)

        @functools.cache
        def excess(log_odds: float) -> float:
            rate = 1 / (1 + math.exp(-log_odds))
            return min(max(self._log_delta(rate, threshold, tolerance) - goal, -30.0), 30.0)

        lower, upper = logit(max(low, _SMALLEST_RATE)), logit(min(high, 1 - 1e-12))
        while excess(lower) > 0:
            if lower <= logit(_SMALLEST_RATE):
                raise self._no_rate(threshold)
            lower, upper = max(lower - 0.5, logit(_SMALLEST_RATE)), lower
        while excess(upper) < 0 and upper < 27:
            lower, upper = upper, upper + 0.5
        if excess(upper) <= 0 or lower >= upper:
            return 1 / (1 + math.exp(-upper))
        root = optimize.brentq(excess, lower, upper, xtol=precision / 4, rtol=1e-13)
        return float(1 / (1 + math.exp(-root)))


def logit(rate: float) -> float:
    """ln of the odds of a rate."""
    return math.log(rate) - math.log1p(-rate)


def _valid_rate(epsilon: float, delta: float, threshold: int) -> float:
    """A rate that surely meets the target: the paper's p = α(1 − e^−ε) with ln(1/α) = 1 + ln(1/δ)/τ."""
    return math.exp(math.log(delta) / threshold - 1) * -math.expm1(-epsilon)


def _first_threshold(enough: Callable[[int], bool], guess: int) -> int:
    """The smallest threshold that is enough, searched for ever farther from a guess.

    Edge cases: one more than the largest threshold where none is enough.
    """
    step = 1
    if enough(guess):
        low, high = guess - 1, guess
        while low > 0 and enough(low):
            low, high, step = max(low - 2 * step, 0), low, 2 * step
    else:
        low, high = guess, guess + 1
        while high <= MAX_THRESHOLD and not enough(high):
            low, high, step = high, min(high + 2 * step, MAX_THRESHOLD + 1), 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _best_threshold(target: Target, objective: Objective, count: int | None, probability: float) -> int:
    def visible(threshold: int) -> float:
        return visible_size(target.approximate_rate(threshold), threshold, probability)

    start = max(1, round(1.2 * (math.log(target.times) - math.log(target.delta))))
    if objective == "visible":
        return descend(visible, start)
    assert count is not None
    if objective == "error":
        return descend(lambda tau: relative_error(target.approximate_rate(tau), tau, count), start)
    best = descend(visible, start)
    if visible(best) > count:
        raise Unreachable(
            f"No plan for this target sees a bucket of {count:,} units with probability {probability:g}; "
            f"the smallest one that can be seen has {math.ceil(visible(best)):,}.",
            hint="Raise count, epsilon or delta, or lower the probability.",
        )
    low, high = best, 2 * best
    while high < count and visible(high) <= count:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if visible(middle) <= count else (low, middle)
    return low


def descend(value: Callable[[int], float], start: int) -> int:
    """The whole number ≥ 1 at the bottom of a valley: widen from `start`, then narrow by golden sections."""
    value = functools.cache(value)
    best = start
    step = 1.35
    left, right = max(1, int(start / step)), max(start + 1, math.ceil(start * step))
    while value(right) < value(best) and right < MAX_THRESHOLD:
        left, best, right = best, right, math.ceil(right * step)
    while best > 1 and left < best and value(left) < value(best):
        left, best, right = max(1, int(left / step)), left, best
    while right - left > 2:
        if right - best > best - left:
            probe = best + max(1, round(0.38 * (right - best)))
            if value(probe) < value(best):
                left, best = best, probe
            else:
                right = probe
        else:
            probe = best - max(1, round(0.38 * (best - left)))
            if probe < left:
                break
            if value(probe) <= value(best):
                right, best = best, probe
            else:
                left = probe
        if right - left <= 2 or (right - best <= 1 and best - left <= 1):
            break
    return best
