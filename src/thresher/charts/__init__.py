"""Pictures from plain numbers: PNG, SVG or HTML, without a network. Knows nothing of plans or releases.

Needs the extra `plot` (Altair and vl-convert); both are imported when a picture is made, not before.
"""

from __future__ import annotations

from thresher.charts.distribution import distribution
from thresher.charts.errors import error_lines
from thresher.charts.experiments import Axes, Panel, Point, grid
from thresher.charts.frontier import frontier
from thresher.charts.histogram import histogram
from thresher.charts.rendering import show
from thresher.charts.trie import trie

__all__ = ["Axes", "Panel", "Point", "distribution", "error_lines", "frontier", "grid", "histogram", "show", "trie"]
