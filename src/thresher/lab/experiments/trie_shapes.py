"""How many levels a trie should have, and of how many characters: what is found, what is seen, what recounting gains.

Corpora: the words of a text, made-up texts of 3 to 20 random letters, and made-up web addresses; the made-up ones are
held in proportion to one over their rank (Zipf).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from thresher.lab.experiments.people import WordPeople
from thresher.lab.experiments.runner import Row, Task
from thresher.lab.experiments.settings import Settings, plan_of
from thresher.lab.experiments.statistics import summary
from thresher.lab.shakespeare import word_counts
from thresher.questions import END, Prefixes
from thresher.verbs import HeavyHitters, HeavyHittersQuery

SHAPES = ((10, 1), (6, 2), (4, 3), (3, 4), (4, 4), (5, 4), (4, 5), (4, 6), (3, 8))
"""Levels and characters a level."""
TARGETS = ((1.0, 1e-8), (4.0, 1e-6))
PEOPLE = (100_000, 1_000_000)
TEXTS = 20_000


def tasks(settings: Settings) -> list[Task]:
    """One task a corpus, number of people and target; words only where a text is at hand."""
    corpora = [*(["words"] if "shakespeare" in settings.datasets else []), "strings", "addresses"]
    return [
        Task(
            "tries",
            rows,
            {
                "corpus": corpus,
                "people": people,
                "epsilon": epsilon,
                "delta": delta,
                "runs": min(settings.repetitions, 5),
                "text": None if settings.text is None else str(settings.text),
                "text_digest": settings.text_digest if corpus == "words" else "",
            },
            settings.seed,
        )
        for corpus in corpora
        for people in PEOPLE
        for epsilon, delta in TARGETS
    ]


def rows(settings: dict[str, Any], seed: np.random.SeedSequence) -> list[Row]:
    """For each shape: whole texts found, texts cut, and the mean relative error of the found texts' estimates.

    `seen_rare` is the part of the people whose answer to the first level was below the threshold: what an aggregator
    sees beyond the release. `once` is the error with one round's count for each text, `again` that with all rounds.
    """
    of_texts, *seeds = seed.spawn(1 + settings["runs"])
    held = corpus(settings["corpus"], settings["people"], np.random.default_rng(of_texts), settings["text"])
    people = WordPeople(held, np.random.default_rng(of_texts))
    found: list[Row] = []
    for levels, step in SHAPES:
        plan = plan_of("exact", settings["epsilon"], settings["delta"], levels)
        numbers: dict[str, list[float]] = defaultdict(list)
        for each in seeds:
            asked = people.with_random(np.random.default_rng(each))
            answer: HeavyHitters = HeavyHittersQuery("text", plan, "trie", step).run(asked)
            numbers["found"].append(len(answer.complete))
            numbers["cut"].append(len(answer.unfinished))
            numbers["seen_rare"].append(_seen_rare(answer, held, step))
            first = _first_estimates(answer)
            for name, estimates in (("once", first), ("again", answer.to_dict())):
                numbers[name].append(_error(estimates, held))
        asked_for = {name: settings[name] for name in ("corpus", "people", "epsilon", "delta")}
        row: Row = asked_for | {"levels": levels, "step": step}
        for name, values in numbers.items():
            row |= summary(name, values)
        found.append(row)
    return found


def corpus(name: str, people: int, random: np.random.Generator, text: str | None = None) -> dict[str, int]:
    """How many people hold each text."""
    if name == "words":
        words = word_counts(text)
        texts, weights = list(words), np.array(list(words.values()), dtype=np.float64)
    else:
        texts = (_strings if name == "strings" else _addresses)(random)
        weights = 1 / np.arange(1, len(texts) + 1)
    counts = random.multinomial(people, weights / weights.sum())
    return {each: int(count) for each, count in zip(texts, counts, strict=True) if count}


def _strings(random: np.random.Generator) -> list[str]:
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    return list(dict.fromkeys("".join(random.choice(letters, random.integers(3, 21))) for _ in range(TEXTS)))


def _addresses(random: np.random.Generator) -> list[str]:
    """Web addresses without their scheme: a site and up to two folders, sites and folders of unequal popularity."""
    syllables = [consonant + vowel for consonant in "bcdfghklmnprstvw" for vowel in "aeiou"]

    def names(number: int, least: int, most: int) -> list[str]:
        return ["".join(random.choice(syllables, random.integers(least, most))) for _ in range(number)]

    sites = [f"{name}.{random.choice(['com', 'org', 'net', 'de'])}" for name in names(300, 2, 5)]
    folders = names(400, 1, 4)
    found: dict[str, None] = {}
    while len(found) < TEXTS:
        places = np.minimum(random.pareto(0.5, random.integers(0, 3)) * 5, len(folders) - 1).astype(int)
        site = sites[min(int(random.pareto(0.6) * 3), len(sites) - 1)]
        found["/".join([site, *(folders[place] for place in places)])] = None
    return list(found)


def _first_estimates(answer: HeavyHitters) -> dict[str, float]:
    """Count ÷ p of the round that found a text."""
    estimates: dict[str, float] = {}
    for release in answer.releases:
        for bucket, estimate in release.to_dict().items():
            if bucket.endswith(END):
                estimates.setdefault(bucket.removesuffix(END), estimate)
    return estimates


def _error(estimates: Mapping[str, float], held: Mapping[str, int]) -> float:
    return float(np.mean([abs(estimate / held[text] - 1) for text, estimate in estimates.items()] or [0.0]))


def _seen_rare(answer: HeavyHitters, held: Mapping[str, int], step: int) -> float:
    released, question = set(answer.releases[0].buckets), Prefixes("text", step)
    rare = sum(count for text, count in held.items() if question.bucket(text) not in released)
    return rare / sum(held.values())
