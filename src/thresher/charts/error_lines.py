"""Lines of relative error against bucket size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from thresher.charts.rendering import BLACK, BLUE, GREEN, ORANGE, RED, altair, styled


def error_lines(sizes: Sequence[int], lines: Mapping[str, Sequence[float]], *, title: str, subtitle: str) -> Any:
    """One line a mechanism, on logarithmic axes; lines also differ in their dashes."""
    alt = altair()
    rows = [
        {"size": size, "error": max(error, 1e-6), "what": name}
        for name, errors in lines.items()
        for size, error in zip(sizes, errors, strict=True)
    ]
    names = list(lines)
    colour = alt.Scale(domain=names, range=[BLUE, ORANGE, GREEN, RED, BLACK][: len(names)])
    dashes = alt.Scale(domain=names, range=[[1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 4]][: len(names)])
    legend = alt.Legend(orient="top", columns=2, labelLimit=320, title=None, symbolStrokeWidth=3, symbolSize=250)
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_line(strokeWidth=2.5)
        .encode(
            x=alt.X(
                "size:Q",
                scale=alt.Scale(type="log", nice=False),
                title="units that hold the bucket",
                axis=alt.Axis(tickCount=5),
            ),
            y=alt.Y(
                "error:Q",
                scale=alt.Scale(type="log"),
                title="relative error (root mean square)",
                axis=alt.Axis(format="~%", tickCount=6),
            ),
            color=alt.Color("what:N", scale=colour, legend=legend),
            strokeDash=alt.StrokeDash("what:N", scale=dashes, legend=legend),
        )
        .properties(width=640, height=330)
    )
    return styled(chart, title, subtitle)
