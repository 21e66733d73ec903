"""Traces of visits that reach their server: reports, rounds, clocks and charges."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from thresher.privacy.plans import Plan
from thresher.protocol.configurations import RoundConfiguration
from thresher.protocol.vectors.example_rounds import PLAN, START, content, example
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
    THIRD,
    WITH_ONE,
    Device,
    enrols,
    later,
    said,
    step,
    trace,
    visits,
)


def ordinary() -> list[dict[str, Any]]:
    """Visits in which nothing goes wrong."""
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


def statuses() -> list[dict[str, Any]]:
    """What becomes of reports."""
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


def times() -> list[dict[str, Any]]:
    """Clocks, deadlines, periods and charges."""
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


def rounds() -> list[dict[str, Any]]:
    """Which rounds are answered."""
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
