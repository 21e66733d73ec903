"""Two browsers behind one small interface: Chromium by Playwright, Firefox by WebDriver BiDi.

Playwright drives only a Firefox of its own, which no package archive has. Debian's own Firefox speaks WebDriver BiDi,
JSON over a WebSocket, and what these tests need of it is a page of code.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from playwright.sync_api import Browser, BrowserContext, Page, Request, Route
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
FIREFOX = os.environ.get("FIREFOX", "/usr/bin/firefox-esr")
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
    def evaluate(self, function: str) -> Any:
        """What a JavaScript function without arguments returns, as JSON."""

    def show(self) -> None:
        """Put it in front; Firefox hides the other tabs of its window."""

    def close(self) -> None: ...


class Profile(Protocol):
    """A browser's profile: its own storage. `requests` are all that its pages sent, as (method, address)."""

    requests: list[tuple[str, str]]

    def tab(self) -> Tab: ...
    def hold(self, number: int) -> threading.Event:
        """Keep the visit of this number (1 is the next) from being sent; the event is set when it waits."""

    def let_go(self) -> None:
        """Hold nothing any more; what waits is lost."""

    def close(self) -> None: ...


def wait_for(tab: Tab, function: str, seconds: float = SECONDS) -> Any:
    """The first true value that a JavaScript function returns."""
    end = time.monotonic() + seconds
    while not (found := tab.evaluate(function)):
        assert time.monotonic() < end, f"never true: {function}; the page says {text(tab, 'main')}"
        time.sleep(0.05)
    return found


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


# Chromium


class ChromiumTab:
    def __init__(self, page: Page) -> None:
        self.page = page
        page.set_default_timeout(SECONDS * 1000)

    def goto(self, url: str) -> None:
        self.page.goto(url)

    def evaluate(self, function: str) -> Any:
        return self.page.evaluate(function)

    def show(self) -> None:
        self.page.bring_to_front()

    def close(self) -> None:
        self.page.close()


class ChromiumProfile:
    """A context of Playwright's, which is what Chromium calls a private window."""

    def __init__(self, context: BrowserContext) -> None:
        self.context = context
        self.requests: list[tuple[str, str]] = []
        self.said: list[str] = []
        context.add_init_script(WATCH)
        context.on("request", lambda request: self.requests.append((request.method, request.url)))
        context.on("console", lambda message: self._heard(message.type, message.text))

    def _heard(self, kind: str, words: str) -> None:
        if kind == "error":
            self.said.append(words)

    def tab(self) -> ChromiumTab:
        return ChromiumTab(self.context.new_page())

    def hold(self, number: int) -> threading.Event:
        waiting, left = threading.Event(), itertools.count(1)

        def handle(route: Route, request: Request) -> None:
            if next(left) == number:
                waiting.set()
            else:
                route.continue_()

        self.context.route("**/v2/visit", handle)
        return waiting

    def let_go(self) -> None:
        self.context.unroute("**/v2/visit")

    def close(self) -> None:
        self.context.close()


def chromium_profile(browser: Browser, **settings: Any) -> ChromiumProfile:
    return ChromiumProfile(browser.new_context(**settings))


# Firefox

_PREFERENCES = {
    "app.normandy.enabled": False,
    "app.update.auto": False,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "services.settings.server": "data:,#",
    "toolkit.telemetry.server": "",
}


