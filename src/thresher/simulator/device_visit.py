"""One visit of one honest device: ask, answer, and hand the reports in until the server takes them.

The faults of a network, and of users who leave, are part of a visit (`Behaviour`).
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import msgspec
import numpy as np

from thresher.device.core import DeviceCore, Request
from thresher.errors import ServerUnavailable
from thresher.protocol import messages
from thresher.protocol.readable import read_round
from thresher.simulator.behaviour import Behaviour, Dropouts
from thresher.simulator.http_client import Answer, HttpClient, Lost
from thresher.simulator.outcomes import TAKEN, Outcomes

DONE = frozenset({"taken", "closed"})
"""What becomes of a report. A conflict is never expected: a device always sends the same bytes."""
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
        asked = core.visit_request(rounds=True)
        assert asked is not None, "there is always something to ask"
        answer = await self._handed_in("visit", asked, core, device)
        if answer is None:
            return 0
        offered = read_visit(answer.body).rounds
        while (request := core.visit_request(rounds=False)) is not None:
            if await self._handed_in("hand in", request, core, device) is None:
                break
        return len(offered)

    async def _handed_in(self, what: str, request: Request, core: DeviceCore, device: int) -> Answer | None:
        """Send one request of a visit, and have the device read the answer; None if there was none."""
        request = self._without_dropouts(request, device)
        if not request.rounds and not request.reports:
            return None  # the device has vanished from all of its rounds
        if request.reports and self._happens(self._behaviour.retries):
            await self._lose_answer(request)
        slowly = bool(request.reports) and self._happens(self._behaviour.slow)
        answer = await self._patiently(what, request, slowly)
        if answer is None or answer.status != 200:
            return None
        body = self._unseen(answer.body, device) if request.rounds else answer.body
        for outcome in core.visited(request, body):
            self._outcomes.note_report("report", outcome.status, DONE)
            self.accepted += outcome.status == "taken"
        if any(round not in self._heard for round in request.reports):
            for report in messages.decode(messages.Visit, request.body).reports:
                self._heard.setdefault(report.round, report.sealed)
        if request.reports and self._happens(self._behaviour.duplicates):
            await self._patiently("the same reports again", request)
        return answer

    def _without_dropouts(self, request: Request, device: int) -> Request:
        """The request without the reports of rounds that the device vanishes from after it has sealed."""
        gone = {round for round in request.reports if self._dropouts.vanishes(device, round)}
        if not gone:
            return request
        visit = messages.decode(messages.Visit, request.body)
        kept = [report for report in visit.reports if report.round not in gone]
        body = messages.encode(msgspec.structs.replace(visit, reports=kept))
        return replace(request, body=body, reports=tuple(report.round for report in kept))

    def _unseen(self, body: bytes, device: int) -> bytes:
        """The answer as a device sees it. One with an odd number vanishes from a round before it sees it."""
        if device % 2 == 0:
            return body
        answer = read_visit(body)
        kept = [text for text in answer.rounds if not self._dropouts.vanishes(device, read_round(text).name or "")]
        return (
            body if len(kept) == len(answer.rounds) else messages.encode(msgspec.structs.replace(answer, rounds=kept))
        )

    def _happens(self, share: float) -> bool:
        return share > 0 and self._chance.random() < share

    async def _lose_answer(self, request: Request) -> None:
        try:
            await self._client.send_and_leave(request.method, request.path, request.token, request.body)
        except ServerUnavailable:
            return
        self._outcomes.note("reports, answer lost", 0, frozenset())

    async def _patiently(self, what: str, request: Request, slowly: bool = False) -> Answer | None:
        """Send the same bytes until there is an answer that is not "come back later"; None if there never was one."""
        send = self._client.send_slowly if slowly else self._client.send
        for pause in (*PAUSES, None):
            wait = 0.0
            try:
                answer = await send(request.method, request.path, request.token, request.body)
                self._outcomes.note(what, answer.status, TAKEN)
                if answer.status not in (429, 500, 502, 503, 504):
                    return answer
                wait = answer.retry_after or 0.0
            except (Lost, ServerUnavailable):
                self._outcomes.note(what, 0, TAKEN)
            if pause is not None:
                await asyncio.sleep(max(wait, pause * self._chance.uniform(0.5, 1.5)))
        return None


@functools.lru_cache(maxsize=16)
def read_visit(body: bytes) -> messages.Visited:
    """The answer to a visit, read once for all devices that get the same bytes."""
    return messages.decode(messages.Visited, body)


async def each(devices: Sequence[int], do: Callable[[int], Awaitable[object]], workers: int) -> None:
    """Do something for every device, so many at a time."""
    waiting = iter(devices)

    async def work() -> None:
        for device in waiting:
            await do(device)

    async with asyncio.TaskGroup() as group:
        for _ in range(max(1, min(workers, len(devices)))):
            group.create_task(work())
