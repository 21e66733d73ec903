"""Sessions, forms and headers, asked over plain HTTP: what a browser would not do, but somebody might."""

from __future__ import annotations

import contextlib
import re

import httpx
import pytest
from console_client import CSRF, client, sign_in
from console_server import people
from starlette.routing import Route

from thresher.console import routes
from thresher.console.login import local_path
from thresher.console.sessions import LoginForms, Sessions

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture(scope="module")
def session():
    """A client with a session, and the token that its forms carry: `session(server, token)`."""
    with contextlib.ExitStack() as stack:

        def opened(server, token: str) -> tuple[httpx.Client, str]:
            http = stack.enter_context(client(server))
            return http, sign_in(http, token)

        yield opened


@pytest.fixture(scope="module")
def analyst(server, session):
    return session(server, server.analyst)


@pytest.fixture(scope="module")
def operator(server, session):
    return session(server, server.operator)


def paths(method: str) -> list[str]:
    """Every address of the console that takes this method; the last route is for those that do not exist."""
    nobody = object()
    return [
        re.sub(r"\{\w+\}", "x", route.path)
        for route in routes(nobody, nobody, nobody)[:-1]
        if isinstance(route, Route) and method in route.methods
    ]


def test_every_page_needs_a_session(server):
    with client(server) as http:
        closed = [path for path in paths("GET") if path != "/login" and not path.startswith("/static")]
        assert len(closed) > 10
        for path in closed:
            answer = http.get(path)
            if path.endswith("/events"):
                assert answer.status_code == 401
            else:
                assert answer.status_code == 303, path
                assert answer.headers["location"].startswith("/login")
            assert http.get(path, headers={"X-Fragment": "1"}).status_code == 401, path


def test_every_form_needs_its_own_token(server, operator):
    http, csrf = operator
    forms = [path for path in paths("POST") if path not in ("/login",)]
    assert {"/ask", "/logout", "/operate/rotate-key", "/queries/x/cancel", "/queries/x/close"} <= set(forms)
    keys = len(http.get("/operate").text)
    for path in forms:
        assert http.post(path, data={"name": "x"}).status_code == 403, path
        assert http.post(path, data={"csrf": "wrong"}).status_code == 403, path
        assert http.post(path, json={"csrf": csrf}).status_code == 403, path
        other = {"Sec-Fetch-Site": "cross-site"}
        assert http.post(path, data={"csrf": csrf}, headers=other).status_code == 403, path
    assert len(http.get("/operate").text) == keys  # nothing was made, revoked or rotated


def test_the_login_form_belongs_to_its_browser(server):
    with client(server) as one, client(server) as other:
        mark = CSRF.search(one.get("/login").text)[1]
        assert other.post("/login", data={"csrf": mark, "token": server.analyst}).status_code == 403
        other.get("/login")
        assert other.post("/login", data={"csrf": mark, "token": server.analyst}).status_code == 403
        assert one.post("/login", data={"csrf": mark, "token": server.analyst}).status_code == 303


@pytest.mark.parametrize("path", ["/login", "/", "/ask", "/queries", "/ledger", "/nothing-there", "/queries/none"])
def test_headers(analyst, path):
    http, _ = analyst
    answer = http.get(path)
    if path == "/nothing-there":
        assert answer.status_code == 404
        return
    policy = answer.headers["content-security-policy"]
    for part in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"):
        assert part in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-store"
    assert not re.search(r"<script(?![^>]*\bsrc=)|\sstyle=|\son\w+=|javascript:", answer.text)
    assert not re.search(r'(?:src|href|action)="(?:https?:)?//', answer.text)


def test_cookies_are_closed_to_scripts_and_other_sites(server):
    with client(server) as http:
        mark = CSRF.search(http.get("/login").text)[1]
        answer = http.post("/login", data={"csrf": mark, "token": server.analyst})
        session = next(value for value in answer.headers.get_list("set-cookie") if "session" in value)
        assert "HttpOnly" in session and "SameSite=strict" in session and "Path=/" in session
        assert server.analyst not in session
        assert "Secure" not in session  # plain HTTP on loopback


def test_over_tls_cookies_are_tied_to_the_host(server):
    from starlette.requests import Request
    from starlette.responses import Response

    from thresher.console.headers import add_headers, set_cookie

    request = Request({"type": "http", "scheme": "https", "path": "/", "headers": [], "server": ("x", 443)})
    response = add_headers(Response(), request)
    set_cookie(response, request, "session", "1")
    assert response.headers["set-cookie"].startswith("__Host-thresher-session=1;")
    assert "Secure" in response.headers["set-cookie"]
    assert "strict-transport-security" in response.headers


def test_signing_in_gives_a_new_session_and_out_ends_it(server, session):
    http, _ = session(server, server.analyst)
    first = http.cookies["thresher-session"]
    mark = CSRF.search(http.get("/login").text)[1]
    http.post("/login", data={"csrf": mark, "token": server.analyst})
    second = http.cookies["thresher-session"]
    assert first != second
    with client(server, cookies={"thresher-session": first}) as old:
        assert old.get("/").status_code == 303
    csrf = CSRF.search(http.get("/").text)[1]
    assert http.post("/logout", data={"csrf": csrf}).status_code == 303
    with client(server, cookies={"thresher-session": second}) as old:
        assert old.get("/").status_code == 303


