"""What a device remembers of its charges, across versions and policies, and how much it computes for a server."""

from __future__ import annotations

import json
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
    round_of,
    shown,
    spends_of,
    take,
)

import thresher as th
from thresher.device import computed_prices, effort
from thresher.device.policy import Policy
from thresher.device.spending import Spend
from thresher.device.state import DeviceState, FileState, MemoryState
from thresher.device.terms import Terms
from thresher.privacy import round_prices
from thresher.privacy.whole_numbers import BEYOND, ONE, PERIOD

DAY = 86_400.0
USUAL = th.plan(1, 1e-8)
TERMS = Terms.of(round_of(configuration()))


# What is remembered


def as_version_1(state: DeviceState, *, costs: bool) -> bytes:
    """A state as earlier versions wrote it: with what a query stated, and without costs in 0.1.0."""
    content = msgspec.to_builtins(state)
    for spend in content["spends"].values():
        terms = spend["terms"]
        rate = terms["contact"] * terms["device"] * terms["aggregator"] / ONE**3
        rates = [terms[name] for name in ("contact", "device", "aggregator")]
        contributions = {"contributions": terms["contributions"]} if terms["contributions"] > 1 else {}
        cost = {"cost": {"order": 2.0, "sampling_rate": rate, "renyi": 1e-9, "bad": 1e-12}} if costs else {}
        stated = {"epsilon": 1e-3, "delta": 1e-30}  # whatever it said: it is not believed any more
        spend.update(terms=[rate, terms["threshold"], terms["rounds"], *rates], **stated, **cost, **contributions)
    return json.dumps({**content, "version": 1}).encode()


def test_a_restart_remembers_every_charge(tmp_path):
    core = device(policy=TWICE, state=FileState(tmp_path / "device.json"))
    take(core, shown(*queries(1)))
    kept = spends_of(core)
    assert kept == {"fleet/query-0": Spend(TERMS, (0,), START)}
    again = device(policy=TWICE, state=FileState(tmp_path / "device.json"))
    assert spends_of(again) == kept
    assert "round-1" in take(again, shown(*queries(2, 1)))
    assert again.outcome("round-2").reason == "budget"


@pytest.mark.parametrize("costs", [True, False])
def test_a_state_of_an_earlier_version_is_charged_from_its_terms(tmp_path, costs):
    path = tmp_path / "device.json"
    core = device(policy=Policy(), state=FileState(path))
    several = replace(PLAN, rounds=1, contributions=3)
    take(core, shown(*queries(2, plan=USUAL), *queries(1, 2, contact_rate=0.9), *queries(1, 3, plan=several)))
    assert len(spends_of(core)) == 4
    path.write_bytes(as_version_1(core._kept, costs=costs))
    read = device(policy=Policy(), state=FileState(path))
    assert spends_of(read) == spends_of(core)
    assert read._kept.rounds == core._kept.rounds
    take(read, shown(*queries(1, 4)))
    assert json.loads(path.read_bytes())["version"] == 2
    assert spends_of(device(policy=Policy(), state=FileState(path))) == spends_of(read)


def test_what_an_earlier_version_charged_fills_the_period(tmp_path):
    path = tmp_path / "device.json"
    old = Spend(TERMS, (0,), START)
    state = DeviceState(token="thresher-device-1", spends={"fleet/query-9": old, "fleet/query-8": old})
    path.write_bytes(as_version_1(state, costs=False))
    core = device(policy=TWICE, state=FileState(path))
    assert take(core, shown(*queries(1), configuration("goes-on", query="query-9", index=1))) == ["goes-on"]


@pytest.mark.slow
def test_a_policy_that_changes_charges_what_is_remembered_anew():
    state = MemoryState()
    take(device(policy=Policy(), state=state), shown(*queries(2)))
    for under, answers in ((ONCE, 0), (TWICE, 0), (Policy(period_epsilon=0.35), 1), (Policy(), 3)):
        copy = MemoryState()
        copy.save(state.load())
        core = device(policy=under, state=copy)
        new = take(core, shown(*queries(3, 5)))
        assert len([name for name in new if name not in ("round-0", "round-1")]) == answers


def test_a_policy_that_becomes_stricter_does_not_finish_what_it_would_not_begin():
    state = MemoryState()
    take(device(policy=Policy(), state=state), shown(*queries(2)))
    core = device(policy=ONCE, state=state)
    assert "next" not in take(core, shown(configuration("next", index=1)))
    assert core.outcome("next").reason == "budget"


def test_a_policy_that_relies_on_fewer_coins_finds_old_queries_dearer():
    half = configuration(contact_rate=0.5, sampled_by="aggregator")
    loose, usual = Policy(hide_from_contact_list=False), Policy()
    core = device(policy=loose)
    take(core, shown(half))
    [spend] = spends_of(core).values()
    assert loose.cost(spend.terms) < usual.cost(spend.terms) < PERIOD
    assert usual.cost(spend.terms) == Policy(coins="aggregator").cost(spend.terms)


