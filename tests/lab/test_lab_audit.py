"""The audit comes close to the claim from below, never beyond it, and finds every planted fault.

The faults live here. Every audit of a mechanism that is right raises a false alarm with probability ALPHA at most.
"""

import json
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import typer
from scipy import stats
from typer.testing import CliRunner

from thresher.cli import audit as command
from thresher.cli.output import console
from thresher.errors import InvalidSetting, VerificationFailed, exit_code
from thresher.lab.audit import ABSENT, AuditReport, Population, audit, neighbouring_pairs, paths
from thresher.lab.audit.attacks import Bounds, _telling_outcomes, clopper_pearson
from thresher.mechanism import Release, coins, sample_and_threshold, thin, threshold
from thresher.privacy import Plan, delta
from thresher.privacy.settings import dyadic

pytestmark = pytest.mark.slow

ALPHA = 1e-9  # false alarm per audit
WEAK = {"sampling_rate": 0.3, "threshold": 4, "epsilon": 1.0}
TRIALS = 200_000


def weak_audit(**settings) -> AuditReport:
    return audit(**WEAK, **({"trials": TRIALS, "confidence": 1 - ALPHA} | settings))


# What is shipped


def test_the_audit_comes_close_to_the_claim_from_below():
    report = weak_audit(adjacency="add-remove", paths=["counts"], trials=4_000_000)
    (finding,) = report.findings
    assert report.claimed_delta == delta(**WEAK, adjacency="add-remove")
    assert 8.7e-3 < report.claimed_delta < 8.8e-3
    assert 0.8 < finding.ratio <= 1, "89 % is expected, with a deviation of 0.6 %"
    assert 0.8 < finding.epsilon_lower <= 1.0
    assert report.verdict == finding.verdict == "no violation found"
    report.verify()


@pytest.mark.parametrize(
    ("adjacency", "trials", "least"),
    # A few trials prove little with so small an ALPHA; 0.1 is over three deviations below the worst that is chosen.
    [("add-remove", 200_000, 0.1), ("replace", 60_000, 0)],
)
def test_no_path_is_beyond_the_claim(adjacency, trials, least):
    report = weak_audit(adjacency=adjacency, trials=trials)
    assert [finding.path for finding in report.findings] == [
        "counts",
        "table, rows sampled",
        "table, counts thinned",
        "device",
    ]
    for finding in report.findings:
        assert least <= finding.ratio <= 1, finding
    assert report.measurable and not report.violations


def test_several_rounds_with_fresh_coins_stay_within_the_composed_claim():
    report = weak_audit(adjacency="add-remove", paths=["counts", "device"], rounds=2)
    assert report.claimed_delta == delta(**WEAK, adjacency="add-remove", rounds=2)
    assert all(0.3 < finding.ratio <= 1 for finding in report.findings)


def test_at_high_rates_a_table_thins_only():
    report = audit(0.5, 3, 0.2, adjacency="add-remove", trials=100_000, confidence=1 - ALPHA, paths=["table"])
    assert [finding.path for finding in report.findings] == ["table, counts thinned"]
    assert 0.5 < report.findings[0].ratio <= 1, "80 % is expected"


# Planted faults: each is found, and what is right at the same settings is not flagged (above).


def off_by_one(population: Population, trials: int, plan: Plan) -> np.ndarray:
    return paths.from_counts(population, trials, replace(plan, threshold=plan.threshold - 1))


def rate_too_high(population: Population, trials: int, plan: Plan) -> np.ndarray:
    return paths.from_devices(population, trials, replace(plan, sampling_rate=dyadic(1.1 * plan.sampling_rate)))


def released_sample_size(population: Population, trials: int, plan: Plan) -> np.ndarray:
    counts = thin(np.tile(population.counts(0), trials), plan)
    released = np.where(threshold(counts, plan), counts, 0).reshape(trials, population.buckets)
    return np.column_stack([released, counts.reshape(trials, population.buckets).sum(axis=1)])


def reused_sample(population: Population, trials: int, plan: Plan) -> np.ndarray:
    sampled = coins(trials * population.units, plan.sampling_rate).reshape(trials, population.units)
    columns = [
        (sampled & (np.array(answers) == bucket)).sum(axis=1)
        for answers in population.answers
        for bucket in range(population.buckets)
    ]
    counts = np.column_stack(columns)
    return np.where(threshold(counts, plan), counts, 0)


