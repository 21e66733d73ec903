"""Two browsers behind one small interface: `chromium.py` drives Chromium, `firefox.py` drives Firefox."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from playwright.sync_api import Error

BrowserError = Error
"""A browser did not do what it was told, as its page has ended. `firefox.py` raises Playwright's error too."""

SECONDS = 60.0
"""What may take a while on a busy machine; what never comes fails all the same."""

WATCH = """
globalThis.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  globalThis.violations.push(`${event.effectiveDirective}: ${event.blockedURI}`));
"""
STATES = """async () => {
  if (!(await indexedDB.databases()).some(({ name }) => name === "thresher-device")) return null;
  const done = (request) => new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  const database = await done(indexedDB.open("thresher-device"));
  const states = await done(database.transaction("states").objectStore("states").getAll());
  database.close();
  return states.map((text) => JSON.parse(text));
}"""


class Tab(Protocol):
    """An open page."""

    def goto(self, url: str) -> None: ...
    def begin(self, url: str) -> None:
        """Go to a page without waiting for its files."""

    def evaluate(self, function: str) -> Any:
        """What a JavaScript function without arguments returns, as JSON."""

    def show(self) -> None:
        """Put it in front; Firefox hides the other tabs of its window."""

    def fill(self) -> None:
        """Leave the page's origin no space to store anything."""

    def crash(self) -> None:
        """End the process that runs the page, as a lack of memory does; Firefox loses those of other pages too."""

    def close(self) -> None: ...


class Profile(Protocol):
    """A browser's profile: its own storage. `requests` are all that its pages sent, as (method, address)."""

    requests: list[tuple[str, str]]

    def preload(self, script: str) -> None:
        """Run a script in each new page before the page's own."""

    def tab(self) -> Tab: ...
    def hold(self, number: int) -> threading.Event:
        """Keep the visit of this number (1 is the next) from being sent; the event is set when it waits."""

    def let_go(self) -> None:
        """Hold nothing any more; what waits is lost."""

    def offline(self, is_offline: bool) -> None: ...
    def close(self) -> None: ...


def wait_for(tab: Tab, function: str, seconds: float = SECONDS) -> Any:
    """The first true value that a JavaScript function returns."""
    end = time.monotonic() + seconds
    while not (found := tab.evaluate(function)):
        assert time.monotonic() < end, f"never true: {function}; the page says {text(tab, 'main')}"
        time.sleep(0.05)
    return found


def until(tab: Tab, condition: Callable[[], object]) -> None:
    """Wait for something that the browser's driver notes. Playwright notes things only while it is asked something."""
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end
        tab.evaluate("() => true")
        time.sleep(0.02)


def rest(tab: Tab, seconds: float) -> None:
    """Let time pass in which something could happen; afterwards the browser's driver has noted it."""
    time.sleep(seconds)
    tab.evaluate("() => true")


def text(tab: Tab, selector: str) -> str:
    return str(tab.evaluate(f"() => document.querySelector({json.dumps(selector)}).innerText"))


def states(tab: Tab) -> list[dict[str, Any]] | None:
    """What the origin's devices keep; None where there is no database."""
    found: list[dict[str, Any]] | None = tab.evaluate(STATES)
    return found


def violations(tab: Tab) -> list[str]:
    found: list[str] = tab.evaluate("() => globalThis.violations")
    return found


def visits(profile: Profile, method: str = "POST") -> int:
    return sum(1 for each, url in profile.requests if each == method and url.endswith("/v2/visit"))
