"""Every numeric example of the paper's text: what it prints, what its formula gives, and the corrected value."""

from __future__ import annotations

import math
from dataclasses import dataclass

from thresher import privacy
from thresher.privacy import binomial, paper
from thresher.questions import Cells


@dataclass(frozen=True, slots=True)
class Example:
    """One number of the paper's text. `computed` follows the printed formula; `corrected` is what holds.

    `agrees` says whether the printed number is right as the text uses it, `remark` why, or why not.
    """

    place: str
    quantity: str
    printed: str
    computed: float
    corrected: float
    agrees: bool
    remark: str


def examples() -> list[Example]:
    """All of them, in the order of the text."""
    return [*_guidance(), *_sampling(), *_accuracy(), *_quantiles(), *_experiments()]


def _guidance() -> list[Example]:
    alpha, tau = 1 / 6, 20
    rate = paper.sampling_rate_from_alpha(1.0, alpha)
    fifth = paper.sampling_rate_from_alpha(1.0, 1 / 5)
    exact = privacy.delta(sampling_rate=rate, threshold=tau, epsilon=1.0, adjacency="replace")
    bound = paper.delta_from_alpha(alpha, tau)
    best = privacy.plan(1.0, 1e-8)
    return [
        Example(
            "3.1", "sampling rate, ε = 1, α = 1/6", "0.105", rate, best.sampling_rate, abs(rate - 0.105) < 5e-4,
            f"right; the exact plan for (1, 1e-8) samples {best.sampling_rate / rate:.1f} times as many, with "
            f"τ = {best.threshold}",
        ),
        Example(
            "3.1", "C_α, α = 1/6", "0.935", paper.c_alpha(alpha), paper.c_alpha_replace(alpha),
            abs(paper.c_alpha(alpha) - 0.935) < 5e-4, "right; the constant ln(1/α) − 1 + α is valid too, and larger",
        ),
        Example(
            "3.1", "δ at τ = 20", "< 1e-8", bound, exact, bound < 1e-8,
            "right; the corrected value is the exact δ of this rate and threshold",
        ),
        Example(
            "3.1", "sampling rate, ε = 1, α = 1/5, “ε/5”", "0.2", 1 / 5, fifth, abs(fifth - 0.2) < 0.02,
            f"too large: ε/5 is the limit for small ε; 0.2 is the rate of α = {0.2 / -math.expm1(-1.0):.3f}",
        ),
        Example(
            "3.1", "ε of the rate 0.105, α = 1/6", "1", paper.epsilon_from_rate(rate, alpha),
            privacy.epsilon(sampling_rate=rate, threshold=tau, delta=1e-8, adjacency="replace"), True,
            "right; the corrected value is the smallest ε that this rate and threshold have at δ = 1e-8",
        ),
    ]  # fmt: skip


def _sampling() -> list[Example]:
    spread, size, population = 10.0, 100_000, 1_000_000
    failure = paper.contact_failure_upper(size, spread)
    leak = paper.fixed_size_delta_lower(size, population)
    return [
        Example(
            "3.2", "δ forced by a fixed sample, m = 1e5 of n = 1e6", "≥ m/n", leak, leak, True,
            "right: sample sizes must not be fixed and known",
        ),
        Example(
            "3.2", "Pr[sample > m + 10√m]", "exp(−c²/3), “negligible”", failure, failure, failure < 1e-12,
            "right for m ≥ 100; taking part with m/s is still not Poisson sampling: "
            f"the variance of the size is {size * (1 - size / paper.contact_size(size, spread)):,.0f} in place of "
            f"{size * (1 - size / population):,.0f}",
        ),
    ]  # fmt: skip


