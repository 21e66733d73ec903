"""The ledger: exact sums, no overspending between processes, crashes that cost budget and never privacy."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ledger_cases import FORKS, charge_whole, total

import thresher as th
from thresher.errors import BudgetExceeded, Conflict, InvalidFormat, InvalidSetting, LedgerUnavailable
from thresher.ledger import Ledger
from thresher.privacy import ROW
from thresher.privacy.units import MEMBER


def test_three_tenths_fit_a_budget_of_three_tenths_and_no_fourth(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "privacy.db", epsilon=0.3, delta=3e-8, composition="sum")
    assert [ledger.charge(0.1, 1e-8, "histogram of country", unit=ROW) for _ in range(3)] == [1, 2, 3]
    assert total(ledger.spent) == (0.3, 3e-8)
    assert total(ledger.left) == (0.0, 0.0)
    with pytest.raises(BudgetExceeded, match=r"epsilon = 0 and delta = 0 left"):
        ledger.charge(1e-9, 1e-300, "one more", unit=ROW)
    assert len(ledger.history()) == 3


def test_delta_alone_can_be_what_is_missing(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "privacy.db", epsilon=10, delta=1e-8, composition="sum")
    ledger.charge(1, 6e-9, "first", unit=ROW)
    with pytest.raises(BudgetExceeded, match="delta = 4e-09 left"):
        ledger.charge(1, 6e-9, "second", unit=ROW)
    ledger.charge(1, 4e-9, "second, smaller", unit=ROW)


def test_it_is_reopened_with_what_was_spent(tmp_path: Path) -> None:
    path = tmp_path / "privacy.db"
    Ledger(path, epsilon=3, delta=1e-6, adjacency="add-remove", composition="sum").charge(
        1, 1e-8, "histogram", adjacency="add-remove", unit=ROW
    )
    again = Ledger(path)
    assert (again.epsilon, again.delta, again.adjacency) == (3.0, 1e-6, "add-remove")
    assert total(again.spent) == (1.0, 1e-8)
    assert Ledger(path, epsilon=3, delta=1e-6, composition="sum").left.epsilon == 2.0
    assert "epsilon 2 of 3 left" in repr(again)


@pytest.mark.parametrize("other", [{"epsilon": 4}, {"delta": 1e-5}, {"adjacency": "add-remove"}])
def test_another_budget_is_refused(tmp_path: Path, other: dict[str, Any]) -> None:
    Ledger(tmp_path / "privacy.db", epsilon=3, delta=1e-6, composition="sum")
    with pytest.raises(InvalidSetting, match="differs from the ledger's"):
        Ledger(tmp_path / "privacy.db", **other)


def test_a_new_ledger_needs_a_whole_budget(tmp_path: Path) -> None:
    for settings in ({}, {"epsilon": 1}, {"delta": 1e-6}):
        with pytest.raises(InvalidSetting, match="does not exist"):
            Ledger(tmp_path / "privacy.db", **settings)
    with pytest.raises(InvalidSetting):
        Ledger(tmp_path / "privacy.db", epsilon=float("nan"), delta=1e-6)
    assert list(tmp_path.iterdir()) == []


def test_history_has_time_text_and_numbers(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "privacy.db", epsilon=3, delta=1e-6, composition="sum")
    before = dt.datetime.now(dt.UTC)
    plan = th.plan(1, 1e-8, rounds=10)
    charge_whole(ledger, plan, "heavy_hitters of word, method trie", ROW)
    (entry,) = ledger.history()
    assert before <= entry.time <= dt.datetime.now(dt.UTC)
    assert (entry.epsilon, entry.delta, entry.adjacency, entry.rounds) == (1.0, 1e-8, "replace", 10)
    assert entry.what == "heavy_hitters of word, method trie"
    table = ledger.to_arrow()
    assert table.column_names == [
        "id", "reference", "time", "what", "epsilon", "delta", "adjacency", "rounds", "unit", "sampling_rate",
        "threshold", "cut", "renyi", "bad", "drawn", "given_back", "ended", "contributions", "by", "data",
    ]  # fmt: skip
    assert ledger.to_pandas()["epsilon"].tolist() == [1.0]
    assert len(Ledger(tmp_path / "empty.db", epsilon=1, delta=1e-8, composition="sum").to_arrow()) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0},
        {"epsilon": -1},
        {"epsilon": float("nan")},
        {"delta": 0},
        {"delta": 1.5},
        {"what": ""},
        {"what": "x" * 20_000},
        {"adjacency": "add-remove"},
        {"adjacency": "other"},
        {"rounds": 0},
    ],
)
def test_invalid_charges_change_nothing(tmp_path: Path, wrong: dict[str, Any]) -> None:
    ledger = Ledger(tmp_path / "privacy.db", epsilon=3, delta=1e-6, composition="sum")
    with pytest.raises(InvalidSetting):
        ledger.charge(**({"epsilon": 1, "delta": 1e-8, "what": "histogram", "unit": ROW} | wrong))
    assert total(ledger.spent) == (0.0, 0.0)


def _charge_many(path: str, attempts: int, done: Any) -> None:
    ledger = Ledger(path, epsilon=1.0, delta=1e-4, composition="sum")
    succeeded = 0
    for attempt in range(attempts):
        try:
            ledger.charge(0.01, 1e-8, f"attempt {attempt}", unit=ROW)
            succeeded += 1
        except BudgetExceeded:
            pass
    done.put(succeeded)


@pytest.mark.slow
def test_processes_that_charge_at_once_never_overspend(tmp_path: Path) -> None:
    """Eight processes create the same ledger and try 400 charges of 1/100: exactly 100 succeed."""
    path = tmp_path / "privacy.db"
    done: Any = FORKS.Queue()
    processes = [FORKS.Process(target=_charge_many, args=(str(path), 50, done), daemon=True) for _ in range(8)]
    for process in processes:
        process.start()
    succeeded = [done.get(timeout=300) for _ in processes]
    for process in processes:
        process.join(timeout=60)
        assert process.exitcode == 0
    assert sum(succeeded) == 100
    ledger = Ledger(path)
    assert total(ledger.spent) == (1.0, 1e-6)
    assert [entry.id for entry in ledger.history()] == list(range(1, 101))
    assert [file.name for file in tmp_path.iterdir()] == ["privacy.db"]


class _CrashingPopulation(th.Population):
    def ask(self, question: Any, plan: Any) -> Any:
        os._exit(41)


def _crash_between_charge_and_draw(path: str) -> None:
    ledger, plan = Ledger(path), th.plan(1, 1e-8, rounds=3)
    th.heavy_hitters(_CrashingPopulation(), "word", plan=plan, method="trie", ledger=ledger)


@pytest.mark.slow
def test_a_crash_between_charge_and_draw_costs_budget(tmp_path: Path) -> None:
    path = tmp_path / "privacy.db"
    Ledger(path, epsilon=1.5, delta=1e-6, composition="sum")
    process = FORKS.Process(target=_crash_between_charge_and_draw, args=(str(path),), daemon=True)
    process.start()
    process.join(timeout=60)
    assert process.exitcode == 41
    ledger = Ledger(path)
    assert total(ledger.spent) == (1.0, 1e-8)
    with pytest.raises(BudgetExceeded):
        ledger.charge(1, 1e-8, "the same again", unit=MEMBER)


class _CountingPopulation(th.Population):
    def __init__(self) -> None:
        self.asked = 0

    def ask(self, question: Any, plan: Any) -> Any:
        self.asked += 1
        return th.mechanism.sample_and_threshold({}, plan, columns=question.columns)


def test_a_query_is_charged_once_and_only_if_it_is_valid(tmp_path: Path) -> None:
    ledger, plan = Ledger(tmp_path / "privacy.db", epsilon=2, delta=1e-6, composition="sum"), th.plan(1, 1e-8, rounds=6)
    people = _CountingPopulation()

    def quantiles(probabilities: Any, **settings: Any) -> Any:
        return th.quantiles(people, "age", probabilities, plan=plan, ledger=ledger, **settings)

    for wrong in (
        {"probabilities": [0.5], "lower": 1, "upper": 0},
        {"probabilities": [], "lower": 0, "upper": 1},
        {"probabilities": [1.0], "lower": 0, "upper": 1},
        {"probabilities": [0.1 * part for part in range(1, 9)], "lower": 0, "upper": 1, "method": "search"},
        {"probabilities": [0.5], "lower": 0, "upper": 1, "method": "guess"},
        {"probabilities": [0.5], "lower": 0, "upper": 1, "method": "hierarchy", "branching": 1000},
    ):
        with pytest.raises(InvalidSetting):
            quantiles(**wrong)
    assert total(ledger.spent) == (0.0, 0.0)
    quantiles([0.5], lower=0, upper=1, method="hierarchy")
    assert people.asked == 6
    assert total(ledger.spent) == (plan.epsilon, plan.delta)
    quantiles([0.5], lower=0, upper=1, method="hierarchy")
    with pytest.raises(BudgetExceeded):
        quantiles([0.5], lower=0, upper=1, method="hierarchy")
    assert people.asked == 12  # nothing was drawn for the query that did not fit


def test_files_that_are_not_ledgers(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("this is not a database, but long enough to be looked at as one " * 40)
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE budget (epsilon TEXT)")
    connection.close()
    empty = tmp_path / "empty.db"
    empty.touch()
    for path in (text, other, empty):
        for budget in ({}, {"epsilon": 1, "delta": 1e-6}):
            content = path.read_bytes()
            with pytest.raises(InvalidFormat, match="not a Thresher ledger"):
                Ledger(path, **budget)
            assert path.read_bytes() == content


def test_a_damaged_ledger_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "privacy.db"
    ledger = Ledger(path, epsilon=1, delta=1e-6, composition="sum")
    ledger.charge(0.5, 1e-8, "histogram", unit=ROW)
    content = bytearray(path.read_bytes())
    content[100:] = bytes(len(content) - 100)
    path.write_bytes(bytes(content))
    with pytest.raises(InvalidFormat, match="damaged"):
        Ledger(path)
    with pytest.raises(InvalidFormat, match="damaged"):
        ledger.charge(0.1, 1e-8, "histogram", unit=ROW)


@pytest.mark.parametrize("number", ["-0.5", "nan", "much", ""])
def test_numbers_that_no_ledger_writes_are_refused(tmp_path: Path, number: str) -> None:
    """A negative charge would give budget back."""
    path = tmp_path / "privacy.db"
    ledger = Ledger(path, epsilon=1, delta=1e-6, composition="sum")
    ledger.charge(0.5, 1e-8, "histogram", unit=ROW)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE charges SET epsilon = ?", (number,))
    connection.close()
    with pytest.raises(InvalidFormat, match="damaged"):
        Ledger(path)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE charges SET epsilon = '0.5'")
        connection.execute("UPDATE budget SET sum_epsilon = ?", (number,))
    connection.close()
    with pytest.raises(InvalidFormat, match="damaged"):
        ledger.charge(0.1, 1e-8, "histogram", unit=ROW)
    with pytest.raises(InvalidFormat, match="damaged"):
        _ = ledger.left


def test_sums_that_are_not_those_of_the_charges_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "privacy.db"
    Ledger(path, epsilon=1, delta=1e-6, composition="sum").charge(0.5, 1e-8, "histogram", unit=ROW)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE budget SET sum_epsilon = '0.4'")
    connection.close()
    with pytest.raises(InvalidFormat, match="damaged"):
        Ledger(path)


def test_a_later_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "privacy.db"
    Ledger(path, epsilon=1, delta=1e-6, composition="sum")
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 7")
    connection.close()
    with pytest.raises(InvalidFormat, match="version 7"):
        Ledger(path)


def test_a_locked_ledger_says_so_after_waiting(tmp_path: Path) -> None:
    path = tmp_path / "privacy.db"
    ledger = Ledger(path, epsilon=1, delta=1e-6, wait=0.1, composition="sum")
    blocker = sqlite3.connect(path, isolation_level=None)
    blocker.execute("BEGIN EXCLUSIVE")
    with pytest.raises(LedgerUnavailable, match="in use by another process"):
        ledger.charge(0.5, 1e-8, "histogram", unit=ROW)
    blocker.execute("ROLLBACK")
    blocker.close()
    assert ledger.charge(0.5, 1e-8, "histogram", unit=ROW) == 1


def test_paths_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(LedgerUnavailable, match="cannot be created"):
        Ledger(tmp_path / "missing" / "privacy.db", epsilon=1, delta=1e-6, composition="sum")
    with pytest.raises(LedgerUnavailable, match="not a regular file"):
        Ledger(tmp_path, epsilon=1, delta=1e-6, composition="sum")


@contextlib.contextmanager
def without_roots_powers() -> Iterator[None]:
    """Root may write everywhere; for a moment this process is nobody."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other permissions")
