"""A page that is a device, in two browsers: it enrols, answers, forgets, and survives whatever is done to its tabs."""

from __future__ import annotations

import re

import pytest
from browsers import rest, states, text, until, violations, visits, wait_for
from page_steps import ANSWERED, READY, SWITCH, opened, switched_on
from web_fleet import WebFleet, completed

pytestmark = pytest.mark.slow  # browsers take their time

DEVICE = """async () => {
  const { Device } = await import("./device.js");
  const { server, enrolmentKey } = await (await fetch("./settings.json")).json();
  globalThis.device = new Device(server, { enrolmentKey, attributes: { country: "fr" } });
}"""


def test_a_page_is_a_device(fleet: WebFleet, ask, profile) -> None:
    """Off: nothing is sent or kept. On: it enrols and answers, and shows what was asked; nothing is blocked."""
    handle = ask()
    tab = opened(profile, fleet.page)
    rest(tab, 1.2)  # a visit would have come
    assert {url.rpartition("/")[0] for _, url in profile.requests} == {fleet.page}
    assert states(tab) is None
    assert tab.evaluate("() => localStorage.length") == 0
    tab.evaluate(SWITCH)
    wait_for(tab, ANSWERED)
    assert completed(handle, 1) == 1
    assert text(tab, "#entries strong") == "Country"
    assert "30% of the answers are counted, and a count below 25 is dropped." in text(tab, "#entries")
    assert violations(tab) == []
    # The test can see what is blocked.
    tab.evaluate("() => fetch('http://127.0.0.1:9/').catch(() => {})")
    assert wait_for(tab, "() => globalThis.violations.length")


def test_the_servers_list_of_origins_is_the_law(fleet: WebFleet, ask, profile) -> None:
    handle, before = ask(), fleet.enrolled()
    tab = opened(profile, fleet.stranger)
    tab.evaluate(SWITCH)
    wait_for(tab, "() => !document.querySelector('#problem').hidden")
    assert "cannot be reached" in text(tab, "#problem")
    assert (completed(handle), fleet.enrolled()) == (0, before)


def test_off_is_silence_and_forgetting_in_all_tabs(fleet: WebFleet, ask, profile) -> None:
    ask()
    tab = switched_on(profile, fleet)
    other = opened(profile, fleet.page)
    for each in (other, tab):
        each.show()
        wait_for(each, ANSWERED)
    tab.evaluate(SWITCH)
    wait_for(other, "() => document.querySelector('#status').innerText.startsWith('Off')")
    wait_for(tab, READY)
    before = len(profile.requests)
    rest(tab, 2)  # two visits would have come
    assert len(profile.requests) == before
    for each in (tab, other):
        assert text(each, "#empty") == "Nothing was asked yet."
    (state,) = states(tab)
    charges = dict(state.pop("charges"))
    assert state == {
        **{"version": 2, "token": None, "identity": None, "consent": False},
        **{"due": 0, "records": [], "log": []},
    }
    assert len(charges) == 1
    assert all(re.fullmatch("[0-9a-f]{64}", key) for key in charges)
    assert tab.evaluate("() => Object.entries(localStorage)") == [["thresher-page", '{"consent":"off"}']]
    again = opened(profile, fleet.page)
    assert text(again, "#status").startswith("Off")
    assert len([url for _, url in profile.requests[before:] if url.startswith(fleet.server.url)]) == 0


def test_off_in_one_tab_aborts_a_request_of_another(fleet: WebFleet, ask, profile) -> None:
    """The tabs have a device each, of which the page knows nothing: only what is stored tells the one of the other."""
    handle = ask()
    other, tab = opened(profile, fleet.page), opened(profile, fleet.page)
    for each in (other, tab):
        each.evaluate(DEVICE)
    waiting = profile.hold(2)  # the first visit asks, the second hands in
    tab.evaluate("() => { device.visit().catch((error) => { globalThis.ended = error.code; }); }")
    until(tab, waiting.is_set)
    other.evaluate("() => device.consent(false)")
    assert wait_for(tab, "() => globalThis.ended") == "conflict"
    profile.let_go()
    rest(tab, 0.5)  # the report would have come
    assert completed(handle) == 0
    (state,) = states(tab)
    assert (state["token"], state["records"], state["log"]) == (None, [], [])


def test_two_tabs_are_one_device(fleet: WebFleet, ask, profile) -> None:
    before = fleet.enrolled()
    first = switched_on(profile, fleet)
    second = opened(profile, fleet.page)
    wait_for(second, "() => document.querySelector('#consent').checked")
    handles = [ask() for _ in range(3)]
    for tab in (first, second):
        tab.show()
        wait_for(tab, "() => document.querySelectorAll('.badge-taken').length === 3")
    assert [completed(handle, 1) for handle in handles] == [1, 1, 1]
    assert fleet.enrolled() == before + 1
    # Together they visit about as often as one.
    start = visits(profile)
    rest(second, 3)
    assert visits(profile) - start <= 5
    second.close()


def test_a_tab_that_ends_between_storing_and_sending(fleet: WebFleet, ask, profile) -> None:
    """The same bytes are sent when it is opened again: nothing is lost, nothing comes twice."""
    handle = ask()
    tab = opened(profile, fleet.page)
    waiting = profile.hold(2)  # the first visit asks, the second hands in
    tab.evaluate(SWITCH)
    until(tab, waiting.is_set)
    (state,) = states(tab)
    assert [record["status"] for _, record in state["records"]] == ["sealed"]
    tab.close()
    profile.let_go()
    assert completed(handle) in (0, 1)  # a request that is held may be let go as its page ends
    again = opened(profile, fleet.page)
    wait_for(again, ANSWERED)
    assert completed(handle, 1) == 1
    (after,) = states(again)
    assert (after["token"], [record["status"] for _, record in after["records"]]) == (state["token"], ["taken"])
