"""Traces of a device's limits: what it remembers, keeps and hands in at most, and how long its period is."""

from __future__ import annotations

import json
from typing import Any

from thresher.protocol.vectors.example_rounds import content, example
from thresher.protocol.vectors.trace_steps import (
    DAY,
    NONE,
    ROUND,
    TAKEN,
    Device,
    enrols,
    said,
    step,
    trace,
    visits,
)

_LOOKS = 256
_RECORDS = 10_000


def limits() -> list[dict[str, Any]]:
    """What a server cannot make a device exceed."""
    return [_records(), _reports(), _sealed(), _listed()]


def periods() -> list[dict[str, Any]]:
    """Policies whose period is not that of the default."""
    return [
        trace(
            f"a period of {days:g} days",
            step(0, enrols(), visits(said([ROUND])), visits(said(q1_0="taken"), ["q1-0"], rounds=False), after=TAKEN),
            step(days * DAY - 1, visits(said()), after=TAKEN),
            step(days * DAY, visits(said()), after=Device()),
            policy={"period_days": days},
        )
        for days in (0.5, 60)
    ]


def _named(first: int, number: int) -> list[str]:
    """Rounds that cannot be read: short, and remembered like any other."""
    return [json.dumps({"round": str(each)}) for each in range(first, first + number)]


def _records() -> dict[str, Any]:
    full, more = divmod(_RECORDS, _LOOKS)
    filling = [
        step(60 * visit, *([] if visit else [enrols()]), visits(said(_named(visit * _LOOKS, _LOOKS))), after=number)
        for visit in range(full)
        if (number := (visit + 1) * _LOOKS)
    ]
    listed = [*_named(full * _LOOKS, more), ROUND]
    return trace(
        "10,000 rounds are remembered; others wait until some are forgotten",
        *filling,
        step(60 * full, visits(said(listed)), after=_RECORDS),
        step(60 * full + 60, visits(said([ROUND])), after=_RECORDS),
        step(
            30 * DAY,  # the rounds of the first visit are forgotten
            visits(said([ROUND])),
            visits(said(q1_0="taken"), ["q1-0"], rounds=False),
            after=_RECORDS - _LOOKS + 1,
        ),
    )


def _listed() -> dict[str, Any]:
    """All elements are read alike: those that are no strings count among the 10,256."""
    return trace(
        "10,256 elements of a list are read",
        step(0, enrols(), visits(said([*[0] * 10_255, ROUND])), visits(NONE, ["q1-0"], rounds=False), after=1),
        # Its deadline has passed, and the answer that lists it does so too late in the list.
        step(
            DAY,
            visits(said([*[0] * 10_256, ROUND]), ["q1-0"]),
            after=Device({"q1-0": "closed"}, charged=("default/q1",)),
        ),
    )


def _many(index: int, of: int, contributions: int, bucket_size: int) -> str:
    """One of many rounds of one query."""
    changed = content(example(f"q1-{index}", bucket_size=bucket_size))
    plan = {**changed["plan"], "rounds": of, "contributions": contributions, "sampling_rate": 2.0**-20}
    return json.dumps(changed | {"index": index, "plan": plan, "aggregator_rate": 2**12})


def _statuses(number: int) -> dict[str, str]:
    return {f"q1_{index}": "taken" for index in range(number)}


def _reports() -> dict[str, Any]:
    first, further = _LOOKS, 4
    every = [_many(index, first + further, 1, 48) for index in range(first + further)]
    everything = _statuses(first + further)
    return trace(
        "256 reports fit into a request",
        step(0, enrols(), visits(said(every[:first])), visits(NONE, first, rounds=False), after=first),
        step(60, visits(said(every[first:]), first), visits(said(), further, rounds=False), after=first + further),
        step(
            120,
            visits(said(**everything), _LOOKS),
            visits(said(**everything), further, rounds=False),
            after=Device({f"q1-{index}": "taken" for index in range(first + further)}, charged=("default/q1",)),
        ),
    )


def _sealed() -> dict[str, Any]:
    """A report has 8 × (4,048 + 48) bytes: 32 of them are 1,048,576, and 5 fit into a request."""
    fits, number = 32, 34
    every = [_many(index, number, 8, 4048) for index in range(number)]
    taken = _statuses(number)
    refused = json.dumps({"round": "refused"})
    return trace(
        "1,048,576 bytes of reports wait at a time",
        step(
            0,
            enrols(),
            visits(said([*every, refused, example("q2-0")])),
            visits(NONE, 5, rounds=False),
            after=Device({f"q1-{index}": "sealed" for index in range(fits)}, charged=("default/q1",)),
        ),
        step(
            60,
            visits(said(every, **taken), 5),
            *(visits(said(**taken), each, rounds=False) for each in (5, 5, 5, 5, 5, 4)),
            after=Device({f"q1-{index}": "taken" for index in range(number)}, charged=("default/q1",)),
        ),
    )
