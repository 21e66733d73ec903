"""Devices without a network: one coin a round, the same bytes ever after, silence that depends on no value."""

from __future__ import annotations

import base64
import hashlib
import json
import random

import numpy as np
import pytest
from device_cases import (
    ALWAYS,
    KEY,
    START,
    TWICE,
    StillClock,
    Tosses,
    configuration,
    device,
    noted,
    opened,
    sealed,
    shown,
    take,
)
from scipy import stats

from thresher.device.core import back_off
from thresher.device.device import DeviceCore, Outcome
from thresher.device.policy import Policy
from thresher.errors import InvalidFormat, Unauthorised
from thresher.protocol import messages
from thresher.protocol.plaintext import DECOY, decode_payload, payload
from thresher.protocol.sealing import OVERHEAD, SealBroken, open_sealed
from thresher.questions import Cells, Joint, Prefixes, Values

ALPHA = 1e-9  # false alarm per check


def answer(holds, of) -> object:
    """What a device that holds this says in a round."""
    core = device(holds)
    assert take(core, shown(of)) == [of.round]
    return opened(sealed(core, of.round), of)


# What is answered


def test_requests_are_what_the_protocol_says():
    core = DeviceCore({"word": "hello"})
    request = core.enrol_request("thresher-enrolment-1")
    assert (request.method, request.path, request.token) == ("POST", "/v2/devices", "thresher-enrolment-1")
    assert json.loads(request.body) == {"versions": [2]}
    with pytest.raises(Unauthorised):
        core.visit_request(rounds=True)
    core.enrolled(b'{"version":2,"token":"thresher-device-1","identity":null,"more":"ignored"}')
    request = core.visit_request(rounds=True)
    assert (request.method, request.path, request.token) == ("POST", "/v2/visit", "thresher-device-1")
    assert json.loads(request.body) == {"versions": [2], "reports": [], "rounds": True}
    assert len(request.nonce) == 32
    assert core.visit_request(rounds=False) is None
    core.visited(request, shown(configuration()))
    request = core.visit_request(rounds=False)
    assert (request.method, request.path, request.token) == ("POST", "/v2/visit", "thresher-device-1")
    [report] = json.loads(request.body)["reports"]
    assert report == {"round": "round-0", "sealed": base64.b64encode(sealed(core)).decode()}
    assert json.loads(request.body) == {"versions": [2], "reports": [report], "rounds": False}


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
    take(core, shown(of))
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
            take(core, shown(configuration(bucket_size=size, **sampling)))
            lengths.add(len(sealed(core)))
            bodies.add(len(core.visit_request(rounds=True).body))
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
    assert take(core, shown(*rounds)) == ["round-0", "round-1", "round-2"]
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
    take(core, shown(of))
    drawn, first = tosses.drawn, core.visit_request(rounds=True)
    assert drawn > 0
    for status in (None, "later", "sealed", ""):
        assert noted(core, "round-0", status) == "sealed"
        assert take(core, shown(of)) == ["round-0"]
        assert core.visit_request(rounds=True).body == first.body
    assert tosses.drawn == drawn


def test_the_same_source_gives_the_same_coins():
    of, said = configuration(), []
    for _ in range(2):
        source = random.Random(7).randbytes
        cores = [device(randomness=source) for _ in range(100)]
        for core in cores:
            take(core, shown(of))
        said.append([opened(sealed(core), of) for core in cores])
    assert said[0] == said[1]
    assert {DECOY, "hello"} == set(said[0])


# What the server answers


@pytest.mark.parametrize("status", ["taken", "conflict", "closed", "rejected"])
@pytest.mark.parametrize("asks", [False, True])
def test_what_ends_a_round(status, asks):
    """Whether the request that hands it in asks for rounds or not."""
    core = device()
    take(core, shown(configuration()))
    if asks:
        take(core, shown(**{"round-0": status}))
    else:
        assert noted(core, "round-0", status) == status
    assert core.outcomes() == [Outcome("round-0", status)]
    assert core.visit_request(rounds=True).reports == ()
    assert take(core, shown(configuration())) == []  # also when the server asks again
    assert noted(core, "round-0", "taken") == status


