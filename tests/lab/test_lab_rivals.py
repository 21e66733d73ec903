"""Every rival's guarantee, by enumeration or integral on small cases, and its estimates against one draw a client."""

from __future__ import annotations

import dataclasses
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, linalg, stats

import thresher
from thresher.errors import InvalidSetting, Unreachable
from thresher.lab import data
from thresher.lab.experiments.expected import laplace_error
from thresher.lab.rivals import (
    CentralLaplace,
    HadamardResponse,
    NotPrivate,
    OptimisedUnaryEncoding,
    Rival,
    ShuffledBernoulli,
    StabilityHistogram,
    TrieHH,
)
from thresher.lab.rivals.shuffle_accounting import shuffle_delta, smallest_noise_rate
from thresher.privacy.comparison import _stability_error, compare

pytestmark = pytest.mark.slow  # whole experiments

ALPHA = 1e-9  # false alarm per check
EPSILONS = [0.1, 0.5, 1.0, 3.0]
COUNTS = np.array([40, 0, 7, 25, 1], dtype=np.int64)


def hockey_stick(first, second, epsilon):
    """Σ max(0, P − e^ε·Q) over outcomes."""
    return float(np.maximum(np.asarray(first) - math.exp(epsilon) * np.asarray(second), 0).sum())


def same(first, second):
    """The p-value of two lists of discrete draws coming from one distribution; rare values are put together."""
    values, codes = np.unique(np.concatenate([first, second]), return_inverse=True)
    table = np.stack([np.bincount(part, minlength=len(values)) for part in np.split(codes, [len(first)])])
    common = table.sum(axis=0) >= 20
    folded = np.column_stack([table[:, common], table[:, ~common].sum(axis=1)])
    return stats.chi2_contingency(folded[:, folded.sum(axis=0) > 0]).pvalue


def mean_fits(draws, mean, variance):
    """The p-value, by the normal law, of the mean of many draws with this mean and variance."""
    return 2 * stats.norm.sf(abs(np.mean(draws) - mean) / math.sqrt(variance / len(draws)))


def variance_fits(draws, variance):
    """The p-value of the draws' variance, by the normal law with the draws' own fourth moment."""
    squares = (np.asarray(draws) - np.mean(draws)) ** 2
    return 2 * stats.norm.sf(abs(squares.mean() - variance) / (squares.std() / math.sqrt(len(draws))))


def drawn(rival, counts, times, seed=1):
    random = np.random.default_rng(seed)
    return np.stack([rival.estimate(counts, random) for _ in range(times)])


# Every rival


RIVALS: list[Rival] = [
    CentralLaplace(1.0),
    StabilityHistogram(1.0, 1e-6),
    HadamardResponse(1.0),
    OptimisedUnaryEncoding(1.0),
    ShuffledBernoulli(1.0, 1e-6),
    ShuffledBernoulli(1.0, 1e-6, parameter="smallest"),
    ShuffledBernoulli(1.0, 1e-6, parameter="smallest", analyser="truncated"),
    NotPrivate(),
]


@pytest.mark.parametrize("rival", RIVALS, ids=str)
@pytest.mark.parametrize("buckets", [1, 2, 3, 7, 8, 64])
def test_any_number_of_buckets_will_do(rival, buckets):
    counts = np.random.default_rng(1).multinomial(5000, np.full(buckets, 1 / buckets))
    before = counts.copy()
    first, again, other = (rival.estimate(counts, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert first.dtype == np.float64 and first.shape == (buckets,) and np.isfinite(first).all()
    assert (first == again).all() and (counts == before).all()
    assert isinstance(rival, NotPrivate) or buckets == 1 or (first != other).any()


def test_names_differ_and_values_are_frozen():
    kinds = {type(rival) for rival in RIVALS} | {TrieHH}
    assert len({kind.name for kind in kinds}) == len(kinds)
    with pytest.raises(dataclasses.FrozenInstanceError):
        CentralLaplace(1.0).epsilon = 2.0


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf, "1"])
def test_an_impossible_epsilon_is_refused(epsilon):
    for kind in (CentralLaplace, HadamardResponse, OptimisedUnaryEncoding):
        with pytest.raises(InvalidSetting):
            kind(epsilon)
    for kind in (StabilityHistogram, ShuffledBernoulli, TrieHH):
        with pytest.raises(InvalidSetting):
            kind(epsilon, 1e-6)
        with pytest.raises(InvalidSetting):
            kind(1.0, math.nan)


