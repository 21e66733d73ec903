"""Firefox, driven by WebDriver BiDi.

Playwright drives only a Firefox of its own, which no package archive has. Debian's own Firefox speaks WebDriver BiDi,
JSON over a WebSocket, and what these tests need of it is a page of code.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from browsers import SECONDS, WATCH, BrowserError
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

FIREFOX = os.environ.get("FIREFOX", "/usr/bin/firefox-esr")

_PREFERENCES = {
    "app.normandy.enabled": False,
    "app.update.auto": False,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "dom.quotaManager.temporaryStorage.fixedLimit": 50 * 1024,  # in kB; an origin gets a fifth, which is soon filled
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "services.settings.server": "data:,#",
    "toolkit.telemetry.server": "",
}
# Firefox compresses what is stored, but random bytes stay as long as they are.
_FILL = """async () => {
  const put = (bytes) => new Promise((resolve) => {
    const open = indexedDB.open("filler");
    open.onupgradeneeded = () => open.result.createObjectStore("pieces", { autoIncrement: true });
    open.onsuccess = () => {
      const transaction = open.result.transaction("pieces", "readwrite");
      transaction.objectStore("pieces").put(bytes);
      transaction.oncomplete = () => resolve(true);
      transaction.onabort = () => resolve(false);
      open.result.close();
    };
  });
  for (let size = 1 << 20; size >= 1 << 10; size /= 4) {
    const bytes = new Uint8Array(size);
    for (let at = 0; at < size; at += 1 << 16) crypto.getRandomValues(bytes.subarray(at, at + (1 << 16)));
    while (await put(bytes));
  }
}"""


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
        if answer["type"] != "success":
            raise BrowserError(json.dumps(answer))
        return answer["result"]

    def kill_pages(self) -> None:
        """End the processes that run pages. They are found among those that this Firefox has started."""
        pages = [process for process in _descendants(self._process.pid) if _runs_pages(process)]
        for process in pages:
            with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                os.kill(process, signal.SIGKILL)
        while any(map(_runs_pages, pages)):
            time.sleep(0.01)

    def close(self) -> None:
        self._open.close()
        self._process.kill()
        self._process.wait(30)
        if self._process.stderr is not None:
            self._process.stderr.close()


def _descendants(process: int) -> Iterator[int]:
    for thread in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has ended
            for child in map(int, thread.read_text().split()):
                yield child
                yield from _descendants(child)


def _runs_pages(process: int) -> bool:
    """Whether a process of Firefox runs pages; one that has ended does not."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes().rstrip(b"\0").endswith(b"\0tab")
    return False


class FirefoxTab:
    def __init__(self, firefox: Firefox, context: str) -> None:
        self._firefox = firefox
        self.context = context

    def goto(self, url: str) -> None:
        self._firefox.ask("browsingContext.navigate", context=self.context, url=url, wait="complete")

    def begin(self, url: str) -> None:
        self._firefox.ask("browsingContext.navigate", context=self.context, url=url, wait="none")

    def evaluate(self, function: str) -> Any:
        result = self._firefox.ask(
            "script.evaluate",
            expression=f"(async () => JSON.stringify((await ({function})()) ?? null))()",
            target={"context": self.context},
            awaitPromise=True,
        )
        if result["type"] != "success":
            raise BrowserError(result["exceptionDetails"]["text"])
        return json.loads(result["result"]["value"])

    def show(self) -> None:
        self._firefox.ask("browsingContext.activate", context=self.context)

    def fill(self) -> None:
        self.evaluate(_FILL)

    def crash(self) -> None:
        self._firefox.kill_pages()

    def close(self) -> None:
        self._firefox.ask("browsingContext.close", context=self.context)


class FirefoxProfile:
    """What Firefox calls a container: storage of its own."""

    def __init__(self, firefox: Firefox) -> None:
        self._firefox = firefox
        self._user = firefox.ask("browser.createUserContext")["userContext"]
        self._scripts: list[str] = []
        self._tabs: list[FirefoxTab] = []
        self._intercept: str | None = None
        self._holding: tuple[int, Iterator[int], threading.Event] | None = None
        self.requests: list[tuple[str, str]] = []
        firefox.listeners.append(self._heard)
        self.preload(WATCH)

    def preload(self, script: str) -> None:
        function = f"() => {{ {script} }}"
        made = self._firefox.ask("script.addPreloadScript", functionDeclaration=function, userContexts=[self._user])
        self._scripts.append(made["script"])

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

    def offline(self, is_offline: bool) -> None:
        conditions = {"type": "offline"} if is_offline else None
        self._firefox.ask("emulation.setNetworkConditions", networkConditions=conditions, userContexts=[self._user])

    def close(self) -> None:
        self.let_go()
        self._firefox.listeners.remove(self._heard)
        for script in self._scripts:
            self._firefox.ask("script.removePreloadScript", script=script)
        self._firefox.ask("browser.removeUserContext", userContext=self._user)
