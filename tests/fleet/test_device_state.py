"""A device whose power is cut, and the file that it wakes up with: no second coin, no other bytes."""

from __future__ import annotations

import base64
import json
import stat

import pytest
from device_cases import ALWAYS, PLAN, StillClock, Tosses, configuration, device, noted, sealed, shown, take

from thresher.device.device import DeviceCore
from thresher.device.state import DeviceState, FileState, MemoryState
from thresher.errors import Conflict, InvalidFormat, InvalidSetting, StoreUnavailable
from thresher.protocol import messages
from thresher.protocol.messages import Enrolled
from thresher.questions import Values

# Crashes


class Crash(BaseException):
    """The device's power is cut."""


class CrashingState:
    """A file in which the device loses its power at the given save: before it, or after it and before it returns."""

    def __init__(self, path, save: int, after: bool) -> None:
        self._file = FileState(path)
        self._left = save
        self._after = after

    def load(self) -> DeviceState:
        return self._file.load()

    def save(self, state: DeviceState) -> None:
        self._left -= 1
        if self._left == 0 and not self._after:
            raise Crash
        self._file.save(state)
        if self._left == 0:
            raise Crash


class Collector:
    """As much of a server as a device can tell: it keeps what it was sent."""

    def __init__(self) -> None:
        self.received: dict[str, list[bytes]] = {}

    def visit(self, request, listed=()) -> bytes:
        """Take the reports of a request; the answer."""
        statuses = {}
        for report in messages.decode(messages.Visit, request.body).reports:
            received = self.received.setdefault(report.round, [])
            received.append(report.sealed)
            statuses[report.round] = "taken" if report.sealed == received[0] else "conflict"
        return shown(*listed, **statuses)


ROUNDS = [configuration(f"round-{index}", index=index) for index in range(3)]


def live(core: DeviceCore, collector: Collector, power_cut_at: int | None = None) -> None:
    """One life of a device: enrol, two visits, the second of which has two more rounds. Power may be cut at a step."""
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1
        if steps == power_cut_at:
            raise Crash

    if core.token is None:
        core.enrol_request("key")
        step()
        core.enrolled(Enrolled(version=2, token="thresher-device-1"))
    for listed in (ROUNDS[:1], ROUNDS):
        step()
        request = core.visit_request(rounds=True)
        step()
        answer = collector.visit(request, listed)
        step()  # the server has it, and the device does not know
        core.visited(request, answer)
        step()
        while (request := core.visit_request(rounds=False)) is not None:
            step()
            answer = collector.visit(request)
            step()  # the server has it, and the device does not know
            core.visited(request, answer)
            step()


def lives_through(path, first_life) -> None:
    """After a life that ended early and one that did not, every round was sent, always with the same bytes."""
    collector = Collector()
    ended_early = False
    try:
        first_life(collector)
    except Crash:
        ended_early = True
    before = {name: bodies[0] for name, bodies in collector.received.items()}
    kept = FileState(path).load().rounds
    core = DeviceCore({"word": "hello"}, state=FileState(path), clock=StillClock())
    live(core, collector)
    assert set(collector.received) == {"round-0", "round-1", "round-2"}
    for name, bodies in collector.received.items():
        assert len(set(bodies)) == 1
        if name in before:
            assert name in kept  # nothing was sent that was not stored
        if name in kept and kept[name].sealed is not None:
            assert bodies[0] == kept[name].sealed
    assert {outcome.status for outcome in core.outcomes()} == {"taken"}
    return ended_early


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("save", range(1, 8))
def test_power_cut_at_every_save(tmp_path, save, after):
    path = tmp_path / "device.json"
    cut = lives_through(
        path,
        lambda collector: live(
            DeviceCore({"word": "hello"}, state=CrashingState(path, save, after), clock=StillClock()), collector
        ),
    )
    assert cut == (save <= 6)  # before enrolling, the token, and twice what is sealed and what is acknowledged


@pytest.mark.parametrize("cut_at", range(1, 17))
def test_power_cut_at_every_step(tmp_path, cut_at):
    path = tmp_path / "device.json"
    cut = lives_through(
        path,
        lambda collector: live(
            DeviceCore({"word": "hello"}, state=FileState(path), clock=StillClock()), collector, cut_at
        ),
    )
    assert cut == (cut_at <= 15)  # the token, two visits of seven steps each


