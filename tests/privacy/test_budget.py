"""The ledger's arithmetic: exact sums over queries, exact composition inside one, refusal before a draw."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import thresher as th
from thresher.errors import BudgetExceeded, InvalidSetting
from thresher.privacy import Budget, Charge, Rounds, charge_for, compose


def test_three_tenths_fit_three_times_a_tenth():
    budget = Budget(0.3, 3e-8)
    for _ in range(3):
        budget = budget.charge(Charge(0.1, 1e-8))
    assert budget.left_epsilon == 0
    assert budget.left_delta == 0
    assert budget.spent_epsilon == 0.3
    with pytest.raises(BudgetExceeded):
        budget.charge(Charge(1e-300, 1e-300))


def test_either_of_the_two_can_run_out():
    budget = Budget(1.0, 1e-6)
    assert not budget.allows(Charge(1.1, 1e-9))
    assert not budget.allows(Charge(0.1, 1.1e-6))
    assert budget.allows(Charge(1.0, 1e-6))


def test_refusal_says_what_is_left_and_leaves_the_budget_as_it_was():
    budget = Budget(1.0, 1e-6).charge(Charge(0.75, 1e-7))
    with pytest.raises(BudgetExceeded, match=r"epsilon = 0\.25 and delta = 9e-07 left") as caught:
        budget.charge(Charge(0.5, 1e-7))
    assert "Nothing was drawn" in caught.value.hint
    assert budget.spent_epsilon == 0.75


@given(st.lists(st.integers(1, 999), min_size=1, max_size=30))
def test_sums_are_exact_in_decimal(thousandths):
    total = sum(thousandths)
    budget = Budget(total / 1000 if total / 1000 <= 100 else 100.0, 0.5)
    spent = Budget(100.0, 0.5)
    for each in thousandths:
        spent = spent.charge(Charge(each / 1000, 1e-9))
    assert spent.spent_epsilon == float(f"{total / 1000:.3f}")
    if total <= 100_000:
        for each in thousandths:
            budget = budget.charge(Charge(each / 1000, 1e-9))
        assert budget.left_epsilon == 0


@pytest.mark.slow
def test_rounds_fixed_in_advance_cost_less_than_their_sum():
    rounds = [Rounds(0.05, 20, 5), Rounds(0.1, 30, 2)]
    charge = charge_for(rounds, 1e-8, "replace")
    assert charge == Charge(compose(rounds, delta=1e-8).epsilon, 1e-8)
    alone = sum(
        part.rounds * th.privacy.epsilon(sampling_rate=part.sampling_rate, threshold=part.threshold, delta=1e-8 / 7)
        for part in rounds
    )
    assert charge.epsilon < alone / 2


@pytest.mark.parametrize(
    "bad", [(0, 1e-8), (-1, 1e-8), (float("nan"), 1e-8), (1, 0), (1, 1), (1, float("inf")), ("1", 1e-8)]
)
def test_bad_charges_and_budgets(bad):
    with pytest.raises(InvalidSetting):
        Charge(*bad)
    with pytest.raises(InvalidSetting):
        Budget(*bad)


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-3, 1e-300), (1e6, 0.999), (1e6, 1e-300), (1e-3, 0.9)])
def test_a_filter_can_be_made_for_any_budget(epsilon, delta):
    budget = Budget.make(epsilon, delta)
    assert budget.filter.order > 1
    assert budget.filter.room(epsilon) > 0
    assert budget.left_share == 1


def test_a_delta_that_cannot_be_split_is_refused():
    with pytest.raises(InvalidSetting, match="delta"):
        Budget.make(1.0, 5e-324)
