"""Rounds that are reserved, drawn and given back: one after another, at once, and in spite of kills."""

import os
import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from ledger_cases import FORKS, charge_whole

import thresher as th
from thresher.errors import (
    BudgetExceeded,
    Conflict,
    InvalidSetting,
    NotFound,
)
from thresher.ledger import Ledger
from thresher.privacy.units import ROW

ONE = th.plan(1, 1e-8)
TRIE = th.plan(1, 1e-8, rounds=5)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "privacy.db", epsilon=10, delta=1e-6)


# Round by round.


def test_rounds_are_reserved_drawn_and_given_back(ledger):
    fresh = ledger.budget
    reference = ledger.reserve(TRIE, "heavy_hitters", unit=ROW)
    reserved = ledger.left
    assert reserved.share < 1
    assert (ledger.spent.share, ledger.spent.epsilon, ledger.reserved()) == (0.0, 0.0, {reference})
    for position in (3, 0, 3):
        ledger.draw(reference, position)
    assert ledger.drawn(reference) == {0, 3}
    assert ledger.left == reserved
    assert ledger.spent.renyi == pytest.approx(2 * fresh.price(TRIE).renyi)
    assert ledger.give_back(reference) == 3
    assert ledger.give_back(reference) == 0
    assert (ledger.spent.renyi, ledger.reserved()) == (pytest.approx(2 * fresh.price(TRIE).renyi), set())
    assert ledger.budget.spent_epsilon == 1.0  # the plain sum of a query that began is indivisible
    ledger.draw(reference, 3)  # it was drawn before
    with pytest.raises(Conflict, match="given back"):
        ledger.draw(reference, 1)
    [entry] = ledger.history()
    assert (entry.rounds, entry.drawn, entry.given_back) == (5, 2, 3)


def test_a_query_of_which_nothing_was_drawn_leaves_no_trace(ledger):
    charge_whole(ledger, ONE, "histogram", ROW)
    before = ledger.budget
    ledger.give_back(ledger.reserve(TRIE, "heavy_hitters", unit=ROW))
    assert ledger.budget == before


def test_all_rounds_drawn_end_a_charge(ledger):
    reference = ledger.reserve(TRIE, "heavy_hitters", unit=ROW, drawn=2)
    for position in range(2, 5):
        ledger.draw(reference, position)
    assert ledger.reserved() == set()
    assert ledger.give_back(reference) == 0
    with pytest.raises(InvalidSetting, match="from 0 to 4"):
        ledger.draw(reference, 5)
    for call in (lambda: ledger.draw("nobody", 0), lambda: ledger.give_back("nobody"), lambda: ledger.drawn("nobody")):
        with pytest.raises(NotFound):
            call()


def test_a_trie_that_stops_early_pays_for_what_it_drew(ledger):
    rare = pa.table({"word": ["a", "b"] * 10})
    th.heavy_hitters(rare, "word", method="trie", levels=6, epsilon=1, delta=1e-8, ledger=ledger)
    [entry] = ledger.history()
    assert (entry.rounds, entry.drawn, entry.given_back) == (6, 1, 5)


def test_a_query_that_fails_in_its_second_round_pays_for_two(ledger, monkeypatch):
    words = pa.table({"age": [1, 2, 3] * 300})
    drawn = []
    real = th.tables.table.sample_and_threshold

    def fails(*given, **settings):
        drawn.append(len(ledger.drawn(ledger.history()[0].reference)))
        if len(drawn) == 2:
            raise KeyboardInterrupt
        return real(*given, **settings)

    monkeypatch.setattr(th.tables.table, "sample_and_threshold", fails)
    with pytest.raises(KeyboardInterrupt):
        th.ranges(words, "age", lower=0, upper=64, levels=4, epsilon=1, delta=1e-8, ledger=ledger)
    [entry] = ledger.history()
    assert (drawn, entry.drawn, entry.given_back) == ([1, 2], 2, 2)


