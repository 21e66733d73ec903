"""The cumulative distributions of several groups, side by side on the same axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from thresher.charts.numbers import shortened
from thresher.charts.rendering import BLUE, DEVICES, NOTHING, UNITS, altair, note_alone, standing_for, styled

Band = tuple[Sequence[float], Sequence[float], Sequence[float], Sequence[float]]
"""Values, ranks, and the lower and upper bounds of the ranks."""

_ACROSS, _WIDTH, _HEIGHT = 4, 170, 110
_LONGEST_LABEL = 24


def group_distributions(
    groups: Sequence[tuple[str, Band]],
    *,
    title: str,
    subtitle: str,
    note: str,
    measured: str,
    missing: Sequence[str] = (),
    whom: str | None = None,
) -> Any:
    """A small picture for each group: ranks over values, with a band. All have the same axes.

    `missing` are the names of groups of which nothing was released; the note below the title lists them.
    Edge cases: without any group the picture says that nothing reached the threshold.
    """
    alt = altair()
    said = [subtitle, note, *standing_for(whom)]
    if missing:
        said.insert(2, f"Below the threshold: {shortened(', '.join(missing), 100)}.")
    if not groups:
        return styled(note_alone(NOTHING).properties(width=560, height=120), title, said)
    rows = [
        {"place": place, "group": shortened(name, _LONGEST_LABEL), "value": value, "lower": low, "upper": high}
        | {"rank": None if math.isnan(rank) else rank}
        for place, (name, band) in enumerate(groups)
        for value, rank, low, high in zip(*band, strict=True)
    ]
    order = [shortened(name, _LONGEST_LABEL) for name, _ in groups]
    same = len(set(order)) < len(order)  # two names that were cut to the same text
    if same:
        order = [f"{place + 1}: {name}" for place, name in enumerate(order)]
        rows = [row | {"group": order[row["place"]]} for row in rows]  # type: ignore[call-overload]
    below = f"part of {UNITS if whom is None else DEVICES}"
    up = alt.Scale(domain=[0, 1])
    heights = alt.Axis(format="%", values=[0, 0.5, 1])
    across = alt.X(
        "value:Q",
        title=measured,
        scale=alt.Scale(nice=False, zero=False),
        axis=alt.Axis(tickCount=3, labelFlush=True, labelOverlap=True),
    )
    base = alt.Chart().encode(x=across)
    pair = alt.layer(
        base.mark_area(color=BLUE, opacity=0.22).encode(
            y=alt.Y("lower:Q", scale=up, title=below, axis=heights), y2="upper:Q"
        ),
        base.mark_line(color=BLUE, strokeWidth=2).encode(y=alt.Y("rank:Q", scale=up, title=below, axis=heights)),
        data=alt.Data(values=rows),
    ).properties(width=_WIDTH, height=_HEIGHT)
    header = alt.Header(title=None, labelFontSize=12, labelFontWeight="bold", labelAnchor="start")
    chart = pair.facet(
        facet=alt.Facet("group:N", sort=order, header=header), columns=min(_ACROSS, len(groups)), spacing=22
    )
    return styled(chart, title, said)
