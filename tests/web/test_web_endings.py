"""What can happen to a page: it is closed at any instant, crashes, is frozen or offline, or may keep nothing."""

from __future__ import annotations

import contextlib
import time

import pytest
from axe_playwright_python.sync_playwright import Axe
from browsers import BrowserError, rest, states, text, until, visits, wait_for
from chromium import ARGUMENTS, CHROMIUM, ChromiumProfile, chromium_profile
from page_steps import ANSWERED, READY, SWITCH, opened, switched_on
from web_fleet import WebFleet, completed

pytestmark = pytest.mark.slow  # browsers take their time

REFUSED = """Object.defineProperty(globalThis, "indexedDB", { value: { open() {
  const request = { error: new DOMException("refused", "SecurityError") };
  setTimeout(() => request.onerror());
  return request;
} } });"""


def reopened(profile, url):
    """A new page; the browser may have prepared a process for it, which was killed too."""
    for _ in range(20):
        with contextlib.suppress(BrowserError):
            return opened(profile, url)
        time.sleep(0.2)
    raise AssertionError("the browser opens no page any more")


@pytest.mark.parametrize("ending", ["close", "crash", "answer lost"])
def test_the_same_bytes_are_sent_again(fleet: WebFleet, ask, profile, ending) -> None:
    """The report that was on its way when the page ended, and that of the next page, are the same to the last byte."""
    handle = ask()
    with fleet.relay() as (relay, page):
        relay.lost = "answer" if ending == "answer lost" else "request"
        tab = opened(profile, page)
        tab.evaluate(SWITCH)
        until(tab, lambda: relay.handed)
        (state,) = states(tab)
        relay.lost = ""
        if ending == "crash":
            tab.crash()
        tab.close()
        before = int(ending == "answer lost")
        assert completed(handle, before) == before
        again = reopened(profile, page)
        wait_for(again, ANSWERED)
        again.close()
    first, second = relay.handed
    assert first == second
    assert [{"round": name, "sealed": record["sealed"]} for name, record in state["records"]] == first
    assert completed(handle, 1) == 1
    # It is what the page holds, sealed for the aggregator under the very configuration that it was shown.
    assert fleet.opened(relay.rounds[0], first[0]["sealed"]) == ["fr"]


def test_a_page_that_is_closed_at_any_instant(fleet: WebFleet, ask, profile) -> None:
    """Each page is closed a little later in its life than the one before; in the end every round has one report."""
    handles = [ask(), ask()]
    switched_on(profile, fleet).close()
    for instant in range(6):
        tab = profile.tab()
        with contextlib.suppress(BrowserError):
            tab.begin(fleet.page)
            time.sleep(0.08 * instant)
        tab.close()
    tab = opened(profile, fleet.page)
    if not tab.evaluate("() => document.querySelector('#consent').checked"):
        tab.evaluate(SWITCH)  # the first page was closed before it had noted the choice
    wait_for(tab, "() => document.querySelectorAll('.badge-taken').length === 2")
    assert [completed(handle, 1) for handle in handles] == [1, 1]


def test_a_frozen_page_goes_on_when_it_is_thawed(fleet: WebFleet, ask, window) -> None:
    tab = switched_on(window, fleet)
    wait_for(tab, "async () => (await indexedDB.databases()).length")
    until(tab, lambda: visits(window))
    control = window.context.new_cdp_session(tab.page)
    control.send("Page.setWebLifecycleState", {"state": "frozen"})
    handle = ask()
    control.send("Page.setWebLifecycleState", {"state": "active"})
    wait_for(tab, ANSWERED)
    assert completed(handle, 1) == 1


def test_offline_and_back(fleet: WebFleet, ask, profile) -> None:
    """While it is offline the page says so, tries ever more seldom, and answers once it is online again."""
    handle = ask()
    tab = opened(profile, fleet.page)
    profile.offline(True)
    first = len(profile.requests)
    tab.evaluate(SWITCH)
    wait_for(tab, "() => !document.querySelector('#problem').hidden")
    assert "cannot be reached" in text(tab, "#problem")
    assert 1 <= len(profile.requests) - first <= 12  # in 5 seconds six attempts at most, each with a preflight
    profile.offline(False)
    wait_for(tab, ANSWERED)
    wait_for(tab, "() => document.querySelector('#problem').hidden")
    assert completed(handle, 1) == 1


