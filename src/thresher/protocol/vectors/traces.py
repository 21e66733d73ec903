"""Traces: what a device sends, keeps and waits for, step by step, on a clock and with a server that are played.

docs/protocol/rounds.md, section 6, says how a trace is run. A trace is written here as it must be; the tests run
Python's device through all of them.
"""

from __future__ import annotations

import email.utils
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from thresher.privacy.plans import Plan
from thresher.protocol.configurations import RoundConfiguration
from thresher.protocol.identity import Identity
from thresher.protocol.readable import read_round
from thresher.protocol.vectors.example_rounds import PLAN, START, bytes_of, content, example

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
    now: float, *exchanges: Exchange, after: Device | None = None, wait: tuple[float, float] | None = (60.0, 60.0)
) -> dict[str, Any]:
    """One visit at a time, in seconds after the start; `wait` is None where the device ends."""
    found = {"now": START + now, "exchanges": list(exchanges)}
    if after is None:
        return found
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
    handed_in = {name for each in exchanges for name in _listed(each["expect"].get("reports", []))}
    found: dict[str, list[str | None]] = {}
    for exchange in exchanges:
        body = exchange["answer"].get("body")
        for text in body.get("rounds", ()) if isinstance(body, dict) else ():
            shown = read_round(text).round if isinstance(text, str) else None
            if shown is None or shown.round in found or (handed_in and shown.round not in handed_in):
                continue
            held = attributes.get(shown.question.columns[0], [])
            values = held if isinstance(held, list) else [held]
            tails = shown.device_rate == 1  # heads once in 2^32 times
            pieces: list[str | None] = [] if tails else [json.dumps([value]) for value in values]
            found[shown.round] = [*pieces, *[None] * (shown.contributions - len(pieces))]
    return found


def _listed(reports: Any) -> list[str]:
    return reports if isinstance(reports, list) else []


ROUND, SECOND, THIRD = example("q1-0"), example("q2-0"), example("q3-0")
WITH_ONE = Device({"q1-0": "sealed"}, charged=("default/q1",))
TAKEN = Device({"q1-0": "taken"}, charged=("default/q1",))
BEGINS = step(0, enrols(), visits(said()), after=Device())
SEALS = step(
    0, enrols(), visits(said([ROUND])), visits(NONE, ["q1-0"], rounds=False), after=WITH_ONE, wait=(60.0, 60.0)
)
"""A first visit that seals, and whose second request gets no answer."""


def traces() -> list[dict[str, Any]]:
    """All traces."""
    return [
        *_ordinary(),
        *_statuses(),
        *_failures(),
        *_strangers(),
        *_crashes(),
        *_times(),
        *_unknown(),
        *_rounds(),
    ]


def _ordinary() -> list[dict[str, Any]]:
    both = Device({"q1-0": "taken", "q2-0": "taken"}, charged=("default/q1", "default/q2"))
    return [
        trace("nothing to do", BEGINS, step(60, visits(said()), after=Device())),
        trace(
            "a round is answered",
            step(0, enrols(), visits(said([ROUND])), visits(said(q1_0="taken"), ["q1-0"], rounds=False), after=TAKEN),
            RESTART,
            step(60, visits(said()), after=TAKEN),
        ),
        trace(
            "the answer to the request for rounds says when to come back",
            step(
                0,
                enrols(),
                visits(said([ROUND])),
                visits(said(come_back=7.0, q1_0="taken"), ["q1-0"], rounds=False),
                after=TAKEN,
            ),
        ),
        trace(
            "a coin of the device that is tails",
            step(
                0,
                enrols(),
                visits(said([_tails()])),
                visits(said(q1_0="taken"), ["q1-0"], rounds=False),
                after=TAKEN,
            ),
        ),
        trace(
            "a new round whose deadline has passed on this clock is answered",
            step(
                7200, enrols(), visits(said([ROUND])), visits(said(q1_0="taken"), ["q1-0"], rounds=False), after=TAKEN
            ),
        ),
        trace(
            "five reports of 48,000 bytes need two requests",
            step(
                0,
                enrols(),
                visits(said([_long(number) for number in range(5)])),
                visits(said(**{f"q1_{number}": "taken" for number in range(5)}), 4, rounds=False),
                visits(said(**{f"q1_{number}": "taken" for number in range(5)}), 1, rounds=False),
                after=Device({f"q1-{number}": "taken" for number in range(5)}, charged=("default/q1",)),
            ),
        ),
        trace(
            "two rounds are handed in together",
            step(
                0,
                enrols(),
                visits(said([ROUND, SECOND])),
                visits(said(q1_0="taken", q2_0="taken"), ["q1-0", "q2-0"], rounds=False),
                after=both,
            ),
        ),
        trace(
            "two rounds of one query are charged once",
            step(
                0,
                enrols(),
                visits(said([ROUND, example("q1-1", index=1)])),
                visits(said(q1_0="taken", q1_1="taken"), ["q1-0", "q1-1"], rounds=False),
                after=Device({"q1-0": "taken", "q1-1": "taken"}, charged=("default/q1",)),
            ),
        ),
        trace(
            "a device without the value answers all the same",
            step(0, enrols(), visits(said([ROUND])), visits(said(q1_0="taken"), ["q1-0"], rounds=False), after=TAKEN),
            attributes={},
        ),
        trace(
            "a round of three contributions",
            step(
                0,
                enrols(),
                visits(said([_several()])),
                visits(said(q1_0="taken"), ["q1-0"], rounds=False),
                after=TAKEN,
            ),
            attributes={"country": ["fr", "at"]},
        ),
        trace(
            "a round that is listed twice is one round",
            step(
                0,
                enrols(),
                visits(said([ROUND, ROUND])),
                visits(said(q1_0="taken"), ["q1-0"], rounds=False),
                after=TAKEN,
            ),
        ),
        trace(
            "a round that is listed again is not answered again",
            step(0, enrols(), visits(said([ROUND])), visits(said(q1_0="taken"), ["q1-0"], rounds=False), after=TAKEN),
            step(60, visits(said([ROUND])), after=TAKEN),
        ),
        trace(
            "members that are not known are ignored",
            step(
                0,
                enrols(),
                visits(said([ROUND], more={"news": {"a": [1]}})),
                visits(said(q1_0="taken", more={"versionsecond": 3}), ["q1-0"], rounds=False),
                after=TAKEN,
            ),
        ),
        trace(
            "when to come back is kept within a second and a day",
            step(0, enrols(), visits(said(come_back=0)), after=Device(), wait=(1.0, 1.0)),
            step(1, visits(said(come_back=-5.5)), after=Device(), wait=(1.0, 1.0)),
            step(2, visits(said(come_back=7.5)), after=Device(), wait=(7.5, 7.5)),
            step(10, visits(said(come_back=1e300)), after=Device(), wait=(DAY, DAY)),
        ),
    ]


