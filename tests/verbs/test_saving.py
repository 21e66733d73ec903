"""Every answer is saved and read back in the same way, and files of 0.1.0 still open."""

import json
from pathlib import Path

import numpy as np
import pytest

import thresher as th
from thresher.errors import InvalidFormat, VerificationFailed
from thresher.testing import SeededRandomness
from thresher.verbs import Answer
from thresher.verbs.answer import _digest

ONE, THREE = th.plan(1, 1e-6), th.plan(1, 1e-6, rounds=3)
NUMBERS = np.random.default_rng(3).normal(50, 10, 20_000)
WORDS = ["the"] * 5_000 + ["then"] * 3_000 + ["rare"]
BOUNDS = {"lower": 0, "upper": 100}
OLD = Path(__file__).parents[1] / "mechanism" / "release_version_2_table.json"

ANSWERS = {
    "histogram": lambda: th.histogram(WORDS, "value", plan=ONE),
    "domain": lambda: th.histogram(WORDS, "value", plan=ONE, domain=["the", "rare"]),
    "bins": lambda: th.histogram(NUMBERS, "value", plan=ONE, bins=10, **BOUNDS),
    "one-shot": lambda: th.heavy_hitters(WORDS, "value", plan=ONE),
    "trie": lambda: th.heavy_hitters(WORDS, "value", plan=THREE, method="trie", step=2),
    "search": lambda: th.quantiles(NUMBERS, "value", [0.5], plan=THREE, **BOUNDS),
    "hierarchy": lambda: th.quantiles(NUMBERS, "value", [0.5, 0.9], plan=THREE, method="hierarchy", **BOUNDS),
    "ranges": lambda: th.ranges(NUMBERS, "value", plan=THREE, **BOUNDS),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_comes_back_as_it_was(name, tmp_path):
    answer = ANSWERS[name]()
    answer.save(tmp_path / "answer.json")
    again = th.load(tmp_path / "answer.json")
    assert type(again) is type(answer)
    assert isinstance(again, Answer)
    assert again.query == answer.query
    assert again.to_arrow() == answer.to_arrow()
    assert again.to_json() == answer.to_json()
    assert again.verify() == answer.guarantee
    assert (again.promise(), again.unit, again.private) == (answer.promise(), answer.unit, True)
    assert again.shown() == answer.shown()


@pytest.mark.slow
@pytest.mark.parametrize("name", ANSWERS)
def test_every_answer_is_of_one_family(name):
    answer = ANSWERS[name]()
    for frame in (answer.to_arrow(), answer.to_pandas(), answer.to_polars()):
        assert len(frame) == len(answer.to_arrow())
    assert answer.columns == ("value",)
    assert answer.plan is answer.query.plan
    assert answer.rounds_asked == len(answer.releases)
    assert not answer.empty
    fields, rows, sort, _ = answer.shown()
    assert sort in [field.name for field in fields]
    assert all(len(row) == len(fields) for row in rows)
    assert bool(answer.bars(5)) == answer.counted


def test_an_answer_of_one_round_reads_as_a_release(tmp_path):
    answer = ANSWERS["histogram"]()
    answer.save(tmp_path / "answer.json")
    assert th.Release.load(tmp_path / "answer.json").to_json() == answer.release.to_json()
    ANSWERS["ranges"]().save(tmp_path / "ranges.json")
    with pytest.raises(InvalidFormat, match="several rounds"):
        th.Release.load(tmp_path / "ranges.json")


def test_a_release_of_an_older_version_is_loaded():
    assert th.load(OLD).to_dict() == th.Release.load(OLD).to_dict()


def test_what_was_changed_is_refused(tmp_path):
    path = tmp_path / "answer.json"
    ANSWERS["search"]().save(path)
    content = json.loads(path.read_text())
    rounds, query = content["rounds"], content["query"]
    pairs = zip(rounds, rounds[::-1], strict=True)
    swapped = [{"question": one["question"], "release": other["release"]} for one, other in pairs]
    for change, error in (
        ({"rounds": rounds[:1]}, VerificationFailed),
        ({"rounds": [*rounds, rounds[0]]}, VerificationFailed),
        ({"rounds": rounds[::-1]}, VerificationFailed),
        ({"rounds": swapped}, VerificationFailed),
        ({"query": query | {"column": "other"}}, VerificationFailed),
        ({"query": query | {"verb": "count"}}, (InvalidFormat, VerificationFailed)),
        ({"query": 7}, (InvalidFormat, VerificationFailed)),
        ({"rounds": [7]}, (InvalidFormat, VerificationFailed)),
        ({"version": 2}, InvalidFormat),
        ({"format": "something"}, InvalidFormat),
    ):
        path.write_text(json.dumps(content | change))
        with pytest.raises(error):
            th.load(path)
        forged = {name: value for name, value in (content | change).items() if name != "digest"}
        path.write_text(json.dumps(forged | {"digest": _digest(forged)}))
        if change not in ({"rounds": swapped},):  # whoever can rewrite the file can recompute the digest
            with pytest.raises((InvalidFormat, VerificationFailed)):
                th.load(path)
    path.write_text("[" * 100_000)
    with pytest.raises(InvalidFormat):
        th.load(path)


def test_an_infinite_bucket_of_a_domain_is_saved(tmp_path):
    numbers = np.array([0.5] * 3_000 + [np.inf] * 3_000)
    answer = th.histogram(numbers, "value", plan=ONE, domain=[0.5, np.inf, -np.inf])
    answer.save(tmp_path / "answer.json")
    assert th.load(tmp_path / "answer.json").below_threshold == [-np.inf]


def test_a_seeded_answer_stays_not_private(tmp_path):
    table = th.tables.Table(WORDS, randomness=SeededRandomness(1))
    th.heavy_hitters(table, "value", plan=ONE).save(tmp_path / "seeded.json")
    again = th.load(tmp_path / "seeded.json")
    assert not again.private
    with pytest.raises(VerificationFailed):
        _ = again.guarantee
