"""The audit of rounds in which several values of a unit count: within the claim, and every planted fault is found.

The faults live here. Every audit of a mechanism that is right raises a false alarm with probability ALPHA at most.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import typer
from scipy import stats
from typer.testing import CliRunner

from thresher import plan as make_plan
from thresher.cli import audit as command
from thresher.errors import InvalidSetting
from thresher.lab.audit import ABSENT, Population, audit, paths
from thresher.lab.audit.fleet_path import FromFleet
from thresher.lab.audit.neighbours import LARGEST
from thresher.lab.audit.several_values import counting, distinct_values, several_pairs
from thresher.mechanism import coins, threshold
from thresher.privacy import Plan, delta
from thresher.privacy.settings import dyadic

ALPHA = 1e-9  # false alarm per audit
WEAK = {"sampling_rate": 0.3, "threshold": 4, "epsilon": 1.0, "contributions": 2}
HELD = Population(((0, 1, 0, 1, 0, 1, 1, 0),), buckets=2, holders=(0, 1, 2, 3, 4, 4, 4, 4))
"""Four units with one value; the last one has two in each of two buckets."""


# What is shipped


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_no_path_is_beyond_the_claim_of_several_values(adjacency):
    report = audit(0.5, 2, 1.0, contributions=2, adjacency=adjacency, trials=20_000, confidence=1 - ALPHA)
    assert [finding.path for finding in report.findings] == ["counts", "table, counts thinned", "device"]
    assert report.claimed_delta == delta(
        sampling_rate=0.5, threshold=2, epsilon=1.0, adjacency=adjacency, contributions=2
    )
    assert report.contributions == 2 and report.measurable
    for finding in report.findings:
        # Two buckets of two units: 1 − (1 − 0.25)² = 0.44 is expected, less 6.5 deviations of 0.0035 for the bound.
        assert 0.9 < finding.ratio <= 1, finding


@pytest.mark.slow
def test_rounds_and_contributions_are_claimed_together():
    settings = {"sampling_rate": 0.5, "threshold": 2, "epsilon": 1.0, "contributions": 2, "rounds": 2}
    report = audit(**settings, paths=["counts"], trials=20_000, confidence=1 - ALPHA)
    assert report.claimed_delta == delta(**settings)
    assert 0.8 < report.findings[0].ratio <= 1


# Planted faults: each is found, and what is right at the same settings is not flagged.


def released(counts: np.ndarray, plan: Plan) -> np.ndarray:
    return np.where(threshold(counts, plan), counts, 0)


def tosses(population: Population, trials: int, plan: Plan) -> np.ndarray:
    return coins(trials * population.values, plan.sampling_rate).reshape(trials, population.values)


def twice_in_a_bucket(population: Population, trials: int, plan: Plan) -> np.ndarray:
    """Duplicates stay: two values of a unit in one bucket have two coins there. So many values at most are counted."""
    unit = np.array(population.units_of_values)
    before = np.array([np.count_nonzero(unit[:place] == unit[place]) for place in range(population.values)])
    counted = tosses(population, trials, plan) & (before < plan.contributions)
    return released(paths.tally(population, 0, counted), plan)


def one_coin(population: Population, trials: int, plan: Plan) -> np.ndarray:
    """The last unit's coin admits all of its values or none. The others have one value: their counts are thinned."""
    units, held = (np.array(row, dtype=np.int64) for row in (population.units_of_values, population.answers[0]))
    last = np.isin(units, units[-1:])
    own = np.bincount(held[last], minlength=population.buckets) if last.sum() <= plan.contributions else 0
    others = np.bincount(held[~last], minlength=population.buckets)
    sampled = np.random.default_rng().binomial(others, plan.sampling_rate, (trials, population.buckets))
    return released(sampled + coins(trials, plan.sampling_rate)[:, None] * np.minimum(own, 1), plan)


