"""What the collector's store promises, on SQLite and on PostgreSQL, also under concurrency."""

import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from store_cases import (
    NOW,
    ONE,
    SIZE,
    Handed,
    accept,
    check_in,
    everybody,
    nobody,
    open_round,
    round_configuration,
    sealed,
    visit,
)

from thresher.errors import Conflict, NotFound, StoreUnavailable
from thresher.protocol.messages import canonical
from thresher.roles.collector.enrolment import Entry, NewDevice
from thresher.roles.collector.reports import NewVisit
from thresher.roles.collector.reports import Outcome as O
from thresher.roles.collector.store import CollectorStore

# The collector: enrolment


def test_a_key_lets_devices_in_until_it_is_full_expired_or_revoked(collector):
    assert collector.add_enrolment_key("two", b"k2", "for two", NOW, devices=2)
    assert collector.add_enrolment_key("old", b"k3", "old", NOW, expires=NOW + 10)
    assert collector.add_enrolment_key("free", b"k4", "free", NOW)
    assert not collector.add_enrolment_key("other", b"k4", "same key again", NOW)
    asks = [NewDevice(key, f"d{i}", b"t%d" % i) for i, key in enumerate([b"k2", b"no", b"k2", b"k2", b"k3", b"k4"])]
    assert [each is Entry.ENTERED for each in collector.enrol(asks, NOW)] == [True, False, True, False, True, True]
    assert collector.enrol([NewDevice(b"k3", "late", b"late")], NOW + 10) == [Entry.REFUSED]
    assert collector.revoke_enrolment_key("free", NOW + 1)
    assert not collector.revoke_enrolment_key("unknown", NOW + 1)
    assert not collector.revoke_enrolment_key("odd \0 name", NOW + 1)
    assert collector.enrol([NewDevice(b"k4", "later", b"later")], NOW + 2) == [Entry.REFUSED]
    assert [(key.id, key.enrolled, key.revoked) for key in collector.enrolment_keys()] == [
        ("free", 1, NOW + 1),
        ("old", 1, None),
        ("two", 2, None),
    ]
    assert collector.devices_of([b"t0", b"t1", b"t5", b"t0"]) == ["d0", None, "d5", "d0"]
    assert collector.devices_of([b"late"]) == [None]
    assert collector.overview(NOW).enrolled == 4


@pytest.mark.slow
def test_a_full_key_stays_full_when_many_enrol_at_once(store_url):
    stores = [CollectorStore.open(store_url) for _ in range(3)]
    stores[0].add_enrolment_key("k", b"k", "for 50", NOW, devices=50)

    def enrol(worker):
        store = stores[worker % 3]
        asked = [[NewDevice(b"k", f"{worker}-{i}", b"%d-%d" % (worker, i))] for i in range(20)]
        return sum(store.enrol(each, NOW) == [Entry.ENTERED] for each in asked)

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(enrol, range(6))) == 50
    assert stores[0].overview(NOW).enrolled == 50
    for store in stores:
        store.close()


def test_a_key_lets_in_so_many_an_hour_whoever_restarts(store_url):
    hour = NOW // 3600 * 3600
    store = CollectorStore.open(store_url)
    store.add_enrolment_key("plain", b"k1", "as the server says", NOW)
    store.add_enrolment_key("own", b"k2", "two an hour", NOW, hourly=2)
    store.add_enrolment_key("three", b"k3", "three in all", NOW, devices=3)

    def enrolled(key, number, now, store=store):
        names = [f"{key.decode()}-{now}-{i}" for i in range(number)]
        entries = store.enrol([NewDevice(key, name, name.encode()) for name in names], now, hourly=3)
        return [entry.value for entry in entries]

    assert enrolled(b"k1", 5, hour) == ["entered"] * 3 + ["later"] * 2
    assert enrolled(b"k2", 4, hour) == ["entered"] * 2 + ["later"] * 2
    assert enrolled(b"k3", 5, hour) == ["entered"] * 3 + ["refused"] * 2  # it will never be let in
    store.close()
    again = CollectorStore.open(store_url)
    assert enrolled(b"k1", 1, hour + 3599, again) == ["later"]
    assert enrolled(b"k1", 4, hour + 3600, again) == ["entered"] * 3 + ["later"]
    assert [key.hourly for key in again.enrolment_keys()] == [2, None, None]
    again.close()