def test_sampling_without_privacy_changes_nothing():
    assert NotPrivate().estimate(COUNTS, np.random.default_rng(1)).tolist() == COUNTS.tolist()


# Central Laplace


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(("adjacency", "change"), [("replace", (-1, 1)), ("add-remove", (1, 0))])
def test_laplace_densities_are_within_e_to_the_epsilon(epsilon, adjacency, change):
    """The log ratio of densities on a grid over two buckets; at the corners it is exactly epsilon."""
    scale = CentralLaplace(epsilon, adjacency).scale
    grid = np.linspace(-60, 60, 241)

    def most(used):
        one, two = (stats.laplace.logpdf(grid, 0, used) - stats.laplace.logpdf(grid, step, used) for step in change)
        return float((one[:, None] + two[None, :]).max())

    assert most(scale) == pytest.approx(epsilon, rel=1e-9)
    assert most(scale / 1.1) > epsilon * 1.05  # less noise would show


def test_laplace_noise_has_its_scale():
    rival = CentralLaplace(0.5)
    noise = rival.estimate(np.full(200_000, 12), np.random.default_rng(1)) - 12
    assert stats.kstest(noise, stats.laplace(0, rival.scale).cdf).pvalue > ALPHA
    assert stats.kstest(noise, stats.laplace(0, rival.scale * 1.1).cdf).pvalue < ALPHA


def test_expected_laplace_error_is_the_simulated_one():
    rival, rate, times = CentralLaplace(0.5), 0.1, 100_000
    random = np.random.default_rng(2)
    for size in (0, 5, 300, 20_000):
        wanted = laplace_error(np.array([size]), rate, rival.scale)
        sampled = random.binomial(size, rate, times)
        errors = np.abs(rival.estimate(sampled, random) / rate - size)
        assert mean_fits(errors, wanted, errors.var()) > ALPHA
        assert mean_fits(errors, wanted * 1.05, errors.var()) < ALPHA
    assert laplace_error(np.array([0]), rate, rival.scale) == pytest.approx(rival.scale / rate, rel=1e-12)


def test_expected_laplace_error_by_an_independent_integral():
    scale, rate, size = 2.0, 0.25, 9
    total = 0.0
    for sampled in range(size + 1):
        gap = sampled - size * rate

        def integrand(noise, gap=gap):
            return abs(gap + noise) * stats.laplace.pdf(noise, 0, scale)

        inner = integrate.quad(integrand, -90, 90, points=[0, -gap], limit=200)[0]
        total += stats.binom.pmf(sampled, size, rate) * inner
    assert laplace_error(np.array([size]), rate, scale) == pytest.approx(total / rate, rel=1e-7)


# Stability-based histogram


def shown(count, scale, threshold, cells):
    """The law of one bucket's output: dropped, or in one of many narrow cells above the threshold."""
    if count == 0:
        return np.append(1.0, np.zeros(cells))
    edges = np.append(threshold + np.linspace(0, 14 * scale, cells), np.inf)
    upper = stats.laplace.sf(edges, count, scale)
    return np.append(1 - upper[0], upper[:-1] - upper[1:])


