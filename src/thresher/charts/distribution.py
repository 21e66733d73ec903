"""A cumulative distribution with its band, and marked quantiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from thresher.charts.rendering import BLACK, BLUE, DEVICES, GREY, ORANGE, UNITS, altair, standing_for, styled


def distribution(
    values: Sequence[float],
    ranks: Sequence[float],
    lower: Sequence[float],
    upper: Sequence[float],
    *,
    title: str,
    subtitle: str,
    note: str,
    marks: Sequence[tuple[str, float, float, float, float]] = (),
    truth: Sequence[float] | None = None,
    whom: str | None = None,
) -> Any:
    """Ranks over values, with a band from `lower` to `upper`.

    Each mark is (name, value, rank, left end, right end): a point with its interval. `truth` holds the true ranks at
    the same values, for comparison.
    `whom` says for whom the numbers stand, where that is not everybody.
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
        scale=alt.Scale(nice=False, zero=False),
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
        {"value": value, "rank": rank, "left": left, "right": right, "label": f"{name}: {value:,.5g}"}
        for name, value, rank, left, right in marks
        if not math.isnan(value)
    ]
    if points:
        marked = alt.Chart(alt.Data(values=points)).encode(y=up)
        names = {"align": "left", "baseline": "middle", "dx": 9, "dy": 11, "fontSize": 12}
        at = marked.encode(x=across)
        layers += [
            marked.mark_rule(color=ORANGE, strokeWidth=4, opacity=0.9).encode(x="left:Q", x2="right:Q"),
            at.mark_point(color=BLACK, filled=True, size=55, opacity=1),
            at.mark_text(**names, stroke="white", strokeWidth=4, strokeJoin="round").encode(text="label:N"),
            at.mark_text(**names, color=BLACK).encode(text="label:N"),
        ]
    if not any(row["rank"] is not None for row in rows):
        nothing = alt.Chart(alt.Data(values=[{"text": "nothing reached the threshold"}]))
        layers.append(nothing.mark_text(fontSize=14, color=GREY).encode(text="text:N"))
    chart = alt.layer(*layers).properties(width=620, height=340)
    return styled(chart, title, [subtitle, note, *standing_for(whom)])
