"""The exact guarantee of one round, against brute force in rationals and 60-digit arithmetic."""

import math
from fractions import Fraction
from functools import cache

import mpmath
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from thresher.privacy import delta, epsilon, exact

ADD_REMOVE, REPLACE = "add-remove", "replace"


# Witness 1: every output of the mechanism, in exact rationals.


@cache
def law(count: int, rate: Fraction, threshold: int) -> dict[int, Fraction]:
    """Probability of each released count; 0 stands for "nothing released"."""
    outcome: dict[int, Fraction] = {}
    for sampled in range(count + 1):
        mass = math.comb(count, sampled) * rate**sampled * (1 - rate) ** (count - sampled)
        shown = sampled if sampled >= threshold else 0
        outcome[shown] = outcome.get(shown, Fraction(0)) + mass
    return outcome


def divergence(first: dict, second: dict, e: Fraction) -> Fraction:
    return sum((max(mass - e * second.get(key, Fraction(0)), Fraction(0)) for key, mass in first.items()), Fraction(0))


def brute_add_remove(rate: Fraction, threshold: int, e: Fraction, largest: int) -> Fraction:
    pairs = [(law(k, rate, threshold), law(k - 1, rate, threshold)) for k in range(1, largest + 1)]
    return max(max(divergence(a, b, e), divergence(b, a, e)) for a, b in pairs)


def brute_replace(rate: Fraction, threshold: int, e: Fraction, largest: int) -> Fraction:
    worst = Fraction(0)
    for ka in range(1, largest + 1):
        for kb in range(largest):
            before = product(law(ka, rate, threshold), law(kb, rate, threshold))
            after = product(law(ka - 1, rate, threshold), law(kb + 1, rate, threshold))
            worst = max(worst, divergence(before, after, e))
    return worst


def product(first: dict, second: dict) -> dict:
    return {(a, b): x * y for a, x in first.items() for b, y in second.items()}


SMALL = [
    (rate, threshold, e)
    for rate in (Fraction(1, 8), Fraction(1, 3), Fraction(3, 5), Fraction(15, 16))
    for threshold in (1, 2, 4)
    for e in (Fraction(21, 20), Fraction(3, 2), Fraction(3), Fraction(20))
]


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "threshold", "e"), SMALL)
def test_brute_force_add_remove_is_reached_and_never_exceeded(rate, threshold, e):
    reported = delta(sampling_rate=rate, threshold=threshold, epsilon=math.log(e), adjacency=ADD_REMOVE)
    worst = float(brute_add_remove(rate, threshold, e, 60))
    assert worst <= reported
    # k* is within the searched range for these settings, so the supremum is attained there.
    assert reported <= worst * (1 + 1e-8) + 1e-15


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "threshold", "e"), [s for s in SMALL if s[1] <= 2])
def test_brute_force_replace_is_below_and_close(rate, threshold, e):
    reported = delta(sampling_rate=rate, threshold=threshold, epsilon=math.log(e), adjacency=REPLACE)
    worst = float(brute_replace(rate, threshold, e, 12))
    assert worst <= reported * (1 + 1e-12)
    if worst > 1e-6 and rate <= Fraction(1, 3) and e >= Fraction(3, 2):
        assert reported <= 1.25 * worst, "the bound is meant to be close to the supremum"


def test_closed_form_equals_the_dominating_pair_in_rationals():
    """H_E(T ‖ T+1) summed over T, in exact rationals up to where the terms vanish."""
    rate, threshold, e = Fraction(1, 4), 3, Fraction(2)
    point = {
        j: math.comb(j - 1, threshold - 1) * rate**threshold * (1 - rate) ** (j - threshold) for j in range(3, 200)
    }
    direct = sum(max(point[j] - e * point.get(j - 1, 0), Fraction(0)) for j in point)
    log_delta = exact.log_delta_remove(float(rate), threshold, float(e - 1))
    assert math.exp(log_delta) == pytest.approx(float(direct), rel=2e-9)


# Witness 2: 60 digits.


def precise(rate: float, threshold: int, log_e: float, direction: str) -> mpmath.mpf:
    """The closed form at k*−1, k*, k*+1, with both tails summed term by term in 60 digits and more."""
    with mpmath.workdps(80):
        p, e = mpmath.mpf(rate), mpmath.e ** mpmath.mpf(log_e)
        if direction == "remove":
            k = int(mpmath.floor((threshold - 1) / (1 - (1 - p) / e))) + 1
            return max(upper(i, threshold, p) - e * upper(i - 1, threshold, p) for i in (k - 1, k, k + 1))
        if p <= 1 - 1 / e:
            return mpmath.mpf(0)
        k = int(mpmath.floor((threshold - 1) / (1 - e * (1 - p)))) + 1
        return max(lower(i - 1, threshold, p) - e * lower(i, threshold, p) for i in (k - 1, k, k + 1))