def stability_delta(epsilon, scale, threshold, adjacency, cells=160):
    """The largest divergence over small counts; exact for add-remove, over pairs of buckets for replace."""
    near = math.ceil(threshold) + 2
    laws = {count: shown(count, scale, threshold, cells) for count in [0, 1, 2, 3, near, near + 1]}
    ups = [(0, 1), (1, 2), (2, 3), (near, near + 1)]
    if adjacency == "add-remove":
        pairs = [(laws[low], laws[high]) for low, high in ups]
        return max(hockey_stick(*order, epsilon) for pair in pairs for order in (pair, pair[::-1]))
    return max(
        hockey_stick(np.outer(laws[low], laws[top]), np.outer(laws[high], laws[bottom]), epsilon)
        for (low, high), (bottom, top) in itertools.product(ups, repeat=2)
    )


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(("adjacency", "share"), [("add-remove", 1.0), ("replace", 0.5)])
def test_stability_delta_is_never_above_the_claim(epsilon, adjacency, share):
    """One client brings a bucket into being: that alone makes delta; for replace the two buckets never both count."""
    rival = StabilityHistogram(epsilon, 1e-6, adjacency)
    exact = stability_delta(epsilon, rival.scale, rival.threshold, adjacency)
    assert exact <= 1e-6 * (1 + 1e-9)
    assert exact == pytest.approx(share * 1e-6, rel=1e-6)
    lower = stability_delta(epsilon, rival.scale, rival.threshold - rival.scale, adjacency)
    assert lower > 1e-6  # a lower threshold would show


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_stability_with_too_little_noise_is_caught(adjacency):
    """With half the noise the same threshold hides new buckets even better, but large counts give units away."""
    rival = StabilityHistogram(1.0, 1e-6, adjacency)
    assert stability_delta(1.0, rival.scale / 2, rival.threshold, adjacency) > 0.01


def test_stability_settings_are_those_of_the_comparison():
    for adjacency in ("replace", "add-remove"):
        plan = thresher.plan(epsilon=1.0, delta=1e-8, adjacency=adjacency)
        rival = StabilityHistogram(1.0, 1e-8, adjacency)
        (row,) = compare(plan, [50]).rows
        squared = _stability_error(np.array([50.0]), rival.scale, rival.threshold, 50.0)[0]
        assert math.sqrt(squared) / 50 == pytest.approx(row.stability, rel=1e-12)


def test_stability_estimates_are_dropped_or_noisy():
    rival = StabilityHistogram(1.0, 1e-3)
    count = round(rival.threshold)
    estimates = rival.estimate(np.full(200_000, count), np.random.default_rng(3))
    seen = estimates[estimates > 0]
    share = stats.laplace.sf(rival.threshold, count, rival.scale)
    assert stats.binomtest(len(seen), 200_000, share).pvalue > ALPHA
    assert seen.min() >= rival.threshold
    beyond = stats.laplace.sf(seen, count, rival.scale) / share
    assert stats.kstest(beyond, "uniform").pvalue > ALPHA
    assert stats.kstest(stats.laplace.sf(seen, count, rival.scale * 1.1) / share, "uniform").pvalue < ALPHA
    assert not rival.estimate(np.zeros(100_000, dtype=np.int64), np.random.default_rng(4)).any()


# Hadamard response


def report_law(epsilon, buckets):
    """Probabilities of reports by bucket, from an independent construction of the matrix."""
    order = 2 ** math.ceil(math.log2(buckets + 1))
    signs = linalg.hadamard(order)[1 : buckets + 1]
    likely = math.exp(epsilon) / (1 + math.exp(epsilon))
    return np.where(signs > 0, likely, 1 - likely) / (order / 2)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("buckets", [1, 2, 3, 4, 5, 8, 15, 16])
def test_hadamard_reports_are_private_and_decoded_without_bias(epsilon, buckets):
    law = report_law(epsilon, buckets)
    assert law.sum(axis=1) == pytest.approx(np.ones(buckets))
    ratios = law[:, None, :] / law[None, :, :]
    assert ratios.max() <= math.exp(epsilon) * (1 + 1e-12)
    expected = np.stack([HadamardResponse(epsilon).decode(row * 1000, buckets) for row in law])
    assert expected == pytest.approx(1000 * np.eye(buckets), abs=1e-8)
    mistaken = HadamardResponse(epsilon * 1.1).decode(law[0] * 1000, buckets)
    assert mistaken[0] < 980  # the check can fail


