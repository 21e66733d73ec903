"""Binomials are exact: proved by enumeration where that is possible, tested statistically where it is not."""

from __future__ import annotations

import importlib
import itertools
import tracemalloc
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from thresher.errors import InvalidSetting
from thresher.mechanism.binomials import binomials
from thresher.mechanism.coins import coins
from thresher.privacy.settings import dyadic
from thresher.testing import SeededRandomness

module = importlib.import_module("thresher.mechanism.binomials")  # the package offers a function of that name

ALPHA = 1e-9  # false alarm per check
RATE = dyadic(0.288)
DRAWS = 100_000


class Scripted:
    """Randomness that was written down beforehand: `script[i]` answers the i-th fill that is not empty."""

    private = False

    def __init__(self, script) -> None:
        self.script = script
        self.fills = 0

    def fill(self, buffer: np.ndarray) -> None:
        if len(buffer):
            buffer[:] = self.script[self.fills]
            self.fills += 1


@pytest.mark.parametrize(("count", "bits"), [(1, 1), (1, 8), (2, 1), (2, 6), (3, 1), (3, 4)])
@pytest.mark.parametrize("filler", [0, 2**64 - 1], ids=["zeros", "ones"])
def test_small_counts_have_exactly_the_binomial_probabilities(count, bits, filler):
    """A proof by enumeration: all strings of count × bits random bits, for every rate of that many bits.

    One group per string; all other bits of a word are the filler's and must not matter.
    """
    strings = np.array(list(itertools.product(range(1 << count), repeat=bits)), dtype=np.uint64)
    unused = np.uint64(filler >> count << count)
    for numerator in range(1, 1 << bits):
        rate = Fraction(numerator, 1 << bits)
        drawn = binomials(np.full(len(strings), count), float(rate), Scripted((strings | unused).T))
        frequency = np.bincount(drawn, minlength=count + 1)
        for successes in range(count + 1):
            exact = comb(count, successes) * rate**successes * (1 - rate) ** (count - successes)
            assert Fraction(int(frequency[successes]), len(strings)) == exact


class Bit:
    """Randomness that is 0 but for one bit."""

    private = False

    def __init__(self, position: int) -> None:
        self.position = position
        self.filled = 0

    def fill(self, buffer: np.ndarray) -> None:
        buffer[:] = 0
        word, bit = divmod(self.position, 64)
        if self.filled <= word < self.filled + len(buffer):
            buffer[word - self.filled] = 1 << bit
        self.filled += len(buffer)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [1, 2, 3, 1 << 14])
def test_with_a_half_every_trial_has_a_bit_of_its_own(chunk, monkeypatch):
    """With p = 1/2 a draw is the count minus the ones among some bits.

    So it is exactly Binomial(count, 1/2), independent of the others, if no bit counts in two groups and every
    group counts as many bits as it has trials.
    """
    monkeypatch.setattr(module, "_CHUNK", chunk)
    counts = np.array([65, 0, 1, 64, 63, 300, 128, 129, 2])
    whole = Bit(-1)
    assert np.array_equal(binomials(counts, 0.5, whole), counts)  # all zeros: every trial is below a half
    bits_per_group = np.zeros_like(counts)
    for position in range(64 * whole.filled):
        failed = counts - binomials(counts, 0.5, Bit(position))
        assert failed.sum() <= 1
        bits_per_group += failed
    assert np.array_equal(bits_per_group, counts)


@pytest.mark.slow
@settings(deadline=None)
@given(
    numerator=st.integers(1, 2**53 - 1).map(lambda odd: odd << 11),
    kept=st.integers(0, 64),
    noise=st.integers(0, 2**64 - 1),
)
@pytest.mark.parametrize(("count", "fills_per_bit"), [(5, 1), (64, 1), (65, 2), (130, 2)])
def test_trials_that_share_one_u_all_compare_it_with_p(count, fills_per_bit, numerator, kept, noise):
    """In one word, and above that as a last word and the whole ones. U agrees with p in its first bits."""
    u = (numerator >> (64 - kept) << (64 - kept)) | (noise & ((1 << (64 - kept)) - 1))
    words = [(2**64 - 1) * (u >> (63 - bit) & 1) for bit in range(64) for _ in range(fills_per_bit)]
    assert binomials([count], numerator / 2**64, Scripted(words)).tolist() == [count * (u < numerator)]