FAULTS: list[tuple[Callable, float, int, int, float]] = [  # rate, threshold, rounds, a delta that should be proved
    (off_by_one, 0.3, 4, 1, 0.8 * 0.3**3),
    (rate_too_high, 0.25, 3, 1, 0.8 * 0.275**3),
    (released_sample_size, 0.3, 4, 1, 0.9 * 0.3),
    (reused_sample, 0.3, 4, 2, 0.9 * 0.3 * stats.binom.sf(3, 26, 0.3)),
]


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize(("fault", "rate", "least", "rounds", "expected"), FAULTS)
def test_planted_faults_are_found(fault, rate, least, rounds, expected, adjacency):
    settings = {"adjacency": adjacency, "rounds": rounds, "trials": 400_000, "confidence": 1 - ALPHA}
    report = audit(rate, least, 1.0, mechanism=fault, **settings)
    (finding,) = report.findings
    assert finding.violation and finding.delta_lower > expected > 0
    assert finding.epsilon_lower > 1.0, "the same draws disprove epsilon at the claimed delta"
    assert report.verdict.startswith("VIOLATION") and "VIOLATION" in report.in_words()
    with pytest.raises(VerificationFailed, match="violation"):
        report.verify()


def test_a_fault_that_shows_only_in_the_smaller_population_is_found():
    """Adding a unit hides something: one time in twenty, a bucket that is too small to be seen is marked."""

    def marks_small_buckets(population, trials, plan):
        small = population.counts(0)[0] < plan.threshold
        marked = coins(trials, dyadic(0.05)) & small
        return np.column_stack([paths.from_counts(population, trials, plan), marked])

    report = weak_audit(adjacency="add-remove", mechanism=marks_small_buckets)
    best = report.findings[0].best
    # The expected bound is 0.047 with a deviation of √(0.05·0.95/200,000) = 0.0005.
    assert report.violations and best.delta_lower > 0.04
    assert (best.populations, best.event) == ("4 units against 3", "exactly not released, 1 shown beside the counts")


def test_a_table_that_counts_every_row_of_a_unit_is_found(monkeypatch):
    class EveryRow(paths.Table):
        def __init__(self, data, unit=None):
            super().__init__(data)

    monkeypatch.setattr(paths, "Table", EveryRow)
    report = weak_audit(adjacency="add-remove", paths=["table"], trials=50_000)
    assert [finding.violation for finding in report.findings] == [False, True]


def test_gross_faults_are_found_where_the_claim_is_too_small_to_measure():
    report = audit(0.1, 10, 1.0, adjacency="add-remove", trials=20_000, mechanism=released_sample_size)
    assert not report.measurable
    # The expected bound is 0.092 with a deviation of √(0.1·0.9/20,000) = 0.002.
    assert report.findings[0].delta_lower > 0.07 and report.violations


def test_a_setting_that_is_too_strong_to_measure_is_called_so():
    report = audit(0.1, 10, 1.0, trials=20_000, paths=["counts"], confidence=1 - ALPHA)
    assert report.claimed_delta < 1.1e-8
    assert report.verdict == report.findings[0].verdict == "too strong to measure"
    assert report.in_words().startswith("This setting is too strong to measure")
    report.verify()


# What makes it an audit


def test_bounds_are_those_of_clopper_and_pearson():
    for hits, trials in [(0, 50), (3, 50), (50, 50), (812, 100_000)]:
        bounds = clopper_pearson(hits, hits, trials, 0.01)
        test = stats.binomtest(hits, trials)
        assert bounds.low == pytest.approx(test.proportion_ci(0.98, "exact").low, rel=1e-9)
        assert bounds.high == pytest.approx(test.proportion_ci(0.98, "exact").high, rel=1e-9)


def test_both_bounds_agree_on_what_disproves_a_claim():
    for low, high in [(0.03, 0.008), (0.027, 1e-6), (0.4, 0.3), (0.0, 1.0)]:
        bounds = Bounds(low, high)
        assert (bounds.delta_lower(1.0) > 0.005) == (bounds.epsilon_lower(0.005) > 1.0)
    assert Bounds(0.03, 0.008).epsilon_lower(0.03 - math.e * 0.008) == pytest.approx(1.0)


def test_an_attack_that_is_fitted_to_chance_proves_nothing():
    """Outcomes that say nothing about anybody, so many of them that some look telling on the draws they came from."""

    def noise(population, trials, plan):
        return np.random.default_rng().integers(0, 5000, (trials, 1))

    report = weak_audit(adjacency="add-remove", mechanism=noise, trials=20_000)
    assert report.findings[0].delta_lower == 0
    plan = Plan(dyadic(0.3), 4, 1.0, 0.01, "add-remove")
    pair = neighbouring_pairs(plan)[0]
    first, second = noise(pair.first, 20_000, plan), noise(pair.second, 20_000, plan)
    (fitted,) = _telling_outcomes(first, second, pair, plan)
    in_sample = [int(np.sum(fitted.happens(draws))) for draws in (first, second)]
    # The negative control: measured on the same draws, it would seem to prove what is not so.
    assert clopper_pearson(*in_sample, 20_000, ALPHA).delta_lower(1.0) > 1e-3


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize(("rate", "least"), [(0.3, 4), (0.1, 20), (0.7, 1), (0.9, 3)])
def test_pairs_differ_in_one_unit(adjacency, rounds, rate, least):
    pairs = neighbouring_pairs(Plan(dyadic(rate), least, 0.5, 0.1, adjacency, rounds))
    assert 1 < len(pairs) < 60
    for pair in pairs:
        assert pair.first.rounds == pair.second.rounds == rounds
        assert pair.second.units == pair.first.units - (adjacency == "add-remove")
        for asked in range(rounds):
            before, after = pair.first.answers[asked], pair.second.answers[asked]
            assert before[:-1] == after[: len(before) - 1], "only the last unit differs"