def test_an_answer_is_not_lost_if_nothing_can_be_given_back(ledger, monkeypatch, caplog):
    def broken(*given):
        raise ledger._file.unavailable("is gone")

    monkeypatch.setattr(Ledger, "give_back", broken)
    rare = pa.table({"word": ["a", "b"] * 10})
    answer = th.heavy_hitters(rare, "word", method="trie", levels=6, epsilon=1, delta=1e-8, ledger=ledger)
    assert len(answer.to_arrow()) == 0
    assert "was not given back: ledger-unavailable" in caplog.text
    assert ledger.history()[0].ended is None


def test_a_reservation_that_is_made_again_marks_what_is_about_to_be_drawn(ledger):
    ledger.reserve(TRIE, "heavy_hitters", unit=ROW, reference="q1")
    ledger.reserve(TRIE, "heavy_hitters", unit=ROW, reference="q1", drawn=2)
    assert ledger.drawn("q1") == {0, 1}
    ledger.give_back("q1")
    with pytest.raises(Conflict, match="given back"):
        ledger.reserve(TRIE, "heavy_hitters", unit=ROW, reference="q1", drawn=3)
    assert ledger.drawn("q1") == {0, 1}


@pytest.mark.parametrize("drawn", [-1, 6, 1.5, True, "one", None])
def test_as_many_rounds_are_drawn_as_a_query_has(ledger, drawn):
    with pytest.raises(InvalidSetting, match="drawn"):
        ledger.reserve(TRIE, "heavy_hitters", unit=ROW, drawn=drawn)
    assert Ledger(ledger.path).history() == []


# Races and crashes.


def _busy(path: str, seed: int, done: Any) -> None:
    ledger, drawn = Ledger(path), 0
    plan = th.plan(0.5, 1e-7, rounds=4)
    for turn in range(60):
        try:
            reference = ledger.reserve(plan, "a query", unit=ROW)
        except BudgetExceeded:
            continue
        for position in range((seed + turn) % 5):
            ledger.draw(reference, position)
            drawn += 1
        ledger.give_back(reference)
    done.put(drawn)


@pytest.mark.slow
def test_processes_that_reserve_draw_and_give_back_at_once(tmp_path):
    path = tmp_path / "privacy.db"
    Ledger(path, epsilon=2, delta=1e-5)
    done: Any = FORKS.Queue()
    processes = [FORKS.Process(target=_busy, args=(str(path), seed, done), daemon=True) for seed in range(6)]
    for process in processes:
        process.start()
    drawn = [done.get(timeout=300) for _ in processes]
    for process in processes:
        process.join(timeout=60)
        assert process.exitcode == 0
    ledger = Ledger(path)  # which also checks that sums are those of the charges
    assert sum(entry.drawn for entry in ledger.history()) == sum(drawn)
    assert ledger.reserved() == set()
    assert ledger.budget.fits
    assert ledger.affords(th.plan(0.5, 1e-7, rounds=4)) == 0


def _endless(path: str, ready: Any) -> None:
    ledger = Ledger(path)
    ready.put(os.getpid())
    while True:
        reference = ledger.reserve(TRIE, "a query", unit=ROW, drawn=1)
        ready.put(reference)
        ledger.draw(reference, 1)
        ready.put((reference, 1))
        ledger.give_back(reference)


@pytest.mark.slow
def test_what_was_acknowledged_survives_kill_9(tmp_path):
    path = tmp_path / "privacy.db"
    Ledger(path, epsilon=100, delta=1e-4)
    told: list[Any] = []
    for _ in range(4):
        ready: Any = FORKS.Queue()
        process = FORKS.Process(target=_endless, args=(str(path), ready), daemon=True)
        process.start()
        ready.get(timeout=60)
        for _ in range(7):
            told.append(ready.get(timeout=60))
        os.kill(process.pid, signal.SIGKILL)
        process.join(timeout=60)
    ledger = Ledger(path)
    charges = {entry.reference: entry for entry in ledger.history()}
    for each in told:
        reference, drawn = each if isinstance(each, tuple) else (each, 0)
        assert drawn in ledger.drawn(reference)
    left = ledger.left
    for reference in ledger.reserved():  # of processes that are gone
        assert ledger.give_back(reference) == charges[reference].rounds - charges[reference].drawn
    assert ledger.left.share >= left.share
    assert Ledger(path).reserved() == set()
