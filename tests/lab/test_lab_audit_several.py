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
    """A unit's coin admits all of its values or none."""
    coin = tosses(population, trials, plan)[:, list(population.units_of_values)]
    counted = coin & counting(population, 0, trials, plan.contributions)
    return released(paths.tally(population, 0, counted), plan)


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
    (ChargedAsOne(), 60_000, 0.8 * 2 * 0.36**TAU),
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
    """With two values it takes more trials than a test has; with eight the counts move together enough.

    Four of eight buckets of 19 units are released: δ = 0.0080 against 0.0040, which is 9 deviations in 400,000 trials.
    """
    settings = {"sampling_rate": 0.1, "threshold": 4, "epsilon": 0.75, "contributions": 8}
    report = audit(**settings, mechanism=one_coin, trials=400_000, confidence=1 - ALPHA)
    (finding,) = report.findings
    assert finding.violation and finding.delta_lower > 0.005 > report.claimed_delta
    right = audit(**settings, paths=["counts"], trials=50_000, confidence=1 - ALPHA)
    assert not right.violations
