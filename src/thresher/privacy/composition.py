"""Several rounds together, fixed in advance: composed privacy losses, with basic and advanced composition beside them.

The rounds may differ. Each draws fresh coins; the same units may be asked in each. What a round *asks* may depend on
earlier releases (TrieHH++ does that); how many rounds there are and their (p, τ) may not.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from thresher.errors import InvalidSetting
from thresher.privacy import exact
from thresher.privacy.losses import COARSE, FINE, Repeated, log_delta_composed, losses_add, losses_remove
from thresher.privacy.settings import (
    Adjacency,
    check_adjacency,
    check_delta,
    check_epsilon,
    check_rounds,
    check_threshold,
    upper_float,
)

_SMALLEST_EPSILON = 1e-9


class Sampled(Protocol):
    """Anything that says how often it samples, at which rate and with which threshold; a `Plan` does."""

    @property
    def sampling_rate(self) -> float: ...  # noqa: D102
    @property
    def threshold(self) -> int: ...  # noqa: D102
    @property
    def rounds(self) -> int: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Rounds:
    """`rounds` rounds with the same sampling rate and threshold."""

    sampling_rate: float
    threshold: int
    rounds: int = 1


@dataclass(frozen=True, slots=True)
class Composition:
    """The total guarantee of several rounds, and what each way of composing them gives.

    `epsilon` and `delta` are the best valid pair. `by_method` holds, for "privacy-loss", "basic" and "advanced", the
    number that was asked for (delta at a given epsilon, or epsilon at a given delta).
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    by_method: dict[str, float]


def compose(
    rounds: Iterable[Sampled],
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    adjacency: Adjacency = "replace",
) -> Composition:
    """The guarantee of all `rounds` together, at a given `epsilon` or at a given `delta`.

    Guarantee: an upper bound; the smallest of the three methods, each valid on its own.
    Reference: docs/privacy.md, section 6; Zhu, Dong and Wang 2022 for the composition of dominating pairs.
    """
    merged = _merge(rounds)
    adjacency = check_adjacency(adjacency)
    if (epsilon is None) == (delta is None):
        raise InvalidSetting(
            "epsilon and delta",
            "cannot be both given or both missing",
            hint="Give one; the other is computed.",
        )
    if epsilon is not None:
        epsilon = check_epsilon(epsilon)
        deltas = {
            "privacy-loss": exact.delta_from_log(log_delta_of_rounds(merged, epsilon, adjacency)),
            "basic": basic_delta(merged, epsilon, adjacency),
            "advanced": advanced_delta(merged, epsilon, adjacency),
        }
        return Composition(epsilon, min(deltas.values()), adjacency, deltas)
    delta = check_delta(delta)
    epsilons = {
        "privacy-loss": _epsilon_of_rounds(merged, delta, adjacency),
        "basic": _basic_epsilon(merged, delta, adjacency),
        "advanced": _advanced_epsilon(merged, delta, adjacency),
    }
    return Composition(min(epsilons.values()), delta, adjacency, epsilons)


def _merge(rounds: Iterable[Sampled]) -> list[Rounds]:
    """Check every round and put equal ones together."""
    times: dict[tuple[float, int], int] = {}
    for part in rounds:
        key = (upper_float(part.sampling_rate), check_threshold(part.threshold))
        times[key] = times.get(key, 0) + check_rounds(part.rounds)
    if not times:
        raise InvalidSetting("rounds", "must not be empty", hint="Give at least one plan.")
    return [Rounds(rate, threshold, count) for (rate, threshold), count in times.items()]


