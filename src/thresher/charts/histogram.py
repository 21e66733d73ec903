"""Released buckets with their intervals and the threshold: for files and notebooks, and one by one for web pages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from thresher.charts import svg
from thresher.charts.numbers import told_apart
from thresher.charts.rendering import (
    BLACK,
    BLUE,
    DEVICES,
    GREY,
    NOTHING,
    ORANGE,
    RED,
    UNITS,
    altair,
    note_alone,
    standing_for,
    styled,
)
from thresher.charts.svg import Svg

_LONGEST_LABEL = 32
_ROW, _TALLEST = 22, 900
"""Pixels of one row, and of all rows of a picture whose rows may be thinner than that."""
_LEAST_ROW = 13
"""Pixels of a row that has room for words."""
BELOW = "below the threshold"


def histogram(
    labels: Sequence[str],
    estimates: Sequence[float | None],
    lower: Sequence[float | None],
    upper: Sequence[float | None],
    *,
    threshold: float,
    title: str,
    subtitle: str,
    truth: Sequence[float] | None = None,
    confidence: float = 0.95,
    whom: str | None = None,
    ordered: bool = False,
) -> Any:
    """Bars with intervals, from top to bottom in the given order, and a line where the threshold lies.

    Args:
        labels: the buckets' names.
        estimates: the buckets' estimated sizes; None for a bucket below the threshold, which has a place and no bar.
        lower: lower ends of the intervals.
        upper: upper ends of the intervals.
        threshold: the threshold divided by the sampling rate, in units.
        title: the picture's title.
        subtitle: a line below it.
        truth: true sizes, drawn as ticks.
        confidence: the confidence of the intervals.
        whom: for whom the numbers stand, where that is not everybody.
        ordered: the buckets have an order of their own, such as bins and dates have. Pass all of them, in that order:
            where there are many, rows are thinner and labels that would overlap are left out. Otherwise every row has
            its full height and its label, so pass only as many as should be drawn, the largest first.
    """
    alt = altair()
    rows = [
        {"order": order, "bucket": label, "estimate": value, "lower": low, "upper": high}
        for order, (label, value, low, high) in enumerate(
            zip(told_apart(labels, _LONGEST_LABEL), estimates, lower, upper, strict=True)
        )
    ]
    if truth is not None:
        for row, value in zip(rows, truth, strict=True):
            row["truth"] = value
    names = {str(row["order"]): row["bucket"] for row in rows}
    axis = alt.Axis(
        title=None,
        labelExpr=f"{json.dumps(names)}[datum.value]",
        labelLimit=260,
        labelOverlap="greedy" if ordered else False,
        ticks=False,
    )
    # The domain is given, since a layer leaves rows without a number out of its own.
    down = alt.Y("order:O", axis=axis, sort=None, scale=alt.Scale(domain=list(range(len(rows)))))
    base = alt.Chart(alt.Data(values=rows)).encode(y=down)
    bars = base.mark_bar(color=BLUE, opacity=0.75, height={"band": 0.72}).encode(
        x=alt.X(
            "estimate:Q",
            title=f"{UNITS if whom is None else DEVICES} (estimate and {100 * confidence:g} % interval)",
            scale=alt.Scale(zero=True),
            axis=alt.Axis(tickCount=8, labelFlush=False),
        ),
    )
    spans = base.mark_rule(color=BLACK, strokeWidth=1.5).encode(x="lower:Q", x2="upper:Q")
    line = (
        alt.Chart(alt.Data(values=[{"threshold": threshold, "label": "threshold ÷ p"}]))
        .mark_rule(color=RED, strokeDash=[5, 4], strokeWidth=1.5)
        .encode(x="threshold:Q")
    )
    tall = max(60, _ROW * len(rows))
    height = min(tall, _TALLEST) if ordered else tall
    layers = [bars, spans, line]
    note = "Dashed line: the threshold, in units. Smaller buckets are left out."
    if below := [row for row in rows if row["estimate"] is None]:
        small = height < _LEAST_ROW * len(rows)
        places = alt.Chart(alt.Data(values=below)).encode(y=down, x=alt.datum(0))
        layers.append(
            places.mark_text(align="left", baseline="middle", dx=4, fontSize=8 if small else 11, color=GREY).encode(
                text=alt.value("×" if small else BELOW)
            )
        )
        note = f"Dashed line: the threshold, in units. {'×: ' if small else ''}{BELOW.capitalize()} does not mean zero."
    if truth is not None:
        layers.append(base.mark_tick(color=ORANGE, thickness=3, height={"band": 0.8}).encode(x="truth:Q"))
        note += " Orange ticks: the truth."
    if not rows:
        layers.append(note_alone(NOTHING))
    chart = alt.layer(*layers).properties(width=560, height=height)
    return styled(chart, title, [subtitle, note, *standing_for(whom)])


def bar_svg(estimate: float | None, lower: float | None, upper: float | None, threshold: float, most: float) -> Svg:
    """One bucket for a web page: a bar with its interval and the threshold. A list of bars shares the scale `most`.

    Of a bucket below the threshold, whose numbers are None, only the threshold is drawn.
    """

    def across(value: float) -> str:
        return svg.across(min(value / most, 1.0))

    drawn = [svg.tag("line", x1=across(threshold), x2=across(threshold), y1=0, y2=26, class_="mark")]
    if lower is not None and upper is not None:
        drawn.insert(0, svg.tag("line", x1=across(lower), x2=across(upper), y1=13, y2=13, class_="interval"))
    if estimate is not None:
        drawn.insert(0, svg.tag("rect", x=0, y=4, width=across(estimate), height=18, rx=3, class_="bar"))
    return svg.tag(
        "svg",
        *drawn,
        class_="row-bar",
        width="100%",
        height=26,
        aria_hidden="true",
        focusable="false",
    )
