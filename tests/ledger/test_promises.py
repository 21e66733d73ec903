"""What a ledger promises: enlarged, renewed, and after a rebuild."""

import datetime as dt

import pytest
from device_cases import StillClock
from ledger_cases import charge_whole, total

import thresher as th
from thresher.errors import (
    BudgetExceeded,
    InvalidSetting,
)
from thresher.ledger import Ledger
from thresher.privacy.units import ROW

ONE = th.plan(1, 1e-8)
TRIE = th.plan(1, 1e-8, rounds=5)


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
    assert ledger.give_back("running") > 0
    before = (ledger.drawn("running"), ledger.history())
    assert not ledger.restore(TRIE, "heavy_hitters", ROW, "running")  # what is there stays as it is
    assert (ledger.drawn("running"), ledger.history()) == before
    assert ledger.was_drawn("running", 0) and not ledger.was_drawn("running", 2)
