"""The verbs: histograms, heavy hitters, quantiles, ranges, means. One file a verb: its settings, rounds and answer."""

from __future__ import annotations

from thresher.questions.population import Population, Progress, unit_of
from thresher.verbs.accuracy import Error, Quantile
from thresher.verbs.alert_rules import Alert, Finding, Rule
from thresher.verbs.answer import Answer, load
from thresher.verbs.asking import Asking, QueryTaker
from thresher.verbs.averages import Average, MeanError
from thresher.verbs.changes import Change, Changes, OneSided
from thresher.verbs.groups import Grouped
from thresher.verbs.heavy_hitters import FoundItem, HeavyHitters, HeavyHittersQuery, heavy_hitters
from thresher.verbs.histogram import Histogram, HistogramQuery, histogram
from thresher.verbs.mean import Mean, MeanQuery, mean
from thresher.verbs.other import Other
from thresher.verbs.over_time import OverTime
from thresher.verbs.quantiles import Quantiles, QuantilesQuery, quantiles
from thresher.verbs.query import Query, query_from_dict
from thresher.verbs.ranges import RangeAnswer, Ranges, RangesQuery, ranges
from thresher.verbs.readings import Reading, Readings
from thresher.verbs.trie import Trie, TrieNode

__all__ = [
    "Alert",
    "Answer",
    "Asking",
    "Average",
    "Change",
    "Changes",
    "Error",
    "Finding",
    "FoundItem",
    "Grouped",
    "HeavyHitters",
    "HeavyHittersQuery",
    "Histogram",
    "HistogramQuery",
    "Mean",
    "MeanError",
    "MeanQuery",
    "OneSided",
    "Other",
    "OverTime",
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
    "Reading",
    "Readings",
    "Rule",
    "Trie",
    "TrieNode",
    "heavy_hitters",
    "histogram",
    "load",
    "mean",
    "quantiles",
    "query_from_dict",
    "ranges",
    "unit_of",
]
