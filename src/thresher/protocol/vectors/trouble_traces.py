"""Traces of what goes wrong: no answers, others' answers, crashes, and servers that do not know the device."""

from __future__ import annotations

import email.utils
from dataclasses import replace
from typing import Any

from thresher.protocol.identity import Identity
from thresher.protocol.vectors.example_rounds import START
from thresher.protocol.vectors.trace_steps import (
    BEGINS,
    CRASH,
    DAY,
    NONE,
    RESTART,
    ROUND,
    SEALS,
    SECOND,
    TAKEN,
    WITH_ONE,
    Device,
    enrols,
    later,
    page,
    refused,
    said,
    step,
    trace,
    visits,
)


def failures() -> list[dict[str, Any]]:
    """Requests without an answer, or with one that says later."""
    found = [
        trace(
            "no answer, again and again",
            BEGINS,
            *(step(60 + number, visits(NONE), after=Device(), wait=later(number)) for number in range(1, 13)),
            step(600, visits(said()), after=Device()),
            step(660, visits(NONE), after=Device(), wait=later(1)),
        ),
        trace(
            "no answer to an enrolment",
            step(0, enrols(answer=NONE), after=Device(token=None), wait=later(1)),
            step(1, enrols(answer=NONE), after=Device(token=None), wait=later(2)),
            step(2, enrols(), visits(said()), after=Device()),
        ),
        trace(
            "a lost answer is met with the same bytes",
            SEALS,
            step(60, visits(NONE, ["q1-0"]), after=WITH_ONE, wait=later(2)),
            step(61, visits(said(q1_0="taken"), ["q1-0"]), after=TAKEN),
        ),
        trace(
            "an old report and a new round in one visit",
            SEALS,
            step(
                60,
                visits(said([SECOND], q1_0="taken"), ["q1-0"]),
                visits(said(q2_0="taken"), ["q2-0"], rounds=False),
                after=Device({"q1-0": "taken", "q2-0": "taken"}, charged=("default/q1", "default/q2")),
            ),
        ),
    ]
    date = email.utils.formatdate(START + 60 + 30, usegmt=True)
    for status in (408, 429, 500, 502, 503):
        found.append(
            trace(
                f"the server answers {status}",
                SEALS,
                step(60, visits(refused(status), ["q1-0"]), after=WITH_ONE, wait=later(2)),
                step(62, visits(said(q1_0="taken"), ["q1-0"]), after=TAKEN),
            )
        )
    for what, header, more in (
        ("a number", "900", 900.0),
        ("a fraction", "1.5", 1.5),
        ("a date", date, 30.0),
        ("a date that has passed", "Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("more than a day", "999999", DAY),
        ("nonsense", "soon", 0.0),
    ):
        found.append(
            trace(
                f"Retry-After with {what}",
                BEGINS,
                step(60, visits(refused(503, headers={"retry-after": header})), after=Device(), wait=later(1, more)),
                step(200_000, visits(said()), after=Device()),
            )
        )
    found.append(
        trace(
            "Retry-After of an enrolment",
            step(
                0,
                enrols(answer=refused(503, headers={"retry-after": "900"})),
                after=Device(token=None),
                wait=later(1, 900.0),
            ),
            step(901, enrols(), visits(said()), after=Device()),
        )
    )
    found.append(
        trace(
            "Retry-After where reports are handed in",
            step(
                0,
                enrols(),
                visits(said([ROUND])),
                visits(refused(503, headers={"retry-after": "900"}), ["q1-0"], rounds=False),
                after=WITH_ONE,
                wait=later(1, 900.0),
            ),
            step(901, visits(said(q1_0="taken"), ["q1-0"]), after=TAKEN),
        )
    )
    return found


def _without(body: dict[str, Any], member: str) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name != member}


