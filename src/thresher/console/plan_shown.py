"""What is shown beside the ask form before anything is spent, for a query and for a series alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from thresher import charts
from thresher.charts.svg import Svg
from thresher.privacy.binomial import reach
from thresher.protocol.analyst_messages import Caution, PlanPreview
from thresher.protocol.series_messages import SeriesPreview


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a form asks for, checked and planned; nothing is spent before `start`."""

    agreed: str
    """Says which settings this is the plan of."""
    cautions: Callable[[], Sequence[Caution]]
    """What speaks against asking it."""
    start: Callable[[], str]
    """Asks it, and returns the address of its page."""


def cautions(preview: PlanPreview | SeriesPreview, *, waiting: bool) -> list[Caution]:
    """What speaks against a query. While it is `waiting` for an attribute's name, no name is wrong."""
    return [each for each in preview.warnings if not (waiting and each.code == "unknown-attribute")]


def visibility_chart(rate: float, threshold: int, smallest_visible: int) -> Svg:
    """What a plan will see, from buckets of half the threshold to twelve times the smallest visible bucket."""
    sizes = np.unique(np.geomspace(max(threshold / 2, 1), 12 * smallest_visible, 120).round())
    return charts.visibility(sizes.tolist(), reach(sizes, threshold, rate).tolist(), smallest_visible)
