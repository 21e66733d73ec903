"""Histograms, heavy hitters, quantiles and ranges: written once, for anything that can be asked a question."""

from __future__ import annotations

from thresher.questions.population import Population, Progress, QueryTaker, unit_of
from thresher.verbs.accuracy import Error
from thresher.verbs.asking import heavy_hitters, histogram, quantiles, ranges
from thresher.verbs.charged import Charged
from thresher.verbs.heavy_hitters import FoundItem, HeavyHitters
from thresher.verbs.histogram import Histogram
from thresher.verbs.quantile import Quantile
from thresher.verbs.quantiles import Quantiles
from thresher.verbs.queries import (
    HeavyHittersQuery,
    HistogramQuery,
    QuantilesQuery,
    Query,
    RangesQuery,
    query_from_dict,
)
from thresher.verbs.ranges import RangeAnswer, Ranges
from thresher.verbs.trie import Trie, TrieNode

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
