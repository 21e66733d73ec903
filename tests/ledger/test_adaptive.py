"""The adaptive ledger: what it lets through, what it gives back, what it promises."""

import datetime as dt
import multiprocessing
import os
import signal
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from device_cases import StillClock
from ledger_cases import charge_whole, total

import thresher as th
from thresher.errors import (
    BudgetExceeded,
    Conflict,
    InvalidFormat,
    InvalidSetting,
    LedgerUnavailable,
    NotFound,
    VerificationFailed,
)
from thresher.ledger import Ledger
from thresher.privacy.units import ROW

SPAWN: Any = multiprocessing.get_context("spawn")
ONE = th.plan(1, 1e-8)
TRIE = th.plan(1, 1e-8, rounds=5)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "privacy.db", epsilon=10, delta=1e-6)


def accepted(ledger: Ledger, plan: th.Plan) -> int:
    """How many queries a ledger takes, one after another."""
    for number in range(10_000):
        try:
            charge_whole(ledger, plan, "histogram of word", ROW)
        except BudgetExceeded:
            return number
    raise AssertionError("it never ends")


# What it lets through.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "planned", "least", "most"),
    [(10, (1, 1e-8), 250, 292), (3, (0.3, 1e-9), 255, 308), (1, (0.1, 1e-9), 255, 316)],
)
def test_as_many_as_the_filter_allows_and_no_more_than_exact_composition(tmp_path, epsilon, planned, least, most):
    ledger = Ledger(tmp_path / "privacy.db", epsilon=epsilon, delta=1e-6)
    plan = th.plan(*planned)
    afforded = ledger.affords(plan)
    assert least <= accepted(ledger, plan) == afforded <= most
    assert ledger.affords(plan) == 0
    assert ledger.spent.epsilon <= epsilon
    composed = th.privacy.epsilon(
        sampling_rate=plan.sampling_rate, threshold=plan.threshold, delta=1e-6, rounds=afforded
    )
    assert composed <= ledger.spent.epsilon  # what a plan fixed in advance would guarantee is never worse
    assert Ledger(tmp_path / "sum.db", epsilon=epsilon, delta=1e-6, composition="sum").affords(plan) == 10


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "queries", "sees"), [(3, 52, 115), (1, 52, 300), (3, 365, 260), (1, 365, 700)])
def test_a_year_of_queries_from_one_promise(tmp_path, epsilon, queries, sees):
    ledger = Ledger(tmp_path / "privacy.db", epsilon=epsilon, delta=1e-6)
    plan = ledger.plan(queries=queries)
    assert plan.smallest_visible() <= sees
    plan.verify()
    words = pa.table({"word": ["a"] * 5_000})
    for _ in range(3):
        th.histogram(words, "word", plan=plan, ledger=ledger)
    assert ledger.affords(plan) == queries - 3
    if queries == 52:
        assert accepted(ledger, plan) == 49


@pytest.mark.slow
def test_mixed_plans_tries_and_cancelled_ones_in_one_ledger(ledger):
    small, trie = th.plan(0.3, 1e-9), th.plan(1, 1e-8, rounds=10)
    for turn in range(20):
        charge_whole(ledger, ONE, "histogram", ROW)
        charge_whole(ledger, small, "histogram", ROW)
        reference = ledger.reserve(trie, "heavy_hitters", unit=ROW)
        for position in range(turn % 10):
            ledger.draw(reference, position)
        ledger.give_back(reference)
    expected = th.privacy.Budget.make(10, 1e-6)
    prices = [expected.price(plan) for plan in (ONE, small, trie)]
    rounds = [20, 20, sum(turn % 10 for turn in range(20))]
    assert ledger.spent.renyi == pytest.approx(
        sum(price.renyi * count for price, count in zip(prices, rounds, strict=True)), rel=1e-12
    )
    assert ledger.budget.spent_epsilon == pytest.approx(20 + 6 + 18)  # of a trie only if a round was drawn
    assert ledger.left.share + ledger.spent.share == pytest.approx(1)
    assert ledger.budget.fits