@pytest.mark.parametrize("buckets", [1, 2, 5, 16])
def test_hadamard_reports_have_these_probabilities(buckets):
    rival = HadamardResponse(1.0)
    law, off = report_law(1.0, buckets), report_law(1.1, buckets)
    for bucket in range(buckets):
        counts = np.zeros(buckets, dtype=np.int64)
        counts[bucket] = 200_000
        reports = rival.reports(counts, np.random.default_rng(bucket))
        assert reports.sum() == 200_000
        assert stats.chisquare(reports, 200_000 * law[bucket]).pvalue > ALPHA
        assert stats.chisquare(reports, 200_000 * off[bucket]).pvalue < ALPHA


def test_hadamard_estimates_agree_with_one_draw_a_client():
    rival, times = HadamardResponse(0.8), 4000
    together = drawn(rival, COUNTS, times)
    random = np.random.default_rng(5)

    def one_by_one(epsilon):
        law = report_law(epsilon, len(COUNTS))
        reports = np.zeros((times, law.shape[1]))
        for bucket in np.repeat(np.arange(len(COUNTS)), COUNTS):
            reports[np.arange(times), random.choice(law.shape[1], times, p=law[bucket])] += 1
        return np.stack([rival.decode(row, len(COUNTS)) for row in reports])

    singly, off = one_by_one(0.8), one_by_one(1.6)
    for bucket in range(len(COUNTS)):
        assert same(together[:, bucket].round(6), singly[:, bucket].round(6)) > ALPHA
    assert same(together[:, 0].round(6), off[:, 0].round(6)) < ALPHA
    check_moments(together, COUNTS, rival.variance(COUNTS))


def check_moments(estimates, counts, variances):
    """Unbiased, with the variances claimed; neither would pass if it were off."""
    for bucket, count in enumerate(counts):
        draws = estimates[:, bucket]
        assert mean_fits(draws, count, variances[bucket]) > ALPHA
        assert mean_fits(draws, count + 10 * math.sqrt(variances[bucket] / len(draws)), variances[bucket]) < ALPHA
        assert variance_fits(draws, variances[bucket]) > ALPHA
        assert variance_fits(draws, variances[bucket] * 1.5) < ALPHA


def test_hadamard_with_many_buckets():
    """One estimate of 2^14 counts, by its largest bucket and by the mean error of all.

    The covariance of two estimates is the count of the bucket whose row is the product of theirs, divided by
    t = tanh(ε/2), so the normalised errors' mean has a variance of at most (1 + t)/B.
    """
    buckets, rival = 2**14, HadamardResponse(1.0)
    counts = data.geometric(buckets, 100_000, np.random.default_rng(1))
    counts[0] += 100_000
    errors = (rival.estimate(counts, np.random.default_rng(2)) - counts) / np.sqrt(rival.variance(counts))
    spread = math.sqrt((1 + math.tanh(0.5)) / buckets)
    assert 2 * stats.norm.sf(abs(errors[0])) > ALPHA
    assert 2 * stats.norm.sf(abs(errors.mean()) / spread) > ALPHA
    mistaken = HadamardResponse(1.1).decode(rival.reports(counts, np.random.default_rng(2)), buckets)
    assert 2 * stats.norm.sf(abs(mistaken[0] - counts[0]) / math.sqrt(rival.variance(counts)[0])) < ALPHA


# Optimised unary encoding


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_unary_reports_are_private(epsilon):
    """All reports of four bits for every bucket; the worst ratio is exactly e^ε."""
    rival = OptimisedUnaryEncoding(epsilon)

    def law(bucket, other):
        ones = np.full(4, other)
        ones[bucket] = 0.5
        return np.array([np.prod(np.where(bits, ones, 1 - ones)) for bits in itertools.product([0, 1], repeat=4)])

    def worst(other):
        return max((law(one, other) / law(two, other)).max() for one in range(4) for two in range(4))

    assert worst(rival.other_bit) == pytest.approx(math.exp(epsilon), rel=1e-9)
    assert worst(rival.other_bit * 0.9) > math.exp(epsilon) * 1.05


