"""The parts that traces are written with: exchanges, steps, and what is expected of a device after them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from thresher.protocol.configurations import RoundConfiguration
from thresher.protocol.identity import Identity
from thresher.protocol.readable import read_round
from thresher.protocol.vectors.example_rounds import START, bytes_of, example

IDENTITY = bytes_of("identity")
DAY = 86_400.0
COME_BACK = 60.0
FIRST = (0.25, 0.5)
"""Seconds before the first repetition; they double with each."""

Exchange = dict[str, Any]
NONE: dict[str, Any] = {"none": True}
CRASH: dict[str, Any] = {"crash": True}


@dataclass(frozen=True, slots=True)
class Device:
    """What is expected of a device after a step."""

    records: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    charged: tuple[str, ...] = ()
    token: str | None = "token-1"  # noqa: S105 - one of these traces


def enrols(token: str = "token-1", answer: dict[str, Any] | None = None, **more: Any) -> Exchange:  # noqa: S107
    """The device asks for a token."""
    body = {"version": 2, "token": token, "identity": Identity(IDENTITY).public} | more
    return {"expect": {"path": "/v2/devices"}, "answer": answer or {"status": 200, "body": body}}


def visits(
    answer: dict[str, Any],
    reports: Sequence[str] | int = (),
    *,
    rounds: bool = True,
    token: str = "token-1",  # noqa: S107
) -> Exchange:
    """The device visits with these reports."""
    expected = {
        "path": "/v2/visit",
        "token": token,
        "reports": reports if isinstance(reports, int) else list(reports),
        "rounds": rounds,
    }
    return {"expect": expected, "answer": answer}


def said(
    rounds: Sequence[RoundConfiguration | Any] = (), come_back: Any = COME_BACK, more: Any = None, **statuses: str
) -> dict[str, Any]:
    """The server's own answer: what became of reports (names with _ in place of -), and the rounds that it lists."""
    texts = [each.text if isinstance(each, RoundConfiguration) else each for each in rounds]
    reports = [{"round": name.replace("_", "-"), "status": status} for name, status in statuses.items()]
    body = {"version": 2, "reports": reports, "rounds": texts, "come_back": come_back}
    return {"status": 200, "body": body | (more or {})}


def refused(status: int, code: str = "not-now", headers: dict[str, str] | None = None, **body: Any) -> dict[str, Any]:
    """A problem as the server itself writes it."""
    kind = {"type": f"urn:thresher:problem:{code}", "title": "", "status": status, "code": code, "detail": ""}
    media = {"content-type": "application/problem+json"}
    return {"status": status, "headers": media | (headers or {}), "body": kind | body}


def page(status: int, **headers: str) -> dict[str, Any]:
    """What somebody else answers."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return {"status": status, "headers": {"content-type": "text/html"} | named, "body": "<html>Sign in</html>"}


def step(
    now: float, *exchanges: Exchange, after: Device | int | None = None, wait: tuple[float, float] | None = (60.0, 60.0)
) -> dict[str, Any]:
    """One visit at a time, in seconds after the start; `wait` is None where the device ends.

    Where `after` is a number, so many rounds are remembered, and nothing else is looked at.
    """
    found = {"now": START + now, "exchanges": list(exchanges)}
    if after is None:
        return found
    if isinstance(after, int):
        return found | {"after": {"remembered": after}}
    expected: dict[str, Any] = {
        "records": after.records,
        "reasons": after.reasons,
        "charged": list(after.charged),
        "token": after.token,
    }
    return found | {"after": expected | ({"ends": True} if wait is None else {"wait": list(wait)})}


RESTART = {"restart": True}


def later(repetition: int, more: float = 0.0) -> tuple[float, float]:
    """How long a device waits before a repetition."""
    longest = min(0.5 * 2 ** (repetition - 1), 300.0)
    return longest / 2 + more, longest + more


def trace(name: str, *steps: dict[str, Any], **settings: Any) -> dict[str, Any]:
    """A whole trace."""
    given = {"attributes": {"country": "fr"}, "enrolment_key": "enrolment-1", "identity_secret": IDENTITY.hex()}
    made = given | settings
    return {"name": name, **made, "plaintexts": _plaintexts(steps, made["attributes"]), "steps": list(steps)}


def _plaintexts(steps: Sequence[dict[str, Any]], attributes: dict[str, Any]) -> dict[str, list[str | None]]:
    """What is in the reports of every round that is handed in; the rounds of traces ask for one attribute."""
    exchanges = [exchange for each in steps for exchange in each.get("exchanges", ())]
    expected = [each["expect"].get("reports", []) for each in exchanges]
    by_number = any(isinstance(reports, int) for reports in expected)  # then any round that is shown may be
    handed_in = {name for reports in expected if isinstance(reports, list) for name in reports}
    found: dict[str, list[str | None]] = {}
    for exchange in exchanges:
        body = exchange["answer"].get("body")
        for text in body.get("rounds", ()) if isinstance(body, dict) else ():
            shown = read_round(text).round if isinstance(text, str) else None
            if shown is None or shown.round in found or not (by_number or shown.round in handed_in):
                continue
            held = attributes.get(shown.question.columns[0], [])
            values = held if isinstance(held, list) else [held]
            tails = shown.device_rate == 1  # heads once in 2^32 times
            pieces: list[str | None] = [] if tails else [json.dumps([value]) for value in values]
            found[shown.round] = [*pieces, *[None] * (shown.contributions - len(pieces))]
    return found


ROUND, SECOND, THIRD = example("q1-0"), example("q2-0"), example("q3-0")
WITH_ONE = Device({"q1-0": "sealed"}, charged=("default/q1",))
TAKEN = Device({"q1-0": "taken"}, charged=("default/q1",))
BEGINS = step(0, enrols(), visits(said()), after=Device())
SEALS = step(
    0, enrols(), visits(said([ROUND])), visits(NONE, ["q1-0"], rounds=False), after=WITH_ONE, wait=(60.0, 60.0)
)
"""A first visit that seals, and whose second request gets no answer."""
