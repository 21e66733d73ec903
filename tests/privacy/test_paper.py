"""The paper's statements and numeric examples, and the verdicts of docs/privacy.md, section 11.

Witnesses are independent of the library: laws of the release from exact rationals or mpmath, by definition.
"""

from __future__ import annotations

import functools
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy.stats import binom

from thresher.errors import InvalidSetting, Unreachable
from thresher.privacy import paper

rates = st.floats(1e-4, 0.9)
alphas = st.floats(1e-6, 0.51)
thresholds = st.integers(1, 500)
epsilons = st.floats(1e-3, 8)


# Witnesses -------------------------------------------------------------------------------------------------


def law(count: int, rate: Fraction, threshold: int) -> dict[int, Fraction]:
    """The law of one bucket's release; 0 stands for nothing released."""
    out: dict[int, Fraction] = {}
    for v in range(count + 1):
        mass = math.comb(count, v) * rate**v * (1 - rate) ** (count - v)
        out[v if v >= threshold else 0] = out.get(v if v >= threshold else 0, Fraction(0)) + mass
    return out


def hockey_stick(first: dict, second: dict, factor: Fraction) -> Fraction:
    return sum((max(Fraction(0), m - factor * second.get(o, Fraction(0))) for o, m in first.items()), Fraction(0))


def product(first: dict, second: dict) -> dict:
    return {(a, b): x * y for (a, x), (b, y) in itertools.product(first.items(), second.items())}


def add_remove_brute(rate: Fraction, threshold: int, factor: Fraction, most: int) -> Fraction:
    laws = [law(k, rate, threshold) for k in range(most + 1)]
    return max(max(hockey_stick(a, b, factor), hockey_stick(b, a, factor)) for a, b in itertools.pairwise(laws))


def replace_brute(rate: Fraction, threshold: int, factor: Fraction, most: int) -> Fraction:
    laws = [law(k, rate, threshold) for k in range(most + 1)]
    return max(
        hockey_stick(product(laws[k], laws[j - 1]), product(laws[k - 1], laws[j]), factor)
        for k in range(1, most + 1)
        for j in range(1, most + 1)
    )


@functools.cache
def tail(count: int, rate: float, threshold: int) -> mpf:
    """Pr[Bin(count, rate) ≥ threshold] to 60 digits, less what 1 − (the lower terms) cancels."""
    with mp.workdps(60):
        p = mpf(rate)
        return 1 - mp.fsum(mp.binomial(count, v) * p**v * (1 - p) ** (count - v) for v in range(threshold))


def remove_exact(rate: float, threshold: int, factor: mpf) -> mpf:
    """delta of removing one unit by the closed form (docs/privacy.md, section 4)."""
    with mp.workdps(60):
        k = int(mp.floor((threshold - 1) / (1 - (1 - mpf(rate)) / factor))) + 1
        return tail(k, rate, threshold) - factor * tail(k - 1, rate, threshold)


def replace_exact(rate: float, threshold: int, epsilon: float) -> mpf:
    """The replace-one bound of docs/privacy.md, section 5, cut where the rest is below 1e-18."""
    with mp.workdps(50):
        p, weight, total, rest, j = mpf(rate), mpf(rate) ** threshold, mpf(0), mpf(1), threshold + 1
        factor = mp.exp(epsilon)
        while rest > mpf(10) ** -18:
            growth = (1 - p) * (j - 1) / (j - threshold)
            total += weight * remove_exact(rate, threshold, factor * growth)
            rest, weight, j = rest - weight, weight * growth, j + 1
        return total


# Numeric examples of the text ------------------------------------------------------------------------------


