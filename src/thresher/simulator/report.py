"""What was released beside what is true: only a simulation knows both."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from thresher.mechanism.response import Response
from thresher.privacy.guarantee import Guarantee
from thresher.privacy.plans import Plan
from thresher.privacy.rates import Guarantees
from thresher.privacy.units import DEVICE
from thresher.questions.spelling import as_text
from thresher.simulator.outcomes import Outcomes
from thresher.simulator.population import Column, ListColumn
from thresher.verbs.answer import Answer, Line


@dataclass(frozen=True, slots=True)
class Comparison:
    """An answer, line by line beside the truth.

    `invented` counts released values that no device holds: a correct fleet has none. `large` counts values held by so
    many devices that each is released with probability 0.95, and `large_released` those of them that were.
    """

    verb: str
    lines: tuple[Line, ...]
    invented: int
    held: int
    large: int
    large_released: int
    plan: Plan
    guarantee: Guarantee
    rounds: tuple[Response, ...] = ()
    """How many devices each round asked. An estimate is for those that were asked; the truth is for all."""

    @property
    def guarantees(self) -> Guarantees | None:
        """What holds against whom; None without a round."""
        return Guarantees.of(self.plan, self.rounds[0].rates) if self.rounds else None

    @property
    def inside(self) -> int:
        """How many intervals contain the truth."""
        return sum(line.inside for line in self.lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; a number that is not known is null."""
        return {
            "verb": self.verb,
            "promise": str(self.guarantee),
            "in_words": self.guarantee.in_words(),
            "guarantees": None if self.guarantees is None else asdict(self.guarantees),
            "plan": self.plan.to_dict(),
            "lines": [
                {
                    "what": line.what,
                    "estimate": None if math.isnan(line.estimate) else line.estimate,
                    "lower": line.lower,
                    "upper": line.upper,
                    "truth": line.truth,
                    "inside": line.inside,
                }
                for line in self.lines
            ],
            "released": len(self.lines),
            "inside": self.inside,
            "invented": self.invented,
            "held": self.held,
            "large": self.large,
            "large_released": self.large_released,
            "rounds": [each.numbers for each in self.rounds],
        }


@dataclass(frozen=True, slots=True)
class Result:
    """A whole simulation."""

    devices: int
    hostile: int
    seconds: float
    reports: int
    outcomes: Outcomes
    comparison: Comparison | None = None

    @property
    def requests(self) -> int:
        """Requests that were sent."""
        return self.outcomes.answers.total()

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "devices": self.devices,
            "hostile": self.hostile,
            "seconds": self.seconds,
            "requests": self.requests,
            "reports_accepted": self.reports,
            "answers": _rows(self.outcomes.answers),
            "reports": _rows(self.outcomes.reports),
            "unexpected": _rows(self.outcomes.unexpected),
            "comparison": None if self.comparison is None else self.comparison.to_dict(),
        }


def compare(answer: Answer, column: Column | ListColumn, ranges: Sequence[tuple[float, float]] = ()) -> Comparison:
    """An answer beside the truth. `ranges` are those to read off an answer of `ranges`, which has no rows."""
    truth = texts(column) if answer.counted else Counter[str]()
    lines = answer.compared(_Truth(truth, column), ranges)
    needed = answer.plan.smallest_visible()
    large = {value for value, count in truth.items() if count >= needed}
    return Comparison(
        verb=answer.query.verb.replace("_", " "),
        lines=tuple(lines),
        invented=sum(line.truth == 0 for line in lines) if answer.counted else 0,
        held=len(truth),
        large=len(large),
        large_released=len(large & {line.what for line in lines}),
        plan=answer.plan,
        guarantee=answer.plan.guarantee.for_unit(DEVICE),
        rounds=tuple(release.response for release in answer.releases if release.response is not None),
    )


@dataclass(frozen=True, slots=True)
class _Truth:
    """What simulated devices hold, as answers ask for it."""

    texts: Mapping[str, int]
    column: Column | ListColumn

    def counts(self) -> Mapping[str, int]:
        return self.texts

    def numbers(self) -> Any:
        return self.column.numbers()


def texts(column: Column | ListColumn) -> Counter[str]:
    """The truth as a fleet counts it: whole values as text."""
    truth: Counter[str] = Counter()
    for value, count in column.truth().items():
        text = as_text(value)
        if text is not None:
            truth[text] += count
    return truth


def _rows(answers: Mapping[tuple[str, Any], int]) -> list[dict[str, Any]]:
    ordered = sorted(answers.items(), key=lambda row: (row[0][0], str(row[0][1])))
    return [{"what": what, "status": status or None, "count": count} for (what, status), count in ordered]
