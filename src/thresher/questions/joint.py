"""Several one-column questions at once: `Joint((Values(("country",)), Bins("age", edges)))`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from thresher.errors import InvalidSetting
from thresher.questions.question import Part, Question, column_names, from_dict


@dataclass(frozen=True, slots=True)
class Joint(Question):
    """The bucket is the tuple of the parts' buckets; a unit that lacks one of them has no bucket."""

    parts: tuple[Part, ...]
    kind = "joint"

    def __post_init__(self) -> None:
        if not (len(self.parts) >= 2 and all(getattr(part, "joinable", False) for part in self.parts)):
            raise InvalidSetting("parts", "must be at least two questions for values, bins, dates or cells")
        column_names(self.columns)
        if any(len(part.columns) != 1 for part in self.parts):
            raise InvalidSetting("parts", "must read one column each")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of all parts, in order."""
        return tuple(part.columns[0] for part in self.parts)

    @property
    def repeated(self) -> bool:  # type: ignore[override]
        """Whether one of the parts is: a table then counts the distinct combinations of values once."""
        return any(part.repeated for part in self.parts)

    def to_dict(self) -> dict[str, Any]:
        """The parts, each with its kind."""
        return {"kind": self.kind, "parts": [part.to_dict() for part in self.parts]}

    @classmethod
    def read(cls, settings: dict[str, Any]) -> Self:
        """The question from its parts."""
        return cls(tuple(from_dict(part) for part in settings["parts"]))
