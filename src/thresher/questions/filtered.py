"""A question that only some units are asked: `Filtered(Values(("country",)), Where((Between("age", 18, 65),)))`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from thresher.errors import InvalidSetting
from thresher.questions.conditions import Condition, Where
from thresher.questions.question import Bucket, Part, Question, from_dict


@dataclass(frozen=True, slots=True)
class Filtered(Question):
    """Another question, of those units that satisfy a filter. Whoever does not has no bucket.

    Its release has the columns of the other question alone. A value is the tuple of what the unit holds in `inputs`:
    the other question's columns, then those of the conditions that are not among them.
    """

    question: Question
    where: Where
    kind = "filtered"

    def __post_init__(self) -> None:
        if isinstance(self.question, Filtered):
            raise InvalidSetting("question", "must be a question without a filter")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the other question: those of the release."""
        return self.question.columns

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts of the other question."""
        return self.question.parts

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Those of the filter; all must hold."""
        return self.where.conditions

    @property
    def repeated(self) -> bool:  # type: ignore[override]
        """As of the other question."""
        return self.question.repeated

    @property
    def ordered(self) -> bool:  # type: ignore[override]
        """As of the other question."""
        return self.question.ordered

    @property
    def randomised(self) -> bool:
        """As of the other question."""
        return self.question.randomised

    def bucket(self, value: Any, *draw: float) -> Bucket | None:
        """The bucket of the other question, or None for a unit that does not satisfy the filter."""
        inner = self._admitted(value)
        return None if inner is None else self.question.bucket(*inner, *draw)

    def device_bucket(self, value: Any, *draw: float) -> Bucket | None:
        """The same, as a fleet counts it."""
        inner = self._admitted(value)
        return None if inner is None else self.question.device_bucket(*inner, *draw)

    def _admitted(self, value: Any) -> tuple[Any] | None:
        """What the other question takes, as the only element; None for a unit that does not satisfy the filter."""
        values = (value,) if len(self.inputs) == 1 else tuple(value)
        held = dict(zip(self.inputs, values, strict=True))
        if not all(condition.holds(held[condition.column]) for condition in self.conditions):
            return None
        own = values[: len(self.columns)]
        return (own if len(own) > 1 else own[0],)

    def narrowed(self, held: list[Any]) -> list[Any]:
        """Of each list, the elements that satisfy the condition on its attribute."""
        conditions = {condition.column: condition for condition in self.conditions}
        return [
            [each for each in value if conditions[name].holds(each)]
            if name in conditions and isinstance(value, list | tuple)
            else value
            for name, value in zip(self.inputs, held, strict=True)
        ]

    def label(self, bucket: Bucket) -> str:
        """As of the other question."""
        return self.question.label(bucket)

    def to_dict(self) -> dict[str, Any]:
        """The other question and the conditions."""
        return {"kind": self.kind, "question": self.question.to_dict(), "where": self.where.to_list()}

    @classmethod
    def read(cls, settings: dict[str, Any]) -> Self:
        """The question from its parts."""
        return cls(from_dict(settings["question"]), Where.read(settings["where"]))