def test_every_charge_counts_on_both_sides(tmp_path):
    """One pot for each condition would not be private: what one condition let in counts in the other."""
    ledger = Ledger(tmp_path / "privacy.db", epsilon=1, delta=1e-6)
    charge_whole(ledger, th.plan(0.5, 5e-8), "by the plain sum", ROW)
    assert ledger.spent.renyi > 0
    before = ledger.left
    charge_whole(ledger, th.plan(0.1, 1e-9), "by the filter", ROW)
    assert ledger.left.epsilon == pytest.approx(before.epsilon - 0.1)
    assert ledger.left.renyi < before.renyi


def test_what_is_only_known_by_its_total_costs_more_than_a_plan(ledger):
    ledger.charge(1, 1e-8, "a noisy count of another library", unit=ROW)
    [entry] = ledger.history()
    assert (entry.sampling_rate, entry.threshold, entry.drawn) == (None, None, 1)
    assert entry.renyi > 2 * ledger.budget.price(ONE).renyi
    assert entry.bad >= 1e-8
    assert total(ledger.spent) == (1.0, 1e-6)


def test_a_query_of_the_whole_delta_is_told_what_fits(tmp_path):
    ledger = Ledger(tmp_path / "privacy.db", epsilon=1, delta=1e-6)
    with pytest.raises(BudgetExceeded, match=r"not even fit on its own.*delta = 1e-07") as caught:
        ledger.check(th.plan(1, 1e-6), ROW)
    assert "ledger plan" in caught.value.hint
    ledger.check(ledger.plan(queries=1), ROW)


def test_a_query_that_does_not_fit_costs_nothing(ledger):
    with pytest.raises(BudgetExceeded):
        charge_whole(ledger, th.plan(30, 1e-5), "histogram", ROW)
    assert (ledger.history(), ledger.left.share, total(ledger.spent)) == ([], 1.0, (0.0, 0.0))


def test_the_order_of_a_ledger_never_changes(ledger):
    before = ledger.budget.filter
    charge_whole(ledger, ONE, "histogram", ROW)
    ledger.enlarge(30)
    again = Ledger(ledger.path)
    assert again.budget.filter == before != th.privacy.Budget.make(30, 1e-6).filter
    assert (again.epsilon, again.composition) == (30.0, "adaptive")
    with pytest.raises(InvalidSetting, match="composition differs"):
        Ledger(ledger.path, composition="sum")


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
    done: Any = SPAWN.Queue()
    processes = [SPAWN.Process(target=_busy, args=(str(path), seed, done), daemon=True) for seed in range(6)]
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
        ready: Any = SPAWN.Queue()
        process = SPAWN.Process(target=_endless, args=(str(path), ready), daemon=True)
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


# Promises and periods.


def test_a_promise_is_enlarged_knowingly_and_remembered(tmp_path):
    clock = StillClock(1_800_000_000.0)
    ledger = Ledger(tmp_path / "privacy.db", epsilon=1, delta=1e-6, clock=clock)
    plan = ledger.plan(queries=10)
    for _ in range(10):
        charge_whole(ledger, plan, "histogram", ROW)
    with pytest.raises(BudgetExceeded):
        charge_whole(ledger, plan, "histogram", ROW)
    clock.time += 60
    ledger.enlarge(2)
    charge_whole(Ledger(ledger.path), plan, "histogram", ROW)
    assert [(promise.epsilon, promise.time.timestamp()) for promise in ledger.promises] == [
        (1.0, 1_800_000_000.0),
        (2.0, 1_800_000_060.0),
    ]
    assert 1 < ledger.spent.epsilon <= 2
    with pytest.raises(InvalidSetting, match="1 is spent already"):
        ledger.enlarge(1)
    ledger.enlarge(1.99)  # what was charged still fits
    ledger.enlarge(1.99)
    assert [promise.epsilon for promise in ledger.promises] == [1.0, 2.0, 1.99]
    for wrong in (0, -1, float("nan"), 1e9, "much"):
        with pytest.raises(InvalidSetting):
            ledger.enlarge(wrong)
    assert ledger.epsilon == 1.99
    ledger.enlarge(500)  # a plan's epsilon is at most 100, a budget's is not
    assert ledger.epsilon == 500


