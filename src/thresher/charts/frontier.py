"""The trade-off of a target: thresholds, their largest rates, and the smallest bucket seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thresher.charts.rendering import BLUE, GREEN, RED, altair, styled


def frontier(
    points: Sequence[tuple[int, float, int]],
    chosen: tuple[int, float, int],
    paper: tuple[int, float, int],
    *,
    title: str,
    subtitle: str,
) -> Any:
    """Two panels over the threshold: the largest rate, and the smallest bucket seen with 95 % probability.

    Each of `points`, `chosen` and `paper` is (threshold, sampling rate, smallest visible bucket).
    """
    alt = altair()
    fields = ("threshold", "rate", "visible")
    curve = alt.Data(values=[dict(zip(fields, point, strict=True)) for point in points])
    names = [f"this plan: {_words(chosen)}", f"the paper's rule: {_words(paper)}"]
    marks = alt.Data(
        values=[
            dict(zip(fields, point, strict=True)) | {"what": name}
            for point, name in zip((chosen, paper), names, strict=True)
        ]
    )
    colour = alt.Color(
        "what:N",
        title=None,
        scale=alt.Scale(domain=names, range=[GREEN, RED]),
        legend=alt.Legend(orient="top", labelLimit=400, symbolOpacity=1),
    )
    shape = alt.Shape("what:N", title=None, scale=alt.Scale(domain=names, range=["circle", "diamond"]))
    threshold = alt.X(
        "threshold:Q",
        scale=alt.Scale(type="log", nice=False),
        title="threshold τ",
        axis=alt.Axis(tickCount=8),
    )

    def panel(field: str, heading: str, kind: str) -> Any:
        height = alt.Y(f"{field}:Q", title=heading, scale=alt.Scale(type=kind, zero=False))
        line = alt.Chart(curve).mark_line(color=BLUE, point={"color": BLUE, "size": 18}).encode(threshold, height)
        dots = alt.Chart(marks).mark_point(size=150, filled=True, opacity=1)
        dots = dots.encode(threshold, height, color=colour, shape=shape)
        return alt.layer(line, dots).properties(width=620, height=230)

    panels = alt.vconcat(
        panel("rate", "largest sampling rate p", "linear"),
        panel("visible", "smallest bucket seen (95 %)", "log"),
    )
    return styled(panels, title, subtitle)


def _words(point: tuple[int, float, int]) -> str:
    threshold, rate, visible = point
    return f"τ = {threshold}, p = {rate:.3g}, sees {visible:,}"