def test_nothing_is_taken_of_a_revoked_device_and_what_was_taken_stays(store_url):
    first, second = CollectorStore.open(store_url), CollectorStore.open(store_url)
    first.add_enrolment_key("k", b"k", "key", NOW)
    first.enrol([NewDevice(b"k", f"d{i}", b"t%d" % i) for i in range(4)], NOW)
    open_round(first, "r")
    assert check_in(first, ["d0", "d1", "d2"], NOW, everybody) == [["r"]] * 3
    assert accept(first, [Handed("r", "d0", sealed("d0"))], NOW) == [O.ACCEPTED]
    for _ in range(2):
        assert second.revoke_device("d0", NOW) and second.revoke_device("d1", NOW)
    assert not second.revoke_device("nobody", NOW) and not second.revoke_device("odd \0 name", NOW)
    # The other process, which may remember whose a token is.
    assert check_in(first, ["d1", "d2", "d3", "d0"], NOW, everybody) == [None, ["r"], ["r"], None]
    reports = [Handed("r", device, sealed(device)) for device in ("d0", "d1", "d2")]
    assert accept(first, reports, NOW) == [None, None, O.ACCEPTED]
    closed = first.close_round("r", NOW)
    assert (closed.asked, closed.contacted, closed.completed) == (4, 4, 2)
    assert sorted(report for batch in first.batches("r", 10) for report in batch) == sorted(
        [sealed("d0"), sealed("d2")]
    )
    assert first.devices_of([b"t0"]) == ["d0"]  # known, so that it is not told to enrol again
    view = first.overview(NOW)
    assert (view.enrolled, view.active) == (2, 2)
    first.close()
    second.close()


def test_all_devices_of_a_key_are_revoked_with_it(collector):
    for key in ("a", "b"):
        collector.add_enrolment_key(key, key.encode(), key, NOW)
        collector.enrol([NewDevice(key.encode(), f"{key}{i}", b"%s%d" % (key.encode(), i)) for i in range(3)], NOW)
    check_in(collector, ["a0"], NOW, everybody)
    collector.revoke_device("a1", NOW)
    number, devices = collector.devices_of_key("a", 10)
    day = NOW // 86_400 * 86_400
    assert number == 3
    assert [(each.id, each.enrolled, each.last_check_in, each.revoked) for each in devices] == [
        ("a0", day, day, False),
        ("a1", day, day, True),  # enrolling is a visit
        ("a2", day, day, False),
    ]
    assert len(collector.devices_of_key("a", 2)[1]) == 2
    assert collector.revoke_devices("a", NOW) == 2  # one was revoked already
    assert collector.revoke_devices("a", NOW) == 0
    assert collector.revoke_devices("nobody", NOW) is None and collector.devices_of_key("nobody", 1) is None
    assert check_in(collector, ["a0", "a2", "b0"], NOW, everybody) == [None, None, []]
    assert collector.enrol([NewDevice(b"a", "again", b"again")], NOW) == [Entry.REFUSED]
    assert collector.enrol([NewDevice(b"b", "more", b"more")], NOW) == [Entry.ENTERED]


def test_those_who_are_waited_for(collector):
    day = 24 * 3600.0
    collector.add_enrolment_key("k", b"k", "all", NOW - 2 * day)
    collector.enrol([NewDevice(b"k", "gone", b"gone")], NOW - 2 * day)  # was not seen in the last day
    names = ["chosen", "spared", "absent", "revoked"]
    collector.enrol([NewDevice(b"k", name, name.encode()) for name in names], NOW)
    open_round(collector)
    assert collector.waited_for("r1", NOW) == 4
    check_in(collector, ["chosen", "revoked"], NOW, everybody)
    check_in(collector, ["spared"], NOW, nobody)
    assert collector.waited_for("r1", NOW) == 3  # all but the one that was not chosen
    collector.revoke_device("revoked", NOW)
    assert collector.waited_for("r1", NOW) == 2
    accept(collector, [Handed("r1", "chosen", sealed())], NOW)
    assert collector.waited_for("r1", NOW) == 1
    assert collector.waited_for("r1", NOW + 2 * day) == 0  # it was not seen in that day
    check_in(collector, ["gone"], NOW, everybody)
    assert collector.waited_for("r1", NOW) == 2  # it is back, and has not completed
    collector.close_round("r1", NOW)
    assert collector.waited_for("r1", NOW) == 0
    with pytest.raises(NotFound):
        collector.waited_for("r9", NOW)


