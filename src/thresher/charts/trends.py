"""Numbers over time as lines with their bands: for files and notebooks, and for web pages.

A line has a gap wherever a number is missing. What stands alone between two gaps is drawn as a point with its interval.
Each line has its name at its end, so that no legend is needed.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Sequence
from typing import Any

from thresher.charts import svg
from thresher.charts.calendar import date_ticks, day, instant
from thresher.charts.numbers import amount, count, short, shortened, told_apart
from thresher.charts.rendering import (
    BLACK,
    DEVICES,
    GREY,
    LINES,
    UNITS,
    altair,
    note_alone,
    standing_for,
    styled,
)
from thresher.charts.svg import Svg
from thresher.charts.trend_layout import Run, Trend, heights_of, period_of, runs_of, spread

MOST_LINES = len(LINES)
NOTHING_YET = "nothing was released yet"
BANDS = "Bands: 95 % at each date."

PAGE_HEIGHT = 260.0
_WIDTH, _HEIGHT = 620, 340
_LABEL_GAP = 16
"""Pixels between the names of two lines."""
_LONGEST_NAME, _LONGEST_PAGE_NAME = 28, 15
_MOST_POINTS = 60
"""With more dates than that, lines are thinner, and only what stands alone has a point; fewer in a lower picture."""


def trends(
    dates: Sequence[dt.datetime],
    lines: Sequence[Trend],
    *,
    title: str,
    subtitle: str,
    missed: Sequence[dt.datetime] = (),
    measured: str | None = None,
    whom: str | None = None,
) -> Any:
    """Lines with 95 % bands over time.

    Args:
        dates: when the numbers were released, in order.
        lines: at most `MOST_LINES`.
        title: the picture's title.
        subtitle: a line below it.
        missed: dates without a release; they are marked below the axis.
        measured: what the numbers measure; None: they count people, and the axis begins at 0.
        whom: for whom the numbers stand, where that is not everybody.

    Edge cases: without any number the picture says that nothing was released yet.
    """
    alt = altair()
    shown = runs_of(dates, lines)
    cross = " (grey cross)" if missed else ""
    said = [subtitle, f"{BANDS} A gap: below the threshold, or a missed release{cross}.", *standing_for(whom)]
    if not shown:
        return styled(note_alone(NOTHING_YET).properties(width=_WIDTH, height=120), title, said)
    heights = heights_of(lines, from_zero=measured is None)
    low, high = heights[0], heights[-1]
    start, stop = period_of([*dates, *missed])
    ticks = date_ticks(start, stop, 7)
    names = [name for name, _ in shown]
    colour = alt.Color("line:N", legend=None, scale=alt.Scale(domain=names, range=list(LINES[: len(names)])))
    axis = alt.Axis(
        values=[_milliseconds(moment) for moment, _ in ticks],
        labelExpr=_choice(ticks),
        grid=False,
        labelFlush=False,
        title=None,
    )
    scale = alt.Scale(type="utc", domain=[_milliseconds(start), _milliseconds(stop)], nice=False)
    across = alt.X("date:T", axis=axis, scale=scale)
    counted = UNITS if whom is None else DEVICES
    heading = f"{counted if measured is None else measured} (estimate and 95 % interval)"
    limits = alt.Scale(domain=[low, high], nice=False, zero=False)

    def up(field: str = "estimate") -> Any:
        return alt.Y(f"{field}:Q", title=heading, scale=limits, axis=alt.Axis(values=heights))

    rows = [
        {
            "date": _milliseconds(moment),
            "when": day(moment),
            "line": name,
            "run": f"{name}/{index}",
            "alone": len(run) == 1,
        }
        | dict(zip(("estimate", "lower", "upper"), number, strict=True))
        for name, runs in shown
        for index, run in enumerate(runs)
        for moment, number in run
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(x=across, color=colour)
    banded = base.transform_filter("isValid(datum.lower)")
    tips = [alt.Tooltip(f"{field}:Q", format=",.6~g") for field in ("estimate", "lower", "upper")]
    many = len(dates) > _MOST_POINTS
    alone = base.transform_filter("datum.alone")
    points = (alone if many else base).mark_point(filled=True, size=12 if many else 38, opacity=1)
    layers = [
        banded.mark_area(opacity=0.16).encode(y=up("lower"), y2="upper:Q", detail="run:N"),
        banded.transform_filter("datum.alone")
        .mark_rule(strokeWidth=2 if many else 5, opacity=0.3)
        .encode(y=up("lower"), y2="upper:Q"),
        base.mark_line(strokeWidth=1.5 if many else 2.2).encode(y=up(), detail="run:N"),
        points.encode(y=up(), tooltip=[alt.Tooltip("line:N"), alt.Tooltip("when:N", title="date"), *tips]),
        *_names(shown, stop, low, high, scale, limits, colour),
    ]
    if missed:
        gaps = alt.Chart(alt.Data(values=[{"date": _milliseconds(moment)} for moment in missed]))
        layers.append(
            gaps.mark_text(text="×", fontSize=9 if many else 15, color=GREY, baseline="bottom", dy=2).encode(
                x=across, y=alt.value(_HEIGHT)
            )
        )
    return styled(alt.layer(*layers).properties(width=_WIDTH, height=_HEIGHT), title, said)


def _names(
    shown: list[tuple[str, list[Run]]],
    stop: dt.datetime,
    low: float,
    high: float,
    scale: Any,
    limits: Any,
    colour: Any,
) -> list[Any]:
    """Each line's name to the right of the picture, and a thin line that leads from its last point there."""
    alt = altair()
    last = [runs[-1][-1] for _, runs in shown]
    wanted = [_HEIGHT * (high - number[0]) / (high - low) for _, number in last]
    labels = told_apart([name for name, _ in shown], _LONGEST_NAME)
    rows = [
        {
            "line": name,
            "label": label,
            "date": _milliseconds(moment),
            "stop": _milliseconds(stop),
            "from": number[0],
            "to": high - (high - low) * place / _HEIGHT,
        }
        for (name, _), label, (moment, number), place in zip(
            shown, labels, last, spread(wanted, _LABEL_GAP, 0, _HEIGHT), strict=True
        )
    ]
    base = alt.Chart(alt.Data(values=rows))
    leaders = base.mark_rule(strokeDash=[1, 3], strokeWidth=1.2, opacity=0.8).encode(
        x=alt.X("date:T", scale=scale), x2="stop:T", y=alt.Y("from:Q", scale=limits), y2="to:Q", color=colour
    )
    at = base.encode(x=alt.X("stop:T", scale=scale), y=alt.Y("to:Q", scale=limits))
    text = at.mark_text(align="left", baseline="middle", dx=16, fontSize=12, color=BLACK).encode(text="label:N")
    dots = at.mark_point(filled=True, shape="square", size=70, opacity=1, xOffset=9).encode(color=colour)
    return [leaders, dots, text]


