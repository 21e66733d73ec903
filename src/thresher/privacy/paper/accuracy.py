"""The paper's accuracy statements: contacting devices (section 3.2), omission and estimation (section 3.3).

Bounds, kept for comparison: the exact probabilities are binomial tails (docs/privacy.md, section 9).
"""

from __future__ import annotations

import math
from numbers import Real

from thresher.errors import InvalidSetting
from thresher.privacy.settings import (
    check_count,
    check_delta,
    check_epsilon,
    check_probability,
    check_rate,
    check_threshold,
)


def omission_upper(count: int, sampling_rate: float, threshold: int) -> float:
    """Bound on the probability that a bucket held by `count` units is dropped: exp(−(w − τ)²/2w) with w = kp.

    Guarantee: never below the exact Pr[Bin(k, p) < τ]; the paper bounds Pr[Bin(k, p) ≤ τ], which is larger.
    Edge cases: 1.0 when w ≤ τ, where the lemma says nothing.
    Reference: paper, Lemma 4 (section 3.3).
    """
    w = check_count(count) * check_rate(sampling_rate)
    tau = check_threshold(threshold)
    return math.exp(-((w - tau) ** 2) / (2 * w)) if w > tau else 1.0


def estimation_failure_upper(relative_error: float, frequency: float, sample_size: float) -> float:
    """Bound on the probability that a frequency is estimated with more than this relative error.

    2·exp(−γ²φm/3). The paper states O(exp(−γ²φm)); the constant 1/3 in the exponent, which its proof has,
    cannot be hidden in an O.

    Guarantee: valid for Poisson sampling with an expected sample of m, before the threshold. The threshold
    adds nothing when (1 − γ)φm ≥ τ.
    Edge cases: at most 1.0; the relative error must be below 1.
    Reference: paper, Lemma 5 (section 3.3); docs/privacy.md, section 11.
    """
    g = check_probability(relative_error, setting="relative_error")
    phi = check_probability(frequency, setting="frequency")
    return min(1.0, 2 * math.exp(-(g**2) * phi * _positive("sample_size", sample_size) / 3))


def estimable_frequency(relative_error: float, sample_size: float, failure: float) -> float:
    """The smallest frequency that is estimated within the relative error except with this probability.

    φ = 3·ln(2/β)/(γ²m). The paper prints ln(1/2β), which is smaller by ln 4 and does not follow from its
    bound 2·exp(−γ²φm/3) = β.

    Edge cases: a result above 1 means that the sample is too small for any frequency.
    Reference: paper, proof of Lemma 5 (section 3.3); docs/privacy.md, section 11.
    """
    g = check_probability(relative_error, setting="relative_error")
    beta = check_probability(failure, setting="failure")
    return 3 * math.log(2 / beta) / (g**2 * _positive("sample_size", sample_size))


def estimable_frequency_as_printed(relative_error: float, sample_size: float, failure: float) -> float:
    """φ = 3·ln(1/2β)/(γ²m), as in the paper's proof and example; too small, use `estimable_frequency`.

    Edge cases: not above 0 for β ≥ 1/2.
    Reference: paper, proof of Lemma 5 and the example after it (section 3.3).
    """
    g = check_probability(relative_error, setting="relative_error")
    beta = check_probability(failure, setting="failure")
    return 3 * math.log(1 / (2 * beta)) / (g**2 * _positive("sample_size", sample_size))


def sample_size_for_estimate(relative_error: float, frequency: float, failure: float) -> float:
    """The expected sample that estimates a frequency within the relative error except with this probability.

    m = 3·ln(2/β)/(γ²φ): `estimable_frequency` solved for m.

    Reference: paper, proof of Lemma 5 (section 3.3), with ln(2/β) for the printed ln(1/2β).
    """
    return estimable_frequency(relative_error, 1.0, failure) / check_probability(frequency, setting="frequency")


def sampling_error_scale(sample_size: float) -> float:
    """The size of the sampling error of a frequency, 1/√m.

    Guarantee: the standard deviation of a released count divided by m = pn is at most this.
    Reference: paper, remark in section 3.3.
    """
    return 1 / math.sqrt(_positive("sample_size", sample_size))


def rounding_error(threshold: int, sample_size: float) -> float:
    """The most that dropping a bucket can take from its frequency in the sample, τ/m.

    Reference: paper, remark in section 3.3.
    """
    return check_threshold(threshold) / _positive("sample_size", sample_size)


def shuffle_error_scale(epsilon: float, delta: float, population: int) -> float:
    """The scale of the shuffle model's error that the paper compares with, ln(1/δ)/(ε²n).

    The paper gives it inside an O, for epsilon ≤ 1 and large n: compare growth, not values.

    Reference: paper, remark in section 3.3, after Balcer and Cheu (2020).
    """
    n = check_count(population, setting="population", least=1)
    return -math.log(check_delta(delta)) / (check_epsilon(epsilon) ** 2 * n)


def contact_size(sample_size: float, spread: float = 10.0) -> int:
    """How many devices the paper contacts for a Poisson sample of expected size m: m + c√m, rounded up.

    The paper then lets each of the s contacted devices take part with probability m/s. That is a Binomial(s,
    m/s) sample, not Poisson sampling from n: its size has variance m(1 − m/s), about c√m, in place of m(1 −
    m/n), and devices are no longer independent. Exact, and as cheap: contact every device by its own coin of
    rate r and let the device toss p/r.

    Reference: paper, Lemma 3 (section 3.2); docs/privacy.md, sections 3 and 11.
    """
    m = _positive("sample_size", sample_size)
    return math.ceil(m + _positive("spread", spread) * math.sqrt(m))


def contact_failure_upper(sample_size: float, spread: float = 10.0) -> float:
    """Bound on the probability that a Poisson sample of expected size m exceeds m + c√m.

    The paper prints exp(−c²/3), which needs c ≤ √m: with its c = 10, a sample of at least 100. Beyond that
    this returns the general Chernoff bound exp(−c²/(2 + c/√m)).

    Reference: paper, proof of Lemma 3 (section 3.2); docs/privacy.md, section 11.
    """
    m, c = _positive("sample_size", sample_size), _positive("spread", spread)
    return math.exp(-(c**2) / max(3.0, 2 + c / math.sqrt(m)))


def _positive(setting: str, value: object) -> float:
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    if not 0 < number <= 1e15:
        raise InvalidSetting(
            setting,
            "must be a number above 0",
            hint=f"Give a number from 0 (excluded) to 10^15, such as `{setting}=10`.",
        )
    return number
