"""What does not exist, is not allowed or breaks: a page for people, a problem for programs, the headers for both."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from console_client import CSRF, client, sign_in
from console_server import people
from playwright.sync_api import expect
from starlette.applications import Starlette

from thresher.console import Caller, routes
from thresher.console import ask_form as asking
from thresher.console.headers import HEADERS
from thresher.errors import LedgerUnavailable, StoreUnavailable

PAGE = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
CANARY = "a value that nobody may see"


@pytest.fixture(scope="module")
def http(server):
    with client(server, headers=PAGE) as http:
        sign_in(http, server.operator)
        yield http


def dressed(answer: httpx.Response) -> bool:
    """Whether a response has every header of the console; static files may be kept, and nothing else."""
    wanted = {name: value for name, value in HEADERS.items() if name != "Cache-Control"}
    kept = "immutable" in answer.headers["cache-control"] and str(answer.url.path).startswith("/static/")
    return all(answer.headers.get(name) == value for name, value in wanted.items()) and (
        kept or answer.headers["cache-control"] == "no-store"
    )


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nope", 404),
        ("GET", "/nope/", 404),
        ("GET", "/favicon.ico", 404),
        ("GET", "/queries/none", 404),
        ("GET", "/queries/none/download/exe", 404),
        ("GET", "/queries/none/events", 404),
        ("GET", "/static/0/console.css", 404),
        ("GET", "/logout", 405),
        ("GET", "/operate/make-token", 405),
        ("POST", "/", 405),
        ("PUT", "/ask", 405),
        ("DELETE", "/queries/x", 405),
        ("OPTIONS", "/ask", 405),
        ("POST", "/ask", 403),
        ("GET", "/ledger", 200),
        ("HEAD", "/ledger", 200),
    ],
)
def test_every_response_has_the_headers(http, method, path, status):
    answer = http.request(method, path)
    assert answer.status_code == status
    assert dressed(answer), dict(answer.headers)
    assert "json" not in answer.headers["content-type"]
    if status == 405:
        assert answer.headers["allow"]


@pytest.mark.slow
def test_an_unknown_address_is_a_page_with_the_way_back(visit, server):
    visitor = visit(server)
    visitor.allowed = {404}
    page = visitor.go("/no-such-page")
    expect(page.get_by_role("heading", level=1)).to_have_text("Not found")
    expect(page.get_by_role("link", name="Ledger")).to_have_count(0)  # nobody has signed in
    visitor.sign_in(server.analyst)
    visitor.go("/no-such-page")
    expect(page.get_by_role("heading", level=1)).to_have_text("Not found")
    assert visitor.violations() == []
    page.get_by_role("link", name="Go to the start").click()
    page.wait_for_url(server.url + "/")
    visitor.go("/ledger/?page=1")
    expect(page).to_have_url(server.url + "/ledger?page=1")


@pytest.mark.slow
def test_a_wrong_field_of_an_operators_form_leads_back_to_it(visit, server):
    visitor = visit(server)
    visitor.allowed = {422}
    page = visitor.sign_in(server.operator)
    visitor.go("/operate")
    page.fill("#key-name", "phones")
    page.fill("#key-days", "many")
    page.get_by_role("button", name="Make a key").click()
    expect(page.locator("main")).to_contain_text("Days must be a number.")
    page.get_by_role("link", name="Go back").click()
    expect(page.get_by_role("button", name="Make a key")).to_be_visible()


def test_programs_are_answered_as_before(server):
    with client(server) as http:
        for method, path, status in (("GET", "/nope", 404), ("PUT", "/ask", 405), ("GET", "/v1/nope", 404)):
            answer = http.request(method, path)
            assert answer.status_code == status
            assert answer.headers["content-type"] == "application/problem+json"


class Broken:
    """A server of which nothing works."""

    def caller(self, token: str) -> Caller:
        return Caller("somebody", "operator")

    def __getattr__(self, name: str):
        def fails(*given: object, **settings: object):
            raise RuntimeError(CANARY)

        return fails


def signed_in(
    tokens: Any, asked: Callable[[httpx.AsyncClient], Awaitable[list[httpx.Response]]]
) -> list[httpx.Response]:
    """What is answered to somebody who has signed in to a console of which nothing else works."""

    async def asking_it() -> list[httpx.Response]:
        app = httpx.ASGITransport(app=Starlette(routes=routes(Broken(), tokens, Broken())))
        async with httpx.AsyncClient(transport=app, base_url="http://console", headers=PAGE) as http:
            mark = CSRF.search((await http.get("/login")).text)[1]
            await http.post("/login", data={"csrf": mark, "token": "t"})
            return await asked(http)

    with ThreadPoolExecutor(1) as thread:  # this one has the browser's event loop in it
        return thread.submit(asyncio.run, asking_it()).result()


def test_what_breaks_is_a_page_that_tells_nothing(caplog):
    async def asked(http: httpx.AsyncClient) -> list[httpx.Response]:
        paths = ("/", "/ask", "/queries", "/ledger", "/operate", "/queries/x", "/queries/x/events")
        return [await http.get(path) for path in paths] + [await http.get("/home", headers={"X-Fragment": "1"})]

    *pages, part = signed_in(Broken(), asked)
    for answer in pages:
        assert answer.status_code == 500
        assert dressed(answer)
        number = re.search(r"The log has it under (\w+)", answer.text)[1]
        assert number in caplog.text
        assert "Something went wrong" in answer.text
    assert part.status_code == 500
    assert "<html" not in part.text and 'role="alert"' in part.text
    assert part.headers["x-fragment"] == "1"
    for text in (caplog.text, part.text, *(page.text for page in pages)):
        assert CANARY not in text


def test_a_token_that_cannot_be_checked_is_a_page_too():
    """And a part of a page for the script that asks for one."""

    class Away:
        broken = False

        def caller(self, token: str) -> Caller:
            if self.broken:
                raise StoreUnavailable(CANARY)
            return Caller("somebody", "analyst")

    tokens = Away()

    async def asked(http: httpx.AsyncClient) -> list[httpx.Response]:
        tokens.broken = True
        return [await http.get("/ledger"), await http.get("/home", headers={"X-Fragment": "1"})]

    page, part = signed_in(tokens, asked)
    for answer in (page, part):
        assert answer.status_code == 503 and dressed(answer)
        assert "The server cannot do this now" in answer.text and CANARY not in answer.text
    assert "<html" in page.text and "console.css" in page.text
    assert "<html" not in part.text


@pytest.mark.slow
def test_a_proxys_own_page_is_not_taken_for_a_part_of_ours(visit, server):
    visitor = visit(server)
    visitor.allowed = {502}
    visitor.sign_in(server.analyst)
    page = visitor.go("/ask?attribute=country")
    page.route("**/ask/plan*", lambda route: route.fulfill(status=502, body="<h1>Bad gateway</h1>"))
    page.fill("#epsilon", "0.5")
    expect(page.locator("#plan")).to_contain_text("The server cannot be reached")
    expect(page.locator("body")).not_to_contain_text("Bad gateway")
    page.unroute("**/ask/plan*")
    page.fill("#epsilon", "0.6")
    expect(page.locator("#plan")).to_contain_text("Ask, spending ε 0.6")


@pytest.mark.slow
def test_watching_goes_on_when_the_server_is_back(visit, start):
    server = start(people(1000), pace=600.0)
    visitor = visit(server)
    visitor.allowed = {502}
    visitor.sign_in(server.analyst)
    page = visitor.ask("histogram", "country")
    page.wait_for_url("**/queries/**")
    expect(page.locator("#lost")).to_be_hidden()
    away = lambda route: route.fulfill(status=502, body="Bad gateway")  # noqa: E731
    page.route("**/events", away)
    page.reload()
    page.route("**/queries/*", away)
    expect(page.locator("#lost")).to_contain_text("The server cannot be reached.")
    page.wait_for_timeout(3000)  # asks now and then, and stays
    expect(page.get_by_role("heading", level=1)).to_have_text("Histogram of country")
    page.unroute("**/queries/*")
    page.unroute("**/events")
    completed = page.locator(".facts div", has_text="Completed").locator("dd")
    expect(page.locator("#lost")).to_be_hidden()
    first = completed.inner_text()
    expect(completed).not_to_have_text(first)
    visitor.go("/ledger")  # before the server stops for good


@pytest.mark.slow
def test_where_roles_are_split_the_page_says_where_the_rest_is_done(visit, start):
    server = start(people(500), operated=False)
    visitor = visit(server)
    visitor.allowed = {404}
    page = visitor.sign_in(server.operator)
    page.get_by_role("link", name="Operate").click()
    for role in ("Coordinator", "Collector", "Aggregator"):
        expect(page.locator(".health")).to_contain_text(role)
    expect(page.locator("main")).to_contain_text("at the collector")
    expect(page.locator("main")).to_contain_text("No round has closed yet.")
    expect(page.get_by_role("button", name="Make a key")).to_have_count(0)
    assert visitor.violations() == []
    # The command that the page gives for what is done here does it.
    command = page.locator("pre", has_text="/v1/operator/tokens").inner_text()
    address, body = command.split()[-1], re.search(r"-d '([^']*)'", command)[1]
    headers = {"Authorization": f"Bearer {server.operator}"}
    made = httpx.post(address, content=body, headers=headers, trust_env=False)
    assert made.status_code == 201
    maria = visit(server)
    maria.sign_in(made.json()["token"])
    expect(maria.page.locator(".account")).to_contain_text("maria")
    expect(maria.page.get_by_role("link", name="Operate")).to_have_count(0)
    with client(server, headers=PAGE) as http:
        csrf = sign_in(http, server.operator)
        answer = http.post("/operate/rotate-key", data={"csrf": csrf})
        assert answer.status_code == 404
        assert "Not all roles run here" in answer.text


@pytest.mark.slow
def test_pages_do_not_say_where_things_are_on_the_server(server, monkeypatch):
    """As programs do not get to know it: the path of a ledger that is in use by others, for example."""

    def breaks(*arguments):
        raise LedgerUnavailable(f"The ledger /somewhere/{CANARY} cannot be read.", hint=CANARY)

    with client(server, headers=PAGE) as http:
        csrf = sign_in(http, server.analyst)
        monkeypatch.setattr(server.coordinator, "ledger_view", breaks)
        monkeypatch.setattr(server.coordinator, "preview", breaks)
        monkeypatch.setattr(server.coordinator, "submit", breaks)
        form = {"csrf": csrf, "attribute": "country"}
        agreed = asking.agreement(asking.filled(form))
        for answer, status in (
            (http.get("/ledger"), 503),
            (http.get("/ledger", headers={"x-fragment": "1"}), 503),
            (http.get("/ask?attribute=country"), 200),
            (http.post(f"/ask?agreed={agreed}", data=form), 503),
        ):
            assert answer.status_code == status
            assert "The server cannot do this now" in answer.text and CANARY not in answer.text
