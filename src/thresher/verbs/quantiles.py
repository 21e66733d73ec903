"""Quantiles of a number: a binary search, or all of them from one hierarchy."""

from __future__ import annotations

import json
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from thresher.errors import InvalidSetting, NotReleased
from thresher.privacy.plans import Plan
from thresher.questions import Below
from thresher.questions.population import Population, Progress
from thresher.verbs.accuracy import CONFIDENCE, Error, rank_standard_error
from thresher.verbs.quantile import Quantile, check_bounds, check_quantile
from thresher.verbs.ranges import Ranges, ranges
from thresher.verbs.rounds import Answer, Rounds
from thresher.verbs.search import Splits, interpolate, search

if TYPE_CHECKING:
    import pyarrow as pa

Method = Literal["search", "hierarchy"]
Band = tuple[list[float], list[float], list[float], list[float]]


def quantiles(
    population: Population,
    column: str,
    probabilities: Sequence[float],
    plan: Plan,
    *,
    lower: float,
    upper: float,
    method: Method = "search",
    branching: int = 4,
    progress: Progress | None = None,
) -> Quantiles:
    """The numbers that given parts of all units are below, between two public bounds.

    "search" spends `plan.rounds` ÷ (number of quantiles) rounds of binary search on each, and shares every released
    split among all. "hierarchy" asks `plan.rounds` levels of cells (see `ranges`); any number of quantiles follow.
    Numbers outside the bounds count as at the nearest bound.

    Guarantee: the plan's, over all its rounds. Each answer states its error from sampling, resolution and threshold.
    Edge cases: a side of a split that was dropped counts as zero, and `error.threshold` says how much that can be.
    Where nothing was released at all the value is NaN.
    Reference: paper, section 4.2; docs/privacy.md, sections 6 and 10.
    """
    wanted = _checked_probabilities(probabilities)
    low, high = check_bounds(lower, upper)
    if method == "hierarchy":
        tree = ranges(population, column, plan, lower=low, upper=high, branching=branching, progress=progress)
        found = tuple(tree.quantile(probability) for probability in wanted)
        return Quantiles(plan, tree.releases, column, found, tree)
    if method != "search":
        raise InvalidSetting("method", "must be 'search' or 'hierarchy'")
    if plan.rounds < len(wanted):
        raise InvalidSetting(
            "rounds",
            f"must be at least one for each of the {len(wanted)} quantiles, the plan has {plan.rounds}",
            hint="Plan with about ten rounds for each, or use method='hierarchy'.",
        )
    if not low < low + (high - low) / 2 < high:
        raise InvalidSetting("upper", "must be further above lower: no number is between them to split the range at")
    Below(column, low)  # refuses a column name that cannot be asked
    rounds = Rounds(population, plan, progress)
    splits = search(rounds, column, wanted, low, high)
    rate = min((release.rate for release in rounds.releases), default=plan.sampling_rate)
    found = tuple(_from_splits(splits, probability, rate) for probability in wanted)
    return Quantiles(plan, tuple(rounds.releases), column, found, splits)


