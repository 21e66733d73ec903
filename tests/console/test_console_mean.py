"""A mean in the console: asked in the form, read on the page."""

from __future__ import annotations

import os

import pytest
from playwright.sync_api import expect


@pytest.mark.slow
def test_ask_for_a_mean_and_read_it(visit, server):
    visitor = visit(server)
    visitor.sign_in(server.analyst)
    page = visitor.ask("mean", "latency_ms", mean_lower="0", mean_upper="500", mean_points="0, 50, 100, 200, 500")
    visitor.read()
    table = page.locator("#table")
    expect(table).to_contain_text("Mean")
    expect(table).to_contain_text("Sum")
    expect(page.locator(".bars")).to_contain_text("200")
    if folder := os.environ.get("SCREENSHOTS"):
        page.screenshot(path=f"{folder}/mean.png", full_page=True)
    assert visitor.violations() == []
    visitor.check()
