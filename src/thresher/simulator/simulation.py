"""A whole simulation: enrol devices, let them check in while a query runs, and compare.

Every device is a real one: it holds its own token, checks rounds against its policy, tosses its own coin and seals its
own report. Only the connections are shared.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from thresher.addresses import checked_token
from thresher.clock import SystemClock
from thresher.device.core import DeviceCore, RandomBytes
from thresher.device.policy import Policy
from thresher.device.state import DeviceState
from thresher.errors import ServerUnavailable, ThresherError, Unauthorised
from thresher.privacy.settings import MAX_CONTRIBUTIONS
from thresher.protocol import messages
from thresher.simulator.behaviour import Behaviour
from thresher.simulator.device_visit import Visits, each
from thresher.simulator.hostile import ATTACKS, Hostile
from thresher.simulator.http_client import HttpClient, Lost
from thresher.simulator.outcomes import Outcomes
from thresher.simulator.population import Population, demo_population
from thresher.simulator.report import Result

WORKERS = 64
"""Requests under way at a time, and therefore connections."""
SCOUTS = 10
"""Devices that look for a new round while there is none."""
ENROL_ATTEMPTS = 20
_LONG = 30.0
"""Seconds of waiting that are worth a word."""
POLICY = Policy(
    max_epsilon=50.0,
    max_delta=0.01,
    period_epsilon=10_000.0,
    period_delta=0.5,
    min_threshold=1,
    max_contributions=MAX_CONTRIBUTIONS,
    hide_from_contact_list=False,
)
"""Simulated devices answer nearly everything: nobody's value is at stake."""

_log = logging.getLogger("thresher.simulator")

T = TypeVar("T")
Told = Callable[[str, int, int], None]
"""Receives progress: what is being done, how many are done, of how many."""


class Stop(Protocol):
    """A signal to end: an event of threads or of processes."""

    def is_set(self) -> bool:
        """Whether to end now."""
        ...


class _Forgetful:
    """The state of devices that are never restarted: their core remembers, and nothing is written a second time."""

    def load(self) -> DeviceState:
        return DeviceState()

    def save(self, state: DeviceState) -> None:
        pass


_FORGETFUL = _Forgetful()


