"""Devices without a network: one coin a round, the same bytes ever after, silence that depends on no value."""

from __future__ import annotations

import numpy as np
import pytest
from device_cases import (
    ALWAYS,
    KEY,
    START,
    TWICE,
    StillClock,
    Tosses,
    checked_in,
    configuration,
    device,
    opened,
    sealed,
)
from scipy import stats

from thresher.device.core import back_off
from thresher.device.device import DeviceCore, Outcome
from thresher.device.policy import Policy
from thresher.errors import InvalidFormat, NotFound, Unauthorised
from thresher.protocol import messages
from thresher.protocol.plaintext import DECOY
from thresher.protocol.sealing import OVERHEAD
from thresher.questions import Cells, Joint, Prefixes, Values
from thresher.testing import SeededRandomness

ALPHA = 1e-9  # false alarm per check


def answer(holds, of) -> object:
    """What a device that holds this says in a round."""
    core = device(holds)
    assert core.take(checked_in(of)) == [of.round]
    return opened(sealed(core, of.round), of)


# What is answered


def test_requests_are_what_the_protocol_says():
    core = DeviceCore({"word": "hello"})
    request = core.enrol_request("thresher-enrolment-1")
    assert (request.method, request.path, request.token) == ("POST", "/v1/devices", "thresher-enrolment-1")
    with pytest.raises(Unauthorised):
        core.check_in_request()
    core.enrolled(b'{"token":"thresher-device-1"}')
    request = core.check_in_request()
    assert (request.method, request.path, request.token) == ("POST", "/v1/check-in", "thresher-device-1")
    assert messages.decode(messages.CheckIn, request.body) == messages.CheckIn()
    core.take(messages.encode(checked_in(configuration())))
    request = core.report_request("round-0")
    assert (request.method, request.path, request.token) == (
        "POST",
        "/v1/rounds/round-0/report",
        "thresher-device-1",
    )


def test_answers_with_the_bucket_of_what_it_holds():
    assert answer({"word": "hello"}, configuration(**ALWAYS)) == "hello"
    assert answer({"word": 42}, configuration(**ALWAYS)) == "42"
    assert answer({"word": "hello"}, configuration(question=Prefixes("word", 3), **ALWAYS)) == "hel"
    assert answer({"time": 12.5}, configuration(question=Cells("time", 0, 100, 8), **ALWAYS)) == 1
    both = configuration(question=Values(("word", "colour")), **ALWAYS)
    assert answer({"word": "hello", "colour": "red", "more": 1}, both) == ("hello", "red")


def test_functions_are_asked_when_a_round_is_answered():
    held = ["first"]
    core = device(lambda: {"word": held[0]})
    held[0] = "second"
    of = configuration(**ALWAYS)
    core.take(checked_in(of))
    held[0] = "third"
    assert opened(sealed(core), of) == "second"
    assert answer({"word": lambda: "called"}, of) == "called"


def broken():
    raise RuntimeError("no such sensor")


@pytest.mark.parametrize(
    "holds",
    [
        {},
        {"colour": "red"},
        {"word": None},
        {"word": float("nan")},
        {"word": []},
        {"word": object()},
        {"word": "x" * 59},  # one byte more than 64 - 2 - len('[""]') leaves room for
        {"word": "é" * 30},
        {"word": "\ud800"},
        {"word": broken},
        broken,
        lambda: None,
    ],
)
def test_without_a_value_that_fits_a_decoy_goes_the_same_way(holds):
    of = configuration(**ALWAYS)
    assert answer(holds, of) is DECOY
    assert answer({"word": "x" * 58}, of) == "x" * 58


def test_a_part_that_is_missing_is_no_value():
    both = configuration(question=Joint((Values(("word",)), Values(("colour",)))), **ALWAYS)
    assert answer({"word": "hello"}, both) is DECOY


@pytest.mark.slow
@pytest.mark.parametrize("size", [48, 64, 200, 4096])
def test_every_report_of_a_round_has_one_length(size):
    lengths, bodies = set(), set()
    for holds in ({"word": ""}, {"word": "hello"}, {"word": "x" * 5000}, {}, {"word": 10**30}):
        for sampling in ({}, ALWAYS):
            core = device(holds)
            core.take(checked_in(configuration(bucket_size=size, **sampling)))
            lengths.add(len(sealed(core)))
            bodies.add(len(core.report_request("round-0").body))
    assert lengths == {size + OVERHEAD}
    assert len(bodies) == 1