def point(n: int, v: int, p: mpmath.mpf) -> mpmath.mpf:
    return mpmath.binomial(n, v) * p**v * (1 - p) ** (n - v)


def upper(n: int, threshold: int, p: mpmath.mpf) -> mpmath.mpf:
    """Pr[X_n ≥ τ], by adding Pr[X_n = v] from v = τ up until nothing changes."""
    return _add_up(n, p, threshold, lambda v, term: term * (n - v) / (v + 1) * p / (1 - p), 1, n)


def lower(n: int, threshold: int, p: mpmath.mpf) -> mpmath.mpf:
    """Pr[X_n < τ], by adding from v = τ−1 down."""
    return _add_up(n, p, min(threshold - 1, n), lambda v, term: term * v / (n - v + 1) * (1 - p) / p, -1, 0)


def _add_up(n, p, start, following, step, end) -> mpmath.mpf:
    if not 0 <= start <= n:
        return mpmath.mpf(0)
    term = point(n, start, p)
    total, v, peak = mpmath.mpf(0), start, term
    while True:
        total, peak = total + term, max(peak, term)
        if v == end or term < peak * mpmath.mpf("1e-75"):
            return total
        term = following(v, term)
        v += step


WIDE = [
    (0.1, 20, 1.0),
    (0.1053534, 20, 1.0),
    (0.1, 10, 1.0),
    (0.3, 1, 0.5),
    (0.9, 300, 1.0),
    (0.999, 20, 2.0),
    (0.5, 3, 50.0),
    (1e-6, 5, 0.1),
    (1e-9, 2, 1e-4),
    (0.02, 1000, 0.01),
    (0.0001, 20, 0.003),
    (0.9, 10, 0.05),
    (0.7, 200, 0.3),
    (0.999, 2000, 0.2),
    (1 - 2**-40, 5, 1.0),
    (0.99, 100_000, 0.2),
    (0.25, 100_000, 1e-2),
    (0.6, 100_000, 5e-2),
]


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "threshold", "log_e"), WIDE)
def test_agrees_with_60_digits_and_errs_outward(rate, threshold, log_e):
    excess = math.expm1(log_e)
    for direction, computed in (
        ("remove", exact.log_delta_remove(rate, threshold, excess)),
        ("add", exact.log_delta_add(rate, threshold, excess)),
    ):
        truth = precise(rate, threshold, log_e, direction)
        if truth <= 0:
            assert computed == -math.inf or math.exp(computed) < 1e-300
            continue
        with mpmath.workdps(60):
            error = float(mpmath.exp(mpmath.mpf(computed) - mpmath.log(truth)) - 1)
        assert 0 <= error < 1e-6


@settings(max_examples=60, deadline=None)
@given(
    rate=st.floats(1e-6, 1 - 1e-6),
    threshold=st.integers(1, 400),
    log_e=st.floats(1e-4, 20),
)
@pytest.mark.slow
def test_random_settings_agree_with_60_digits(rate, threshold, log_e):
    truth = max(precise(rate, threshold, log_e, "remove"), precise(rate, threshold, log_e, "add"))
    reported = delta(sampling_rate=rate, threshold=threshold, epsilon=log_e, adjacency=ADD_REMOVE)
    if truth > mpmath.mpf("1e-300"):
        with mpmath.workdps(60):
            assert -1e-15 <= float(mpmath.mpf(reported) / truth - 1) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "threshold", "log_e"),
    [
        (0.1053534, 20, 1.0),
        (0.1, 10, 1.0),
        (0.3, 8, 0.4),
        (0.8, 6, 0.7),
        (0.02, 4, 0.2),
        (0.926, 1529, 2.55),  # 1.5e-39: where the sum is cut must not show in it
        (0.968, 3178, 3.2),
    ],
)
def test_replace_sum_agrees_with_60_digits(rate, threshold, log_e):
    with mpmath.workdps(60):
        p, total, j = mpmath.mpf(rate), mpmath.mpf(0), threshold + 1
        point = p**threshold  # Pr[T = j − 1], from j = τ + 1
        covered = mpmath.mpf(0)
        while covered < 1 - mpmath.mpf("1e-52"):
            shift = mpmath.log((1 - p) * (j - 1) / (j - threshold))
            total += point * precise_at(p, threshold, mpmath.mpf(log_e) + shift)
            covered += point
            point *= (1 - p) * (j - 1) / (j - threshold)
            j += 1
        reported = mpmath.exp(exact.log_delta_replace(rate, threshold, math.expm1(log_e)))
        assert 0 <= float(reported / total - 1) < 1e-6


