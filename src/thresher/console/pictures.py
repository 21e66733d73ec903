"""The console's charts, from plain numbers: what will be seen, what was spent, who checked in, how numbers spread."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from thresher.console import svg
from thresher.console.rendering import amount, count, percent
from thresher.privacy.binomial import reach

_TOP = 22
_FOOT = 26
_SYMBOLS = {"epsilon": "ε", "delta": "δ"}


def seen(rate: float, threshold: int, smallest_visible: int) -> Markup:
    """Probability that a bucket is released, over how many devices hold it; marks the size seen with 95 %."""
    height = 190.0
    low, high = math.log10(max(threshold / 2, 1)), math.log10(smallest_visible * 12)

    def place(size: float) -> float:
        return (math.log10(size) - low) / (high - low)

    sizes = np.unique(np.round(np.logspace(low, high, 120)))
    curve = [
        (place(size), part) for size, part in zip(sizes.tolist(), reach(sizes, threshold, rate).tolist(), strict=True)
    ]
    ticks = [(place(size), _short(size)) for size in svg.decades(10**low, 10**high)]
    mark = min(max(place(smallest_visible), 0.0), 1.0)
    y = _TOP + height * 0.05
    right = mark < 0.6
    return svg.picture(
        svg.grid(
            [(0.0, ""), (0.5, "50 %"), (1.0, "100 % seen")],
            svg.stretched(
                svg.path([(curve[0][0], 0.0), *curve, (curve[-1][0], 0.0)], "area", closed=True),
                svg.path(curve, "line"),
                top=_TOP,
                height=height,
            ),
            top=_TOP,
            height=height,
        ),
        svg.tag("line", x1=svg.across(mark), x2=svg.across(mark), y1=_TOP, y2=_TOP + height, class_="mark"),
        svg.tag("circle", cx=svg.across(mark), cy=y, r=4.5, class_="point"),
        svg.tag(
            "text",
            f"{count(smallest_visible)} devices: 95 %",
            x=svg.across(mark),
            y=_TOP + height * 0.62,
            dx=8 if right else -8,
            class_="label halo",
            text_anchor="start" if right else "end",
        ),
        svg.below(ticks, y=_TOP + height + 18),
        height=_TOP + height + _FOOT,
        title="What will be seen",
        description=(
            "Probability that a bucket is released, by how many devices hold it. "
            f"Buckets of {count(smallest_visible)} devices or more are seen with at least 95 % probability."
        ),
    )


def spending(
    charges: Sequence[tuple[float, float]], budget: float, now: float, *, name: str, height: float = 150.0
) -> Markup:
    """What was spent of a budget over time: charges are (time, amount), oldest first."""
    first = min([time for time, _ in charges], default=now - 86_400)
    end = max(now, first + 60)
    start = first - (end - first) / 12
    total, line = 0.0, [(0.0, 0.0)]
    for time, cost in charges:
        total += cost
        line.append(((time - start) / (end - start), min(total / budget, 1.0)))
    line.append((1.0, line[-1][1]))
    ends = [(0.0, _moment(start, end - start)), (1.0, "now")]
    area = _stepped(line)
    return svg.picture(
        svg.grid(
            [(0.0, ""), (0.5, amount(budget / 2)), (1.0, f"{_SYMBOLS[name]} {amount(budget)} in all")],
            svg.stretched(
                svg.path([(0.0, 0.0), *area, (1.0, 0.0)], "area", closed=True),
                svg.path(area, "line"),
                top=_TOP,
                height=height,
            ),
            svg.tag("line", x1=0, x2="100%", y1=_TOP, y2=_TOP, class_="mark"),
            top=_TOP,
            height=height,
        ),
        svg.below(ends, y=_TOP + height + 18),
        height=_TOP + height + _FOOT,
        title=f"Budget spent over time ({name})",
        description=f"{amount(total)} of {amount(budget)} spent in {len(charges)} charges; "
        f"{amount(max(budget - total, 0.0))} left.",
    )


def check_ins(hours: Sequence[tuple[float, int]], *, height: float = 150.0) -> Markup:
    """Devices that checked in, hour by hour."""
    most = max([number for _, number in hours], default=0)
    top = svg.round_up(most)
    left = 0.1  # kept free for the labels of the lines
    width = (1 - left) / max(len(hours), 1)
    bars = [
        svg.tag(
            "rect",
            svg.tag("title", f"{_moment(time, 3600)} UTC: {count(number)} devices"),
            x=svg.across(left + (index + 0.14) * width),
            width=svg.across(0.72 * width),
            y=_TOP + height * (1 - number / top),
            height=height * number / top,
            rx=2,
            class_="bar",
        )
        for index, (time, number) in enumerate(hours)
    ]
    ticks = [(part, count(part * top)) for part in (0.5, 1.0)] if top > 1 else [(1.0, "1")]
    places = [index for index in range(len(hours)) if index % max(1, len(hours) // 4) == 0]
    return svg.picture(
        svg.grid([(0.0, ""), *ticks], *bars, top=_TOP, height=height),
        svg.below(
            [(left + (index + 0.5) * width, _moment(hours[index][0], 3600)) for index in places], y=_TOP + height + 18
        ),
        height=_TOP + height + _FOOT,
        title="Check-ins by hour",
        description=f"Devices that checked in, in each of the last {len(hours)} hours; at most {count(most)} in one.",
    )


def distribution(
    values: Sequence[float],
    ranks: Sequence[float],
    lower: Sequence[float],
    upper: Sequence[float],
    *,
    title: str,
    marks: Sequence[tuple[float, float, float, float]] = (),
    chosen: tuple[float, float] | None = None,
) -> Markup:
    """Which part of the devices that checked in is below each value, with its band. Marks are (rank, value, from, to).

    `chosen` shades a range. Values without a known rank are left out of the line; the band stays.
    """
    height = 280.0
    low, high = values[0], values[-1]

    def place(value: float) -> float:
        return min(max((value - low) / (high - low), 0.0), 1.0)

    xs = [place(value) for value in values]
    known = [(x, rank) for x, rank in zip(xs, ranks, strict=True) if not math.isnan(rank)]
    band = [*zip(xs, upper, strict=True), *reversed(list(zip(xs, lower, strict=True)))]
    content = []
    if chosen is not None:
        left, right = place(chosen[0]), place(chosen[1])
        content.append(
            svg.tag("rect", x=svg.across(left), width=svg.across(right - left), y=_TOP, height=height, class_="chosen")
        )
    content.append(svg.stretched(svg.path(band, "band", closed=True), svg.path(known, "line"), top=_TOP, height=height))
    ticks = [(part, percent(part)) for part in (0.0, 0.25, 0.5, 0.75, 1.0)]
    content = [
        svg.grid(ticks, *content, top=_TOP, height=height, beside=True),
        svg.tag("text", "of the devices that checked in are below", x=0, y=_TOP - 8, class_="tick"),
    ]
    for rank, value, start, stop in marks:
        y = _TOP + height * (1 - rank)
        x1, x2 = svg.across(place(start)), svg.across(place(stop))
        content.append(svg.tag("line", x1=x1, x2=x2, y1=y, y2=y, class_="interval"))
        if not math.isnan(value):
            content.append(svg.tag("circle", cx=svg.across(place(value)), cy=y, r=4.5, class_="point"))
            left_side = place(value) > 0.7
            content.append(
                svg.tag(
                    "text",
                    f"{percent(rank)}: {amount(value)}",
                    x=svg.across(place(value)),
                    y=y + (18 if rank > 0.12 else -10),
                    dx=-9 if left_side else 9,
                    class_="label halo",
                    text_anchor="end" if left_side else "start",
                )
            )
    if not known:
        content.append(
            svg.tag(
                "text",
                "nothing reached the threshold",
                x="50%",
                y=_TOP + height / 2,
                class_="label halo",
                text_anchor="middle",
            )
        )
    content.append(
        svg.below([(place(tick), _short(tick)) for tick in svg.nice_ticks(low, high, 4)], y=_TOP + height + 18)
    )
    said = "; ".join(
        f"{percent(rank)} are below {amount(value)}" for rank, value, _, _ in marks if not math.isnan(value)
    )
    return svg.picture(
        *content,
        height=_TOP + height + _FOOT,
        title=title,
        class_="guttered",
        description=(f"{said}. " if said else "") + "The band holds with 95 %, with all that the threshold may hide.",
    )


def bar(estimate: float, lower: float, upper: float, threshold: float, most: float) -> Markup:
    """One bucket as a bar with its interval and the threshold, to a scale that a list of them shares."""
    middle, height = 13, 26
    return svg.tag(
        "svg",
        svg.tag("rect", x=0, y=4, width=svg.across(min(estimate / most, 1.0)), height=18, rx=3, class_="bar"),
        svg.tag(
            "line",
            x1=svg.across(lower / most),
            x2=svg.across(min(upper / most, 1.0)),
            y1=middle,
            y2=middle,
            class_="interval",
        ),
        svg.tag(
            "line", x1=svg.across(threshold / most), x2=svg.across(threshold / most), y1=0, y2=height, class_="mark"
        ),
        class_="row-bar",
        width="100%",
        height=height,
        aria_hidden="true",
        focusable="false",
    )


def meter(part: float, label: str, *, more: float = 0.0) -> Markup:
    """How full something is, as a bar; `more` is what would be added."""
    shown = min(max(part, 0.0), 1.0)
    extra = min(max(more, 0.0), 1.0 - shown)
    return svg.tag(
        "svg",
        svg.tag("rect", x=0, y=0, width="100%", height=8, rx=4, class_="track"),
        svg.tag("rect", x=0, y=0, width=svg.across(shown + extra), height=8, rx=4, class_="fill-more")
        if extra
        else Markup(""),
        svg.tag("rect", x=0, y=0, width=svg.across(shown), height=8, rx=4, class_="fill") if shown else Markup(""),
        class_="meter",
        width="100%",
        height=8,
        role="img",
        aria_label=label,
    )


def _stepped(line: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    corners = [line[0]]
    for x, y in line[1:]:
        corners += [(x, corners[-1][1]), (x, y)]
    return corners


def _short(value: float) -> str:
    for size, unit in ((1e9, "bn"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else size):.3g}{unit}"
    return f"{value:,.6g}"


def _moment(time: float, span: float) -> str:
    moment = dt.datetime.fromtimestamp(time, dt.UTC)
    return moment.strftime("%H:%M" if span < 43_200 else "%-d %b, %H:%M" if span < 2 * 86_400 else "%-d %b")