def test_the_paths_show_the_same():
    """With a rate of all but one, every path shows the exact counts that reach the threshold."""
    plan = Plan(1 - 2.0**-53, 3, 1.0, 0.5, rounds=2)
    population = Population(((0, 0, 0, 1, 1), (1, 1, 1, ABSENT, 1)), buckets=2)
    mechanisms = [
        paths.from_counts,
        paths.from_devices,
        paths.FromTable(several_rows=False),
        paths.FromTable(several_rows=True),
    ]
    for mechanism in mechanisms:
        assert mechanism(population, 5, plan).tolist() == [[3, 0, 0, 4]] * 5
        assert mechanism(population, 2, plan).tolist() == [[3, 0, 0, 4]] * 2
    nobody = Population(((), ()), buckets=1)
    for mechanism in mechanisms:
        assert mechanism(nobody, 3, plan).tolist() == [[0, 0]] * 3


def test_a_release_with_more_than_its_rows_is_refused():
    plan = Plan(dyadic(0.5), 3, 1.0, 0.5)
    release = sample_and_threshold({"a": 500, "b": 400}, plan)
    paths.require_only_rows(release)
    marked = Release(release.table.replace_schema_metadata({"sampled": "447"}), plan, True)
    reordered = Release(release.table.take(pa.array([1, 0])), plan, True)
    for leaky in (marked, reordered):
        with pytest.raises(VerificationFailed, match="does not follow"):
            paths.require_only_rows(leaky)


@pytest.mark.parametrize(("rate", "least", "epsilon"), [(0.01, 400, 1.0), (1e-6, 20, 0.1), (0.999, 2, 0.001)])
def test_extreme_settings_have_a_report(rate, least, epsilon):
    report = audit(rate, least, epsilon, trials=1000, paths=["counts"], confidence=1 - ALPHA)
    assert not report.violations
    json.dumps(report.to_dict(), allow_nan=False)


def test_settings_are_checked():
    for wrong in (
        {"paths": ["cloud"]},
        {"paths": "counts"},
        {"paths": []},
        {"trials": 10},
        {"confidence": 1.0},
        {"rounds": 9},
        {"adjacency": "both"},
    ):
        with pytest.raises(InvalidSetting):
            weak_audit(**wrong)


# Who watches


def test_progress_reaches_its_total():
    steps = []
    weak_audit(trials=2000, paths=["counts", "device"], progress=lambda *step: steps.append(step))
    done = [step[0] for step in steps]
    assert done == sorted(set(done)) and done[-1] == steps[-1][1]
    assert {what.split(":")[0] for _, _, what in steps} == {"counts", "device"}


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setattr(console, "_width", 120)
    app = typer.Typer()
    app.command("audit")(command.audit)
    setting = ["--sampling-rate", ".3", "--threshold", "4", "--epsilon", "1", "--trials", "100000"]
    return lambda *options: CliRunner().invoke(app, [*setting, *options])


def test_the_command_prints_a_table_and_says_what_it_means(run):
    shown = run("--path", "counts", "--confidence", "0.999999999")
    assert shown.exit_code == 0
    for word in ("counts", "100,000", "claimed", "0.0103", "no violation found", "No violation found."):
        assert word in shown.stdout


def test_the_command_prints_json(run):
    shown = run("--path", "all", "--adjacency", "add-remove", "--confidence", "0.999999999", "--json")
    content = json.loads(shown.stdout)
    assert content["verdict"] == "no violation found" and len(content["findings"]) == 4
    assert all(finding["delta_lower"] <= finding["claimed_delta"] for finding in content["findings"])


def test_the_command_fails_on_a_violation(run, monkeypatch):
    monkeypatch.setattr(paths, "from_counts", released_sample_size)
    shown = run("--path", "counts")
    assert isinstance(shown.exception, VerificationFailed) and exit_code(shown.exception) == 5
    assert "VIOLATION" in shown.stdout