def precise_at(p: mpmath.mpf, threshold: int, log_e: mpmath.mpf) -> mpmath.mpf:
    """H_E(T ‖ T+1) for any E > 1 − p, at the caller's precision, from running sums of Pr[T = j]."""
    e = mpmath.exp(log_e)
    k = max(int(mpmath.floor((threshold - 1) / (1 - (1 - p) / e))) + 1, threshold)
    below, point = mpmath.mpf(0), p**threshold
    for j in range(threshold, k):
        below += point
        point *= (1 - p) * j / (j + 1 - threshold)
    return below + point - e * below


# Spot values, from the published analysis of the mechanism (docs/privacy.md, sections 4 and 5).


@pytest.mark.parametrize(
    ("rate", "threshold", "adjacency", "value", "digits"),
    [
        (0.1053534, 20, ADD_REMOVE, 6.8688e-15, 4e-5),
        (0.1, 10, ADD_REMOVE, 9.980e-9, 4e-4),
        (0.1053534, 20, REPLACE, 7.115e-15, 4e-4),
    ],
)
def test_spot_values(rate, threshold, adjacency, value, digits):
    assert delta(sampling_rate=rate, threshold=threshold, epsilon=1.0, adjacency=adjacency) == pytest.approx(
        value, rel=digits
    )


# Properties.

rates = st.floats(1e-5, 0.999)
thresholds = st.integers(1, 150)
epsilons = st.floats(1e-3, 10)
adjacencies = st.sampled_from([ADD_REMOVE, REPLACE])
SLACK = 1 + 2e-6  # both sides carry their own outward rounding


@settings(max_examples=80, deadline=None)
@given(rates, thresholds, epsilons, adjacencies, st.floats(0.05, 0.999))
@pytest.mark.slow
def test_delta_does_not_fall_with_the_rate(rate, threshold, log_e, adjacency, factor):
    low = delta(sampling_rate=rate * factor, threshold=threshold, epsilon=log_e, adjacency=adjacency)
    assert low <= delta(sampling_rate=rate, threshold=threshold, epsilon=log_e, adjacency=adjacency) * SLACK


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(rates, thresholds, epsilons, adjacencies, st.integers(1, 50))
def test_delta_does_not_rise_with_the_threshold(rate, threshold, log_e, adjacency, more):
    high = delta(sampling_rate=rate, threshold=threshold + more, epsilon=log_e, adjacency=adjacency)
    assert high <= delta(sampling_rate=rate, threshold=threshold, epsilon=log_e, adjacency=adjacency) * SLACK


@settings(max_examples=80, deadline=None)
@given(rates, thresholds, epsilons, adjacencies, st.floats(1.001, 3))
@pytest.mark.slow
def test_delta_does_not_rise_with_epsilon(rate, threshold, log_e, adjacency, factor):
    high = delta(sampling_rate=rate, threshold=threshold, epsilon=log_e * factor, adjacency=adjacency)
    assert high <= delta(sampling_rate=rate, threshold=threshold, epsilon=log_e, adjacency=adjacency) * SLACK


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(rates, thresholds, epsilons)
def test_between_the_limits(rate, threshold, log_e):
    """At least p^τ (its limit in epsilon), and replacing costs at least as much as removing."""
    single = delta(sampling_rate=rate, threshold=threshold, epsilon=log_e, adjacency=ADD_REMOVE)
    double = delta(sampling_rate=rate, threshold=threshold, epsilon=log_e, adjacency=REPLACE)
    assert rate**threshold <= single * (1 + 1e-12)
    assert exact.delta_from_log(exact.log_delta_remove(rate, threshold, math.expm1(log_e))) <= double * (1 + 1e-12)


@pytest.mark.parametrize(("rate", "threshold", "log_e"), [(0.02, 20, 0.5), (0.013, 50, 0.3), (0.2, 1500, 0.3)])
def test_grouping_agrees_with_every_value_one_by_one(rate, threshold, log_e):
    longest = exact.longest_wait(rate, threshold)
    one_by_one = exact._replace_dense(rate, threshold, math.expm1(log_e), longest)
    grouped = exact._replace_grouped(rate, threshold, math.expm1(log_e), longest, exact.FINE)
    assert 0 <= math.expm1(grouped - one_by_one) + 1e-10 < 1e-6