def test_overview_counts_each_device_once_an_hour_and_forgets_old_hours(collector):
    start, enrolled = NOW // 3600 * 3600, NOW - 3 * 86_400
    collector.add_enrolment_key("k", b"k", "all", enrolled)
    collector.enrol([NewDevice(b"k", f"d{i}", b"t%d" % i) for i in range(5)], enrolled)
    check_in(collector, ["d0", "d1", "d0"], start + 1, everybody)
    check_in(collector, ["d0"], start + 1800, everybody)
    check_in(collector, ["d1", "d2"], start + 3600, everybody)
    check_in(collector, ["unknown device"], start + 3600, everybody)
    view = collector.overview(start + 3700)
    assert (view.enrolled, view.active) == (5, 3)
    assert len(view.check_ins) == 24
    assert view.check_ins[-2:] == [(start, 2), (start + 3600, 2)]
    assert sum(number for _, number in view.check_ins) == 4
    later = start + 23.5 * 3600
    assert collector.overview(later).active == 3
    assert collector.overview(later + 3600).active == 2  # d0 was seen in the first hour only
    assert sum(number for _, number in collector.overview(later + 48 * 3600).check_ins) == 0


def test_a_device_that_enrolled_a_moment_ago_is_active_and_counts_once_in_its_hour(collector):
    """Else a new fleet's first query is warned of devices that are not there."""
    collector.add_enrolment_key("k", b"k", "all", NOW)
    collector.enrol([NewDevice(b"k", f"d{i}", b"t%d" % i) for i in range(3)], NOW)
    collector.enrol([NewDevice(b"another", "refused", b"t")], NOW)
    check_in(collector, ["d0"], NOW + 1, everybody)
    view = collector.overview(NOW + 2)
    assert (view.enrolled, view.active) == (3, 3)
    assert sum(number for _, number in view.check_ins) == 3
    assert collector.overview(NOW + 2 * 86_400).active == 0


# The collector: rounds


def test_opening_is_idempotent_and_bound_to_the_configuration(collector):
    open_round(collector, target=7)
    open_round(collector, target=7)
    with pytest.raises(Conflict):
        open_round(collector, query="other")
    assert collector.open_rounds() == ["r1"]
    found = collector.progress("r1")
    assert (found.target, found.deadline) == (7, NOW + 3600)
    assert collector.configuration("r1") == canonical(round_configuration())
    for unknown in ("r2", "odd\0name", "\ud800"):
        with pytest.raises(NotFound):
            collector.configuration(unknown)
        with pytest.raises(NotFound):
            collector.progress(unknown)


def test_contact_coins_are_tossed_once(collector):
    open_round(collector, numerator=5)
    tosses = []

    def heads_for_two(numerator, number):
        tosses.append((numerator, number))
        return [i < 2 for i in range(number)]

    assert check_in(collector, ["b", "a", "c", "a"], NOW, heads_for_two) == [["r1"], ["r1"], [], ["r1"]]
    assert tosses == [(5, 3)]
    assert check_in(collector, ["c", "b", "d"], NOW, nobody) == [[], ["r1"], []]
    progress = collector.progress("r1")
    assert (progress.asked, progress.contacted, progress.completed, progress.state) == (4, 2, 0, "open")
    open_round(collector, "r2")
    assert check_in(collector, ["a", "c"], NOW, everybody) == [["r1", "r2"], ["r2"]]
    assert check_in(collector, ["a"], NOW + 3600, everybody) == [[]], "after the deadline a round is not shown"


