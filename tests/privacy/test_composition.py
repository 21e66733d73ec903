"""Several rounds: against exact convolution, dp-accounting's own composition, and the classical theorems."""

import math
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting.pld import common, pld_pmf
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import signal

from thresher import Plan
from thresher.errors import InvalidSetting
from thresher.privacy import Rounds, advanced, compose, delta, epsilon, losses, paper
from thresher.privacy.composition import log_delta_of_rounds

ADD_REMOVE, REPLACE = "add-remove", "replace"
WEAK = -math.expm1(-0.1) / 6  # the paper's rate for epsilon = 0.1 a round


# Spot values of the analysis: tau = 20, ten rounds.


@pytest.mark.slow
@pytest.mark.parametrize(("adjacency", "total"), [(ADD_REMOVE, 0.0702), (REPLACE, 0.0832)])
def test_spot_epsilon_of_ten_rounds(adjacency, total):
    found = epsilon(sampling_rate=WEAK, threshold=20, delta=1e-8, adjacency=adjacency, rounds=10)
    assert found == pytest.approx(total, abs=5e-5)


def test_spot_rates_of_ten_rounds():
    """The largest rate a round for a total of (1, 1e-8): 0.174 and 0.154; the paper's rule has 0.0141."""
    for adjacency, rate in ((ADD_REMOVE, 0.174), (REPLACE, 0.154)):
        low = delta(sampling_rate=rate - 5e-4, threshold=20, epsilon=1.0, adjacency=adjacency, rounds=10)
        high = delta(sampling_rate=rate + 5e-4, threshold=20, epsilon=1.0, adjacency=adjacency, rounds=10)
        assert low <= 1e-8 <= high
    assert paper.rate_for_threshold(1.0, 1e-8, 20, rounds=10) == pytest.approx(0.0141, abs=5e-5)


# Brute force: the joint law of all rounds, in exact rationals.


def loss_atoms(rate: Fraction, threshold: int, longest: int):
    """(P mass, Q mass) of T against T+1 for every value, the rest lumped where it costs most."""
    point = {
        j: math.comb(j - 1, threshold - 1) * rate**threshold * (1 - rate) ** (j - threshold)
        for j in range(threshold, longest + 1)
    }
    atoms = [(point[j], point.get(j - 1, Fraction(0))) for j in point]
    return [*atoms, (1 - sum(point.values()), Fraction(0))]


def brute_rounds(atoms, e: Fraction, rounds: int) -> float:
    ratio = [(float(p), float(q)) for p, q in atoms]
    joint = [(1.0, 1.0)]
    for _ in range(rounds):
        joint = [(a * p, b * q) for a, b in joint for p, q in ratio]
    return math.fsum(max(p - float(e) * q, 0.0) for p, q in joint)


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "threshold"), [(Fraction(1, 2), 2), (Fraction(3, 4), 3), (Fraction(2, 3), 1)])
@pytest.mark.parametrize("e", [Fraction(3, 2), Fraction(4)])
def test_two_and_three_rounds_against_brute_force(rate, threshold, e):
    forward = loss_atoms(rate, threshold, threshold + 45)
    backward = [(q, p) for p, q in forward[:-1]]
    for rounds in (2, 3):
        truth = max(brute_rounds(forward, e, rounds), brute_rounds(backward, e, rounds))
        computed = math.exp(log_delta_of_rounds([Rounds(float(rate), threshold, rounds)], math.log(e), ADD_REMOVE))
        assert truth * (1 - 1e-9) <= computed <= truth * 1.001 + 1e-9


# An independent composition: dp-accounting's own discretisation by rounding up, its own transform.


def by_dp_accounting(rate: float, threshold: int, rounds: int, log_e: float, step: float) -> float:
    removed = losses.losses_remove(rate, threshold)
    atoms = {}
    for value, mass in zip(removed.values, removed.masses, strict=True):
        index = math.ceil(value / step)
        atoms[index] = atoms.get(index, 0.0) + float(mass)
    pmf = pld_pmf.create_pmf(atoms, step, removed.infinite, True)
    return float(pmf.to_dense_pmf().self_compose(rounds).get_delta_for_epsilon(log_e))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "threshold", "rounds", "log_e"), [(0.15, 20, 10, 1.0), (0.3, 30, 4, 1.5), (0.05, 8, 16, 0.8)]
)
def test_below_and_close_to_rounding_up(rate, threshold, rounds, log_e):
    ours = delta(sampling_rate=rate, threshold=threshold, epsilon=log_e, adjacency=ADD_REMOVE, rounds=rounds)
    other = by_dp_accounting(rate, threshold, rounds, log_e, 2e-5)
    assert ours <= other * (1 + 1e-6)  # rounding every loss up is looser
    assert other <= ours * 1.05