def test_example_epsilon_1_alpha_one_sixth() -> None:
    """Section 3.1: p = 0.105, C = 0.935, τ = 20, δ < 1e-8."""
    assert round(paper.sampling_rate_from_alpha(1, 1 / 6), 3) == 0.105
    assert round(paper.c_alpha(1 / 6), 3) == 0.935
    assert paper.threshold_from_delta(1e-8, 1 / 6) == 20
    assert paper.delta_from_alpha(1 / 6, 20) == pytest.approx(7.62e-9, rel=1e-3)
    assert paper.delta_from_alpha(1 / 6, 19) > 1e-8
    rule = paper.rule(1.0, 1e-8)
    assert (rule.threshold, rule.alpha, rule.rounds, rule.epsilon) == (20, 1 / 6, 1, 1.0)
    assert rule.delta < 1e-8 and round(rule.sampling_rate, 3) == 0.105


def test_example_sampling_with_epsilon_over_5_is_too_much() -> None:
    """Section 3.1: α = 1/5 "will ensure privacy when sampling with probability ε/5"."""
    assert paper.sampling_rate_from_alpha(1, 1 / 5) == pytest.approx(0.12642, abs=1e-5)
    assert paper.sampling_rate_from_alpha(1e-6, 1 / 5) == pytest.approx(1e-6 / 5, rel=1e-6)
    assert paper.epsilon_from_rate(1 / 5, 0.3164) == pytest.approx(1, abs=1e-3)
    assert paper.delta_from_alpha(0.3164, 20) > 1000 * paper.delta_from_alpha(1 / 5, 20)


def test_example_omission() -> None:
    """Section 3.3: n = 1e6, p = 0.1, τ = 20, an item of 0.1 %: exp(−32) < 1e-13."""
    assert paper.omission_upper(1000, 0.1, 20) == pytest.approx(math.exp(-32))
    assert math.exp(-32) < 1e-13
    assert binom.cdf(19, 1000, 0.1) < paper.omission_upper(1000, 0.1, 20)


def test_example_estimation() -> None:
    """Section 3.3: p = 0.1, ln(1/2β) = 10, γ = 1/√10 give φ = 3e3/n, 1 % at n = 3e5; corrected, 3416/n."""
    n, beta, gamma = 3 * 10**5, math.exp(-10) / 2, 1 / math.sqrt(10)
    assert paper.estimable_frequency_as_printed(gamma, 0.1 * n, beta) == pytest.approx(3e3 / n) == 0.01
    corrected = paper.estimable_frequency(gamma, 0.1 * n, beta)
    assert corrected * n == pytest.approx(3e3 * (10 + math.log(4)) / 10)
    assert (1 - gamma) * 0.01 * 0.1 * n > 10  # the example's threshold drops none of these


def test_example_hierarchy() -> None:
    """Section 4.2: τ = 10, L = 10, β = 2, ε = 1 give 1e4/n, 0.01 at n = 1e6."""
    assert paper.hierarchy_error_as_printed(10, 2, 10, 1.0, 10**6) == pytest.approx(0.01)


def test_example_ranges() -> None:
    """Section 4.2, β = 4: 1/3 is in [1/4, 1/2) and [5/16, 6/16); [0, 0.7) takes 2 + 3 + … buckets."""
    third = Fraction(1, 3)
    assert [math.floor(third * 4**level) for level in (1, 2)] == [1, 5]
    digits = [math.floor(Fraction(7, 10) * 4**level) % 4 for level in range(1, 6)]
    assert digits[:2] == [2, 3]
    assert sum(digits) <= paper.hierarchy_probes(5, 4) == 15
    assert paper.hierarchy_resolution(2, 4) == 1 / 16


def test_experiments_default_and_small_epsilon_remark() -> None:
    """Section 5: τ = 20 by default; at ε = 0.2 only items below 0.1 % (of 1e6) are likely to be dropped."""
    rule = paper.rule(0.2, 1e-8)
    assert rule.threshold == 20
    assert binom.sf(19, 1000, rule.sampling_rate) > 0.9
    assert binom.sf(19, 500, rule.sampling_rate) < 0.25


def test_contact_example() -> None:
    """Section 3.2: with c = 10 the failure is "negligibly small"."""
    assert paper.contact_size(10_000) == 11_000
    assert paper.contact_failure_upper(10_000) == math.exp(-100 / 3) < 1e-14


# Verdicts, in the order of docs/privacy.md, section 11 -----------------------------------------------------


