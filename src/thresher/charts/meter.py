"""How full something is, as one small bar for web pages."""

from __future__ import annotations

from thresher.charts import svg
from thresher.charts.svg import Svg


def meter(part: float, label: str, *, more: float = 0.0) -> Svg:
    """A bar that is filled to `part`, from 0 to 1; `more` is what would be added. A screen reader says `label`."""
    shown = min(max(part, 0.0), 1.0)
    extra = min(max(more, 0.0), 1.0 - shown)
    bars = [("track", 1.0), ("fill-more", shown + extra if extra else 0.0), ("fill", shown)]
    return svg.tag(
        "svg",
        *(
            svg.tag("rect", x=0, y=0, width=svg.across(width), height=8, rx=4, class_=name)
            for name, width in bars
            if width
        ),
        class_="meter",
        width="100%",
        height=8,
        role="img",
        aria_label=label,
    )
