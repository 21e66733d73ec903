"""Filters on devices: whoever is outside sends a decoy, and nothing else differs."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from device_cases import ALWAYS, Tosses, configuration, device, opened, sealed, shown, take
from one_process_fleet import EVERYTHING, OneProcessFleet

from thresher.errors import InvalidSetting
from thresher.protocol.analyst_messages import QueryRequest, RoundSettings
from thresher.protocol.plaintext import DECOY
from thresher.protocol.sealing import OVERHEAD
from thresher.questions import Among, Between, Filtered, Values, Where
from thresher.roles.coordinator.admission import admit
from thresher.verbs import HistogramQuery

WORDS = Values(("word",))
RED_AND_LARGE = Filtered(WORDS, Where((Among("colour", ("red",)), Between("size", 10, 20))))
CANARY = "only-one-holds-this"


def answer(holds: Any, question: Filtered = RED_AND_LARGE) -> Any:
    of = configuration(question=question, **ALWAYS)
    core = device(holds)
    assert take(core, shown(of)) == [of.round]
    report = sealed(core, of.round)
    assert len(report) == 64 + OVERHEAD
    assert core.outcome(of.round).status == "sealed"
    return opened(report, of)


def test_whoever_is_inside_is_counted() -> None:
    assert answer({"word": "a", "colour": "red", "size": 10}) == "a"
    assert answer({"word": "a", "colour": lambda: "red", "size": lambda: 19.9}) == "a"
    assert answer(lambda: {"word": "a", "colour": "red", "size": 12}) == "a"


def test_a_device_outside_draws_as_many_random_bits() -> None:
    drawn = []
    for colour in ("red", "blue"):
        tosses = Tosses()
        core = device({"word": "a", "colour": colour, "size": 10}, randomness=tosses)
        take(core, shown(configuration(question=RED_AND_LARGE)))
        drawn.append(tosses.drawn)
    assert drawn[0] == drawn[1] > 0


@pytest.mark.parametrize(
    "holds",
    [
        {"word": CANARY, "colour": "blue", "size": 10},
        {"word": CANARY, "colour": "red", "size": 20},
        {"word": CANARY, "colour": "red"},
        {"word": CANARY, "colour": None, "size": 10},
        {"word": CANARY, "colour": "red", "size": "10"},
        {"word": CANARY, "colour": "red", "size": 10**400},
        {"word": CANARY, "colour": ["blue"], "size": 10},
        {"word": CANARY, "colour": [], "size": 10},
        {"word": CANARY, "colour": "red", "size": lambda: 1 / 0},
        {"colour": "red", "size": 10},
        {},
    ],
)
def test_whoever_is_outside_sends_a_decoy(holds: dict[str, Any]) -> None:
    assert answer(holds) is DECOY


def test_days_and_lists() -> None:
    january = Filtered(WORDS, Where((Between("joined", dt.date(2024, 1, 1), dt.date(2024, 2, 1)),)))
    assert answer({"word": "a", "joined": dt.date(2024, 1, 31)}, january) == "a"
    assert answer({"word": "a", "joined": dt.datetime(2024, 1, 31, 23)}, january) == "a"
    assert answer({"word": "a", "joined": dt.date(2024, 2, 1)}, january) is DECOY
    assert answer({"word": "a", "colour": ["blue", "red", "green"], "size": (1, 12)}) == "a"
    own = Filtered(WORDS, Where((Among("word", ("a", "b")),)))
    found = Counter(answer({"word": ["a", "x", "b", "y"]}, own) for _ in range(64))
    assert set(found) == {"a", "b"}  # each is missing with probability 2^-64


@pytest.mark.slow
def test_only_devices_inside_are_released_and_all_complete(tmp_path: Path) -> None:
    fleet = OneProcessFleet(tmp_path)
    inside, outside = ["a", "b", "c"], ["d", CANARY]
    for name in inside + outside:
        fleet.enrol(name)
    query = HistogramQuery(Values(("name",)), EVERYTHING, where=Where((Among("name", tuple(inside)),)))
    settings = RoundSettings(seconds=600.0, completions=5, bucket_size=64, sampled_by="device")
    fleet.coordinator.submit(QueryRequest(name="q", query=query.to_dict(), settings=settings), "analyst")
    fleet.step()
    for name in fleet.devices:
        for round in fleet.visit(name):
            fleet.send(name, round)
    for _ in range(8):
        fleet.step()
    [status] = fleet.coordinator.queries()
    assert status.state == "done"
    assert status.what == "histogram of name where name in a, b, c"
    assert status.rounds[0].completed == 5
    [release] = fleet.releases().values()
    assert dict(zip(release.buckets, release.counts.tolist(), strict=True)) == dict.fromkeys(inside, 1)
    assert [entry.what for entry in fleet.ledger.history()] == [status.what]
    for role in fleet.stores.values():
        role.close()
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and _holds_canary(path)]


def _holds_canary(path: Path) -> bool:
    """Whether a file of a role has the canary; a device's own state is named after it, and holds sealed bytes only."""
    return CANARY.encode() in path.read_bytes()


@pytest.mark.slow
def test_a_filter_too_long_for_a_fleet_is_named() -> None:
    values = tuple(f"value number {number}" for number in range(200_000))
    query = HistogramQuery(WORDS, EVERYTHING, where=Where((Among("colour", values),)))
    with pytest.raises(InvalidSetting) as refused:
        admit(QueryRequest(name="q", query=query.to_dict(), settings=RoundSettings()))
    assert refused.value.setting == "where"


def test_attributes_of_filters_have_printable_names() -> None:
    for name, refused in (("size\n", True), ("a" * 201, True), ("count", False)):
        query = HistogramQuery(WORDS, EVERYTHING, where=Where((Between(name, 1),)))
        try:
            admit(QueryRequest(name="q", query=query.to_dict(), settings=RoundSettings()))
            found = False
        except InvalidSetting as error:
            found = error.setting == "where"
        assert found is refused
