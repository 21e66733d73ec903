"""Released buckets with their intervals and the threshold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thresher.charts.rendering import BLACK, BLUE, DEVICES, ORANGE, RED, UNITS, altair, standing_for, styled

_LONGEST_LABEL = 32


def histogram(
    labels: Sequence[str],
    estimates: Sequence[float],
    lower: Sequence[float],
    upper: Sequence[float],
    *,
    threshold: float,
    title: str,
    subtitle: str,
    truth: Sequence[float] | None = None,
    confidence: float = 0.95,
    whom: str | None = None,
) -> Any:
    """Bars with intervals, a line where the threshold lies, and optionally the true counts as ticks.

    `whom` says for whom the numbers stand, where that is not everybody.
    """
    alt = altair()
    rows = [
        {"order": order, "bucket": _short(label), "estimate": value, "lower": low, "upper": high}
        for order, (label, value, low, high) in enumerate(zip(labels, estimates, lower, upper, strict=True))
    ]
    if truth is not None:
        for row, value in zip(rows, truth, strict=True):
            row["truth"] = value
    names = {str(row["order"]): row["bucket"] for row in rows}
    axis = alt.Axis(title=None, labelExpr=f"{_json(names)}[datum.value]", labelLimit=260, ticks=False)
    base = alt.Chart(alt.Data(values=rows)).encode(y=alt.Y("order:O", axis=axis, sort=None))
    bars = base.mark_bar(color=BLUE, opacity=0.75, height={"band": 0.72}).encode(
        x=alt.X(
            "estimate:Q",
            title=f"{UNITS if whom is None else DEVICES} (estimate and {100 * confidence:g} % interval)",
            scale=alt.Scale(zero=True),
            axis=alt.Axis(tickCount=8),
        ),
    )
    spans = base.mark_rule(color=BLACK, strokeWidth=1.5).encode(x="lower:Q", x2="upper:Q")
    line = (
        alt.Chart(alt.Data(values=[{"threshold": threshold, "label": "threshold ÷ p"}]))
        .mark_rule(color=RED, strokeDash=[5, 4], strokeWidth=1.5)
        .encode(x="threshold:Q")
    )
    layers = [bars, spans, line]
    note = "Dashed line: the threshold, in units. Smaller buckets are left out."
    if truth is not None:
        layers.append(base.mark_tick(color=ORANGE, thickness=3, height={"band": 0.8}).encode(x="truth:Q"))
        note += " Orange ticks: the truth."
    chart = alt.layer(*layers).properties(width=560, height=max(60, 22 * len(rows)))
    return styled(chart, title, [subtitle, note, *standing_for(whom)])


def _short(label: str) -> str:
    printable = "".join(character if character.isprintable() else "�" for character in label)
    return printable if len(printable) <= _LONGEST_LABEL else printable[: _LONGEST_LABEL - 1] + "…"


def _json(names: dict[str, Any]) -> str:
    import json

    return json.dumps(names)
