"""Groups at the console: the field of the form, the picture, the table and the same again, on light and dark pages."""

from __future__ import annotations

import pytest
from console_server import people
from playwright.sync_api import expect

from thresher.protocol.analyst_messages import QueryRequest
from thresher.verbs.asking import Target, make

pytestmark = pytest.mark.slow  # processes and browsers take their time

QUANTILES = {"quantiles_by": "country", "quantiles_probabilities": "0.5, 0.95", "quantiles_levels": "4"}
LARGE = {"epsilon": "2", "delta": "1e-6"}


@pytest.fixture(scope="module")
def holders():
    return people(20_000)


@pytest.mark.parametrize("dark", [False, True])
def test_quantiles_by_group_are_rows_of_points_on_one_scale(visit, start, holders, dark):
    server = start(holders)
    visitor = visit(server, dark=dark)
    visitor.sign_in(server.analyst)
    page = visitor.ask("quantiles", "latency_ms", **QUANTILES, **LARGE)
    visitor.read()
    expect(page.get_by_role("heading", level=1)).to_contain_text("latency_ms by country")
    rows = page.locator(".groups li:not(.bar-axis)")
    assert rows.count() >= 5
    expect(rows.filter(has_text="France")).to_have_count(1)
    assert rows.first.locator("circle.sample").count() == 2
    expect(page.locator(".groups .bar-axis")).to_contain_text("200")
    expect(page.locator("#table")).to_contain_text("France · 50 %")
    expect(page.locator("#line")).to_contain_text("by='country'")
    assert visitor.violations() == []


def test_ranges_by_group_are_small_distributions_without_a_calculator(visit, start, holders):
    server = start(holders)
    visitor = visit(server, phone=True)
    visitor.sign_in(server.analyst)
    page = visitor.ask("ranges", "latency_ms", ranges_by="os", ranges_levels="3", **LARGE)
    visitor.read()
    assert page.locator(".small-charts figure").count() == 2
    expect(page.locator("#table")).to_contain_text("Android · 0 to under 250")
    assert page.locator("#range").count() == 0
    assert visitor.violations() == []


def test_listed_groups_that_were_not_released_are_shown_and_the_form_has_them_again(visit, start, holders):
    server = start(holders)
    settings = {"column": "latency_ms", "probabilities": [0.5], "lower": 0, "upper": 1000, "method": "hierarchy"}
    groups = {"by": "country", "groups": ["France", "Atlantis"], "levels": 3}
    query = make("quantiles", Target(2.0, 1e-6), settings | groups)
    asked = server.coordinator.submit(QueryRequest(name="by", query=query.to_dict()), "maria")
    visitor = visit(server)
    visitor.sign_in(server.analyst)
    page = visitor.go(f"/queries/{asked.id}")
    visitor.read()
    assert [row.inner_text().split()[0] for row in page.locator(".groups li:not(.bar-axis)").all()] == [
        "France", "Atlantis",
    ]  # fmt: skip
    expect(page.locator(".groups")).to_contain_text("below threshold")
    expect(page.locator("#table")).to_contain_text("below threshold")
    visitor.go(f"/ask?like={asked.id}")
    expect(page.locator("#quantiles_by")).to_have_value("country")
    expect(page.locator("#quantiles_groups")).to_have_value("France\nAtlantis")
    assert page.locator("#refused").count() == 0