@pytest.mark.parametrize("status", [None, "", "TAKEN", "later", "refused", "sealed", "200"])
def test_what_does_not_end_a_round(status):
    core = device()
    take(core, shown(configuration()))
    assert noted(core, "round-0", status) == "sealed"
    assert core.outcome("round-0").status == "sealed"


@pytest.mark.parametrize(
    "reports",
    [[None], [[]], [{}], [{"round": "round-0"}], [{"status": "taken"}], [{"round": ["round-0"], "status": "taken"}],
     [{"round": "round-0", "status": ["taken"]}], [{"round": "another", "status": "taken"}]],
)  # fmt: skip
def test_elements_that_say_nothing_of_a_report_are_ignored(reports):
    core = device()
    take(core, shown(configuration()))
    body = json.dumps({"version": 2, "reports": reports, "rounds": [], "come_back": 60}).encode()
    assert take(core, body) == ["round-0"]


def test_only_reports_that_were_handed_in_are_ended():
    core = device()
    first = core.visit_request(rounds=True)
    core.visited(first, shown(configuration(), **{"round-0": "taken"}))
    assert core.outcome("round-0").status == "sealed"


def test_a_request_has_so_many_reports_and_bytes_at_most():
    core = device(policy=Policy(period_epsilon=1e6, period_delta=0.5))
    many = [configuration(f"round-{number}", query=f"query-{number}") for number in range(256)]
    more = [configuration(f"more-{number}", query=f"more-{number}", bucket_size=4096) for number in range(100)]
    asked = core.visit_request(rounds=True)
    core.visited(asked, shown(*many))
    assert len(core.visit_request(rounds=False).reports) == 256
    assert core.visit_request(rounds=False) is None  # what was not decided waits for the next visit
    core.visited(asked, shown(*many, *more))
    handed_in = []
    while (request := core.visit_request(rounds=False)) is not None:
        assert len(request.body) <= 256 << 10
        assert {each.round for each in messages.decode(messages.Visit, request.body).reports} == set(request.reports)
        handed_in += request.reports
    assert sorted(handed_in) == sorted(each.round for each in more)
    request = core.visit_request(rounds=True)
    assert len(request.reports) <= 256
    assert len(request.body) <= 256 << 10


def test_waits_grow_are_random_and_honour_retry_after():
    waits = [[back_off(attempt) for _ in range(50)] for attempt in range(1, 15)]
    for attempt, each in enumerate(waits):
        longest = min(0.5 * 2**attempt, 300)
        assert all(longest / 2 <= wait <= longest for wait in each)
        assert len(set(each)) > 1
    assert all(back_off(1, 17.0) >= 17.0 for _ in range(50))
    assert back_off(10_000) <= 300
    assert all(back_off(1, 1e9) <= 86_400.5 for _ in range(50))


def test_bytes_that_were_never_acknowledged_are_sent_at_the_next_visit():
    core = device()
    take(core, shown(configuration()))
    first = core.visit_request(rounds=False)
    assert take(core, shown()) == ["round-0"]  # the server has them, perhaps: its answer was lost
    again = core.visit_request(rounds=True)
    assert json.loads(again.body)["reports"] == json.loads(first.body)["reports"]


def test_after_the_deadline_the_server_knows_best():
    clock = StillClock()
    core = device(clock=clock)
    take(core, shown(configuration()))
    clock.time += 4000
    assert take(core, shown(configuration())) == ["round-0"]  # still listed: this clock is fast
    assert take(core, shown()) == []
    assert core.outcomes() == [Outcome("round-0", "closed")]


def test_old_rounds_are_forgotten_after_a_period_but_not_before_their_deadline():
    clock = StillClock()
    core = device(clock=clock)
    take(core, shown(configuration(), configuration("long", query="long", deadline=START + 90 * 86_400)))
    for name in ("round-0", "long"):
        noted(core, name, "taken")
    clock.time += 29 * 86_400
    take(core, shown())
    assert {outcome.round for outcome in core.outcomes()} == {"round-0", "long"}
    clock.time += 2 * 86_400
    take(core, shown())
    assert {outcome.round for outcome in core.outcomes()} == {"long"}


def test_when_to_come_back_is_kept_within_reason():
    core = device()
    for asked, kept in ((60.0, 60.0), (-5.0, 1.0), (1e300, 86_400.0)):
        take(core, shown(come_back=asked))
        assert core.come_back == kept