def _several() -> RoundConfiguration:
    plan = Plan(PLAN.sampling_rate, PLAN.threshold, 1.0, 1e-8, "replace", 1, 3)
    return example("q1-0", plan=plan)


def _tails() -> str:
    changed = content() | {"device_rate": 1, "aggregator_rate": 2**32}
    return json.dumps(changed | {"plan": {**changed["plan"], "sampling_rate": 2.0**-32}})


def _long(index: int) -> str:
    changed = content(example(f"q1-{index}", index=0)) | {"index": index, "bucket_size": 4096}
    plan = {**changed["plan"], "rounds": 5, "contributions": 10, "sampling_rate": 2.0**-20}
    return json.dumps(changed | {"plan": plan, "aggregator_rate": 2**12, "bucket_size": 4096})


def _statuses() -> list[dict[str, Any]]:
    found = []
    for status in ("taken", "closed", "conflict", "rejected"):
        ended = Device({"q1-0": status}, charged=("default/q1",))
        found.append(
            trace(
                f"a report is {status}",
                step(
                    0, enrols(), visits(said([ROUND])), visits(said(q1_0=status), ["q1-0"], rounds=False), after=ended
                ),
                step(60, visits(said([ROUND])), after=ended),
            )
        )
        found.append(
            trace(
                f"a report of an earlier visit is {status}",
                SEALS,
                step(60, visits(said(q1_0=status), ["q1-0"]), after=ended),
            )
        )
    missing = said()
    for what, answer in (
        ("is missing", missing),
        ("is not known", said(q1_0="later")),
        ("is of another round", said(q9_0="taken")),
        ("is no text", {**missing, "body": missing["body"] | {"reports": [{"round": "q1-0", "status": 1}, None]}}),
    ):
        found.append(
            trace(
                f"a status that {what} decides nothing",
                step(0, enrols(), visits(said([ROUND])), visits(answer, ["q1-0"], rounds=False), after=WITH_ONE),
                step(60, visits(NONE, ["q1-0"]), after=WITH_ONE, wait=later(1)),
                step(61, visits(said(q1_0="taken"), ["q1-0"]), after=TAKEN),
            )
        )
    found.append(
        trace(
            "each report has a status of its own",
            step(
                0,
                enrols(),
                visits(said([ROUND, SECOND, THIRD])),
                visits(said(q1_0="taken", q2_0="rejected"), ["q1-0", "q2-0", "q3-0"], rounds=False),
                after=Device(
                    {"q1-0": "taken", "q2-0": "rejected", "q3-0": "sealed"},
                    charged=("default/q1", "default/q2", "default/q3"),
                ),
            ),
            step(
                60,
                visits(said(q3_0="closed"), ["q3-0"]),
                after=Device(
                    {"q1-0": "taken", "q2-0": "rejected", "q3-0": "closed"},
                    charged=("default/q1", "default/q2", "default/q3"),
                ),
            ),
        )
    )
    found.append(
        trace(
            "a status for a report that was not handed in ends nothing",
            step(
                0,
                enrols(),
                visits(said([ROUND], q1_0="taken")),
                visits(said(), ["q1-0"], rounds=False),
                after=WITH_ONE,
            ),
            step(
                60,
                visits(said([SECOND]), ["q1-0"]),
                visits(said(q1_0="taken", q2_0="taken"), ["q2-0"], rounds=False),
                after=Device({"q1-0": "sealed", "q2-0": "taken"}, charged=("default/q1", "default/q2")),
            ),
        )
    )
    return found