@pytest.mark.slow
def test_of_a_list_one_element_is_chosen_anew_in_each_round():
    elements = ["a", "b", "c"]
    of = configuration(**ALWAYS)
    counts = dict.fromkeys(elements, 0)
    for _ in range(1500):
        counts[answer({"word": elements}, of)] += 1
    assert stats.chisquare(list(counts.values())).pvalue > ALPHA
    # The test can fail: with 1500 draws this is not rejected with probability 5e-12 (exact, over all outcomes).
    assert stats.chisquare(list(counts.values()), [750, 375, 375]).pvalue < ALPHA
    core = device({"word": elements})
    rounds = [configuration(f"round-{index}", index=index, **ALWAYS) for index in range(3)]
    assert core.take(checked_in(*rounds)) == ["round-0", "round-1", "round-2"]
    assert {opened(sealed(core, each.round), each) for each in rounds} <= set(elements)


# The coin


@pytest.mark.slow
def test_the_coin_has_the_rate_of_the_round():
    of, devices = configuration(), 3000
    heads = sum(answer({"word": "hello"}, of) != DECOY for _ in range(devices))
    assert stats.binomtest(heads, devices, 1 / 16).pvalue > ALPHA
    assert stats.binomtest(heads, devices, 1 / 8).pvalue < ALPHA  # the test can fail


def test_the_coin_is_tossed_once_however_often_the_device_is_asked():
    tosses = Tosses()
    core, of = device(randomness=tosses), configuration()
    core.take(checked_in(of))
    drawn, first = tosses.drawn, core.report_request("round-0")
    assert drawn > 0
    for status in (None, 500, 503, 429, 502):
        assert core.report_answered("round-0", status) > 0
        assert core.take(checked_in(of)) == ["round-0"]
        assert core.report_request("round-0") == first
    assert tosses.drawn == drawn


def test_the_same_source_gives_the_same_coins():
    of, said = configuration(), []
    for _ in range(2):
        source = SeededRandomness(7)
        cores = [device(randomness=source) for _ in range(100)]
        for core in cores:
            core.take(checked_in(of))
        said.append([opened(sealed(core), of) for core in cores])
    assert said[0] == said[1]
    assert {DECOY, "hello"} == set(said[0])


# What the server answers


@pytest.mark.parametrize(
    ("status", "ended"),
    [
        (200, "taken"),
        (201, "taken"),
        (409, "conflict"),
        (410, "closed"),
        (404, "closed"),
        (400, "rejected"),
        (413, "rejected"),
    ],
)
def test_what_ends_a_round(status, ended):
    core = device()
    core.take(checked_in(configuration()))
    assert core.report_answered("round-0", status) is None
    assert core.outcomes() == [Outcome("round-0", ended)]
    with pytest.raises(NotFound):
        core.report_request("round-0")
    assert core.take(checked_in(configuration())) == []  # also when the server asks again
    assert core.report_answered("round-0", 503) is None


@pytest.mark.parametrize("status", [None, 429, 500, 502, 503, 504, 401, 302])
def test_what_does_not_end_a_round(status):
    core = device()
    core.take(checked_in(configuration()))
    assert core.report_answered("round-0", status) > 0
    assert core.outcome("round-0").status == "sealed"


def test_waits_grow_are_random_and_honour_retry_after():
    waits = [[back_off(attempt) for _ in range(50)] for attempt in range(1, 15)]
    for attempt, each in enumerate(waits):
        longest = min(0.5 * 2**attempt, 300)
        assert all(longest / 2 <= wait <= longest for wait in each)
        assert len(set(each)) > 1
    assert all(back_off(1, 17.0) >= 17.0 for _ in range(50))
    assert back_off(10_000) <= 300
    core = device()
    core.take(checked_in(configuration()))
    assert core.report_answered("round-0", 503, 40.0) >= 40.0
    for _ in range(9):
        wait = core.report_answered("round-0", None)
    assert wait > 100


