"""Exact binomials: how many of n units a sample keeps, without tossing n separate coins.

Every trial is `U < p` for a uniform U, compared with p bit by bit from the top. A trial whose bit differs
from p's is decided (0 against 1: success; 1 against 0: failure); the others, half of them on average, go on
to the next bit, and one that ties to the end fails. Only *how many* of a group's n undecided trials draw a 1
matters, and that is the number of ones among n random bits: about 2n bits decide n trials.

A group that is down to 64 undecided trials is finished in one machine word, one trial per bit, its "lane".
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from thresher.errors import InvalidSetting
from thresher.mechanism.randomness import Randomness, SecureRandomness
from thresher.privacy.settings import RATE_BITS, rate_numerator

Counts = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

TOTAL_LIMIT = 1 << 62
"""Counts add up to less than this, so that no sum of them overflows."""

_LANES = 64
_CHUNK = 1 << 14  # words; a few arrays of this length fit in the second-level cache
_LOWEST = np.array([(1 << bits) - 1 for bits in range(_LANES + 1)], dtype=np.uint64)
"""The word in which the lowest n bits are set, for n from 0 to 64."""


def binomials(counts: npt.ArrayLike, rate: float, randomness: Randomness | None = None) -> Counts:
    """Independent draws of Binomial(count, rate), one for every count.

    Guarantee: exact, with integers only. Memory grows with the number of counts, not with their size. Without
    `randomness` the bits come from a new `SecureRandomness`.
    Edge cases: no counts give an empty array; a count of 0 gives 0; a rate that is not a whole number of
    2^-64 is refused, and so are counts that add up to 2^62 or more.
    """
    undecided = _check_counts(counts)
    remaining = rate_numerator(rate)
    source = SecureRandomness() if randomness is None else randomness
    successes = np.zeros_like(undecided)
    groups = np.arange(len(undecided))
    while remaining and len(groups):
        fits = undecided <= _LANES
        successes[groups[fits]] += _in_lanes(undecided[fits], remaining, source)
        groups, undecided = groups[~fits], undecided[~fits]
        ones = _ones(undecided, source)
        bit, remaining = _next_bit(remaining)
        if bit:
            successes[groups] += undecided - ones
            undecided = ones
        else:
            undecided -= ones
    return successes


def _next_bit(remaining: int) -> tuple[int, int]:
    """The first bit of what remains of p, and what remains after it."""
    return remaining >> (RATE_BITS - 1), (remaining << 1) % (1 << RATE_BITS)


def _ones(lengths: Counts, source: Randomness) -> Counts:
    """The number of ones among `length` random bits, Binomial(length, 1/2), for lengths of at least 64."""
    partial = np.empty(len(lengths), dtype=np.uint64)
    source.fill(partial)
    ones: Counts = np.bitwise_count(partial & _LOWEST[lengths % _LANES]).astype(np.int64)

    # The whole words of all groups form one stream; a group's part of it ends where the next one's begins.
    ends = np.cumsum(lengths // _LANES)
    total = int(ends[-1]) if len(ends) else 0
    buffer = np.empty(min(total, _CHUNK), dtype=np.uint64)
    for start in range(0, total, _CHUNK):
        words = buffer[: total - start]
        source.fill(words)
        first, last = np.searchsorted(ends, [start + 1, start + len(words)])
        # No group is without a whole word, so these are strictly increasing, as reduceat needs them.
        begins = np.concatenate(([0], ends[first:last] - start))
        ones[first : last + 1] += np.add.reduceat(np.bitwise_count(words), begins, dtype=np.int64)
    return ones


def _in_lanes(counts: Counts, remaining: int, source: Randomness) -> Counts:
    """Binomial(count, remaining / 2^64) for counts of at most 64."""
    successes = np.empty_like(counts)
    for start in range(0, len(counts), _CHUNK):
        lanes = _LOWEST[counts[start : start + _CHUNK]]
        successes[start : start + _CHUNK] = np.bitwise_count(_below(lanes, remaining, source))
    return successes


def _below(undecided: Words, remaining: int, source: Randomness) -> Words:
    """Which of the lanes set in `undecided` draw a U below remaining / 2^64."""
    below = np.zeros_like(undecided)
    drew_one = np.empty_like(undecided)
    while remaining and undecided.any():
        source.fill(drew_one)
        drew_one &= undecided
        drew_zero = undecided ^ drew_one
        bit, remaining = _next_bit(remaining)
        if bit:
            below |= drew_zero
            undecided, drew_one = drew_one, undecided
        else:
            undecided = drew_zero
    return below


def _check_counts(counts: npt.ArrayLike) -> Counts:
    """The counts as a new one-dimensional array of int64."""
    accepted = "Give a list or array of whole numbers, 0 or more, for example `counts=[120, 45]`."
    try:
        array = np.asarray(counts)
    except (TypeError, ValueError, OverflowError):
        # Without the cause: its message may quote a count.
        raise InvalidSetting("counts", "must be one list of whole numbers", hint=accepted) from None
    if array.ndim != 1:
        raise InvalidSetting("counts", f"must have one dimension, not {array.ndim}", hint=accepted)
    if not array.size:
        return np.empty(0, dtype=np.int64)
    if array.dtype.kind not in "iu":
        raise InvalidSetting("counts", f"must be whole numbers, not {array.dtype.name}", hint=accepted)
    # In a list, numpy takes True for 1.
    if isinstance(counts, list | tuple) and any(isinstance(count, bool | np.bool_) for count in counts):
        raise InvalidSetting("counts", "must be whole numbers, not bool", hint=accepted)
    if not int(array.min()) >= 0:
        raise InvalidSetting("counts", "must not be negative", hint=accepted)
    if int(array.max()) * array.size >= TOTAL_LIMIT and sum(array.tolist()) >= TOTAL_LIMIT:
        raise InvalidSetting("counts", "must add up to less than 2^62", hint="Draw for fewer counts at once.")
    return array.astype(np.int64)
