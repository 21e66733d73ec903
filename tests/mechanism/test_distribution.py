"""The whole mechanism's output has the law it claims, and an attack reaches but does not exceed the stated delta.

Every check states its false-alarm rate and has a negative control that the same check rejects.
"""

import math

import numpy as np
import pytest
from scipy import stats

import thresher as th
from thresher.mechanism import binomials, coins, sample_and_threshold, thin
from thresher.mechanism import threshold as keeps
from thresher.privacy import delta
from thresher.privacy.settings import dyadic

ALPHA = 1e-9  # false alarm per check
DRAWS = 60_000
AUDITED = 8_000_000


def plan_of(rate: float, threshold: int) -> th.Plan:
    return th.Plan(dyadic(rate), threshold, 50.0, 0.5)


def p_value(outcomes: np.ndarray, count: int, rate: float, threshold: int) -> float:
    """Chi-square of released counts (0: dropped) against the truncated binomial law."""
    shown = np.arange(threshold, count + 1)
    expected = np.concatenate([[stats.binom.cdf(threshold - 1, count, rate)], stats.binom.pmf(shown, count, rate)])
    observed = np.concatenate([[np.sum(outcomes == 0)], [np.sum(outcomes == v) for v in shown]])
    expected *= len(outcomes)
    # Bins of at least 1000 expected draws: there the chi-square's tail holds down to ALPHA.
    bins = np.minimum((np.cumsum(expected) - expected) // 1000, np.sum(expected) // 1000 - 1)
    bins = np.unique(bins, return_inverse=True)[1]
    if np.bincount(bins, expected)[-1] < 1000:
        bins = np.minimum(bins, bins.max() - 1)
    return float(stats.chisquare(np.bincount(bins, observed), np.bincount(bins, expected)).pvalue)


def release_many(count: int, plan: th.Plan) -> np.ndarray:
    """Independent releases of a bucket of `count` units: many buckets of that size, drawn at once."""
    release = sample_and_threshold((np.arange(DRAWS), np.full(DRAWS, count)), plan)
    outcomes = np.zeros(DRAWS, dtype=np.int64)
    outcomes[release.table["bucket"].to_numpy()] = release.counts
    return outcomes


@pytest.mark.parametrize(("count", "rate", "threshold"), [(40, 0.288, 10), (200, 0.1, 25), (15, 0.7, 11)])
def test_released_counts_follow_the_truncated_binomial(count, rate, threshold):
    outcomes = release_many(count, plan_of(rate, threshold))
    assert p_value(outcomes, count, dyadic(rate), threshold) > ALPHA
    assert p_value(outcomes, count, dyadic(rate) * 1.1, threshold) < ALPHA  # the check can fail
    assert p_value(outcomes, count + 4, dyadic(rate), threshold) < ALPHA


def test_thinning_a_count_is_keeping_units_one_by_one():
    """Both ways of sampling the same bucket, compared with each other (two-sample chi-square)."""
    rate, count = dyadic(0.3), 30
    thinned = binomials(np.full(DRAWS, count), rate)
    kept = coins(DRAWS * count, rate).reshape(DRAWS, count).sum(axis=1)
    wrong = coins(DRAWS * count, dyadic(0.32)).reshape(DRAWS, count).sum(axis=1)

    def same(first: np.ndarray, second: np.ndarray) -> float:
        bins = np.clip(np.arange(count + 2), 4, 15)
        table = np.array([np.bincount(bins[sample], minlength=17)[4:16] for sample in (first, second)])
        return float(stats.chi2_contingency(table).pvalue)

    assert same(thinned, kept) > ALPHA
    assert same(thinned, wrong) < ALPHA


# A short audit: the best attack on the worst neighbouring pair, at a setting weak enough to measure.


def advantage_bounds(rate: float, threshold: int, epsilon: float, used: th.Plan) -> tuple[float, float]:
    """Clopper-Pearson bounds, all wrong with probability ALPHA at most, on the best attack that was tried.

    The attacker sees whether a bucket is released and tells k units from k−1 by it, for every k up to past k*, where
    this is the best attack there is (docs/privacy.md, section 4): Pr[released | k] − e^ε·Pr[released | k−1].
    """
    best = math.floor((threshold - 1) / (1 - (1 - rate) * math.exp(-epsilon))) + 1
    sizes = range(max(1, threshold - 2), best + 2)
    risk = ALPHA / len(sizes) / 2

    def interval(size: int) -> tuple[float, float]:
        hits = int(np.count_nonzero(keeps(thin(np.full(AUDITED, size), used), used)))
        low = stats.beta.ppf(risk, hits, AUDITED - hits + 1) if hits else 0.0
        return float(low), float(stats.beta.isf(risk, hits + 1, AUDITED - hits))

    seen = {size: interval(size) for size in (sizes[0] - 1, *sizes)}
    factor = math.exp(epsilon)
    return (
        max(seen[size][0] - factor * seen[size - 1][1] for size in sizes),
        max(seen[size][1] - factor * seen[size - 1][0] for size in sizes),
    )


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "threshold", "epsilon"), [(0.3, 4, 1.0), (0.25, 3, 1.0), (0.4, 4, 1.5)])
def test_audit_reaches_and_never_exceeds_the_stated_delta(rate, threshold, epsilon):
    rate = dyadic(rate)
    stated = delta(sampling_rate=rate, threshold=threshold, epsilon=epsilon, adjacency="add-remove")
    assert 3e-3 < stated < 5e-2
    low, high = advantage_bounds(rate, threshold, epsilon, plan_of(rate, threshold))
    assert low <= stated, "the mechanism leaks more than it states"
    assert high >= stated, "the best attack should reach what is stated"
    assert low > 0.7 * stated, "the audit is precise enough to mean something"


@pytest.mark.slow
@pytest.mark.parametrize("fault", [{"rate": 0.33, "threshold": 4}, {"rate": 0.3, "threshold": 3}])
def test_audit_catches_planted_faults(fault):
    """The negative control: a rate 10 % too high, a threshold one too low."""
    stated = delta(sampling_rate=0.3, threshold=4, epsilon=1.0, adjacency="add-remove")
    low, _ = advantage_bounds(dyadic(0.3), 4, 1.0, plan_of(fault["rate"], fault["threshold"]))
    assert low > stated