def pooled(expected: np.ndarray, least: float = 1000.0) -> np.ndarray:
    """Where to begin bins of neighbouring outcomes so that each expects at least `least`.

    A thousand, because the chi-square has to hold far out, at ALPHA: there the exact tail of one bin is 1.5
    times the approximation's for a thousand, 8 times for a hundred and 250 times for the usual ten.
    """
    begins, mass = [0], 0.0
    for outcome, weight in enumerate(expected):
        if mass >= least and expected[outcome:].sum() >= least:
            begins.append(outcome)
            mass = 0.0
        mass += weight
    return np.array(begins)


def p_value(drawn: np.ndarray, count: int, rate: float) -> float:
    """Chi-square of draws against Binomial(count, rate)."""
    expected = len(drawn) * stats.binom.pmf(np.arange(count + 1), count, rate)
    bins = pooled(expected)
    observed = np.add.reduceat(np.bincount(drawn, minlength=count + 1), bins)
    wanted = np.add.reduceat(expected, bins)
    return float(stats.chisquare(observed, wanted * (observed.sum() / wanted.sum())).pvalue)


def same_distribution_p_value(one: np.ndarray, other: np.ndarray) -> float:
    """Chi-square of two samples of the same size against each other."""
    top = int(max(one.max(), other.max())) + 1
    both = np.array([np.bincount(one, minlength=top), np.bincount(other, minlength=top)])
    table = np.add.reduceat(both, pooled(both.sum(axis=0) / 2), axis=1)
    return float(stats.chi2_contingency(table).pvalue)


@pytest.mark.parametrize("count", [1, 40, 63, 64, 65, 100, 127, 128, 129, 1000])
@pytest.mark.parametrize("rate", [0.5, RATE, dyadic(0.8)])
def test_chi_square_against_the_binomial(count, rate):
    drawn = binomials(np.full(DRAWS, count), rate)
    assert p_value(drawn, count, rate) > ALPHA
    assert p_value(drawn, count, rate * 1.1) < ALPHA


@pytest.mark.slow
def test_a_small_rate_and_mixed_sizes():
    """Sizes that share words, chunks and levels: each one is still its own binomial."""
    sizes = np.array([3, 70, 0, 20_000, 64, 500])
    rate = dyadic(0.003)
    drawn = binomials(np.tile(sizes, 20_000), rate).reshape(-1, len(sizes))
    for column, size in enumerate(sizes.tolist()):
        assert drawn[:, column].max() <= size
        if size >= 64:
            assert p_value(drawn[:, column], size, rate) > ALPHA
            assert p_value(drawn[:, column], size, rate * 1.5) < ALPHA


@pytest.mark.parametrize("rate", [RATE, 0.25, 0.5])
def test_one_large_count(rate):
    count = 10**8
    drawn = int(binomials([count], rate)[0])
    assert stats.binomtest(drawn, count, rate).pvalue > ALPHA
    # 2^-10 is at least 19 standard errors, and ALPHA is 6.1.
    assert stats.binomtest(drawn, count, rate + 2**-10).pvalue < ALPHA


@pytest.mark.parametrize("rate", [2.0**-64, 1 - 2**-53])
def test_rates_next_to_zero_and_one(rate):
    counts = np.array([1, 64, 65, 1000, 100_000])
    # Any other outcome has probability below 101,130 × 2^-53, about 1e-11.
    assert np.array_equal(binomials(counts, rate), counts if rate > 0.5 else np.zeros_like(counts))


@pytest.mark.parametrize("count", [40, 150])
def test_coins_and_binomials_agree(count):
    tossed = coins(DRAWS * count, RATE).reshape(DRAWS, count).sum(axis=1)
    assert same_distribution_p_value(tossed, binomials(np.full(DRAWS, count), RATE)) > ALPHA
    assert same_distribution_p_value(tossed, binomials(np.full(DRAWS, count), dyadic(RATE * 1.1))) < ALPHA


@pytest.mark.slow
@pytest.mark.parametrize(("part", "other"), [(30, 10), (64, 64), (100, 31)])
def test_a_group_split_in_two_adds_up_to_the_whole(part, other):
    split = binomials(np.tile([part, other], DRAWS), RATE).reshape(-1, 2).sum(axis=1)
    assert p_value(split, part + other, RATE) > ALPHA
    assert same_distribution_p_value(split, binomials(np.full(DRAWS, part + other), RATE)) > ALPHA
    assert same_distribution_p_value(split, binomials(np.full(DRAWS, part + other + 3), RATE)) < ALPHA