# Refusing


def test_a_refused_round_is_noted_with_its_reason_and_nothing_is_sent():
    tosses = Tosses()
    core = device(policy=Policy(min_threshold=20), randomness=tosses)
    assert take(core, shown(configuration())) == []
    assert core.outcomes() == [Outcome("round-0", "refused", "threshold")]
    assert tosses.drawn == 0
    assert core.visit_request(rounds=False) is None
    assert take(core, shown(configuration())) == []


def test_a_lying_configuration_is_refused():
    lying = messages.msgspec.structs.replace(configuration(), device_rate=1 << 32)
    core = device()
    assert take(core, shown(lying, configuration("honest"))) == ["honest"]
    assert core.outcome("round-0") == Outcome("round-0", "refused", "unreadable")


def test_a_string_without_a_name_is_skipped_and_one_with_a_name_is_refused():
    core = device()
    strings = ["", "{", "[]", '{"round":"no name"}', '{"round":5}', '{"round":"named"}', 5, None, {}]
    body = json.dumps({"version": 2, "reports": [], "rounds": strings, "come_back": 60})
    assert take(core, body.encode()) == []
    assert core.outcomes() == [Outcome("named", "refused", "unreadable")]


def test_a_round_is_hashed_as_it_came():
    """Another spelling of the same configuration is another string: reports open under that one alone."""
    of = configuration(**ALWAYS)
    spaced = json.dumps(json.loads(of.text), indent=2)
    core = device()
    assert take(core, shown(spaced)) == ["round-0"]
    info = hashlib.sha256(b"thresher round 3\0" + spaced.encode()).digest()
    assert decode_payload(payload(open_sealed(sealed(core), KEY, info)), of.asked) == "hello"
    with pytest.raises(SealBroken):
        open_sealed(sealed(core), KEY, of.hash)


def test_rounds_of_earlier_versions_are_not_answered():
    core = device()
    earlier = messages.msgspec.structs.replace(configuration(), version=2)
    assert take(core, shown(earlier)) == []
    assert core.outcomes() == [Outcome("round-0", "refused", "unreadable")]


def test_members_that_a_device_does_not_know_are_ignored():
    core = device()
    body = shown(configuration()).replace(b'{"version"', b'{"more": {"a": [1]}, "version"')
    assert take(core, body) == ["round-0"]


@pytest.mark.slow
def test_rounds_of_one_visit_are_charged_one_after_the_other():
    core = device(policy=TWICE)
    rounds = [configuration(f"round-{number}", query=f"query-{number}") for number in range(3)]
    assert take(core, shown(*rounds)) == ["round-0", "round-1"]
    assert core.outcome("round-2").status == "refused"
    twice = [configuration("again", query="query-1"), configuration("next", query="query-1", index=1)]
    assert "next" in take(core, shown(*twice))
    assert core.outcome("again").reason == "answered"


@pytest.mark.parametrize("holds", [{"word": "hello"}, {"word": "x" * 500}, {}, {"word": broken}])
def test_whether_a_round_is_answered_does_not_depend_on_what_is_held(holds):
    core = device(holds, policy=TWICE)
    rounds = [configuration(f"round-{number}", query=f"query-{number}") for number in range(3)]
    assert take(core, shown(*rounds)) == ["round-0", "round-1"]


def test_an_answer_that_is_none_is_an_error_and_changes_nothing():
    core = device()
    for body in (b"", b"{}", b'{"rounds":[],"come_back":1}', shown().replace(b"2", b"3", 1), b"\xff"):
        with pytest.raises(InvalidFormat):
            take(core, body)
    assert core.outcomes() == []


# Many devices in one process


@pytest.mark.slow
def test_many_devices_share_what_is_heavy():
    assert not hasattr(device(), "__dict__")
    body = shown(configuration())
    cores = [device() for _ in range(500)]
    for core in cores:
        take(core, body)
    reports = {sealed(core) for core in cores}
    assert len(reports) == 500
    assert {len(report) for report in reports} == {64 + OVERHEAD}
    assert np.mean([opened(report, configuration(), KEY) is DECOY for report in reports]) > 0.7