def test_ratio_lemma() -> None:
    p = Fraction(3, 10)
    for k in range(1, 8):
        for v in range(k):
            exact = Fraction(math.comb(k, v)) * (1 - p) / math.comb(k - 1, v)
            assert paper.ratio(k, v, 0.3) == pytest.approx(float(exact), rel=1e-12)
        assert paper.ratio(k, k, 0.3) == math.inf


@pytest.mark.parametrize("threshold", [1, 2, 3])
@pytest.mark.parametrize("rate", [Fraction(1, 20), Fraction(1, 5), Fraction(1, 2)])
@pytest.mark.parametrize("factor", [Fraction(5, 4), Fraction(2), Fraction(5)])
def test_theorem_1_against_brute_force(threshold: int, rate: Fraction, factor: Fraction) -> None:
    """Never below the truth in either adjacency; refused exactly where e^−ε > 1 − p."""
    epsilon = math.log(factor) * (1 + 1e-15)
    if rate > 1 - 1 / factor:
        with pytest.raises(InvalidSetting):
            paper.theorem_1_delta(float(rate), threshold, epsilon)
        return
    add_remove = add_remove_brute(rate, threshold, factor, 24)
    replaced = replace_brute(rate, threshold, factor, 9)
    slack = 1 + 1e-9
    for bound in (paper.theorem_1_delta, paper.theorem_1_binomial_delta):
        assert bound(float(rate), threshold, epsilon) * slack >= add_remove
        assert bound(float(rate), threshold, epsilon, "replace") * slack >= replaced


@pytest.mark.parametrize(("rate", "threshold", "epsilon"), [(0.1, 10, 1.0), (0.25, 20, 1.0), (0.05, 15, 0.2)])
def test_theorem_1_against_the_closed_form(rate: float, threshold: int, epsilon: float) -> None:
    exact = remove_exact(rate, threshold, mp.exp(epsilon))
    tail = paper.theorem_1_binomial_delta(rate, threshold, epsilon)
    assert exact <= tail <= paper.theorem_1_delta(rate, threshold, epsilon)
    replaced = replace_exact(rate, threshold, epsilon)
    assert exact < replaced <= paper.theorem_1_binomial_delta(rate, threshold, epsilon, "replace")


def test_witnesses_agree_with_each_other_and_with_known_values() -> None:
    brute = add_remove_brute(Fraction(1, 5), 3, Fraction(2), 30)
    assert remove_exact(0.2, 3, mpf(2)) == pytest.approx(float(brute), rel=1e-12)
    assert remove_exact(0.1053534, 20, mp.e) == pytest.approx(6.8688e-15, rel=1e-4)
    assert remove_exact(0.1, 10, mp.e) == pytest.approx(9.980e-9, rel=1e-4)
    assert replace_exact(0.1053534, 20, 1.0) == pytest.approx(7.115e-15, rel=1e-4)


def test_theorem_1_with_its_printed_q_does_not_hold_for_replace_one() -> None:
    """p = 0.3, ε = 0.4, τ = 1000: one pair of neighbours has a larger delta than the printed bound.

    At such deltas only: the Chernoff bound is loose by more than the missing term at everyday settings.
    """
    p, tau, epsilon, k, j = 0.3, 1000, 0.4, 1952, 3666

    def released(count: int, size: int) -> np.ndarray:
        return np.append(binom.cdf(tau - 1, count, p), binom.pmf(np.arange(tau, size + 1), count, p))

    before = np.outer(released(k, k), released(j - 1, j))
    after = np.outer(released(k - 1, k), released(j, j))
    truth = np.maximum(0, before - math.exp(epsilon) * after).sum()
    assert truth > 2 * paper.theorem_1_delta(p, tau, epsilon)
    assert truth < paper.theorem_1_delta(p, tau, epsilon, "replace")