def test_a_profile_on_disk_is_the_same_device_after_the_browser_was_closed(
    fleet: WebFleet, ask, playwright, tmp_path
) -> None:
    before, tokens = fleet.enrolled(), []
    for number in (1, 2):
        handle = ask()
        context = playwright.chromium.launch_persistent_context(
            str(tmp_path / "profile"), executable_path=CHROMIUM, args=ARGUMENTS
        )
        profile = ChromiumProfile(context)
        tab = opened(profile, fleet.page)
        if number == 1:
            tab.evaluate("() => { document.querySelector('#holds-country').value = 'de'; }")
            tab.evaluate(SWITCH)
        wait_for(tab, f"() => document.querySelectorAll('.badge-taken').length === {number}")
        (state,) = states(tab)
        tokens.append(state["token"])
        assert tab.evaluate("() => document.querySelector('#holds-country').value") == "de"
        assert completed(handle, 1) == 1
        profile.close()
    assert tokens[0] == tokens[1]
    assert fleet.enrolled() == before + 1


@pytest.mark.parametrize("refusal", ["no database", "full", "no choices kept"])
def test_what_cannot_be_kept_is_not_sent(fleet: WebFleet, ask, profile, refusal) -> None:
    handle, before = ask(), fleet.enrolled()
    if refusal == "no database":
        profile.preload(REFUSED)
    elif refusal == "no choices kept":
        profile.preload("Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError'); };")
    tab = opened(profile, fleet.page)
    if refusal == "full":
        tab.fill()
    tab.evaluate(SWITCH)
    wait_for(tab, "() => !document.querySelector('#problem').hidden")
    if refusal == "no choices kept":
        assert "full" in text(tab, "#problem")
        assert not tab.evaluate("() => document.querySelector('#consent').checked")
    else:
        assert "does not keep the device's state. Nothing was sent." in text(tab, "#problem")
    rest(tab, 1)  # a request would have come
    assert not [url for _, url in profile.requests if url.startswith(fleet.server.url)]
    assert (completed(handle), fleet.enrolled()) == (0, before)


def test_off_during_a_request(fleet: WebFleet, ask, profile) -> None:
    """The person switches off while a report is on its way: that was the last request."""
    ask()
    waiting = profile.hold(2)
    tab = switched_on(profile, fleet)
    until(tab, waiting.is_set)
    tab.evaluate(SWITCH)
    wait_for(tab, READY)
    before = len(profile.requests)
    profile.let_go()
    rest(tab, 1.5)  # a visit would have come
    (state,) = states(tab)
    assert (state["token"], state["records"], state["log"]) == (None, [], [])
    assert len(profile.requests) == before


@pytest.mark.parametrize("dark", [False, True])
def test_anybody_can_use_the_page(fleet: WebFleet, ask, chromium, dark) -> None:
    """By keyboard alone, with a screen reader, in light and dark, on a phone: axe finds nothing serious."""
    ask()
    scheme = "dark" if dark else "light"
    profile = chromium_profile(chromium, color_scheme=scheme, viewport={"width": 390, "height": 844})
    tab = opened(profile, fleet.page)
    tab.page.keyboard.press("Tab")
    assert tab.page.evaluate("() => document.activeElement.className") == "skip"
    tab.page.keyboard.press("Tab")
    tab.page.keyboard.press("Space")
    wait_for(tab, ANSWERED)
    assert tab.page.get_by_role("switch", name="Take part").is_checked()
    assert tab.evaluate("() => document.activeElement.id") == "consent"
    found = Axe().run(tab.page).response["violations"]
    assert [each["id"] for each in found if each["impact"] in ("serious", "critical")] == []
    assert tab.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    assert profile.said == []
    profile.close()
