"""One visit of one honest device: check in, answer, and send the report until the server takes it.

The faults of a network, and of users who leave, are part of a visit (`Behaviour`).
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Sequence

import numpy as np

from thresher.device.core import DeviceCore, Request
from thresher.errors import ServerUnavailable
from thresher.protocol import messages
from thresher.simulator.behaviour import Behaviour, Dropouts
from thresher.simulator.http_client import Answer, HttpClient, Lost
from thresher.simulator.outcomes import TAKEN, Outcomes

CLOSED = frozenset({404, 410})
"""What a server answers to a report that comes too late. A conflict (409) is never expected: a device always sends
the same bytes."""
PAUSES = (0.05, 0.2, 1.0, 2.0, 4.0, 8.0)
"""Waits between attempts, unless the server asks for a longer one."""


class Visits:
    """Visits of all devices to one server."""

    def __init__(
        self,
        client: HttpClient,
        device: Callable[[int], DeviceCore],
        devices: int,
        behaviour: Behaviour,
        outcomes: Outcomes,
    ) -> None:
        self._client = client
        self._device = device
        self._behaviour = behaviour
        self._dropouts = Dropouts(devices, behaviour.dropouts)
        self._outcomes = outcomes
        self._chance = np.random.default_rng()
        self._heard: dict[str, bytes] = {}
        self.accepted = 0
        """Reports acknowledged, each once."""

    def overheard(self, round: str) -> bytes | None:
        """A report of this round that was sent, if there is one."""
        return self._heard.get(round)

    async def visit(self, device: int) -> int:
        """One visit; how many rounds the device was chosen for."""
        core = self._device(device)
        answer = await self._patiently("check-in", core.check_in_request(), TAKEN)
        if answer is None or answer.status != 200:
            return 0
        offered = read_check_in(answer.body)
        if not offered.rounds:
            return 0
        seen = offered
        if device % 2 and (gone := [each for each in offered.rounds if self._dropouts.vanishes(device, each.round)]):
            # Devices with odd numbers vanish before they seal, so they never see the round; the others seal first.
            kept = [each for each in offered.rounds if each not in gone]
            seen = messages.CheckedIn(rounds=kept, come_back=offered.come_back)
        for round in core.take(seen):
            if not self._dropouts.vanishes(device, round):
                await self._report(core, round)
        return len(offered.rounds)

    async def _report(self, core: DeviceCore, round: str) -> None:
        request = core.report_request(round)
        if self._happens(self._behaviour.retries):
            await self._lose_answer(request)
        answer = await self._patiently("report", request, TAKEN | CLOSED, self._happens(self._behaviour.slow))
        if answer is None:
            return
        core.report_answered(round, answer.status, answer.retry_after)
        if answer.status != 200:
            return
        self.accepted += 1
        if round not in self._heard:
            self._heard[round] = messages.decode(messages.Report, request.body).sealed
        if self._happens(self._behaviour.duplicates):
            await self._patiently("the same report again", request, TAKEN | CLOSED)

    def _happens(self, share: float) -> bool:
        return share > 0 and self._chance.random() < share

    async def _lose_answer(self, request: Request) -> None:
        try:
            await self._client.send_and_leave(request.method, request.path, request.token, request.body)
        except ServerUnavailable:
            return
        self._outcomes.note("report, answer lost", 0, frozenset())

    async def _patiently(
        self, what: str, request: Request, expected: frozenset[int], slowly: bool = False
    ) -> Answer | None:
        """Send the same bytes until there is an answer that is not "come back later"; None if there never was one."""
        send = self._client.send_slowly if slowly else self._client.send
        for pause in (*PAUSES, None):
            wait = 0.0
            try:
                answer = await send(request.method, request.path, request.token, request.body)
                self._outcomes.note(what, answer.status, expected)
                if answer.status not in (429, 500, 502, 503, 504):
                    return answer
                wait = answer.retry_after or 0.0
            except (Lost, ServerUnavailable):
                self._outcomes.note(what, 0, expected)
            if pause is not None:
                await asyncio.sleep(max(wait, pause * self._chance.uniform(0.5, 1.5)))
        return None


@functools.lru_cache(maxsize=16)
def read_check_in(body: bytes) -> messages.CheckedIn:
    """A reply to a check-in, read once for all devices that get the same bytes."""
    return messages.decode(messages.CheckedIn, body)


async def each(devices: Sequence[int], do: Callable[[int], Awaitable[object]], workers: int) -> None:
    """Do something for every device, so many at a time."""
    waiting = iter(devices)

    async def work() -> None:
        for device in waiting:
            await do(device)

    async with asyncio.TaskGroup() as group:
        for _ in range(max(1, min(workers, len(devices)))):
            group.create_task(work())