def capped_after_tossing(population: Population, trials: int, plan: Plan) -> np.ndarray:
    """A coin is tossed for every value of a unit; of those with heads, so many are kept."""
    heads = tosses(population, trials, plan) & distinct_values(population, 0)
    units = np.array(population.units_of_values)
    # Only the last unit can have more than one value. The order of its values is as good as a random one: which buckets
    # are kept does not matter where all of them are alike.
    last = np.flatnonzero(units == units[-1])
    heads[:, last] &= heads[:, last].cumsum(axis=1) <= plan.contributions
    return released(paths.tally(population, 0, heads), plan)


class ChargedAsOne:
    """A shipped table, with the sampling rate that the same epsilon and delta allow for one contribution."""

    def __init__(self) -> None:
        self._table = paths.FromTable(several_rows=True)

    def __call__(self, population: Population, trials: int, plan: Plan) -> np.ndarray:
        one = make_plan(plan.epsilon, plan.delta, threshold=plan.threshold, adjacency=plan.adjacency)
        assert one.sampling_rate > plan.sampling_rate
        return self._table(population, trials, replace(plan, sampling_rate=one.sampling_rate))


# What each fault should prove at least: eight tenths of what the best event of the worst pair has.
# Duplicates: three others and two coins, of which four come up. Capped: of six coins at most two count, and three
# others are all sampled. One contribution: the rate is about 0.36, in two buckets.
RATE, TAU = WEAK["sampling_rate"], WEAK["threshold"]
CAPPED = float(np.minimum(np.arange(7), 2) @ stats.binom.pmf(np.arange(7), 6, RATE))
FAULTS: list[tuple[Callable, int, float]] = [
    (twice_in_a_bucket, 100_000, 0.8 * stats.binom.sf(TAU - 1, TAU + 1, RATE)),
    (capped_after_tossing, 100_000, 0.8 * CAPPED * RATE ** (TAU - 1)),
    (ChargedAsOne(), 40_000, 0.8 * 2 * 0.36**TAU),
]


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "trials", "expected"), FAULTS)
def test_faults_of_several_values_are_found(fault, trials, expected):
    report = audit(**WEAK, mechanism=fault, trials=trials, confidence=1 - ALPHA)
    (finding,) = report.findings
    assert finding.violation and finding.delta_lower > expected > report.claimed_delta
    assert finding.epsilon_lower > WEAK["epsilon"], "the same draws disprove epsilon at the claimed delta"


@pytest.mark.slow
def test_one_coin_for_all_values_is_found():
    """With two values it takes more trials than a test has; with eight, the counts move together enough.

    Four of eight buckets of 20 units are released: δ is 0.0083, and 0.0031 is claimed (0.0040 under replace). In
    800,000 trials the bound is expected near 0.0058, with a deviation of 0.0003; near 0.005 in buckets of 15 or 18.
    """
    settings = {"sampling_rate": 0.1, "threshold": 4, "epsilon": 0.75, "contributions": 8, "adjacency": "add-remove"}
    report = audit(**settings, mechanism=one_coin, trials=800_000, confidence=1 - ALPHA)
    (finding,) = report.findings
    assert finding.violation and finding.delta_lower > 0.0035 > report.claimed_delta


@pytest.mark.slow
@pytest.mark.parametrize("settings", [WEAK, WEAK | {"adjacency": "add-remove"}])
def test_what_is_right_is_not_flagged_at_the_same_settings(settings):
    (finding,) = audit(**settings, paths=["device"], trials=100_000, confidence=1 - ALPHA).findings
    # Two buckets of four units prove 0.016 of about 0.02, with a deviation of 0.0004, less 6.5 of them for the bound.
    assert 0.4 < finding.ratio <= 1


# What makes it an audit


def test_a_value_counts_once_in_a_bucket_and_so_many_are_chosen():
    assert distinct_values(HELD, 0).tolist() == [True] * 6 + [False] * 2
    nothing = Population(((0, ABSENT, ABSENT),), holders=(0, 1, 1))
    assert distinct_values(nothing, 0).tolist() == [True, False, False]
    wide = Population(((0, 0, 1, 2),), buckets=3, holders=(0, 1, 1, 1))
    chosen = counting(wide, 0, 30_000, 2)
    assert chosen[:, 0].all() and (chosen[:, 1:].sum(axis=1) == 2).all()
    left_out = np.bincount(chosen[:, 1:].argmin(axis=1), minlength=3)
    assert stats.chisquare(left_out).pvalue > ALPHA
    assert stats.chisquare(left_out, 30_000 * np.array([0.35, 0.35, 0.3])).pvalue < ALPHA, "the test can fail"