@pytest.mark.parametrize("adjacency", [ADD_REMOVE, REPLACE])
@pytest.mark.parametrize(
    ("rate", "threshold", "log_e"), [(0.1, 20, 1.0), (0.3, 23, 1.0), (0.7, 100, 1.0), (0.6, 5, 0.2)]
)
def test_composed_losses_of_one_round_agree_with_the_exact_guarantee(rate, threshold, log_e, adjacency):
    removed = losses.Repeated(losses.losses_remove(rate, threshold), 1)
    added = losses.Repeated(losses.losses_add(rate, threshold), 1)
    sides = [[removed, added]] if adjacency == REPLACE else [[removed], [added]]
    composed = max(losses.log_delta_composed(side, log_e) for side in sides)
    exact = delta(sampling_rate=rate, threshold=threshold, epsilon=log_e, adjacency=adjacency)
    assert -1e-8 <= math.exp(composed) / exact - 1 < 1e-3


@pytest.mark.parametrize(("length", "times"), [(1, 1), (2, 7), (100, 6), (700, 31), (700, 32), (60, 400)])
def test_the_transform_convolves_as_that_of_dp_accounting(length, times):
    """Two parts, the second one a little longer and once more. To the last bit: others recompute stated deltas."""
    random = np.random.default_rng(length)
    parts = [(random.dirichlet(np.full(length + more, 0.3)), times + more) for more in (0, 1)]
    cuts = [losses._NEGLIGIBLE if count >= losses._MANY_ROUNDS else 0.0 for _, count in parts]
    (start, one), (begin, other) = (
        common.self_convolve(once, count, cut) for (once, count), cut in zip(parts, cuts, strict=True)
    )
    wanted = np.maximum(signal.fftconvolve(one, other), 0.0)
    found = losses._fourier(parts)
    assert found.first == start + begin
    assert found.lost == 2 * sum(cuts)
    assert np.array_equal(found.weights, wanted)


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "threshold", "rounds", "log_e"), [(0.05, 20, 10, 1.0), (0.02, 20, 8, 0.5)])
def test_far_tails_do_not_drown_in_the_noise_of_the_transform(monkeypatch, rate, threshold, rounds, log_e):
    parts = [Rounds(rate, threshold, rounds)]
    usual = log_delta_of_rounds(parts, log_e, REPLACE)
    monkeypatch.setattr(losses, "_fourier", losses._direct)
    monkeypatch.setattr(losses, "_LONGEST_TRANSFORM", 2 * losses._LONGEST_DIRECT)
    direct = log_delta_of_rounds(parts, log_e, REPLACE)
    assert direct < math.log(1e-18)
    # A grid's error goes with the square of its step: twice as fine shows three quarters of it (0.0014 of 0.0018).
    assert usual != direct
    assert -0.03 < usual - direct < 0.03


@pytest.mark.slow
def test_a_window_for_many_rounds_changes_nothing(monkeypatch):
    parts = [Rounds(0.05, 20, 100)]
    windowed = log_delta_of_rounds(parts, 1.0, REPLACE)
    monkeypatch.setattr(losses, "_MANY_ROUNDS", 10**9)
    assert windowed == pytest.approx(log_delta_of_rounds(parts, 1.0, REPLACE), abs=1e-6)


