"""Common words: TrieHH++ and one round of whole words, beside the original TrieHH, at the same total guarantee."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from thresher.lab.experiments.people import WordPeople, vocabulary
from thresher.lab.experiments.runner import Row, Task
from thresher.lab.experiments.settings import DELTA, POPULATION, RULES, Settings, plan_of
from thresher.lab.experiments.statistics import mean_and_error
from thresher.lab.rivals import TrieHH
from thresher.verbs import HeavyHittersQuery

COLUMNS: tuple[str, ...] = (
    "epsilon",
    "delta",
    "rule",
    "method",
    "top",
    "recall",
    "recall_se",
    "count_error",
    "count_error_se",
)
LEVELS = 10
TOP = 300
TRIE_PLUS, ONE_SHOT, TRIE = "TrieHH++", "one-shot", TrieHH.name


def tasks(settings: Settings) -> list[Task]:
    """One task a total epsilon."""
    return [
        Task(
            "heavy",
            {"epsilon": epsilon, "delta": DELTA, "people": POPULATION, "runs": settings.repetitions},
            settings.seed,
        )
        for epsilon in settings.total_epsilons
    ]


def rows(settings: dict[str, Any], seed: np.random.SeedSequence) -> list[Row]:
    """Recall of the largest words, and the mean relative error of their counts.

    A word that is not found counts as an error of 1. TrieHH releases no counts, so it has no count error; its own
    parameters are neither rule's, and its rows say "TrieHH".
    """
    of_words, *seeds = seed.spawn(1 + settings["runs"])
    words = vocabulary(settings["people"], np.random.default_rng(of_words))
    people = WordPeople(words, np.random.default_rng(of_words))
    top = dict(sorted(words.items(), key=lambda item: (-item[1], item[0]))[:TOP])
    epsilon, delta = settings["epsilon"], settings["delta"]
    measured: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for each in seeds:
        random = np.random.default_rng(each)
        for rule in RULES:
            one_shot = HeavyHittersQuery("word", plan_of(rule, epsilon, delta)).run(people.with_random(random))
            measured.setdefault((rule, ONE_SHOT), []).append(_scores(top, one_shot.to_dict()))
            trie = HeavyHittersQuery("word", plan_of(rule, epsilon, delta, LEVELS), "trie")
            levels = trie.run(people.with_random(random))
            measured.setdefault((rule, TRIE_PLUS), []).append(_scores(top, levels.to_dict()))
        found = TrieHH(epsilon, delta, LEVELS).discover(words, random)
        share = sum(word in found for word in top) / len(top)
        measured.setdefault((TRIE, TRIE), []).append((share, 0.0))
    return [_row(epsilon, delta, rule, method, np.array(scores)) for (rule, method), scores in measured.items()]


def _scores(top: Mapping[str, int], estimates: Mapping[str, float]) -> tuple[float, float]:
    found = sum(word in estimates for word in top) / len(top)
    errors = [abs(estimates.get(word, 0.0) - count) / count for word, count in top.items()]
    return found, float(np.mean(errors))


def _row(epsilon: float, delta: float, rule: str, method: str, scores: np.ndarray[Any, Any]) -> Row:
    recall, recall_error = mean_and_error(scores[:, 0])
    error, error_spread = mean_and_error(scores[:, 1])
    counted = method != TRIE
    return {
        "epsilon": epsilon,
        "delta": delta,
        "rule": rule,
        "method": method,
        "top": TOP,
        "recall": recall,
        "recall_se": recall_error,
        "count_error": error if counted else None,
        "count_error_se": error_spread if counted else None,
    }