def test_unary_estimates_agree_with_one_draw_a_client():
    rival, times = OptimisedUnaryEncoding(0.8), 20_000
    together = drawn(rival, COUNTS, times)
    random = np.random.default_rng(6)

    def one_by_one(other):
        ones = np.zeros((times, len(COUNTS)))
        for bucket in np.repeat(np.arange(len(COUNTS)), COUNTS):
            chances = np.full(len(COUNTS), other)
            chances[bucket] = 0.5
            ones += random.random((times, len(COUNTS))) < chances
        return (ones - COUNTS.sum() * rival.other_bit) / (0.5 - rival.other_bit)

    singly, off = one_by_one(rival.other_bit), one_by_one(rival.other_bit * 1.1)
    for bucket in range(len(COUNTS)):
        assert same(together[:, bucket].round(6), singly[:, bucket].round(6)) > ALPHA
        assert same(together[:, bucket].round(6), off[:, bucket].round(6)) < ALPHA
    check_moments(together, COUNTS, rival.variance(COUNTS))


# Shuffled Bernoulli noise


def brute_shuffle_delta(clients, rate, growth):
    """All outcomes of two buckets, in exact rationals: (X + 1, Y) against (X, Y + 1)."""
    point = [math.comb(clients, k) * rate**k * (1 - rate) ** (clients - k) for k in range(clients + 1)]
    before, after = [0, *point], [*point, 0]
    pairs = itertools.product(range(clients + 2), repeat=2)
    return sum(max(Fraction(0), before[u] * after[v] - growth * after[u] * before[v]) for u, v in pairs)


@pytest.mark.parametrize("clients", [1, 2, 5, 9])
@pytest.mark.parametrize("rate", [Fraction(1, 10), Fraction(1, 2), Fraction(3, 4)])
@pytest.mark.parametrize("epsilon", [0.2, 1.0])
def test_shuffle_delta_is_exact(clients, rate, epsilon):
    exact = brute_shuffle_delta(clients, rate, Fraction(math.exp(epsilon)))
    assert shuffle_delta(clients, float(rate), epsilon) == pytest.approx(float(exact), rel=1e-9)


def test_shuffle_delta_agrees_with_all_pairs_of_outcomes():
    """A second witness at a useful size: the double sum over a window of 15 standard deviations."""
    clients, rate, epsilon = 3000, 0.05, 0.7
    window = np.arange(0, 400)
    after, before = stats.binom.pmf(window, clients, rate), stats.binom.pmf(window - 1, clients, rate)
    exact = hockey_stick(np.outer(before, after), np.outer(after, before), epsilon)
    assert 1e-12 < exact < 1e-3
    assert shuffle_delta(clients, rate, epsilon) == pytest.approx(exact, rel=1e-7)


@pytest.mark.parametrize("delta", [1e-4, 1e-8])
@pytest.mark.parametrize("epsilon", [0.1, 0.2, 0.4, 0.7, 1.0])
def test_the_published_noise_suffices_for_two_buckets(epsilon, delta):
    """From the fewest clients that it can be used for to many more."""
    fewest = math.ceil(100 * math.log(2 / delta) / epsilon**2)
    for clients in (fewest, 3 * fewest, 40 * fewest):
        rate = ShuffledBernoulli(epsilon, delta).noise_rate(clients)
        assert rate <= 0.5
        assert shuffle_delta(clients, rate, epsilon) <= delta
        assert smallest_noise_rate(clients, epsilon, delta) < rate / 5
    with pytest.raises(Unreachable):
        ShuffledBernoulli(epsilon, delta).noise_rate(fewest - 1)


