"""The paper's privacy statements: the ratio, Theorem 1, C_α and the fixed-size leak (section 3).

Every delta here is an upper bound, kept for comparison; `thresher.privacy.delta` is the exact one.
"""

from __future__ import annotations

import math

from thresher.errors import InvalidSetting, Unreachable
from thresher.privacy.binomial import reach
from thresher.privacy.settings import (
    MAX_THRESHOLD,
    Adjacency,
    check_adjacency,
    check_count,
    check_delta,
    check_epsilon,
    check_probability,
    check_rate,
    check_threshold,
)

_SMALLEST = math.ulp(0.0)
_OUTWARD = 1 + 2**-50


def ratio(count: int, sampled: int, sampling_rate: float) -> float:
    """How much likelier `sampled` copies are when `count` units hold the bucket than when one fewer does.

    Guarantee: exact, Pr[Bin(k, p) = v] / Pr[Bin(k − 1, p) = v] = (1 − p)k / (k − v).
    Edge cases: v = k gives infinity (one fewer unit cannot produce it); the paper excludes it.
    Reference: paper, Lemma 1 (section 3.1); docs/privacy.md, section 4.
    """
    k = check_count(count, least=1)
    v = check_count(sampled, setting="sampled")
    p = check_rate(sampling_rate)
    if not v <= k:
        raise InvalidSetting("sampled", "must be at most count", hint="A sample holds no more than there is.")
    return math.inf if v == k else (1 - p) * k / (k - v)


def kl_divergence(q: float, p: float) -> float:
    """Relative entropy D(q‖p), in nats, of a coin with rate q from a coin with rate p.

    Edge cases: q may be 0 or 1, where the vanishing term counts as 0.
    Reference: paper, Theorem 1 (section 3.1).
    """
    base = check_rate(p, setting="p")
    shifted = float(q) if q in (0, 1) else check_rate(q, setting="q")
    gap = shifted - base
    heads = shifted * math.log1p(gap / base) if shifted > 0 else 0.0
    tails = (1 - shifted) * math.log1p(-gap / (1 - base)) if shifted < 1 else 0.0
    return max(0.0, heads + tails)


def theorem_1_delta(sampling_rate: float, threshold: int, epsilon: float, adjacency: Adjacency = "add-remove") -> float:
    """Theorem 1: delta_upper = exp(−(τ/q)·D(q‖p)).

    The paper says q = 1 − e^−ε(1 − p) for neighbours that differ in one unit's value, and writes the bound as
    "δ ≤". Any δ at or above it will do; its proof leaves out the sampled count τ itself, which the Chernoff
    bound covers all the same; and with that q it holds for add-remove only. For replace-one a second bucket
    can add ln 1/(1 − p) to the loss, and q = 1 − e^−ε is valid instead; the default here is the paper's q.

    Guarantee: never below the exact delta of the stated adjacency.
    Edge cases: e^−ε > 1 − p is outside the theorem and refused. A bound too small for a float is rounded up
    to the smallest one, never to 0.
    Reference: paper, Theorem 1 (section 3.1); docs/privacy.md, sections 4, 5 and 11.
    """
    p, tau = check_rate(sampling_rate), check_threshold(threshold)
    q = _theorem_1_q(p, epsilon, adjacency)
    return _exp_upper(-tau / q * kl_divergence(q, p))


def theorem_1_binomial_delta(
    sampling_rate: float, threshold: int, epsilon: float, adjacency: Adjacency = "add-remove"
) -> float:
    """Theorem 1 with the binomial tail in place of its Chernoff bound: delta_upper = Pr[Bin(⌊τ/q⌋, p) ≥ τ].

    The paper offers "the exact Binomial distribution" at k = τ/q, with Pr[Bin > τ] in its proof. A released
    count equal to τ is part of the bad event, so the strict version can be below the true delta
    (`theorem_1_binomial_delta_as_printed`); and k must be whole.

    Guarantee: never below the exact delta, because the worst count ⌊(τ − 1)/q⌋ + 1 is at most ⌊τ/q⌋.
    Edge cases: as `theorem_1_delta`; τ/q is rounded up by a relative 2^-50 before the floor.
    Reference: paper, after Theorem 1 (section 3.1); docs/privacy.md, sections 4 and 11.
    """
    p, tau = check_rate(sampling_rate), check_threshold(threshold)
    return max(_SMALLEST, _tail(_theorem_1_count(p, tau, epsilon, adjacency), p, tau))


