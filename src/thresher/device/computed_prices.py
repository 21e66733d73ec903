"""A policy's table whose cells are computed when they are needed, and the whole table for a file.

It needs numerics, which the device alone does not install; there, policies come with a compiled table.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat

from thresher.device.price_table import Row, StoredTable
from thresher.errors import InvalidSetting, ThresherError
from thresher.privacy import round_prices
from thresher.privacy.round_prices import ROUNDS, THRESHOLDS, Bounds
from thresher.privacy.whole_numbers import BEYOND

_UNUSUAL = (ThresherError, ArithmeticError, ValueError)
"""What computing a cell may raise for bounds that no fleet has. Nothing is allowed then."""


class ComputedTable:
    """The table of some bounds. Many devices of a process share one.

    Guarantee: limits and costs are those of `compiled`. Each cell is computed once.
    Edge cases: a cell takes from a millisecond to half a second.
    """

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds.numbers
        self._bounds = bounds
        self._limits: dict[tuple[int, int], int] = {}
        self._rows: dict[int, Row] = {}

    def limit(self, times: int, threshold: int) -> int:
        """The largest rate that a query may have; 0 where it may have none."""
        cell = _cell(times, threshold)
        if cell is None:
            return 0
        if cell not in self._limits:
            self._limits[cell] = _limit(self._bounds, *cell)
        return self._limits[cell]

    def cost(self, times: int, threshold: int, rate: int) -> int:
        """What a query costs, `BEYOND` at most."""
        row = _row_of(threshold)
        if row is None:
            return BEYOND
        if row not in self._rows:
            self._rows[row] = _prices(self._bounds, row)
        return min(times * self._rows[row].unit(rate), BEYOND)

    def knows(self, times: int, threshold: int) -> bool:
        """Whether the cells for such queries have been computed."""
        cell = _cell(times, threshold)
        return cell is None or (cell in self._limits and cell[1] in self._rows)


@functools.lru_cache(maxsize=64)
def computed(bounds: tuple[float, float, float, float]) -> ComputedTable:
    """The table of some bounds, shared by all devices of this process."""
    return ComputedTable(Bounds(*bounds))


def compiled(
    bounds: Bounds,
    *,
    least: int = 1,
    rounds: Sequence[int] = ROUNDS,
    thresholds: Sequence[int] = THRESHOLDS,
    workers: int = 1,
    progress: Callable[[int, int], object] = lambda done, rows: None,
) -> StoredTable:
    """The whole table.

    Args:
        bounds: the four numbers of the policy.
        least: the policy's smallest threshold. Rows that only serve smaller ones are left out.
        rounds: the numbers of rounds that have a limit of their own; any other is read as the next larger one.
        thresholds: the thresholds that have a row of their own; any other is read as the next smaller one.
        workers: processes to compute in.
        progress: is called with the number of rows that are done, and of all rows.
    """
    columns = _checked("rounds", rounds, round_prices.MOST_ROUNDS)
    listed = _checked("thresholds", thresholds, round_prices.LARGEST_THRESHOLD)
    needed = [each for place, each in enumerate(listed) if place + 1 == len(listed) or listed[place + 1] > least]
    rows: list[Row] = []
    progress(0, len(needed))
    for row in _computed_rows(bounds, needed, columns, workers):
        rows.append(row)
        progress(len(rows), len(needed))
    return StoredTable(bounds.numbers, columns, tuple(rows))


def _computed_rows(bounds: Bounds, thresholds: list[int], rounds: tuple[int, ...], workers: int) -> Iterator[Row]:
    if workers == 1:
        yield from map(_row, repeat(bounds), thresholds, repeat(rounds))
        return
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(_row, repeat(bounds), thresholds, repeat(rounds))


def _row(bounds: Bounds, threshold: int, rounds: tuple[int, ...]) -> Row:
    found = _prices(bounds, threshold)
    return Row(threshold, tuple(_limit(bounds, each, threshold) for each in rounds), found.rates, found.costs)


def _limit(bounds: Bounds, rounds: int, threshold: int) -> int:
    try:
        return round_prices.limit(bounds, rounds, threshold)
    except _UNUSUAL:
        return 0


def _prices(bounds: Bounds, threshold: int) -> Row:
    try:
        found = round_prices.prices(bounds, threshold)
    except _UNUSUAL:
        return Row(threshold, (), (), ())
    return Row(threshold, (), found.rates, found.costs)


def _cell(times: int, threshold: int) -> tuple[int, int] | None:
    """The number of rounds and the threshold as which a query is read; None where there is no cell."""
    row = _row_of(threshold)
    column = next((each for each in ROUNDS if each >= times), None)
    return None if row is None or column is None else (column, row)


def _row_of(threshold: int) -> int | None:
    return max((each for each in THRESHOLDS if each <= threshold), default=None)


def _checked(setting: str, numbers: Sequence[int], most: int) -> tuple[int, ...]:
    listed = tuple(sorted(set(numbers)))
    if not listed or not all(1 <= each <= most for each in listed):
        raise InvalidSetting(setting, f"must be whole numbers from 1 to {most:,}")
    return listed