@pytest.mark.parametrize(("clients", "epsilon", "delta"), [(105_353, 1.0, 1e-8), (30_211, 0.2, 1e-8), (500, 1.0, 1e-3)])
def test_the_smallest_noise_is_enough_and_no_more(clients, epsilon, delta):
    rate = ShuffledBernoulli(epsilon, delta, parameter="smallest").noise_rate(clients)
    assert shuffle_delta(clients, rate, epsilon) <= delta
    assert shuffle_delta(clients, rate * (1 - 1e-5), epsilon) > delta
    rates = np.geomspace(rate / 20, 0.5, 30)
    deltas = [shuffle_delta(clients, each, epsilon) for each in rates]
    falling = [large >= small for large, small in itertools.pairwise(deltas) if small > 1e-25]
    assert all(falling)  # what the search rests on


def test_too_few_clients_for_shuffled_noise():
    for parameter in ("published", "smallest"):
        for counts in (np.array([3, 4]), np.array([0, 0])):
            with pytest.raises(Unreachable):
                ShuffledBernoulli(0.1, 1e-8, parameter).estimate(counts, np.random.default_rng(1))
            capped = ShuffledBernoulli(0.1, 1e-8, parameter, capped=True)
            assert capped.noise_rate(int(counts.sum())) == 0.5
            assert capped.estimate(counts, np.random.default_rng(1)).shape == (2,)


@pytest.mark.parametrize("setting", [{"parameter": "other"}, {"analyser": "other"}, {"epsilon": 1.5}])
def test_settings_of_shuffled_noise(setting):
    with pytest.raises(InvalidSetting):
        ShuffledBernoulli(**{"epsilon": 1.0, "delta": 1e-6} | setting)


def test_shuffled_estimates_agree_with_one_draw_a_client():
    counts, times = COUNTS * 10, 8000
    rival = ShuffledBernoulli(1.0, 1e-2, parameter="smallest")
    clients = int(counts.sum())
    rate = rival.noise_rate(clients)
    together = drawn(rival, counts, times)
    random = np.random.default_rng(7)

    def one_by_one(used):
        totals = np.stack([(random.random((clients, len(counts))) < used).sum(axis=0) for _ in range(times)])
        return counts + totals - clients * rate

    singly, off = one_by_one(rate), one_by_one(rate * 1.1)
    for bucket in range(len(counts)):
        assert same(together[:, bucket].round(6), singly[:, bucket].round(6)) > ALPHA
        assert same(together[:, bucket].round(6), off[:, bucket].round(6)) < ALPHA
    check_moments(together, counts, np.full(len(counts), rival.variance(clients)))


def test_truncated_estimates_leave_empty_buckets_empty():
    """Large counts are debiased as before, with the same variance; empty buckets are exact."""
    rival = ShuffledBernoulli(1.0, 1e-2, parameter="smallest", analyser="truncated")
    counts = np.array([4000, 0, 3000], dtype=np.int64)
    estimates = drawn(rival, counts, 300)
    assert not estimates[:, 1].any()
    for bucket in (0, 2):
        assert mean_fits(estimates[:, bucket], counts[bucket], rival.variance(7000)) > ALPHA
        assert mean_fits(estimates[:, bucket], counts[bucket] + 5, rival.variance(7000)) < ALPHA


# TrieHH


def test_trie_parameters_are_the_authors():
    """θ = 12 is the first with (θ − 2)/((θ − 3)θ!) ≤ 1e-8, and a batch has ε = L·ln(1/(1 − γθ))."""
    assert 9 / (8 * math.factorial(11)) > 1e-8 >= 10 / (9 * math.factorial(12))
    rival = TrieHH(1.0, 1e-8)
    assert rival.threshold == 12
    share = rival.batch(10**9) / 10**9
    assert 10 * math.log(1 / (1 - share * 12)) == pytest.approx(1.0, rel=1e-6)
    assert TrieHH(4.0, 0.4, rounds=1).threshold >= math.exp(4.0) - 1