def without_tilt(rate: float, threshold: int, rounds: int, log_e: float, step: float) -> float:
    """Delta for replace-one from plain masses on one long grid; precise to about 1e-14, and not more."""
    size, offset, infinite, spectrum = 1 << 22, 0, 0.0, 1.0
    for atoms in (losses.losses_remove(rate, threshold), losses.losses_add(rate, threshold)):
        order = np.argsort(atoms.values)
        values, masses = atoms.values[order], atoms.masses[order]
        kept = np.cumsum(masses[::-1])[::-1] > 1e-17  # the others count as infinite
        infinite += rounds * (atoms.infinite + float(masses[~kept].sum()))
        values, masses = values[kept], masses[kept]
        values = np.maximum(values, values[np.argmax(np.cumsum(masses) > 1e-17)])
        place = np.floor(values / step)
        lowest = int(place.min())
        share, index = values / step - place, (place - lowest).astype(int)
        once = np.bincount(index, masses * (1 - share), size) + np.bincount(index + 1, masses * share, size)
        spectrum = spectrum * np.fft.rfft(once) ** rounds
        offset += lowest * rounds
    places = np.arange(-size // 2, size // 2)
    composed, grid = np.fft.irfft(spectrum, size)[(places - offset) % size], places * step
    above = grid > log_e
    return infinite + float((composed[above] * -np.expm1(log_e - grid[above])).sum())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "threshold", "rounds", "log_e", "step"),
    [(3.866e-4, 10, 100, 0.01, 2e-7), (5.39e-4, 17, 100, 0.01, 2e-7), (2.066e-3, 10, 365, 0.1, 2e-6)],
)
def test_rare_large_losses_do_not_make_the_grid_too_coarse(rate, threshold, rounds, log_e, step):
    truth = math.log(without_tilt(rate, threshold, rounds, log_e, step))
    fine, coarse = (
        log_delta_of_rounds([Rounds(rate, threshold, rounds)], log_e, REPLACE, tolerance=tolerance)
        for tolerance in (losses.FINE, losses.COARSE)
    )
    assert truth - 1e-4 <= fine <= truth + 0.01  # 1e-4: the witness' own grid and noise
    assert truth - 1e-4 <= coarse <= truth + 0.2


@pytest.mark.slow
def test_delta_falls_with_the_rate_also_far_below_any_target():
    found = [log_delta_of_rounds([Rounds(rate, 12, 100)], 0.01, REPLACE) for rate in (5e-4, 2.8e-4, 1e-4, 1e-6, 1e-9)]
    assert found == sorted(found, reverse=True) and found[0] < -19 and found[1] < -35 and found[2] < -45


# Properties.


@settings(max_examples=12, deadline=None)
@given(
    st.floats(0.01, 0.5),
    st.integers(2, 40),
    st.floats(0.2, 3),
    st.integers(2, 8),
    st.sampled_from([ADD_REMOVE, REPLACE]),
)
@pytest.mark.slow
def test_more_rounds_cost_more_and_less_than_their_sum(rate, threshold, log_e, rounds, adjacency):
    parts = {"sampling_rate": rate, "threshold": threshold, "adjacency": adjacency}
    one = delta(epsilon=log_e, **parts)
    several = delta(epsilon=log_e, rounds=rounds, **parts)
    basic = min(1.0, rounds * delta(epsilon=log_e / rounds, **parts))
    assert one * (1 - 1e-6) <= several <= basic * (1 + 1e-12)


@pytest.mark.parametrize("adjacency", [ADD_REMOVE, REPLACE])
@pytest.mark.parametrize(
    ("rate", "threshold", "rounds", "log_e"),
    [(0.1, 655, 2, 0.3), (1e-4, 1046, 20, 1e-3), (0.5, 6000, 2, 0.02), (1e-12, 100, 30, 0.2)],
)
@pytest.mark.slow
def test_losses_too_rare_for_a_float(rate, threshold, rounds, log_e, adjacency):
    """The highest losses have a probability below 1e-308 here; what is left is composed as ever."""
    parts = {"sampling_rate": rate, "threshold": threshold, "adjacency": adjacency}
    several = delta(epsilon=log_e, rounds=rounds, **parts)
    assert delta(epsilon=log_e, **parts) * (1 - 1e-6) <= several
    assert several <= rounds * delta(epsilon=log_e / rounds, **parts) * (1 + 1e-12)
    if several > 1e-290:
        found = epsilon(delta=several, rounds=rounds, **parts)
        assert found == pytest.approx(log_e, rel=2e-3)