@pytest.mark.slow
def test_a_budget_renews_and_says_what_all_periods_come_to(tmp_path):
    clock = StillClock(1_800_000_000.0)
    ledger = Ledger(tmp_path / "privacy.db", epsilon=1, delta=1e-6, period="30d", clock=clock)
    plan = ledger.plan(queries=3)
    for number in range(4):
        for _ in range(3):
            charge_whole(ledger, plan, "histogram", ROW)
        with pytest.raises(BudgetExceeded):
            charge_whole(ledger, plan, "histogram", ROW)
        periods = ledger.periods
        assert (periods.current, periods.used, periods.epsilon, periods.delta) == (
            number,
            number + 1,
            number + 1,
            pytest.approx((number + 1) * 1e-6),
        )
        assert periods.ends.timestamp() == 1_800_000_000.0 + (number + 1) * 30 * 86_400
        clock.time += 30 * 86_400
        assert (ledger.left.share, total(ledger.spent)) == (1.0, (0.0, 0.0))
    clock.time += 90 * 86_400  # nothing is drawn for three periods
    charge_whole(ledger, plan, "histogram", ROW)
    assert (ledger.periods.current, ledger.periods.used) == (7, 5)
    assert Ledger(ledger.path, period="30d", clock=clock).affords(plan) == 2
    assert "30 days" in repr(ledger)
    with pytest.raises(InvalidSetting, match="period differs"):
        Ledger(ledger.path, period="7d")


def test_a_clock_that_is_set_back_renews_nothing(tmp_path):
    clock = StillClock(1_800_000_000.0)
    ledger = Ledger(tmp_path / "privacy.db", epsilon=1, delta=1e-6, period="1d", clock=clock)
    plan = ledger.plan(queries=1)
    charge_whole(ledger, plan, "histogram", ROW)
    clock.time += 86_400
    charge_whole(ledger, plan, "histogram", ROW)
    clock.time -= 86_400
    with pytest.raises(BudgetExceeded):
        charge_whole(ledger, plan, "histogram", ROW)


def test_a_round_counts_in_the_period_that_draws_it(tmp_path):
    clock = StillClock(1_800_000_000.0)
    ledger = Ledger(tmp_path / "privacy.db", epsilon=3, delta=1e-6, period="7d", clock=clock)
    whole = ledger.budget.price(TRIE)
    reference = ledger.reserve(TRIE, "heavy_hitters", unit=ROW, drawn=2)
    clock.time += 7 * 86_400
    assert ledger.budget.sums.renyi == pytest.approx(3 * th_decimal(whole.renyi))  # what may still be drawn
    assert (ledger.budget.spent_epsilon, ledger.spent.renyi) == (1.0, 0.0)
    ledger.draw(reference, 2)
    assert ledger.spent.renyi == pytest.approx(whole.renyi)
    assert ledger.budget.spent_epsilon == 1.0
    clock.time += 7 * 86_400
    ledger.give_back(reference)
    assert (ledger.budget.spent_epsilon, ledger.left.share) == (0.0, 1.0)  # nothing of it was drawn in this period
    assert (ledger.periods.used, ledger.history()[0].given_back) == (2, 2)


def th_decimal(value: float):
    from decimal import Decimal

    return Decimal(repr(value))


@pytest.mark.parametrize("wrong", ["1", "30", "soon", "30 m", "-3d", 0, 10, True, float("nan"), 1e12, [30]])
def test_periods_that_make_no_sense(tmp_path, wrong):
    with pytest.raises(InvalidSetting, match="period"):
        Ledger(tmp_path / "privacy.db", epsilon=1, delta=1e-6, period=wrong)
    assert not (tmp_path / "privacy.db").exists()


# What it is for.


def test_a_ledger_names_its_data_set(tmp_path):
    path = tmp_path / "privacy.db"
    ledger = Ledger(path, epsilon=3, delta=1e-6, data_set="visits of 2026")
    assert Ledger(path).data_set == "visits of 2026"
    for refused in (
        lambda: Ledger(path, data_set="others"),
        lambda: ledger.reserve(ONE, "histogram", unit=ROW, data_set="others"),
    ):
        with pytest.raises(InvalidSetting, match="for visits of 2026"):
            refused()
    ledger.reserve(ONE, "histogram", unit=ROW, data_set="visits of 2026")
    unnamed = Ledger(tmp_path / "unnamed.db", epsilon=3, delta=1e-6)
    unnamed.reserve(ONE, "histogram", unit=ROW, data_set="first")
    assert unnamed.data_set == "first"