def test_no_coin_is_tossed_for_what_is_stored(tmp_path):
    """A value that changed after a crash changes nothing, and the source is not touched."""
    path = tmp_path / "device.json"
    core = device(state=FileState(path))
    take(core, shown(*ROUNDS))
    stored = {each.round: sealed(core, each.round) for each in ROUNDS}
    tosses = Tosses()
    again = device({"word": "another"}, state=FileState(path), randomness=tosses)
    assert take(again, shown(*ROUNDS)) == list(stored)
    assert {name: sealed(again, name) for name in stored} == stored
    assert tosses.drawn == 0


def test_what_cannot_be_stored_is_not_sent(tmp_path):
    directory = tmp_path / "gone"
    directory.mkdir()
    core = device(state=FileState(directory / "device.json"))
    (directory / "device.json").unlink()
    directory.rmdir()
    with pytest.raises(StoreUnavailable):
        take(core, shown(configuration()))
    assert core.outcomes() == []
    assert core.visit_request(rounds=False) is None
    assert core.visit_request(rounds=True).reports == ()
    directory.mkdir()
    assert take(core, shown(configuration())) == ["round-0"]


# The file


def test_the_file_is_its_owners_and_holds_no_value(tmp_path):
    path = tmp_path / "device.json"
    core = device({"word": "canary-7f3a"}, state=FileState(path))
    take(core, shown(configuration(**ALWAYS)))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text()
    assert "canary" not in text
    assert base64.b64encode(b"canary-7f3a").decode()[:12] not in text
    assert base64.b64decode(json.loads(text)["rounds"]["round-0"]["sealed"]) == sealed(core)
    noted(core, "round-0", "taken")
    assert json.loads(path.read_text())["rounds"]["round-0"]["sealed"] is None
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"token":5}', b'{"more":1}', b"\xff\xfe"])
def test_a_file_that_is_no_state_is_never_taken_for_an_empty_one(tmp_path, content):
    path = tmp_path / "device.json"
    path.write_bytes(content)
    with pytest.raises(InvalidFormat):
        DeviceCore({"word": "hello"}, state=FileState(path))
    assert path.read_bytes() == content


def test_a_state_that_cannot_be_read_is_an_error(tmp_path):
    with pytest.raises(InvalidSetting, match="is a directory"):
        FileState(tmp_path)
    state = FileState(tmp_path / "state.json")
    state.path.mkdir()  # since
    with pytest.raises(StoreUnavailable):
        state.load()


def test_two_that_share_a_state_file_are_not_two_devices(tmp_path):
    """Each save makes a new file, so whoever did not make the one that is there has an old state."""
    path = tmp_path / "device.json"
    first, second = (DeviceCore({"word": "hello"}, state=FileState(path), clock=StillClock()) for _ in range(2))
    first.enrol_request("key")
    first.enrolled(Enrolled(version=2, token="thresher-device-1"))
    with pytest.raises(Conflict):
        second.enrol_request("key")
    third = device(state=FileState(path))
    take(third, shown(configuration()))
    with pytest.raises(Conflict):
        take(first, shown(configuration()))
    assert first.outcomes() == []
    assert FileState(path).load().rounds["round-0"].sealed == sealed(third)


def test_a_state_file_that_vanished_is_written_again(tmp_path):
    path = tmp_path / "device.json"
    core = device(state=FileState(path))
    path.unlink()
    take(core, shown(configuration()))
    assert FileState(path).load().token == core.token


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_states_give_back_what_was_saved(tmp_path, kind):
    state = MemoryState() if kind == "memory" else FileState(tmp_path / "device.json")
    assert state.load() == DeviceState()
    core = device(state=state)
    take(core, shown(*ROUNDS, configuration("refused", query="q", plan=PLAN, fleet="other", question=Values(("x",)))))
    loaded = state.load()
    assert loaded.token == "thresher-device-1"
    assert len(loaded.rounds) == 4
    assert loaded.spends == core._kept.spends
    assert len(loaded.spends) == 2
    assert device(state=state).outcomes() == core.outcomes()