@pytest.mark.parametrize("adjacency", [ADD_REMOVE, REPLACE])
@pytest.mark.parametrize(("rate", "threshold"), [(1 - 2**-40, 3), (1 - 2**-53, 145), (2.0**-63, 34)])
def test_rounds_at_the_ends_of_the_rates(rate, threshold, adjacency):
    several = delta(sampling_rate=rate, threshold=threshold, epsilon=0.5, adjacency=adjacency, rounds=10)
    whole = -math.expm1(10 * math.log1p(-(rate**threshold)))
    assert whole * (1 - 1e-9) <= several <= 1


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize("adjacency", [ADD_REMOVE, REPLACE])
def test_the_search_for_epsilon_ends_next_to_the_probability_of_a_whole_bucket(adjacency):
    rate, threshold, rounds = 0.1, 6, 3
    whole = -math.expm1(rounds * math.log1p(-(rate**threshold)))
    settings = {"sampling_rate": rate, "threshold": threshold, "adjacency": adjacency, "rounds": rounds}
    assert epsilon(delta=whole * (1 - 1e-9), **settings) == math.inf
    for factor in (1, 1 + 1e-9, 1 + 1e-5):
        assert epsilon(delta=whole * factor, **settings) > epsilon(delta=whole * 1.01, **settings)
    found = epsilon(delta=whole * 1.01, **settings)
    assert delta(epsilon=found, **settings) <= whole * 1.01


@pytest.mark.slow
def test_different_rounds_compose():
    plans = [Rounds(0.05, 20, 3), Rounds(0.1, 30, 2)]
    together = compose(plans, epsilon=0.8)
    least = max(compose([part], epsilon=0.8).delta for part in plans)
    all_weaker = compose([Rounds(0.1, 20, 5)], epsilon=0.8).delta
    assert least <= together.delta <= all_weaker
    assert together.delta == min(together.by_method.values())
    back = compose(plans, delta=together.delta).epsilon
    assert back == pytest.approx(0.8, rel=2e-3)


def test_equal_rounds_merge_whether_given_as_plans_or_counts():
    plan = Plan(0.0625, 20, 1.0, 1e-8, "replace", 1)
    one_by_one = compose([plan] * 4, epsilon=0.5).delta
    assert one_by_one == compose([Rounds(0.0625, 20, 4)], epsilon=0.5).delta


def test_the_three_methods_are_listed_and_the_smallest_is_reported():
    result = compose([Rounds(WEAK, 20, 10)], delta=1e-8, adjacency=ADD_REMOVE)
    assert set(result.by_method) == {"privacy-loss", "basic", "advanced"}
    assert result.epsilon == min(result.by_method.values()) == result.by_method["privacy-loss"]
    assert result.by_method["basic"] < 1.129  # basic composition on the exact rounds beats it on the paper's numbers


def test_advanced_composition_is_the_standard_theorem():
    each, times, slack = 0.1, 50, 1e-6
    expected = each * math.sqrt(2 * times * math.log(1 / slack)) + times * each * (math.exp(each) - 1)
    assert advanced([(each, times)], slack) == pytest.approx(expected, rel=1e-12)


@pytest.mark.slow
def test_one_plan_of_many_rounds_needs_fresh_coins_only():
    """Doubling the rounds of a weak plan raises epsilon by about sqrt(2), as independent losses do, not by 2."""
    few = epsilon(sampling_rate=0.02, threshold=20, delta=1e-6, rounds=16)
    many = epsilon(sampling_rate=0.02, threshold=20, delta=1e-6, rounds=64)
    assert 1.5 < many / few < 2.6


@pytest.mark.parametrize("given_both", [{}, {"epsilon": 1.0, "delta": 1e-8}])
def test_exactly_one_of_epsilon_and_delta(given_both):
    with pytest.raises(InvalidSetting, match="epsilon and delta"):
        compose([Rounds(0.1, 20)], **given_both)


def test_no_rounds_is_an_error():
    with pytest.raises(InvalidSetting, match="rounds must not be empty"):
        compose([], epsilon=1.0)


def test_group_masses_are_probabilities():
    for rate, threshold in ((0.2, 5), (1e-4, 20), (1e-6, 3)):
        for side in (losses.losses_remove(rate, threshold), losses.losses_add(rate, threshold)):
            assert float(np.sum(side.masses)) + side.infinite == pytest.approx(1.0, abs=1e-9)
            # Under the other dataset the same atoms have mass at most one: Σ mass·e^−loss.
            assert float(np.sum(side.masses * np.exp(-side.values))) <= 1 + 1e-9