def test_every_outcome_of_a_report(collector):
    open_round(collector, "r1")
    open_round(collector, "r2", deadline=NOW + 10)
    check_in(collector, ["a", "b", "c"], NOW, everybody)
    open_round(collector, "r3")
    check_in(collector, ["x"], NOW, nobody)
    mixed = [
        (Handed("r1", "a", sealed("a")), O.ACCEPTED),
        (Handed("r1", "a", sealed("a")), O.AGAIN),
        (Handed("r1", "a", sealed("other")), O.CONFLICT),
        (Handed("r2", "a", sealed("a2")), O.ACCEPTED),
        (Handed("r1", "x", sealed("x")), O.NOT_CONTACTED),
        (Handed("r1", "stranger", sealed("x")), O.NOT_CONTACTED),
        (Handed("r9", "a", sealed("a")), O.UNKNOWN_ROUND),
        (Handed("odd\0name", "a", sealed("a")), O.UNKNOWN_ROUND),
        (Handed("\ud800", "a", sealed("a")), O.UNKNOWN_ROUND),
        (Handed("r1", "b", b"short"), O.WRONG_SIZE),
        (Handed("r1", "b", sealed("b")), O.ACCEPTED),
        (Handed("r1", "b", b"short"), O.WRONG_SIZE),
        (Handed("r3", "a", sealed("a")), O.NOT_CONTACTED),
    ]
    assert accept(collector, [report for report, _ in mixed], NOW + 1) == [outcome for _, outcome in mixed]
    repeated = [O.AGAIN if outcome is O.ACCEPTED else outcome for _, outcome in mixed]
    assert accept(collector, [report for report, _ in mixed], NOW + 1) == repeated
    assert accept(collector, [], NOW) == []
    # In r3, the coin of `a` was tossed when it handed in: it had none, and was not chosen.
    assert check_in(collector, ["a", "b", "c"], NOW + 1, everybody) == [[], ["r2", "r3"], ["r1", "r2", "r3"]]
    # At the deadline: what is known is acknowledged again, what is new is too late.
    late = [Handed("r2", "a", sealed("a2")), Handed("r2", "a", sealed("z")), Handed("r2", "b", sealed("b"))]
    assert accept(collector, late, NOW + 10) == [O.AGAIN, O.CLOSED, O.CLOSED]
    progress = collector.progress("r1")
    assert (progress.asked, progress.contacted, progress.completed) == (5, 3, 2)


def test_a_visit_tosses_then_takes_then_lists(collector):
    """A device that enrolled again hands in what it sealed under its other name, and is asked no more for it."""
    open_round(collector, "r1")
    open_round(collector, "r2")
    both = [("r1", sealed("a")), ("r2", sealed("b"))]
    [visited] = visit(collector, [NewVisit("a", both[:1])])
    assert (visited.outcomes, visited.rounds) == ((O.ACCEPTED,), ("r2",))
    [again] = visit(collector, [NewVisit("a", both)])
    assert (again.outcomes, again.rounds) == ((O.AGAIN, O.ACCEPTED), ())
    for round in ("r1", "r2"):
        progress = collector.progress(round)
        assert (progress.asked, progress.contacted, progress.completed) == (1, 1, 1)
    assert collector.progress("r2").asked == 1


def test_a_visit_that_asks_for_no_rounds_is_asked_in_those_alone_that_it_hands_in(collector):
    open_round(collector, "r1")
    open_round(collector, "r2")
    [visited] = visit(collector, [NewVisit("a", [("r1", sealed("a"))], rounds=False)])
    assert (visited.outcomes, visited.rounds) == ((O.ACCEPTED,), ())
    assert [collector.progress(round).asked for round in ("r1", "r2")] == [1, 0]
    [silent] = visit(collector, [NewVisit("b", rounds=False)])
    assert (silent.outcomes, silent.rounds) == ((), ())
    assert [collector.progress(round).asked for round in ("r1", "r2")] == [1, 0]


def test_one_device_may_come_twice_in_one_commit(collector):
    open_round(collector)
    one, other = ("r1", sealed("a")), ("r1", sealed("b"))
    first, second, third = visit(collector, [NewVisit("a", [one]), NewVisit("a", [one, other]), NewVisit("a")])
    assert first.outcomes == (O.ACCEPTED,)
    assert second.outcomes == (O.AGAIN, O.CONFLICT)
    assert first.rounds == second.rounds == third.rounds == ()