def strangers() -> list[dict[str, Any]]:
    """Answers of somebody in between."""
    found = []
    problem = refused(401)["body"]
    good = said(q1_0="taken")["body"]
    untold = refused(401)["body"]
    del untold["title"]
    media = {"content-type": "application/problem+json"}
    for what, answer, more in (
        ("a page with status 200", page(200), 0.0),
        ("a page with the answer", page(200) | {"body": good}, 0.0),
        ("an answer of another version", {"status": 200, "body": good | {"version": 3}}, 0.0),
        ("an answer without come_back", {"status": 200, "body": _without(good, "come_back")}, 0.0),
        ("an answer without reports", {"status": 200, "body": _without(good, "reports")}, 0.0),
        ("an answer without rounds", {"status": 200, "body": _without(good, "rounds")}, 0.0),
        ("a problem as JSON", refused(401, headers={"content-type": "application/json"}) | {"proof": "valid"}, 0.0),
        ("a problem without a title", {"status": 401, "headers": media, "body": untold, "proof": "valid"}, 0.0),
        ("a page with status 404", page(404), 0.0),
        ("a page with status 401", page(401), 0.0),
        ("a page that asks to wait for a day", page(503, retry_after="86400"), 300.0),
        ("a redirect", page(302, location="https://portal.example/login"), 0.0),
        ("JSON with status 404", {"status": 404, "body": {"error": "not found"}}, 0.0),
        (
            "a problem of another status",
            {"status": 503, "headers": media | {"retry-after": "86400"}, "body": problem},
            300.0,
        ),
        (
            "a problem of another type",
            {"status": 401, "headers": media, "body": problem | {"type": "about:blank"}, "proof": "valid"},
            0.0,
        ),
        ("a problem without a code", {"status": 401, "headers": media, "body": {"type": "x", "status": 401}}, 0.0),
    ):
        found.append(
            trace(
                f"somebody else answers: {what}",
                SEALS,
                step(60, visits(answer, ["q1-0"]), after=WITH_ONE, wait=later(2, more)),
                step(400, visits(said(q1_0="taken"), ["q1-0"]), after=TAKEN),
            )
        )
    for what, own in (
        ("status 201", {"status": 201}),
        ("a media type with parameters", {"headers": {"content-type": " Application/JSON ; charset=utf-8"}}),
    ):
        found.append(
            trace(f"the server's own: {what}", SEALS, step(60, visits(said(q1_0="taken") | own, ["q1-0"]), after=TAKEN))
        )
    found.append(
        trace(
            "somebody else answers an enrolment",
            step(0, enrols(answer=page(200)), after=Device(token=None), wait=later(1)),
            step(1, enrols(), visits(said()), after=Device()),
        )
    )
    found.append(
        trace(
            "somebody else answers where reports are handed in",
            step(0, enrols(), visits(said([ROUND])), visits(page(200), ["q1-0"], rounds=False), after=WITH_ONE),
            step(60, visits(said(q1_0="taken"), ["q1-0"]), after=TAKEN),
        )
    )
    return found


def crashes() -> list[dict[str, Any]]:
    """The power goes between two steps."""
    return [
        trace(
            "the power goes before the token is asked for",
            step(0, enrols(answer=CRASH)),
            step(1, enrols(), visits(said()), after=Device()),
        ),
        trace(
            "the power goes before the first visit",
            step(0, enrols(), visits(CRASH)),
            step(1, visits(said()), after=Device()),
        ),
        trace(
            "the power goes between sealing and sending",
            step(0, enrols(), visits(said([ROUND])), visits(CRASH, ["q1-0"], rounds=False)),
            step(60, visits(said([ROUND], q1_0="taken"), ["q1-0"]), after=TAKEN),
        ),
        trace(
            "a restart after a lost answer",
            SEALS,
            RESTART,
            step(60, visits(said(q1_0="taken"), ["q1-0"]), after=TAKEN),
            RESTART,
            step(120, visits(said([ROUND])), after=TAKEN),
        ),
        trace(
            "a restart begins to count repetitions anew",
            BEGINS,
            step(60, visits(NONE), after=Device(), wait=later(1)),
            step(61, visits(NONE), after=Device(), wait=later(2)),
            RESTART,
            step(62, visits(NONE), after=Device(), wait=later(1)),
        ),
    ]


