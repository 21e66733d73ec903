"""Exact coins: true with probability p, for the very p that the guarantee is computed for.

A coin is `U < p` for a uniform U of 64 bits and p = k / 2^64. U is drawn 16 bits at a time, from the top, and
only while it still ties with p: one coin in 65,536 needs the second draw.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from thresher.mechanism.randomness import Randomness, SecureRandomness
from thresher.privacy.settings import RATE_BITS, check_count, rate_numerator

_DIGIT_BITS = 16
_CHUNK = 1 << 17  # coins; their digits and comparisons stay in the second-level cache


def coins(number: int, rate: float, randomness: Randomness | None = None) -> npt.NDArray[np.bool_]:
    """`number` independent coins, each true with probability `rate`.

    Guarantee: exact, by comparing integers. Without `randomness` the bits come from a new `SecureRandomness`.
    Edge cases: no coins give an empty array; a rate that is not a whole number of 2^-64 is refused.
    """
    number = check_count(number, setting="number")
    digits = _digits(rate)
    source = SecureRandomness() if randomness is None else randomness
    mask = np.empty(number, dtype=np.bool_)
    draws = np.empty(min(number, _CHUNK), dtype=np.uint16)
    for start in range(0, number, _CHUNK):
        chunk = mask[start : start + _CHUNK]
        _toss(chunk, draws[: len(chunk)], digits, source)
    return mask


def coin(rate: float, randomness: Randomness | None = None) -> bool:
    """One coin, true with probability `rate`, as a device tosses it.

    Guarantee: that of `coins`.
    """
    return bool(coins(1, rate, randomness)[0])


def _digits(rate: float) -> list[np.uint16]:
    """The rate in base 65,536, most significant digit first, without the zeros at the end."""
    numerator = rate_numerator(rate)
    digits = []
    while numerator:
        digits.append(np.uint16(numerator >> (RATE_BITS - _DIGIT_BITS)))
        numerator = (numerator << _DIGIT_BITS) % (1 << RATE_BITS)
    return digits


def _toss(
    mask: npt.NDArray[np.bool_], draws: npt.NDArray[np.uint16], digits: list[np.uint16], source: Randomness
) -> None:
    """Overwrite a mask with coins."""
    source.fill(draws)
    np.less(draws, digits[0], out=mask)
    # Whoever ties with every digit of p is not below p: false, as the last comparison leaves it.
    tied = np.flatnonzero(draws == digits[0])
    for digit in digits[1:]:
        if not len(tied):
            break
        deeper = np.empty(len(tied), dtype=np.uint16)
        source.fill(deeper)
        mask[tied] = deeper < digit
        tied = tied[deeper == digit]