@pytest.mark.slow
def test_closing_freezes_the_numbers_and_forwarding_returns_every_report_once(collector):
    open_round(collector)
    devices = [f"d{i:04d}" for i in range(2500)]
    check_in(collector, devices, NOW, everybody)
    reports = [Handed("r1", device, sealed(device)) for device in devices]
    assert set(accept(collector, reports[:-1], NOW)) == {O.ACCEPTED}
    with pytest.raises(Conflict):
        collector.begin_forwarding("r1", 1000)
    closed = collector.close_round("r1", NOW + 5)
    assert (closed.state, closed.asked, closed.contacted, closed.completed) == ("closed", 2500, 2500, 2499)
    assert collector.close_round("r1", NOW + 9) == closed == collector.progress("r1")
    assert collector.open_rounds() == []
    assert accept(collector, reports[-2:], NOW) == [O.AGAIN, O.CLOSED]
    assert check_in(collector, ["new"], NOW, everybody) == [[]]
    assert collector.begin_forwarding("r1", 1000) == 1000
    assert collector.begin_forwarding("r1", 7) == 1000, "a new setting must not change batches that were sent"
    batches = list(collector.batches("r1", 1000))
    assert [len(batch) for batch in batches] == [1000, 1000, 499]
    assert batches == list(collector.batches("r1", 1000))
    arrived = [report.sealed for report in reports[:-1]]
    forwarded = [report for batch in batches for report in batch]
    assert sorted(forwarded) == sorted(arrived)
    assert forwarded != arrived and forwarded != sorted(arrived)
    collector.mark_forwarded("r1")
    collector.mark_forwarded("r1")
    assert list(collector.batches("r1", 1000)) == []
    assert accept(collector, reports[:1], NOW) == [O.AGAIN]
    collector.forget("r1", NOW)
    collector.forget("r1", NOW)
    collector.forget("unknown", NOW)
    assert accept(collector, reports[:1], NOW) == [O.CLOSED]
    assert collector.rounds_to_forget() == []
    assert replace(collector.progress("r1"), state="closed") == closed
    with pytest.raises(Conflict):
        collector.begin_forwarding("r1", 1000)


def test_positions_are_fresh_and_unrelated_to_arrival(collector):
    """Spearman's ρ of arrival and batch order: normal with deviation 1/√(n-1) if unrelated; false alarm 1e-9."""
    open_round(collector)
    devices = [f"d{i:04d}" for i in range(1000)]
    check_in(collector, devices, NOW, everybody)
    reports = [Handed("r1", device, b"%04d" % i + bytes(SIZE - 4)) for i, device in enumerate(devices)]
    accept(collector, reports, NOW)
    collector.close_round("r1", NOW)
    order = [int(report[:4]) for batch in collector.batches("r1", 300) for report in batch]

    def correlation(ranks):
        n = len(ranks)
        return 1 - 6 * sum((i - rank) ** 2 for i, rank in enumerate(ranks)) / (n * (n * n - 1))

    bound = 6.1 / 999**0.5
    assert abs(correlation(order)) < bound
    assert abs(correlation(sorted(order))) > bound  # the test can fail
    # Also where most came in order: ρ is then about 0.57, some 12 deviations above the bound.
    mostly = sorted(order[:750]) + order[750:]
    assert abs(correlation(mostly)) > bound


def test_forgetting_an_open_round_closes_it_and_deletes_unread(collector):
    open_round(collector)
    check_in(collector, ["a", "b"], NOW, everybody)
    accept(collector, [Handed("r1", "a", sealed("a"))], NOW)
    collector.forget("r1", NOW + 1)
    progress = collector.progress("r1")
    assert (progress.state, progress.asked, progress.completed, progress.closed) == ("forgotten", 2, 1, NOW + 1)
    assert accept(collector, [Handed("r1", "b", sealed("b"))], NOW + 2) == [O.CLOSED]
    with pytest.raises(Conflict):
        collector.begin_forwarding("r1", 10)


@pytest.mark.slow
def test_closing_is_serialised_with_accepting(store_url):
    """Three processes' worth of stores take reports while a fourth closes: the frozen number is what was taken."""
    stores = [CollectorStore.open(store_url) for _ in range(4)]
    for attempt in range(5):
        name = f"r{attempt}"
        open_round(stores[0], name)
        devices = [f"d{i}" for i in range(900)]
        check_in(stores[0], devices, NOW, everybody)
        begun = threading.Barrier(4)

        def take(worker, name=name, devices=devices, begun=begun):
            begun.wait()
            mine = devices[worker::3]
            outcomes = []
            for start in range(0, len(mine), 10):
                batch = [Handed(name, device, sealed(device)) for device in mine[start : start + 10]]
                outcomes += accept(stores[worker], batch, NOW)
            return outcomes

        with ThreadPoolExecutor(3) as pool:
            taking = [pool.submit(take, worker) for worker in range(3)]
            begun.wait()
            threading.Event().wait(random.random() * 0.05)
            frozen = stores[3].close_round(name, NOW)
            outcomes = [outcome for future in taking for outcome in future.result()]
        assert outcomes.count(O.ACCEPTED) == frozen.completed
        assert set(outcomes) <= {O.ACCEPTED, O.CLOSED}
        assert sum(len(batch) for batch in stores[0].batches(name, 100)) == frozen.completed
    for store in stores:
        store.close()