def test_bytes_that_were_never_acknowledged_are_sent_at_the_next_visit():
    core = device()
    core.take(checked_in(configuration()))
    first = core.report_request("round-0")
    assert core.take(checked_in()) == ["round-0"]  # the server has them, perhaps: its answer was lost
    assert core.report_request("round-0") == first


def test_after_the_deadline_the_server_knows_best():
    clock = StillClock()
    core = device(clock=clock)
    core.take(checked_in(configuration()))
    clock.time += 4000
    assert core.take(checked_in(configuration())) == ["round-0"]  # still listed: this clock is fast
    assert core.take(checked_in()) == []
    assert core.outcomes() == [Outcome("round-0", "closed")]


def test_old_rounds_are_forgotten_after_a_period_but_not_before_their_deadline():
    clock = StillClock()
    core = device(clock=clock)
    core.take(checked_in(configuration(), configuration("long", query="long", deadline=START + 90 * 86_400)))
    for name in ("round-0", "long"):
        core.report_answered(name, 200)
    clock.time += 29 * 86_400
    core.take(checked_in())
    assert {outcome.round for outcome in core.outcomes()} == {"round-0", "long"}
    clock.time += 2 * 86_400
    core.take(checked_in())
    assert {outcome.round for outcome in core.outcomes()} == {"long"}


def test_when_to_come_back_is_kept_within_reason():
    core = device()
    for asked, kept in ((60.0, 60.0), (-5.0, 1.0), (1e300, 86_400.0)):
        core.take(messages.CheckedIn(rounds=[], come_back=asked))
        assert core.come_back == kept


# Refusing


def test_a_refused_round_is_noted_with_its_reason_and_nothing_is_sent():
    tosses = Tosses()
    core = device(policy=Policy(min_threshold=20), randomness=tosses)
    assert core.take(checked_in(configuration())) == []
    assert core.outcomes() == [Outcome("round-0", "refused", "its threshold is below 20")]
    assert tosses.drawn == 0
    with pytest.raises(NotFound):
        core.report_request("round-0")
    assert core.take(checked_in(configuration())) == []


def test_a_lying_configuration_is_refused():
    lying = messages.msgspec.structs.replace(configuration(), device_rate=1 << 32)
    core = device()
    assert core.take(checked_in(lying, configuration("honest"))) == ["honest"]
    assert core.outcome("round-0") == Outcome("round-0", "refused", "its configuration does not hold together")


def test_rounds_of_one_visit_are_charged_one_after_the_other():
    core = device(policy=TWICE)
    rounds = [configuration(f"round-{number}", query=f"query-{number}") for number in range(3)]
    assert core.take(checked_in(*rounds)) == ["round-0", "round-1"]
    assert core.outcome("round-2").status == "refused"
    twice = [configuration("again", query="query-1"), configuration("next", query="query-1", index=1)]
    assert "next" in core.take(checked_in(*twice))
    assert core.outcome("again").reason == "this round of its query was answered before"


@pytest.mark.parametrize("holds", [{"word": "hello"}, {"word": "x" * 500}, {}, {"word": broken}])
def test_whether_a_round_is_answered_does_not_depend_on_what_is_held(holds):
    core = device(holds, policy=TWICE)
    rounds = [configuration(f"round-{number}", query=f"query-{number}") for number in range(3)]
    assert core.take(checked_in(*rounds)) == ["round-0", "round-1"]


def test_an_answer_that_is_none_is_an_error_and_changes_nothing():
    core = device()
    for body in (b"", b"{}", b'{"rounds":[],"come_back":1,"more":2}', b"\xff"):
        with pytest.raises(InvalidFormat):
            core.take(body)
    assert core.outcomes() == []


# Many devices in one process


@pytest.mark.slow
def test_many_devices_share_what_is_heavy():
    assert not hasattr(device(), "__dict__")
    body = messages.encode(checked_in(configuration()))
    cores = [device() for _ in range(500)]
    for core in cores:
        core.take(body)
    reports = {sealed(core) for core in cores}
    assert len(reports) == 500
    assert {len(report) for report in reports} == {64 + OVERHEAD}
    assert np.mean([opened(report, configuration(), KEY) is DECOY for report in reports]) > 0.7
