"""What a policy allows and charges, as whole numbers that a device compares. See docs/protocol/policy.md.

A table is read from a file that `thresher policy compile` wrote, or its cells are computed when they are needed
(`thresher.device.computed_prices`). Both give the same numbers.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol, TypeAlias

from thresher.errors import InvalidFormat
from thresher.privacy.whole_numbers import BEYOND, ONE

_MOST = 4096
"""Rows, columns and rates of a table, at most."""
_LARGEST = 1_000_000
"""Rounds and thresholds of a table, at most."""


Bounds: TypeAlias = tuple[float, float, float, float]


class PriceTable(Protocol):
    """Limits and costs of rounds. `times` is how many rounds of one contribution a query is worth."""

    @property
    def bounds(self) -> Bounds:
        """What it was computed for: max_epsilon, max_delta, period_epsilon, period_delta."""
        ...

    def limit(self, times: int, threshold: int) -> int:
        """The largest rate that a query may have; 0 where it may have none."""
        ...

    def cost(self, times: int, threshold: int, rate: int) -> int:
        """What a query costs, `BEYOND` at most."""
        ...

    def knows(self, times: int, threshold: int) -> bool:
        """Whether `limit` and `cost` have nothing to compute for such queries."""
        ...


@dataclass(frozen=True, slots=True)
class Row:
    """The cells of one threshold."""

    threshold: int
    limits: tuple[int, ...]
    """The largest rate for each number of rounds of the table."""
    rates: tuple[int, ...]
    """Ascending."""
    costs: tuple[int, ...]
    """What one round costs at each rate; not descending."""

    def unit(self, rate: int) -> int:
        """What one round costs at a rate: that of the next larger one."""
        place = bisect_left(self.rates, rate)
        return self.costs[place] if place < len(self.rates) else BEYOND


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A table that was computed before."""

    bounds: Bounds
    rounds: tuple[int, ...]
    rows: tuple[Row, ...]

    @classmethod
    def from_dict(cls, content: Any) -> StoredTable:
        """Read what `to_dict` wrote. `InvalidFormat` unless every rule of docs/protocol/policy.md holds."""
        try:
            rows = tuple(
                Row(row["threshold"], *(_numbers(row[name]) for name in ("limits", "rates", "costs")))
                for row in content["rows"]
                if _exactly(row, "threshold", "limits", "rates", "costs")
            )
            made = cls(_bounds(content["bounds"]), _numbers(content["rounds"]), rows)
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError):
            raise _not_a_table() from None
        if not (_exactly(content, "bounds", "rounds", "rows") and len(rows) == len(content["rows"]) and made._holds()):
            raise _not_a_table()
        return made

    def to_dict(self) -> dict[str, Any]:
        """A dictionary of plain values, as docs/protocol/policy.md describes it."""
        rows = [
            {
                "threshold": row.threshold,
                "limits": list(row.limits),
                "rates": list(row.rates),
                "costs": list(row.costs),
            }
            for row in self.rows
        ]
        return {"bounds": list(self.bounds), "rounds": list(self.rounds), "rows": rows}

    @property
    def refuses_everything(self) -> bool:
        """Whether there is no query that the table allows."""
        return not any(limit for row in self.rows for limit in row.limits)

    def limit(self, times: int, threshold: int) -> int:
        """The largest rate that a query may have; 0 where the table has no cell for it."""
        row, column = self._row(threshold), bisect_left(self.rounds, times)
        return 0 if row is None or column == len(self.rounds) else row.limits[column]

    def cost(self, times: int, threshold: int, rate: int) -> int:
        """What a query costs; `BEYOND` where the table has no cell for it."""
        row = self._row(threshold)
        return BEYOND if row is None else min(times * row.unit(rate), BEYOND)

    def knows(self, times: int, threshold: int) -> bool:
        """Always: there is nothing to compute."""
        return True

    def _row(self, threshold: int) -> Row | None:
        place = bisect_right(self.rows, threshold, key=lambda row: row.threshold)
        return self.rows[place - 1] if place else None

    def _holds(self) -> bool:
        """Whether the numbers are in order and in range."""
        thresholds = tuple(row.threshold for row in self.rows)
        return (
            0 < len(self.rows) <= _MOST
            and 0 < len(self.rounds) <= _MOST
            and _ascending(self.rounds, 1, _LARGEST)
            and _ascending(thresholds, 1, _LARGEST)
            and all(
                len(row.limits) == len(self.rounds)
                and len(row.rates) == len(row.costs) <= _MOST
                and _ascending(row.rates, 1, ONE)
                and all(type(each) is int and 0 <= each < ONE for each in row.limits)
                and all(type(each) is int and 1 <= each <= BEYOND for each in row.costs)
                and all(before <= after for before, after in pairwise(row.costs))
                for row in self.rows
            )
        )


def _exactly(content: Mapping[str, Any], *names: str) -> bool:
    return content.keys() == set(names)


def _numbers(content: Any) -> tuple[int, ...]:
    if not isinstance(content, list):
        raise TypeError
    return tuple(content)


def _bounds(content: Any) -> Bounds:
    max_epsilon, max_delta, period_epsilon, period_delta = _numbers(content)
    if not all(type(each) in (int, float) for each in content):
        raise TypeError
    return float(max_epsilon), float(max_delta), float(period_epsilon), float(period_delta)


def _ascending(numbers: tuple[int, ...], least: int, most: int) -> bool:
    return all(type(each) is int and least <= each <= most for each in numbers) and all(
        before < after for before, after in pairwise(numbers)
    )


def _not_a_table() -> InvalidFormat:
    return InvalidFormat("The policy's table does not hold together.", hint="Make it again: thresher policy compile.")