def test_strict_binomial_is_below_the_truth() -> None:
    for rate, threshold in ((0.1, 10), (0.1, 20)):
        exact = remove_exact(rate, threshold, mp.e)
        assert paper.theorem_1_binomial_delta_as_printed(rate, threshold, 1.0) < exact
        assert paper.theorem_1_binomial_delta(rate, threshold, 1.0) >= exact


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("alpha", [1 / 6, 0.35])
def test_c_alpha_is_valid_for_replace_one_and_the_other_constant_is_better(epsilon: float, alpha: float) -> None:
    threshold = 12
    rate = paper.sampling_rate_from_alpha(epsilon, alpha)
    truth = replace_exact(rate, threshold, epsilon)
    better = math.exp(-paper.c_alpha_replace(alpha) * threshold)
    assert truth <= better < paper.delta_from_alpha(alpha, threshold)


def test_c_alpha_changes_sign() -> None:
    assert paper.c_alpha(0.5172) > 0 > paper.c_alpha(0.5174)
    assert paper.delta_from_alpha(0.52, 50) == 1.0
    with pytest.raises(InvalidSetting, match="alpha"):
        paper.threshold_from_delta(1e-8, 0.52)


def test_omission_bound_holds_and_says_nothing_at_the_threshold() -> None:
    for count in (150, 201, 260, 400, 1000):
        assert binom.cdf(20, count, 0.1) <= paper.omission_upper(count, 0.1, 20)
    assert paper.omission_upper(200, 0.1, 20) == paper.omission_upper(0, 0.1, 20) == 1.0


def test_estimation_bound_needs_its_third() -> None:
    n, p, count, gamma = 10**5, 0.1, 2000, 0.25
    mean = count * p
    exact = binom.cdf(math.ceil(mean * (1 - gamma)) - 1, count, p) + binom.sf(math.floor(mean * (1 + gamma)), count, p)
    assert exact <= paper.estimation_failure_upper(gamma, count / n, p * n)
    assert exact > math.exp(-(gamma**2) * mean)  # the exponent as stated, without the 1/3
    beta = paper.estimation_failure_upper(gamma, count / n, p * n)
    assert paper.estimable_frequency(gamma, p * n, beta) == pytest.approx(count / n)
    assert paper.sample_size_for_estimate(gamma, count / n, beta) == pytest.approx(p * n)
    printed = paper.estimable_frequency_as_printed(gamma, p * n, beta)
    assert paper.estimation_failure_upper(gamma, printed, p * n) == pytest.approx(4 * beta)


def test_printed_advanced_composition_is_exceeded() -> None:
    """L copies of the worst (ε, δ) mechanism (Kairouz, Oh and Viswanath 2015), against the printed pair."""
    levels, epsilon, delta = 100, 0.05, 1e-12
    total, total_delta = paper.advanced_composition_as_printed(epsilon, delta, levels)
    heads = math.exp(epsilon) / (1 + math.exp(epsilon))

    def exact(at: float) -> float:
        losses = ((2 * i - levels) * epsilon for i in range(levels + 1))
        over = math.fsum(
            math.comb(levels, i) * heads**i * (1 - heads) ** (levels - i) * -math.expm1(at - loss)
            for i, loss in enumerate(losses)
            if loss > at
        )
        return 1 - (1 - delta) ** levels * (1 - over)

    assert exact(total) > 10 * total_delta
    slack = levels * delta
    proper = epsilon * math.sqrt(2 * levels * math.log(1 / slack)) + levels * epsilon * math.expm1(epsilon)
    assert exact(proper) <= 2 * slack
    assert paper.triehh_guarantee(epsilon, delta, levels) == (levels * epsilon, levels * delta)


def test_hierarchy_error_at_the_rate_of_the_rule() -> None:
    """Ten levels at ε = 1 each sample 0.105, not ε/(Lτ) = 0.01: pruning costs less, sampling is left out."""
    rate = paper.sampling_rate_from_alpha(1.0, 1 / 6)
    lost, spread = paper.hierarchy_error(10, 2, 10, rate, 10**6)
    assert lost == pytest.approx(10 * 10 / (rate * 10**6))
    assert lost < paper.hierarchy_error_as_printed(10, 2, 10, 1.0, 10**6)
    assert spread == pytest.approx(1 / math.sqrt(rate * 10**6))
    assert spread > lost
    lost_at_its_rate, _ = paper.hierarchy_error(10, 2, 10, 1 / 100, 10**6)
    assert lost_at_its_rate == pytest.approx(paper.hierarchy_error_as_printed(10, 2, 10, 1.0, 10**6))


