"""What a device remembers of its charges, across versions and policies, and how much it computes for a server."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

import msgspec
import pytest
from device_cases import (
    ONCE,
    PLAN,
    START,
    TWICE,
    StillClock,
    answered,
    configuration,
    device,
    queries,
    shown,
    spends_of,
    take,
)

import thresher as th
from thresher.device import effort, spending
from thresher.device.policy import Policy
from thresher.device.spending import Spend, delta_at, is_priced, price
from thresher.device.state import DeviceState, FileState, MemoryState
from thresher.privacy.budget import Budget, Charge
from thresher.privacy.guarantee import delta
from thresher.privacy.plans import Plan

DAY = 86_400.0
USUAL = th.plan(1, 1e-8)


# What is remembered


def without_costs(state: DeviceState) -> dict:
    """A state as 0.1.0 wrote it."""
    content = msgspec.to_builtins(state)
    for spend in content["spends"].values():
        del spend["cost"]
    return content


def test_a_restart_computes_no_cost(tmp_path, monkeypatch):
    core = device(policy=TWICE, state=FileState(tmp_path / "device.json"))
    take(core, shown(*queries(1)))
    kept = spends_of(core)
    assert kept["fleet/query-0"].charge == price(TWICE.budget, PLAN)
    monkeypatch.setattr(Policy, "repriced", None)
    again = device(policy=TWICE, state=FileState(tmp_path / "device.json"))
    assert spends_of(again) == kept
    assert "round-1" in take(again, shown(*queries(2, 1)))
    assert again.outcome("round-2").status == "refused"


def test_a_state_of_an_earlier_version_is_charged_from_its_terms(tmp_path):
    path = tmp_path / "device.json"
    core = device(policy=Policy(), state=FileState(path))
    take(core, shown(*queries(2, plan=USUAL), *queries(1, 2, contact_rate=0.9)))
    path.write_bytes(msgspec.json.encode(without_costs(core._kept)))
    read = device(policy=Policy(), state=FileState(path))
    assert [spend.cost for spend in spends_of(read).values()] == [None] * 3
    take(read, shown(*queries(1, 3)))
    assert read.outcome("round-3").status == "sealed"
    assert {key: spends_of(read)[key] for key in spends_of(core)} == spends_of(core)
    assert spends_of(device(policy=Policy(), state=FileState(path))) == spends_of(read)


def test_what_an_earlier_version_charged_fills_the_period():
    old = Spend(1.0, 1e-8, (1 / 16, 12, 3, 1 << 32, 1 << 28, 1 << 32), (0,), START)
    state = MemoryState()
    state.save(DeviceState(token="thresher-device-1", spends={"fleet/query-9": old, "fleet/query-8": old}))
    core = device(policy=TWICE, state=state)
    assert take(core, shown(*queries(1), configuration("goes-on", query="query-9", index=1))) == ["goes-on"]


def test_a_policy_that_changes_charges_what_is_remembered_anew():
    state = MemoryState()
    take(device(policy=Policy(), state=state), shown(*queries(2)))
    for under, answers in ((ONCE, 0), (TWICE, 0), (Policy(period_epsilon=0.35), 1), (Policy(), 3)):
        copy = MemoryState()
        copy.save(state.load())
        core = device(policy=under, state=copy)
        new = take(core, shown(*queries(3, 5)))
        assert len([name for name in new if name not in ("round-0", "round-1")]) == answers
        for key in ("fleet/query-0", "fleet/query-1"):
            assert spends_of(core)[key].charge == price(under.budget, PLAN)
            assert spends_of(core)[key].cost.order == under.budget.filter.order


def test_a_policy_that_becomes_stricter_does_not_finish_what_it_would_not_begin():
    state = MemoryState()
    take(device(policy=Policy(), state=state), shown(*queries(2)))
    core = device(policy=ONCE, state=state)
    assert "next" not in take(core, shown(configuration("next", index=1)))
    assert core.outcome("next").reason == "the budget of 30 days has too little left"


def test_a_policy_that_relies_on_fewer_coins_finds_old_queries_dearer_and_never_cheaper():
    half = configuration(contact_rate=0.5, sampled_by="aggregator")
    state = MemoryState()
    loose = Policy(hide_from_contact_list=False)
    take(device(policy=loose, state=state), shown(half))
    alone = delta(sampling_rate=2 / 16, threshold=12, epsilon=1.0, rounds=3)
    for under, expected in ((Policy(max_delta=0.1), alone), (loose, alone)):
        core = device(policy=under, state=state)
        take(core, shown(*queries(1, 5 if under is loose else 4)))
        spend = spends_of(core)["fleet/query-0"]
        assert spend.delta == expected
        assert spend.charge.renyi == price(under.budget, replace(PLAN, sampling_rate=spend.cost.sampling_rate)).renyi
        assert spend.cost.sampling_rate == (1 / 16 if under is loose else 2 / 16)


def test_what_no_coin_protects_any_more_leaves_no_room_until_it_is_over():
    clock, state = StillClock(), MemoryState()
    answered(device(policy=Policy(), state=state, clock=clock), configuration())
    strict = Policy(coins="aggregator")
    core = device(policy=strict, state=state, clock=clock)
    ask = {"sampled_by": "aggregator"}
    assert answered(core, *queries(1, 1, **ask)) == []
    assert spends_of(core)["fleet/query-0"].delta == 1
    back = device(policy=Policy(), state=state, clock=clock)  # reads what the strict one wrote
    assert answered(back, *queries(1, 2, **ask)) == ["round-2"]
    assert spends_of(back)["fleet/query-0"].delta == delta_at(1 / 16, 12, 3, 1, 1.0, 1 / 16)
    clock.time += 30 * DAY
    core = device(policy=strict, state=state, clock=clock)
    assert take(core, shown(*queries(1, 3, deadline=clock.time + 1, **ask))) == ["round-3"]


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
    assert take(core, shown(*different)) == []
    assert len(core.outcomes()) == len(computed) == effort.PLANS
    assert take(core, shown(*different)) == []
    assert len(core.outcomes()) == len(computed) == len(set(computed)) == 2 * effort.PLANS
    del computed[:]
    core = device(policy=nothing)
    assert take(core, shown(*queries(200, plan=replace(PLAN, threshold=50)))) == []
    assert len(core.outcomes()) == 200
    assert len(computed) == 1


def test_what_other_checks_refuse_has_no_cost_computed(computed):
    for limit in ({"max_epsilon": 0.5}, {"min_threshold": 50}, {"attributes": frozenset()}, {"max_delta": 1e-9}):
        assert take(device(policy=Policy(**limit)), shown(*queries(5))) == []
    assert computed == []
    core = device(policy=Policy(period_epsilon=1.0, period_delta=1e-8))
    take(core, shown(*queries(1, plan=USUAL)))  # alone beyond what the filter allows: nothing fits beside it
    del computed[:]
    take(core, shown(*queries(5, 1)))
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
    assert take(device(state=state), shown()) == []
    assert computed == []  # nobody asks
    assert take(device(state=state), shown(*queries(1))) == []  # undecided, not refused
    assert device(state=state).outcomes() == []
    assert len(computed) == effort.PLANS
    assert take(device(state=state), shown(*queries(1))) == ["round-0"]
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
        assert take(core, shown(lying)) == []
        assert core.outcome("round-0").reason == "its configuration does not hold together"
    assert computed == []


def test_a_cost_that_cannot_be_computed_is_a_refusal(monkeypatch):
    def broken(*_):
        raise OverflowError

    monkeypatch.setattr(Budget, "price", broken)
    monkeypatch.setattr(spending, "_prices", OrderedDict())
    core = device()
    assert take(core, shown(*queries(1))) == []
    assert core.outcome("round-0").reason == "its configuration does not hold together"


def test_a_cost_beyond_every_number_is_kept_as_a_round_that_is_always_bad(monkeypatch):
    monkeypatch.setattr(Budget, "price", lambda budget, plan: Charge(plan.epsilon, plan.delta, 3, float("inf"), 0.0))
    monkeypatch.setattr(spending, "_prices", OrderedDict())
    assert price(ONCE.budget, PLAN) == Charge(1.0, 1e-8, 3, 0.0, 1.0)