def unknown_tokens() -> list[dict[str, Any]]:
    """A server that does not know the token."""
    proven, other = refused(401, "unauthorised") | {"proof": "valid"}, refused(401, "unauthorised") | {"proof": "other"}
    again = replace(WITH_ONE, token="token-2")  # noqa: S106
    taken = replace(TAKEN, token="token-2")  # noqa: S106
    return [
        trace(
            "401 with a valid proof: the device enrols again and keeps everything",
            SEALS,
            step(
                60,
                visits(proven, ["q1-0"]),
                enrols("token-2"),
                visits(said(q1_0="taken"), ["q1-0"], token="token-2"),  # noqa: S106
                after=taken,
            ),
        ),
        trace(
            "401 with a valid proof: a round that was answered is not answered again",
            step(0, enrols(), visits(said([ROUND])), visits(said(q1_0="taken"), ["q1-0"], rounds=False), after=TAKEN),
            step(
                60,
                visits(proven),
                enrols("token-2"),
                visits(said([ROUND]), token="token-2"),  # noqa: S106
                after=taken,
            ),
        ),
        trace(
            "401 with a valid proof, and no answer to the second enrolment",
            SEALS,
            step(60, visits(proven, ["q1-0"]), enrols(answer=NONE), after=WITH_ONE, wait=later(2)),
            step(
                61,
                visits(proven, ["q1-0"]),
                enrols("token-2"),
                visits(NONE, ["q1-0"], token="token-2"),  # noqa: S106
                after=again,
                wait=later(3),
            ),
        ),
        trace(
            "401 with a valid proof twice in a visit: it enrols again once",
            BEGINS,
            step(
                60,
                visits(proven),
                enrols("token-2"),
                visits(proven, token="token-2"),  # noqa: S106
                after=replace(Device(), token="token-2"),  # noqa: S106
                wait=None,
            ),
        ),
        *(
            trace(
                f"{what}: the device comes back later",
                SEALS,
                step(60, visits(answer, ["q1-0"]), after=WITH_ONE, wait=later(2)),
                step(61, visits(said(q1_0="taken"), ["q1-0"]), after=TAKEN),
            )
            for what, answer in (
                ("401 without a proof", refused(401, "unauthorised")),
                ("401 with another's proof", other),
                ("401 with a proof that is no signature", refused(401, headers={"thresher-proof": "zz"})),
                ("403 without a proof", refused(403, "forbidden")),
                ("403 with a valid proof", refused(403, "forbidden") | {"proof": "valid"}),
                ("401 with Retry-After", refused(401, "unauthorised", headers={"retry-after": "900"})),
                ("400 with Retry-After", refused(400, "invalid-format", headers={"retry-after": "900"})),
                ("413", refused(413, "too-large")),
            )
        ),
        trace(
            "401 where reports are handed in is judged by the next visit",
            step(
                0,
                enrols(),
                visits(said([ROUND])),
                visits(proven, ["q1-0"], rounds=False),
                after=WITH_ONE,
            ),
            step(60, visits(NONE, ["q1-0"]), after=WITH_ONE, wait=later(2)),
            step(61, visits(said(q1_0="taken"), ["q1-0"]), after=TAKEN),
        ),
        trace(
            "the first enrolment is not the one that a visit may repeat; the new identity is kept",
            step(
                0,
                enrols(identity=Identity(bytes(32)).public),
                visits(other),
                enrols("token-2"),
                visits(said(), token="token-2"),  # noqa: S106
                after=replace(Device(), token="token-2"),  # noqa: S106
            ),
            step(
                60,
                visits(proven, token="token-2"),  # noqa: S106
                enrols("token-3"),
                visits(said(), token="token-3"),  # noqa: S106
                after=replace(Device(), token="token-3"),  # noqa: S106
            ),
        ),
        trace(
            "401 to a device without an identity: it ends, and begins again when it is started",
            step(0, enrols(identity=None), visits(said()), after=Device()),
            step(60, visits(proven), after=Device(), wait=None),
            step(120, visits(NONE), after=Device(), wait=later(1)),
            step(180, visits(said()), after=Device()),
        ),
        *(
            trace(
                f"{status} to an enrolment: the device ends",
                step(0, enrols(answer=refused(status)), after=Device(token=None), wait=None),
                step(60, enrols(), visits(said()), after=Device()),
            )
            for status in (401, 403)
        ),
    ]
