"""How two independent confidence intervals make an interval for the change between them.

Reference: docs/series_reading.md, "What changed".
"""

from __future__ import annotations

import functools
import math
from itertools import pairwise

from thresher.errors import InvalidSetting
from thresher.privacy.settings import check_probability

PAIRS = 6
"""How many pairs of levels are used. One pair gives a change interval that is 61 % wider than if both numbers were
normal with a known variance; six pairs give 31 %, and any number of pairs at least 25 %."""

HIGHEST = 1 - 1e-9
"""The highest confidence; the levels of its pairs are the highest that floats tell from 1 well enough."""


@functools.lru_cache(maxsize=256)
def paired_levels(confidence: float) -> tuple[tuple[float, float], ...]:
    """Pairs (c, d) of confidence levels, from which a joint statement about two independent numbers is put together.

    Let I(c) be an interval for the first number at level c, and J(d) one for the second at level d; both grow with
    their level. Then with probability at least `confidence`, for *some* pair, I(c) contains the first number and J(d)
    the second. So what holds for every point of every rectangle I(c) × J(d) holds with that probability.

    Guarantee: only coverage of each interval, at each level, and independence of the two samples are needed.
    *Proof.* Sort pairs by rising c; then d falls. Let P be the lowest c whose interval contains the first number. By
    coverage Pr[P ≤ c_i] ≥ c_i. Given P = c_i, which says nothing about the second sample, the statement holds if J(d_i)
    contains the second number, for d_i is the highest of the levels still paired with an interval that contains the
    first; that has probability at least d_i. Because d_i falls in i, the sum Σ Pr[P = c_i]·d_i is smallest where
    Pr[P ≤ c_i] = c_i, and there it is Σ (c_i − c_{i−1})·d_i with c_0 = 0, which is `confidence` by the choice of the
    levels. ∎

    The levels are those of points on a quarter of a circle, in units of the normal law's standard deviation: for two
    normal numbers a circle is the best joint region when one does not know which of the two is less certain.
    """
    if not check_probability(confidence, setting="confidence") <= HIGHEST:
        raise InvalidSetting("confidence", "must be at most 1 − 1e-9", hint="For example `confidence=0.999`.")
    steps = [math.cos((step + 0.5) * math.pi / (2 * PAIRS)) for step in reversed(range(PAIRS))]
    low, high = 0.0, 40.0
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (low, middle) if _joint(_levels(middle, steps)) >= confidence else (middle, high)
    return _levels(high, steps)


def _levels(radius: float, steps: list[float]) -> tuple[tuple[float, float], ...]:
    """The levels of the points at this distance: those of the first number rise, those of the second fall."""
    levels = [math.erf(radius * step / math.sqrt(2)) for step in steps]
    return tuple(zip(levels, reversed(levels), strict=True))


def _joint(pairs: tuple[tuple[float, float], ...]) -> float:
    """The probability with which one of the rectangles contains both numbers."""
    first = [0.0, *(level for level, _ in pairs)]
    steps = (after - before for before, after in pairwise(first))
    return math.fsum(step * level for step, (_, level) in zip(steps, pairs, strict=True))
