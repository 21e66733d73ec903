"""Sample and threshold, on counts: the line from a tally to a release.

Keeping each of n units with probability p and counting them is the same as drawing Binomial(n, p): exact counts are
thinned, counts below τ are dropped, and only then does a value exist that anyone may see.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thresher.errors import InvalidSetting
from thresher.mechanism.binomials import binomials
from thresher.mechanism.randomness import Randomness, SecureRandomness
from thresher.mechanism.release import Release
from thresher.privacy.plans import Plan
from thresher.privacy.units import Unit


def thin(counts: ArrayLike, plan: Plan, randomness: Randomness | None = None) -> NDArray[np.int64]:
    """Sampled counts: each unit of each bucket kept with probability p, by its own exact coin.

    The result is a tally. It must go through `threshold` before anyone sees it.
    """
    return binomials(counts, plan.sampling_rate, randomness)


def threshold(sampled: NDArray[np.int64], plan: Plan) -> NDArray[np.bool_]:
    """Which sampled counts reach the threshold and may be released."""
    return sampled >= plan.threshold


def sample_and_threshold(
    counts: Mapping[Any, int] | tuple[Any, ArrayLike],
    plan: Plan,
    randomness: Randomness | None = None,
    *,
    columns: tuple[str, ...] = ("bucket",),
    unit: Unit | None = None,
    units: int | None = None,
) -> Release:
    """Draw one round from exact counts: a mapping of bucket to count, or a pair (buckets, counts).

    `unit` is what was counted, and `units` is how many there are in all, if that is to stand on the certificate.

    Guarantee: the release is one of the plan's rounds; each unit must have been counted once.
    Edge cases: no bucket reaching the threshold gives an empty release, which is a valid answer; drawing again because
    of it would not be private.
    """
    if isinstance(counts, Mapping):
        counts = (list(counts.keys()), list(counts.values()))
    buckets, sizes = counts
    source = SecureRandomness() if randomness is None else randomness
    sampled = thin(sizes, plan, source)
    if len(sampled) != len(buckets):
        raise InvalidSetting(
            "counts",
            f"has {len(sampled)} entries for {len(buckets)} buckets",
            hint="Give one count a bucket.",
        )
    kept = np.flatnonzero(threshold(sampled, plan))
    found, private = _take(buckets, kept), source.private
    return Release.of(found, sampled[kept], plan, private=private, columns=columns, unit=unit, units=units)


def _take(buckets: Any, kept: NDArray[np.intp]) -> Any:
    """The buckets at the given positions, from an Arrow array or table, a NumPy array or a list."""
    if hasattr(buckets, "take"):
        return buckets.take(kept)
    return [buckets[index] for index in kept]
