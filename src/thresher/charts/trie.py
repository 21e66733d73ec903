"""A trie of common texts, from left to right: circles sized by count, whole texts in colour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thresher.charts.numbers import short, told_apart
from thresher.charts.rendering import BLACK, BLUE, DEVICES, NOTHING, UNITS, altair, note_alone, standing_for, styled

_ROW = 25
_COLUMN = 150
_WIDEST = 1150
_LONGEST_LABEL = 22


def trie(
    labels: Sequence[str],
    parents: Sequence[int | None],
    estimates: Sequence[float],
    complete: Sequence[bool],
    *,
    title: str,
    subtitle: str,
    whom: str | None = None,
) -> Any:
    """A picture of nodes, each after its parent; `parents` holds positions in the same sequences.

    `whom` says for whom the numbers stand, where that is not everybody.
    Edge cases: no nodes give an empty frame that says so. Meant for up to about sixty nodes.
    """
    alt = altair()
    if not labels:
        nothing = note_alone(NOTHING).properties(width=420, height=80)
        return styled(nothing, title, [subtitle, *standing_for(whom)])
    depths, rows = _layout(parents)
    shown = told_apart(labels, _LONGEST_LABEL)
    nodes = [
        {
            "depth": depth,
            "row": row,
            "label": f"{label}  {short(round(estimate))}",
            "estimate": estimate,
            "kind": "whole value" if whole else "prefix",
        }
        for label, depth, row, estimate, whole in zip(shown, depths, rows, estimates, complete, strict=True)
    ]
    edges = [
        {"x": depths[parent], "y": rows[parent], "x2": depth, "y2": row}
        for parent, depth, row in zip(parents, depths, rows, strict=True)
        if parent is not None
    ]
    deepest, lowest = max(depths), max(rows)
    across = alt.Scale(domain=[-0.15, deepest + 1.0], nice=False, zero=False)
    down = alt.Scale(domain=[-0.7, lowest + 0.7], nice=False, zero=False, reverse=True)
    lines = (
        alt.Chart(alt.Data(values=edges))
        .mark_rule(color="#C9C9C9", strokeWidth=1.2)
        .encode(x=alt.X("x:Q", scale=across, axis=None), y=alt.Y("y:Q", scale=down, axis=None), x2="x2:Q", y2="y2:Q")
    )
    base = alt.Chart(alt.Data(values=nodes)).encode(
        x=alt.X("depth:Q", scale=across, axis=None), y=alt.Y("row:Q", scale=down, axis=None)
    )
    colour = alt.Color(
        "kind:N",
        title=None,
        scale=alt.Scale(domain=["whole value", "prefix"], range=[BLUE, "#B5B5B5"]),
        legend=alt.Legend(orient="top"),
    )
    circles = base.mark_circle(opacity=1, stroke="white", strokeWidth=1).encode(
        size=alt.Size("estimate:Q", scale=alt.Scale(range=[25, 420], zero=True), legend=None), color=colour
    )
    # Above the line that leads on from the circle, so that neither crosses the other.
    names = {"align": "left", "baseline": "bottom", "dx": 11, "dy": -2, "fontSize": 12}
    text = base.mark_text(**names, color=BLACK).encode(text="label:N")
    layers = [lines, circles, text] if edges else [circles, text]
    width = min(_WIDEST, max(320, _COLUMN * (deepest + 1)))
    chart = alt.layer(*layers).properties(width=width, height=_ROW * (lowest + 1.4))
    note = f"Numbers: estimated {UNITS if whom is None else DEVICES}. Everything below the threshold is left out."
    return styled(chart, title, [subtitle, note, *standing_for(whom)])


def _layout(parents: Sequence[int | None]) -> tuple[list[int], list[float]]:
    """Depth of each node, and its row: ends of branches take a row each, a parent stands at its first child's."""
    children: dict[int | None, list[int]] = {}
    depths: list[int] = []
    for place, parent in enumerate(parents):
        children.setdefault(parent, []).append(place)
        depths.append(0 if parent is None else depths[parent] + 1)
    rows = [0.0] * len(parents)
    next_row = 0
    waiting = children.get(None, [])[::-1]
    while waiting:
        place = waiting.pop()
        rows[place] = float(next_row)
        below = children.get(place, [])
        if not below:
            next_row += 1
        waiting += below[::-1]
    return depths, rows
