"""Clients that do not follow the protocol, and what a server may answer them.

Each attack is tried by devices that are enrolled beside the honest ones. Those that hand in a report hand in one that
an aggregator must drop, so the truth stays that of the honest devices alone. A client that fills all pieces of a report
with one bucket is not among them: nobody can tell it from several honest devices (docs/protocol.md, section 6).
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from thresher.errors import ServerUnavailable
from thresher.protocol import messages
from thresher.protocol.configurations import RoundConfiguration
from thresher.protocol.pieces import piece_size, report_size
from thresher.protocol.readable import LARGEST_REPORT
from thresher.roles.tokens import new_token
from thresher.simulator.http_client import Answer, HttpClient, Lost
from thresher.simulator.outcomes import LATER, TAKEN, Outcomes

REFUSED = frozenset({400, 401, 403, 405, 408, 413, 415, 422})
OVERSIZED = 2 * messages.LARGEST_VISIT
ENDED = frozenset({"closed"})
"""A round may end at any time."""

VISIT = "/v2/visit"


def visit(reports: Sequence[messages.Report] = (), *, rounds: bool = False) -> bytes:
    """The body of a visit."""
    return messages.encode(messages.Visit(versions=[messages.DEVICE_VERSION], reports=list(reports), rounds=rounds))


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
    Attack("other version"),
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
        body = visit(rounds=True)
        report = messages.Report(round="round-" + secrets.token_hex(4), sealed=os.urandom(112))
        if attack.name == "unknown round":
            await self._report(attack.name, token, report, ENDED)
            return
        bearer, sent = {
            "no token": (None, body),
            "wrong token": (new_token("device"), body),
            "not JSON": (token, os.urandom(200)),
            "oversized body": (token, b'{"versions":[2],"reports":[],"rounds":"' + b"A" * OVERSIZED + b'"}'),
            "unknown field": (token, b'{"versions":[2],"reports":[],"rounds":true,"surprise":[]}'),
            "other version": (token, b'{"versions":[1]}'),
        }[attack.name]
        await self._send(attack.name, bearer, sent, REFUSED)

    async def _hand_in(self, attack: Attack, token: str) -> None:
        """Ask like anybody, try other numbers of pieces, then hand in something false; then try to replace it."""
        answer = await self._send("hostile visit", token, visit(rounds=True), TAKEN)
        if answer is None or answer.status != 200:
            return
        for text in messages.decode(messages.Visited, answer.body).rounds:
            configuration = RoundConfiguration.read(text)
            piece = piece_size(configuration.bucket_size)
            size = report_size(configuration.planned, configuration.bucket_size)
            sealed = os.urandom(size)
            if attack.name == "somebody else's report again":
                sealed = self._overheard(configuration.round) or sealed
            report = messages.Report(round=configuration.round, sealed=sealed)
            for what, wrong in (("a piece too few", size - piece or piece - 1), ("a piece too many", size + piece)):
                other = replace(report, sealed=os.urandom(min(wrong, LARGEST_REPORT)))
                await self._report(what, token, other, ENDED | {"rejected"})
            if await self._report(attack.name, token, report, ENDED | {"taken"}) == "taken":
                other = replace(report, sealed=os.urandom(len(sealed)))
                await self._report("other bytes for the same round", token, other, ENDED | {"conflict"})

    async def _report(self, what: str, token: str, report: messages.Report, expected: frozenset[str]) -> str | None:
        """Hand in one report; what became of it."""
        answer = await self._send(what, token, visit([report]), TAKEN)
        if answer is None or answer.status != 200:
            return None
        [taken] = messages.decode(messages.Visited, answer.body).reports
        self._outcomes.note_report(what, taken.status, expected)
        return taken.status

    async def _send(self, what: str, token: str | None, body: bytes, expected: frozenset[int]) -> Answer | None:
        for pause in (0.1, 0.5, 2.0, None):
            wait = 0.0
            try:
                answer = await self._client.send("POST", VISIT, token, body)
            except (Lost, ServerUnavailable):
                self._outcomes.note(what, 0, expected)
                if expected == REFUSED:
                    return None  # a server may hang up on an oversized body without reading it
            else:
                self._outcomes.note(what, answer.status, expected)
                if answer.status not in LATER:
                    return answer
                wait = answer.retry_after or 0.0
            if pause is not None:
                await asyncio.sleep(max(pause, wait))
        return None
