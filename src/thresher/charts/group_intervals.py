"""Measured numbers of several groups with their intervals, one row a group: for files and notebooks, and web pages."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from thresher.charts import svg
from thresher.charts.numbers import amount, short, shortened, told_apart
from thresher.charts.rendering import BLACK, GREY, LINES, NOTHING, altair, note_alone, standing_for, styled
from thresher.charts.svg import Svg
from thresher.charts.ticks import nice_ticks
from thresher.charts.trend_layout import Number

BELOW = "below threshold"
CUT = "An arrow: the interval goes on beyond the picture."

_LONGEST_LABEL = 32
_MARK, _GAP = 11, 11
"""Pixels of one number of a group, and between two groups."""
_PAGE_MARK = 12
_FAR = 4
"""An interval is cut if it is so many times as long as the longest of the shorter three quarters."""


class GroupRow(NamedTuple):
    """One group: its name, and its numbers in the order of their names; None where nothing of it was released."""

    name: str
    numbers: Sequence[Number] | None


class PageRows(NamedTuple):
    """The picture for a web page: rows that share one scale, and the scale's axis, to be put below them.

    A row is the group's name, its drawing, and its numbers as text. The axis is None where no number is known. `cut`
    says whether an interval goes on beyond the picture, where it has an arrow.
    """

    rows: list[tuple[str, Svg, str]]
    axis: Svg | None
    cut: bool


class _Axis(NamedTuple):
    """What the axis shows, and its ticks."""

    low: float
    high: float
    ticks: list[float]

    def place(self, value: float) -> float:
        """Where a value lies, from 0 to 1; what lies beyond the axis is at its end."""
        return min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)


def group_intervals(
    names: Sequence[str],
    groups: Sequence[GroupRow],
    *,
    title: str,
    subtitle: str,
    measured: str,
    hidden: int = 0,
    whom: str | None = None,
) -> Any:
    """Groups from top to bottom, and for each of the named numbers a point with its 95 % interval.

    Args:
        names: what the numbers are, such as "50 %" and "95 %"; each has a colour.
        groups: the groups, with a number for each name.
        title: the picture's title.
        subtitle: a line below it.
        measured: what the numbers measure.
        hidden: how many groups there are besides, which are not drawn.
        whom: for whom the numbers stand, where that is not everybody.

    Edge cases: an interval that is far longer than most others is cut, with an arrow at its end. Without any
    number the picture says that nothing reached the threshold.
    """
    alt = altair()
    axis = _axis(groups)
    said = [subtitle, f"Bars: 95 % intervals.{f' {hidden:,} more groups are not drawn.' if hidden else ''}"]
    if axis is None:
        return styled(note_alone(NOTHING).properties(width=560, height=120), title, [*said, *standing_for(whom)])
    rows = _rows(names, groups, axis)
    if any(row["cut"] for row in rows):
        said[1] += f" {CUT}"
    shown = told_apart([group.name for group in groups], _LONGEST_LABEL)
    labels = {str(place): label for place, label in enumerate(shown)}
    down = alt.Y(
        "group:O",
        sort=None,
        scale=alt.Scale(domain=list(range(len(groups))), paddingInner=0, paddingOuter=0),
        axis=alt.Axis(
            title=None, labelExpr=f"{json.dumps(labels)}[datum.value]", labelLimit=260, ticks=False, grid=False,
            labelOverlap=False, labelPadding=8, domain=False,
        ),
    )  # fmt: skip
    scale = alt.Scale(domain=[axis.low, axis.high], nice=False, zero=False)

    heading = f"{measured}{f': {names[0]}' if len(names) == 1 else ''} (estimate and 95 % interval)"

    def across(field: str) -> Any:
        return alt.X(f"{field}:Q", title=heading, scale=scale, axis=alt.Axis(values=axis.ticks, labelFlush=False))

    listed = [shortened(name, _LONGEST_LABEL) for name in names]
    legend = alt.Legend(orient="top", title=None, symbolType="circle", symbolSize=90, symbolOpacity=1)
    colours = [LINES[place % len(LINES)] for place in range(len(names))]
    colour = alt.Color(
        "name:N", scale=alt.Scale(domain=listed, range=colours), legend=legend if len(names) > 1 else None, sort=None
    )
    within = alt.YOffset("name:N", sort=None, scale=alt.Scale(domain=listed, paddingOuter=0.6))
    base = alt.Chart(alt.Data(values=rows)).encode(y=down, yOffset=within, color=colour)
    tips = [alt.Tooltip(f"{field}:Q", format=",.6~g") for field in ("estimate", "lower", "upper")]
    stripes = alt.Chart(alt.Data(values=[{"group": place} for place in range(0, len(groups), 2)]))
    layers = [
        stripes.mark_rect(color=GREY, opacity=0.09).encode(y=down),
        base.mark_rule(strokeWidth=3.5, opacity=0.45).encode(x=across("left"), x2="right:Q"),
        *(
            base.transform_filter(f"datum.{end}_cut")
            .mark_point(filled=True, shape=f"triangle-{end}", size=70, opacity=0.8)
            .encode(x=across(end))
            for end in ("left", "right")
        ),
        base.transform_filter("isValid(datum.estimate)")
        .mark_point(filled=True, size=55, opacity=1, stroke="white", strokeWidth=0.8)
        .encode(x=across("estimate"), tooltip=[alt.Tooltip("full:N", title="group"), alt.Tooltip("name:N"), *tips]),
    ]
    if missing := [{"group": place} for place, group in enumerate(groups) if group.numbers is None]:
        note = alt.Chart(alt.Data(values=missing)).mark_text(text=BELOW, color=GREY, align="left", fontSize=11)
        layers.append(note.encode(y=down, x=alt.value(6)))
    tall = (_MARK * len(names) + _GAP) * len(groups)
    chart = alt.layer(*layers).properties(width=560, height=max(60, tall))
    return styled(chart, title, [*said, *standing_for(whom)]).configure_axisY(labelColor=BLACK)


def _rows(names: Sequence[str], groups: Sequence[GroupRow], axis: _Axis) -> list[dict[str, Any]]:
    """What is drawn: each known number, with its interval cut to the axis."""
    rows = []
    for place, group in enumerate(groups):
        for name, (estimate, lower, upper) in zip(names, group.numbers or (), strict=False):
            low, high = (estimate if lower is None else lower), (estimate if upper is None else upper)
            left, right = low < axis.low, high > axis.high
            rows.append(
                {
                    "group": place,
                    "full": group.name,
                    "name": shortened(name, _LONGEST_LABEL),
                    "estimate": None if math.isnan(estimate) else estimate,
                    "lower": lower,
                    "upper": upper,
                    "left": max(low, axis.low),
                    "right": min(high, axis.high),
                    "left_cut": left,
                    "right_cut": right,
                    "cut": left or right,
                }
            )
    return rows


def _axis(groups: Sequence[GroupRow]) -> _Axis | None:
    """From the lowest to the highest end of an interval; a few that are far longer than the others are cut.

    At most a quarter is cut: three quarters of all intervals have at most the length of which `_FAR` times is far.
    """
    numbers = [number for group in groups for number in group.numbers or () if not math.isnan(number[0])]
    if not numbers:
        return None
    reaches = [[number[0], *(end for end in number[1:] if end is not None)] for number in numbers]
    lengths = sorted(max(reach) - min(reach) for reach in reaches)
    longest = _FAR * lengths[math.ceil(0.75 * len(lengths)) - 1] or math.inf
    shown = [end for reach in reaches for end in (reach if max(reach) - min(reach) <= longest else reach[:1])]
    least, most = min(shown), max(shown)
    margin = (most - least) / 40 or max(abs(most), 1.0) / 40
    first, last = least - margin, most + margin
    return _Axis(first, last, nice_ticks(first, last, 7))


def group_rows_svg(names: Sequence[str], groups: Sequence[GroupRow]) -> PageRows:
    """The same picture for a web page."""
    axis = _axis(groups)
    if axis is None:
        return PageRows([(group.name, Svg(), BELOW) for group in groups], None, cut=False)
    rows = []
    for group in groups:
        height = _PAGE_MARK * len(names) + 6
        drawn = [
            svg.tag("line", x1=svg.across(axis.place(tick)), x2=svg.across(axis.place(tick)), y1=0, y2=height,
                    class_="grid") for tick in axis.ticks
        ]  # fmt: skip
        for place, (estimate, lower, upper) in enumerate(group.numbers or ()):
            drawn.append(_page_number(axis, place, estimate, lower, upper))
        said = BELOW if group.numbers is None else " / ".join(amount(number[0]) for number in group.numbers)
        picture = svg.tag(
            "svg", *drawn, class_="row-bar", width="100%", height=height, aria_hidden="true", focusable="false"
        )
        rows.append((group.name, picture, said))
    ticks = [
        svg.tag("text", short(tick), x=svg.across(axis.place(tick)), y=12, class_="tick", text_anchor="middle")
        for tick in axis.ticks
    ]
    foot = svg.tag("svg", *ticks, class_="row-bar", width="100%", height=18, aria_hidden="true", focusable="false")
    return PageRows(rows, foot, cut=any(row["cut"] for row in _rows(names, groups, axis)))


def _page_number(axis: _Axis, place: int, estimate: float, lower: float | None, upper: float | None) -> Svg:
    """A point with its interval, in the colour of its name; an arrow where the interval is cut."""
    y = 3 + _PAGE_MARK * (place + 0.5)
    low, high = (estimate if end is None else end for end in (lower, upper))
    parts = [
        svg.tag(
            "line", x1=svg.across(axis.place(low)), x2=svg.across(axis.place(high)), y1=y, y2=y, class_="reach"
        )
    ]  # fmt: skip
    for end, beyond, sign, anchor in ((0.0, low < axis.low, "◂", "start"), (1.0, high > axis.high, "▸", "end")):
        if beyond:
            parts.append(svg.tag("text", sign, x=svg.across(end), y=y + 4, class_="sample arrow", text_anchor=anchor))
    if not math.isnan(estimate):
        known = "" if lower is None or upper is None else f" ({amount(lower)} to {amount(upper)})"
        told = svg.tag("title", f"{amount(estimate)}{known}")
        parts.append(svg.tag("circle", told, cx=svg.across(axis.place(estimate)), cy=y, r=4.2, class_="sample"))
    return svg.tag("g", *parts, class_=f"trend-{place % len(LINES) + 1}")
