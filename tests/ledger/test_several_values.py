"""What a ledger keeps and charges where several values of a unit count, and ledgers from before it could."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path

import pytest
from ledger_cases import charge_whole
from test_books import version_1, version_3
from typer.testing import CliRunner

import thresher as th
from thresher.cli.app import app
from thresher.errors import Conflict
from thresher.ledger import Ledger

VERSION_4 = Path(__file__).parent / "ledger_version_4.sql"
"""Never edited."""
THREE = th.plan(1, 1e-8, contributions=3)
ONE = th.plan(1, 1e-8)


def version_4(path: Path) -> Path:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(VERSION_4.read_text())
    return path


def test_a_ledger_of_version_4_goes_on_as_it_was(tmp_path):
    ledger = Ledger(version_4(tmp_path / "privacy.db"))
    assert [entry.contributions for entry in ledger.history()] == [1, 1, 1]
    assert ledger.spent.epsilon == pytest.approx(1.4861858965404853)  # as version 4 showed it
    assert ledger.left.share == pytest.approx(0.8856737327529752)
    assert (ledger.composition, ledger.data_set, ledger.drawn("second")) == ("adaptive", "visits", {0, 1})
    again = th.plan(1, 1e-8, rounds=4)
    assert ledger.reserve(again, "again", unit="user_id", reference="second") == "second"  # the same charge
    ledger.draw("second", 2)
    assert ledger.give_back("second") == 1
    assert charge_whole(ledger, THREE, "histogram of tags", "user_id", "fourth") == "fourth"
    assert [entry.contributions for entry in Ledger(ledger.path).history()] == [1, 1, 1, 3]


def test_ledgers_of_earlier_versions_have_charges_of_one_value(tmp_path):
    old = version_1(tmp_path / "1.db", "histogram of page"), version_3(tmp_path / "3.db")
    second = version_3(tmp_path / "2.db", "DROP TABLE same_units; PRAGMA user_version = 2;")
    for path in (*old, second):
        assert [entry.contributions for entry in Ledger(path).history()] == [1]
        with contextlib.closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA user_version").fetchone() == (6,)


def test_a_charge_of_other_contributions_is_another_charge(tmp_path):
    ledger = Ledger(tmp_path / "privacy.db", epsilon=30, delta=1e-4)
    three = th.plan(sampling_rate=0.1, threshold=20, delta=1e-8, contributions=3)
    ledger.reserve(three, "tags", unit="user", reference="q")
    ledger.reserve(three, "tags", unit="user", reference="q")
    # The same epsilon, delta, rate and threshold, which also holds for one value.
    fewer = th.privacy.Plan(three.sampling_rate, three.threshold, three.epsilon, three.delta)
    with pytest.raises(Conflict):
        ledger.reserve(fewer, "tags", unit="user", reference="q")
    assert ledger.to_arrow()["contributions"].to_pylist() == [3]


@pytest.mark.slow
def test_a_plan_that_lasts_counts_every_value(tmp_path):
    ledger = Ledger(tmp_path / "privacy.db", epsilon=3, delta=1e-6)
    plan = ledger.plan(queries=10, contributions=4)
    assert plan.contributions == 4
    assert 10 <= ledger.affords(plan) <= 11
    same = ledger.plan(queries=10, rounds=4)
    assert plan.smallest_visible() == same.smallest_visible()


def run(*arguments) -> str:
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.slow
def test_commands_take_and_show_the_number(tmp_path):
    path = tmp_path / "privacy.db"
    Ledger(path, epsilon=3, delta=1e-6)
    content = json.loads(run("ledger", "plan", path, "--queries", 10, "--contributions", 4, "--json"))
    assert content["plan"]["contributions"] == 4
    afforded = [
        json.loads(run("ledger", "affords", path, "--epsilon", 1, "--delta", "1e-8", *more, "--json"))["plan"]
        for more in ([], ["--contributions", 3])
    ]
    assert "contributions" not in afforded[0] and afforded[1]["contributions"] == 3
    assert json.loads(run("plan", "--epsilon", 1, "--delta", "1e-8", "--contributions", 3, "--json"))["plan"] == (
        THREE.to_dict()
    )
    settings = ["--sampling-rate", 0.1, "--threshold", 20]
    for name, target in (("delta", ["--epsilon", 1]), ("epsilon", ["--delta", "1e-8"])):
        several = json.loads(run("privacy", name, *settings, *target, "--contributions", 3, "--json"))
        rounds = json.loads(run("privacy", name, *settings, *target, "--rounds", 3, "--json"))
        assert several[name] == rounds[name] and several["contributions"] == 3
    charge_whole(Ledger(path), THREE, "histogram of tags", "user")
    shown = json.loads(run("ledger", "show", path, "--json"))
    assert [charge["contributions"] for charge in shown["charges"]] == [3]
    assert "1 round × 3" in run("ledger", "show", path)