def trends_svg(
    dates: Sequence[dt.datetime],
    lines: Sequence[Trend],
    *,
    title: str,
    missed: Sequence[dt.datetime] = (),
    measured: str | None = None,
    height: float = PAGE_HEIGHT,
) -> Svg:
    """The same picture for a web page, about devices that checked in; `height` is in pixels."""
    write = count if measured is None else amount
    many = len(dates) > _MOST_POINTS * min(1, height / PAGE_HEIGHT)
    shown = runs_of(dates, lines)
    heights = heights_of(lines, from_zero=measured is None)
    low, high = heights[0], heights[-1]
    start, stop = period_of([*dates, *missed])

    def x(moment: dt.datetime) -> float:
        return (instant(moment) - instant(start)) / (instant(stop) - instant(start))

    def y(value: float) -> float:
        return (value - low) / (high - low)

    behind, front = [], []
    last = [runs[-1][-1] for _, runs in shown]
    wanted = [svg.down(y(number[0]), height) for _, number in last]
    places = spread(wanted, _LABEL_GAP, svg.down(1, height), svg.down(0, height) - 5)
    labels = told_apart([name for name, _ in shown], _LONGEST_PAGE_NAME)
    said = []
    for index, ((name, runs), (moment, number), place) in enumerate(zip(shown, last, places, strict=True), start=1):
        drawn, points = [], []
        for run in runs:
            drawn += _page_run(run, x, y)
            for when, (estimate, lower, upper) in run:
                if many and len(run) > 1:
                    continue
                known = "" if lower is None or upper is None else f" ({write(lower)} to {write(upper)})"
                told = svg.tag("title", f"{shortened(name, 60)}, {day(when)}: {write(estimate)}{known}")
                place_up = svg.down(y(estimate), height)
                points.append(
                    svg.tag(
                        "circle", told, cx=svg.across(x(when)), cy=place_up, r=1.8 if many else 3.2, class_="sample"
                    )
                )
        leader = svg.tag(
            "line",
            x1=svg.across(x(moment)),
            y1=svg.down(y(number[0]), height),
            x2="100%",
            y2=place,
            class_="leader",
        )
        label = svg.label(labels[index - 1], 1, place + 4, left=False, gap=18)
        key = svg.tag("rect", x="100%", y=place - 4.5, width=9, height=9, rx=2, class_="sample swatch")
        behind.append(
            svg.tag("g", svg.stretched(*drawn, height=height), class_=f"trend-{index}{' many' if many else ''}")
        )
        front.append(svg.tag("g", *points, leader, key, label, class_=f"trend-{index}"))
        said.append(f"{shortened(name, 60)}: {write(number[0])} on {day(moment)}")
    if shown:
        front.append(svg.tag("text", DEVICES if measured is None else measured, x=0, y=12, class_="tick"))
    else:
        middle = svg.down(0.5, height)
        front.append(svg.tag("text", NOTHING_YET, x="50%", y=middle, class_="label halo", text_anchor="middle"))
    foot = svg.down(0, height)
    front += [
        svg.tag(
            "text", svg.tag("title", f"missed: {day(when)}"), "×", x=svg.across(x(when)), y=foot - 2,
            text_anchor="middle", class_="missed small" if many else "missed",
        )
        for when in missed
    ]  # fmt: skip
    gaps = f" {len(missed)} releases were missed." if missed else ""
    return svg.chart(
        *behind,
        front=front,
        up=[(y(tick), short(tick)) for tick in heights] if shown else [(0.0, "")],
        below=[(x(moment), text) for moment, text in date_ticks(start, stop, 3)] if shown else [],
        height=height,
        title=title,
        description=("; ".join(said) + f". {BANDS}" if said else f"{NOTHING_YET}.") + gaps,
        gutter=True,
        names=bool(shown),
    )


def _page_run(run: Run, x: Callable[[dt.datetime], float], y: Callable[[float], float]) -> list[Svg]:
    """The band and the line of numbers without a gap; of one number alone, its interval."""
    banded = [
        (x(when), y(lower), y(upper)) for when, (_, lower, upper) in run if lower is not None and upper is not None
    ]
    if len(run) == 1:
        return [svg.path([(at, low), (at, high)], "alone") for at, low, high in banded]
    band = [*((at, high) for at, _, high in banded), *((at, low) for at, low, _ in reversed(banded))]
    line = svg.path([(x(when), y(estimate)) for when, (estimate, _, _) in run], "line")
    return [svg.path(band, "band", closed=True), line]


def _milliseconds(moment: dt.datetime) -> float:
    """A moment as the picture's axis counts it. Labels name it on the wall clock of its own time zone."""
    return moment.timestamp() * 1000


def _choice(ticks: Sequence[tuple[dt.datetime, str]]) -> str:
    """The label of a tick as an expression of the axis."""
    labels = {str(int(_milliseconds(moment))): text for moment, text in ticks}
    return f"{json.dumps(labels)}[time(datum.value)]"
