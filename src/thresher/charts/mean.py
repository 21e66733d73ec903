"""A mean with its interval, over the points that values were rounded to: for files and notebooks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from thresher.charts.numbers import amount
from thresher.charts.rendering import (
    BLACK,
    BLUE,
    DEVICES,
    NOTHING,
    ORANGE,
    RED,
    UNITS,
    altair,
    note_alone,
    standing_for,
    styled,
)

Point = tuple[float, float, float, float]
"""Where the point is, its estimated number of units, and the ends of the interval of that number."""

_WIDTH = 620


def mean(
    points: Sequence[Point],
    dropped: Sequence[float],
    value: float,
    interval: tuple[float, float],
    *,
    title: str,
    subtitle: str,
    whom: str | None = None,
) -> Any:
    """Sticks with intervals at the released points, crosses at those below the threshold, and the mean as a line.

    Edge cases: where nothing was released, the value is NaN, and the picture says so.
    """
    alt = altair()
    places = [*(point[0] for point in points), *dropped]
    edge = (max(places) - min(places)) * 0.03
    across = alt.X(
        "value:Q",
        title="value",
        scale=alt.Scale(domain=[min(places) - edge, max(places) + edge], nice=False, zero=False),
        axis=alt.Axis(tickCount=8, labelFlush=False),
    )
    most = max((point[3] for point in points), default=1.0)
    up = alt.Y(
        "estimate:Q",
        title=f"{UNITS if whom is None else DEVICES} at each point",
        scale=alt.Scale(domain=[0, 1.15 * most], nice=False),
        axis=alt.Axis(tickCount=6),
    )
    names = ("value", "estimate", "lower", "upper")
    rows = [dict(zip(names, point, strict=True)) for point in points]
    base = alt.Chart(alt.Data(values=rows)).encode(x=across)
    layers = [
        base.mark_bar(color=BLUE, opacity=0.75, width=_bar_width(places)).encode(y=up),
        base.mark_rule(color=BLACK, strokeWidth=1.5).encode(y="lower:Q", y2="upper:Q"),
    ]
    if not math.isnan(value):
        marked = alt.Chart(alt.Data(values=[{"value": value, "left": interval[0], "right": interval[1]}]))
        right = value > (min(places) + max(places)) / 2
        beside = {"align": "right" if right else "left", "baseline": "top", "dx": -8 if right else 8, "fontSize": 13}
        written = alt.value(f"mean {amount(value)} ({amount(interval[0])} to {amount(interval[1])})")
        at_top = marked.encode(x=across, y=alt.value(4), text=written)
        layers += [
            marked.mark_rect(color=ORANGE, opacity=0.35).encode(x=alt.X("left:Q", title="value"), x2="right:Q"),
            marked.mark_rule(color=ORANGE, strokeWidth=2).encode(x=across),
            at_top.mark_text(**beside, stroke="white", strokeWidth=4, strokeJoin="round"),
            at_top.mark_text(**beside, color=BLACK),
        ]
    note = "Bars: released points with 95 % intervals. Line and strip: the mean and its 95 % interval."
    if dropped:
        crosses = alt.Chart(alt.Data(values=[{"value": place, "estimate": 0} for place in dropped]))
        layers.append(
            crosses.mark_point(color=RED, shape="cross", angle=45, filled=True, size=70).encode(x=across, y=up)
        )
        note += " Crosses: points below the threshold."
    if not points:
        layers.append(note_alone(NOTHING))
    chart = alt.layer(*layers).properties(width=_WIDTH, height=300)
    return styled(chart, title, [subtitle, note, *standing_for(whom)])


def _bar_width(places: Sequence[float]) -> float:
    """Pixels of a bar that leave room between the two points that are closest."""
    rising = sorted(places)
    closest = min(high - low for low, high in pairwise(rising))
    return min(14.0, max(2.0, 0.6 * _WIDTH * closest / (rising[-1] - rising[0])))
