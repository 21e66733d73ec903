"""Answers that wait to be sent: the charge of their query stays until a period after the last of them was sent."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from device_cases import (
    ONCE,
    START,
    TWICE,
    StillClock,
    answered,
    configuration,
    device,
    noted,
    queries,
    shown,
    spends_of,
    take,
)

from thresher.device.core import DeviceCore
from thresher.device.policy import Policy
from thresher.device.spending import fit
from thresher.device.state import DeviceState, FileState, MemoryState

DAY = 86_400.0
FAR = START + 399 * DAY


def refused_for_the_budget(core: DeviceCore, name: str) -> bool:
    return core.outcome(name).reason == "budget"


def test_a_server_that_hoards_answers_gets_no_more_of_them_than_one_period_covers():
    """It asks a query every 31 days, takes no report, and wants all of them at the end."""
    clock = StillClock()
    core = device(policy=ONCE, clock=clock)
    rounds = queries(13, deadline=FAR)
    for of in rounds:
        for name in take(core, shown(of)):
            assert noted(core, name, None) == "sealed"
        clock.time += 31 * DAY - 60
    clock.time = FAR - DAY
    assert take(core, shown(*rounds)) == ["round-0"]
    assert list(spends_of(core)) == ["fleet/query-0"]
    assert all(refused_for_the_budget(core, of.round) for of in rounds[1:])


@pytest.mark.parametrize("status", ["taken", "conflict", "closed", "rejected"])
def test_a_charge_ends_a_period_after_its_answer_was_taken(status):
    clock = StillClock()
    core = device(policy=ONCE, clock=clock)
    take(core, shown(*queries(1, deadline=FAR)))
    clock.time += 100 * DAY
    assert take(core, shown(*queries(1, 1, deadline=FAR))) == ["round-0"]
    clock.time += 3600  # the visit takes its time
    assert noted(core, "round-0", status) == status
    clock.time += 30 * DAY - 1
    assert answered(core, *queries(1, 2, deadline=FAR)) == []
    clock.time += 1
    assert answered(core, *queries(1, 3, deadline=FAR)) == ["round-3"]


@pytest.mark.parametrize("days", [1, 31, 99])
def test_a_charge_ends_a_period_after_its_answer_was_dropped(days):
    """Also where the visit that drops it is so late that the round is forgotten at once."""
    clock = StillClock()
    core = device(policy=ONCE, clock=clock)
    take(core, shown(*queries(1)))
    clock.time += days * DAY
    assert take(core, shown()) == []
    clock.time += 30 * DAY - 1
    assert answered(core, *queries(1, 1, deadline=FAR)) == []
    clock.time += 1
    assert answered(core, *queries(1, 2, deadline=FAR)) == ["round-2"]


def test_one_of_two_answers_that_waits_is_enough():
    clock = StillClock()
    core = device(policy=ONCE, clock=clock)
    take(core, shown(*(configuration(f"round-{index}", index=index, deadline=FAR) for index in range(2))))
    noted(core, "round-0", "taken")
    clock.time += 60 * DAY
    assert take(core, shown(*queries(1, 5, deadline=FAR))) == ["round-1"]
    again = configuration("again", index=0, deadline=FAR)
    assert take(core, shown(again)) == ["round-1"], "the round of the answer that was taken is remembered too"
    assert core.outcome("again").reason == "answered"


def test_other_queries_do_not_wait_with_it():
    clock = StillClock()
    core = device(policy=TWICE, clock=clock)
    take(core, shown(*queries(2, deadline=FAR)))
    noted(core, "round-1", "taken")
    clock.time += 30 * DAY
    assert take(core, shown(*queries(2, 2, deadline=FAR))) == ["round-0", "round-2"]
    assert sorted(spends_of(core)) == ["fleet/query-0", "fleet/query-2"]


def test_what_waits_is_known_after_a_restart_and_costs_no_saving(tmp_path):
    clock, path = StillClock(), tmp_path / "device.json"
    take(device(policy=ONCE, clock=clock, state=FileState(path)), shown(*queries(1, deadline=FAR)))
    written = path.stat().st_mtime_ns, path.stat().st_ino
    for _ in range(3):
        clock.time += 31 * DAY
        core = device(policy=ONCE, clock=clock, state=FileState(path))
        assert take(core, shown()) == ["round-0"]
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == written
    assert take(core, shown(*queries(1, 1, deadline=FAR))) == ["round-0"]
    assert refused_for_the_budget(core, "round-1")


def test_a_clock_that_was_set_back_ends_no_charge_early():
    clock = StillClock()
    core = device(policy=ONCE, clock=clock)
    take(core, shown(configuration(deadline=FAR)))
    clock.time -= 40 * DAY
    noted(core, "round-0", "taken")
    take(core, shown(configuration("next", index=1, deadline=clock.time + DAY)))
    noted(core, "next", "taken")
    assert spends_of(core)["fleet/query-0"].time == START


# States of 0.1.0


def of_an_earlier_version(state: MemoryState) -> MemoryState:
    """The same state with records that do not say to which query they belong."""
    content = msgspec.to_builtins(state.load())
    for record in content["rounds"].values():
        del record["query"]
    earlier = MemoryState()
    earlier.save(msgspec.convert(content, DeviceState))
    return earlier


def hoarded(days: float) -> tuple[StillClock, MemoryState]:
    """A state of 0.1.0 some days after one answer was sealed that still waits, and after one that was taken."""
    clock, state = StillClock(), MemoryState()
    core = device(policy=TWICE, clock=clock, state=state)
    take(core, shown(*queries(2, deadline=FAR)))
    noted(core, "round-1", "taken")
    clock.time += days * DAY
    return clock, of_an_earlier_version(state)


def test_an_answer_of_an_earlier_version_may_belong_to_any_charge():
    clock, state = hoarded(29)
    core = device(policy=TWICE, clock=clock, state=state)
    assert take(core, shown(*queries(1, 2, deadline=FAR))) == ["round-0"]
    noted(core, "round-0", "taken")
    clock.time += 30 * DAY - 1
    assert answered(core, *queries(1, 3, deadline=FAR)) == []
    clock.time += 1
    assert answered(core, *queries(3, 4, deadline=FAR)) == ["round-4", "round-5"]


def test_an_answer_of_an_earlier_version_is_not_sent_when_its_charge_may_be_forgotten():
    clock, state = hoarded(30)
    core = device(policy=TWICE, clock=clock, state=state)
    waits = queries(1, deadline=FAR)
    assert take(core, shown(*waits)) == []
    assert core.outcome("round-0").status == "closed"
    assert state.load().rounds["round-0"].sealed is None
    assert take(core, shown(*waits)) == [], "and its coin is not tossed again"


def test_what_a_hoarder_of_an_earlier_version_has_collected_is_not_sent():
    """Thirteen answers, each in a period of its own, which 0.1.0 would send on one day."""
    clock, sealed_before = StillClock(), {}
    rounds = queries(13, deadline=FAR)
    for of in rounds:
        core = device(policy=ONCE, clock=clock)
        take(core, shown(of))
        sealed_before |= core._kept.rounds
        spends = spends_of(core)
        clock.time += 30 * DAY
    clock.time -= DAY
    state = MemoryState()
    state.save(DeviceState(token="thresher-device-1", rounds=sealed_before, spends=spends))
    core = device(policy=ONCE, clock=clock, state=of_an_earlier_version(state))
    assert take(core, shown(*rounds)) == ["round-12"]
    assert fit(ONCE.cost(spend.terms) for spend in spends_of(core).values())
    assert list(spends_of(core)) == ["fleet/query-12"]


@pytest.mark.parametrize(("period", "charged"), [(30.0, True), (60.0, False)])
def test_an_answer_of_an_earlier_version_without_a_charge_is_in_no_request(period, charged):
    """Sealed 40 days ago, and 0.1.0 forgot its charge after 30: also where the period is longer now."""
    clock, state = StillClock(), MemoryState()
    core = device(policy=TWICE, clock=clock, state=state)
    take(core, shown(*queries(1, deadline=FAR)))
    clock.time += 40 * DAY
    old = of_an_earlier_version(state)
    spends = old.load().spends if charged else {}
    old.save(msgspec.structs.replace(old.load(), spends=spends))
    again = device(policy=replace(Policy(), period_days=period), clock=clock, state=old)
    assert again.visit_request(rounds=True).reports == ()
    take(again, shown(*queries(1, deadline=FAR)))
    assert again.outcome("round-0").status == "closed"
