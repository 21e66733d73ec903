"""Pictures of grids of panels: one panel a case, one line with error bars a method, the same legend for all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from thresher.charts.rendering import BLACK, BLUE, GREEN, GREY, ORANGE, RED, altair, styled
from thresher.charts.ticks import decades

PURPLE, SKY = "#CC79A7", "#56B4E9"

_STYLES: tuple[tuple[str, list[int], str], ...] = (
    (BLUE, [1, 0], "circle"),
    (SKY, [5, 2], "square"),
    (ORANGE, [1, 0], "diamond"),
    (GREEN, [6, 2, 2, 2], "triangle-up"),
    (RED, [3, 2], "triangle-down"),
    (PURPLE, [8, 3], "cross"),
    (BLACK, [2, 2], "triangle-right"),
    (GREY, [1, 3], "triangle-left"),
)
"""Colour, dashes and shape: no two lines differ by colour alone."""


_EXTENT = 44
"""Room for the numbers of a vertical axis, so that the panels of all rows stand below one another."""


@dataclass(frozen=True, slots=True)
class Point:
    """A line's value at a place, with its standard error."""

    line: str
    x: float
    y: float
    error: float = 0.0


@dataclass(frozen=True, slots=True)
class Axes:
    """Titles and scales that the panels of a grid share; `places` are the ticks across, where given."""

    across: str
    up: str
    log_across: bool = False
    log_up: bool = False
    up_format: str = "~g"
    across_format: str = "~g"
    places: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Panel:
    """One picture of a grid. `limits` cuts the vertical axis; lines beyond it run out of the panel.

    `up` titles its vertical axis where that is not the grid's. `axes` are its own, in place of the grid's.
    """

    heading: str
    points: Sequence[Point]
    limits: tuple[float, float] | None = None
    up: str | None = None
    axes: Axes | None = None


def grid(
    panels: Sequence[Sequence[Panel]],
    lines: Mapping[str, int],
    axes: Axes,
    *,
    title: str,
    subtitle: str | list[str],
    size: tuple[int, int] = (250, 190),
) -> Any:
    """Rows of panels. `lines` names the lines in the legend's order, each with the number of its style.

    Guarantee: a number gives a line the same look in every figure.
    Edge cases: values that are not above 0 are left out of a logarithmic axis.
    """
    alt = altair()
    rows = [
        alt.hconcat(
            *(
                _panel(alt, panel, lines, panel.axes or axes, size, left=column == 0)
                for column, panel in enumerate(row)
            ),
            spacing=22,
        )
        for row in panels
    ]
    return styled(alt.vconcat(*rows, spacing=18), title, subtitle)


def _panel(alt: Any, panel: Panel, lines: Mapping[str, int], axes: Axes, size: tuple[int, int], *, left: bool) -> Any:
    names = list(lines)
    styles = [_STYLES[number % len(_STYLES)] for number in lines.values()]
    legend = alt.Legend(
        orient="top",
        direction="horizontal",
        columns=4,
        labelLimit=340,
        title=None,
        symbolSize=110,
        symbolOpacity=1,
        symbolStrokeWidth=0,
    )
    colour = alt.Color("line:N", scale=alt.Scale(domain=names, range=[style[0] for style in styles]), legend=legend)
    dash = alt.StrokeDash("dash:N", scale=alt.Scale(domain=names, range=[style[1] for style in styles]), legend=None)
    shape = alt.Shape("line:N", scale=alt.Scale(domain=names, range=[style[2] for style in styles]), legend=legend)
    across = alt.X(
        "x:Q",
        title=axes.across,
        scale=alt.Scale(type="log" if axes.log_across else "linear", nice=False, zero=False, padding=8),
        axis=alt.Axis(format=axes.across_format, **({"values": list(axes.places)} if axes.places else {})),
    )
    values = _values(panel, axes.log_up)
    kind: dict[str, Any] = {"type": "linear", "zero": panel.limits is None}
    ticks: dict[str, Any] = {"tickCount": 5}
    if axes.log_up and values:
        kind = {"type": "log", "nice": False, "domain": list(panel.limits or _around(values))}
        low, high = kind["domain"]
        factors = (1,) if high / low > 300 else (1, 3) if high / low > 30 else (1, 2, 5)  # more ticks on a short axis
        ticks = {"values": decades(low, high, factors)}
    elif panel.limits is not None:
        kind["domain"] = list(panel.limits)
    up = alt.Y(
        "y:Q",
        title=panel.up or (axes.up if left else None),
        scale=alt.Scale(**kind),
        axis=alt.Axis(format=axes.up_format, minExtent=_EXTENT, **ticks),
    )
    base = alt.Chart(alt.Data(values=values))
    layers = [
        base.mark_line(strokeWidth=1.8, clip=True).encode(across, up, color=colour, strokeDash=dash),
        base.mark_rule(strokeWidth=1.6, clip=True).encode(across, y=alt.Y("low:Q"), y2="high:Q", color=colour),
        base.mark_tick(orient="horizontal", thickness=1.6, size=8, clip=True).encode(across, y="low:Q", color=colour),
        base.mark_tick(orient="horizontal", thickness=1.6, size=8, clip=True).encode(across, y="high:Q", color=colour),
        base.mark_point(size=34, filled=True, opacity=1, clip=True).encode(across, up, color=colour, shape=shape),
    ]
    heading = {"text": panel.heading, "fontSize": 13, "anchor": "middle", "offset": 4}
    return alt.layer(*layers).properties(width=size[0], height=size[1], title=heading)


def _values(panel: Panel, logarithmic: bool) -> list[dict[str, Any]]:
    rows = []
    for point in panel.points:
        if not math.isfinite(point.y) or (logarithmic and not point.y > 0):
            continue
        low, high = point.y - point.error, point.y + point.error
        if logarithmic:
            low = max(low, point.y / 100)
        rows.append({"line": point.line, "dash": point.line, "x": point.x, "y": point.y, "low": low, "high": high})
    return rows


def _around(values: list[dict[str, Any]]) -> tuple[float, float]:
    """A logarithmic axis that holds all values and their bars."""
    return 0.8 * min(row["low"] for row in values), 1.25 * max(row["high"] for row in values)
