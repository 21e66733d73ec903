"""A device on the network: `thresher.Device`.

    device = Device("https://fleet.example", enrolment_key="…", attributes={"app_version": "2.1"}, state="device.json")
    device.check_in()              # one visit: check in, answer, send
    device.run(stop)               # visits until the event `stop` is set
    await device.check_in_async()

The visit is one generator of requests and pauses; the sync and the asyncio driver differ only in how they wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import functools
import logging
import re
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from thresher.errors import (
    InvalidFormat,
    InvalidSetting,
    ServerUnavailable,
    StoreUnavailable,
    ThresherError,
    Unauthorised,
)
from thresher.fleet.addresses import checked_address, checked_token
from thresher.fleet.clock import Clock, SystemClock
from thresher.fleet.device_core import DeviceCore, Outcome, Request, back_off
from thresher.fleet.device_effort import Allowance
from thresher.fleet.device_state import FileState, MemoryState, State
from thresher.fleet.messages import LARGEST_ANSWER
from thresher.fleet.policy import Policy
from thresher.fleet.reading import SECONDS, Attributes
from thresher.mechanism.randomness import Randomness

if TYPE_CHECKING:
    import httpx

__all__ = ["Device", "DeviceCore", "Outcome", "Request"]

WORK = (30.0, 0.02)
"""Processor seconds that `Device.run` spends for its server: at once, and a second in the long run."""
TRAFFIC = (64 << 20, 64 << 10)
"""Bytes that `Device.run` reads from its server: at once, and a second in the long run."""
LONGEST_REST = 86_400.0
_TIMEOUT = 30.0
_SLOWEST = 120.0
"""Seconds within which an answer has arrived whole, however small its pieces."""
_TURN = 0.05
"""Seconds between two looks whether another visit has ended."""
_log = logging.getLogger("thresher.device")


@dataclass(frozen=True, slots=True)
class _Answer:
    """What came back; a status of None means nothing did."""

    status: int | None
    body: bytes = b""
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class _Pause:
    seconds: float


_Steps: TypeAlias = Generator[Request | _Pause, _Answer | None, list[Outcome]]


class Device:
    """A device that answers from what it holds and sends nothing that its policy does not allow.

    `attributes` maps names to values, or is a function that returns such a mapping when a round is answered; a value
    may be a function too, and of a list one element is chosen at random in each round. Functions run in a thread of
    their own, once a visit; one that raises, or takes more than `reading_seconds`, has no value.

    `state` is the path of the device's own file; without one, the device is forgotten with the process, and the next
    one enrols as another, which answers the same rounds again: for tests only. `patience` is how many seconds a visit
    waits in all for a server that does not answer; what could not be sent is sent, unchanged, by the next visit.

    Guarantee: see `DeviceCore`: one coin a round, the same bytes however often they are sent, decoys sent like answers.
    Visits take turns, whichever threads and tasks ask for them.
    Edge cases: use a state file from one process at a time, or saving is a `Conflict`. Redirects are not followed,
    since tokens would follow them.
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
        randomness: Randomness | None = None,
        patience: float = 120.0,
        reading_seconds: float = SECONDS,
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
        self._server = checked_address("server_url", server_url)
        self._enrolment_key = checked_token("enrolment_key", enrolment_key) if enrolment_key else None
        self._transport = transport
        self._clock: Clock = clock or SystemClock()
        self._patience = patience
        self._sleep = sleep
        self._client: httpx.Client | None = None
        self._work, self._traffic = Allowance(*WORK), Allowance(*TRAFFIC)
        self._read = 0
        self._visiting = threading.Lock()

    # Sync

    def enrol(self, *, again: bool = False) -> None:
        """Get a token with the enrolment key, unless the device has one.

        With `again`, replace a token that the server does not know any more. What was sealed and charged stays, which
        deleting the state would forget.
        """
        self._drive(self._enrolling(_Patience(self._patience), again), self._sleep)

    def check_in(self) -> list[Outcome]:
        """One visit: enrol if need be, check in, answer what the policy allows, send.

        Returns where the device now stands with the rounds of this visit. `ServerUnavailable` if the server could not
        be asked; `Unauthorised` if it does not know the device.
        """
        return self._drive(self._visit(), self._sleep)

    def run(self, stop: threading.Event | None = None) -> None:
        """Visit whenever the server wants to see the device, until `stop` is set.

        Waits for what passes: a server that is away, somebody else who answers in its place, a disk that is full. Ends
        with the error for a token that is not valid. A server that makes visits expensive is visited less often: see
        `WORK` and `TRAFFIC`.
        """
        stop = stop or threading.Event()
        failures = 0
        while not stop.is_set():
            began, read = time.thread_time(), self._read
            try:
                self._drive(self._visit(), stop.wait)
                failures, wait = 0, self.core.come_back
            except (ServerUnavailable, StoreUnavailable, InvalidFormat) as error:
                failures += 1
                wait = back_off(failures, getattr(error, "retry_after", None))
            now = time.monotonic()
            rests = (self._work.rest(time.thread_time() - began, now), self._traffic.rest(self._read - read, now))
            stop.wait(min(max(wait, *rests), LONGEST_REST))

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def __enter__(self) -> Device:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Asyncio

    async def check_in_async(self) -> list[Outcome]:
        """The same visit as `check_in`, without blocking the event loop."""
        import httpx

        async with httpx.AsyncClient(transport=self._transport, timeout=_TIMEOUT, verify=_trusted()) as client:
            while not self._visiting.acquire(blocking=False):
                await asyncio.sleep(_TURN)
            try:
                return await self._drive_async(self._visit(), client)
            finally:
                self._visiting.release()

    # The visit

    def _visit(self) -> _Steps:
        patience = _Patience(self._patience)
        if self.core.token is None:
            yield from self._enrolling(patience)
        answer = yield from self._insist(self.core.check_in_request(), patience)
        before = {outcome.round for outcome in self.core.outcomes() if outcome.status != "sealed"}
        for name in self.core.take(answer.body):
            while True:
                sent = yield from self._sent(self.core.report_request(name), patience)
                if sent.status == 401:
                    raise _unauthorised()
                wait = self.core.report_answered(name, sent.status, sent.retry_after)
                if wait is None or not patience.allows(wait):
                    break
                yield _Pause(wait)
        return [outcome for outcome in self.core.outcomes() if outcome.round not in before]

    def _enrolling(self, patience: _Patience, again: bool = False) -> _Steps:
        if self.core.token is None or again:
            if self._enrolment_key is None:
                raise InvalidSetting("enrolment_key", "is needed to enrol")
            request = self.core.enrol_request(self._enrolment_key)
            answer = yield from self._insist(request, patience, _enrolment_refused)
            self.core.enrolled(answer.body)
        return []

    def _insist(
        self, request: Request, patience: _Patience, refused: Callable[[], ThresherError] | None = None
    ) -> Generator[Request | _Pause, _Answer | None, _Answer]:
        """Send a request until it is answered with success, or patience ends."""
        attempt = 0
        while True:
            answer = yield from self._sent(request, patience)
            if answer.status in (200, 201):
                return answer
            if answer.status in (401, 403):
                raise (refused or _unauthorised)()
            if answer.status is not None and answer.status != 429 and answer.status < 500:
                raise InvalidFormat(
                    f"The server refused a request of this device with status {answer.status}.",
                    hint="Check the server's address and that both sides run the same version.",
                )
            attempt += 1
            wait = back_off(attempt, answer.retry_after)
            if not patience.allows(wait):
                raise ServerUnavailable(
                    f"The server {self._server} does not answer, or asks to come back later.",
                    hint="Check the address, or try again later.",
                    retry_after=answer.retry_after,
                )
            if attempt == 1:
                _log.info("The server %s does not answer; trying for up to %.0f s.", self._server, self._patience)
            yield _Pause(wait)

    def _sent(self, request: Request, patience: _Patience) -> Generator[Request | _Pause, _Answer | None, _Answer]:
        """Send a request once; waiting in vain for its answer costs patience too."""
        began = time.monotonic()
        answer = yield request
        assert answer is not None
        if answer.status is None:
            patience.spend(time.monotonic() - began)
        return answer

    # Driving it

    def _drive(self, steps: _Steps, sleep: Callable[[float], object]) -> list[Outcome]:
        answer: _Answer | None = None
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
                    answer = self._ask(step)

    async def _drive_async(self, steps: _Steps, client: httpx.AsyncClient) -> list[Outcome]:
        answer: _Answer | None = None
        while True:
            step = await _advanced(steps, answer)
            if isinstance(step, list):
                return step
            if isinstance(step, _Pause):
                answer = None
                await asyncio.sleep(step.seconds)
            else:
                answer = await self._ask_async(client, step)

    def _ask(self, request: Request) -> _Answer:
        import httpx

        if self._client is None:
            self._client = httpx.Client(transport=self._transport, timeout=_TIMEOUT, verify=_trusted())
        try:
            with self._client.stream(**self._arguments(request)) as response:
                _check_plain(response)
                body = self._gathered(response.iter_bytes())
                return _Answer(response.status_code, body, self._retry_after(response.headers.get("retry-after")))
        except httpx.HTTPError:
            return _Answer(None)

    async def _ask_async(self, client: httpx.AsyncClient, request: Request) -> _Answer:
        import httpx

        try:
            async with client.stream(**self._arguments(request)) as response:
                _check_plain(response)
                body = await self._gathered_async(response.aiter_bytes())
                return _Answer(response.status_code, body, self._retry_after(response.headers.get("retry-after")))
        except httpx.HTTPError:
            return _Answer(None)

    def _gathered(self, chunks: Iterator[bytes]) -> bytes:
        body, end = bytearray(), time.monotonic() + _SLOWEST
        for chunk in chunks:
            self._add(body, chunk, end)
        return bytes(body)

    async def _gathered_async(self, chunks: AsyncIterator[bytes]) -> bytes:
        body, end = bytearray(), time.monotonic() + _SLOWEST
        async for chunk in chunks:
            self._add(body, chunk, end)
        return bytes(body)

    def _add(self, body: bytearray, chunk: bytes, end: float) -> None:
        """Take a piece of an answer, unless the answer is too long or too slow by now."""
        body += chunk
        self._read += len(chunk)
        if len(body) > LARGEST_ANSWER:
            raise InvalidFormat("The server's answer is longer than any that the protocol has.")
        if not time.monotonic() < end:
            raise ServerUnavailable("The server's answer takes too long to arrive.", hint="Try again later.")

    def _arguments(self, request: Request) -> dict[str, Any]:
        return {
            "method": request.method,
            "url": self._server + request.path,
            "content": request.body,
            "headers": {
                "authorization": f"Bearer {request.token}",
                "content-type": "application/json",
                "accept-encoding": "identity",
            },
        }

    def _retry_after(self, header: str | None) -> float | None:
        """Seconds, from a number or a date; None for anything else."""
        if header is None:
            return None
        if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", header.strip()):
            return float(header)
        try:
            return max(email.utils.parsedate_to_datetime(header).timestamp() - self._clock.now(), 0.0)
        except (ValueError, OverflowError):
            return None


