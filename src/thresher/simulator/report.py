"""What was released beside what is true: only a simulation knows both."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from thresher.errors import InvalidSetting
from thresher.mechanism.response import Response
from thresher.privacy.guarantee import Guarantee
from thresher.privacy.plans import Plan
from thresher.privacy.rates import Guarantees
from thresher.privacy.units import DEVICE
from thresher.questions.spelling import as_text
from thresher.simulator.hostile import Outcomes
from thresher.simulator.population import Column
from thresher.verbs import HeavyHitters, Histogram, Quantiles, Ranges


@dataclass(frozen=True, slots=True)
class Line:
    """One released number, its 95 % interval, and the truth."""

    what: str
    estimate: float
    lower: float
    upper: float
    truth: float

    @property
    def inside(self) -> bool:
        """Whether the truth lies in the interval."""
        return self.lower <= self.truth <= self.upper


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
            "unexpected": _rows(self.outcomes.unexpected),
            "comparison": None if self.comparison is None else self.comparison.to_dict(),
        }


def compare(answer: Any, column: Column, ranges: Sequence[tuple[float, float]] = ()) -> Comparison:
    """An answer of any verb beside the truth. `ranges` are those to read off an answer of `ranges`; it has no rows."""
    releases = (answer.release,) if isinstance(answer, Histogram) else answer.releases
    rounds = tuple(release.response for release in releases if release.response is not None)
    return replace(_compared(answer, column, ranges), rounds=rounds)


def _compared(answer: Any, column: Column, ranges: Sequence[tuple[float, float]]) -> Comparison:
    if isinstance(answer, Histogram):
        truth = texts(column)
        lines = [_counted(str(row.bucket), row, truth[str(row.bucket)]) for row in answer]
        return _of_values("histogram", lines, truth, answer.plan)
    if isinstance(answer, HeavyHitters):
        truth = texts(column)
        lines = [
            _counted(str(item.item), item, truth[str(item.item)])
            if item.complete
            else _counted(f"{item.item}…", item, _starting(truth, str(item.item)))
            for item in answer
        ]
        return _of_values("heavy hitters", lines, truth, answer.plan)
    if isinstance(answer, Quantiles):
        return _plain("quantiles", _quantile_lines(answer, column), answer.plan)
    if isinstance(answer, Ranges):
        return _plain("ranges", _range_lines(answer, column, ranges), answer.plan)
    raise InvalidSetting("answer", "must be that of one of the four verbs")


def texts(column: Column) -> Counter[str]:
    """The truth as a fleet counts it: whole values as text."""
    truth: Counter[str] = Counter()
    for value, count in column.truth().items():
        text = as_text(value)
        if text is not None:
            truth[text] += count
    return truth


def _counted(what: str, row: Any, true: int) -> Line:
    return Line(what, row.estimate, row.interval[0], row.interval[1], true)


def _starting(truth: Mapping[str, int], prefix: str) -> int:
    return sum(count for value, count in truth.items() if value.startswith(prefix))


def _of_values(verb: str, lines: list[Line], truth: Mapping[str, int], plan: Plan) -> Comparison:
    needed = plan.smallest_visible()
    large = {value for value, count in truth.items() if count >= needed}
    return Comparison(
        verb=verb,
        lines=tuple(lines),
        invented=sum(line.truth == 0 for line in lines),
        held=len(truth),
        large=len(large),
        large_released=len(large & {line.what for line in lines}),
        plan=plan,
        guarantee=plan.guarantee.for_unit(DEVICE),
    )


def _plain(verb: str, lines: list[Line], plan: Plan) -> Comparison:
    return Comparison(verb, tuple(lines), 0, 0, 0, 0, plan, plan.guarantee.for_unit(DEVICE))


def _quantile_lines(answer: Quantiles, column: Column) -> list[Line]:
    numbers = np.sort(column.numbers())
    lines = []
    for found in answer:
        true = float(np.quantile(numbers, found.probability, method="inverted_cdf"))
        lines.append(Line(f"{100 * found.probability:.4g} % are below", found.value, *found.interval, true))
    return lines


def _range_lines(answer: Ranges, column: Column, ranges: Sequence[tuple[float, float]]) -> list[Line]:
    numbers = column.numbers()
    lines = []
    for low, high in ranges:
        found = answer.count(low, high)
        true = int(((numbers >= low) & (numbers < high)).sum())
        lines.append(Line(f"from {low:g} up to {high:g}", found.estimate, *found.interval, true))
    return lines


def _rows(answers: Mapping[tuple[str, int], int]) -> list[dict[str, Any]]:
    return [
        {"what": what, "status": status or None, "count": count} for (what, status), count in sorted(answers.items())
    ]
