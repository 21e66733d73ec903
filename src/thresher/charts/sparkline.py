"""One line over time, as small as a word, for a row of a table on a web page."""

from __future__ import annotations

import math
from collections.abc import Sequence

from thresher.charts import svg
from thresher.charts.svg import Svg

_HEIGHT, _MARGIN = 28, 0.12


def sparkline(numbers: Sequence[float | None], label: str) -> Svg:
    """A line through numbers at even distances; a screen reader says `label`.

    The line has a gap where a number is None or NaN. What stands alone between two gaps is a short dash.
    Edge cases: without any number there is no line; equal numbers are a level line in the middle.
    """
    known = [number for number in numbers if number is not None and not math.isnan(number)]
    low, high = min(known, default=0.0), max(known, default=0.0)
    last = max(len(numbers) - 1, 1)

    def height(number: float) -> float:
        part = (number - low) / (high - low) if high > low else 0.5
        return _MARGIN + (1 - 2 * _MARGIN) * part

    runs: list[list[tuple[float, float]]] = [[]]
    for index, number in enumerate(numbers):
        if number is None or math.isnan(number):
            runs.append([])
        else:
            runs[-1].append((index / last, height(number)))
    half = 0.5 / max(len(numbers), 2)
    drawn = [
        svg.path(run if len(run) > 1 else [(run[0][0] - half, run[0][1]), (run[0][0] + half, run[0][1])], "line")
        for run in runs
        if run
    ]
    return svg.tag(
        "svg",
        svg.stretched(*drawn, height=_HEIGHT, top=0),
        class_="sparkline",
        width="100%",
        height=_HEIGHT,
        role="img",
        aria_label=label,
    )
