"""Values as people really hold them: many, long, right to left, markup, formulas; and what must never be shown."""

from __future__ import annotations

import time

import httpx
import pytest
from console_client import client, sign_in
from playwright.sync_api import expect

from thresher.privacy import plan
from thresher.protocol.analyst_messages import QueryRequest, RoundSettings
from thresher.questions import Values
from thresher.verbs import HistogramQuery

pytestmark = pytest.mark.slow  # processes and browsers take their time

MARKUP = '<img src=x onerror="alert(1)"><script>alert(2)</script>&amp;'
LONG = "https://example.org/" + "very-long-path/" * 40
ARABIC = "مرحبا بالعالم"
OVERRIDE = "abc\u202egnp.exe"
FORMULA = "=HYPERLINK(1)"
CANARY = "canary-below-the-threshold"


def asked(server, attribute: str, name: str) -> str:
    """A histogram of an attribute, asked at the coordinator and waited for."""
    query = HistogramQuery(Values((attribute,)), plan(2.0, 1e-6))
    status = server.coordinator.submit(
        QueryRequest(name=name, query=query.to_dict(), settings=RoundSettings(bucket_size=2048)), "tests"
    )
    end = time.monotonic() + 60
    while server.coordinator.status(status.id).state != "done":
        assert time.monotonic() < end
        time.sleep(0.05)
    return status.id


@pytest.fixture
def strange(start):
    """A fleet whose values are strange, and one value that only a few hold."""
    values = [MARKUP, LONG, ARABIC, OVERRIDE, FORMULA, "", " ", "👩‍👩‍👧 family", "a\nb\tc"]
    rows = [{"value": value, "<b>name</b>": value} for value in values for _ in range(400)]
    server = start([{"value": CANARY}] * 3 + rows)
    server.query = asked(server, "value", "strange")
    return server


def test_values_are_text_and_stay_in_their_place(strange, visit):
    visitor = visit(strange)
    visitor.page.on("dialog", lambda dialog: visitor.wrong.append("a script ran"))
    visitor.sign_in(strange.analyst)
    page = visitor.go(f"/queries/{strange.query}/answer")
    cells = page.locator("#table tbody th bdi").all_inner_texts()
    assert MARKUP in cells
    assert LONG[:500] + "…" in cells  # and not a page full of it
    expect(page.locator("#table")).to_contain_text(f"and {len(LONG) - 500} more characters; the files have it whole")
    expect(page.locator("#table")).to_contain_text("empty text")
    expect(page.locator("#table")).to_contain_text("only spaces")
    assert ARABIC in cells
    assert "abc\ufffdgnp.exe" in cells  # what would reorder the text is shown, not obeyed
    assert "👩‍👩‍👧 family" in cells
    assert page.locator("main img, main script").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert visitor.violations() == []


def test_on_a_phone_nothing_is_wider_than_the_screen(strange, visit):
    visitor = visit(strange, phone=True)
    visitor.sign_in(strange.operator)
    for path in (f"/queries/{strange.query}/answer", f"/queries/{strange.query}?watch=1", "/", "/ask", "/operate"):
        page = visitor.go(path)
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, path


def test_markup_in_an_attribute_is_text_everywhere(strange, visit):
    query = asked(strange, "<b>name</b>", "markup")
    visitor = visit(strange)
    visitor.sign_in(strange.analyst)
    for path in ("/", "/queries", "/ledger", f"/queries/{query}/answer", f"/queries/{query}?watch=1", "/ask"):
        page = visitor.go(path)
        assert page.locator("main b").count() == 0, path
        assert "<b>name</b>" in page.locator("main").inner_text() or path == "/ask"


def test_a_download_runs_nothing(strange):
    with client(strange) as http:
        sign_in(http, strange.analyst)
        answer = http.get(f"/queries/{strange.query}/download/csv")
        assert answer.headers["content-disposition"].startswith("attachment;")
        assert '"\'=HYPERLINK(1)"' in answer.text
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")


def test_nothing_below_the_threshold_reaches_the_browser(strange):
    """The planted value is in no page, fragment, stream, download or error; a released one is, in most."""
    seen, places = 0, 0
    with client(strange) as http:
        sign_in(http, strange.operator)
        base = f"/queries/{strange.query}"
        addresses = ["/", "/home", "/ask", "/queries", "/ledger", "/operate", f"{base}?watch=1", f"{base}/events"]
        addresses += [f"{base}/answer", f"{base}/answer?search=canary", f"{base}/table?search=family", f"{base}/verify"]
        addresses += [f"{base}/download/{kind}" for kind in ("csv", "json", "parquet", "svg", "png", "none")]
        for address in addresses:
            content = http.get(address, headers={"X-Fragment": "1"} if "/table" in address else {}).content
            # Searching for it echoes the words that were typed; the value itself is longer.
            assert CANARY.encode() not in content, address
            seen += b"family" in content
            places += 1
    assert places >= 18 and seen >= 4


@pytest.mark.slow
def test_ten_thousand_buckets(start, visit):
    rows = [{"value": f"item {number:05d}"} for number in range(10_000) for _ in range(30)]
    server = start(rows, delta=1e-2)
    query = HistogramQuery(Values(("value",)), plan(8.0, 1e-3))
    status = server.coordinator.submit(QueryRequest(name="many", query=query.to_dict()), "tests")
    end = time.monotonic() + 120
    while server.coordinator.status(status.id).state != "done":
        assert time.monotonic() < end
        time.sleep(0.1)
    released = len(server.coordinator.answer(status.id))
    assert released > 9_000
    visitor = visit(server)
    visitor.sign_in(server.analyst)
    page = visitor.go(f"/queries/{status.id}/answer")
    expect(page.locator("#table")).to_contain_text(f"1 to 25 of {released:,}")
    assert page.locator("#table tbody tr").count() == 25
    page.fill("#search", "item 0123")
    expect(page.locator("#table tbody tr")).not_to_have_count(25)
    names = page.locator("#table tbody th").all_inner_texts()
    assert names and all(name.startswith("item 0123") for name in names)
    page.fill("#search", "")
    page.locator("#table").get_by_role("link", name="Next").click()
    expect(page.locator("#table")).to_contain_text("26 to 50 of")
    cookies = {each["name"]: each["value"] for each in page.context.cookies()}
    weight = len(httpx.get(page.url, cookies=cookies, timeout=60).content)
    assert weight < 200_000
    assert visitor.violations() == []