def _from_splits(splits: Splits, probability: float, rate: float) -> Quantile:
    """The quantile on the curve of all splits, with bounds that hold for all quantiles of the query at once."""
    if not any(point.seen.total for point in splits.points):
        return Quantile.unknown(probability, splits.lower, splits.upper)
    left, right, low, high = splits.bracket(probability)
    positions = [point.at for point in splits.points]
    lows, highs = splits.bounds(1 - CONFIDENCE)
    interval = splits.interval(probability)
    value = min(max(interpolate(probability, left, right, low, high), interval[0]), interval[1])
    before, after = bisect_right(positions, value), bisect_left(positions, value)
    rank = (lows[before - 1] if before else 0.0, highs[after] if after < len(highs) else 1.0)
    ends = [point.seen.threshold_error() for point in splits.points if point.at in (left, right)]
    error = Error(
        sampling=rank_standard_error(probability, splits.nearest(value).total, rate),
        resolution=high - low,
        threshold=max(ends, default=0.0),
        bound=max(probability - rank[0], rank[1] - probability, 0.0),
    )
    return Quantile(probability, value, interval, rank, error)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Quantiles(Answer):
    """Found quantiles, in the order asked, and the released splits or hierarchy they were read from."""

    column: str
    quantiles: tuple[Quantile, ...]
    source: Splits | Ranges

    def __len__(self) -> int:
        return len(self.quantiles)

    def __iter__(self) -> Iterator[Quantile]:
        return iter(self.quantiles)

    def __getitem__(self, probability: float) -> Quantile:
        for found in self.quantiles:
            if found.probability == probability:
                return found
        raise NotReleased("This quantile was not asked for.", hint="A hierarchy has them all: see thresher.ranges.")

    def to_arrow(self) -> pa.Table:
        """One row a quantile: probability, value, its interval, its rank's interval, and the parts of the error."""
        import pyarrow as pa

        rows = [_plain(found) for found in self.quantiles]
        return pa.table({name: pa.array([row[name] for row in rows], pa.float64()) for name in rows[0]})

    def to_dict(self) -> dict[float, float]:
        """Probability to value."""
        return {found.probability: found.value for found in self.quantiles}

    def to_json(self) -> str:
        """Quantiles, plan and promise as JSON; a value that is not known is null."""
        rows = [
            {name: None if math.isnan(number) else number for name, number in _plain(found).items()}
            for found in self.quantiles
        ]
        content = {
            "column": self.column,
            "promise": self.promise(),
            "private": self.private,
            "plan": self.plan.to_dict(),
            "rounds_asked": self.rounds_asked,
            "confidence": CONFIDENCE,
            "quantiles": rows,
        }
        return json.dumps(content, ensure_ascii=False, allow_nan=False)

    def band(self) -> Band:
        """The distribution as it is known: values, their ranks, and the 95 % bounds of each."""
        return _band(self.source) if isinstance(self.source, Splits) else self.source.band()

    def plot(self, path: str | Path | None = None) -> Any:
        """The distribution with its band and the quantiles marked. Needs the extra `plot`."""
        from thresher import charts

        together = isinstance(self.source, Splits)
        values, ranks, lows, highs = self.band()
        chart = charts.distribution(
            values,
            ranks,
            lows,
            highs,
            marks=[(f"{found.probability:g}", found.value, found.probability, *found.interval) for found in self],
            title=f"Quantiles of {self.column}",
            subtitle=self.promise(),
            note="Band: 95 %, "
            + ("all split points together." if together else "at each value.")
            + " Bars: 95 % intervals of the quantiles.",
            whom=self.stands_for,
        )
        return charts.show(chart, path)

    def __repr__(self) -> str:
        found = ", ".join(f"{each.probability:g}: {each.value:.6g}" for each in self.quantiles)
        return f"<Quantiles of {self.column}: {found}; {self.promise()}>"


def _band(splits: Splits) -> Band:
    """The fitted curve at the released splits, with the bounds that hold for all of them at once."""
    positions, ranks = splits.curve()
    bounds = dict(
        zip((point.at for point in splits.points), zip(*splits.bounds(1 - CONFIDENCE), strict=True), strict=True)
    )
    bounds[splits.lower], bounds[splits.upper] = (0.0, 0.0), (1.0, 1.0)
    pairs = [bounds[position] for position in positions.tolist()]
    if not any(point.seen.total for point in splits.points):
        ranks = np.full_like(ranks, math.nan)
    return positions.tolist(), ranks.tolist(), [low for low, _ in pairs], [high for _, high in pairs]


def _plain(found: Quantile) -> dict[str, float]:
    return {
        "probability": found.probability,
        "value": found.value,
        "lower": found.interval[0],
        "upper": found.interval[1],
        "rank_lower": found.rank[0],
        "rank_upper": found.rank[1],
        "sampling_error": found.error.sampling,
        "resolution_error": found.error.resolution,
        "threshold_error": found.error.threshold,
        "rank_error_bound": found.error.bound,
    }


def _checked_probabilities(probabilities: Sequence[float]) -> tuple[float, ...]:
    wanted = (probabilities,) if isinstance(probabilities, int | float) else tuple(probabilities)
    checked = tuple(check_quantile(probability) for probability in wanted)
    if not checked or len(set(checked)) < len(checked):
        raise InvalidSetting("probabilities", "must be at least one number between 0 and 1, each only once")
    return checked