@pytest.mark.slow
def test_two_processes_agree_on_coins_and_take_one_report_a_device(store_url):
    """Both check in and report the same devices, with different coins and bytes: one coin and one report stand."""
    stores = [CollectorStore.open(store_url) for _ in range(2)]
    open_round(stores[0], numerator=ONE // 2)
    devices = [f"d{i}" for i in range(400)]
    begun = threading.Barrier(2)

    def visit(worker):
        begun.wait()
        chosen = {}
        outcomes = {}
        shuffled = random.sample(devices, len(devices))
        for start in range(0, 400, 25):
            part = shuffled[start : start + 25]
            toss = random.Random(start + worker)
            rounds = check_in(
                stores[worker], part, NOW, lambda _, n, toss=toss: [toss.random() < 0.5 for _ in range(n)]
            )
            chosen |= dict(zip(part, map(bool, rounds), strict=True))
            reports = [Handed("r1", device, sealed(f"{device} {worker}")) for device in part]
            outcomes |= dict(zip(part, accept(stores[worker], reports, NOW), strict=True))
        return chosen, outcomes

    with ThreadPoolExecutor(2) as pool:
        (chosen_1, outcomes_1), (chosen_2, outcomes_2) = pool.map(visit, range(2))
    progress = stores[0].progress("r1")
    pairs = [{outcomes_1[device], outcomes_2[device]} for device in devices]
    assert all(pair in ({O.ACCEPTED, O.CONFLICT}, {O.NOT_CONTACTED}) for pair in pairs)
    taken = {device for device, pair in zip(devices, pairs, strict=True) if O.ACCEPTED in pair}
    assert 0 < len(taken) < 400
    assert progress.asked == 400
    assert progress.contacted == progress.completed == len(taken)
    # A device that was not chosen is told so by both; one that was is told so until its report is in.
    for chosen in (chosen_1, chosen_2):
        assert {device for device in devices if chosen[device]} <= taken
    assert {device for device in devices if chosen_1[device] or chosen_2[device]} == taken
    for store in stores:
        store.close()


def test_all_survives_reopening(store_url):
    store = CollectorStore.open(store_url)
    open_round(store)
    check_in(store, ["a", "b"], NOW, lambda _, n: [True, False])
    accept(store, [Handed("r1", "a", sealed("a"))], NOW)
    store.close()
    with pytest.raises(StoreUnavailable):
        store.progress("r1")
    again = CollectorStore.open(store_url)
    assert check_in(again, ["a", "b"], NOW, everybody) == [[], []]
    assert accept(again, [Handed("r1", "a", sealed("a"))], NOW) == [O.AGAIN]
    accept(again, [Handed("r1", "b", sealed("b"))], NOW)
    progress = again.progress("r1")
    assert (progress.asked, progress.contacted, progress.completed) == (2, 1, 1)
    again.close()


@pytest.mark.slow
def test_a_fork_does_not_share_connections(store_url):
    store = CollectorStore.open(store_url)
    open_round(store)
    check_in(store, [f"d{i}" for i in range(200)], NOW, everybody)
    child = os.fork()
    if child == 0:
        try:
            for i in range(100):
                accept(store, [Handed("r1", f"d{i}", sealed(str(i)))], NOW)
            os._exit(0)
        except BaseException:
            os._exit(1)
    for i in range(100, 200):
        accept(store, [Handed("r1", f"d{i}", sealed(str(i)))], NOW)
    assert os.waitpid(child, 0)[1] == 0
    # Both used one share of the numbers, since they are one store.
    assert store.progress("r1").completed == 200
    store.close()
