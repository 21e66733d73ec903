"""The lab's experiments: what they expect is what they simulate, and the report says what the numbers say."""

from __future__ import annotations

import csv
import html
import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from thresher import privacy
from thresher.cli import lab as command
from thresher.errors import InvalidSetting
from thresher.lab import experiments, rivals
from thresher.lab.experiments import (
    accuracy,
    claims,
    comparison,
    expected,
    heavy_hitters,
    interval_widths,
    mechanisms,
    sweeps,
    trie_shapes,
)
from thresher.lab.experiments import runner as running
from thresher.lab.experiments.people import NumberPeople, WordPeople, vocabulary
from thresher.lab.experiments.settings import plan_of
from thresher.lab.experiments.statistics import largest, recall
from thresher.privacy import Plan
from thresher.questions import Below, Cells, Prefixes, RecountedPrefixes, Values

ALPHA = 1e-9  # false alarm per check


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything that `thresher lab figures --fast` writes, with a made-up text for Shakespeare's."""
    folder = tmp_path_factory.mktemp("lab")
    generator = np.random.default_rng(5)
    ranks = np.minimum(generator.zipf(1.3, 60_000), 4_000)
    letters = "abcdefghijklmnopqrstuvwxyz"
    text = folder / "text.txt"
    text.write_text(" ".join(letters[rank % 26] + letters[rank // 26 % 26] + letters[rank // 676] for rank in ranks))
    arguments = ["figures", "--fast", "--text", str(text), "--output", str(folder / "out"), "--processes", "1"]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(interval_widths, "TIMES", 3)  # tests/verbs/test_interval_coverage.py looks at them for long
        result = CliRunner().invoke(command.app, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert "holds" in result.output
    return folder / "out"


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


# What is expected


@pytest.mark.parametrize(("rate", "threshold"), [(0.1, 20), (0.3, 4), (0.016, 2), (0.9, 1)])
def test_expected_error_of_the_threshold_is_the_sum_over_all_samples(rate: float, threshold: int) -> None:
    counts = np.array([0, 1, 3, 19, 20, 150, 233, 1000, 0])
    by_hand = []
    for count in counts.tolist():
        sampled = np.arange(count + 1)
        released = np.where(sampled >= threshold, sampled / rate, 0.0)
        by_hand.append(np.dot(stats.binom.pmf(sampled, count, rate), np.abs(released - count)))
    assert expected.threshold_error(counts, rate, threshold) == pytest.approx(np.mean(by_hand), rel=1e-10)


@pytest.mark.parametrize(("rate", "epsilon"), [(0.1, 1.0), (0.3, 0.1), (0.016, 0.5)])
def test_expected_error_of_laplace_has_a_second_witness(rate: float, epsilon: float) -> None:
    """The sum over all samples; given a gap d to its mean, E|d + noise| is |d| + scale·exp(−|d|/scale)."""
    scale = rivals.CentralLaplace(epsilon).scale
    counts = np.array([0, 0, 1, 7, 80, 400, 1234, 99_000])
    by_hand = []
    for count in counts.tolist():
        sampled = np.arange(count + 1)
        gap = np.abs(sampled - count * rate)
        by_hand.append(np.dot(stats.binom.pmf(sampled, count, rate), gap + scale * np.exp(-gap / scale)) / rate)
    assert expected.laplace_error(counts, rate, scale) == pytest.approx(np.mean(by_hand), rel=1e-9)


@pytest.mark.slow
def test_simulated_errors_are_the_expected_ones() -> None:
    rows = []
    for seed, (dataset, buckets) in enumerate(
        (name, size) for name in ("binomial", "geometric") for size in (256, 1024)
    ):
        people = accuracy.population(dataset, buckets, 1_000_000, np.random.default_rng(seed))
        for epsilon in (0.1, 0.2, 0.4, 0.6, 0.8, 1.0):
            for number, rule in enumerate(("paper", "exact")):
                sequence = np.random.SeedSequence([seed, round(10 * epsilon), number])
                names = (mechanisms.THRESHOLD, mechanisms.LAPLACE)
                rows += accuracy.measured(people, epsilon, 1e-8, rule, 10, sequence, names=names)  # type: ignore[arg-type]
    for name in (mechanisms.THRESHOLD, mechanisms.LAPLACE):
        scores = comparison.scores(rows, name, 10)
        assert len(scores) == 48
        print(f"{name}: mean {scores.mean():+.2f}, deviation {scores.std():.2f}")
        assert stats.kstest(scores, "norm").pvalue > ALPHA
        wrong = [row | {"mae_expected": 1.05 * row["mae_expected"]} for row in rows]
        assert stats.kstest(comparison.scores(wrong, name, 10), "norm").pvalue < ALPHA  # the test can fail


# How samples are drawn


def test_counts_drawn_by_bucket_and_by_client_agree() -> None:
    people, rate, draws = np.array([300, 120, 45, 5, 0]), 0.2, 6000
    random = np.random.default_rng(8)
    held = np.repeat(np.arange(len(people)), people)

    def by_client(chance: float) -> np.ndarray:
        kept = random.random((draws, len(held))) < chance
        return np.stack([kept[:, held == bucket].sum(axis=1) for bucket in range(len(people))], axis=1)

    def error(samples: np.ndarray) -> np.ndarray:
        return np.abs(np.where(samples >= 10, samples, 0) / rate - people).mean(axis=1)

    buckets, clients, wrong = (
        random.binomial(people, rate, (draws, len(people))),
        by_client(rate),
        by_client(1.1 * rate),
    )
    for bucket in (0, 1, 2):
        assert stats.ks_2samp(buckets[:, bucket], clients[:, bucket]).pvalue > ALPHA
        assert stats.ks_2samp(buckets[:, bucket], wrong[:, bucket]).pvalue < ALPHA
    assert stats.ks_2samp(error(buckets), error(clients)).pvalue > ALPHA
    assert stats.ks_2samp(error(buckets), error(wrong)).pvalue < ALPHA


def test_people_in_memory_answer_as_their_questions_say() -> None:
    """At a rate of nearly 1 the sample is the population."""
    everyone = Plan(1 - 2.0**-40, 1, 1.0, 0.5)
    words = vocabulary(30_000, np.random.default_rng(2), words=500)
    assert sum(words.values()) == 30_000
    people = WordPeople(words, np.random.default_rng(3))
    extended = (3, 2, frozenset({"et", "te", "ta"}))
    again = frozenset(word for word in list(words)[:50] if len(word) < 3)
    for question in (
        Values(("w",)),
        Prefixes("w", 2),
        Prefixes("w", *extended),
        RecountedPrefixes("w", 6, 3, frozenset({"eta", "tea"}), again),
    ):
        tally: Counter[str] = Counter()
        for word, count in words.items():
            bucket = question.bucket(word)
            if bucket is not None:
                tally[bucket] += count
        release = people.ask(question, everyone)
        assert dict(zip(release.buckets, release.counts.tolist(), strict=True)) == dict(tally)
        assert not release.private
    numbers = np.random.default_rng(4).lognormal(0, 1, 2000)
    holders = NumberPeople(numbers, np.random.default_rng(5))
    for other in (Below("x", 1.5), Cells("x", 0, 5, 64)):
        release = holders.ask(other, everyone)
        assert dict(zip(release.buckets, release.counts.tolist(), strict=True)) == Counter(map(other.bucket, numbers))


def test_recall_counts_ties_as_right_and_never_what_was_not_released() -> None:
    random = np.random.default_rng(1)

    def found(counts: list[int], estimates: list[float], k: int) -> float:
        return recall(largest(np.array(counts), k), np.array(estimates, dtype=float), k, random)

    counts = [9, 5, 5, 5, 1, 0]
    assert found(counts, [9, 0, 0, 5, 0, 0], 2) == 1  # any bucket of 5 is the second largest
    assert found(counts, [0, 0, 0, 5, 0, 0], 2) == 0.5
    assert found(counts, [1, 0, 0, 0, 9, 9], 2) == 0
    assert found(counts, [0, 0, 0, 0, 0, 0], 2) == 0
    assert found([3, 0, 0, 0], [3, 0, 0, 0], 2) == 1  # only one is not empty
    assert found([3, 2, 0, 0], [3, -1, 1, -1], 2) == 0.5
    tied = [found([2, 1, 0, 0], [1, 1, 1, 1], 1) for _ in range(400)]
    assert 0 < np.mean(tied) < 0.5  # broken at random, right one time in four


# What is claimed


def _made_up(ours: float, laplace: float) -> list[running.Row]:
    shared = {"rule": "paper", "recall": 1.0, "mae_se": 0.0, "mae_expected": None}
    return [
        shared
        | {"dataset": "binomial", "buckets": 1024, "epsilon": epsilon, "mechanism": name}
        | {"mae": {mechanisms.THRESHOLD: ours, mechanisms.LAPLACE: laplace * epsilon}.get(name, 100.0)}
        for epsilon in (0.1, 0.5, 1.0)
        for name in mechanisms.NAMES
    ]


def test_verdicts_follow_the_numbers() -> None:
    def first(ours: float, laplace: float) -> claims.Verdict:
        return claims.judge(_made_up(ours, laplace))[0]

    assert first(1.0, 20.0).verdict == claims.HOLDS
    some = first(1.0, 5.0)
    assert some.verdict == claims.EXCEPT
    assert some.exceptions == ("binomial, B = 2^10 at ε = 0.1 (0.5)",)
    assert some.reason
    assert first(10.0, 1.0).verdict == claims.FAILS
    others = [verdict for verdict in claims.judge(_made_up(1.0, 20.0)) if verdict.claim.startswith("Shakespeare")]
    assert {verdict.verdict for verdict in others} == {claims.UNTESTED}


@pytest.mark.slow
def test_the_papers_claims_hold_where_they_should(output: Path) -> None:
    rows = [
        row
        | {"buckets": int(row["buckets"]), "epsilon": float(row["epsilon"])}
        | {name: float(row[name]) for name in ("mae", "mae_se", "recall")}
        for row in _rows(output / "accuracy.csv")
    ]
    synthetic = [row for row in rows if row["dataset"] != "shakespeare"]
    for rule in ("paper", "exact"):
        verdicts = {verdict.claim: verdict for verdict in claims.judge(synthetic, rule)}  # type: ignore[arg-type]
        for start in ("Sample-and-threshold is ahead", "Local privacy", "Shuffled noise", "The gap", "Recall"):
            (verdict,) = (found for claim, found in verdicts.items() if claim.startswith(start))
            assert verdict.verdict == claims.HOLDS, verdict


@pytest.mark.slow
def test_tables_are_written_as_files_too(output: Path) -> None:
    ratios = _rows(output / "rules.csv")
    assert len(ratios) == 3 * 3 * 3
    assert all(0 < float(row["mae_ratio"]) < 1.2 for row in ratios)
    assert len(_rows(output / "examples.csv")) == len(experiments.examples())


@pytest.mark.slow
def test_the_exact_plan_is_ahead_of_the_papers_rule(output: Path) -> None:
    by_rule = {
        rule: [
            float(row["mae_expected"])
            for row in _rows(output / "accuracy.csv")
            if row["mechanism"] == mechanisms.THRESHOLD and row["rule"] == rule
        ]
        for rule in ("paper", "exact")
    }
    assert all(exact < paper for exact, paper in zip(by_rule["exact"], by_rule["paper"], strict=True))
    found = {(row["rule"], row["method"]): float(row["recall"]) for row in _rows(output / "heavy.csv")}
    assert found["exact", heavy_hitters.TRIE_PLUS] >= found["paper", heavy_hitters.TRIE_PLUS]
    errors: dict[str, list[float]] = {"paper": [], "exact": []}
    for row in _rows(output / "quantiles.csv"):
        errors[row["rule"]].append(float(row["rank_error"]))
    assert np.mean(errors["exact"]) < np.mean(errors["paper"])


def test_credit_for_amplification_helps_rivals_only() -> None:
    people = accuracy.population("geometric", 256, 1_000_000, np.random.default_rng(1))
    names = (mechanisms.THRESHOLD, mechanisms.LAPLACE)

    def errors(credit: bool) -> dict[str, float]:
        seed = np.random.SeedSequence(1)
        rows = accuracy.measured(people, 0.5, 1e-8, "paper", 2, seed, names=names, credit_amplification=credit)
        return {row["mechanism"]: row["mae_expected"] for row in rows}

    without, credited = errors(False), errors(True)
    assert credited[mechanisms.THRESHOLD] == without[mechanisms.THRESHOLD]
    assert credited[mechanisms.LAPLACE] < without[mechanisms.LAPLACE]


# Numeric examples and rules


def test_numeric_examples_name_the_slips() -> None:
    found = experiments.examples()
    assert len(found) >= 15
    wrong = {example.quantity for example in found if not example.agrees}
    assert any("ε/5" in quantity for quantity in wrong)
    assert any("ln(1/2β)" in quantity for quantity in wrong)
    assert any("rank error" in quantity for quantity in wrong)
    by_name = {example.quantity: example for example in found}
    assert by_name["φ·n with p = 0.1, γ = 1/√10, ln(1/2β) = 10"].corrected == pytest.approx(3416, abs=1)


def test_both_rules_keep_their_promise() -> None:
    for rule in ("paper", "exact"):
        for rounds in (1, 10):
            assert plan_of(rule, 1.0, 1e-8, rounds).verify() <= 1e-8  # type: ignore[arg-type]
    assert plan_of("paper", 1.0, 1e-8).sampling_rate == pytest.approx(privacy.paper.rule(1.0, 1e-8).sampling_rate)
    with pytest.raises(InvalidSetting):
        plan_of("other", 1.0, 1e-8)  # type: ignore[arg-type]


# Running


@pytest.mark.slow
def test_the_accuracy_file_has_exactly_these_columns(output: Path) -> None:
    with (output / "accuracy.csv").open() as file:
        assert file.readline().strip() == (
            "dataset,buckets,epsilon,delta,rule,mechanism,mae,mae_se,mae_expected,recall,recall_se"
        )
    rows = _rows(output / "accuracy.csv")
    assert {row["rule"] for row in rows} == {"paper", "exact"}
    assert {row["mechanism"] for row in rows} == set(mechanisms.NAMES)
    assert {row["dataset"] for row in rows} == {"binomial", "geometric", "shakespeare"}
    known = {row["mechanism"] for row in rows if row["mae_expected"]}
    assert known == {mechanisms.THRESHOLD, mechanisms.LAPLACE, mechanisms.LAPLACE_ADD_REMOVE}


def test_a_second_run_only_does_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = experiments.fast()
    first = experiments.run_experiments(["sweeps"], settings, tmp_path, processes=1)
    kept = sorted((tmp_path / "tasks").iterdir())
    kept[0].unlink()
    kept[1].write_text("[{")  # as if the disk had been full
    computed: list[str] = []
    original = running.Task.rows

    def counted(task: running.Task) -> list[running.Row]:
        computed.append(task.file_name)
        return original(task)

    monkeypatch.setattr(running.Task, "rows", counted)
    assert experiments.run_experiments(["sweeps"], settings, tmp_path, processes=1) == first
    assert sorted(computed) == [path.name for path in kept[:2]]


@pytest.mark.slow
def test_rows_depend_on_the_seed_and_not_on_order_or_processes(tmp_path: Path) -> None:
    settings = experiments.fast(seed=7)
    tasks = sweeps.tasks(settings)
    together = running.run({"sweeps": tasks}, tmp_path / "two", processes=2)["sweeps"]
    alone = running.run({"sweeps": tasks[::-1]}, tmp_path / "one", processes=1)["sweeps"]
    assert sorted(map(json.dumps, together)) == sorted(map(json.dumps, alone))
    assert sweeps.tasks(experiments.fast(seed=8))[0].rows() != tasks[0].rows() == tasks[0].rows()


def test_unknown_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="accuracy"):
        experiments.run_experiments(["nothing"], experiments.fast(), tmp_path)
    with pytest.raises(InvalidSetting):
        _ = experiments.fast(text=tmp_path / "missing.txt").text_digest


# What people see


@pytest.mark.slow
def test_every_figure_is_written(output: Path) -> None:
    names = {"accuracy", "recall", "rules", "population", "delta", "heavy", "quantiles", "intervals"}
    for name in names:
        assert (output / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "</svg>" in (output / f"{name}.svg").read_text(encoding="utf-8")
    shown = (output / "accuracy.svg").read_text(encoding="utf-8")
    assert "not credited" in shown
    assert "standard errors" in shown


@pytest.mark.slow
def test_the_report_stands_alone_and_judges_every_claim(output: Path) -> None:
    text = (output / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"(src|href)\s*=", text)
    assert not re.search(r"<script|@import|url\((?!#)", text)
    assert text.count("<svg") == 8
    names = re.findall(r'\bid="([^"]+)"', text)
    assert len(names) == len(set(names))
    for claim in claims.judge(_made_up(1.0, 20.0)):
        assert html.escape(claim.claim) in text
    for word in ("Numeric examples", "exact plan", "not credited", "seed 1"):
        assert word in text


def test_the_command_prints_tables_for_people_and_machines(tmp_path: Path) -> None:
    runner = CliRunner()
    shown = runner.invoke(command.app, ["table", "--json"], catch_exceptions=False)
    assert len(json.loads(shown.output)) == len(experiments.examples())
    assert "corrected" in runner.invoke(command.app, ["table"], catch_exceptions=False).output
    arguments = ["run", "sweeps", "--fast", "--output", str(tmp_path), "--processes", "1"]
    assert "sweeps.csv" in runner.invoke(command.app, arguments, catch_exceptions=False).output
    assert len(_rows(tmp_path / "sweeps.csv")) == 64


@pytest.mark.slow
def test_tries_of_every_shape_are_measured() -> None:
    task = next(task for task in trie_shapes.tasks(experiments.fast()) if task.settings["corpus"] == "strings")
    rows = trie_shapes.rows(dict(task.settings) | {"people": 100_000, "runs": 3}, np.random.SeedSequence(1))
    assert [(row["levels"], row["step"]) for row in rows] == list(trie_shapes.SHAPES)
    assert all(row["found"] > 0 and 0 <= row["seen_rare"] <= 1 for row in rows)
    by_shape = {(row["levels"], row["step"]): row for row in rows}
    assert by_shape[4, 6]["found"] > by_shape[10, 1]["found"]
    assert by_shape[4, 6]["cut"] == 0 < by_shape[4, 3]["cut"]
    assert sum(row["again"] for row in rows) < 0.9 * sum(row["once"] for row in rows)
