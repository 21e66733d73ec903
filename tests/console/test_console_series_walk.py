"""A person at a browser starts a series from an answer and follows it, in every light and at every width."""

from __future__ import annotations

import re

import pytest
from console_series import pass_dates, settled, start_series, versions
from console_server import people
from playwright.sync_api import expect

pytestmark = pytest.mark.slow  # browsers take their time


def test_from_an_answer_to_a_series_that_is_followed(visit, start):
    server = start(people(3000), epsilon=10.0, delta=1e-5)
    visitor = visit(server)
    visitor.sign_in(server.analyst)
    expect(visitor.page.get_by_role("link", name="Ask a question every week")).to_be_visible()
    visitor.ask("histogram", "country")
    page = visitor.read()
    page.get_by_role("link", name="Ask every week").click()
    page.wait_for_url("**/ask?like=*")
    expect(page.locator("#attribute")).to_have_value("country")
    expect(page.get_by_role("radio", name="Weekly")).to_be_checked()
    expect(page.locator("#plan")).to_contain_text("52 every week")
    visitor.allowed = {429}  # a plan that was overtaken by the next one
    with page.expect_response(lambda response: "/ask/plan" in response.url and response.status == 200):
        page.fill("#releases", "4")
    expect(page.locator("#plan")).to_contain_text("4 every week")
    expect(page.locator("#plan")).to_have_attribute("aria-busy", "false")
    assert len(server.coordinator.ledger_view().charges) == 1  # the query alone
    page.get_by_role("button", name="Start the series, reserving ε 1").click()
    page.get_by_role("button", name="Start and reserve").click()
    page.wait_for_url(re.compile(r"/series/s[0-9a-f]+$"))
    series = page.url.rpartition("/")[2]
    settled(server, series, 1)
    page.reload()
    answer = server.coordinator.answer(f"{series}-0")
    expect(page.get_by_role("img", name="Histogram of country, over time")).to_be_visible()
    latest = page.locator("section[aria-labelledby=latest-title] table")
    expect(latest).to_contain_text(f"{answer['France'].estimate:,.0f}")
    page.get_by_text("Choose lines").click()
    page.get_by_role("checkbox", name="France").check()
    page.get_by_role("button", name="Draw").click()
    page.wait_for_url("**/series/*?bucket=France*")
    expect(page.locator("svg.chart .swatch")).to_have_count(1)
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Pause it").click()
    expect(page.locator("h1 .badge")).to_have_text("Paused")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("h1 .badge")).to_have_text("Running")
    visitor.go("/")
    expect(page.locator(".series-card")).to_contain_text("France")
    visitor.go(f"/series/{series}")
    page.get_by_role("button", name="End").click()
    page.get_by_role("button", name="End it").click()
    expect(page.locator("h1 .badge")).to_have_text("Ended")
    assert server.coordinator.series.status(series).state == "ended"


def test_a_series_is_started_without_scripts(visit, start):
    server = start(people(3000), epsilon=10.0, delta=1e-5)
    visitor = visit(server, scripts=False)
    visitor.sign_in(server.analyst)
    page = visitor.go("/ask?attribute=country")
    expect(page.locator("#releases")).to_be_hidden()
    page.get_by_role("radio", name="Daily").check()
    expect(page.locator("#releases")).to_be_visible()
    page.fill("#releases", "2")
    page.get_by_role("button", name="Work out the plan").click()
    page.get_by_role("button", name="Start the series, reserving ε 1").click()
    page.wait_for_url(re.compile(r"/series/s[0-9a-f]+$"))
    assert len(server.coordinator.series.all()) == 1


@pytest.mark.parametrize(
    ("dark", "phone"), [(False, False), (True, False), (False, True)], ids=["light", "dark", "phone"]
)
def test_pages_of_series_are_accessible_and_fit(visit, start, dark, phone):
    server = start(versions(0), epsilon=10.0, delta=1e-6, moved=True)
    series = start_series(server, releases=6, epsilon=2.0, delta=1e-8)
    pass_dates(server, series, 4, missed=frozenset({2}), rows=lambda week: versions(10 * week))
    visitor = visit(server, dark=dark, phone=phone)
    visitor.sign_in(server.analyst)
    for path in ("/", "/series", f"/series/{series}?bucket=2.0", "/ask?attribute=version&every=month"):
        page = visitor.go(path)
        assert visitor.violations() == [], path
        assert not page.evaluate("document.documentElement.scrollWidth > innerWidth"), path