def _accuracy() -> list[Example]:
    rate, tau, population = 0.1, 20, 1_000_000
    count = 1000
    bound = paper.omission_upper(count, rate, tau)
    omitted = float(binomial.miss(count, tau, rate))
    delta = privacy.delta(sampling_rate=rate, threshold=tau, epsilon=1.0, adjacency="replace")
    failure = math.exp(-10) / 2
    error = 1 / math.sqrt(10)
    printed = paper.estimable_frequency_as_printed(error, rate * population, failure) * population
    corrected = paper.estimable_frequency(error, rate * population, failure) * population
    return [
        Example(
            "3.3", "δ at ε = 1, p = 0.1, τ = 20", "1e-8", paper.theorem_1_delta(rate, tau, 1.0), delta, delta <= 1e-8,
            "right as a bound; the corrected value is exact",
        ),
        Example("3.3", "expected sample of an item of 0.1 %", "100", count * rate, count * rate, True, "right"),
        Example(
            "3.3", "omission of an item of 0.1 %", "exp(−32) < 1e-13", bound, omitted, bound < 1e-13,
            "right as a bound; the corrected value is exact",
        ),
        Example(
            "3.3", "φ·n with p = 0.1, γ = 1/√10, ln(1/2β) = 10", "3000", printed, corrected,
            abs(corrected - 3000) < 1, "ln(1/2β) should be ln(2/β)",
        ),
        Example(
            "3.3", "n from which 1 % is estimated", "3e5", printed / 0.01, corrected / 0.01,
            abs(corrected / 0.01 - 3e5) < 100, "the same slip",
        ),
    ]  # fmt: skip


def _quantiles() -> list[Example]:
    levels, branching, tau, population = 10, 2, 10, 1_000_000
    printed = paper.hierarchy_error_as_printed(levels, branching, tau, 1.0, population)
    lost, spread = paper.hierarchy_error(levels, branching, tau, 0.1, population)
    first, second = (int(Cells("x", 0, 1, cells).bucket(1 / 3) or 0) for cells in (4, 16))
    return [
        Example(
            "4.2", "rank error, τ = L = 10, β = 2, ε = 1, n = 1e6", "0.01", printed, lost + spread, False,
            "the formula takes p = ε/(Lτ) and leaves sampling out; corrected: L(β−1)τ/(pn) + 1/√(pn) with p = 0.1",
        ),
        Example("4.2", "level 1 range of 1/3, β = 4: from", "0.25", first / 4, first / 4, first == 1, "right"),
        Example("4.2", "level 2 range of 1/3, β = 4: from", "5/16", second / 16, second / 16, second == 5, "right"),
        Example("4.2", "probes of a range, L = 2, β = 4", "6", paper.hierarchy_probes(2, 4), 6, True, "right"),
        Example(
            "4.2", "resolution of L = 2 levels, β = 4", "2^−L", 2.0**-2, paper.hierarchy_resolution(2, 4), False,
            "β^−L; 2^−L is the case β = 2",
        ),
    ]  # fmt: skip


def _experiments() -> list[Example]:
    rule, small = paper.rule(1.0, 1e-8), paper.rule(0.2, 1e-8)
    needed = privacy.plan(1.0, 1e-8, sampling_rate=rule.sampling_rate).threshold
    seen = 100 * small.visible_count() / 1_000_000
    exactly = 100 * privacy.plan(0.2, 1e-8).smallest_visible() / 1_000_000
    shares = [
        Example(
            "5", f"largest share in per cent, {name}, B = {buckets:,}", "1 to 5", share, share, 1 <= share <= 5,
            "right" if 1 <= share <= 5 else "said of all; true in the middle of the range of B",
        )
        for buckets in (2**6, 2**10, 2**14)
        for name, share in (
            ("Binomial", 100 * math.exp(float(binomial.log_point(buckets, buckets // 2, 0.5)))),
            ("Geometric", 100 / math.sqrt(buckets)),
        )
    ]  # fmt: skip
    return [
        *shares,
        Example(
            "5", "threshold for α = 1/6, δ = 1e-8", "20", rule.threshold, needed, rule.threshold == 20,
            "right; at the rule's rate for ε = 1 the exact guarantee needs less",
        ),
        Example(
            "5", "share in per cent that is rarely dropped at ε = 0.2", "0.1", seen, exactly, seen <= 0.1,
            "right: seen 95 times in 100, of a million; the corrected value is the exact plan's",
        ),
    ]  # fmt: skip
