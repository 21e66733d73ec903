"""Small accessible SVG for web pages: the page's style sheet gives it its colours, and it has no inline style.

A chart is as wide as its place. Horizontal positions are percentages and vertical positions are pixels, so text has the
same size on a phone and on a desktop. Lines and areas are in a stretched inner picture, where strokes do not scale.
Needs no extra: `Svg` has the method by which template engines know that a text is already escaped.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from html import escape

Ticks = Sequence[tuple[float, str]]
"""Labels of an axis, each with its place as a part of the axis from 0 to 1."""

_TOP, _FOOT = 22, 26
_numbers = itertools.count(1)


class Svg(str):
    """Text that is SVG already, so that it is not escaped again."""

    __slots__ = ()

    def __html__(self) -> str:
        """The markup, for template engines that escape text."""
        return self


def tag(name: str, *children: str, **attributes: str | float) -> Svg:
    """An element. `class_` and names with underscores are written as SVG spells them."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_text(value))}"' for key, value in attributes.items()
    )
    inner = "".join(child if isinstance(child, Svg) else escape(child) for child in children)
    return Svg(f"<{name}{written}>{inner}</{name}>")


def across(part: float) -> str:
    """A horizontal position as a percentage."""
    return f"{_text(100 * part)}%"


def down(part: float, height: float) -> float:
    """The vertical position in a chart of what lies at this part of its height, counted from below."""
    return _TOP + height * (1 - part)


def chart(
    *behind: Svg,
    up: Ticks,
    below: Ticks,
    height: float,
    title: str,
    description: str,
    front: Sequence[Svg] = (),
    gutter: bool = False,
    names: bool = False,
) -> Svg:
    """A whole chart, with the title and the description that a screen reader says.

    `behind` is drawn between the grid lines and their labels (`up`), `front` in front of both. `height` is from the
    lowest to the highest grid line, in pixels. `gutter` puts the labels to the left of the chart, for curves that may
    begin at any height. `names` keeps room to the right of the chart for the names of its lines.
    """
    lines, labels = [], []
    for part, label in up:
        y = down(part, height)
        lines.append(tag("line", x1=0, x2="100%", y1=y, y2=y, class_="grid" if part else "axis"))
        if label:
            place = {"x": -8, "y": y + 4, "text_anchor": "end"} if gutter else {"x": 0, "y": y - 5}
            labels.append(tag("text", label, class_="tick halo", **place))
    named = [
        tag("text", label, x=across(part), y=down(0, height) + 18, class_="tick", text_anchor=_kept_inside(part))
        for part, label in below
    ]
    number = next(_numbers)
    return tag(
        "svg",
        tag("title", title, id=f"chart-{number}-title"),
        tag("desc", description, id=f"chart-{number}-desc"),
        *lines,
        *behind,
        *labels,
        *front,
        *named,
        class_=f"chart{' guttered' if gutter else ''}{' named' if names else ''}",
        width="100%",
        height=_TOP + height + _FOOT,
        role="img",
        aria_labelledby=f"chart-{number}-title chart-{number}-desc",
    )


def upright(part: float, height: float) -> Svg:
    """A dashed vertical line through a chart."""
    return tag("line", x1=across(part), x2=across(part), y1=_TOP, y2=down(0, height), class_="mark")


def label(text: str, part: float, y: float, *, left: bool, gap: int) -> Svg:
    """Text beside a point of a chart: to its left or to its right."""
    anchor = "end" if left else "start"
    return tag("text", text, x=across(part), y=y, dx=-gap if left else gap, class_="label halo", text_anchor=anchor)


def curve(points: Sequence[tuple[float, float]], height: float, *, steps: bool = False) -> Svg:
    """A line through points (part across, part up) and the area under it."""
    under = [(points[0][0], 0.0), *points, (points[-1][0], 0.0)]
    return stretched(path(under, "area", closed=True, steps=steps), path(points, "line", steps=steps), height=height)


def stretched(*content: Svg, height: float, top: float = _TOP) -> Svg:
    """Lines and areas whose points are parts of the width and the height, from 0 to 1000."""
    return tag("svg", *content, y=top, width="100%", height=height, viewBox="0 0 1000 1000", preserveAspectRatio="none")


def path(points: Iterable[tuple[float, float]], class_: str, *, closed: bool = False, steps: bool = False) -> Svg:
    """A line through points (part across, part up); with `steps` each height is held until the next point."""
    drawn: list[tuple[float, float]] = []
    for x, y in points:
        if steps and drawn:
            drawn.append((x, drawn[-1][1]))
        drawn.append((x, y))
    if not drawn:
        return Svg()
    line = "L".join(f"{_text(1000 * x)} {_text(1000 * (1 - y))}" for x, y in drawn)
    return tag("path", d=f"M{line}{'Z' if closed else ''}", class_=class_, vector_effect="non-scaling-stroke")


def _kept_inside(part: float) -> str:
    return "start" if part < 0.06 else "end" if part > 0.94 else "middle"


def _text(value: str | float) -> str:
    return (f"{value:.2f}".rstrip("0").rstrip(".") or "0") if isinstance(value, float) else str(value)
