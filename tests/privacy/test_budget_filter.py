"""A budget with a filter: exact refunds, both sides charged, counting that agrees with charging one by one."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thresher.errors import BudgetExceeded, InvalidSetting
from thresher.privacy import Budget, Charge, Filter
from thresher.privacy.budget import MOST_QUERIES, Sums, check_composition

TERMS = Filter(4.0, 1e-7, 8e-7, 1e-7)

charges = st.builds(
    Charge,
    st.floats(1e-3, 5.0),
    st.floats(1e-12, 1e-7),
    st.integers(1, 20),
    st.floats(1e-6, 0.5),
    st.floats(1e-15, 1e-8),
)


def budget(sums=None, *, epsilon=5.0):
    return Budget(epsilon, 1e-6, TERMS, sums or Sums())


@pytest.mark.slow
@given(st.lists(charges, min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_what_is_given_back_leaves_no_trace(made, random):
    """In any order, in any number of parts; what stays is exactly what was never given back."""
    kept, steps = Sums(), []
    for charge in made:
        drawn = random.randint(0, charge.rounds)
        steps.append((charge, charge.rounds, 1))
        steps += [(charge, -1, 0)] * (charge.rounds - drawn)
        if drawn == 0:
            steps.append((charge, 0, -1))
        kept = kept.plus(charge, rounds=drawn, whole=1 if drawn else 0)
    random.shuffle(steps)
    sums = Sums()
    for charge, rounds, whole in steps:
        sums = sums.plus(charge, rounds=rounds, whole=whole)
    assert sums == kept


@given(charges, charges)
def test_a_charge_that_is_taken_back_whole_leaves_an_equal_budget(first, second):
    before = budget(Sums().plus(first))
    after = budget(before.sums.plus(second).plus(second, whole=-1))
    assert after == before
    assert hash(after) == hash(before)


@pytest.mark.slow
@given(st.lists(charges, min_size=1, max_size=30))
def test_every_charge_counts_on_both_sides(made):
    now = budget()
    accepted = []
    for charge in made:
        if now.allows(charge):
            now, _ = now.charge(charge), accepted.append(charge)
        else:
            with pytest.raises(BudgetExceeded):
                now.charge(charge)
    assert now.fits
    expected = Sums()
    for charge in accepted:
        expected = expected.plus(charge)
    assert now.sums == expected
    plain = now.sums.epsilon <= now.parts["epsilon"][1] and now.sums.delta <= now.parts["delta"][1]
    filtered = now.sums.renyi <= now.parts["renyi"][1] and now.sums.bad <= now.parts["bad"][1]
    assert plain or filtered


def test_two_pots_are_not_opened():
    """What one condition let in is not free for the other."""
    room = TERMS.room(5.0)
    filling = Charge(0.1, 1e-12, 1, room * 0.99, 1e-12)  # fills the filter
    plain = Charge(4.9, 1e-12, 1, room * 0.99, 1e-12)  # fills the plain sum
    assert budget().charge(filling).allows(plain), "4.9 and 0.1 are 5: the plain sum holds"
    assert not budget().charge(filling).charge(plain).allows(Charge(0.01, 1e-12, 1, room * 0.001, 1e-12))
    assert not budget().charge(plain).allows(Charge(0.11, 1e-12, 1, room * 0.02, 1e-12))


@pytest.mark.slow
@given(charges, st.integers(0, 3))
@settings(max_examples=60)
def test_affords_agrees_with_charging_one_by_one(charge, before):
    """Costs that end after at most a few hundred charges."""
    charge = Charge(charge.epsilon, charge.delta, charge.rounds, max(charge.renyi, 0.01), charge.bad)
    now = budget()
    for _ in range(before):
        now = now.charge(charge) if now.allows(charge) else now
    affords, count = now.affords(charge), 0
    while now.allows(charge):
        now, count = now.charge(charge), count + 1
    assert count == affords


def test_affords_has_an_end():
    assert Budget(1.0, 1e-6, TERMS).affords(Charge(1e-300, 1e-300, 1, 0.0, 0.0)) == MOST_QUERIES
    beyond = budget(Sums().plus(Charge(100.0, 1e-3, 1, 100.0, 1e-3)))
    assert beyond.affords(Charge(0.1, 1e-12, 1, 1e-9, 1e-12)) == 0
    assert not beyond.fits
    assert beyond.left_share == 0


@given(charges, charges)
def test_what_a_charge_takes_is_what_is_left_less(first, second):
    now = budget(Sums().plus(first)) if budget().allows(first) else budget()
    taken = now.takes(second)
    assert 0 <= taken <= 1
    if now.allows(second):
        assert now.charge(second).left_share == pytest.approx(now.left_share - taken, abs=1e-12)
    else:
        assert taken == now.share(second, second.rounds)


@pytest.mark.parametrize("rounds", [1, 3, 7])
def test_foreign_charges_cost_at_least_their_whole_in_all_their_rounds(rounds):
    now = budget()
    whole, parts = TERMS.foreign_cost(0.7, 1e-9), now.foreign(0.7, 1e-9, rounds)
    assert (parts.epsilon, parts.delta, parts.rounds) == (0.7, 1e-9, rounds)
    assert rounds * parts.renyi >= whole.renyi
    assert rounds * parts.bad >= whole.bad
    assert rounds * parts.renyi == pytest.approx(whole.renyi, rel=1e-9)


def test_foreign_charges_under_the_sum_are_only_summed():
    summed = Budget.make(3, 1e-6, composition="sum")
    assert summed.foreign(0.7, 1e-9, 3) == Charge(0.7, 1e-9, 3)
    assert summed.affords(summed.foreign(0.7, 1e-9)) == 4


@pytest.mark.slow
@given(st.lists(charges, max_size=12))
def test_what_is_guaranteed_is_a_budget_that_would_have_taken_it_all(made):
    """Costs only add up, so a budget that holds the sums at the end held them throughout."""
    sums = Sums()
    for charge in made:
        sums = sums.plus(charge)
    epsilon, delta = budget(sums).guaranteed
    if not made:
        assert (epsilon, delta) == (0, 0)
    elif math.isfinite(epsilon):
        assert delta == 1e-6
        # Rounded up on the way there and down on the way back.
        assert Budget(epsilon * (1 + 1e-9) + 1e-9, 1e-6, TERMS, sums).fits
        assert not Budget(epsilon * (1 - 1e-9) - 1e-9, 1e-6, TERMS, sums).fits
    else:
        assert not Budget(1e6, 1e-6, TERMS, sums).fits


def test_enlarging_keeps_order_and_parts_of_delta():
    made = Budget.make(1, 1e-6)
    larger = Budget(2, 1e-6, made.filter, made.sums)
    assert larger.filter == made.filter
    assert larger.filter.room(2) > made.filter.room(1)
    # It lets less through than a budget that was made larger, whose order is better for it.
    cost = made.foreign(0.05, 1e-10)
    assert made.affords(cost) < larger.affords(cost)


def test_a_query_too_large_for_the_filter_may_fit_the_plain_sum():
    """One query of (epsilon, a tenth of delta) is accepted, and then nothing else is."""
    made = Budget.make(1, 1e-6)
    alone = made.foreign(1.0, 9.9e-8)
    assert made.affords(alone) == 1
    with pytest.raises(BudgetExceeded, match="does not even fit on its own"):
        made.charge(made.foreign(1.0, 1.1e-7))


def test_the_ways_to_compose():
    assert check_composition("adaptive") == "adaptive"
    with pytest.raises(InvalidSetting):
        check_composition("advanced")
    for bad in ({"renyi": -1e-9}, {"bad": -1e-9}, {"renyi": math.nan}, {"rounds": 0}):
        with pytest.raises(InvalidSetting):
            Charge(1.0, 1e-9, **bad)
