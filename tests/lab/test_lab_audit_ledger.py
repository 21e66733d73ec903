"""The audit of a ledger's whole life on a table: it stays below the claim, and finds a ledger that is wrong."""

import pytest
from typer.testing import CliRunner

from thresher.cli.app import app
from thresher.errors import InvalidSetting, VerificationFailed
from thresher.lab.audit import audit, ledger_path
from thresher.lab.audit.ledger_path import QUERIES, FromLedger, ledger_delta
from thresher.ledger import Ledger
from thresher.privacy import Budget, Plan, delta
from thresher.privacy.settings import dyadic

ALPHA = 1e-6  # chance that a right ledger is called wrong


def weak(adjacency="replace"):
    rate = dyadic(0.3)
    return Plan(rate, 8, 0.5, delta(sampling_rate=rate, threshold=8, epsilon=0.5, adjacency=adjacency), adjacency)


def attack(trials):
    return audit(0.3, 8, 0.5, paths=["ledger"], trials=trials, confidence=1 - ALPHA)


@pytest.mark.slow
def test_a_ledgers_whole_life_stays_within_its_claim(monkeypatch):
    pair = FromLedger(0.2).pairs(weak())[1]  # the one that tells most
    monkeypatch.setattr(FromLedger, "_pairs", lambda self, plan: [pair])
    monkeypatch.setattr(ledger_path, "_DRAWS", 100_000)  # one table holds every copy: few large queries
    report = attack(80_000)
    [finding] = report.findings
    assert (finding.path, finding.claimed_delta) == ("ledger of (0.5, 0.2)", 0.2)
    assert finding.claimed_delta > report.claimed_delta, "the ledger's claim, not that of one query"
    # The guess gains about 0.057, 0.29 of the claim. Bounds at this confidence are five standard errors away on either
    # side, 0.02 together: 0.18 of the claim is expected to be proved, with a standard error of 0.02.
    assert 0.02 < finding.ratio < 0.4
    assert finding.epsilon_lower <= 0.5
    assert report.measurable and not report.violations
    assert "after a ledger's whole life" in finding.best.event
    report.verify()


@pytest.mark.slow
def test_a_ledger_that_never_refuses_is_found(monkeypatch):
    """Negative control: charges are written, and nothing is ever too much.

    A delta of about 0.29 is proved, with a standard error of 0.015: six of them above the claim.
    """
    monkeypatch.setattr(Budget, "fits", True)
    monkeypatch.setattr(ledger_path, "MOST_QUERIES", 90)
    monkeypatch.setattr(ledger_path, "_DRAWS", 3000)  # one lot for the search and the measurement
    drawn = FromLedger(0.2)
    pair = drawn.pairs(weak())[-1]
    monkeypatch.setattr(FromLedger, "_pairs", lambda self, plan: [pair])
    report = attack(2000)
    assert [finding.violation for finding in report.findings] == [True]
    assert report.findings[0].epsilon_lower > 0.5
    assert "ledger of (0.5, 0.2)" in report.in_words() and "0.2 is claimed" in report.in_words()
    with pytest.raises(VerificationFailed, match=r"not 0\.2"):
        report.verify()


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_the_ledger_has_room_for_several_queries(adjacency):
    plan = weak(adjacency)
    total = ledger_delta(plan)
    budget = Budget.make(plan.epsilon, total)
    assert budget.affords(budget.price(plan)) >= QUERIES
    pairs = FromLedger(total).pairs(plan)
    populations = [population for pair in pairs for population in pair.populations]
    assert len(set(populations)) == 2 * len(pairs) > 2


@pytest.mark.slow
def test_lives_are_charged_to_a_real_ledger(monkeypatch):
    """A life ends where the ledger refuses, and everything that was asked is in it."""
    charged = []

    class Watched(Ledger):
        def reserve(self, plan, what, **more):
            reference = super().reserve(plan, what, **more)
            charged.append((self.path.name, plan.sampling_rate))
            return reference

    monkeypatch.setattr(ledger_path, "Ledger", Watched)
    plan = weak()
    drawn = FromLedger(ledger_delta(plan))
    pair = drawn.pairs(plan)[0]
    lives = drawn(pair.first, 50, plan)
    assert lives.shape == (50, 1)
    together = [rate for name, rate in charged if name == "first.db"]
    went_on = [rate for name, rate in charged if name == "0.db"]
    assert together == [plan.sampling_rate] * (QUERIES // 2)
    budget = Budget.make(plan.epsilon, ledger_delta(plan))
    assert len(together) + len(went_on) == budget.affords(budget.price(plan))


@pytest.mark.slow
def test_what_cannot_be_audited_is_refused():
    with pytest.raises(InvalidSetting, match="needs a plan of which"):
        audit(0.9, 2, 0.1, paths=["ledger"], trials=1000)
    settings = ["--sampling-rate", "0.3", "--threshold", "8", "--epsilon", "0.5", "--rounds", "2"]
    result = CliRunner().invoke(app, ["audit", *settings, "--path", "ledger"])
    assert "queries of one round" in str(result.exception)