def test_what_no_coin_protects_any_more_leaves_no_room_until_it_is_over():
    clock, state = StillClock(), MemoryState()
    answered(device(policy=Policy(), state=state, clock=clock), configuration())
    strict = Policy(coins="aggregator")
    core = device(policy=strict, state=state, clock=clock)
    ask = {"sampled_by": "aggregator"}
    assert answered(core, *queries(1, 1, **ask)) == []
    assert [strict.cost(spend.terms) for spend in spends_of(core).values()] == [BEYOND]
    back = device(policy=Policy(), state=state, clock=clock)  # reads what the strict one wrote
    assert answered(back, *queries(1, 2, **ask)) == ["round-2"]
    clock.time += 30 * DAY
    core = device(policy=strict, state=state, clock=clock)
    assert take(core, shown(*queries(1, 3, deadline=clock.time + 1, **ask))) == ["round-3"]


# What it costs to compute


@pytest.fixture
def computed(monkeypatch):
    """Every row of prices that is computed, without the work. None is remembered."""
    rows: list[int] = []
    prices = round_prices.Prices((ONE,), (PERIOD // 100,))
    monkeypatch.setattr(round_prices, "prices", lambda bounds, row: rows.append(row) or prices)
    computed_prices.computed.cache_clear()
    yield rows
    computed_prices.computed.cache_clear()


def of_many_rows(number: int, first: int = 0) -> list:
    """Rounds of so many queries, each with another threshold."""
    plans = [replace(PLAN, threshold=threshold) for threshold in (10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 22)]
    return [each for place in range(first, first + number) for each in queries(1, place, plan=plans[place])]


def test_the_default_policy_has_nothing_computed(computed):
    core = device()
    assert len(take(core, shown(*of_many_rows(12)))) == 12
    assert computed == []


def test_a_server_can_have_few_cells_computed_in_a_visit(computed, monkeypatch):
    """Also where each round is refused, and where one plan has many names."""
    monkeypatch.setattr(round_prices, "limit", lambda *cell: 0)
    nothing = Policy(max_epsilon=0.01)
    core = device(policy=nothing)
    different = of_many_rows(12)
    assert take(core, shown(*different)) == []
    assert len(core.outcomes()) == len(computed) == effort.PLANS  # the others are undecided
    assert take(core, shown(*different)) == []
    assert len(core.outcomes()) == len(computed) == len(set(computed)) == 2 * effort.PLANS
    assert {outcome.reason for outcome in core.outcomes()} == {"limit"}
    del computed[:]
    core = device(policy=nothing)
    assert take(core, shown(*queries(200, plan=replace(PLAN, threshold=50)))) == []
    assert len(core.outcomes()) == 200
    assert len(computed) == 1


def test_what_other_checks_refuse_has_nothing_computed(computed):
    other = {"period_epsilon": 0.9}  # not the table that is at hand
    for limit in ({"min_threshold": 50}, {"attributes": frozenset()}, {"pinned_key": bytes(32)}):
        assert take(device(policy=Policy(**other, **limit)), shown(*queries(5))) == []
    core = device(policy=Policy(**other))
    assert take(core, shown(*queries(2, deadline=START + 500 * DAY))) == []
    assert {each.reason for each in core.outcomes()} == {"deadline"}
    assert computed == []


@pytest.mark.slow
def test_charges_under_another_policy_are_computed_before_anything_is_answered(computed, monkeypatch):
    """All of them in one visit, unless that takes too long: a process may make one visit only."""
    old = {f"fleet/old-{place}": Spend(Terms.of(round_of(of)), (0,), START) for place, of in enumerate(of_many_rows(8))}
    state = MemoryState()
    state.save(DeviceState(token="thresher-device-1", spends=old))
    under = Policy(period_epsilon=5.0)
    assert take(device(state=state, policy=under), shown()) == []
    assert computed == []  # nobody asks
    with monkeypatch.context() as short:
        short.setattr(effort, "REMEMBERED", 0.0)
        assert take(device(state=state, policy=under), shown(*queries(1))) == []  # undecided, not refused
        assert device(state=state, policy=under).outcomes() == []
    assert computed == []
    assert take(device(state=state, policy=under), shown(*queries(1))) == ["round-0"]
    assert sorted(computed) == [10, 11, 12, 13, 14, 15, 16, 17]  # the new query's row is one of the old ones


def test_cells_that_cannot_be_computed_allow_nothing(monkeypatch):
    def broken(*_):
        raise OverflowError

    for name in ("limit", "prices"):
        monkeypatch.setattr(round_prices, name, broken)
    computed_prices.computed.cache_clear()
    core = device(policy=Policy(period_epsilon=3.3))
    assert take(core, shown(*queries(1))) == []
    assert core.outcome("round-0").reason == "limit"
    computed_prices.computed.cache_clear()
