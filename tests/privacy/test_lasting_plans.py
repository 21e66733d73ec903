"""A plan with which a budget lasts: so many queries really fit, and no other plan sees much smaller buckets."""

import pytest

from thresher.errors import InvalidSetting, Unreachable
from thresher.privacy import Budget, plan
from thresher.privacy.lasting_plans import lasting_plan

TARGETS = [  # budget's epsilon, queries, what is seen with 95 % at most (replace), and by fixed composition
    (3, 52, 115, 100),
    (3, 365, 260, 231),
    (1, 52, 300, 253),
    (1, 365, 700, 616),
]


def charged(budget, made, queries):
    for _ in range(queries):
        budget = budget.charge(budget.price(made))
    return budget


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "queries", "most", "composed"), TARGETS)
def test_a_years_queries_see_what_they_should(epsilon, queries, most, composed):
    budget = Budget.make(epsilon, 1e-6)
    made = lasting_plan(budget, queries)
    assert composed <= made.smallest_visible(0.95) <= most
    assert charged(budget, made, queries).fits
    made.verify()


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "queries", "most", "composed"), TARGETS)
def test_add_remove_sees_smaller_buckets(epsilon, queries, most, composed):
    budget = Budget.make(epsilon, 1e-6)
    made = lasting_plan(budget, queries, adjacency="add-remove")
    assert made.adjacency == "add-remove"
    assert made.smallest_visible(0.95) < 0.9 * most
    assert charged(budget, made, queries).fits
    made.verify()


@pytest.mark.slow
def test_with_part_of_the_budget_spent():
    budget = Budget.make(3, 1e-6)
    half = charged(budget, lasting_plan(budget, 10), 5)
    made = lasting_plan(half, 26)
    assert half.affords(half.price(made)) >= 26
    assert charged(half, made, 26).fits
    # Half of the budget for 26 queries is about all of it for 52.
    fresh = lasting_plan(budget, 52).smallest_visible(0.95)
    assert made.smallest_visible(0.95) == pytest.approx(fresh, rel=0.05)


@pytest.mark.slow
def test_queries_of_many_rounds():
    budget = Budget.make(3, 1e-6)
    made = lasting_plan(budget, 12, rounds=10)
    assert made.rounds == 10
    assert charged(budget, made, 12).fits
    made.verify()
    # 12 queries of 10 rounds cost what 120 of one round do.
    assert made.smallest_visible(0.95) == pytest.approx(lasting_plan(budget, 120).smallest_visible(0.95), rel=0.05)


@pytest.mark.slow
def test_one_query_may_use_the_plain_sum():
    budget = Budget.make(1, 1e-6)
    made = lasting_plan(budget, 1)
    assert budget.allows(budget.price(made))
    assert made.smallest_visible(0.95) <= plan(1.0, 1e-7).smallest_visible(0.95)


@pytest.mark.slow
def test_under_the_sum_each_query_gets_its_part():
    budget = Budget.make(3, 1e-6, composition="sum")
    made = lasting_plan(budget, 52)
    assert charged(budget, made, 52).fits
    assert made.epsilon == pytest.approx(3 / 52, rel=1e-9)
    assert made.smallest_visible(0.95) == pytest.approx(1128, rel=0.02)


def test_what_is_beyond_the_budget_is_refused():
    budget = Budget.make(1, 1e-6)
    spent = budget.charge(budget.foreign(1.0, 9.9e-8))
    with pytest.raises(Unreachable, match="does not allow 5 more"):
        lasting_plan(spent, 5)
    for wrong in ({"queries": 0}, {"queries": 5, "rounds": 0}, {"queries": 5, "probability": 1.0}):
        with pytest.raises(InvalidSetting):
            lasting_plan(budget, **wrong)