def _check_plain(response: httpx.Response) -> None:
    """Refuse compressed answers, which were not asked for: a few bytes could become any number."""
    if response.headers.get("content-encoding", "identity") != "identity":
        raise InvalidFormat("The server's answer is compressed, which this device does not read.")


def _advance(steps: _Steps, answer: _Answer | None) -> Request | _Pause | list[Outcome]:
    """The next step of a visit, or what it came to."""
    try:
        return steps.send(answer)
    except StopIteration as end:
        outcomes: list[Outcome] = end.value
        return outcomes


async def _advanced(steps: _Steps, answer: _Answer | None) -> Request | _Pause | list[Outcome]:
    """The same in a thread, since reading and recomputing may take seconds.

    A visit that is cancelled meanwhile ends when that work has ended: no other may begin before.
    """
    work = asyncio.get_running_loop().run_in_executor(None, _advance, steps, answer)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        while not work.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait((work,))
        raise


class _Patience:
    """How long a visit may still wait, in all."""

    __slots__ = ("_left",)

    def __init__(self, seconds: float) -> None:
        self._left = seconds

    def allows(self, wait: float) -> bool:
        """Take a wait out of what is left, if it fits."""
        if not wait <= self._left:
            return False
        self._left -= wait
        return True

    def spend(self, waited: float) -> None:
        """Take out what was waited already."""
        self._left -= waited


@functools.cache
def _trusted() -> ssl.SSLContext:
    """Which certificates are trusted: read once, since that takes longer than a visit."""
    import httpx

    return httpx.create_ssl_context()


def _unauthorised() -> ThresherError:
    return Unauthorised(
        "The server does not know this device.",
        hint="Enrol it with a valid key: Device.enrol(again=True). Keep its state, which holds what it has answered.",
    )


def _enrolment_refused() -> ThresherError:
    return Unauthorised(
        "The server does not take this enrolment key.",
        hint="It is wrong, has expired, was revoked or has enrolled all devices it may. An operator makes another.",
    )
