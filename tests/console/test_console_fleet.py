"""From a device to the page: a real server process, simulated devices over HTTP, a real browser."""

from __future__ import annotations

import threading

import pytest
from playwright.sync_api import expect

from thresher.simulator.local_server import local_server
from thresher.simulator.simulation import keep_checking_in

DEVICES = 1500


@pytest.mark.slow
def test_ask_watch_read_with_devices(visit):
    with local_server("--come-back", "0.5", "--round-seconds", "600") as server:
        stop = threading.Event()
        devices = threading.Thread(
            target=keep_checking_in, args=(server.url, server.enrolment_key, DEVICES, stop), daemon=True
        )
        devices.start()
        try:
            visitor = visit(server)
            page = visitor.sign_in(server.analyst_key)
            expect(page.locator("main")).to_contain_text(f"{DEVICES:,}", timeout=180_000)
            visitor.go("/ask")
            page.get_by_text("How rounds are run").click()
            visitor.fill_ask("histogram", "country", completions=str(int(0.9 * DEVICES)))
            page.locator("#plan button.primary").click()
            page.get_by_role("button", name="Ask and spend").click()
            visitor.read(180)
            expect(page.locator("#table")).to_contain_text("de")
            page.get_by_role("button", name="Verify").click()
            expect(page.locator("#verified")).to_contain_text("It holds.")
            assert visitor.violations() == []
        finally:
            stop.set()
            devices.join(30)
