"""Several one-column questions at once: `Joint((Values(("country",)), Bins("age", edges)))`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from thresher.errors import InvalidSetting
from thresher.questions.question import Bucket, Part, Question, column_names, draw_for, from_dict


@dataclass(frozen=True, slots=True)
class Joint(Question):
    """The bucket is the tuple of the parts' buckets; a unit that lacks one of them has no bucket."""

    parts: tuple[Part, ...]
    kind = "joint"

    def __post_init__(self) -> None:
        if not (len(self.parts) >= 2 and all(getattr(part, "joinable", False) for part in self.parts)):
            raise InvalidSetting("parts", "must be at least two questions for values, bins, dates, cells or points")
        column_names(self.columns)
        if any(len(part.columns) != 1 for part in self.parts):
            raise InvalidSetting("parts", "must read one column each")
        if sum(part.randomised for part in self.parts) > 1:
            raise InvalidSetting("parts", "must not be rounded at random more than once")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of all parts, in order."""
        return tuple(part.columns[0] for part in self.parts)

    @property
    def repeated(self) -> bool:  # type: ignore[override]
        """Whether one of the parts is: a table then counts the distinct combinations of values once."""
        return any(part.repeated for part in self.parts)

    @property
    def randomised(self) -> bool:
        """Whether one of the parts is."""
        return any(part.randomised for part in self.parts)

    def bucket(self, value: Any, draw: float | None = None) -> Bucket | None:
        """The parts' buckets; the part that is rounded at random gets the draw."""
        return self._together("bucket", value, draw)

    def device_bucket(self, value: Any, draw: float | None = None) -> Bucket | None:
        """The same as a fleet counts it."""
        return self._together("device_bucket", value, draw)

    def _together(self, method: str, value: Any, draw: float | None) -> Bucket | None:
        parts = zip(self.parts, value, strict=True)
        buckets = tuple(getattr(part, method)(each, *draw_for(part, draw)) for part, each in parts)
        return None if None in buckets else buckets

    def to_dict(self) -> dict[str, Any]:
        """The parts, each with its kind."""
        return {"kind": self.kind, "parts": [part.to_dict() for part in self.parts]}

    @classmethod
    def read(cls, settings: dict[str, Any]) -> Self:
        """The question from its parts."""
        return cls(tuple(from_dict(part) for part in settings["parts"]))
