"""What will be seen: the probability that a bucket is released, by how many devices hold it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from thresher.charts import svg
from thresher.charts.numbers import count, short
from thresher.charts.svg import Svg
from thresher.charts.ticks import decades

_HEIGHT = 190.0


def visibility(sizes: Sequence[float], probabilities: Sequence[float], smallest_visible: int) -> Svg:
    """A curve for a web page, over a logarithmic axis from the first of `sizes` to the last.

    `smallest_visible` is the number of devices whose bucket is seen with 95 % probability; it is marked.
    """
    low, high = math.log10(sizes[0]), math.log10(sizes[-1])

    def place(size: float) -> float:
        return (math.log10(size) - low) / (high - low)

    points = [(place(size), part) for size, part in zip(sizes, probabilities, strict=True)]
    mark = min(max(place(smallest_visible), 0.0), 1.0)
    text = f"{count(smallest_visible)} devices: 95 %"
    return svg.chart(
        svg.curve(points, _HEIGHT),
        front=(
            svg.upright(mark, _HEIGHT),
            svg.tag("circle", cx=svg.across(mark), cy=svg.down(0.95, _HEIGHT), r=4.5, class_="point"),
            svg.label(text, mark, svg.down(0.38, _HEIGHT), left=mark >= 0.6, gap=8),
        ),
        up=[(0.0, ""), (0.5, "50 %"), (1.0, "100 % seen")],
        below=[(place(size), short(size)) for size in decades(sizes[0], sizes[-1])],
        height=_HEIGHT,
        title="What will be seen",
        description=(
            "Probability that a bucket is released, by how many devices hold it. "
            f"Buckets of {count(smallest_visible)} devices or more are seen with at least 95 % probability."
        ),
    )