@pytest.mark.slow
def test_a_revoked_token_ends_its_sessions(start, session):
    server = start(people(100))
    operator, csrf = session(server, server.operator)
    assert operator.post("/operate/make-token", data={"csrf": csrf, "name": "m", "role": "analyst"}).status_code == 303
    token = re.search(r"thresher-analyst-[\w-]+", operator.get("/operate").text)[0]
    maria, _ = session(server, token)
    assert maria.get("/ledger").status_code == 200
    identifier = re.search(r'name="id" value="([^"]+)"[^>]*>\s*<button[^>]*“m”', operator.get("/operate").text)[1]
    assert operator.post("/operate/revoke-token", data={"csrf": csrf, "id": identifier}).status_code == 303
    assert maria.get("/ledger").status_code == 303


def test_an_analyst_gets_nothing_of_the_operators(server, analyst):
    http, csrf = analyst
    assert http.get("/operate").status_code == 403
    for path in paths("POST"):
        if path.startswith("/operate"):
            assert http.post(path, data={"csrf": csrf, "name": "x", "role": "operator", "id": "x"}).status_code == 403


def test_only_known_static_files(server):
    with client(server) as http:
        page = http.get("/login").text
        for address in re.findall(r'"(/static/[^"]+)"', page):
            answer = http.get(address)
            assert answer.status_code == 200 and "immutable" in answer.headers["cache-control"]
            assert answer.headers["x-content-type-options"] == "nosniff"
        for path in ("/static/x/../../ports.py", "/static/0/console.css", "/static/0/%2e%2e%2fports.py"):
            assert http.get(path).status_code == 404


@pytest.mark.parametrize(
    "path",
    ["//evil.example", "/\\evil.example", "https://evil.example", "javascript:alert(1)", "", "evil", "/a\\b", "/\n/e"],
)
def test_after_login_one_stays_here(path):
    assert local_path(path) == "/"
    assert local_path("/queries/q1?watch=1") == "/queries/q1?watch=1"


@pytest.mark.slow
def test_large_and_malformed_forms_are_refused(server, analyst):
    http, csrf = analyst
    assert http.post("/ask", content=b"csrf=" + b"x" * (1 << 20), headers=FORM).status_code == 413
    assert http.post("/ask", content=b"\xff\xfe=1", headers=FORM).status_code == 403
    many = b"&".join(b"a%d=1" % number for number in range(1000))
    assert http.post("/ask", content=many, headers=FORM).status_code == 403
    answer = http.post("/ask", data={"csrf": csrf, "attribute": "country", "epsilon": "nan"})
    assert answer.status_code == 422
    assert "Epsilon must be a number." in answer.text


def test_strange_addresses_are_met(analyst):
    http, _ = analyst
    assert http.get("/queries/none").status_code == 404
    assert http.get("/queries/none/answer").status_code == 404
    assert http.get("/queries/none/download/exe").status_code == 404
    assert http.get("/queries/%00%ff/answer").status_code == 404
    assert http.get("/ledger?page=99999999999999999999").status_code == 200
    assert http.get("/queries?page=-1&state=%3Cscript%3E").status_code == 200
    assert "<script>alert" not in http.get("/ask?attribute=%3Cscript%3Ealert(1)%3C/script%3E").text


class Clock:
    time = 0.0

    def now(self) -> float:
        return self.time


def test_sessions_end_and_make_room():
    clock = Clock()
    sessions = Sessions(clock, idle=10, longest=100)
    identifier = sessions.open("token")
    clock.time = 9
    assert sessions.find(identifier) is not None
    clock.time = 18
    assert sessions.find(identifier, touch=False) is not None
    clock.time = 20
    assert sessions.find(identifier) is None  # a page that refreshes itself does not keep a session
    identifier = sessions.open("token")
    for _ in range(20):
        clock.time += 9
        found = sessions.find(identifier)
    assert found is None  # however busy
    clock.time += 100
    other, first, *rest = sessions.open("other"), *(sessions.open("token") for _ in range(50))
    for _ in range(1000):
        sessions.open("token")
    assert all(sessions.find(each) is None for each in (first, *rest))
    assert sessions.find(other) is not None  # whoever signs in again and again ends sessions of their own


def test_a_thousand_sessions_make_room_where_one_token_has_the_most():
    sessions = Sessions(Clock())
    lonely = [sessions.open("lonely"), sessions.open("lonely")]
    many = {number: [sessions.open(f"token{number}") for _ in range(50)] for number in range(20)}
    found = [number for number in many for each in many[number] if sessions.find(each) is None]
    assert len(found) == 2 and all(sessions.find(each) is not None for each in lonely)
    assert sessions.find(sessions.open("new")) is not None
    assert len(sessions._open) == 1000


def test_a_thing_left_for_the_next_page_is_there_once():
    sessions = Sessions(Clock())
    one, other = sessions.open("a"), sessions.open("b")
    sessions.find(one).leave("secret")
    assert sessions.find(other).take() is None
    assert sessions.find(one).take() == "secret"
    assert sessions.find(one).take() is None


def test_login_forms_of_another_process_do_not_fit():
    one, other = LoginForms(), LoginForms()
    number = one.start()
    assert one.fits(number, one.mark(number))
    assert not other.fits(number, one.mark(number))
    assert not one.fits("", one.mark(""))


def test_nothing_secret_is_in_a_session_repr():
    sessions = Sessions(Clock())
    found = sessions.find(sessions.open("thresher-analyst-secret"))
    assert "secret" not in repr(found)
