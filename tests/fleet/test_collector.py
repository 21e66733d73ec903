"""The collector on a clock that tests move, with a real store and a real aggregator's store behind it."""

import hashlib
import json
import os

import msgspec
import pytest
from device_cases import START, StillClock, configuration
from store_cases import Handed, accept, check_in

from thresher.errors import Conflict, NotFound, ServerUnavailable
from thresher.protocol import messages
from thresher.protocol.messages import decode
from thresher.protocol.sealing import OVERHEAD
from thresher.roles.aggregator.store import AggregatorStore
from thresher.roles.collector import collector as collector_module
from thresher.roles.collector.collector import Collector
from thresher.roles.collector.enrolment import Entry
from thresher.roles.collector.reports import Outcome, Visited
from thresher.roles.collector.store import CollectorStore
from thresher.roles.tokens import token_hash
from thresher.testing import SeededRandomness

SIZE = 64 + OVERHEAD


class Taker:
    """The receiving end of a forward, which may lose requests and answers."""

    def __init__(self, store):
        self.store = store
        self.fail_before = self.fail_after = None
        self.calls = []

    def add_batch(self, round, number, blob):
        self.calls.append(number)
        if number == self.fail_before:
            self.fail_before = None
            raise ServerUnavailable("The request was lost.")
        self.store.add_batch(round, number, hashlib.sha256(blob).digest(), blob)
        if number == self.fail_after:
            self.fail_after = None
            raise ServerUnavailable("The answer was lost.")


@pytest.fixture
def parts(store_url):
    clock = StillClock()
    store, taker = CollectorStore.open(store_url), Taker(AggregatorStore.open(store_url))
    yield store, taker, clock
    store.close()
    taker.store.close()


@pytest.fixture
def collector(parts):
    store, taker, clock = parts
    return Collector(store, clock, taker, batch_size=10)


def enrolled(collector, number):
    """Devices with tokens, as ids."""
    collector.add_enrolment_key("the key", "all")
    tokens = [one.token for one in collector.enrol(["the key"] * number)]
    return collector.identify(tokens)


def reports(round, devices):
    return [Handed(round, device, os.urandom(SIZE)) for device in devices]


def test_enrolment_gives_tokens_that_identify(collector, parts):
    id = collector.add_enrolment_key("the key", "all", devices=3)
    tokens = [enrolled.token for _ in range(3) for enrolled in collector.enrol(["the key"])]
    assert collector.enrol(["the key", "another key"]) == [Entry.REFUSED] * 2
    devices = collector.identify(tokens)
    assert len(set(devices)) == 3 and None not in devices
    assert collector.identify([tokens[2], "nobody", tokens[0], "\ud800"]) == [devices[2], None, devices[0], None]
    assert collector.identify([tokens[1], ""]) == [devices[1], None]
    assert [(key.id, key.name, key.enrolled) for key in collector.enrolment_keys()] == [(id, "all", 3)]
    second = collector.add_enrolment_key("second", "second")
    assert collector.enrol(["second"])[0].token not in tokens
    assert collector.revoke_enrolment_key(second)
    assert not collector.revoke_enrolment_key("no such")
    assert collector.enrol(["second"]) == [Entry.REFUSED]


def test_identify_remembers_devices_and_not_strangers(collector, parts):
    store, _, clock = parts
    collector.add_enrolment_key("the key", "all")
    [token] = [enrolled.token for enrolled in collector.enrol(["the key"])]
    [device] = collector.identify([token])
    other = Collector(store, clock, None)
    assert other.identify(["a later token"]) == [None]
    store.close()
    assert collector.identify([token]) == [device], "known without the store"


def test_what_is_remembered_is_bounded(collector, monkeypatch):
    monkeypatch.setattr(collector_module, "_DEVICES", 3)
    collector.add_enrolment_key("the key", "all")
    tokens = [one.token for one in collector.enrol(["the key"] * 5)]
    devices = [device for token in tokens for device in collector.identify([token])]
    assert [collector.remembered(token_hash(token)) for token in tokens] == [None, None, *devices[2:]]


def test_a_round_is_shown_as_it_was_opened(collector):
    devices = enrolled(collector, 2)
    first, second = configuration("round-1"), configuration("round-2", index=1)
    collector.open(first, target=5)
    collector.open(first, target=5)
    collector.open(second)
    with pytest.raises(Conflict):
        collector.open(configuration("round-1", bucket_size=128))
    assert collector.open_rounds() == ["round-1", "round-2"]
    assert collector.progress("round-1").target == 5
    assert check_in(collector, devices) == [["round-1", "round-2"]] * 2
    body = collector.written((), Visited((), ("round-1", "round-2")), 60)
    texts = [first.text, second.text]
    assert decode(messages.Visited, body) == messages.Visited(version=2, reports=[], rounds=texts, come_back=60.0)
    assert json.loads(collector.written((), Visited((), ()), 1e-7)) == {
        "version": 2, "reports": [], "rounds": [], "come_back": 1e-7,
    }  # fmt: skip
    with pytest.raises(NotFound):
        collector.written((), Visited((), ("round-9",)), 60)


