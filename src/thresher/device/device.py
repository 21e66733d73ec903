"""A device on the network: `thresher.Device`.

    device = Device("https://fleet.example", enrolment_key="…", attributes={"app_version": "2.1"}, state="device.json")
    device.check_in()              # one visit: hand in what waits, ask, answer, hand in
    device.run(stop)               # visits until the event `stop` is set
    await device.check_in_async()

A visit is one generator of requests and pauses. The blocking and the asyncio driver run the same generator and differ
only in how they wait.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from thresher.addresses import checked_token
from thresher.clock import Clock, SystemClock
from thresher.device.core import DeviceCore, Outcome, RandomBytes, Request, back_off
from thresher.device.effort import Allowance
from thresher.device.held_values import SECONDS, Attributes
from thresher.device.http import Answer, Channel
from thresher.device.policy import Policy
from thresher.device.state import FileState, MemoryState, State
from thresher.errors import (
    Hint,
    InvalidFormat,
    InvalidSetting,
    ServerUnavailable,
    StoreUnavailable,
    ThresherError,
    Unauthorised,
)

if TYPE_CHECKING:
    import httpx

__all__ = ["Device", "DeviceCore", "Outcome", "Request"]

WORK = (30.0, 0.02)
"""Processor seconds that `Device.run` may spend for its server: in one burst, and per second in the long run."""
TRAFFIC = (64 << 20, 64 << 10)
"""Bytes that `Device.run` may read from its server: in one burst, and per second in the long run."""
LONGEST_REST = 86_400.0
_REFUSED = (401, 403)
_TURN = 0.05
_KEEP = "Keep its state, which holds what it has answered."
"""Seconds between two checks whether another visit has ended."""
_log = logging.getLogger("thresher.device")


@dataclass(frozen=True, slots=True)
class _Pause:
    seconds: float


_Steps: TypeAlias = Generator[Request | _Pause, Answer | None, list[Outcome]]


class Device:
    """A device that answers from what it holds and sends nothing that its policy does not allow.

    Args:
        server_url: the server's address.
        enrolment_key: the key to enrol with; a device that is enrolled already needs none.
        attributes: a mapping of names to values, or a function that returns one when a round is answered. A value may
            be a function too. Of a list, one element is chosen at random in each round. Functions run in a thread of
            their own, once a visit.
        state: the path of the device's own file, or a `State`. Without one the state ends with the process, and the
            next process enrols as another device that answers the same rounds again: for tests only.
        policy: what the device agrees to; by default `Policy()`.
        transport: an httpx transport, in place of the network.
        clock: in place of the system's clock.
        randomness: a function that gives so many random bytes, in place of `os.urandom`; for tests only.
        patience: seconds that a visit waits in all for a server that does not answer. The next visit sends what could
            not be sent, unchanged.
        reading_seconds: how long a function may take; one that takes longer, or raises, has no value.
        ca_file: certificates to trust in place of the system's, in PEM form.
        sleep: in place of `time.sleep`.

    Guarantee: see `DeviceCore`: one coin a round, the same bytes however often they are sent, decoys sent like answers.
    Visits take turns, whichever threads and tasks ask for them.
    Edge cases: use a state file from one process at a time, or saving is a `Conflict`. A device that its server does
    not know any more, because the server was restored from a backup, enrols again by itself if it was given the
    enrolment key and the server proves to be the one that enrolled it; what it has sealed and was charged stays.
    """

    def __init__(
        self,
        server_url: str,
        enrolment_key: str | None = None,
        attributes: Attributes | None = None,
        state: str | Path | State | None = None,
        policy: Policy | None = None,
        *,
        transport: Any = None,
        clock: Clock | None = None,
        randomness: RandomBytes = os.urandom,
        patience: float = 120.0,
        reading_seconds: float = SECONDS,
        ca_file: str | Path | None = None,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        if attributes is None:
            raise InvalidSetting("attributes", "must say what the device holds", hint='For example {"colour": "red"}.')
        if not patience >= 0:
            raise InvalidSetting("patience", "must be a number of seconds, 0 or more")
        if not 0 < reading_seconds <= 3600:
            raise InvalidSetting("reading_seconds", "must be above 0 and at most 3600 seconds")
        kept = FileState(state) if isinstance(state, str | Path) else state or MemoryState()
        self.core = DeviceCore(attributes, policy or Policy(), kept, randomness, clock, reading_seconds)
        self._enrolment_key = checked_token("enrolment_key", enrolment_key) if enrolment_key else None
        self._channel = Channel(server_url, clock or SystemClock(), transport, ca_file)
        self._patience = patience
        self._sleep = sleep
        self._work, self._traffic = Allowance(*WORK), Allowance(*TRAFFIC)
        self._visiting = threading.Lock()
        self._put_off: ThresherError | None = None
        """Why the last visit could not hand in what it had sealed."""

    # Sync

    def enrol(self, *, again: bool = False) -> None:
        """Get a token with the enrolment key, unless the device has one.

        With `again`, replace a token that the server does not know any more. The record of what was sealed and charged
        stays; deleting the state would lose it.
        """
        self._drive(self._enrolling(_Patience(self._patience), again), self._sleep)

    def check_in(self) -> list[Outcome]:
        """One visit: enrol if need be, hand in what waits, answer what the policy allows, hand it in.

        Returns where the device now stands with the rounds of this visit. `ServerUnavailable` if the server could not
        be asked; `Unauthorised` if it does not know the device.
        """
        return self._drive(self._visit(), self._sleep)

    def run(self, stop: threading.Event | None = None) -> None:
        """Visit whenever the server wants to see the device, until `stop` is set.

        Problems that may pass are waited for: a server that is down, another machine that answers in its place, a full
        disk. Raises the error if the server itself says that the device's token or enrolment key is not valid. A server
        that makes visits expensive is visited less often: see `WORK` and `TRAFFIC`.
        """
        stop = stop or threading.Event()
        failures = 0
        while not stop.is_set():
            began, read = time.thread_time(), self._channel.read
            try:
                self._drive(self._visit(), stop.wait)
                failure, wait = self._put_off, self.core.come_back
            except (ServerUnavailable, StoreUnavailable, InvalidFormat) as error:
                failure, wait = error, 0.0
            failures = 0 if failure is None else failures + 1
            if failure is not None:
                wait = max(wait, back_off(failures, getattr(failure, "retry_after", None)))
            now = time.monotonic()
            rests = (
                self._work.rest(time.thread_time() - began, now),
                self._traffic.rest(self._channel.read - read, now),
            )
            stop.wait(max(wait, min(max(rests), LONGEST_REST)))

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def __enter__(self) -> Device:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Asyncio

    async def check_in_async(self) -> list[Outcome]:
        """The same visit as `check_in`, without blocking the event loop."""
        import asyncio

        async with self._channel.asynchronous() as client:
            while not self._visiting.acquire(blocking=False):
                await asyncio.sleep(_TURN)
            try:
                return await self._drive_async(self._visit(), client)
            finally:
                self._visiting.release()

    # The visit

    def _visit(self) -> _Steps:
        patience = _Patience(self._patience)
        self._put_off = None
        if self.core.token is None:
            yield from self._enrolling(patience)
        before = {outcome.round for outcome in self.core.outcomes() if outcome.status != "sealed"}
        request, answer = yield from self._asked(patience)
        self.core.visited(request, answer.body)
        while (further := self.core.visit_request(rounds=False)) is not None:
            try:
                answer = yield from self._insist(further, patience)
            except ServerUnavailable as error:
                self._put_off = error  # what is sealed waits for the next visit
                break
            if answer.status in _REFUSED:
                self._put_off = ServerUnavailable(
                    f"What answers at {self._channel.url} does not take this device's reports.",
                    hint="The next visit tells whether that is final.",
                )
                break
            try:
                self.core.visited(further, answer.body)
            except InvalidFormat as error:
                self._put_off = error
                break
        return [outcome for outcome in self.core.outcomes() if outcome.round not in before]

    def _asked(self, patience: _Patience) -> Generator[Request | _Pause, Answer | None, tuple[Request, Answer]]:
        """Hand in what waits, and ask for rounds. A device that its own server does not know enrols again, once."""
        request, answer = yield from self._asked_once(patience)
        if answer.status == 401 and self._enrolment_key is not None and self.core.is_unknown(request, answer.proof):
            _log.warning("The server %s does not know this device any more; enrolling again.", self._channel.url)
            yield from self._enrolling(patience, again=True)
            request, answer = yield from self._asked_once(patience)
        if answer.status in _REFUSED:
            proven = answer.status == 401 and self.core.is_unknown(request, answer.proof)
            if self.core.identity is not None and not proven:
                raise ServerUnavailable(
                    f"What answers at {self._channel.url} refuses this device, and does not prove to be its server.",
                    hint=Hint(
                        "If an operator has revoked the device, or the server has a new identity, enrol it again.",
                        python="If an operator has revoked the device, or the server has a new identity: "
                        "Device.enrol(again=True).",
                    ),
                )
            raise Unauthorised(
                "The server does not know this device.",
                hint=Hint(
                    f"Enrol it again with a valid key. {_KEEP}",
                    python=f"Enrol it with a valid key: Device.enrol(again=True). {_KEEP}",
                ),
            )
        return request, answer

    def _asked_once(self, patience: _Patience) -> Generator[Request | _Pause, Answer | None, tuple[Request, Answer]]:
        request = self.core.visit_request(rounds=True)
        assert request is not None, "there is always something to ask"
        answer = yield from self._insist(request, patience)
        return request, answer

    def _enrolling(self, patience: _Patience, again: bool = False) -> _Steps:
        if self.core.token is None or again:
            if self._enrolment_key is None:
                raise InvalidSetting(
                    "enrolment_key",
                    "is needed to enrol",
                    hint=Hint(
                        "An operator makes it. Give it as `enrolment_key=…`.",
                        command="An operator makes it. Give it in a file with --enrolment-key-file.",
                    ),
                )
            request = self.core.enrol_request(self._enrolment_key)
            answer = yield from self._insist(request, patience)
            if answer.status in _REFUSED:
                raise Unauthorised(
                    "The server does not take this enrolment key.",
                    hint="It is wrong, has expired, was revoked or has enrolled all devices it may. "
                    "An operator makes another.",
                )
            self.core.enrolled(answer.body)
        return []

    def _insist(self, request: Request, patience: _Patience) -> Generator[Request | _Pause, Answer | None, Answer]:
        """Send a request until the server says yes or no, or patience ends."""
        attempt = 0
        while True:
            answer = yield from self._sent(request, patience)
            if answer.status is not None and (answer.status < 300 or answer.status in _REFUSED):
                return answer
            if answer.status is not None and answer.status not in (408, 429) and answer.status < 500:
                raise InvalidFormat(
                    f"The server refused a request of this device with status {answer.status}.",
                    hint="Check the server's address and that both sides run the same version.",
                )
            attempt += 1
            wait = back_off(attempt, answer.retry_after)
            if answer.failure is not None and (answer.failure.lasting or not patience.allows(wait)):
                raise answer.failure.error(answer.retry_after)
            if answer.failure is None and not patience.allows(wait):
                raise ServerUnavailable(
                    f"The server {self._channel.url} asks to come back later.",
                    hint="Try again later.",
                    retry_after=answer.retry_after,
                )
            if attempt == 1:
                words = answer.failure.words if answer.failure else f"The server {self._channel.url} is busy."
                _log.info("%s Trying again for up to %.0f s.", words, self._patience)
            yield _Pause(wait)

    def _sent(self, request: Request, patience: _Patience) -> Generator[Request | _Pause, Answer | None, Answer]:
        """Send a request once. Time that was spent waiting for no answer is taken out of the patience."""
        began = time.monotonic()
        answer = yield request
        assert answer is not None
        if answer.status is None:
            patience.left -= time.monotonic() - began
        return answer

    # Driving it

    def _drive(self, steps: _Steps, sleep: Callable[[float], object]) -> list[Outcome]:
        answer: Answer | None = None
        with self._visiting:
            while True:
                step = _advance(steps, answer)
                if isinstance(step, list):
                    return step
                if isinstance(step, _Pause):
                    answer = None
                    if sleep(step.seconds):  # an event that was set: what is sealed waits for the next visit
                        return []
                else:
                    answer = self._channel.ask(step)

    async def _drive_async(self, steps: _Steps, client: httpx.AsyncClient) -> list[Outcome]:
        import asyncio

        answer: Answer | None = None
        while True:
            step = await _advanced(steps, answer)
            if isinstance(step, list):
                return step
            if isinstance(step, _Pause):
                answer = None
                await asyncio.sleep(step.seconds)
            else:
                answer = await self._channel.ask_async(client, step)


def _advance(steps: _Steps, answer: Answer | None) -> Request | _Pause | list[Outcome]:
    """The next step of a visit, or its result."""
    try:
        return steps.send(answer)
    except StopIteration as end:
        outcomes: list[Outcome] = end.value
        return outcomes


async def _advanced(steps: _Steps, answer: Answer | None) -> Request | _Pause | list[Outcome]:
    """The same in a thread, since reading values and computing the cells of a table may take seconds.

    A visit that is cancelled meanwhile ends after that work: no other visit may begin before.
    """
    import asyncio

    work = asyncio.get_running_loop().run_in_executor(None, _advance, steps, answer)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        while not work.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait((work,))
        raise


@dataclass(slots=True)
class _Patience:
    """How many seconds a visit may still wait, in all."""

    left: float

    def allows(self, wait: float) -> bool:
        """Take a wait out of what is left, if it fits."""
        if not wait <= self.left:
            return False
        self.left -= wait
        return True
