"""Where the lines of a picture over time lie: their runs without a gap, their axes, and the places of their names."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from typing import NamedTuple

from thresher.charts.calendar import instant
from thresher.charts.ticks import nice_ticks

Number = tuple[float, float | None, float | None]
"""An estimate and the ends of its interval, where these are known."""


class Trend(NamedTuple):
    """One line: its name, and for each date its number, or None where there is none."""

    name: str
    numbers: Sequence[Number | None]


Run = list[tuple[dt.datetime, Number]]
"""Dates and numbers without a gap."""


def runs_of(dates: Sequence[dt.datetime], lines: Sequence[Trend]) -> list[tuple[str, list[Run]]]:
    """The lines that have a number, each as its runs without a gap."""
    found = []
    for line in lines:
        runs: list[Run] = [[]]
        for moment, number in zip(dates, line.numbers, strict=True):
            if number is None or math.isnan(number[0]):
                runs.append([])
            else:
                runs[-1].append((moment, number))
        if any(runs):
            found.append((line.name, [run for run in runs if run]))
    return found


def heights_of(lines: Sequence[Trend], *, from_zero: bool) -> list[float]:
    """Round numbers for the axis: from 0, or from below the lowest end of an interval, to above the highest."""
    numbers = [number for line in lines for number in line.numbers if number is not None and not math.isnan(number[0])]
    every = [end for number in numbers for end in number if end is not None]
    low, high = (0.0 if from_zero else min(every, default=0.0)), max(every, default=1.0)
    if not high > low:
        low, high = low - (0 if from_zero else 1), high + 1
    ticks = nice_ticks(low, high, 5)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else high - low
    return [step * place for place in range(math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9) + 1)]


def period_of(moments: Sequence[dt.datetime]) -> tuple[dt.datetime, dt.datetime]:
    """From just before the first date to just after the last; around a single date half a day on either side."""
    if not moments:
        now = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
        return now, now + dt.timedelta(days=1)
    first, last = min(moments, key=instant), max(moments, key=instant)
    start, stop = instant(first), instant(last)
    pad = dt.timedelta(hours=12) if start == stop else (stop - start) / 60
    return (start - pad).astimezone(first.tzinfo), (stop + pad).astimezone(last.tzinfo)


def spread(places: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places at least `gap` apart, between two ends, in the same order and each close to where it was wanted.

    Places that are too close are pushed apart around their common middle.
    Edge cases: where there is no room for all, they are evenly spaced from the low end on.
    """
    order = sorted(range(len(places)), key=lambda index: places[index])
    blocks: list[tuple[float, int]] = []  # the sum of the wanted positions of a block's first place, and its length
    for index in order:
        wanted, size = places[index], 1
        total = wanted
        while blocks and blocks[-1][0] / blocks[-1][1] + blocks[-1][1] * gap > total / size:
            before, length = blocks.pop()
            total, size = before + total - size * length * gap, size + length
        blocks.append((total, size))
    spots = []
    for total, size in blocks:
        first = total / size
        spots += [first + step * gap for step in range(size)]
    spots = [max(low, spot) for spot in spots]
    for index in range(1, len(spots)):
        spots[index] = max(spots[index], spots[index - 1] + gap)
    ceiling = high
    for index in reversed(range(len(spots))):
        spots[index] = max(min(spots[index], ceiling), low + index * gap)
        ceiling = spots[index] - gap
    result = [0.0] * len(places)
    for index, spot in zip(order, spots, strict=True):
        result[index] = spot
    return result
