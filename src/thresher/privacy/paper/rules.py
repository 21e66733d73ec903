"""The paper's recipe: from (epsilon, delta) to a sampling rate and a threshold, and its best choice of α.

Kept as the yardstick for `thresher.plan`, which uses the exact guarantee and needs far fewer people.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from thresher.errors import Unreachable
from thresher.privacy.paper.guarantees import (
    alpha_from_threshold,
    delta_from_alpha,
    sampling_rate_from_alpha,
    threshold_from_delta,
)
from thresher.privacy.settings import (
    RATE_BITS,
    check_delta,
    check_epsilon,
    check_probability,
    check_rounds,
    check_threshold,
)
from thresher.privacy.visibility import smallest_visible, visible_size


@dataclass(frozen=True, slots=True)
class Rule:
    """A sampling rate and a threshold by the paper's lemma, and what they guarantee over all rounds.

    Guarantee: `rounds` rounds with fresh coins are (epsilon, delta)-private for both adjacencies. `delta` is
    rounds · exp(−C_α·τ), at most the delta that was asked for: the threshold is whole, so there may be some
    slack.
    """

    sampling_rate: float
    threshold: int
    epsilon: float
    delta: float
    alpha: float
    rounds: int

    def visible_count(self, probability: float = 0.95) -> int:
        """The smallest count that is released with at least this probability, in one round.

        Guarantee: exact, the smallest k with Pr[Bin(k, p) ≥ τ] ≥ probability.
        """
        wanted = check_probability(probability)
        return smallest_visible(self.sampling_rate, self.threshold, wanted)


def rule(epsilon: float, delta: float, alpha: float = 1 / 6, rounds: int = 1) -> Rule:
    """The paper's recipe: p = α(1 − e^−ε) and the smallest τ with exp(−C_α·τ) ≤ δ, per round.

    Several rounds share epsilon and delta equally (basic composition, Lemma 6).

    Edge cases: alpha must be below 0.5173….
    Reference: paper, Lemma 2 and the guidance after it (section 3.1); Lemma 6 (section 4.1).
    """
    _, each_delta = _share(epsilon, delta, rounds)
    return _rule(threshold_from_delta(each_delta, alpha), alpha, epsilon, delta, rounds)


def rate_for_threshold(epsilon: float, delta: float, threshold: int, rounds: int = 1) -> float:
    """The largest sampling rate that the paper's lemma allows at this threshold: its best α.

    Reference: paper, Lemma 2 (section 3.1) solved for α; Lemma 6 (section 4.1) for several rounds.
    """
    tau = check_threshold(threshold)
    _, each_delta = _share(epsilon, delta, rounds)
    return _rule(tau, alpha_from_threshold(tau, each_delta), epsilon, delta, rounds).sampling_rate


def best_rule(epsilon: float, delta: float, rounds: int = 1, probability: float = 0.95) -> Rule:
    """The recipe with the α (equivalently, the τ) that shows the smallest buckets.

    Minimises the count that is seen with the given probability. A low threshold forces a tiny rate and a high
    one is hard to reach; in between the count has one valley, which is found by halving on its slope.

    Edge cases: thresholds outside [ln(1/δ)/20, 4·ln(1/δ) + 10] are not tried: at the lower end α is below
    e^−20, and past the upper one, where C_α ≤ 1/4, α grows too slowly with τ to pay for it.
    Reference: paper, Lemma 2 (section 3.1) leaves α free; docs/privacy.md, section 10.
    """
    wanted = check_probability(probability)
    each_epsilon, each_delta = _share(epsilon, delta, rounds)

    def needed(tau: int) -> float:
        rate = sampling_rate_from_alpha(each_epsilon, alpha_from_threshold(tau, each_delta))
        return visible_size(rate, tau, wanted)

    exponent = -math.log(each_delta)
    low, high = max(1, math.floor(exponent / 20)), math.ceil(4 * exponent) + 10
    while low < high:
        middle = (low + high) // 2
        if needed(middle) <= needed(middle + 1):
            high = middle
        else:
            low = middle + 1
    return _rule(low, alpha_from_threshold(low, each_delta), epsilon, delta, rounds)


def _share(epsilon: float, delta: float, rounds: int) -> tuple[float, float]:
    """Each round's part of the total, by basic composition."""
    number = check_rounds(rounds)
    return check_epsilon(check_epsilon(epsilon) / number), check_delta(check_delta(delta) / number)


def _rule(threshold: int, alpha: float, epsilon: float, delta: float, rounds: int) -> Rule:
    """The rule for a threshold and α that meet the target; delta is capped against rounding above it."""
    each_epsilon, _ = _share(epsilon, delta, rounds)
    rate = sampling_rate_from_alpha(each_epsilon, alpha)
    if not rate >= 2.0**-RATE_BITS:
        raise Unreachable(f"The paper's rule would sample at less than 2^-{RATE_BITS}.", hint="Raise the threshold.")
    total = min(float(delta), rounds * delta_from_alpha(alpha, threshold))
    return Rule(rate, threshold, float(epsilon), total, alpha, check_rounds(rounds))
