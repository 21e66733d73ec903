"""The lonely person in a fleet: whatever a device alone holds, nobody can see that it does.

Every verb, over real HTTP: releases, answers, states, numbers, metrics, pages, log lines and the rows of all stores are
the same as if the lonely devices held nothing. THRESHER_LONELY_FLEETS=100 looks at more of what may be held.
"""

from __future__ import annotations

import itertools
import os
import re
import threading
from difflib import unified_diff

import pytest
from hostile_values import ABSENT, EXAMPLES, LONG_TEXT, TEXT_EXAMPLES, made, values
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from lonely_fleet import Seen, alone, seen

pytestmark = pytest.mark.slow

LONELY = 48
CASES = int(os.environ.get("THRESHER_LONELY_FLEETS", "2"))
_numbers = itertools.count()


def leaves():
    raise SystemExit(3)


def interrupts():
    raise KeyboardInterrupt


def hangs():
    if threading.current_thread().name == "thresher-reading":
        threading.Event().wait()  # for ever, in a thread that the device leaves behind


OTHERS = [LONG_TEXT, leaves, interrupts, hangs, *(each for each in EXAMPLES if each not in TEXT_EXAMPLES)]


def fleet(directory, held) -> Seen:
    """A fleet of as many lonely devices as every other here."""
    assert len(held) <= LONELY
    return seen(directory / f"fleet-{next(_numbers)}", [*held, *[{}] * (LONELY - len(held))])


@pytest.fixture(scope="module")
def nothing(tmp_path_factory) -> Seen:
    """What is seen where the lonely devices hold nothing."""
    return fleet(tmp_path_factory.mktemp("nothing"), [])


def assert_same(before: Seen, after: Seen) -> None:
    different = before.differences(after)
    shown = {name: list(unified_diff(_lines(before, name), _lines(after, name), n=0))[:20] for name in different[:3]}
    assert different == [], shown


def _lines(all_seen: Seen, name: str) -> list[str]:
    return re.split(r"(?<=[,>\n])", all_seen.parts.get(name, ""))


def test_common_values_are_seen_and_one_device_more_can_be_told(nothing, tmp_path):
    """The test can fail: with a value that others hold too, the release changes, and the pages that show it."""
    for part in (
        "values/releases",
        "trie/releases",
        "ranges/releases",
        "search/releases",
        "page /queries/query-values",
    ):
        assert "200" in nothing.parts[part][:4] or "alpha" in nothing.parts[part]
    assert "alpha" in nothing.parts["values/releases"]
    changed = nothing.differences(fleet(tmp_path, [{"word": "alpha"}]))
    assert {"values/releases", "page /queries/query-values", "values answer"} <= set(changed)
    assert not {"/metrics", "outcomes", "rows", "log", "bins/releases"} & set(changed)


def test_nobody_sees_what_a_lonely_device_holds(nothing, tmp_path):
    held = [{} if each is ABSENT else each for each in OTHERS]
    assert_same(nothing, fleet(tmp_path, alone([made(each) for each in held][:LONELY])))


def test_nobody_sees_how_a_lonely_device_spells_it(nothing, tmp_path):
    assert_same(nothing, fleet(tmp_path, alone(TEXT_EXAMPLES[::2][:LONELY])))


@settings(max_examples=CASES, phases=[Phase.generate], database=None, suppress_health_check=list(HealthCheck))
@given(held=st.lists(values(long=False).filter(lambda each: each is not ABSENT), min_size=20, max_size=LONELY))
def test_nobody_sees_whatever_a_lonely_device_holds(nothing, tmp_path_factory, held):
    assert_same(nothing, fleet(tmp_path_factory.mktemp("drawn"), alone([made(each) for each in held])))