def test_what_a_device_is_told_of_its_reports(collector):
    told = {"taken": ("ACCEPTED", "AGAIN"), "closed": ("CLOSED", "UNKNOWN_ROUND"), "conflict": ("CONFLICT",),
            "rejected": ("NOT_CONTACTED", "WRONG_SIZE")}  # fmt: skip
    said = {outcome: status for status, outcomes in told.items() for outcome in outcomes}
    assert set(said) == set(Outcome.__members__)
    names, outcomes = (
        [f"round-{name.lower()}".replace("_", "-") for name in said],
        tuple(map(Outcome.__getitem__, said)),
    )
    body = decode(messages.Visited, collector.written(names, Visited(outcomes, ()), 60))
    assert [(each.round, each.status) for each in body.reports] == list(zip(names, said.values(), strict=True))


def test_rounds_of_earlier_versions_are_closed_and_shown_to_nobody(collector):
    """Devices would not answer them; what was handed in before is forwarded and released."""
    [device] = enrolled(collector, 1)
    collector.open(msgspec.structs.replace(configuration("round-1"), version=2))
    collector.open(configuration("round-2"))
    assert check_in(collector, [device]) == [["round-1", "round-2"]]
    body = decode(messages.Visited, collector.written((), Visited((), ("round-1", "round-2")), 60))
    assert body.rounds == [configuration("round-2").text]
    assert collector.close("round-1").asked == 1
    assert collector.forward("round-1") == 0


def test_the_deadline_closes_before_anybody_does(collector, parts):
    _, _, clock = parts
    devices = enrolled(collector, 3)
    collector.open(configuration("round-1", deadline=START + 100))
    check_in(collector, devices)
    batch = reports("round-1", devices)
    clock.time = START + 99.9
    assert accept(collector, batch[:1]) == [Outcome.ACCEPTED]
    clock.time = START + 100
    assert accept(collector, batch) == [Outcome.AGAIN, Outcome.CLOSED, Outcome.CLOSED]
    assert check_in(collector, devices) == [[], [], []]
    closed = collector.close("round-1")
    assert (closed.state, closed.asked, closed.completed) == ("closed", 3, 1)
    with pytest.raises(NotFound):
        collector.close("round-9")


@pytest.mark.slow
def test_contact_coins_have_the_rate_of_the_round(parts):
    """400 devices at 1/4 are outside 100 ± 60 with probability below 1e-9 (exact binomial); seeded."""
    store, taker, clock = parts
    collector = Collector(store, clock, taker, SeededRandomness(1))
    devices = enrolled(collector, 400)
    collector.open(configuration("round-1", contact_rate=0.25))
    chosen = [bool(rounds) for rounds in check_in(collector, devices)]
    assert 40 < sum(chosen) < 160
    assert chosen == [bool(rounds) for rounds in check_in(collector, devices)], "tossed once"
    progress = collector.progress("round-1")
    assert (progress.asked, progress.contacted) == (400, sum(chosen))
    outcomes = accept(collector, reports("round-1", devices))
    assert [outcome is Outcome.ACCEPTED for outcome in outcomes] == chosen
    collector.open(configuration("round-2", contact_rate=0.5))
    assert sum("round-2" in rounds for rounds in check_in(collector, devices)) >= 160  # the test can fail


@pytest.mark.parametrize("failure", ["fail_before", "fail_after"])
def test_forwarding_resumes_with_the_same_batches(parts, failure):
    store, taker, clock = parts
    collector = Collector(store, clock, taker, batch_size=10)
    devices = enrolled(collector, 35)
    collector.open(configuration("round-1"))
    check_in(collector, devices)
    sent = reports("round-1", devices)
    assert set(accept(collector, sent)) == {Outcome.ACCEPTED}
    with pytest.raises(Conflict):
        collector.forward("round-1")
    collector.close("round-1")
    setattr(taker, failure, 2)
    with pytest.raises(ServerUnavailable):
        collector.forward("round-1")
    # Another process goes on, with another setting, which must not matter any more.
    resumed = Collector(store, clock, taker, batch_size=7)
    assert resumed.forward("round-1") == 4
    assert resumed.forward("round-1") == 4
    assert taker.calls == [0, 1, 2, 0, 1, 2, 3], "once forwarded, nothing is sent again"
    blobs = [taker.store.batch("round-1", number) for number in taker.store.batch_numbers("round-1")]
    assert [len(blob) for blob in blobs] == [10 * SIZE] * 3 + [5 * SIZE]
    joined = b"".join(blobs)
    arrived = sorted(joined[start : start + SIZE] for start in range(0, len(joined), SIZE))
    assert arrived == sorted(report.sealed for report in sent)
    assert not any(device.encode() in joined for device in devices)


def test_an_empty_round_has_no_batches(collector, parts):
    collector.open(configuration("round-1"))
    collector.close("round-1")
    assert collector.forward("round-1") == 0
    assert parts[1].calls == []


def test_forgetting_is_finished_at_the_next_start(collector, parts, monkeypatch):
    store, _, clock = parts
    devices = enrolled(collector, 2)
    collector.open(configuration("round-1"))
    check_in(collector, devices)
    accept(collector, reports("round-1", devices))

    def killed():
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(store._database, "scrub", killed)
        collector.forget("round-1")
    assert store.rounds_to_forget() == ["round-1"]
    Collector(store, clock, None).recover()
    assert store.rounds_to_forget() == []
    assert collector.progress("round-1").completed == 2
    collector.forget("never opened")
    view = collector.overview()
    assert (view.enrolled, view.active) == (2, 2)