def theorem_1_binomial_delta_as_printed(sampling_rate: float, threshold: int, epsilon: float) -> float:
    """Pr[Bin(⌊τ/q⌋, p) > τ] with q = 1 − e^−ε(1 − p), as the proof of Theorem 1 has it.

    Not a guarantee: it leaves out the count τ, which is released, and can be below the true delta. Use
    `theorem_1_binomial_delta`.

    Reference: paper, proof of Theorem 1, case 1 (section 3.1); docs/privacy.md, section 11.
    """
    p, tau = check_rate(sampling_rate), check_threshold(threshold)
    return _tail(_theorem_1_count(p, tau, epsilon, "add-remove"), p, tau + 1)


def c_alpha(alpha: float) -> float:
    """C_α = ln(1/α) − 1/(1 + α), the rate at which delta falls with the threshold.

    The paper asks for epsilon ≤ 1; its proof, and the statement, hold for every epsilon above 0, and for both
    adjacencies (`c_alpha_replace` shows why).

    Edge cases: not above 0 for α ≥ 0.5173…, where the lemma says nothing. The paper also admits α = 1.
    Reference: paper, Lemma 2 (section 3.1); docs/privacy.md, section 11.
    """
    a = check_probability(alpha, setting="alpha")
    return -math.log(a) - 1 / (1 + a)


def c_alpha_replace(alpha: float) -> float:
    """C' = ln(1/α) − 1 + α, a better constant than C_α, valid for both adjacencies.

    Guarantee: with p = α(1 − e^−ε), exp(−C'τ) is never below the exact delta. It is Theorem 1 with q = 1 −
    e^−ε and ln x ≥ 1 − 1/x; and C' ≥ C_α because (1 − α)(1 + α) ≤ 1. Above 0 for every α < 1.
    Reference: docs/privacy.md, section 11 (not in the paper).
    """
    a = check_probability(alpha, setting="alpha")
    return -math.log(a) - (1 - a)


def delta_from_alpha(alpha: float, threshold: int) -> float:
    """delta_upper = exp(−C_α·τ) for the sampling rate α(1 − e^−ε).

    Guarantee: never below the exact delta, for every epsilon above 0 and both adjacencies.
    Edge cases: 1.0 where C_α ≤ 0; never rounded down to 0.
    Reference: paper, Lemma 2 (section 3.1).
    """
    return _exp_upper(-c_alpha(alpha) * check_threshold(threshold))


def sampling_rate_from_alpha(epsilon: float, alpha: float) -> float:
    """The paper's sampling rate, p = α(1 − e^−ε).

    The paper also says that α = 1/5 lets one sample with probability ε/5. That is the limit for small
    epsilon, and too large otherwise: at epsilon = 1 it is the rate of α = 0.316.

    Reference: paper, Lemma 2 and the guidance after it (section 3.1).
    """
    return check_probability(alpha, setting="alpha") * -math.expm1(-check_epsilon(epsilon))


def epsilon_from_rate(sampling_rate: float, alpha: float) -> float:
    """The epsilon at which the paper's rule uses this rate: ln(α/(α − p)).

    Edge cases: p ≥ α is no rate of the rule and is refused.
    Reference: paper, after Lemma 2 (section 3.1).
    """
    p = check_rate(sampling_rate)
    a = check_probability(alpha, setting="alpha")
    if not p < a:
        raise InvalidSetting(
            "sampling_rate", "must be below alpha", hint="The rule samples at alpha(1 − e^−epsilon) < alpha."
        )
    return -math.log1p(-p / a)


