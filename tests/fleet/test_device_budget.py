"""A device's budget for a period: what it answers satisfies the filter, whatever a server asks and when."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

import msgspec
import pytest
from device_cases import ONCE, PLAN, START, TWICE, StillClock, checked_in, configuration, device, terms_of
from hypothesis import given, settings
from hypothesis import strategies as st

import thresher as th
from thresher.device import effort, spending
from thresher.device.policy import Policy
from thresher.device.spending import UNPROTECTED, Spend, delta_at, fit, is_priced, price
from thresher.device.state import DeviceState, FileState, MemoryState
from thresher.privacy.budget import Budget, Charge
from thresher.privacy.guarantee import delta
from thresher.privacy.plans import Plan
from thresher.protocol.messages import RoundConfiguration

DAY = 86_400.0
USUAL = th.plan(1, 1e-8)


def queries(number: int, first: int = 0, **changes) -> list[RoundConfiguration]:
    """The first rounds of so many queries."""
    return [configuration(f"round-{each}", query=f"query-{each}", **changes) for each in range(first, first + number)]


def spends_of(core) -> dict[str, Spend]:
    return core._kept.spends


# How many


def test_these_policies_are_for_one_query_and_for_two():
    for under, number in ((ONCE, 1), (TWICE, 2)):
        assert under.budget.affords(price(under.budget, PLAN)) == number
    assert Policy(period_epsilon=0.2).budget.affords(price(Policy(period_epsilon=0.2).budget, PLAN)) == 0


@pytest.mark.slow
@pytest.mark.parametrize("plan", [PLAN, USUAL])
def test_a_device_answers_as_many_queries_as_the_filter_says(plan):
    under = Policy(period_epsilon=1.5)
    expected = under.budget.affords(under.budget.price(configuration(plan=plan).planned))
    assert expected > 10  # adding up would let one through
    core = device(policy=under)
    assert len(core.take(checked_in(*queries(expected + 5, plan=plan)))) == expected
    assert {each.reason for each in core.outcomes() if each.status == "refused"} == {
        "the budget of 30 days has too little left"
    }


def test_the_default_answers_a_thousand_usual_queries_a_period_and_keeps_what_it_promised():
    """(20, 1e-4) in 30 days, as when epsilons were added up, which let 20 through."""
    under = Policy()
    assert (under.period_epsilon, under.period_delta, under.period_days) == (20.0, 1e-4, 30.0)
    usual = price(under.budget, USUAL)
    assert 1_000 <= under.budget.affords(usual) <= 1_100
    assert under.affords([usual] * 1_000)
    assert not under.affords([usual] * 1_100)


def test_every_query_counts_on_both_sides():
    """Two pots, one for each condition, would not be private."""
    under = Policy(period_epsilon=2.0)
    room = under.budget.filter.room(2.0)
    by_sum = Charge(2.0, 1e-6, renyi=room * 0.6, bad=0.0)  # all of the plain sum
    by_filter = Charge(0.1, 1e-6, renyi=room * 0.6, bad=0.0)
    assert under.affords([by_sum])
    assert under.affords([by_filter, by_filter])  # by the plain sum
    assert not under.affords([by_sum, by_filter])
    assert under.affords([by_sum, replace(by_filter, renyi=room * 0.39)])


def test_one_query_alone_may_use_all_of_the_budget_and_then_nothing_fits_beside_it():
    under = Policy(period_epsilon=1.0, period_delta=1e-8)
    assert under.budget.affords(price(under.budget, USUAL)) == 0  # neither condition of the filter holds
    core = device(policy=under)
    small = Plan(1 / 1024, 30, 0.01, 1e-20)
    rounds = [*queries(2, plan=USUAL), *queries(1, 7, plan=small)]
    assert core.take(checked_in(*rounds)) == ["round-0"]
    assert device(policy=under).take(checked_in(*reversed(rounds))) == ["round-7"]
    assert device(policy=replace(under, period_delta=0.99e-8)).take(checked_in(*rounds)) == ["round-7"]


# Which coins count


def test_the_cost_is_that_of_the_coins_that_the_policy_relies_on():
    of = terms_of(configuration(contact_rate=0.5, sampled_by="aggregator"))
    device_coins = terms_of(configuration(contact_rate=0.5))
    everyone = Policy(hide_from_contact_list=False, max_delta=0.1)
    hidden = Policy(max_delta=0.1)
    strict = Policy(coins="aggregator", max_delta=0.1)
    filter = hidden.budget.filter
    at = {rate: filter.round_cost(rate, 12, "replace", 20.0) for rate in (1 / 16, 2 / 16)}
    assert at[1 / 16].renyi < at[2 / 16].renyi  # otherwise this test shows nothing
    for under, terms, rate in (
        (everyone, of, 1 / 16),
        (hidden, of, 2 / 16),
        (strict, of, 2 / 16),
        (everyone, device_coins, 1 / 16),
        (hidden, device_coins, 2 / 16),
    ):
        found = under.charge(terms.plan, terms.rates, terms.guarantees)
        assert (found.renyi, found.bad, found.rounds) == (at[rate].renyi, at[rate].bad, 3)
        assert (found.epsilon, found.delta) == under.cost(terms.guarantees)
    assert strict.charge(device_coins.plan, device_coins.rates, device_coins.guarantees) is UNPROTECTED
    assert not strict.affords([UNPROTECTED])


# The period


def test_the_budget_comes_back_as_charges_leave_the_period():
    clock = StillClock()
    core = device(policy=TWICE, clock=clock)
    taken = []
    for number in range(12):
        [of] = queries(1, number, deadline=clock.time + 3600)
        taken.append(of.round in core.take(checked_in(of)))
        clock.time += 10 * DAY
    assert taken == [True, True, False] * 4


PLANS = (PLAN, replace(PLAN, rounds=2), Plan(1 / 8, 16, 1.0, 1e-5, "replace", 3))


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2), st.floats(0, 40), st.booleans()), max_size=30),
    st.sampled_from([ONCE, TWICE, Policy(period_epsilon=0.5), Policy(period_epsilon=1.0, period_delta=1e-8)]),
)
def test_the_queries_answered_in_any_period_satisfy_the_filter(history, under):
    """Rounds in any order, queries resumed after any time, restarts: all rounds answered in 30 days fit together."""
    clock, state = StillClock(), MemoryState()
    core = device(policy=under, clock=clock, state=state)
    answers: list[tuple[float, int]] = []
    for step, (query, index, days, restart) in enumerate(history):
        clock.time += days * DAY
        if restart:
            core = device(policy=under, clock=clock, state=state)
        plan = PLANS[query % 3]
        of = configuration(
            f"{step}", query=f"query-{query}", index=index % plan.rounds, plan=plan, deadline=clock.time + 1
        )
        if of.round in core.take(checked_in(of)):
            answers.append((clock.time, query))
    for end, _ in answers:
        in_period = {query for time, query in answers if end - 30 * DAY < time <= end}
        assert fit(under.budget, [price(under.budget, PLANS[query % 3]) for query in in_period])


def test_rounds_in_a_hostile_order_open_nothing():
    """The last round first, one round under many names, another query in between, a clock that goes back."""
    clock = StillClock()
    core = device(policy=ONCE, clock=clock)
    assert core.take(checked_in(configuration("last", index=2), *queries(1, 1))) == ["last"]
    again = [configuration(f"again-{number}", index=2) for number in range(5)]
    assert core.take(checked_in(*again)) == ["last"]
    clock.time -= 60 * DAY
    assert "round-2" not in core.take(checked_in(*queries(1, 2)))
    clock.time += 89 * DAY
    assert "first" in core.take(checked_in(configuration("first", index=0, deadline=clock.time + 1)))
    clock.time += 29 * DAY  # 58 days after the first answer, 29 after the latest
    assert core.take(checked_in(*queries(1, 3, deadline=clock.time + 1))) == []
    clock.time += DAY
    assert core.take(checked_in(*queries(1, 4, deadline=clock.time + 1))) == ["round-4"]


# What is remembered


def without_costs(state: DeviceState) -> dict:
    """A state as 0.1.0 wrote it."""
    content = msgspec.to_builtins(state)
    for spend in content["spends"].values():
        del spend["cost"]
    return content


def test_a_restart_computes_no_cost(tmp_path, monkeypatch):
    core = device(policy=TWICE, state=FileState(tmp_path / "device.json"))
    core.take(checked_in(*queries(1)))
    kept = spends_of(core)
    assert kept["fleet/query-0"].charge == price(TWICE.budget, PLAN)
    monkeypatch.setattr(Policy, "repriced", None)
    again = device(policy=TWICE, state=FileState(tmp_path / "device.json"))
    assert spends_of(again) == kept
    assert "round-1" in again.take(checked_in(*queries(2, 1)))
    assert again.outcome("round-2").status == "refused"


def test_a_state_of_an_earlier_version_is_charged_from_its_terms(tmp_path):
    path = tmp_path / "device.json"
    core = device(policy=Policy(), state=FileState(path))
    core.take(checked_in(*queries(2, plan=USUAL), *queries(1, 2, contact_rate=0.9)))
    path.write_bytes(msgspec.json.encode(without_costs(core._kept)))
    read = device(policy=Policy(), state=FileState(path))
    assert [spend.cost for spend in spends_of(read).values()] == [None] * 3
    read.take(checked_in(*queries(1, 3)))
    assert read.outcome("round-3").status == "sealed"
    assert {key: spends_of(read)[key] for key in spends_of(core)} == spends_of(core)
    assert spends_of(device(policy=Policy(), state=FileState(path))) == spends_of(read)


def test_what_an_earlier_version_charged_fills_the_period():
    old = Spend(1.0, 1e-8, (1 / 16, 12, 3, 1 << 32, 1 << 28, 1 << 32), (0,), START)
    state = MemoryState()
    state.save(DeviceState(token="thresher-device-1", spends={"fleet/query-9": old, "fleet/query-8": old}))
    core = device(policy=TWICE, state=state)
    assert core.take(checked_in(*queries(1), configuration("goes-on", query="query-9", index=1))) == ["goes-on"]


def test_a_policy_that_changes_charges_what_is_remembered_anew():
    state = MemoryState()
    device(policy=Policy(), state=state).take(checked_in(*queries(2)))
    for under, answers in ((ONCE, 0), (TWICE, 0), (Policy(period_epsilon=0.35), 1), (Policy(), 3)):
        copy = MemoryState()
        copy.save(state.load())
        core = device(policy=under, state=copy)
        new = core.take(checked_in(*queries(3, 5)))
        assert len([name for name in new if name not in ("round-0", "round-1")]) == answers
        for key in ("fleet/query-0", "fleet/query-1"):
            assert spends_of(core)[key].charge == price(under.budget, PLAN)
            assert spends_of(core)[key].cost.order == under.budget.filter.order


def test_a_policy_that_becomes_stricter_does_not_finish_what_it_would_not_begin():
    state = MemoryState()
    device(policy=Policy(), state=state).take(checked_in(*queries(2)))
    core = device(policy=ONCE, state=state)
    assert "next" not in core.take(checked_in(configuration("next", index=1)))
    assert core.outcome("next").reason == "the budget of 30 days has too little left"


def test_a_policy_that_relies_on_fewer_coins_finds_old_queries_dearer_and_never_cheaper():
    half = configuration(contact_rate=0.5, sampled_by="aggregator")
    state = MemoryState()
    loose = Policy(hide_from_contact_list=False)
    device(policy=loose, state=state).take(checked_in(half))
    alone = delta(sampling_rate=2 / 16, threshold=12, epsilon=1.0, rounds=3)
    for under, expected in ((Policy(max_delta=0.1), alone), (loose, alone)):
        core = device(policy=under, state=state)
        core.take(checked_in(*queries(1, 5 if under is loose else 4)))
        spend = spends_of(core)["fleet/query-0"]
        assert spend.delta == expected
        assert spend.charge.renyi == price(under.budget, replace(PLAN, sampling_rate=spend.cost.sampling_rate)).renyi
        assert spend.cost.sampling_rate == (1 / 16 if under is loose else 2 / 16)


def test_what_no_coin_protects_any_more_leaves_no_room_until_it_is_over():
    clock, state = StillClock(), MemoryState()
    device(policy=Policy(), state=state, clock=clock).take(checked_in(configuration()))
    strict = Policy(coins="aggregator")
    core = device(policy=strict, state=state, clock=clock)
    ask = {"sampled_by": "aggregator"}
    assert "round-1" not in core.take(checked_in(*queries(1, 1, **ask)))
    assert spends_of(core)["fleet/query-0"].delta == 1
    back = device(policy=Policy(), state=state, clock=clock)  # reads what the strict one wrote
    assert "round-2" in back.take(checked_in(*queries(1, 2, **ask)))
    assert spends_of(back)["fleet/query-0"].delta == delta_at(1 / 16, 12, 3, 1.0, 1 / 16)
    clock.time += 30 * DAY
    core = device(policy=strict, state=state, clock=clock)
    assert core.take(checked_in(*queries(1, 3, deadline=clock.time + 1, **ask))) == ["round-3"]


@pytest.mark.parametrize("holds", [{"word": "hello"}, {"word": "x" * 500}, {}, {"word": 3.5}, {"word": []}])
def test_no_decision_and_no_charge_depends_on_what_is_held(holds):
    clock = StillClock()
    core, other = (device(each, policy=TWICE, clock=clock) for each in (holds, {"word": "other"}))
    for _ in range(4):
        visit = checked_in(*queries(3, int(clock.time), deadline=clock.time + 1))
        core.take(visit), other.take(visit)
        clock.time += 11 * DAY
    assert core.outcomes() == other.outcomes()
    assert spends_of(core) == spends_of(other)


# What it costs to compute


def test_costs_are_remembered_for_many_devices_and_not_without_end(monkeypatch):
    monkeypatch.setattr(spending, "_KEPT", 8)
    monkeypatch.setattr(spending, "_prices", OrderedDict())
    plans = [Plan(1 / 16, 12 + number, 1.0, 1e-8) for number in range(10)]
    assert not is_priced(ONCE.budget, plans[0])
    found = [price(ONCE.budget, plan) for plan in plans]
    assert [is_priced(ONCE.budget, plan) for plan in plans] == [False] * 2 + [True] * 8
    assert price(ONCE.budget, plans[-1]) is found[-1]
    assert not is_priced(TWICE.budget, plans[-1])


@pytest.fixture
def computed(monkeypatch):
    """Every plan whose cost is computed. No cost is remembered."""
    plans: list[Plan] = []
    real = Budget.price
    monkeypatch.setattr(Budget, "price", lambda budget, plan: plans.append(plan) or real(budget, plan))
    monkeypatch.setattr(spending, "_prices", OrderedDict())
    return plans


def test_a_server_can_have_few_costs_computed_in_a_visit(computed):
    """Also where each round is refused, so that nothing is verified, and where the same plan has many names."""
    nothing = Policy(period_epsilon=1e-4)
    core = device(policy=nothing)
    different = [each for number in range(20) for each in queries(1, number, plan=replace(PLAN, threshold=12 + number))]
    assert core.take(checked_in(*different)) == []
    assert len(core.outcomes()) == len(computed) == effort.PLANS
    assert core.take(checked_in(*different)) == []
    assert len(core.outcomes()) == len(computed) == len(set(computed)) == 2 * effort.PLANS
    del computed[:]
    core = device(policy=nothing)
    assert core.take(checked_in(*queries(200, plan=replace(PLAN, threshold=50)))) == []
    assert len(core.outcomes()) == 200
    assert len(computed) == 1


def test_what_other_checks_refuse_has_no_cost_computed(computed):
    for limit in ({"max_epsilon": 0.5}, {"min_threshold": 50}, {"attributes": frozenset()}, {"max_delta": 1e-9}):
        assert device(policy=Policy(**limit)).take(checked_in(*queries(5))) == []
    assert computed == []
    core = device(policy=Policy(period_epsilon=1.0, period_delta=1e-8))
    core.take(checked_in(*queries(1, plan=USUAL)))  # alone beyond what the filter allows: nothing fits beside it
    del computed[:]
    core.take(checked_in(*queries(5, 1)))
    assert {each.status for each in core.outcomes()[1:]} == {"refused"}
    assert computed == []


def test_charges_of_an_earlier_version_are_computed_over_several_visits(computed):
    rates = (1 << 32, 1 << 28, 1 << 32)
    old = {
        f"fleet/old-{number}": Spend(1.0, 1e-8, (1 / 16, 12 + number // 2, 3, *rates), (0,), START)
        for number in range(2 * effort.PLANS + 4)
    }
    state = MemoryState()
    state.save(DeviceState(token="thresher-device-1", spends=old))
    assert device(state=state).take(checked_in()) == []
    assert computed == []  # nobody asks
    assert device(state=state).take(checked_in(*queries(1))) == []  # undecided, not refused
    assert device(state=state).outcomes() == []
    assert len(computed) == effort.PLANS
    assert device(state=state).take(checked_in(*queries(1))) == ["round-0"]
    assert len(computed) == effort.PLANS + 2  # the new query's plan is one of the old ones


@pytest.mark.parametrize(
    "lie",
    [
        {"delta": 0.0},
        {"delta": -1.0},
        {"delta": 1e-9},
        {"delta": 2.0},
        {"epsilon": -1.0},
        {"epsilon": 0.0},
        {"rounds": 0},
    ],
)
@pytest.mark.parametrize("whom", ["contact_list", "injected"])
def test_a_guarantee_that_no_plan_has_is_a_refusal_and_not_an_error(computed, whom, lie):
    honest = configuration(sampled_by="aggregator")
    stated = msgspec.structs.replace(getattr(honest.guarantees, whom), **lie)
    lying = msgspec.structs.replace(honest, guarantees=msgspec.structs.replace(honest.guarantees, **{whom: stated}))
    for under in (Policy(), Policy(coins="aggregator")):
        core = device(policy=under)
        assert core.take(checked_in(lying)) == []
        assert core.outcome("round-0").reason == "its configuration does not hold together"
    assert computed == []


def test_a_cost_that_cannot_be_computed_is_a_refusal(monkeypatch):
    def broken(*_):
        raise OverflowError

    monkeypatch.setattr(Budget, "price", broken)
    monkeypatch.setattr(spending, "_prices", OrderedDict())
    core = device()
    assert core.take(checked_in(*queries(1))) == []
    assert core.outcome("round-0").reason == "its configuration does not hold together"


def test_a_cost_beyond_every_number_is_kept_as_a_round_that_is_always_bad(monkeypatch):
    monkeypatch.setattr(Budget, "price", lambda budget, plan: Charge(plan.epsilon, plan.delta, 3, float("inf"), 0.0))
    monkeypatch.setattr(spending, "_prices", OrderedDict())
    assert price(ONCE.budget, PLAN) == Charge(1.0, 1e-8, 3, 0.0, 1.0)
