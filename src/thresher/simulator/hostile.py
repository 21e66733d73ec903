"""Clients that do not follow the protocol, and what a server may answer them.

Each attack is tried by devices that are enrolled beside the honest ones. Those that hand in a report hand in one that
an aggregator must drop, so the truth stays that of the honest devices alone. A client that fills all pieces of a report
with one bucket is not among them: nobody can tell it from several honest devices (docs/protocol.md, section 6).
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from thresher.errors import ServerUnavailable
from thresher.protocol import messages
from thresher.protocol.pieces import piece_size, report_size
from thresher.roles.tokens import new_token
from thresher.simulator.http_client import Answer, HttpClient, Lost
from thresher.simulator.outcomes import LATER, TAKEN, Outcomes

REFUSED = frozenset({400, 401, 403, 404, 405, 409, 410, 413, 415, 422})
OVERSIZED = 256 << 10

CHECK_IN = "/v1/check-in"


def report_path(round: str) -> str:
    """Where a round's reports go."""
    return f"/v1/rounds/{round}/report"


@dataclass(frozen=True, slots=True)
class Attack:
    """One way to misbehave. `completes` says whether the collector takes a report of it, as it must: it cannot look."""

    name: str
    completes: bool = False


ATTACKS = (
    Attack("sealed garbage", completes=True),
    Attack("no token"),
    Attack("wrong token"),
    Attack("somebody else's report again", completes=True),
    Attack("not JSON"),
    Attack("oversized body"),
    Attack("unknown round"),
    Attack("unknown field"),
)


class Hostile:
    """Hostile clients of one server; `overheard` gives a report that an honest device has sent in a round, if any."""

    def __init__(self, client: HttpClient, outcomes: Outcomes, overheard: Callable[[str], bytes | None]) -> None:
        self._client = client
        self._outcomes = outcomes
        self._overheard = overheard

    async def attack(self, attack: Attack, token: str) -> None:
        """Do it once."""
        if attack.completes:
            await self._hand_in(attack, token)
            return
        body = messages.encode(messages.CheckIn())
        some_report = messages.encode(messages.Report(sealed=os.urandom(112)))
        known = report_path("round-" + secrets.token_hex(4))
        path, bearer, sent = {
            "no token": (CHECK_IN, None, body),
            "wrong token": (CHECK_IN, new_token("device"), body),
            "not JSON": (known, token, os.urandom(200)),
            "oversized body": (known, token, b'{"sealed":"' + b"A" * OVERSIZED + b'"}'),
            "unknown round": (known, token, some_report),
            "unknown field": (CHECK_IN, token, b'{"version":1,"surprise":[]}'),
        }[attack.name]
        await self._send(attack.name, path, bearer, sent, REFUSED)

    async def _hand_in(self, attack: Attack, token: str) -> None:
        """Check in like anybody, try other numbers of pieces, then hand in something false; then try to replace it."""
        answer = await self._send("hostile check-in", CHECK_IN, token, messages.encode(messages.CheckIn()), TAKEN)
        if answer is None or answer.status != 200:
            return
        for configuration in messages.decode(messages.CheckedIn, answer.body).rounds:
            piece = piece_size(configuration.bucket_size)
            size = report_size(configuration.planned, configuration.bucket_size)
            sealed = os.urandom(size)
            if attack.name == "somebody else's report again":
                sealed = self._overheard(configuration.round) or sealed
            path = report_path(configuration.round)
            for what, wrong in (("a piece too few", size - piece or piece - 1), ("a piece too many", size + piece)):
                other = messages.encode(messages.Report(sealed=os.urandom(min(wrong, messages.LARGEST_REPORT))))
                await self._send(what, path, token, other, REFUSED)
            report = messages.encode(messages.Report(sealed=sealed))
            taken = await self._send(attack.name, path, token, report, TAKEN | {404, 410})
            if taken is not None and taken.status == 200:
                other = messages.encode(messages.Report(sealed=os.urandom(len(sealed))))
                await self._send("other bytes for the same round", path, token, other, REFUSED)

    async def _send(
        self, what: str, path: str, token: str | None, body: bytes, expected: frozenset[int]
    ) -> Answer | None:
        answer = None
        for pause in (0.1, 0.5, 2.0, None):
            try:
                answer = await self._client.send("POST", path, token, body)
            except (Lost, ServerUnavailable):  # a server may hang up on an oversized body without reading it
                self._outcomes.note(what, 0, expected)
                return None
            self._outcomes.note(what, answer.status, expected)
            if answer.status not in LATER or pause is None:
                break
            await asyncio.sleep(max(pause, answer.retry_after or 0.0))
        return answer