def _failures() -> list[dict[str, Any]]:
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


def _strangers() -> list[dict[str, Any]]:
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


def _crashes() -> list[dict[str, Any]]:
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


def _times() -> list[dict[str, Any]]:
    closed = Device({"q1-0": "closed"}, charged=("default/q1",))
    nothing = Device()
    second = example("q1-1", index=1)
    lasting = example("q1-0", deadline=START + 90 * DAY)
    return [
        trace(
            "the deadline passes, and the server does not list the round",
            SEALS,
            step(3600, visits(said(), ["q1-0"]), after=closed),
            step(3660, visits(said()), after=closed),
        ),
        trace(
            "the deadline passes on this clock, and the server lists the round",
            SEALS,
            step(4000, visits(said([ROUND]), ["q1-0"]), after=WITH_ONE),
            step(4060, visits(said(q1_0="taken"), ["q1-0"]), after=TAKEN),
        ),
        trace(
            "nothing is dropped or deleted in a visit whose list did not come",
            SEALS,
            step(40 * DAY, visits(NONE, ["q1-0"]), after=WITH_ONE, wait=later(2)),
            step(41 * DAY, visits(said([ROUND], q1_0="taken"), ["q1-0"]), after=TAKEN),
            step(80 * DAY, visits(NONE), after=TAKEN, wait=later(1)),
            step(81 * DAY, visits(said()), after=nothing),
        ),
        trace(
            "a second round of a query: the charge has its index, and its time does not go back",
            step(0, enrols(), visits(said([ROUND])), visits(said(q1_0="taken"), ["q1-0"], rounds=False), after=TAKEN),
            step(
                -10 * DAY,
                visits(said([second])),
                visits(said(q1_1="taken"), ["q1-1"], rounds=False),
                after=Device({"q1-0": "taken", "q1-1": "taken"}, charged=("default/q1",)),
            ),
            step(
                60,
                visits(said([example("other", query="q1", index=1)])),
                after=Device(
                    {"q1-0": "taken", "q1-1": "taken", "other": "refused"},
                    {"other": "answered"},
                    charged=("default/q1",),
                ),
            ),
            step(
                30 * DAY - 1,
                visits(said()),
                after=Device({"q1-0": "taken", "other": "refused"}, {"other": "answered"}, charged=("default/q1",)),
            ),
        ),
        trace(
            "a second round of a query: the charge counts from it on",
            step(0, enrols(), visits(said([ROUND])), visits(said(q1_0="taken"), ["q1-0"], rounds=False), after=TAKEN),
            step(
                10 * DAY,
                visits(said([second])),
                visits(CRASH, ["q1-1"], rounds=False),
            ),
            step(
                5 * DAY,
                visits(said(q1_1="taken"), ["q1-1"]),
                after=Device({"q1-0": "taken", "q1-1": "taken"}, charged=("default/q1",)),
            ),
            step(35 * DAY, visits(said()), after=Device({"q1-1": "taken"}, charged=("default/q1",))),
        ),
        trace(
            "just before the deadline",
            SEALS,
            step(3599, visits(said(), ["q1-0"]), after=WITH_ONE),
        ),
        trace(
            "the period ends: record and charge are deleted",
            step(0, enrols(), visits(said([ROUND])), visits(said(q1_0="taken"), ["q1-0"], rounds=False), after=TAKEN),
            step(30 * DAY - 1, visits(said()), after=TAKEN),
            step(30 * DAY, visits(said()), after=nothing),
        ),
        trace(
            "a charge counts for a period after its answer was taken",
            step(0, enrols(), visits(said([lasting])), visits(NONE, ["q1-0"], rounds=False), after=WITH_ONE),
            step(40 * DAY, visits(said([lasting]), ["q1-0"]), after=WITH_ONE),
            step(50 * DAY, visits(said(q1_0="taken"), ["q1-0"]), after=TAKEN),
            step(80 * DAY - 1, visits(said()), after=TAKEN),
            step(80 * DAY, visits(said()), after=Device({"q1-0": "taken"})),
            step(90 * DAY, visits(said()), after=nothing),
        ),
        trace(
            "a charge counts for a period after its answer was dropped",
            SEALS,
            step(10 * DAY, visits(said(), ["q1-0"]), after=closed),
            step(30 * DAY, visits(said()), after=Device(charged=("default/q1",))),
            step(40 * DAY - 1, visits(said()), after=Device(charged=("default/q1",))),
            step(40 * DAY, visits(said()), after=nothing),
        ),
        trace(
            "the clock jumps back: the charge does not end earlier",
            step(0, enrols(), visits(said([lasting])), visits(NONE, ["q1-0"], rounds=False), after=WITH_ONE),
            step(-40 * DAY, visits(said(q1_0="taken"), ["q1-0"]), after=TAKEN),
            step(29 * DAY, visits(said()), after=TAKEN),
            step(30 * DAY, visits(said()), after=Device({"q1-0": "taken"})),
        ),
        trace(
            "the clock jumps forward and back while a report waits",
            SEALS,
            step(400 * DAY, visits(said([ROUND]), ["q1-0"]), after=WITH_ONE),
            step(60, visits(said([ROUND]), ["q1-0"]), after=WITH_ONE),
            step(120, visits(said(q1_0="taken"), ["q1-0"]), after=TAKEN),
        ),
        trace(
            "a record is kept while the server lists its round",
            step(0, enrols(), visits(said([ROUND])), visits(said(q1_0="taken"), ["q1-0"], rounds=False), after=TAKEN),
            step(31 * DAY, visits(said([ROUND])), after=Device({"q1-0": "taken"})),
            step(32 * DAY, visits(said()), after=nothing),
        ),
        trace(
            "a refused round is forgotten after a period, whatever its deadline",
            step(
                0,
                enrols(),
                visits(said([example("q1-0", deadline=START + 500 * DAY)])),
                after=Device({"q1-0": "refused"}, {"q1-0": "deadline"}),
            ),
            step(30 * DAY - 1, visits(said()), after=Device({"q1-0": "refused"}, {"q1-0": "deadline"})),
            step(30 * DAY, visits(said()), after=nothing),
        ),
    ]


