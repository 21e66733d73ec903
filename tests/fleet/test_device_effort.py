"""What a hostile server can make a device do: counted, not timed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from device_cases import KEY, PLAN, START, configuration, device, queries, shown, spends_of, take
from hypothesis import given
from hypothesis import strategies as st

from thresher.device import core as device_core
from thresher.device.device import TRAFFIC, WORK
from thresher.device.effort import PLANS, ROUNDS, SECONDS, Allowance, Effort
from thresher.device.policy import Policy
from thresher.device.spending import Charged, FilterCost, Spend, fit, price
from thresher.device.state import DeviceState, MemoryState
from thresher.privacy.budget import Charge, Sums
from thresher.privacy.plans import Plan
from thresher.protocol import messages, recomputation
from thresher.protocol.messages import GuaranteesStated, GuaranteeStated, RoundConfiguration
from thresher.questions import Values


@pytest.fixture
def recomputed(monkeypatch):
    """Every plan whose guarantee is recomputed, without the work: all of them hold."""
    plans: list[Plan] = []
    monkeypatch.setattr(recomputation, "_recomputed", lambda plan, *_: plans.append(plan) or True)
    recomputation._verdicts.clear()
    yield plans
    recomputation._verdicts.clear()  # nothing of what was said here is true


def expensive(number: int, **changes: Any) -> RoundConfiguration:
    """One of many rounds, each of another query with a plan that takes seconds to recompute."""
    plan = Plan(1 / 128, 50_000 + number, 0.5, 1e-9, "replace", 30)
    return configuration(f"round-{number}", query=f"query-{number}", plan=plan, **changes)


@pytest.mark.slow
def test_a_server_with_ten_thousand_expensive_plans_costs_a_few_recomputations(recomputed):
    visit = shown(*(expensive(number) for number in range(10_000)))
    core = device(policy=Policy(period_epsilon=1e6, period_delta=0.5))
    assert len(take(core, visit)) == len(recomputed) == PLANS
    assert len(take(core, visit)) == len(recomputed) == 2 * PLANS  # the next visit goes on where this one stopped
    assert len(set(recomputed)) == len(recomputed)


@pytest.mark.slow
@pytest.mark.parametrize(
    "under",
    [
        Policy(max_epsilon=0.1),
        Policy(max_delta=1e-12),
        Policy(min_threshold=100_000),
        Policy(attributes=frozenset({"colour"})),
        Policy(pinned_key=bytes(32)),
        Policy(period_epsilon=1e-4),
    ],
)
def test_rounds_that_the_policy_refuses_cost_no_recomputation(recomputed, under):
    core = device(policy=under)
    assert take(core, shown(*(expensive(number) for number in range(50)))) == []
    assert {outcome.status for outcome in core.outcomes()} == {"refused"}
    assert recomputed == []


def test_configurations_that_contradict_themselves_cost_no_recomputation(recomputed):
    honest = expensive(0)
    broken = [
        msgspec.structs.replace(honest, round="index", index=30),
        msgspec.structs.replace(honest, round="rates", device_rate=honest.device_rate + 1),
        msgspec.structs.replace(honest, round="guarantee", plan={**honest.plan, "epsilon": 0.4}),
        msgspec.structs.replace(honest, round="threshold", plan={**honest.plan, "threshold": 200_000}),
        msgspec.structs.replace(honest, round="rounds", plan={**honest.plan, "rounds": 5_000}),
        msgspec.structs.replace(honest, round="far", deadline=START + 500 * 86_400.0),
    ]
    core = device()
    assert take(core, shown(*broken)) == []
    assert len(core.outcomes()) == len(broken)
    assert recomputed == []
    assert take(core, shown(honest)) == ["round-0"]
    assert len(recomputed) == 1


def test_one_bad_plan_under_many_names_is_recomputed_once(monkeypatch):
    recomputations: list[Plan] = []
    monkeypatch.setattr(recomputation, "_recomputed", lambda plan, *_: recomputations.append(plan) or False)
    recomputation._verdicts.clear()
    visit = shown(*(configuration(f"round-{number}", query=f"query-{number}") for number in range(100)))
    core = device()
    assert take(core, visit) == []
    assert {outcome.reason for outcome in core.outcomes()} == {"its configuration does not hold together"}
    assert len(recomputations) == 1
    recomputation._verdicts.clear()


def test_only_so_many_rounds_are_looked_at_in_a_visit(monkeypatch):
    looked: list[str] = []
    real = device_core.read_terms
    monkeypatch.setattr(device_core, "read_terms", lambda text: looked.append(text) or real(text))
    core = device(policy=Policy(min_threshold=100))
    visit = shown(*(configuration(f"round-{number}", query=f"query-{number}") for number in range(1_000)))
    take(core, visit)
    assert len(looked) == len(core.outcomes()) == ROUNDS
    take(core, visit)
    assert len(looked) == len(set(looked)) == 2 * ROUNDS


def test_only_so_many_reports_are_in_a_request_and_none_is_left_out_for_ever(monkeypatch):
    assert messages.MOST_REPORTS >= ROUNDS  # what a visit seals, it hands in with one request, if it is not too long
    monkeypatch.setattr(device_core, "MOST_REPORTS", 8)
    rounds, core = queries(10), device()
    take(core, shown(*rounds))
    handed_in = [core.visit_request(rounds=False).reports, core.visit_request(rounds=False).reports]
    assert [len(each) for each in handed_in] == [8, 2]
    assert len({*handed_in[0], *handed_in[1]}) == 10
    seen = set()
    for _ in range(30):  # some report is left out of all these visits with a probability below 10 × 0.2^30 < 1e-19
        request = core.visit_request(rounds=True)
        assert len(set(request.reports)) == 8
        seen |= set(request.reports)
    assert len(seen) == 10


def test_strings_without_a_name_cost_little(monkeypatch):
    """Of a million strings, no more are read than a device could have records of."""
    read: list[str] = []
    real = device_core.read_round
    monkeypatch.setattr(device_core, "read_round", lambda text: read.append(text) or real(text))
    core = device()
    assert take(core, shown(*([""] * 100_000))) == []
    assert len(read) <= device_core.MOST_ROUNDS + ROUNDS


@pytest.fixture
def additions(monkeypatch):
    """One element for each time that a charge is added to sums, or taken away."""
    made: list[Charge] = []
    real = Sums.plus
    monkeypatch.setattr(Sums, "plus", lambda sums, charge, **how: made.append(charge) or real(sums, charge, **how))
    return made


@pytest.mark.parametrize("under", [Policy(), Policy(period_epsilon=0.5)], ids=["answers", "refuses"])
def test_charges_are_added_up_once_a_visit(additions, under):
    """Whether the rounds are answered or refused, of new queries or of those that are charged."""
    first = device(policy=under)
    take(first, shown(*queries(1)))
    [spend] = spends_of(first).values()
    many = {
        f"fleet/old-{number}": msgspec.structs.replace(
            spend, cost=msgspec.structs.replace(spend.cost, renyi=spend.cost.renyi * (1 + number * 1e-6))
        )
        for number in range(300)
    }
    state = MemoryState()
    state.save(DeviceState(token="thresher-device-1", spends=many))
    core = device(policy=under, state=state)
    again = [configuration(f"next-{number}", query=f"old-{number}", index=1) for number in range(20)]
    del additions[:]
    take(core, shown(*queries(20), *again))
    assert len(core.outcomes()) == 40
    assert len({outcome.status for outcome in core.outcomes()}) == 1
    assert 300 <= len(additions) <= 300 + 6 * 40


@given(
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from([PLAN, replace(PLAN, rounds=1)])), max_size=12),
    st.sampled_from([0.05, 0.25, 0.3, 0.5, 1.0]),
)
def test_sums_that_are_kept_through_a_visit_say_what_adding_up_says(history, period_epsilon):
    """Also for queries that are charged in place of an earlier charge, and for one that is alone."""
    under = Policy(period_epsilon=period_epsilon)
    charged, expected = Charged(under.budget, {}), {}
    for number, plan in history:
        query, charge = f"query-{number}", price(under.budget, plan)
        others = [each for name, each in expected.items() if name != query]
        assert charged.covers(query, charge) == fit(under.budget, [*others, charge])
        cost = FilterCost(under.budget.filter.order, plan.sampling_rate, charge.renyi, charge.bad)
        charged.record(query, Spend(1.0, 1e-8, (plan.sampling_rate, 12, plan.rounds, 1, 1, 1), (0,), START, cost))
        expected[query] = charge
    assert {name: spend.charge for name, spend in charged.spends.items()} == expected


def test_refused_rounds_are_forgotten_whatever_their_deadline():
    core = device(policy=Policy(min_threshold=100))
    take(core, shown(configuration(deadline=START + 399 * 86_400.0), configuration("far", deadline=1e300)))
    assert len(core.outcomes()) == 2
    core._clock.time += 31 * 86_400.0
    take(core, shown())
    assert core.outcomes() == []


def test_a_visit_that_has_computed_long_enough_begins_nothing_more():
    times = iter([0.0, SECONDS * 0.75, 10.0, 10.0 + SECONDS])
    effort = Effort(clock=lambda: next(times))
    assert effort.recomputes(lambda: True) is True
    assert effort.recomputes(lambda: False) is False
    assert effort.recomputes(lambda: True) is None


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 60)), min_size=1, max_size=30))
def test_visits_cannot_cost_more_than_the_allowance_in_the_long_run(visits):
    """Whatever each visit costs: with the rests in between, the total stays within the burst and the rate."""
    burst, a_second = WORK
    allowance, now, total = Allowance(burst, a_second), 0.0, 0.0
    for pause, spent in visits:
        assert total <= burst + now * a_second + 1e-6  # when a visit may begin, all before it is paid for
        now += spent  # a visit takes as long as its processor time, at least
        rest = allowance.rest(spent, now)
        assert rest >= 0
        total += spent
        now += max(pause, rest)


def test_an_ordinary_device_never_rests():
    work, traffic = Allowance(*WORK), Allowance(*TRAFFIC)
    for visit in range(1_000):
        assert work.rest(0.02, visit * 1.0) == 0
        assert traffic.rest(20_000, visit * 1.0) == 0


def test_stated_guarantees_come_back_as_values():
    of = configuration(question=Values(("word",)), key=KEY)
    assert isinstance(of.guarantees, GuaranteesStated)
    assert GuaranteeStated.of(of.guarantees.contact_list.stated) == of.guarantees.contact_list