@pytest.mark.parametrize("count", [50, 200])
def test_groups_are_independent(count):
    def correlation_p_value(one: np.ndarray, other: np.ndarray) -> float:
        # For independent draws r·√N is standard normal up to terms of order 1/N.
        score = np.corrcoef(one, other)[0, 1] * np.sqrt(len(one))
        return float(2 * stats.norm.sf(abs(score)))

    drawn = binomials(np.full(2 * DRAWS, count), RATE)
    assert correlation_p_value(drawn[::2], drawn[1::2]) > ALPHA
    assert correlation_p_value(drawn[:DRAWS], drawn[DRAWS:]) > ALPHA
    linked = np.where(np.arange(DRAWS) % 20 == 0, drawn[::2], drawn[1::2])  # one draw in 20 is its neighbour's
    assert correlation_p_value(drawn[::2], linked) < ALPHA


@pytest.mark.slow
@settings(deadline=None)
@given(
    counts=st.lists(st.integers(0, 500), max_size=40),
    rate=st.floats(1e-9, 1 - 1e-9),
    seed=st.integers(0, 2**32),
)
def test_never_below_zero_never_above_the_count(counts, rate, seed):
    drawn = binomials(counts, dyadic(rate), SeededRandomness(seed))
    assert drawn.dtype == np.int64
    assert drawn.shape == (len(counts),)
    assert np.all((drawn >= 0) & (drawn <= np.array(counts, dtype=np.int64)))
    assert np.array_equal(drawn, binomials(counts, dyadic(rate), SeededRandomness(seed)))


@pytest.mark.parametrize(
    "counts", [[], (), np.array([]), np.array([], dtype=np.uint8), np.array([0]), [0, 0, 0]], ids=str
)
def test_nobody_gives_nobody(counts):
    drawn = binomials(counts, RATE)
    assert drawn.dtype == np.int64
    assert drawn.tolist() == [0] * len(counts)


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.uint64, ">i4"])
def test_integers_of_every_width(kind):
    counts = np.array([100, 0, 7], dtype=kind)
    expected = binomials([100, 0, 7], RATE, SeededRandomness(9))
    assert np.array_equal(binomials(counts, RATE, SeededRandomness(9)), expected)
    assert counts.tolist() == [100, 0, 7]  # and the caller's array is left alone


def test_fresh_randomness_for_every_call():
    counts = np.full(1000, 1000)
    assert not np.array_equal(binomials(counts, RATE), binomials(counts, RATE))


def test_memory_does_not_grow_with_the_count():
    tracemalloc.start()
    try:
        binomials([10**8], RATE)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**20  # the bits themselves would be 12.5 million bytes


@pytest.mark.parametrize(
    ("counts", "problem"),
    [
        ([-1], "negative"),
        (np.array([5, -3], dtype=np.int8), "negative"),
        ([2.5], "not float64"),
        ([1, float("nan")], "not float64"),
        ([True, False], "not bool"),
        ([True, 2], "not bool"),
        ((3, np.True_), "not bool"),
        (["12"], "not str"),
        ("12", "dimension"),
        (7, "dimension"),
        (None, "dimension"),
        ([[1, 2], [3, 4]], "dimension"),
        ([[1, 2], [3]], "one list"),
        ([1, None], "not object"),
        ([2**80], "not object"),
        ([2**62], "add up"),
        (np.array([2**63 + 5], dtype=np.uint64), "add up"),
        ([2**61, 2**61], "add up"),
        (np.full(1000, 2**61), "add up"),
    ],
    ids=repr,
)
def test_wrong_counts_are_refused(counts, problem):
    with pytest.raises(InvalidSetting, match=problem) as refused:
        binomials(counts, RATE)
    assert refused.value.setting == "counts"
    assert refused.value.hint


@pytest.mark.parametrize("rate", [0.0, 1.0, -0.5, 2.0**-65, float("nan"), "0.5", True, None])
def test_a_wrong_rate_is_refused(rate):
    with pytest.raises(InvalidSetting) as refused:
        binomials([10], rate)
    assert refused.value.setting == "sampling_rate"
