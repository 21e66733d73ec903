"""The aggregator draws once, returns the same for ever, and forgets what it opened."""

from __future__ import annotations

import logging
import os
import sqlite3
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aggregation_cases import SIZE, configuration, response, sealed

from thresher.errors import Conflict, InvalidFormat, NotFound, StoreUnavailable, ThresherError
from thresher.mechanism import Release
from thresher.privacy import DEVICE
from thresher.protocol.configurations import RoundConfiguration
from thresher.protocol.sealing import OVERHEAD
from thresher.roles.aggregator.aggregator import Aggregator
from thresher.roles.aggregator.keys import KeyRing
from thresher.roles.aggregator.round_drawing import LocalDrawing
from thresher.roles.aggregator.store import AggregatorStore

RECORD = SIZE + OVERHEAD


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AggregatorStore]:
    opened = AggregatorStore.open(tmp_path / "data")
    yield opened
    opened.close()


@pytest.fixture
def keys(tmp_path: Path) -> KeyRing:
    return KeyRing(tmp_path / "keys")


@pytest.fixture
def aggregator(store: AggregatorStore, keys: KeyRing) -> Iterator[Aggregator]:
    made = Aggregator(store, keys, LocalDrawing(1))
    yield made
    made.close()


def forward(aggregator: Aggregator, config: RoundConfiguration, reports: list[bytes], batch: int = 10) -> int:
    """Hand over batches; how many."""
    starts = range(0, len(reports), batch)
    for number, start in enumerate(starts):
        aggregator.add_batch(config.round, number, b"".join(reports[start : start + batch]))
    return len(starts)


def run(aggregator: Aggregator, config: RoundConfiguration, reports: list[bytes]) -> str:
    batches = forward(aggregator, config, reports)
    return aggregator.release(config, batches, response(config, len(reports)))


def test_a_round_from_batches_to_release(aggregator: Aggregator) -> None:
    config = configuration(aggregator.public_key())
    text = run(aggregator, config, sealed(config, ["a"] * 12 + ["b"] * 2 + [None] * 9))
    release = Release.from_json(text)
    assert (release.buckets, release.counts.tolist()) == (["a"], [12])
    assert release.verify() == config.planned.guarantee.for_unit(DEVICE)
    assert release.response == response(config, 23)


def test_a_collector_that_forwards_one_report_many_times_gains_nothing(aggregator: Aggregator) -> None:
    """One person's report, as often as the threshold and in several batches, is one report; a copy that differs in any
    byte of the seal does not open. Otherwise one person alone would be released."""
    config = configuration(aggregator.public_key(), sampled_by="device")
    [target] = sealed(config, ["secret"])
    changed = [
        target[:place] + bytes([target[place] ^ bit]) + target[place + 1 :]
        for place in range(len(target))
        for bit in (1, 0x80)  # the top bit of an X25519 key is not part of the number that it stands for
    ]
    copies = [target] * 25
    assert len(Release.from_json(run(aggregator, config, copies + changed))) == 0
    totals = aggregator.totals()
    assert (totals.duplicates, totals.malformed) == (len(copies) - 1, len(changed))
    # The control: as many reports that were sealed one by one are released.
    other = configuration(aggregator.public_key(), sampled_by="device", round="round-2")
    assert Release.from_json(run(aggregator, other, sealed(other, ["secret"] * 25))).counts.tolist() == [25]
    # Nor do they count in another round.
    third = configuration(aggregator.public_key(), sampled_by="device", round="round-3")
    assert len(Release.from_json(run(aggregator, third, sealed(other, ["secret"] * 25)))) == 0


@pytest.mark.slow
def test_a_release_is_drawn_once(aggregator: Aggregator, store: AggregatorStore, keys: KeyRing) -> None:
    config = configuration(aggregator.public_key(), sampled_by="aggregator", threshold=1)
    reports = sealed(config, [f"w{number % 50}" for number in range(300)])
    first = run(aggregator, config, reports)
    asked = response(config, 300)
    assert aggregator.release(config, 30, asked) == first
    assert Aggregator(store, keys, LocalDrawing(1)).release(config, 30, asked) == first
    # The control: drawn from the same reports again, it differs. 50 counts of Binomial(6, ½) agree by chance with
    # probability below 1e-30.
    again = configuration(aggregator.public_key(), sampled_by="aggregator", threshold=1, round="round-2")
    second = run(aggregator, again, sealed(again, [f"w{number % 50}" for number in range(300)]))
    assert not Release.from_json(second).table.equals(Release.from_json(first).table)