@pytest.mark.parametrize("rate", [1e-3, 1e-5, 1e-8, 1e-12])
@pytest.mark.parametrize(("threshold", "log_e"), [(2, 1.0), (5, 0.1), (20, 0.01)])
def test_small_rates_cost_little_more_to_replace_than_to_remove(rate, threshold, log_e):
    replace = delta(sampling_rate=rate, threshold=threshold, epsilon=log_e)
    remove = delta(sampling_rate=rate, threshold=threshold, epsilon=log_e, adjacency=ADD_REMOVE)
    assert remove <= replace <= remove * (1 + 3000 * rate + 1e-6)


def test_never_zero_even_where_a_float_cannot_hold_it():
    assert 0 < delta(sampling_rate=0.01, threshold=10_000, epsilon=1.0) < 1e-300


# epsilon is the inverse.


OUTWARD = 1 + 1e-6  # what grouping and rounding may add to a delta, at the most


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.floats(1e-4, 0.95), st.integers(2, 100), st.floats(-12, -2), adjacencies)
@example(1e-4, 3, -12.0, ADD_REMOVE)  # delta is p^τ to the last bit
@example(1e-4, 3, -12.0, REPLACE)
def test_epsilon_inverts_delta(rate, threshold, exponent, adjacency):
    target = 10**exponent
    found = epsilon(sampling_rate=rate, threshold=threshold, delta=target, adjacency=adjacency)
    if math.isinf(found):
        assert rate**threshold * OUTWARD > target
    elif found > 1e-6:
        assert delta(sampling_rate=rate, threshold=threshold, epsilon=found, adjacency=adjacency) <= target
        less = delta(sampling_rate=rate, threshold=threshold, epsilon=found * (1 - 1e-6), adjacency=adjacency)
        assert less >= target * (1 - 1e-6)


def test_epsilon_edges():
    assert epsilon(sampling_rate=0.5, threshold=2, delta=1e-8) == math.inf
    assert epsilon(sampling_rate=1e-9, threshold=2000, delta=1e-8) == 0.0


@pytest.mark.timeout(60)
@pytest.mark.parametrize("adjacency", [ADD_REMOVE, REPLACE])
@pytest.mark.parametrize(("rate", "threshold", "whole"), [(1e-4, 3, 1e-12), (0.1, 2, 0.01), (0.5, 20, 2.0**-20)])
def test_the_search_for_epsilon_ends_next_to_the_probability_of_a_whole_bucket(rate, threshold, whole, adjacency):
    """At delta = p^τ outward rounding leaves no epsilon that is enough: the search must see that, not go on."""
    settings = {"sampling_rate": rate, "threshold": threshold, "adjacency": adjacency}
    assert epsilon(delta=whole, **settings) == math.inf
    assert epsilon(delta=whole * (1 - 1e-9), **settings) == math.inf
    found = epsilon(delta=whole * OUTWARD**2, **settings)
    assert found < math.log(threshold + 1) - math.log1p(-rate) + 1e-5
    assert delta(epsilon=found, **settings) <= whole * OUTWARD**2


@pytest.mark.parametrize(
    ("rate", "threshold", "target"),
    [(1e-6, 99_999, 1e-22), (5.5e-7, 1000, 1e-40), (1e-4, 80, 1e-9), (0.15, 100_000, 3e-7), (0.01, 20, 1e-30)],
)
@pytest.mark.slow
def test_epsilon_takes_few_evaluations(monkeypatch, rate, threshold, target):
    """Replacing is slow to compute finely: a tenth to a third of a second each, where the threshold is large."""
    tolerances = []

    def counted(rate, threshold, excess, *, tolerance):
        tolerances.append(tolerance)
        return compute(rate, threshold, excess, tolerance=tolerance)

    compute = exact.log_delta_replace
    monkeypatch.setattr(exact, "log_delta_replace", counted)
    found = epsilon(sampling_rate=rate, threshold=threshold, delta=target)
    assert delta(sampling_rate=rate, threshold=threshold, epsilon=found) <= target
    assert tolerances.count(exact.FINE) <= 15
    assert len(tolerances) <= 40


@pytest.mark.parametrize("rate", [1 - 1e-9, 1 - 2**-40, 1 - 2**-53])
@pytest.mark.parametrize("threshold", [1, 2, 42, 100_000])
@pytest.mark.parametrize("log_e", [1e-4, 0.02, 3.0])
def test_rates_next_to_one(rate, threshold, log_e):
    """Nearly everybody is sampled: a bucket of τ units shows itself, so delta is next to p^τ, from above."""
    for adjacency in (ADD_REMOVE, REPLACE):
        found = delta(sampling_rate=rate, threshold=threshold, epsilon=log_e, adjacency=adjacency)
        assert rate**threshold <= found <= 1
