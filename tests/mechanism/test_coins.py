"""Coins are exact: every digit of p is compared, by integers, and nothing but U < p decides."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from thresher.errors import InvalidSetting
from thresher.mechanism.coins import coin, coins
from thresher.privacy.settings import dyadic, rate_numerator
from thresher.testing import SeededRandomness

ALPHA = 1e-9  # false alarm per check
RATE = dyadic(0.288)
RATES = [0.5, 0.25, 0.75, 3 / 2**16, 1 - 2**-16, 1 - 2**-53, 2.0**-40, 2.0**-64, RATE, dyadic(1e-6)]


class Script:
    """Randomness that was written down beforehand, one number for every element."""

    private = False

    def __init__(self, numbers: Iterable[int]) -> None:
        self.numbers = iter(numbers)
        self.taken = 0

    def fill(self, buffer: np.ndarray) -> None:
        buffer[:] = list(itertools.islice(self.numbers, len(buffer)))
        self.taken += len(buffer)


def digit(number: int, position: int) -> int:
    """The 16-bit digit of a 64-bit number, counted from the top."""
    return number >> (48 - 16 * position) & 0xFFFF


@pytest.mark.parametrize("rate", RATES)
def test_the_probability_is_the_rate_exactly(rate):
    """A proof by enumeration, digit by digit.

    Among the 65,536 values of a digit, with all digits before it tied, count the coins that come up true when
    later digits are the largest possible: those are true because of this digit. Their weights add up to the
    probability of a true coin.
    """
    numerator = rate_numerator(rate)
    probability = Fraction(0)
    for position in range(4):
        ties = [digit(numerator, earlier) for earlier in range(position)]
        tied = itertools.chain.from_iterable([tie] * 65_536 for tie in ties)
        source = Script(itertools.chain(tied, range(65_536), itertools.repeat(0xFFFF)))
        mask = coins(65_536, rate, source)
        if source.taken < (position + 1) * 65_536:
            break  # the rate has no further digits: these ties are already false, and are not drawn again
        probability += Fraction(int(mask.sum()), 65_536 ** (position + 1))
    assert probability == Fraction(rate)


@pytest.mark.slow
@settings(deadline=None)
@given(
    numerator=st.integers(1, 2**53 - 1).map(lambda odd: odd << 11),
    kept=st.integers(0, 64),
    noise=st.integers(0, 2**64 - 1),
)
def test_one_coin_is_u_below_p(numerator, kept, noise):
    """U agrees with p in its first `kept` bits, so ties of every depth occur."""
    u = (numerator >> (64 - kept) << (64 - kept)) | (noise & ((1 << (64 - kept)) - 1))
    source = Script(digit(u, position) for position in range(4))
    assert coin(numerator / 2**64, source) is (u < numerator)
    agreeing = next((at for at in range(4) if digit(u, at) != digit(numerator, at)), 3)
    assert source.taken <= agreeing + 1  # no digit is drawn that cannot matter


def test_many_coins_with_ties_are_u_below_p():
    numerator = rate_numerator(RATE)
    noise = np.random.default_rng(5).integers(0, 2**48, 300).tolist()
    tails = [value >> shift for value in noise for shift in (0, 16, 32)]
    near = [numerator + step for step in (-(2**48), -(2**32), -1, 0, 1, 2**32, 2**48)]
    us = near + [(numerator >> 48 << 48) + tail for tail in tails] + noise
    script = [
        digit(u, position)
        for position in range(4)
        for u in us
        if all(digit(u, earlier) == digit(numerator, earlier) for earlier in range(position))
    ]
    assert coins(len(us), RATE, Script(script)).tolist() == [u < numerator for u in us]


def p_value(mask: np.ndarray, rate: float) -> float:
    return float(stats.binomtest(int(np.count_nonzero(mask)), len(mask), rate).pvalue)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.5, RATE, dyadic(0.01), 1 - 2**-53])
def test_the_mean_of_many_coins(rate):
    mask = coins((1 << 26) + 1000, rate)
    assert p_value(mask, rate) > ALPHA
    # 2^-10 is at least 16 standard errors of 2^26 coins, and ALPHA is 6.1.
    assert p_value(mask, rate - 2**-10) < ALPHA
    assert p_value(mask[-1000:], rate) > ALPHA  # the last, partial chunk is tossed too


def test_coins_are_independent_of_their_neighbours():
    def pairs(mask: np.ndarray, lag: int) -> np.ndarray:
        blocks = mask[: len(mask) // (2 * lag) * 2 * lag].reshape(-1, 2, lag)
        return (blocks[:, 0] & blocks[:, 1]).reshape(-1)

    mask = coins(1 << 22, RATE)
    for lag in (1, 2, 3, 64, 1 << 17):  # the last is the distance between chunks
        assert p_value(pairs(mask, lag), RATE**2) > ALPHA
    assert p_value(pairs(np.repeat(mask, 2), 1), RATE**2) < ALPHA


@settings(deadline=None)
@given(number=st.integers(0, 300), rate=st.floats(1e-6, 1 - 1e-6), seed=st.integers(0, 2**32))
def test_shape_and_repeatability(number, rate, seed):
    mask = coins(number, dyadic(rate), SeededRandomness(seed))
    assert mask.dtype == np.bool_
    assert mask.shape == (number,)
    assert np.array_equal(mask, coins(number, dyadic(rate), SeededRandomness(seed)))


def test_fresh_randomness_for_every_call():
    assert not np.array_equal(coins(1000, 0.5), coins(1000, 0.5))


@pytest.mark.parametrize("number", [-1, 2.5, float("nan"), float("inf"), True, "12", None])
def test_a_wrong_number_is_refused(number):
    with pytest.raises(InvalidSetting, match="number") as refused:
        coins(number, 0.5)
    assert refused.value.setting == "number"
    assert refused.value.hint


@pytest.mark.parametrize("rate", [0.0, 1.0, -0.5, 2.0**-65, 0.1 * 2**-20, float("nan"), "0.5", True, None])
@pytest.mark.parametrize("toss", [lambda rate: coins(10, rate), coin], ids=["coins", "coin"])
def test_a_wrong_rate_is_refused(toss, rate):
    with pytest.raises(InvalidSetting) as refused:
        toss(rate)
    assert refused.value.setting == "sampling_rate"
    assert refused.value.hint
