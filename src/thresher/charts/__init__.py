"""Pictures from plain numbers, with one file for each picture. They know nothing of plans or releases.

Pictures for files and notebooks (PNG, SVG, HTML) need the extra `plot` (Altair and vl-convert), which is imported when
a picture is made. Pictures for web pages are small SVG of our own, made in a millisecond: `bar_svg`, `check_ins`,
`distribution_svg`, `group_rows_svg`, `meter`, `shares`, `sparkline`, `spending`, `trends_svg` and `visibility`. No
picture needs a network.
"""

from __future__ import annotations

from thresher.charts.distribution import distribution, distribution_svg
from thresher.charts.error_lines import error_lines
from thresher.charts.frontier import frontier
from thresher.charts.group_distributions import group_distributions
from thresher.charts.group_intervals import GroupRow, group_intervals, group_rows_svg
from thresher.charts.histogram import bar_svg, histogram
from thresher.charts.mean import mean
from thresher.charts.meter import meter
from thresher.charts.rendering import Look, dressed, show
from thresher.charts.sparkline import sparkline
from thresher.charts.timelines import check_ins, shares, spending
from thresher.charts.trend_layout import Trend
from thresher.charts.trends import MOST_LINES, PAGE_HEIGHT, trends, trends_svg
from thresher.charts.trie import trie
from thresher.charts.visibility import visibility

__all__ = [
    "MOST_LINES",
    "PAGE_HEIGHT",
    "GroupRow",
    "Look",
    "Trend",
    "bar_svg",
    "check_ins",
    "distribution",
    "distribution_svg",
    "dressed",
    "error_lines",
    "frontier",
    "group_distributions",
    "group_intervals",
    "group_rows_svg",
    "histogram",
    "mean",
    "meter",
    "shares",
    "show",
    "sparkline",
    "spending",
    "trends",
    "trends_svg",
    "trie",
    "visibility",
]