def test_other_adjacencies_are_refused_everywhere(ledger):
    other = th.plan(1, 1e-8, adjacency="add-remove")
    for call in (ledger.affords, ledger.takes, lambda plan: ledger.check(plan, ROW)):
        with pytest.raises(InvalidSetting, match="adjacency"):
            call(other)


def test_an_add_remove_ledger_lets_more_through(tmp_path):
    ledger = Ledger(tmp_path / "privacy.db", epsilon=10, delta=1e-6, adjacency="add-remove")
    plan = th.plan(1, 1e-8, adjacency="add-remove")
    assert ledger.affords(plan) > 400
    assert ledger.plan(queries=52).adjacency == "add-remove"


def test_the_file_keeps_the_cut_and_the_costs_of_each_charge(ledger):
    charge_whole(ledger, ONE, "histogram", ROW)
    with sqlite3.connect(ledger.path) as connection:
        [row] = connection.execute("SELECT sampling_rate, threshold, cut, renyi, bad FROM charges").fetchall()
    connection.close()
    price = ledger.budget.price(ONE)
    assert row == (
        repr(ONE.sampling_rate), ONE.threshold, ledger.budget.cut(ONE), repr(price.renyi), repr(price.bad),
    )  # fmt: skip
    assert ONE.threshold <= ledger.budget.cut(ONE)


def test_a_plan_that_does_not_keep_what_it_states_is_refused(ledger):
    forged = th.Plan(0.5, 2, 0.01, 1e-9)
    with pytest.raises(VerificationFailed):
        ledger.reserve(forged, "histogram", unit=ROW)
    assert ledger.history() == []


# Found by attack.


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


def test_a_promise_that_does_not_cover_what_was_drawn_is_not_made(tmp_path):
    ledger = Ledger(tmp_path / "privacy.db", epsilon=1, delta=1e-6)
    plan = th.plan(1, 1e-7)
    for number in range(40):
        ledger.restore(plan, "histogram", ROW, f"q{number}")
    assert not ledger.budget.fits
    for epsilon in (0.5, 1.5):
        with pytest.raises(InvalidSetting, match="is spent already"):
            ledger.enlarge(epsilon)
    assert ledger.epsilon == 1


def test_what_a_query_takes_that_does_not_fit_is_not_what_is_left(tmp_path):
    ledger = Ledger(tmp_path / "privacy.db", epsilon=1, delta=1e-6)
    plan = ledger.plan(queries=3)
    for _ in range(3):
        charge_whole(ledger, plan, "histogram", ROW)
    assert ledger.left.share < 0.01
    assert ledger.takes(plan) == pytest.approx(1 / 3, rel=0.01)


def test_restored_charges_count_in_the_periods_in_which_they_were_made(tmp_path):
    clock = StillClock(1_800_000_000.0)
    ledger = Ledger(tmp_path / "privacy.db", epsilon=3, delta=1e-6, period="1d", clock=clock)
    for day in range(1, 6):
        made = dt.datetime.fromtimestamp(clock.time - day * 86_400, dt.UTC)
        ledger.restore(ONE, "histogram", ROW, f"q{day}", made)
    assert (ledger.periods.used, ledger.periods.epsilon) == (5, 15.0)
    assert ledger.budget.spent_epsilon == 5.0  # all of it in the current period too: nobody knows where that began
    ledger.restore(TRIE, "heavy_hitters", ROW, "running", drawn={1, 4})
    assert (ledger.drawn("running"), ledger.reserved()) == ({1, 4}, {"running"})
    clock.time += 86_400
    assert ledger.budget.spent_epsilon == 1.0  # what may still be drawn counts in each period
    ledger.draw("running", 0)
    assert ledger.periods.used == 7
    assert ledger.was_drawn("running", 0) and not ledger.was_drawn("running", 2)


def test_a_ledger_where_nobody_may_look_says_so(tmp_path):
    with pytest.raises(LedgerUnavailable, match=r"cannot be looked at|cannot be created"):
        Ledger(tmp_path / ("a" * 300), epsilon=1, delta=1e-6)


def test_a_charge_of_version_3_that_no_ledger_writes_is_the_files_fault(tmp_path):
    from test_books import version_3

    path = version_3(tmp_path / "privacy.db", "UPDATE charges SET epsilon = '-1.0'")
    with pytest.raises(InvalidFormat, match="damaged"):
        Ledger(path)
