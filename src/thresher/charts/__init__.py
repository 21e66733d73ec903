"""Pictures from plain numbers: PNG, SVG or HTML, without a network. Knows nothing of plans or releases.

Needs the extra `plot` (Altair and vl-convert); both are imported when a picture is made, not before.
"""

from __future__ import annotations

from thresher.charts.distribution import distribution
from thresher.charts.errors import error_lines
from thresher.charts.frontier import frontier
from thresher.charts.histogram import histogram
from thresher.charts.rendering import show
from thresher.charts.trie import trie

__all__ = ["distribution", "error_lines", "frontier", "histogram", "show", "trie"]
