"""From exact counts to a release: secure coins and binomials, thinning, the threshold, the release itself."""

from __future__ import annotations

from thresher.mechanism.binomials import binomials
from thresher.mechanism.coins import coin, coins
from thresher.mechanism.randomness import KeyedRandomness, Randomness, SecureRandomness
from thresher.mechanism.release import Release, ReleasedBucket
from thresher.mechanism.response import Response
from thresher.mechanism.sampling import sample_and_threshold, thin, threshold

__all__ = [
    "KeyedRandomness",
    "Randomness",
    "Release",
    "ReleasedBucket",
    "Response",
    "SecureRandomness",
    "binomials",
    "coin",
    "coins",
    "sample_and_threshold",
    "thin",
    "threshold",
]
