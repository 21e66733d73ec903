"""How many took part in a round that not everybody completes, and the rate at which it really sampled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from thresher.errors import InvalidFormat, InvalidSetting
from thresher.privacy.settings import check_count


@dataclass(frozen=True, slots=True)
class Response:
    """Public numbers of one round of a fleet: devices asked, contacted, and completed.

    `kept_rate` is the probability that the answer of a device that completed was counted. All who could have been
    sampled are the `asked`; of them completed ÷ asked were, each kept with `kept_rate`.

    Guarantee: none of the numbers depends on what a device holds, since those without an answer complete too
    (docs/protocol.md, section 4).
    """

    asked: int
    contacted: int
    completed: int
    kept_rate: float

    def __post_init__(self) -> None:
        for name in ("asked", "contacted", "completed"):
            check_count(getattr(self, name), setting=name)
        if not self.completed <= self.contacted <= self.asked:
            raise InvalidSetting("completed", "must be at most contacted, and that at most asked")
        if isinstance(self.kept_rate, bool) or not isinstance(self.kept_rate, int | float):
            raise InvalidSetting("kept_rate", "must be a number")
        if not 0 < self.kept_rate <= 1:
            raise InvalidSetting("kept_rate", "must be above 0 and at most 1")

    @property
    def sampled(self) -> float:
        """How many devices' answers are expected to have been counted."""
        return self.kept_rate * self.completed

    @property
    def rate(self) -> float | None:
        """The part of the asked devices that was sampled; None where nobody completed."""
        return self.sampled / self.asked if self.completed else None

    def to_dict(self) -> dict[str, Any]:
        """Plain values that `from_dict` reads back exactly."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Response:
        """Read what `to_dict` wrote. Anything unknown, missing or out of range is an error."""
        if set(content) != {field.name for field in fields(cls)}:
            raise InvalidFormat("This response has missing or unknown fields.")
        return cls(**content)
