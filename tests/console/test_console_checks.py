"""Every page, light and dark: nothing serious for axe, no error, no other host; and small."""

from __future__ import annotations

import gzip
import re
import time

import pytest
from console_client import client, sign_in

pytestmark = pytest.mark.slow  # processes and browsers take their time

PAGES = ["/", "/ask", "/queries", "/ledger", "/operate", "/queries/none"]


@pytest.fixture(scope="module")
def answered(server) -> dict[str, str]:
    """One answer a verb, by verb."""
    from thresher.privacy import plan
    from thresher.protocol.analyst_messages import QueryRequest
    from thresher.questions import Values
    from thresher.verbs import HeavyHittersQuery, HistogramQuery, QuantilesQuery, RangesQuery

    several = plan(1.0, 1e-8, rounds=4)
    queries = [
        HistogramQuery(Values(("country",)), plan(1.0, 1e-8), ("France", "Atlantis")),
        HeavyHittersQuery("word", several, "trie"),
        QuantilesQuery("latency_ms", (0.5, 0.9), several, 0, 1000, "hierarchy"),
        RangesQuery("latency_ms", several, 0, 1000),
    ]
    found = {}
    for query in queries:
        request = QueryRequest(name=f"checks-{query.verb}", query=query.to_dict())
        found[query.verb] = server.coordinator.submit(request, "tests").id
    end = time.monotonic() + 60
    while any(server.coordinator.status(each).state != "done" for each in found.values()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_accessibility(visit, server, answered, dark):
    visitor = visit(server, dark=dark)
    visitor.allowed = {404}
    visitor.go("/login")
    assert visitor.violations() == []
    visitor.sign_in(server.operator)
    paths = [*PAGES, "/ask?attribute=x&verb=quantiles&epsilon=no"]
    paths += [f"/queries/{query}/answer?verify=1" for query in answered.values()]
    paths += [f"/queries/{answered['ranges']}/range?from=10&to=90", f"/queries/{answered['quantiles']}?watch=1"]
    for path in paths:
        visitor.go(path)
        assert visitor.violations() == [], path


def test_axe_can_find_something(visit, server):
    """The check above can fail: grey on grey, and a field without a name."""
    visitor = visit(server)
    visitor.sign_in(server.analyst)
    visitor.page.evaluate(
        """() => {
          const field = document.createElement("input");
          const text = document.createElement("p");
          text.textContent = "hard to read";
          text.className = "number";
          document.querySelector("main").append(field, text);
          const sheet = new CSSStyleSheet();
          sheet.replaceSync("p.number { color: #888; background: #999; }");
          document.adoptedStyleSheets = [sheet];
        }"""
    )
    assert {found.split(":")[0] for found in visitor.violations()} == {"label", "color-contrast"}


def test_by_keyboard_alone(visit, server):
    visitor = visit(server)
    page = visitor.sign_in(server.analyst)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page = visitor.go("/ask")
    page.focus("input[name=verb][value=histogram]")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert page.is_checked("input[name=verb][value=quantiles]")
    assert page.is_visible("#quantiles_probabilities") and not page.is_visible("#histogram_lower")


def test_charts_have_words(server, answered, visit):
    visitor = visit(server)
    page = visitor.sign_in(server.analyst)
    visitor.go(f"/queries/{answered['quantiles']}/answer")
    chart = page.locator("svg.chart").first
    assert chart.get_attribute("role") == "img"
    assert "are below" in chart.locator("desc").text_content()
    assert page.locator("[style]").count() == 0


def test_first_page_is_small(server):
    with client(server) as http:
        sign_in(http, server.analyst)
        page = http.get("/")
        weight = len(gzip.compress(page.content))
        assets = set(re.findall(r'"(/static/[^"]+)"', page.text))
        assert len(assets) == 4
        for address in assets:
            answer = http.get(address, headers={"Accept-Encoding": "gzip"})
            assert answer.headers["content-encoding"] == "gzip"
            weight += int(answer.headers["content-length"])
    assert weight < 40_000  # far below the 150 kB that were promised
