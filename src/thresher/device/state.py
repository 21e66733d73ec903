"""What a device keeps: its token, the reports that it sealed, the rounds that it refused, and what it was charged.

The state has no value and no coin of the device. Sealed bytes hide both, also from somebody who reads the file.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from thresher.device.spending import Spend
from thresher.device.terms import Terms
from thresher.errors import Conflict, InvalidFormat, StoreUnavailable
from thresher.files import file_target, write_whole

Status = Literal["sealed", "taken", "refused", "closed", "conflict", "rejected"]
"""Where a device stands with a round:

sealed      answered, the bytes are stored and not yet acknowledged
taken       acknowledged: durable at the server
refused     against the policy; nothing was sent
closed      the round ended before the bytes were acknowledged
conflict    the server holds other bytes of this device for this round
rejected    the server says that the bytes are no report
"""


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One round, as the device remembers it."""

    status: Status
    deadline: float
    time: float
    """When it was first decided."""
    sealed: bytes | None = None
    """What is sent, the same however often; dropped when the round is over."""
    reason: str | None = None
    query: str | None = None
    """Under which name the query was charged, while the bytes are kept. States of 0.1.0 do not say it."""


class DeviceState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that a device keeps. A changed state is a new value, and counts once it is saved."""

    token: str | None = None
    rounds: dict[str, Record] = {}
    spends: dict[str, Spend] = {}
    identity: str | None = None
    """The public key of the server that enrolled the device, in hexadecimal."""
    version: Literal[2] = 2


class State(Protocol):
    """Where a device keeps its state."""

    def load(self) -> DeviceState:
        """What was last saved; an empty state at first."""
        ...

    def save(self, state: DeviceState) -> None:
        """Keep a state durably, or raise and keep the one before."""
        ...


def read_state(content: bytes) -> DeviceState:
    """A state from JSON, also one of version 1. `msgspec.MsgspecError` or `ValueError` where it is none."""
    try:
        return _decoder.decode(content)
    except msgspec.ValidationError:
        old = _decoder_1.decode(content)
        spends = {query: spend.now for query, spend in old.spends.items()}
        return DeviceState(old.token, old.rounds, spends, old.identity)


class _Spend1(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A spend of version 1. It had what the query stated and what it cost; now only its terms count."""

    epsilon: float
    delta: float
    terms: tuple[float, int, int, int, int, int]
    """Sampling rate, threshold, rounds, and the three rates."""
    indexes: tuple[int, ...]
    time: float
    cost: Any = None
    contributions: int = 1

    @property
    def now(self) -> Spend:
        """The same as it is kept now."""
        _, threshold, rounds, *rates = self.terms
        return Spend(Terms(rounds, self.contributions, threshold, *rates), self.indexes, self.time)


class _State1(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A state of version 1."""

    token: str | None = None
    rounds: dict[str, Record] = {}
    spends: dict[str, _Spend1] = {}
    identity: str | None = None
    version: Literal[1] = 1


_decoder, _decoder_1 = msgspec.json.Decoder(DeviceState), msgspec.json.Decoder(_State1)


class MemoryState:
    """A state that ends with the process: for simulations and tests."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: bytes | None = None

    def load(self) -> DeviceState:
        """What was last saved."""
        return DeviceState() if self._kept is None else read_state(self._kept)

    def save(self, state: DeviceState) -> None:
        """Keep a state."""
        self._kept = msgspec.json.encode(state)


class FileState:
    """A state in a file that only its owner can read.

    Guarantee: after `save` the state survives a crash of the machine; a crash during `save` leaves the one before or
    the new one, whole.
    Edge cases: a file that cannot be read as a state is an error, never an empty state: that would toss coins again. A
    file that somebody else has written since is a `Conflict`: two processes with one state would be two devices.
    """

    __slots__ = ("_seen", "path")

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        file_target(self.path, setting="state")  # refuses a device file, which would be replaced, and a pipe
        self._seen = self._found()

    def load(self) -> DeviceState:
        """What was last saved; an empty state where there is no file."""
        self._seen = self._found()  # before it is read: what is written meanwhile is noticed by the next `save`
        try:
            return read_state(self.path.read_bytes())
        except FileNotFoundError:
            return DeviceState()
        except OSError as error:
            raise StoreUnavailable(f"The state file cannot be read: {error.strerror}.") from None
        except (msgspec.MsgspecError, ValueError):
            raise InvalidFormat(
                f"{self.path} is not a device's state.",
                hint="Restore the file, or give another path: the device then enrols as a new one.",
            ) from None

    def save(self, state: DeviceState) -> None:
        """Write the state whole."""
        found = self._found()
        if found is not None and found != self._seen:
            raise Conflict(
                "Another process has changed the state file.", hint="Use a state file from one process at a time."
            )
        try:
            write_whole(self.path, msgspec.json.encode(state).decode())
        except OSError as error:
            raise StoreUnavailable(
                f"The state file cannot be written: {error.strerror}.", hint="Nothing was sent. Check disk and path."
            ) from None
        self._seen = self._found()

    def _found(self) -> tuple[int, int] | None:
        """Which file is there: every `save` makes a new one."""
        with suppress(OSError):
            status = self.path.stat()
            return status.st_ino, status.st_mtime_ns
        return None
