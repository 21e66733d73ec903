"""How simulated devices misbehave, as shares of all devices."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from thresher.errors import InvalidSetting
from thresher.simulator.hostile import ATTACKS

REMEMBERED = 64
"""Rounds whose dropouts are remembered."""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What goes wrong, and how often."""

    dropouts: float = 0.0
    """Devices that check in and then vanish from the round, half before and half after they have sealed."""
    retries: float = 0.0
    """Reports whose answer is lost, so that the same bytes are sent again."""
    duplicates: float = 0.0
    """Reports that are sent once more after they were acknowledged."""
    slow: float = 0.0
    """Reports that arrive in pieces."""
    hostile: float = 0.0
    """Hostile clients, beside the honest devices."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if not 0 <= getattr(self, field.name) <= 1:
                raise InvalidSetting(field.name, "must be a share from 0 to 1")

    def hostile_devices(self, devices: int) -> int:
        """How many hostile clients stand beside so many honest devices."""
        return round(self.hostile * devices)

    def completions(self, devices: int) -> int:
        """How many devices complete a round that everybody is contacted for."""
        hostile = self.hostile_devices(devices)
        false = sum(ATTACKS[index % len(ATTACKS)].completes for index in range(hostile))
        return max(1, devices - round(self.dropouts * devices) + false)


class Dropouts:
    """Which devices vanish from which round: the same number in each round, chosen afresh for each."""

    def __init__(self, devices: int, share: float) -> None:
        self._devices = devices
        self._number = round(share * devices)
        self._chance = np.random.default_rng()
        self._rounds: dict[str, frozenset[int]] = {}

    def vanishes(self, device: int, round: str) -> bool:
        """Whether this device drops out of this round."""
        if not self._number:
            return False
        gone = self._rounds.get(round)
        if gone is None:
            drawn = self._chance.choice(self._devices, self._number, replace=False)
            gone = self._rounds[round] = frozenset(drawn.tolist())
            if len(self._rounds) > REMEMBERED:
                del self._rounds[next(iter(self._rounds))]
        return device in gone