class Simulation:
    """A number of devices that check in at one server.

    `randomness` gives each device its own source, so that devices can cheat; by default all have secure ones.
    """

    def __init__(
        self,
        url: str,
        enrolment_key: str,
        population: Population,
        behaviour: Behaviour | None = None,
        *,
        policy: Policy | None = None,
        workers: int = WORKERS,
        scout_seconds: float = 0.05,
        told: Told | None = None,
        randomness: Callable[[int], RandomBytes] = lambda device: os.urandom,
        ca_file: str | Path | None = None,
    ) -> None:
        self.population = population
        self.behaviour = behaviour or Behaviour()
        self.outcomes = Outcomes()
        self.client = HttpClient(url, ca_file=ca_file)
        self._enrolment_key = checked_token("enrolment_key", enrolment_key)
        self._policy = policy or POLICY
        self._workers = workers
        self._scout_seconds = scout_seconds
        self._told = told or (lambda what, done, total: None)
        self._randomness = randomness
        self._cores: list[DeviceCore | None] = [None] * population.devices
        self._hostile = [""] * self.behaviour.hostile_devices(population.devices)
        self._visits = Visits(self.client, self.core, population.devices, self.behaviour, self.outcomes)
        self._attacks = Hostile(self.client, self.outcomes, self._visits.overheard)
        self._clock = SystemClock()
        self._started = time.monotonic()
        self._waits = False

    @property
    def completions(self) -> int:
        """How many devices complete a round that everybody is contacted for: what a round may wait for."""
        return self.behaviour.completions(self.population.devices)

    @property
    def result(self) -> Result:
        """What has happened so far."""
        return Result(
            devices=self.population.devices,
            hostile=len(self._hostile),
            seconds=time.monotonic() - self._started,
            reports=self._visits.accepted,
            outcomes=self.outcomes,
        )

    async def enrol(self, stop: Stop | None = None) -> None:
        """Enrol every device, and the hostile clients: they have the same key. Told to stop, leave the rest out."""
        devices, body = self.population.devices, messages.encode(messages.Enrol(versions=[messages.DEVICE_VERSION]))

        async def one(device: int) -> None:
            token = await self._enrolled(body, stop)
            if token is None:
                return
            if device < devices:
                holds = self.population.attributes(device)  # plain values, which are read at once
                core = DeviceCore(holds, self._policy, _FORGETFUL, self._randomness(device), self._clock)
                core.enrolled(messages.Enrolled(version=messages.DEVICE_VERSION, token=token))
                self._cores[device] = core
            else:
                self._hostile[device - devices] = token

        everybody = range(devices + len(self._hostile))
        try:
            # The first device enrols alone: a wrong key or address is one error, not one for each worker.
            for part in (everybody[:1], everybody[1:]):
                await self._each("enrolling", part, one, stop)
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def run(self, stop: Stop, *, greet: bool = False) -> None:
        """Let all devices visit whenever there is a round, until told to stop; to `greet`, also once at the start.

        They come as soon as there is something to do, not when the server said: a simulation has no days to wait.
        """
        devices = self.population.devices
        scout = 0
        if greet:
            await self._everybody(stop)
        while not stop.is_set():
            found = 0
            for _ in range(min(SCOUTS, 1 + devices // 50)):
                found += await self._visits.visit(scout)
                scout = (scout + 1) % devices
            if found:
                await self._everybody(stop)
            else:
                await asyncio.sleep(self._scout_seconds)

    async def close(self) -> None:
        """Close all connections."""
        await self.client.close()

    async def _everybody(self, stop: Stop) -> None:
        """All devices visit once, in random order, the hostile clients among them."""
        devices = self.population.devices

        async def one(device: int) -> None:
            if device < devices:
                await self._visits.visit(device)
            else:
                number = device - devices
                await self._attacks.attack(ATTACKS[number % len(ATTACKS)], self._hostile[number])

        order = np.random.default_rng().permutation(devices + len(self._hostile)).tolist()
        await self._each("visiting", order, one, stop)

    async def _each(
        self, what: str, devices: Sequence[int], do: Callable[[int], Awaitable[None]], stop: Stop | None
    ) -> None:
        """Do something for every device until told to stop, and report progress."""
        done = 0

        async def one(device: int) -> None:
            nonlocal done
            if stop is not None and stop.is_set():
                return
            await do(device)
            done += 1
            if done % 500 == 0:
                self._told(what, done, self.population.devices + len(self._hostile))

        await each(devices, one, self._workers)

    def core(self, device: int) -> DeviceCore:
        """One of the honest devices."""
        core = self._cores[device]
        assert core is not None, "devices visit after they have enrolled"
        return core

    async def _enrolled(self, body: bytes, stop: Stop | None) -> str | None:
        """A new device's token; None if told to stop while the server takes no more devices."""
        problem: ThresherError = ServerUnavailable("The server cannot be reached.")
        for attempt in range(ENROL_ATTEMPTS):
            wait = min(0.1 * 2**attempt, 2.0)
            try:
                answer = await self.client.send("POST", "/v2/devices", self._enrolment_key, body)
            except (Lost, ServerUnavailable) as error:
                self.outcomes.note("enrol", 0, frozenset())
                problem = error if isinstance(error, ThresherError) else problem
            else:
                self.outcomes.note("enrol", answer.status, frozenset({200, 201}))
                if answer.status in (200, 201):
                    return messages.decode(messages.Enrolled, answer.body).token
                if answer.status in (401, 403):
                    raise Unauthorised("The server does not know this enrolment key.", hint="See its data directory.")
                problem = ServerUnavailable(
                    f"The server answered an enrolment with {answer.status}.", hint="Is this where devices enrol?"
                )
                if answer.status < 500 and answer.status not in (408, 429):
                    raise problem  # it would say so again
                wait = max(wait, answer.retry_after or 0.0)
                if wait > _LONG and not self._waits:
                    self._waits = True
                    _log.warning("The server takes no more devices for now. Waiting for %.0f s, as it says.", wait)
            if attempt == 0 and self._cores[0] is None:  # the first device speaks for all
                _log.warning("%s Trying again for a while.", problem.message)
            end = time.monotonic() + wait
            while (left := end - time.monotonic()) > 0:
                await asyncio.sleep(min(left, 0.5))
                if stop is not None and stop.is_set():
                    return None
        raise problem


def simulate(
    simulation: Simulation, ask: Callable[[], T] | None, *, stop: Stop, seconds: float | None = None
) -> T | None:
    """Enrol, then let devices visit until `ask` has its answer, or until told to stop or time is up: None then.

    `ask` runs in a thread of its own: it is an analyst, who knows nothing of the devices.
    """

    async def whole() -> T | None:
        try:
            await simulation.enrol(stop)
            if stop.is_set():
                return None  # and nothing is asked, which would be charged
            return await _living(simulation, ask, _Ending(stop, seconds))
        finally:
            await simulation.close()

    return run_fast(whole())


async def _living(simulation: Simulation, ask: Callable[[], T] | None, ending: _Ending) -> T | None:
    """Let devices visit until `ask` has its answer, or until the end."""
    living = asyncio.ensure_future(simulation.run(ending, greet=ask is None))
    try:
        if ask is None:
            await living
            return None
        asking = _in_thread(ask)
        await asyncio.wait((asking, living), return_when=asyncio.FIRST_COMPLETED)
        if asking.done():
            return asking.result()
        living.result()
        return None
    finally:
        ending.now = True
        await asyncio.wait((living,), timeout=5)
        living.cancel()


def _in_thread(ask: Callable[[], T]) -> asyncio.Future[T]:
    """Run a function in a daemon thread: an analyst may wait long, and must not keep the process alive."""
    future: concurrent.futures.Future[T] = concurrent.futures.Future()
    future.set_running_or_notify_cancel()

    def work() -> None:
        try:
            future.set_result(ask())
        except BaseException as error:  # it is raised again where the future is awaited
            future.set_exception(error)

    threading.Thread(target=work, name="analyst", daemon=True).start()
    return asyncio.wrap_future(future)


def run_fast(work: Coroutine[Any, Any, T]) -> T:
    """Run on uvloop where it is installed: it halves the time a request takes."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    return uvloop.run(work)


def keep_checking_in(url: str, enrolment_key: str, devices: int, stop: Stop, seed: int = 1) -> Result:
    """Let a number of devices with several attributes check in until `stop` is set; for demonstrations.

    Run it in a process or thread of its own, with an event of that kind. It waits for the server to come up.
    """
    simulation = Simulation(url, enrolment_key, demo_population(devices, seed), scout_seconds=0.5)
    simulate(simulation, None, stop=stop)
    return simulation.result


class _Ending:
    """Is set when the given stop is, when time is up, or once `now` is."""

    def __init__(self, stop: Stop, seconds: float | None) -> None:
        self._stop = stop
        self._until = None if seconds is None else time.monotonic() + seconds
        self.now = False

    def is_set(self) -> bool:
        return self.now or self._stop.is_set() or (self._until is not None and time.monotonic() >= self._until)
