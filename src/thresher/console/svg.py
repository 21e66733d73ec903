"""Small accessible SVG, themed by the page's style and without a single inline style.

A chart is as wide as its place. Positions across are percentages, positions down are pixels, so text keeps its size
from phone to desktop; only lines and areas live in a stretched inner picture, where strokes do not scale.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape

Attribute = str | float | int | None
_numbers = itertools.count(1)


def tag(name: str, *children: str | Markup, **attributes: Attribute) -> Markup:
    """An element. `class_` and names with underscores become what SVG calls them; None leaves an attribute out."""
    parts = [
        Markup(' {}="{}"').format(_attribute(key), _text(value))
        for key, value in attributes.items()
        if value is not None
    ]
    inner = Markup().join(escape(child) for child in children)
    return Markup("<{0}{1}>{2}</{0}>").format(name, Markup().join(parts), inner)


def across(part: float) -> str:
    """A horizontal position as a percentage."""
    return f"{_text(100 * part)}%"


def picture(*content: Markup, height: float, title: str, description: str, class_: str = "") -> Markup:
    """A whole chart with what a screen reader says of it."""
    number = next(_numbers)
    return tag(
        "svg",
        tag("title", title, id=f"chart-{number}-title"),
        tag("desc", description, id=f"chart-{number}-desc"),
        *content,
        class_=f"chart {class_}".strip(),
        width="100%",
        height=height,
        role="img",
        aria_labelledby=f"chart-{number}-title chart-{number}-desc",
    )


def stretched(*content: Markup, top: float, height: float) -> Markup:
    """Lines and areas whose points are parts of the width and the height, from 0 to 1000."""
    return tag("svg", *content, y=top, width="100%", height=height, viewBox="0 0 1000 1000", preserveAspectRatio="none")


def path(points: Iterable[tuple[float, float]], class_: str, *, closed: bool = False, steps: bool = False) -> Markup:
    """A line through points (part across, part up); `steps` holds each height until the next point."""
    drawn, last = [], None
    for x, y in points:
        if steps and last is not None:
            drawn.append((x, last))
        drawn.append((x, y))
        last = y
    if not drawn:
        return Markup("")
    line = "L".join(f"{_text(1000 * x)} {_text(1000 * (1 - y))}" for x, y in drawn)
    return tag("path", d=f"M{line}{'Z' if closed else ''}", class_=class_, vector_effect="non-scaling-stroke")


def nice_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers between two ends."""
    if not (high > low and math.isfinite(high - low)):
        return [low]
    rough = (high - low) / max(1, most)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def round_up(most: float) -> float:
    """The next number at or above this one that is easy to read and to halve."""
    if not most > 2:
        return 2.0
    power = 10.0 ** math.floor(math.log10(most))
    return next(power * factor for factor in (1, 2, 3, 4, 5, 6, 8, 10) if power * factor >= most)


def decades(low: float, high: float) -> list[float]:
    """Powers of ten between two ends."""
    return [10.0**power for power in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]


def grid(
    ticks: Sequence[tuple[float, str]], *content: Markup, top: float, height: float, beside: bool = False
) -> Markup:
    """What is drawn, between horizontal lines behind it and their labels in front, at parts of the height.

    `beside` puts the labels to the left of the chart, for what may begin anywhere; its class is then `guttered`.
    """
    lines, labels = [], []
    for part, label in ticks:
        y = top + height * (1 - part)
        lines.append(tag("line", x1=0, x2="100%", y1=y, y2=y, class_="grid" if part else "axis"))
        if label:
            place = {"x": -8, "y": y + 4, "text_anchor": "end"} if beside else {"x": 0, "y": y - 5}
            labels.append(tag("text", label, class_="tick halo", **place))
    return Markup().join([*lines, *content, *labels])


def below(ticks: Sequence[tuple[float, str]], *, y: float) -> Markup:
    """Labels under the chart, kept inside at both ends."""
    return Markup().join(
        tag(
            "text",
            label,
            x=across(part),
            y=y,
            class_="tick",
            text_anchor="start" if part < 0.06 else "end" if part > 0.94 else "middle",
        )
        for part, label in ticks
    )


def _attribute(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def _text(value: Attribute) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".") or "0"
    return str(value)