def log_delta_of_rounds(
    rounds: Sequence[Sampled], epsilon: float, adjacency: Adjacency, *, tolerance: float = FINE
) -> float:
    """ln of delta at `epsilon` from composed privacy losses; the worse direction for add-remove."""
    if len(rounds) == 1 and rounds[0].rounds == 1:
        # One round is computed exactly; only a search asks for less.
        grouping = exact.FINE if tolerance == FINE else tolerance
        rate, threshold = rounds[0].sampling_rate, rounds[0].threshold
        return exact.log_delta(rate, threshold, epsilon, adjacency, tolerance=grouping)
    removed = [Repeated(losses_remove(part.sampling_rate, part.threshold), part.rounds) for part in rounds]
    added = [Repeated(losses_add(part.sampling_rate, part.threshold), part.rounds) for part in rounds]
    if adjacency == "replace":
        return log_delta_composed(removed + added, epsilon, tolerance=tolerance)
    return max(log_delta_composed(side, epsilon, tolerance=tolerance) for side in (removed, added))


def epsilon_of_round(rate: float, threshold: int, delta: float, adjacency: Adjacency) -> float:
    """The smallest epsilon of one round at `delta`, from above; infinite where delta < p^τ."""
    if threshold * math.log(rate) > math.log(delta):
        return math.inf
    most = _largest_finite_loss(rate, threshold)

    def search(adjacency: Adjacency, tolerance: float, guess: float, width: float, precision: float) -> float:
        def log_delta(epsilon: float) -> float:
            return exact.log_delta(rate, threshold, epsilon, adjacency, tolerance=tolerance)

        return _smallest_epsilon(log_delta, delta, (0.0, min(guess, most), most), width=width, precision=precision)

    found = search("add-remove", exact.FINE, most, 0.5, 1e-10)
    if adjacency == "replace":  # slower to compute, and seldom far from it
        found = search("replace", COARSE / 10, found, 1e-2, 1e-5)
        found = search("replace", exact.FINE, found, 2e-4, 1e-7)
    return found


def _epsilon_of_rounds(rounds: Sequence[Sampled], delta: float, adjacency: Adjacency) -> float:
    """The smallest epsilon of composed privacy losses: between that of one round and what losses can add up to."""
    log_none_whole = sum(part.rounds * math.log1p(-(part.sampling_rate**part.threshold)) for part in rounds)
    if -math.expm1(log_none_whole) > delta:
        return math.inf
    least = max(epsilon_of_round(part.sampling_rate, part.threshold, delta, adjacency) for part in rounds)
    if least == math.inf:
        return math.inf
    most = sum(part.rounds * _largest_finite_loss(part.sampling_rate, part.threshold) for part in rounds)
    guess = min(least * math.sqrt(sum(part.rounds for part in rounds)), most)
    guide = _smallest_epsilon(
        lambda epsilon: log_delta_of_rounds(rounds, epsilon, adjacency, tolerance=COARSE),
        delta,
        (least, guess, most),
        width=0.2,
        precision=1e-4,
    )
    return _smallest_epsilon(
        lambda epsilon: log_delta_of_rounds(rounds, epsilon, adjacency),
        delta,
        (least, min(guide, most), most),
        width=0.01,
        precision=1e-6,
    )


def _largest_finite_loss(rate: float, threshold: int) -> float:
    """More than one round can lose, in either adjacency, unless it loses everything."""
    return math.log(threshold + 1) - math.log1p(-rate) + 1e-6


def _smallest_epsilon(
    log_delta: Callable[[float], float],
    delta: float,
    least_guess_most: tuple[float, float, float],
    *,
    width: float,
    precision: float,
) -> float:
    """The smallest epsilon in least…most with log_delta(epsilon) ≤ ln delta, within `precision` from above.

    Looks first around the guess, by a factor of about 1 ± `width`, then ever farther.
    Edge cases: infinite where not even `most` is enough. Nothing but infinite losses is left there, so delta is below
    their probability, or above it by less than bounds are rounded outward.
    """
    from scipy import optimize

    target = math.log(delta)
    least, guess, most = (math.log(max(epsilon, _SMALLEST_EPSILON)) for epsilon in least_guess_most)

    @functools.cache
    def distance(log_epsilon: float) -> float:
        return min(max(log_delta(math.exp(log_epsilon)) - target, -10.0), 10.0)

    low = high = min(max(guess, least), most)
    while distance(high) > 0:
        if high >= most:
            return math.inf
        low, high, width = high, min(high + width, most), 4 * width
    while distance(low) <= 0:
        if low <= least:
            return math.exp(low) if least_guess_most[0] > _SMALLEST_EPSILON else 0.0
        low, high, width = max(low - width, least), low, 4 * width
    found = optimize.brentq(distance, low, high, xtol=precision / 4, rtol=1e-15) + precision
    # Bounds are not smooth, since each is grouped or discretised in its own way: the margin doubles to get past that.
    while found < high and not distance(found) <= 0:
        found, precision = found + precision, 2 * precision
    return math.exp(min(found, high))