def threshold_from_delta(delta: float, alpha: float) -> int:
    """The smallest whole threshold with exp(−C_α·τ) ≤ delta.

    Edge cases: alpha must be below 0.5173…, where C_α is above 0.
    Reference: paper, after Lemma 2 (section 3.1), rounded up to a whole number.
    """
    target, constant = check_delta(delta), c_alpha(alpha)
    if not constant > 0:
        raise InvalidSetting(
            "alpha", "must be below 0.5173, where C_alpha is above 0", hint="The paper uses `alpha=1/6`."
        )
    needed = -math.log(target) / constant
    if not needed < MAX_THRESHOLD:
        raise Unreachable(f"The paper's rule needs a threshold above {MAX_THRESHOLD:,}.", hint="Lower alpha.")
    tau = max(1, math.ceil(needed) - 1)
    while delta_from_alpha(alpha, tau) > target:
        tau += 1
    return tau


def alpha_from_threshold(threshold: int, delta: float) -> float:
    """The largest α, rounded down, with exp(−C_α·τ) ≤ delta.

    Guarantee: `delta_from_alpha(result, threshold) <= delta`, and the result is within a relative 1e-12 of
    the largest such α. With x = ln(1/α) the equation reads x = ln(1/δ)/τ + 1/(1 + e^−x); the right side rises
    at most a quarter as fast as x, so iterating from above converges and stays on the safe side.
    Edge cases: an α below 1e-300 is refused as unreachable.
    Reference: paper, Lemma 2 (section 3.1), solved for α.
    """
    tau, target = check_threshold(threshold), check_delta(delta)
    per_count = -math.log(target) / tau
    x = per_count + 1
    for _ in range(40):
        x = per_count + 1 / (1 + math.exp(-x))
    alpha = math.exp(-x)
    if not alpha > 1e-300:
        raise Unreachable("No alpha meets this delta at this threshold.", hint="Raise the threshold.")
    while delta_from_alpha(alpha, tau) > target:
        alpha /= _OUTWARD
    return alpha


def fixed_size_delta_lower(sample_size: int, population: int) -> float:
    """delta_lower = m/n when the size m of the sample is fixed and known.

    Compare n copies of one item with n − 1 copies and one unique item: a released total below m, which only
    the second can produce, has probability m/n. So no epsilon helps, and Thresher samples with independent
    coins and does not release sample sizes.

    Edge cases: needs m ≥ τ ≥ 2 (otherwise nothing, or everything, is released).
    Reference: paper, section 3.2; docs/privacy.md, section 3.
    """
    n = check_count(population, setting="population", least=1)
    m = check_count(sample_size, setting="sample_size", least=1)
    if not m <= n:
        raise InvalidSetting("sample_size", "must be at most population", hint="Sample no more than there are.")
    return m / n


def _theorem_1_q(p: float, epsilon: float, adjacency: Adjacency) -> float:
    """The q of Theorem 1, after its condition e^−ε ≤ 1 − p."""
    largest_rate = -math.expm1(-check_epsilon(epsilon))
    replace = check_adjacency(adjacency) == "replace"
    if not p <= largest_rate:
        raise InvalidSetting(
            "sampling_rate",
            "must be at most 1 − e^−epsilon for Theorem 1",
            hint="The exact guarantee has no such condition.",
        )
    return largest_rate if replace else largest_rate + (1 - largest_rate) * p


def _theorem_1_count(p: float, tau: int, epsilon: float, adjacency: Adjacency) -> int:
    return math.floor(tau / _theorem_1_q(p, epsilon, adjacency) * _OUTWARD)


def _tail(count: int, p: float, least: int) -> float:
    """Pr[Bin(count, p) ≥ least]."""
    return float(reach(count, least, p))


def _exp_upper(log_value: float) -> float:
    """e^log_value as a delta: at most 1, and not rounded down to 0."""
    return min(1.0, max(_SMALLEST, math.exp(min(0.0, log_value))))