def trie_delta(clients, batch, theta, epsilon, most):
    """One round's exact divergence: which of two words are found, of clients that hold one of them or another."""

    def law(one, two):
        outcomes = [0.0] * 4
        for i, j in itertools.product(range(min(one, batch) + 1), range(two + 1)):
            if i + j <= batch:
                ways = math.comb(one, i) * math.comb(two, j) * math.comb(clients - one - two, batch - i - j)
                outcomes[2 * (i >= theta) + (j >= theta)] += ways / math.comb(clients, batch)
        return outcomes

    return max(
        hockey_stick(law(one, two), law(one - 1, two + 1), epsilon)
        for one in range(theta, most)
        for two in [0, 1, theta - 1, theta, most // 2]
    )


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1 / 12), (0.5, 0.0125)])
def test_trie_voting_is_private_in_one_round(epsilon, delta):
    rival, clients = TrieHH(epsilon, delta, rounds=1), 80
    assert trie_delta(clients, rival.batch(clients), rival.threshold, epsilon, 24) <= delta
    assert trie_delta(clients, 5 * rival.batch(clients), rival.threshold, epsilon, 24) > delta  # the check can fail


@pytest.mark.parametrize(("epsilon", "delta", "rounds"), [(1.0, 1e-8, 10), (4.0, 1e-3, 10), (2.0, 1e-3, 3)])
def test_trie_voting_is_private_over_its_rounds(epsilon, delta, rounds):
    """How far down the trie a word gets that shares no prefix, by one client more or less, exactly."""
    rival, clients = TrieHH(epsilon, delta, rounds), 3000

    def worst(batch):
        held = np.arange(rival.threshold - 1, 400)
        grows = stats.hypergeom.sf(rival.threshold - 1, clients, held, batch)
        reached = grows[:, None] ** np.arange(rounds + 1)
        laws = np.column_stack([reached[:, :-1] - reached[:, 1:], reached[:, -1]])
        pairs = itertools.pairwise(laws)
        return max(hockey_stick(*order, epsilon) for pair in pairs for order in (pair, pair[::-1]))

    assert worst(rival.batch(clients)) <= delta
    assert worst(clients // 2) > delta  # the check can fail


def test_trie_finds_the_popular_and_never_the_rare():
    words = {"the": 5000, "then": 4000, "thou": 3000, "a": 4000, "rare": 11, "extraordinary": 5000}
    rival = TrieHH(8.0, 1e-6)
    assert rival.threshold == 10
    words["rare"] = rival.threshold - 1
    found = rival.discover(words, np.random.default_rng(1))
    assert found == {"the", "then", "thou", "a"}  # the longest word has no room for its end
    assert rival.discover({"a": 3}, np.random.default_rng(1)) == frozenset()
    with pytest.raises(InvalidSetting):
        rival.discover({"a$": 3}, np.random.default_rng(1))


def test_trie_agrees_with_one_client_at_a_time():
    words, times = {"ab": 60, "ac": 50, "b": 40, "abc": 50}, 1500
    rival = TrieHH(3.0, 0.05, rounds=3)
    random = np.random.default_rng(2)
    people = np.array([word + "$" for word, count in words.items() for _ in range(count)])

    def one_by_one(batch):
        level, found = {""}, set()
        for length in range(1, rival.rounds + 1):
            votes: dict[str, int] = {}
            for word in people[random.choice(len(people), batch, replace=False)].tolist():
                if len(word) >= length and word[: length - 1] in level:
                    votes[word[:length]] = votes.get(word[:length], 0) + 1
            level = {prefix for prefix, count in votes.items() if count >= rival.threshold}
            found |= level
        return " ".join(sorted(prefix for prefix in found if prefix.endswith("$")))

    together = [" ".join(sorted(word + "$" for word in rival.discover(words, random))) for _ in range(times)]
    batch = rival.batch(len(people))
    assert same(together, [one_by_one(batch) for _ in range(times)]) > ALPHA
    assert same(together, [one_by_one(batch + batch // 3) for _ in range(times)]) < ALPHA
    assert len(set(together)) > 3