def basic_delta(rounds: Sequence[Sampled], epsilon: float, adjacency: Adjacency) -> float:
    """Delta at `epsilon` when each round gets an equal share of epsilon and deltas add up."""
    share = epsilon / sum(part.rounds for part in rounds)
    return min(1.0, _sum_of_deltas(rounds, share, adjacency))


def _sum_of_deltas(rounds: Sequence[Sampled], epsilon: float, adjacency: Adjacency) -> float:
    """The deltas of all rounds, each at `epsilon`, added up."""
    return sum(
        part.rounds * exact.delta_from_log(exact.log_delta(part.sampling_rate, part.threshold, epsilon, adjacency))
        for part in rounds
    )


def _round_epsilons(rounds: Sequence[Sampled], delta: float, adjacency: Adjacency) -> list[tuple[float, int]]:
    return [(epsilon_of_round(part.sampling_rate, part.threshold, delta, adjacency), part.rounds) for part in rounds]


def _basic_epsilon(rounds: Sequence[Sampled], delta: float, adjacency: Adjacency) -> float:
    share = delta / sum(part.rounds for part in rounds)
    return sum(epsilon * times for epsilon, times in _round_epsilons(rounds, share, adjacency))


def advanced(epsilons: Sequence[tuple[float, int]], slack: float) -> float:
    """Total epsilon of rounds (epsilon_i, times_i) when `slack` is added to the sum of their deltas.

    sqrt(2·ln(1/slack)·Σ ε²) + Σ ε(e^ε − 1).
    Reference: Dwork and Roth 2014, theorem 3.20, with rounds that may differ. The form printed in the paper's
    appendix is not this theorem and is not valid in general.
    """
    if any(epsilon > 500 for epsilon, _ in epsilons):
        return math.inf
    squares = sum(times * epsilon**2 for epsilon, times in epsilons)
    drift = sum(times * epsilon * math.expm1(epsilon) for epsilon, times in epsilons)
    return math.sqrt(2 * math.log(1 / slack) * squares) + drift


def _advanced_epsilon(rounds: Sequence[Sampled], delta: float, adjacency: Adjacency) -> float:
    share = delta / 2 / sum(part.rounds for part in rounds)
    return advanced(_round_epsilons(rounds, share, adjacency), delta / 2)


def advanced_delta(rounds: Sequence[Sampled], epsilon: float, adjacency: Adjacency) -> float:
    """Delta at `epsilon` by advanced composition with an equal epsilon a round, the best of a range of slacks."""
    times = sum(part.rounds for part in rounds)
    best = 1.0
    for exponent in range(1, 40, 2):
        slack = 10.0**-exponent
        each = _inverse_advanced(epsilon, times, slack)
        best = min(best, slack + _sum_of_deltas(rounds, each, adjacency))
    return best


def _inverse_advanced(total: float, times: int, slack: float) -> float:
    """The largest epsilon a round, found by halving and from below, that composes to at most `total`."""
    low, high = 0.0, total
    for _ in range(60):
        middle = 0.5 * (low + high)
        if advanced([(middle, times)], slack) <= total:
            low = middle
        else:
            high = middle
    return low
