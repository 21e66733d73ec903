"""Common words: TrieHH++ and one round of whole words, beside the original TrieHH, at the same total guarantee."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from thresher.lab.experiments.people import WordPeople, vocabulary
from thresher.lab.experiments.runner import Row, Task
from thresher.lab.experiments.settings import DELTA, POPULATION, RULES, Settings, plan_of
from thresher.lab.experiments.statistics import summary
from thresher.lab.rivals import TrieHH
from thresher.verbs import HeavyHittersQuery

LEVELS = 10
TOP = 300
TRIE_PLUS, ONE_SHOT, TRIE = "TrieHH++", "one-shot", TrieHH.name


def tasks(settings: Settings) -> list[Task]:
    """One task a total epsilon."""
    return [
        Task(
            "heavy",
            rows,
            {"epsilon": epsilon, "delta": DELTA, "people": POPULATION, "runs": settings.repetitions},
            settings.seed,
        )
        for epsilon in settings.total_epsilons
    ]


def rows(settings: dict[str, Any], seed: np.random.SeedSequence) -> list[Row]:
    """Recall of the largest words, and the mean relative error of their counts.

    A word that is not found counts as an error of 1. TrieHH releases no counts, so it has no count error; its own
    parameters are neither rule's, and its rows say "TrieHH". As in the paper, every word is counted in one round only.
    """
    of_words, *seeds = seed.spawn(1 + settings["runs"])
    words = vocabulary(settings["people"], np.random.default_rng(of_words))
    people = WordPeople(words, np.random.default_rng(of_words))
    top = dict(sorted(words.items(), key=lambda item: (-item[1], item[0]))[:TOP])
    epsilon, delta = settings["epsilon"], settings["delta"]
    recalls: dict[tuple[str, str], list[float]] = defaultdict(list)
    errors: dict[tuple[str, str], list[float]] = defaultdict(list)
    for each in seeds:
        random = np.random.default_rng(each)
        asked = people.with_random(random)
        for rule in RULES:
            one_shot = HeavyHittersQuery("word", plan_of(rule, epsilon, delta)).run(asked)
            levels = plan_of(rule, epsilon, delta, LEVELS)
            by_levels = HeavyHittersQuery("word", levels, "trie", recount=False).run(asked)
            for method, answer in ((ONE_SHOT, one_shot), (TRIE_PLUS, by_levels)):
                estimates = answer.to_dict()
                recalls[rule, method].append(_share_found(top, estimates))
                off = [abs(estimates.get(word, 0.0) - count) / count for word, count in top.items()]
                errors[rule, method].append(float(np.mean(off)))
        found = TrieHH(epsilon, delta, LEVELS).discover(words, random)
        recalls[TRIE, TRIE].append(_share_found(top, dict.fromkeys(found, 0.0)))
    no_error = {"count_error": None, "count_error_se": None}
    return [
        {
            "epsilon": epsilon,
            "delta": delta,
            "rule": rule,
            "method": method,
            "top": TOP,
            **summary("recall", shares),
            **(summary("count_error", errors[rule, method]) if method != TRIE else no_error),
        }
        for (rule, method), shares in recalls.items()
    ]


def _share_found(top: Mapping[str, int], found: Mapping[str, float]) -> float:
    return sum(word in found for word in top) / len(top)