def _unknown() -> list[dict[str, Any]]:
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


def _rounds() -> list[dict[str, Any]]:
    unreadable = {"q9-0": "unreadable"}
    low = example("q1-0", plan=replace(PLAN, sampling_rate=2.0**-10, threshold=4))
    text = json.dumps(content(), indent=1)
    many = ["{", "[]", *(json.dumps({"round": f"r{number}"}) for number in range(300))]
    return [
        trace(
            "a round with a name that cannot be read is refused, and not looked at again",
            step(0, enrols(), visits(said(['{"round":"q9-0"}'])), after=Device({"q9-0": "refused"}, unreadable)),
            step(60, visits(said([example("q9-0")])), after=Device({"q9-0": "refused"}, unreadable)),
        ),
        trace(
            "a string without a name is skipped",
            step(
                0,
                enrols(),
                visits(said(["", "{", "[]", '{"round":"no name"}', 5, None, {}, ROUND])),
                visits(said(q1_0="taken"), ["q1-0"], rounds=False),
                after=TAKEN,
            ),
        ),
        trace(
            "a round of an earlier version is refused",
            step(
                0,
                enrols(),
                visits(said([json.dumps(content(example("q9-0")) | {"version": 2})])),
                after=Device({"q9-0": "refused"}, unreadable),
            ),
        ),
        trace(
            "a round that the policy refuses",
            step(0, enrols(), visits(said([low])), after=Device({"q1-0": "refused"}, {"q1-0": "threshold"})),
            step(60, visits(said([low])), after=Device({"q1-0": "refused"}, {"q1-0": "threshold"})),
        ),
        trace(
            "a refused round does not hold up another",
            step(
                0,
                enrols(),
                visits(said([low, SECOND])),
                visits(said(q2_0="taken"), ["q2-0"], rounds=False),
                after=Device({"q1-0": "refused", "q2-0": "taken"}, {"q1-0": "threshold"}, charged=("default/q2",)),
            ),
        ),
        trace(
            "a configuration with lines and blanks is answered as it came",
            step(0, enrols(), visits(said([text])), visits(said(q1_0="taken"), ["q1-0"], rounds=False), after=TAKEN),
        ),
        trace(
            "256 new rounds are looked at in a visit",
            step(
                0,
                enrols(),
                visits(said(many)),
                after=Device({f"r{n}": "refused" for n in range(256)}, {f"r{n}": "unreadable" for n in range(256)}),
            ),
            step(
                60,
                visits(said(many)),
                after=Device({f"r{n}": "refused" for n in range(300)}, {f"r{n}": "unreadable" for n in range(300)}),
            ),
        ),
    ]
