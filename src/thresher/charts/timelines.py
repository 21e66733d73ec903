"""What happened over time, for web pages: budget that was spent, devices that checked in."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from thresher.charts import svg
from thresher.charts.numbers import amount, count, percent
from thresher.charts.svg import Svg
from thresher.charts.ticks import round_up

_HEIGHT = 150.0
_SYMBOLS = {"epsilon": "ε", "delta": "δ"}
_LEFT = 0.1
"""The part of the width that is kept free of bars, for the labels of the grid lines."""


def spending(charges: Sequence[tuple[float, float]], budget: float, now: float, *, name: str) -> Svg:
    """How much of a budget was spent over time. Each charge is (time, amount); the oldest comes first."""
    total, levels = 0.0, []
    for time, cost in charges:
        total += cost
        levels.append((time, total / budget))
    return _levels(
        levels,
        now,
        up=[(0.0, ""), (0.5, amount(budget / 2)), (1.0, f"{_SYMBOLS[name]} {amount(budget)} in all")],
        title=f"Budget spent over time ({name})",
        description=f"{amount(total)} of {amount(budget)} spent in {len(charges)} charges; "
        f"{amount(max(budget - total, 0.0))} left.",
    )


def shares(levels: Sequence[tuple[float, float]], left: float, now: float) -> Svg:
    """Which part of a budget was taken over time. Each level is (time, part taken from then on); the oldest is first.

    A level may be lower than the one before it, where a budget renews. `left` is the part that is left now.
    """
    return _levels(
        [*levels, (now, 1 - left)] if levels else [],
        now,
        up=[(0.0, ""), (0.5, "50 %"), (1.0, "100 %, the whole budget")],
        title="Part of the budget taken over time",
        description=f"{percent(1 - left)} of the budget is taken, {percent(left)} is left.",
    )


def _levels(levels: Sequence[tuple[float, float]], now: float, *, up: svg.Ticks, title: str, description: str) -> Svg:
    """A line of steps from the first level until now, with a mark at the whole."""
    first = min([time for time, _ in levels], default=now - 86_400)
    end = max(now, first + 60)
    start = first - (end - first) / 12
    line = [(0.0, 0.0), *(((time - start) / (end - start), min(max(part, 0.0), 1.0)) for time, part in levels)]
    line.append((1.0, line[-1][1]))
    limit = svg.down(1, _HEIGHT)
    return svg.chart(
        svg.curve(line, _HEIGHT, steps=True),
        svg.tag("line", x1=0, x2="100%", y1=limit, y2=limit, class_="mark"),
        up=up,
        below=[(0.0, _moment(start, end - start)), (1.0, "now")],
        height=_HEIGHT,
        title=title,
        description=description,
    )


def check_ins(hours: Sequence[tuple[float, int]]) -> Svg:
    """How many devices checked in, for each hour (time, number)."""
    most = max([number for _, number in hours], default=0)
    top = round_up(most)
    width = (1 - _LEFT) / max(len(hours), 1)
    bars = [
        svg.tag(
            "rect",
            svg.tag("title", f"{_moment(time, 3600)} UTC: {count(number)} devices"),
            x=svg.across(_LEFT + (index + 0.14) * width),
            width=svg.across(0.72 * width),
            y=svg.down(number / top, _HEIGHT),
            height=_HEIGHT * number / top,
            rx=2,
            class_="bar",
        )
        for index, (time, number) in enumerate(hours)
    ]
    named = range(0, len(hours), max(1, len(hours) // 4))
    return svg.chart(
        *bars,
        up=[(0.0, ""), (0.5, count(top / 2)), (1.0, count(top))],
        below=[(_LEFT + (index + 0.5) * width, _moment(hours[index][0], 3600)) for index in named],
        height=_HEIGHT,
        title="Check-ins by hour",
        description=f"Devices that checked in, in each of the last {len(hours)} hours; at most {count(most)} in one.",
    )


def _moment(time: float, span: float) -> str:
    moment = dt.datetime.fromtimestamp(time, dt.UTC)
    return moment.strftime("%H:%M" if span < 43_200 else "%-d %b, %H:%M" if span < 2 * 86_400 else "%-d %b")