def test_a_file_that_may_only_be_read() -> None:
    with tempfile.TemporaryDirectory() as directory:  # pytest's own may be entered by its owner only
        Path(directory).chmod(0o755)
        path = Path(directory) / "privacy.db"
        ledger = Ledger(path, epsilon=1, delta=1e-6, composition="sum")
        path.chmod(0o444)
        with without_roots_powers(), pytest.raises(LedgerUnavailable, match="cannot be"):
            ledger.charge(0.5, 1e-8, "histogram", unit=ROW)
        assert ledger.history() == []


def test_nothing_is_given_back_where_epsilons_are_added_up(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "privacy.db", epsilon=3, delta=1e-6, composition="sum")
    reference = ledger.reserve(th.plan(1, 1e-8, rounds=3), "ranges of age", unit=ROW)
    assert total(ledger.spent) == (1.0, 1e-8)
    assert (ledger.give_back(reference), total(ledger.spent)) == (0, (1.0, 1e-8))
    with pytest.raises(Conflict):
        ledger.draw(reference, 0)


def test_the_file_holds_numbers_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "privacy.db"
    Ledger(path, epsilon=3, delta=1e-6, composition="sum").charge(0.1, 1e-8, "histogram of country", unit=ROW)
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT epsilon, delta FROM charges").fetchall() == [("0.1", "1e-08")]
    connection.close()