def test_calls_at_the_same_time_get_the_same_release(aggregator: Aggregator) -> None:
    config = configuration(aggregator.public_key(), sampled_by="aggregator", threshold=1)
    reports = sealed(config, [f"w{number % 50}" for number in range(200)])
    batches = forward(aggregator, config, reports)
    found: list[str] = []
    call = lambda: found.append(aggregator.release(config, batches, response(config, 200)))  # noqa: E731
    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1


def test_a_stored_release_wins_over_a_second_draw(
    aggregator: Aggregator, store: AggregatorStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process stored its release between our look and our draw."""
    config = configuration(aggregator.public_key())
    original = store.store_release
    other = Release.from_json(run(aggregator, configuration(aggregator.public_key(), round="other"), [])).to_json()

    def late(round: str, release: str, **counts: int) -> str:
        original(round, other)
        return original(round, release, **counts)

    monkeypatch.setattr(store, "store_release", late)
    assert run(aggregator, config, sealed(config, ["a"] * 5)) == other


def test_nothing_is_released_before_everything_has_arrived(aggregator: Aggregator, store: AggregatorStore) -> None:
    config = configuration(aggregator.public_key())
    reports = sealed(config, ["a"] * 20)
    aggregator.add_batch(config.round, 0, b"".join(reports[:10]))
    with pytest.raises(Conflict):
        aggregator.release(config, 2, response(config, 20))
    with pytest.raises(Conflict):
        aggregator.release(config, 1, response(config, 20))  # reports are missing
    aggregator.add_batch(config.round, 1, b"".join(reports[10:]))
    with pytest.raises(Conflict):
        aggregator.release(config, 1, response(config, 20))  # a batch that nobody announced
    with pytest.raises(Conflict):
        aggregator.release(config, 2, response(config, 19))
    assert store.release(config.round) is None
    assert Release.from_json(aggregator.release(config, 2, response(config, 20))).counts.tolist() == [20]


def test_batches_are_idempotent_by_number_and_digest(aggregator: Aggregator) -> None:
    config = configuration(aggregator.public_key())
    reports = sealed(config, ["a"] * 20)
    forward(aggregator, config, reports)
    forward(aggregator, config, reports)
    with pytest.raises(Conflict):
        aggregator.add_batch(config.round, 1, b"".join(sealed(config, ["b"] * 10)))
    text = aggregator.release(config, 2, response(config, 20))
    assert Release.from_json(text).counts.tolist() == [20]
    forward(aggregator, config, reports)  # acknowledged again, stored no more
    with pytest.raises(Conflict):
        aggregator.add_batch(config.round, 2, b"".join(reports[:1]))
    assert aggregator.release(config, 2, response(config, 20)) == text


def test_another_configuration_is_refused_before_and_after_the_release(
    aggregator: Aggregator, store: AggregatorStore
) -> None:
    config = configuration(aggregator.public_key())
    weaker = configuration(aggregator.public_key(), threshold=1)
    with pytest.raises(Conflict):
        aggregator.release(config, 1, response(config, 1))  # first seen here, though nothing has arrived
    reports = sealed(weaker, ["a"])
    forward(aggregator, weaker, reports)
    with pytest.raises(Conflict):
        aggregator.release(weaker, 1, response(weaker, 1))
    assert store.release(config.round) is None
    assert len(Release.from_json(aggregator.release(config, 1, response(config, 1)))) == 0
    assert aggregator.totals().malformed == 1  # sealed under the other configuration
    with pytest.raises(Conflict):
        aggregator.release(weaker, 1, response(weaker, 1))


def _looser(config: RoundConfiguration) -> RoundConfiguration:
    return msgspec.structs.replace(config, plan={**config.plan, "threshold": 1})


def _faster(config: RoundConfiguration) -> RoundConfiguration:
    return msgspec.structs.replace(config, device_rate=config.device_rate * 2)


def _unkeyed(config: RoundConfiguration) -> RoundConfiguration:
    return msgspec.structs.replace(config, public_key="00" * 32)


@pytest.mark.parametrize("change", [_looser, _faster, _unkeyed])
def test_a_configuration_that_does_not_hold_together_is_refused(
    aggregator: Aggregator, change: Callable[[RoundConfiguration], RoundConfiguration]
) -> None:
    config = configuration(aggregator.public_key())
    batches = forward(aggregator, config, sealed(config, ["a"] * 5))
    with pytest.raises(InvalidFormat):
        aggregator.release(change(config), batches, response(config, 5))


def test_a_response_with_another_rate_is_refused(aggregator: Aggregator) -> None:
    config = configuration(aggregator.public_key())
    other = response(configuration(aggregator.public_key(), rate=0.25), 0)
    with pytest.raises(InvalidFormat):
        aggregator.release(config, 0, other)


def test_a_batch_of_broken_length_is_refused(aggregator: Aggregator) -> None:
    config = configuration(aggregator.public_key())
    aggregator.add_batch(config.round, 0, bytes(RECORD + 1))
    with pytest.raises(InvalidFormat):
        aggregator.release(config, 1, response(config, 1))


def test_a_round_without_reports_has_an_empty_typed_release(aggregator: Aggregator) -> None:
    config = configuration(aggregator.public_key())
    release = Release.from_json(aggregator.release(config, 0, response(config, 0)))
    assert len(release) == 0
    assert str(release.table.schema.field("word").type) == "string"


def test_open_rounds_keep_a_rotated_key(aggregator: Aggregator) -> None:
    config = configuration(aggregator.public_key())
    fresh = aggregator.rotate()
    assert aggregator.public_key() == fresh
    assert aggregator.retire_keys([config.key_id]) == []
    text = run(aggregator, config, sealed(config, ["a"] * 5))
    assert Release.from_json(text).counts.tolist() == [5]
    assert aggregator.retire_keys([]) == [config.key_id]
    assert aggregator.release(config, 1, response(config, 5)) == text  # the release needs no key any more
    late = configuration(aggregator.public_key(), round="late")
    gone = msgspec.structs.replace(late, key_id=config.key_id, public_key=config.public_key)
    with pytest.raises(NotFound):
        aggregator.release(gone, 0, response(gone, 0))


def test_a_forgotten_round_is_never_released(aggregator: Aggregator, tmp_path: Path) -> None:
    config = configuration(aggregator.public_key())
    reports = sealed(config, ["a"] * 5)
    batches = forward(aggregator, config, reports)
    assert found_in(tmp_path, reports)
    aggregator.forget(config.round)
    aggregator.forget(config.round)
    aggregator.forget("never-seen")
    assert not found_in(tmp_path, reports)
    with pytest.raises(Conflict):
        aggregator.release(config, batches, response(config, 5))


def found_in(directory: Path, pieces: list[bytes]) -> list[str]:
    """The files that hold any of these reports, or a part of one."""
    parts = [piece[start : start + 16] for piece in pieces for start in (0, 40, len(piece) - 16)]
    contents = {path.name: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    return [name for name, content in contents.items() if any(part in content for part in parts)]


@pytest.mark.slow
def test_no_sealed_byte_is_left_in_the_files_after_a_release(
    aggregator: Aggregator, store: AggregatorStore, tmp_path: Path
) -> None:
    config = configuration(aggregator.public_key())
    other = configuration(aggregator.public_key(), round="other")
    reports, kept = sealed(config, ["a"] * 500), sealed(other, ["a"] * 500)
    batches = forward(aggregator, config, reports, batch=100)
    forward(aggregator, other, kept, batch=100)
    assert set(found_in(tmp_path, reports)) & {"aggregator.db", "aggregator.db-wal"}  # the search can find
    aggregator.release(config, batches, response(config, 500))
    assert found_in(tmp_path, reports) == []
    assert found_in(tmp_path, kept)  # the round that is not released keeps its own
    with sqlite3.connect(tmp_path / "data" / "aggregator.db") as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert store.rounds_to_forget() == []


def test_a_deletion_that_failed_is_finished_later(
    aggregator: Aggregator, store: AggregatorStore, keys: KeyRing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configuration(aggregator.public_key())
    reports = sealed(config, ["a"] * 20)
    with monkeypatch.context() as broken:

        def unavailable(round: str) -> None:
            raise StoreUnavailable("The database is in use.")

        broken.setattr(store, "forget", unavailable)
        text = run(aggregator, config, reports)
    assert found_in(tmp_path, reports)
    assert store.rounds_to_forget() == [config.round]
    restarted = Aggregator(store, keys, LocalDrawing(1))
    restarted.recover()
    restarted.recover()
    assert found_in(tmp_path, reports) == []
    assert restarted.release(config, 2, response(config, 20)) == text


CRASH = """
import os, sys
sys.path.insert(0, {tests!r})
from aggregation_cases import response
from thresher.roles.aggregator.aggregator import Aggregator
from thresher.roles.aggregator.keys import KeyRing
from thresher.roles.aggregator.round_drawing import LocalDrawing
from thresher.protocol.configurations import RoundConfiguration
from thresher.protocol.messages import decode
from thresher.roles.aggregator.store import AggregatorStore

where, moment = sys.argv[1:]
store = AggregatorStore.open(where + "/data")
original = store.store_release
def crash(*arguments, **counts):
    if moment == "after":
        print(original(*arguments, **counts), flush=True)
    os.kill(os.getpid(), 9)
store.store_release = crash
config = decode(RoundConfiguration, open(where + "/configuration.json").read())
Aggregator(store, KeyRing(where + "/keys"), LocalDrawing(1)).release(config, 2, response(config, 20))
"""


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after"])
def test_killed_around_the_moment_of_storing(
    aggregator: Aggregator, store: AggregatorStore, tmp_path: Path, moment: str
) -> None:
    config = configuration(aggregator.public_key(), sampled_by="aggregator")
    reports = sealed(config, ["a"] * 20)
    forward(aggregator, config, reports)
    (tmp_path / "configuration.json").write_bytes(msgspec.json.encode(config))
    code = CRASH.format(tests=str(Path(__file__).parent))
    crashed = subprocess.run([sys.executable, "-c", code, tmp_path, moment], capture_output=True, text=True)
    assert crashed.returncode == -9, crashed.stderr
    aggregator.recover()
    assert bool(found_in(tmp_path, reports)) == (moment == "before")
    text = aggregator.release(config, 2, response(config, 20))
    if moment == "after":
        assert text == crashed.stdout.strip()
    assert found_in(tmp_path, reports) == []


CANARY = "canary-51ab"


def test_a_value_below_the_threshold_is_nowhere(
    aggregator: Aggregator, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    config = configuration(aggregator.public_key())
    reports = sealed(config, ["shared"] * 8 + [CANARY] * 2)
    text = run(aggregator, config, reports)
    assert "shared" in text  # what is released is there to be found
    errors = []
    for batches, asked in (
        (1, response(config, 10)),
        (1, response(configuration(aggregator.public_key(), rate=0.1), 1)),
    ):
        try:
            aggregator.release(config, batches, asked)
        except ThresherError as error:
            errors.append(str(error))
    assert errors
    out, err = capfd.readouterr()
    for shown in (text, repr(aggregator), str(aggregator.totals()), caplog.text, out, err, *errors):
        assert CANARY not in shown
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or CANARY.encode() not in path.read_bytes()


def test_an_error_has_no_tally_in_its_frames(
    aggregator: Aggregator, store: AggregatorStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reporters of errors may write down what the frames of a traceback hold."""

    def unavailable(*_: object, **__: object) -> None:
        raise StoreUnavailable("The database is in use.")

    monkeypatch.setattr(store, "store_release", unavailable)
    config = configuration(aggregator.public_key())
    with pytest.raises(StoreUnavailable) as caught:
        run(aggregator, config, sealed(config, ["canary", *["a"] * 30]))
    frames = [frame for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
    assert frames[-1].f_code is unavailable.__code__
    inside = frames[[frame.f_code.co_name for frame in frames].index("_draw") :]
    assert all(frame.f_locals == {} for frame in inside)


def test_totals_are_numbers_only(aggregator: Aggregator, store: AggregatorStore) -> None:
    config = configuration(aggregator.public_key())
    reports = sealed(config, ["a"] * 5)
    run(aggregator, config, [*reports, reports[0], os.urandom(RECORD), os.urandom(RECORD)])
    totals = aggregator.totals()
    assert (totals.releases, totals.malformed, totals.duplicates) == (1, 2, 1)
    assert store.dropped() == (2, 1)


@pytest.mark.slow
def test_processes_are_started_by_large_rounds_only(
    store: AggregatorStore, keys: KeyRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    from thresher.roles.aggregator import report_opening as opening

    drawing = LocalDrawing(processes=2)
    made = Aggregator(store, keys, drawing)
    try:
        config = configuration(made.public_key())
        run(made, config, sealed(config, ["a"] * 30))
        assert drawing.workers._pool is None
        monkeypatch.setattr(opening, "SMALL", 20)
        config = configuration(made.public_key(), round="large")
        assert Release.from_json(run(made, config, sealed(config, ["a"] * 30))).counts.tolist() == [30]
        pool: Any = drawing.workers._pool
        assert pool is not None
        config = configuration(made.public_key(), round="larger")
        run(made, config, sealed(config, ["a"] * 40))
        assert drawing.workers._pool is pool
    finally:
        made.close()
