"""A cumulative distribution with its band and marked quantiles: for files and notebooks, and for web pages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from thresher.charts import svg
from thresher.charts.numbers import amount, percent, short
from thresher.charts.rendering import (
    BLACK,
    BLUE,
    DEVICES,
    NOTHING,
    ORANGE,
    UNITS,
    altair,
    note_alone,
    standing_for,
    styled,
)
from thresher.charts.svg import Svg
from thresher.charts.ticks import nice_ticks

Mark = tuple[str, float, float, float, float]
"""A quantile with its interval: name, value, rank, left end, right end. A value that is not known is NaN."""

_PAGE_HEIGHT, _SMALL_HEIGHT = 280.0, 110.0
_LABELS_LEFT = 0.8
"""Points beyond this part of the width have their label to their left."""


def distribution(
    values: Sequence[float],
    ranks: Sequence[float],
    lower: Sequence[float],
    upper: Sequence[float],
    *,
    title: str,
    subtitle: str,
    note: str,
    marks: Sequence[Mark] = (),
    truth: Sequence[float] | None = None,
    whom: str | None = None,
) -> Any:
    """Ranks over values, with a band from `lower` to `upper`.

    `truth` holds the true ranks at the same values, for comparison. `whom` says for whom the numbers stand, where that
    is not everybody.
    Edge cases: values without a known rank (NaN) are left out of the line; the band stays.
    """
    alt = altair()
    below = f"part of all {UNITS} below" if whom is None else f"part of the {DEVICES}, below"
    rows = [
        {"value": value, "rank": None if math.isnan(rank) else rank, "lower": low, "upper": high}
        for value, rank, low, high in zip(values, ranks, lower, upper, strict=True)
    ]
    across = alt.X(
        "value:Q",
        title="value",
        scale=alt.Scale(domain=[values[0], values[-1]], nice=False, zero=False, clamp=True),
        axis=alt.Axis(tickCount=8, labelFlush=False),
    )
    up = alt.Y("rank:Q", title=below, scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%"))
    base = alt.Chart(alt.Data(values=rows)).encode(x=across)
    layers = [
        base.mark_area(color=BLUE, opacity=0.22).encode(
            y=alt.Y("lower:Q", scale=alt.Scale(domain=[0, 1]), title=below), y2="upper:Q"
        ),
        base.mark_line(color=BLUE, strokeWidth=2).encode(y=up),
    ]
    if truth is not None:
        true_rows = [{"value": value, "rank": rank} for value, rank in zip(values, truth, strict=True)]
        line = alt.Chart(alt.Data(values=true_rows)).mark_line(color=BLACK, strokeDash=[4, 3], strokeWidth=1.2)
        layers.append(line.encode(x=across, y=up))
        note += " Dashed: the truth."
    points = [
        (value, {"value": value, "rank": rank, "left": left, "right": right, "label": f"{name}: {value:,.5g}"})
        for name, value, rank, left, right in marks
        if not math.isnan(value)
    ]
    if points:
        marked = alt.Chart(alt.Data(values=[point for _, point in points])).encode(y=up)
        layers += [
            marked.mark_rule(color=ORANGE, strokeWidth=4, opacity=0.9).encode(x="left:Q", x2="right:Q"),
            marked.encode(x=across).mark_point(color=BLACK, filled=True, size=55, opacity=1),
        ]
        edge = values[0] + _LABELS_LEFT * (values[-1] - values[0])
        for align, dx, beside in (
            ("left", 9, [point for value, point in points if value <= edge]),
            ("right", -9, [point for value, point in points if value > edge]),
        ):
            names = {"align": align, "baseline": "middle", "dx": dx, "dy": 11, "fontSize": 12}
            at = alt.Chart(alt.Data(values=beside)).encode(x=across, y=up, text="label:N")
            layers += [
                at.mark_text(**names, stroke="white", strokeWidth=4, strokeJoin="round"),
                at.mark_text(**names, color=BLACK),
            ]
    if not any(row["rank"] is not None for row in rows):
        layers.append(note_alone(NOTHING))
    chart = alt.layer(*layers).properties(width=620, height=340)
    return styled(chart, title, [subtitle, note, *standing_for(whom)])


def distribution_svg(
    values: Sequence[float],
    ranks: Sequence[float],
    lower: Sequence[float],
    upper: Sequence[float],
    *,
    title: str,
    marks: Sequence[Mark] = (),
    chosen: tuple[float, float] | None = None,
    small: bool = False,
) -> Svg:
    """The same picture for a web page, about devices that checked in. `chosen` is a range of values to shade.

    `small` is for one of many pictures side by side: it is low, and has fewer ticks and no heading.
    """
    height, low, high = (_SMALL_HEIGHT if small else _PAGE_HEIGHT), values[0], values[-1]

    def place(value: float) -> float:
        return min(max((value - low) / (high - low), 0.0), 1.0)

    xs = [place(value) for value in values]
    known = [(x, rank) for x, rank in zip(xs, ranks, strict=True) if not math.isnan(rank)]
    band = [*zip(xs, upper, strict=True), *reversed(list(zip(xs, lower, strict=True)))]
    behind = [svg.stretched(svg.path(band, "band", closed=True), svg.path(known, "line"), height=height)]
    if chosen is not None:
        left, width = place(chosen[0]), place(chosen[1]) - place(chosen[0])
        x, y = svg.across(left), svg.down(1, height)
        behind.insert(0, svg.tag("rect", x=x, width=svg.across(width), y=y, height=height, class_="chosen"))
    heading = svg.tag("text", f"of the {DEVICES} are below", x=0, y=svg.down(1, height) - 8, class_="tick")
    front = [] if small else [heading]
    for name, value, rank, start, stop in marks:
        y = svg.down(rank, height)
        front.append(
            svg.tag("line", x1=svg.across(place(start)), x2=svg.across(place(stop)), y1=y, y2=y, class_="interval")
        )
        if not math.isnan(value):
            at, beside = place(value), y + (18 if rank > 0.12 else -10)
            front.append(svg.tag("circle", cx=svg.across(at), cy=y, r=4.5, class_="point"))
            front.append(svg.label(f"{name}: {amount(value)}", at, beside, left=at > 0.7, gap=9))
    if not known:
        middle = svg.down(0.5, height)
        front.append(svg.tag("text", NOTHING, x="50%", y=middle, class_="label halo", text_anchor="middle"))
    said = "; ".join(f"{name} are below {amount(value)}" for name, value, *_ in marks if not math.isnan(value))
    return svg.chart(
        *behind,
        front=front,
        up=[(part, percent(part)) for part in ((0.0, 0.5, 1.0) if small else (0.0, 0.25, 0.5, 0.75, 1.0))],
        below=[(place(tick), short(tick)) for tick in nice_ticks(low, high, 2 if small else 4)],
        height=height,
        title=title,
        description=(f"{said}. " if said else "") + "The band holds with 95 %, with all that the threshold may hide.",
        gutter=True,
    )
