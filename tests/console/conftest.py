"""A real Chromium, servers with the console in them, and eyes on every page: errors, other hosts, accessibility."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from console_server import ConsoleServer, console_server, people
from playwright.sync_api import Browser, Page, expect, sync_playwright

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
expect.set_options(timeout=30_000)  # of what may take a while on a busy machine; what never comes fails all the same
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium a module; each visitor has a fresh profile.

    Not one for all: while Playwright is open it runs an event loop, and tests elsewhere run loops of their own.
    """
    if not Path(CHROMIUM).exists():
        pytest.fail("Chromium is missing; scripts/setup-machine installs it")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory) -> Iterator[ConsoleServer]:
    """A fleet of six thousand with a large budget, shared by tests that do not empty it."""
    with console_server(tmp_path_factory.mktemp("shared"), people(), epsilon=100.0, delta=1e-3) as running:
        yield running


@pytest.fixture
def start(tmp_path) -> Iterator[Any]:
    """Start further servers: `start(rows, epsilon=1.0)`."""
    with contextlib.ExitStack() as stack:

        def started(rows: list[dict[str, Any]], **settings: Any) -> ConsoleServer:
            directory = tmp_path / f"server-{len(list(tmp_path.iterdir()))}"
            directory.mkdir()
            return stack.enter_context(console_server(directory, rows, **settings))

        yield started


@dataclass
class Visitor:
    """A person at a browser; notes whatever a page does that it must not."""

    page: Page
    url: str
    wrong: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)
    allowed: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.page.on("console", lambda message: self._said(message.type, message.text))
        self.page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))
        self.page.on("response", lambda response: self._answered(response.status, response.url))

    def _said(self, kind: str, text: str) -> None:
        expected = any(f"status of {status}" in text for status in self.allowed)
        if kind in ("error", "warning") and not expected:
            self.wrong.append(f"{kind}: {text}")

    def _answered(self, status: int, url: str) -> None:
        if status >= 400 and status not in self.allowed:
            self.wrong.append(f"{status}: {url}")

    def check(self) -> None:
        """No error, no warning, no other host."""
        assert self.wrong == []
        assert self.hosts <= {urlsplit(self.url).netloc}

    def go(self, path: str) -> Page:
        self.page.goto(self.url + path)
        return self.page

    def sign_in(self, token: str) -> Page:
        self.go("/login")
        self.page.fill("#token", token)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.wait_for_url(self.url + "/")
        return self.page

    def ask(self, verb: str, attribute: str, **settings: str) -> Page:
        """Fill in the form and confirm; texts starting with = choose, others fill."""
        self.go("/ask")
        self.fill_ask(verb, attribute, **settings)
        unlikely = self.page.locator("#against").count() > 0
        if unlikely:  # it is asked once more, on a page that says that nothing was spent
            self.allowed.add(409)
        self.page.locator("#plan button.primary").click()
        self.page.get_by_role("button", name="Ask and spend").click()
        if unlikely:
            expect(self.page.locator("#refused")).to_contain_text("nothing was spent")
            self.page.get_by_role("button", name="Ask anyway").click()
            self.page.get_by_role("button", name="Ask and spend").click()
        return self.page

    def fill_ask(self, verb: str, attribute: str, **settings: str) -> None:
        with self.page.expect_response(lambda response: "/ask/plan" in response.url):
            self.page.check(f'input[name="verb"][value="{verb}"]')
            self.page.fill("#attribute", attribute)
            for name, value in settings.items():
                if value.startswith("="):
                    self.page.check(f'input[name="{name}"][value="{value[1:]}"]')
                else:
                    self.page.fill(f"#{name}", value)
        expect(self.page.locator("#plan")).to_have_attribute("aria-busy", "false")

    def read(self, seconds: float = 60) -> Page:
        """From the page of a query to its answer; who came after its end is there already."""
        if not urlsplit(self.page.url).path.endswith("/answer"):
            self.page.get_by_role("link", name="Read the answer").click(timeout=1000 * seconds)
        self.page.wait_for_url("**/answer")
        return self.page

    def violations(self) -> list[str]:
        """What axe finds to be serious or critical on the page as it is."""
        found = Axe().run(self.page).response["violations"]
        return [
            f"{each['id']}: {each['nodes'][0]['html'][:200]}"
            for each in found
            if each["impact"] in ("serious", "critical")
        ]


@pytest.fixture
def visit(browser, start) -> Iterator[Any]:
    """Open a browser window at a server: `visit(server, dark=True, phone=True)`; checked when the test ends.

    It needs `start` so that windows are closed before the servers are: a live page notes a server that goes away.
    """
    visitors: list[Visitor] = []

    def visitor(server: Any, *, dark: bool = False, phone: bool = False, scripts: bool = True) -> Visitor:
        context = browser.new_context(
            viewport={"width": 390, "height": 844} if phone else {"width": 1280, "height": 900},
            color_scheme="dark" if dark else "light",
            java_script_enabled=scripts,
            accept_downloads=True,
        )
        visitors.append(Visitor(context.new_page(), server.url))
        return visitors[-1]

    yield visitor
    for each in visitors:
        each.page.context.close()
        each.check()
