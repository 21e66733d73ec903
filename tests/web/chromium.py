"""Chromium, driven by Playwright."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from typing import Any

from browsers import SECONDS, WATCH, BrowserError
from playwright.sync_api import Browser, BrowserContext, Page, Request, Route

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


class ChromiumTab:
    def __init__(self, page: Page) -> None:
        self.page = page
        page.set_default_timeout(SECONDS * 1000)

    def goto(self, url: str) -> None:
        self.page.goto(url)

    def begin(self, url: str) -> None:
        self.page.goto(url, wait_until="commit")

    def evaluate(self, function: str) -> Any:
        return self.page.evaluate(function)

    def show(self) -> None:
        self.page.bring_to_front()

    def fill(self) -> None:
        quota = {"origin": self.page.evaluate("() => origin"), "quotaSize": 1}
        self.page.context.new_cdp_session(self.page).send("Storage.overrideQuotaForOrigin", quota)

    def crash(self) -> None:
        # Not by ending all renderers: the browser may have prepared one for the next page, which would never open.
        with self.page.expect_event("crash"), contextlib.suppress(BrowserError):
            self.page.goto("chrome://crash")

    def close(self) -> None:
        self.page.close()


class ChromiumProfile:
    """A context of Playwright's, which is what Chromium calls a private window."""

    def __init__(self, context: BrowserContext) -> None:
        self.context = context
        self.requests: list[tuple[str, str]] = []
        self.said: list[str] = []
        self.preload(WATCH)
        context.on("request", lambda request: self.requests.append((request.method, request.url)))
        context.on("console", lambda message: self._heard(message.type, message.text))

    def _heard(self, kind: str, words: str) -> None:
        if kind == "error":
            self.said.append(words)

    def preload(self, script: str) -> None:
        self.context.add_init_script(script)

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

    def offline(self, is_offline: bool) -> None:
        self.context.set_offline(is_offline)

    def close(self) -> None:
        self.context.close()


def chromium_profile(browser: Browser, **settings: Any) -> ChromiumProfile:
    return ChromiumProfile(browser.new_context(**settings))
