"""How long a query takes, which rounds are open at the same time, and closing them now, on the pages."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from console_client import client, sign_in
from console_server import people
from playwright.sync_api import expect

import thresher as th
from thresher.errors import ServerUnavailable
from thresher.protocol.analyst_messages import QueryRequest
from thresher.verbs import RangesQuery

pytestmark = pytest.mark.slow  # browsers take their time

PICTURES = os.environ.get("PICTURES")


def picture(page, name: str) -> None:
    if PICTURES:
        page.screenshot(path=Path(PICTURES) / f"{name}.png", full_page=True)


def test_open_rounds_are_shown_as_one_and_closed_now(visit, start):
    server = start(people(6000), epsilon=50.0, delta=1e-3, attributes=("age",), pace=3600.0)
    visitor = visit(server)
    visitor.sign_in(server.analyst)
    page = visitor.go("/ask")
    page.locator("summary", has_text="How rounds are run").click()
    visitor.fill_ask("ranges", "age", until_all="=yes")
    expect(page.locator("#plan dl.facts")).to_contain_text("10 minutes in all")
    expect(page.locator("#plan dl.facts")).to_contain_text("6 at the same time")
    assert "until_all=yes" in page.url
    assert visitor.violations() == []
    picture(page, "ask")
    page.locator("#plan button.primary").click()
    page.get_by_role("button", name="Ask and spend").click()
    page.wait_for_url("**/queries/*")
    expect(page.locator("#watch")).to_contain_text("1 to 6, open")
    expect(page.locator("#watch")).to_contain_text("It takes at most 10 minutes in all: its 6 rounds are open at the")
    assert visitor.violations() == []
    picture(page, "watch")
    [status] = server.coordinator.queries()
    assert status.settings.until_all
    page.get_by_role("button", name="Close now").click()
    page.get_by_role("dialog").get_by_role("button", name="Close now").click()
    visitor.read()
    [status] = server.coordinator.queries()
    assert [round.state for round in status.rounds] == ["released"] * 6
    assert all(round.asked < 6000 for round in status.rounds)


def test_rounds_that_are_still_opening_are_not_closed(start, monkeypatch):
    server = start(people(800), epsilon=50.0, delta=1e-3)

    def open(configuration, target=None):
        raise ServerUnavailable("The collector is down.")

    monkeypatch.setattr(server.rows, "open", open)
    query = RangesQuery("age", th.plan(epsilon=1.0, delta=1e-6, rounds=3), 0.0, 64.0, 4)
    asked = server.coordinator.submit(QueryRequest(name="ages", query=query.to_dict()), "ada")
    server.coordinator.step()
    with client(server) as http:
        csrf = sign_in(http, server.analyst)
        early = http.post(f"/queries/{asked.id}/close", data={"csrf": csrf})
        assert early.status_code == 409
        assert "The rounds of this query are still opening." in early.text
        assert "Try again in a moment." in early.text


def test_the_button_is_there_only_while_something_is_open(start):
    server = start(people(800), epsilon=50.0, delta=1e-3)
    with client(server) as http:
        csrf = sign_in(http, server.analyst)
        missing = http.post("/queries/nothing/close", data={"csrf": csrf})
        assert missing.status_code == 404
        assert http.get("/ask", params={"attribute": "age", "until_all": "maybe"}).text.count("must be one of") == 1