def test_fixed_size_sampling_leaks_by_brute_force() -> None:
    """All samples of 3 out of 6, τ = 2: neighbours differ by m/n at any epsilon; independent coins do not."""
    n, m, threshold = 6, 3, 2

    def releases(items: str) -> dict[tuple[tuple[str, int], ...], Fraction]:
        out: dict[tuple[tuple[str, int], ...], Fraction] = {}
        samples = list(itertools.combinations(items, m))
        for sample in samples:
            kept = tuple((x, sample.count(x)) for x in sorted(set(sample)) if sample.count(x) >= threshold)
            out[kept] = out.get(kept, Fraction(0)) + Fraction(1, len(samples))
        return out

    leak = hockey_stick(releases("aaaaab"), releases("aaaaaa"), Fraction(10**9))
    assert leak == Fraction(m, n) == Fraction(paper.fixed_size_delta_lower(m, n))
    assert replace_brute(Fraction(m, n), threshold, Fraction(10**9), 6) < leak


def test_contacting_a_fixed_number_has_the_wrong_variance() -> None:
    """Of s contacted devices each takes part with m/s: the size's variance is near c√m, not near m."""
    n, m = 10**6, 10_000
    s = paper.contact_size(m)
    assert binom.var(s, m / s) < 0.1 * binom.var(n, m / n)
    r, p = 0.02, m / n  # contact by a coin of rate r, then toss p/r: the coin of rate p
    assert binom.var(n, r * (p / r)) == pytest.approx(binom.var(n, p))


def test_contact_failure_needs_a_sample_of_c_squared() -> None:
    """With m = 1 and c = 10 the printed exp(−c²/3) is below the truth; the bound here is not."""
    n, m, c = 10**6, 1, 10
    truth = binom.sf(m + c * math.sqrt(m), n, m / n)
    assert math.exp(-(c**2) / 3) < truth <= paper.contact_failure_upper(m, c)
    assert binom.sf(100 + 100, n, 100 / n) <= paper.contact_failure_upper(100, c) == math.exp(-(c**2) / 3)


# The rule and its best α -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("threshold", "rate"), [(10, 0.0391), (20, 0.1070), (40, 0.1838), (100, 0.2586)])
def test_best_rate_at_a_threshold(threshold: int, rate: float) -> None:
    assert paper.rate_for_threshold(1.0, 1e-8, threshold) == pytest.approx(rate, abs=5e-5)


def test_ten_rounds() -> None:
    assert paper.rate_for_threshold(1.0, 1e-8, 20, rounds=10) == pytest.approx(0.0141, abs=5e-5)
    rule = paper.rule(1.0, 1e-8, rounds=10)
    assert rule.epsilon == 1.0 and rule.delta <= 1e-8
    assert rule.sampling_rate == paper.sampling_rate_from_alpha(0.1, 1 / 6)


