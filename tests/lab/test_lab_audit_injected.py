"""The audit's collector that forwards one person's report among its own: found with device coins, and only there."""

import pytest
from typer.testing import CliRunner

from thresher.cli.app import app
from thresher.errors import InvalidSetting
from thresher.lab.audit import audit
from thresher.lab.audit.injected_path import FromInjected
from thresher.roles.aggregator import round_drawing as tally

ALPHA = 1e-6  # chance that a right mechanism is called wrong


@pytest.mark.slow
def test_device_coins_give_one_person_away_and_aggregator_coins_do_not():
    report = audit(0.5, 2, 0.5, paths=["injected"], trials=1000, confidence=1 - ALPHA)
    aggregator, devices = report.findings
    assert (aggregator.path, devices.path) == ("injected, aggregator coins", "injected, device coins")
    # Aggregator coins: the claim holds, and the attack comes close to it (1000 trials tell 0.25 from 0.11).
    assert aggregator.claimed_delta == report.claimed_delta
    assert not aggregator.violation
    assert aggregator.delta_lower > 0.4 * aggregator.claimed_delta
    # Device coins: more than the analyst's guarantee is disproved, and nothing else is claimed.
    assert devices.delta_lower > report.claimed_delta
    assert devices.claimed_delta == 1
    assert not devices.violation
    assert devices.delta_lower < 0.5  # the target's own coin
    report.verify()
    assert "injected, device coins nothing is promised" in report.in_words()


@pytest.mark.slow
def test_an_aggregator_that_tosses_no_coin_is_found(monkeypatch):
    """Negative control: the aggregator says that it thins, and does not."""
    monkeypatch.setattr(tally, "binomials", lambda counts, rate, randomness: counts)
    drawn = FromInjected("aggregator")
    report = audit(0.5, 2, 0.5, mechanism=drawn, trials=1000, confidence=1 - ALPHA)
    assert [finding.violation for finding in report.findings] == [True]
    assert "VIOLATION" in report.in_words()


def test_the_command_knows_it():
    settings = ["--sampling-rate", "0.5", "--threshold", "2", "--epsilon", "0.5", "--rounds", "2"]
    result = CliRunner().invoke(app, ["audit", *settings, "--path", "injected"])
    assert "'injected' audits one round" in str(result.exception)


def test_it_audits_one_round_of_a_fleet():
    for given in ({"adjacency": "add-remove"}, {"rounds": 2}):
        with pytest.raises(InvalidSetting, match="injected"):
            audit(0.5, 2, 0.5, paths=["injected"], trials=1000, **given)
