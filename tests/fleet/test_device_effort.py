"""What a hostile server can make a device do: counted, not timed."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from device_cases import PLAN, START, TWICE, configuration, device, queries, shown, spends_of, take
from hypothesis import given
from hypothesis import strategies as st

from thresher.device import core as device_core
from thresher.device.device import TRAFFIC, WORK
from thresher.device.effort import ROUNDS, SECONDS, Allowance, Effort
from thresher.device.policy import Policy
from thresher.device.spending import Charged, Spend, fit
from thresher.device.state import DeviceState, MemoryState
from thresher.device.terms import Terms
from thresher.privacy.plans import Plan
from thresher.privacy.whole_numbers import BEYOND, PERIOD
from thresher.protocol import messages, readable
from thresher.protocol.readable import SHORT
from thresher.questions import Values


@pytest.mark.slow
def test_a_round_that_looks_expensive_costs_a_look_at_the_table():
    """A plan that takes seconds to compute exactly is one of few cells, whatever its numbers are."""
    plans = [Plan(1 / 128, 50_000 + number, 0.5, 1e-9, "replace", 30) for number in range(250)]
    rounds = [each for number, plan in enumerate(plans) for each in queries(1, number, plan=plan)]
    under = Policy(period_epsilon=0.9)
    core = device(policy=under)
    assert len(take(core, shown(*rounds))) == 250
    assert list(under.prices._limits) == [(32, 1024)]


def test_configurations_that_contradict_themselves_are_refused():
    [honest] = queries(1, plan=replace(PLAN, rounds=30))
    broken = [
        msgspec.structs.replace(honest, round="index", index=30),
        msgspec.structs.replace(honest, round="rates", device_rate=honest.device_rate + 1),
        msgspec.structs.replace(honest, round="threshold", plan={**honest.plan, "threshold": 200_000}),
        msgspec.structs.replace(honest, round="rounds", plan={**honest.plan, "rounds": 5_000}),
        msgspec.structs.replace(honest, round="far", deadline=START + 500 * 86_400.0),
    ]
    core = device()
    assert take(core, shown(*broken)) == []
    assert [each.reason for each in core.outcomes()] == ["unreadable"] * 4 + ["deadline"]
    assert take(core, shown(honest)) == ["round-0"]


def test_only_so_many_rounds_are_looked_at_in_a_visit(monkeypatch):
    looked: list[str] = []
    real = Policy.refusal_outright
    monkeypatch.setattr(Policy, "refusal_outright", lambda *given: looked.append(given[1].round) or real(*given))
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


@pytest.mark.parametrize("under", [Policy(), TWICE], ids=["answers", "refuses"])
def test_charges_are_looked_up_once_a_visit(monkeypatch, under):
    """Whether the rounds are answered or refused, of new queries or of those that are charged."""
    first = device(policy=under)
    take(first, shown(*queries(1)))
    [spend] = spends_of(first).values()
    state = MemoryState()
    state.save(DeviceState(token="thresher-device-1", spends={f"fleet/old-{number}": spend for number in range(300)}))
    core = device(policy=under, state=state)
    again = [configuration(f"next-{number}", query=f"old-{number}", index=1) for number in range(20)]
    looked: list[Terms] = []
    real = Policy.cost
    monkeypatch.setattr(Policy, "cost", lambda policy, terms: looked.append(terms) or real(policy, terms))
    take(core, shown(*queries(20), *again))
    assert len(core.outcomes()) == 40
    assert len({outcome.status for outcome in core.outcomes()}) == 1
    assert 300 <= len(looked) <= 300 + 3 * 40


COSTS = [3, 10**8, PERIOD // 3, PERIOD // 2, BEYOND]


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(COSTS)), max_size=12))
def test_sums_that_are_kept_through_a_visit_say_what_adding_up_says(history):
    """Also for queries that are charged in place of an earlier charge, and for one that is alone."""
    spend = Spend(Terms(1, 1, 20, 1, 1, 1), (0,), START)
    charged, expected = Charged({}, {}), {}
    for number, cost in history:
        query = f"query-{number}"
        others = [each for name, each in expected.items() if name != query]
        assert charged.covers(query, cost) == fit([*others, cost])
        charged.record(query, spend, cost)
        expected[query] = cost
    assert charged.spends.keys() == expected.keys()


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


def test_of_long_answers_and_long_rounds_few_are_remembered():
    """A server could otherwise fill a device's memory: sixteen answers of 16 MiB, read, are more than a gigabyte."""
    core = device()
    for number in range(5):
        long = configuration(f"long-{number}", question=Values((f"{number}" + "x" * SHORT,)))
        take(core, shown(long, configuration(f"short-{number}", index=number % 3)))
    assert device_core._long_answer.cache_info().maxsize == 1
    assert readable._long_rounds.cache_info().currsize <= 2
    assert max(map(len, [configuration().text])) < SHORT
