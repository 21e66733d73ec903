"""A real Chromium and a real Firefox, a real server, and a page on another origin."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsers import Profile
from chromium import ARGUMENTS, CHROMIUM, ChromiumProfile, chromium_profile
from firefox import FIREFOX, Firefox, FirefoxProfile
from playwright.sync_api import Browser, Playwright, sync_playwright
from web_fleet import WebFleet, web_fleet


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    """Open for one file's tests only: while it is, it runs an event loop, and tests elsewhere run their own."""
    if not Path(CHROMIUM).exists():
        pytest.fail("Chromium is missing; scripts/setup-machine installs it")
    with sync_playwright() as driver:
        yield driver


@pytest.fixture(scope="module")
def chromium(playwright: Playwright) -> Iterator[Browser]:
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def firefox(tmp_path_factory: Any) -> Iterator[Firefox]:
    if not Path(FIREFOX).exists():
        pytest.fail("Firefox is missing; scripts/setup-machine installs it")
    browser = Firefox(tmp_path_factory.mktemp("firefox"))
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: Any) -> Iterator[WebFleet]:
    with web_fleet(tmp_path_factory.mktemp("web")) as running:
        yield running


@pytest.fixture
def ask(fleet: WebFleet) -> Iterator[Any]:
    """Open rounds, which end with the test."""
    handles = []

    def asked(*arguments: Any, **settings: Any) -> Any:
        handles.append(fleet.ask(*arguments, **settings))
        return handles[-1]

    yield asked
    for handle in handles:
        handle.cancel()


@pytest.fixture(params=["chromium", "firefox"])
def profile(request: pytest.FixtureRequest) -> Iterator[Profile]:
    """A new profile of each browser."""
    browser = request.getfixturevalue(request.param)
    opened: Profile = FirefoxProfile(browser) if isinstance(browser, Firefox) else chromium_profile(browser)
    yield opened
    opened.close()


@pytest.fixture
def window(chromium: Browser) -> Iterator[ChromiumProfile]:
    """A new profile of Chromium, for what only its driver can do."""
    opened = chromium_profile(chromium)
    yield opened
    opened.close()
