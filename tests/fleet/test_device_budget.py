"""A device's budget for a period: what it answers satisfies the filter, whatever a server asks and when."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from device_cases import (
    ONCE,
    PLAN,
    TWICE,
    StillClock,
    answered,
    configuration,
    device,
    noted,
    queries,
    round_of,
    shown,
    spends_of,
    take,
)
from hypothesis import given, settings
from hypothesis import strategies as st

import thresher as th
from thresher.device.policy import Policy
from thresher.device.spending import fit
from thresher.device.state import MemoryState
from thresher.device.terms import Terms
from thresher.privacy.budget import Budget, Charge
from thresher.privacy.plans import Plan
from thresher.privacy.whole_numbers import BEYOND, PERIOD

DAY = 86_400.0
USUAL = th.plan(1, 1e-8)


def cost(under: Policy, plan: Plan) -> int:
    """What a query with this plan costs a device."""
    return under.cost(Terms.of(round_of(configuration(plan=plan))))


# How many


@pytest.mark.slow
def test_these_policies_are_for_one_query_and_for_two():
    for under, number in ((ONCE, 1), (TWICE, 2)):
        assert PERIOD // cost(under, PLAN) == number
    assert cost(Policy(period_epsilon=0.2), PLAN) == BEYOND


@pytest.mark.slow
@pytest.mark.parametrize("plan", [PLAN, USUAL])
def test_a_device_answers_as_many_queries_as_the_filter_says(plan):
    under = Policy(period_epsilon=1.5)
    expected = PERIOD // cost(under, plan)
    assert expected > 5  # adding up would let one through
    budget = Budget.make(1.5, 1e-4)
    assert 0.6 * budget.affords(budget.price(plan)) < expected <= budget.affords(budget.price(plan))
    core = device(policy=under)
    assert len(take(core, shown(*queries(expected + 5, plan=plan)))) == expected
    assert {each.reason for each in core.outcomes() if each.status == "refused"} == {"budget"}


def test_the_default_answers_hundreds_of_usual_queries_a_period_and_keeps_what_it_promised():
    """(20, 1e-4) in 30 days, as when epsilons were added up, which let 20 through."""
    under = Policy()
    assert (under.period_epsilon, under.period_delta, under.period_days) == (20.0, 1e-4, 30.0)
    usual = cost(under, USUAL)
    assert fit([usual] * 700)
    assert not fit([usual] * 1_047)  # which is what a ledger with the exact costs lets through


@pytest.mark.slow
def test_the_table_in_the_protocol_is_right():
    text = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| \((.+?), (.+?)\), (one round|ten rounds).*? \| (\d+) \| ([\d,]+) \| ([\d,]+) \|$", text, re.MULTILINE
    )
    assert len(rows) == 5
    budget = Budget.make(20.0, 1e-4)
    for epsilon, total_delta, rounds, added_up, filtered, found in rows:
        plan = th.plan(float(epsilon), float(total_delta), rounds=1 if rounds == "one round" else 10)
        assert PERIOD // cost(Policy(), plan) == int(found.replace(",", ""))
        assert budget.affords(budget.price(plan)) == pytest.approx(int(filtered.replace(",", "")), rel=0.01)
        assert Budget.make(20.0, 1e-4, "sum").affords(Charge(plan.epsilon, plan.delta)) == int(added_up)


@pytest.mark.slow
def test_one_query_alone_may_use_all_of_the_budget_and_then_nothing_fits_beside_it():
    under = Policy(period_epsilon=1.0, period_delta=1e-8)
    assert cost(under, USUAL) > PERIOD // 2
    core = device(policy=under)
    small = Plan(1 / 1024, 30, 0.01, 1e-20)
    rounds = [*queries(2, plan=USUAL), *queries(1, 7, plan=small)]
    assert take(core, shown(*rounds)) == ["round-0"]
    assert take(device(policy=under), shown(*reversed(rounds))) == ["round-7"]
    assert take(device(policy=replace(under, period_delta=0.99e-8)), shown(*rounds)) == ["round-7"]


# Which coins count


def test_the_cost_is_that_of_the_coins_that_the_policy_relies_on():
    of = Terms.of(round_of(configuration(contact_rate=0.5, sampled_by="aggregator")))
    device_coins = Terms.of(round_of(configuration(contact_rate=0.5)))
    everyone, hidden, strict = Policy(hide_from_contact_list=False), Policy(), Policy(coins="aggregator")
    at = {rate: hidden.prices.cost(3, 12, rate) for rate in (1 << 28, 1 << 29)}
    assert at[1 << 28] < at[1 << 29] < PERIOD  # otherwise this test shows nothing
    for under, terms, rate in (
        (everyone, of, 1 << 28),
        (hidden, of, 1 << 29),
        (strict, of, 1 << 29),
        (everyone, device_coins, 1 << 28),
        (hidden, device_coins, 1 << 29),
    ):
        assert under.cost(terms) == at[rate]
    assert strict.cost(device_coins) == BEYOND


# The period


def test_the_budget_comes_back_as_charges_leave_the_period():
    clock = StillClock()
    core = device(policy=TWICE, clock=clock)
    taken = []
    for number in range(12):
        [of] = queries(1, number, deadline=clock.time + 3600)
        taken.append(of.round in answered(core, of))
        clock.time += 10 * DAY
    assert taken == [True, True, False] * 4


PLANS = (PLAN, replace(PLAN, rounds=2), Plan(1 / 8, 16, 1.0, 1e-5, "replace", 3))


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 6),
            st.integers(0, 2),
            st.floats(0, 40) | st.sampled_from([0, 29, 30, 31]),
            st.booleans(),
            st.sampled_from([0, 20, 90]),
            st.booleans(),
        ),
        max_size=30,
    ),
    st.sampled_from([ONCE, TWICE, Policy(period_epsilon=0.5), Policy(period_epsilon=1.0, period_delta=1e-8)]),
)
def test_the_queries_answered_in_any_period_satisfy_the_filter(history, under):
    """Rounds in any order, queries resumed after any time, restarts, reports that are taken only after months: all
    queries of which a report is sent in the same 30 days fit together."""
    clock, state = StillClock(), MemoryState()
    core = device(policy=under, clock=clock, state=state)
    sent: list[tuple[float, int]] = []
    asked: dict[str, int] = {}
    for step, (query, index, days, restart, open_days, takes) in enumerate(history):
        clock.time += days * DAY
        if restart:
            core = device(policy=under, clock=clock, state=state)
        plan = PLANS[query % 3]
        of = configuration(
            f"{step}",
            query=f"query-{query}",
            index=index % plan.rounds,
            plan=plan,
            deadline=clock.time + open_days * DAY + 1,
        )
        asked[of.round] = query
        for name in take(core, shown(of)):
            sent.append((clock.time, asked[name]))
            noted(core, name, "taken" if takes else None)
    for end, _ in sent:
        in_period = {query for time, query in sent if end - 30 * DAY < time <= end}
        assert fit(cost(under, PLANS[query % 3]) for query in in_period)


def test_rounds_in_a_hostile_order_open_nothing():
    """The last round first, one round under many names, another query in between, a clock that goes back."""
    clock = StillClock()
    core = device(policy=ONCE, clock=clock)
    assert answered(core, configuration("last", index=2), *queries(1, 1)) == ["last"]
    again = [configuration(f"again-{number}", index=2) for number in range(5)]
    assert answered(core, *again) == []
    clock.time -= 60 * DAY
    assert answered(core, *queries(1, 2)) == []
    clock.time += 89 * DAY
    assert answered(core, configuration("first", index=0, deadline=clock.time + 1)) == ["first"]
    clock.time += 29 * DAY  # 58 days after the first answer, 29 after the latest
    assert answered(core, *queries(1, 3, deadline=clock.time + 1)) == []
    clock.time += DAY
    assert answered(core, *queries(1, 4, deadline=clock.time + 1)) == ["round-4"]


@pytest.mark.parametrize("holds", [{"word": "hello"}, {"word": "x" * 500}, {}, {"word": 3.5}, {"word": []}])
def test_no_decision_and_no_charge_depends_on_what_is_held(holds):
    clock = StillClock()
    core, other = (device(each, policy=TWICE, clock=clock) for each in (holds, {"word": "other"}))
    for _ in range(4):
        visit = shown(*queries(3, int(clock.time), deadline=clock.time + 1))
        take(core, visit), take(other, visit)
        clock.time += 11 * DAY
    assert core.outcomes() == other.outcomes()
    assert spends_of(core) == spends_of(other)
