"""For tests, rehearsals and the lab: a source of randomness that can be repeated."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from thresher.errors import InvalidSetting
from thresher.mechanism.randomness import Buffer, as_octets


class SeededRandomness:
    """Bits that follow from a seed. Never use it on people's data.

    Whoever knows or guesses the seed knows which units were sampled, so nothing is hidden: a release made
    with it is marked `private=False`. This is the only seeded source in Thresher.

    Guarantee: the same seed and the same calls give the same bits (Philox, statistically sound, not secret).
    Edge cases: a seed that is not a whole number from 0 is refused, so that no seed is ever implied.
    """

    __slots__ = ("_generator",)  # and no other attribute: the mark below cannot be changed on an instance

    private: ClassVar[bool] = False

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.Philox(_check_seed(seed)))

    def fill(self, buffer: Buffer) -> None:
        """Overwrite a contiguous buffer with the next bits."""
        octets = as_octets(buffer)
        octets[:] = np.frombuffer(self._generator.bytes(len(octets)), dtype=np.uint8)


def _check_seed(seed: object) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not seed >= 0:
        raise InvalidSetting("seed", "must be a whole number, 0 or more", hint="For example `seed=1`.")
    return int(seed)