def test_visible_counts() -> None:
    """At (1, 1e-8): 261 people with α = 1/6, 251 with the best α; τ/p is 187 at its own best."""
    assert paper.rule(1.0, 1e-8).visible_count() == 261
    best = paper.best_rule(1.0, 1e-8)
    assert (best.threshold, best.visible_count()) == (25, 251)
    assert min(t / paper.rate_for_threshold(1.0, 1e-8, t) for t in range(5, 80)) == pytest.approx(186.66, abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("target", [(1.0, 1e-8), (0.1, 1e-12), (5.0, 1e-3), (1.0, 0.5)])
@pytest.mark.parametrize("probability", [0.5, 0.95, 0.999])
def test_best_rule_finds_the_minimum_of_a_full_scan(target: tuple[float, float], probability: float) -> None:
    epsilon, delta = target
    best = paper.best_rule(epsilon, delta, probability=probability)
    counts = []
    for threshold in range(1, 160):
        try:
            rate = paper.rate_for_threshold(epsilon, delta, threshold)
        except Unreachable:
            continue
        counts.append(paper.Rule(rate, threshold, epsilon, delta, 0.1, 1).visible_count(probability))
    assert best.visible_count(probability) == min(counts)
    k = best.visible_count(probability)
    assert binom.sf(best.threshold - 1, k, best.sampling_rate) >= probability * (1 - 1e-12)
    assert binom.sf(best.threshold - 1, k - 1, best.sampling_rate) < probability


# Properties ------------------------------------------------------------------------------------------------


@given(rates, thresholds, st.floats(2.5, 8), st.floats(0.5, 1))
def test_theorem_1_is_monotone(rate: float, threshold: int, epsilon: float, factor: float) -> None:
    for adjacency in ("add-remove", "replace"):
        at = paper.theorem_1_delta(rate, threshold, epsilon, adjacency)
        slack = 1 + 1e-9
        assert paper.theorem_1_delta(rate * factor, threshold, epsilon, adjacency) <= at * slack
        assert paper.theorem_1_delta(rate, threshold + 1, epsilon, adjacency) <= at * slack
        assert paper.theorem_1_delta(rate, threshold, epsilon + 0.5, adjacency) <= at * slack
    assert paper.theorem_1_delta(rate, threshold, epsilon) <= at * slack


@given(alphas, thresholds, epsilons)
def test_the_lemma_is_looser_than_theorem_1(alpha: float, threshold: int, epsilon: float) -> None:
    rate = paper.sampling_rate_from_alpha(epsilon, alpha)
    lemma = paper.delta_from_alpha(alpha, threshold)
    for adjacency in ("add-remove", "replace"):
        chernoff = paper.theorem_1_delta(rate, threshold, epsilon, adjacency)
        assert paper.theorem_1_binomial_delta(rate, threshold, epsilon, adjacency) <= chernoff * (1 + 1e-9)
        assert chernoff <= lemma * (1 + 1e-9)
    assert paper.epsilon_from_rate(rate, alpha) == pytest.approx(epsilon, rel=1e-9)


@given(thresholds, st.floats(1e-60, 0.9))
def test_alpha_and_threshold_invert_each_other(threshold: int, delta: float) -> None:
    alpha = paper.alpha_from_threshold(threshold, delta)
    assert paper.delta_from_alpha(alpha, threshold) <= delta
    assert paper.delta_from_alpha(alpha * (1 + 1e-10), threshold) > delta
    assert paper.threshold_from_delta(delta, alpha) == threshold


@pytest.mark.slow
@given(epsilons, st.floats(1e-12, 0.1), st.floats(0.01, 0.5), st.integers(1, 50))
@settings(max_examples=50)
def test_rules_keep_their_promise(epsilon: float, delta: float, alpha: float, rounds: int) -> None:
    for rule in (paper.rule(epsilon, delta, alpha, rounds), paper.best_rule(epsilon, delta, rounds)):
        assert rule.epsilon == epsilon and 0 < rule.delta <= delta
        each = rule.epsilon / rounds
        assert rounds * paper.theorem_1_delta(rule.sampling_rate, rule.threshold, each, "replace") <= delta * (1 + 1e-9)
    assert rule.visible_count() <= paper.rule(epsilon, delta, alpha, rounds).visible_count()


@given(st.integers(1, 3000), st.floats(0.01, 0.9), st.integers(1, 100))
def test_omission_bound(count: int, rate: float, threshold: int) -> None:
    assert binom.cdf(threshold - 1, count, rate) <= paper.omission_upper(count, rate, threshold) * (1 + 1e-9)
    assert paper.omission_upper(count + 1, rate, threshold) <= paper.omission_upper(count, rate, threshold)


@given(st.floats(1e-9, 1 - 1e-9), st.floats(1e-9, 1 - 1e-9))
def test_kl_divergence(q: float, p: float) -> None:
    with mp.workdps(40):
        a, b = mpf(q), mpf(p)
        exact = float(a * mp.log(a / b) + (1 - a) * mp.log((1 - a) / (1 - b)))
    assert paper.kl_divergence(q, p) == pytest.approx(exact, rel=1e-9, abs=1e-15)
    assert paper.kl_divergence(0, p) == pytest.approx(-math.log1p(-p))
    assert paper.kl_divergence(1, p) == pytest.approx(-math.log(p))


def test_scales() -> None:
    assert paper.sampling_error_scale(10_000) == paper.quantile_rank_error_scale(10_000) == 0.01
    assert paper.rounding_error(20, 1e5) == 2e-4
    assert paper.shuffle_error_scale(0.5, math.exp(-10), 1000) == pytest.approx(0.04)
    assert paper.quantile_value_error(10) == 2**-10
    assert paper.quantile_search_guarantee(0.1, 1e-9, 10) == (1.0, 1e-8)


def test_tiny_bounds_are_not_rounded_to_zero() -> None:
    assert paper.theorem_1_delta(0.01, 5000, 1.0) > 0
    assert paper.theorem_1_binomial_delta(0.01, 5000, 1.0) > 0
    assert paper.delta_from_alpha(0.01, 5000) > 0


BAD = math.nan


@pytest.mark.parametrize(
    "call",
    [
        lambda: paper.ratio(5, 6, 0.1),
        lambda: paper.ratio(0, 0, 0.1),
        lambda: paper.ratio(5, 1, BAD),
        lambda: paper.kl_divergence(1.5, 0.1),
        lambda: paper.kl_divergence(0.5, 0),
        lambda: paper.theorem_1_delta(0.1, 0, 1.0),
        lambda: paper.theorem_1_delta(0.1, 20, BAD),
        lambda: paper.theorem_1_delta(0.1, 20, 0.05),
        lambda: paper.theorem_1_delta(0.1, 20, 1.0, "substitute"),  # type: ignore[arg-type]
        lambda: paper.c_alpha(0.0),
        lambda: paper.c_alpha_replace(BAD),
        lambda: paper.epsilon_from_rate(0.3, 0.2),
        lambda: paper.threshold_from_delta(0.0, 0.1),
        lambda: paper.alpha_from_threshold(2.5, 1e-8),  # type: ignore[arg-type]
        lambda: paper.fixed_size_delta_lower(7, 6),
        lambda: paper.rule(1.0, 1e-8, rounds=0),
        lambda: paper.best_rule(-1.0, 1e-8),
        lambda: paper.best_rule(1.0, 1e-8, probability=1.0),
        lambda: paper.omission_upper(-1, 0.1, 20),
        lambda: paper.estimation_failure_upper(1.5, 0.01, 100),
        lambda: paper.estimable_frequency(0.1, BAD, 0.1),
        lambda: paper.contact_size("many"),  # type: ignore[arg-type]
        lambda: paper.contact_failure_upper(100, True),
        lambda: paper.advanced_composition_as_printed(1.0, 1e-8, 10),
        lambda: paper.advanced_composition_as_printed(0.5, 0.2, 10),
        lambda: paper.triehh_guarantee(1.0, 1e-8, 0),
        lambda: paper.hierarchy_resolution(3, 1),
        lambda: paper.hierarchy_error(3, 2, 10, 0.1, 0),
        lambda: paper.quantile_value_error(0),
    ],
)
def test_bad_settings_are_refused(call) -> None:
    with pytest.raises(InvalidSetting):
        call()


def test_unreachable_targets_are_named() -> None:
    with pytest.raises(Unreachable):
        paper.rate_for_threshold(1.0, 1e-100, 1)
    with pytest.raises(Unreachable):
        paper.threshold_from_delta(1e-300, 0.5173)


def test_all_names_are_exported() -> None:
    assert sorted(paper.__all__) == paper.__all__
    assert all(hasattr(paper, name) for name in paper.__all__)