def test_the_paths_show_the_same_of_several_values():
    """With a rate of all but one, every path shows the exact counts that reach the threshold."""
    plan = Plan(1 - 2.0**-53, 3, 1.0, 0.5, contributions=2)
    for mechanism in (paths.from_counts, paths.from_devices, paths.FromTable(several_rows=True)):
        assert mechanism(HELD, 5, plan).tolist() == [[3, 3]] * 5
        assert mechanism(HELD, 2, plan).tolist() == [[3, 3]] * 2
    doubled = twice_in_a_bucket(Population(((0, 0, 0),), holders=(0, 1, 1)), 2, plan)
    assert doubled.tolist() == [[3], [3]], "the planted fault counts a unit twice"


@pytest.mark.slow
def test_a_fleet_shows_the_same_of_several_values():
    """Three units are in either bucket, and each count below three is dropped; a value that counts twice would show."""
    plan = Plan(dyadic(0.9), 3, 1.0, 0.99, contributions=2)
    shown = FromFleet(20)(HELD, 20, plan)
    # A count of three has probability 0.729; with duplicates, a count of four would have 0.656.
    assert set(np.unique(shown).tolist()) <= {0, 3}
    assert stats.binomtest(np.count_nonzero(shown), shown.size, 0.9**3).pvalue > ALPHA
    assert stats.binom.cdf(0, shown.size, 0.9**4) < ALPHA, "the test can fail"


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize(("rate", "least"), [(0.3, 4), (0.1, 20), (0.7, 1)])
def test_pairs_of_several_values_differ_in_one_unit(adjacency, rate, least):
    pairs = several_pairs(Plan(dyadic(rate), least, 0.5, 0.1, adjacency, contributions=3))
    assert {len(np.flatnonzero(np.array(pair.first.holders) == pair.first.holders[-1])) for pair in pairs} == {3, 8}
    assert len({pair.name for pair in pairs}) == len(pairs)
    for pair in pairs:
        (first,), (second,) = pair.first.answers, pair.second.answers
        others = pair.first.units - 1
        assert pair.second.units == others + (adjacency == "replace")
        assert first[:others] == second[:others] and pair.first.holders[:others] == tuple(range(others))
        assert set(pair.first.holders[others:]) == {others}, "only the last unit differs"


@pytest.mark.parametrize(("rate", "least", "epsilon"), [(0.01, 1200, 1.0), (1e-6, 20, 0.1), (0.999, 2, 0.001)])
def test_extreme_settings_of_several_values_have_pairs(rate, least, epsilon):
    for pair in several_pairs(Plan(dyadic(rate), least, epsilon, 0.1, contributions=2)):
        held = np.array(pair.first.answers[0])
        assert max(np.bincount(held[distinct_values(pair.first, 0)])) <= LARGEST


def test_settings_of_several_values_are_checked():
    for wrong in (
        {"contributions": 0},
        {"contributions": 9},
        {"contributions": 4, "rounds": 3},
        {"contributions": 2, "paths": ["injected"]},
        {"contributions": 2, "paths": ["ledger"]},
    ):
        with pytest.raises(InvalidSetting):
            audit(0.3, 8, 0.5, trials=1000, **wrong)


@pytest.mark.slow
def test_the_command_says_how_many_values_count():
    app = typer.Typer()
    app.command("audit")(command.audit)
    options = "--sampling-rate .5 --threshold 2 --epsilon 1 --contributions 2 --trials 2000 --path counts"
    shown = CliRunner().invoke(app, [*options.split(), "--confidence", "0.999999999"], env={"COLUMNS": "120"})
    assert shown.exit_code == 0
    assert "2 values a unit" in shown.stdout and "0.438" in shown.stdout
