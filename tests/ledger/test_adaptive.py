"""The adaptive ledger: what it lets through, and what it is for."""

import sqlite3
from pathlib import Path

import pyarrow as pa
import pytest
from ledger_cases import charge_whole, total

import thresher as th
from thresher.errors import (
    BudgetExceeded,
    InvalidFormat,
    InvalidSetting,
    LedgerUnavailable,
    VerificationFailed,
)
from thresher.ledger import Ledger
from thresher.privacy.units import ROW

ONE = th.plan(1, 1e-8)


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
    assert "ledger.plan" in caught.value.hint
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


def test_what_a_query_takes_that_does_not_fit_is_not_what_is_left(tmp_path):
    ledger = Ledger(tmp_path / "privacy.db", epsilon=1, delta=1e-6)
    plan = ledger.plan(queries=3)
    for _ in range(3):
        charge_whole(ledger, plan, "histogram", ROW)
    assert ledger.left.share < 0.01
    assert ledger.takes(plan) == pytest.approx(1 / 3, rel=0.01)


def test_a_ledger_where_nobody_may_look_says_so(tmp_path):
    with pytest.raises(LedgerUnavailable, match=r"cannot be looked at|cannot be created"):
        Ledger(tmp_path / ("a" * 300), epsilon=1, delta=1e-6)


def test_a_charge_of_version_3_that_no_ledger_writes_is_the_files_fault(tmp_path):
    from test_books import version_3

    path = version_3(tmp_path / "privacy.db", "UPDATE charges SET epsilon = '-1.0'")
    with pytest.raises(InvalidFormat, match="damaged"):
        Ledger(path)