class Firefox:
    """One Firefox process and the connection that drives it."""

    def __init__(self, directory: Path) -> None:
        profile = directory / "profile"
        profile.mkdir()
        lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in _PREFERENCES.items()]
        (profile / "user.js").write_text("\n".join(lines))
        command = [FIREFOX, "--headless", "--no-remote", "--profile", str(profile), "--remote-debugging-port", "0"]
        self._process = subprocess.Popen(
            [*command, "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "HOME": str(directory), "MOZ_REMOTE_ALLOW_SYSTEM_ACCESS": ""},
        )
        self._numbers = itertools.count(1)
        self._answers: dict[int, Any] = {}
        self._answered = threading.Condition()
        self.listeners: list[Callable[[str, dict[str, Any]], None]] = []
        self._connection: ClientConnection | None = None
        self._open = contextlib.ExitStack()
        try:
            opening = connect(f"{self._address()}/session", max_size=None, proxy=None)
            self._connection = self._open.enter_context(opening)
            threading.Thread(target=self._listen, daemon=True).start()
            self.ask("session.new", capabilities={})
            self.ask("session.subscribe", events=["network.beforeRequestSent"])
        except BaseException:
            self.close()
            raise

    def _address(self) -> str:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if found := re.search(r"WebDriver BiDi listening on (ws://\S+)", line):
                threading.Thread(target=self._process.stderr.read, daemon=True).start()  # so that it never waits
                return found[1]
        raise AssertionError("Firefox ended before it could be driven")

    def _listen(self) -> None:
        assert self._connection is not None
        with contextlib.suppress(ConnectionClosed):
            for message in self._connection:
                read = json.loads(message)
                if read["type"] == "event":
                    for listener in list(self.listeners):
                        listener(read["method"], read["params"])
                else:
                    with self._answered:
                        self._answers[read["id"]] = read
                        self._answered.notify_all()

    def tell(self, method: str, **parameters: Any) -> int:
        """Send a command without waiting for its answer."""
        assert self._connection is not None
        number = next(self._numbers)
        self._connection.send(json.dumps({"id": number, "method": method, "params": parameters}))
        return number

    def ask(self, method: str, **parameters: Any) -> Any:
        number = self.tell(method, **parameters)
        with self._answered:
            assert self._answered.wait_for(lambda: number in self._answers, SECONDS), f"no answer to {method}"
            answer = self._answers.pop(number)
        assert answer["type"] == "success", answer
        return answer["result"]

    def close(self) -> None:
        self._open.close()
        self._process.kill()
        self._process.wait(30)
        if self._process.stderr is not None:
            self._process.stderr.close()


class FirefoxTab:
    def __init__(self, firefox: Firefox, context: str) -> None:
        self._firefox = firefox
        self.context = context

    def goto(self, url: str) -> None:
        self._firefox.ask("browsingContext.navigate", context=self.context, url=url, wait="complete")

    def evaluate(self, function: str) -> Any:
        result = self._firefox.ask(
            "script.evaluate",
            expression=f"(async () => JSON.stringify((await ({function})()) ?? null))()",
            target={"context": self.context},
            awaitPromise=True,
        )
        assert result["type"] == "success", result["exceptionDetails"]["text"]
        return json.loads(result["result"]["value"])

    def show(self) -> None:
        self._firefox.ask("browsingContext.activate", context=self.context)

    def close(self) -> None:
        self._firefox.ask("browsingContext.close", context=self.context)


class FirefoxProfile:
    """What Firefox calls a container: storage of its own."""

    def __init__(self, firefox: Firefox) -> None:
        self._firefox = firefox
        self._user = firefox.ask("browser.createUserContext")["userContext"]
        self._script = firefox.ask("script.addPreloadScript", functionDeclaration=f"() => {{ {WATCH} }}")["script"]
        self._tabs: list[FirefoxTab] = []
        self._intercept: str | None = None
        self._holding: tuple[int, Iterator[int], threading.Event] | None = None
        self.requests: list[tuple[str, str]] = []
        firefox.listeners.append(self._heard)

    def _heard(self, method: str, event: dict[str, Any]) -> None:
        if event.get("context") not in {tab.context for tab in self._tabs}:
            return
        request = event["request"]
        self.requests.append((request["method"], request["url"]))
        if not event["isBlocked"]:
            return
        if self._holding is not None and request["method"] == "POST":
            number, left, waiting = self._holding
            if next(left) == number:
                waiting.set()
                return
        self._firefox.tell("network.continueRequest", request=request["request"])

    def tab(self) -> FirefoxTab:
        context = self._firefox.ask("browsingContext.create", type="tab", userContext=self._user)["context"]
        self._tabs.append(FirefoxTab(self._firefox, context))
        return self._tabs[-1]

    def hold(self, number: int) -> threading.Event:
        waiting = threading.Event()
        self._holding = (number, itertools.count(1), waiting)
        pattern = {"type": "pattern", "pathname": "/v2/visit"}
        made = self._firefox.ask("network.addIntercept", phases=["beforeRequestSent"], urlPatterns=[pattern])
        self._intercept = made["intercept"]
        return waiting

    def let_go(self) -> None:
        self._holding = None
        if self._intercept is not None:
            self._firefox.ask("network.removeIntercept", intercept=self._intercept)
            self._intercept = None

    def close(self) -> None:
        self.let_go()
        self._firefox.listeners.remove(self._heard)
        self._firefox.ask("script.removePreloadScript", script=self._script)
        self._firefox.ask("browser.removeUserContext", userContext=self._user)
