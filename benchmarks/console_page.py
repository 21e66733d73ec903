"""How long the console's first page takes in a real Chromium on the same machine, once with nothing in its cache."""

from __future__ import annotations

import os
import statistics
import time

from playwright.sync_api import Browser, sync_playwright

from measurement import Measurement
from thresher.simulator.local_server import LocalServer, local_server

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
_TIMES = 7


def load_seconds(browser: Browser, server: LocalServer, *, cached: bool) -> float:
    """From asking for the page until all of it is loaded, for an analyst who has signed in."""
    with browser.new_context(base_url=server.url) as context:
        page = context.new_page()
        page.goto("/login")
        page.fill("#token", server.analyst_key)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(f"{server.url}/")
        if not cached:
            context.new_cdp_session(page).send("Network.clearBrowserCache")
        start = time.perf_counter()
        page.goto("/")
        return time.perf_counter() - start


def measure() -> list[Measurement]:
    rows = []
    with local_server() as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        for name, cached in (("first page, nothing cached", False), ("first page, seen before", True)):
            taken = [load_seconds(browser, server, cached=cached) for _ in range(_TIMES)]
            note = f"median of {_TIMES}, the slowest {max(taken):.2f} s"
            rows.append(Measurement(name=name, value=statistics.median(taken), unit="s", target=1.0, note=note))
        browser.close()
    return rows
