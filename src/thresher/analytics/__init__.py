"""Histograms, heavy hitters, quantiles and ranges: written once, for anything that can be asked a question."""

from __future__ import annotations

from thresher.analytics.accuracy import Error
from thresher.analytics.charged import Charged
from thresher.analytics.heavy_hitters import FoundItem, HeavyHitters, heavy_hitters
from thresher.analytics.histogram import Histogram, histogram
from thresher.analytics.population import Population, QueryTaker, unit_of
from thresher.analytics.quantile import Quantile
from thresher.analytics.quantiles import Quantiles, quantiles
from thresher.analytics.queries import (
    HeavyHittersQuery,
    HistogramQuery,
    QuantilesQuery,
    Query,
    RangesQuery,
    query_from_dict,
)
from thresher.analytics.ranges import RangeAnswer, Ranges, ranges
from thresher.analytics.rounds import Progress
from thresher.analytics.trie import Trie, TrieNode

__all__ = [
    "Charged",
    "Error",
    "FoundItem",
    "HeavyHitters",
    "HeavyHittersQuery",
    "Histogram",
    "HistogramQuery",
    "Population",
    "Progress",
    "Quantile",
    "Quantiles",
    "QuantilesQuery",
    "Query",
    "QueryTaker",
    "RangeAnswer",
    "Ranges",
    "RangesQuery",
    "Trie",
    "TrieNode",
    "heavy_hitters",
    "histogram",
    "quantiles",
    "query_from_dict",
    "ranges",
    "unit_of",
]
