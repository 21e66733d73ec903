"""What whoever has not signed in may take of the console: time for a form, tries to sign in."""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import threading
from types import SimpleNamespace

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request

from thresher.clock import SystemClock
from thresher.console import ask_form as asking
from thresher.console import routes
from thresher.console.pages import ask
from thresher.console.planning_turns import PlanningTurns
from thresher.console.requests import PageRequest, authenticate
from thresher.console.sessions import Session, Sessions
from thresher.console.shared_state import Console
from thresher.roles.tokens import token_hash
from thresher.server.limits import Rate, TokenBuckets
from thresher.server.problem import Refused


def asked_slowly(path: str, *, seconds: float, gone: bool = False) -> list[int]:
    """Send a form whose body does not come; the statuses of what is answered."""
    content = b"application/x-www-form-urlencoded"
    app = Starlette(routes=routes(None, None, form_seconds=seconds))
    scope = {
        "type": "http", "method": "POST", "path": path, "query_string": b"", "scheme": "http",
        "server": ("x", 80), "client": ("127.0.0.1", 1), "headers": [(b"host", b"x"), (b"content-type", content)],
    }  # fmt: skip
    statuses = []

    async def receive():
        if gone:
            return {"type": "http.disconnect"}
        return await asyncio.Event().wait()

    async def send(message):
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    asyncio.run(app(scope, receive, send))
    return statuses


def test_a_form_that_does_not_come_is_not_waited_for():
    assert asked_slowly("/login", seconds=0.01) == [408]


def test_a_form_whose_sender_went_away_is_no_error_of_ours(caplog):
    asked_slowly("/login", seconds=10.0, gone=True)
    assert not caplog.records


@pytest.mark.slow
def test_signing_in_has_a_rate():
    app = Starlette(routes=routes(None, None))

    async def trying() -> list[int]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as http:
            return [(await http.post("/login", data={"token": "x"})).status_code for _ in range(250)]

    statuses = asyncio.run(trying())
    assert statuses[:200] == [403] * 200 and 429 in statuses[200:]


@pytest.mark.slow
def test_sign_ins_count_by_the_64_of_ipv6():
    app = Starlette(routes=routes(None, None))

    async def trying(*addresses: str) -> list[int]:
        statuses = []
        for address in addresses:
            transport = httpx.ASGITransport(app, client=(address, 1))
            async with httpx.AsyncClient(transport=transport, base_url="http://server") as http:
                statuses.append((await http.post("/login", data={"token": "x"})).status_code)
        return statuses

    assert 429 in asyncio.run(trying(*(f"2001:db8::{number:x}" for number in range(250))))
    assert asyncio.run(trying("2001:db8:0:1::1")) == [403]


def test_plans_are_made_where_the_server_says():
    sent = []

    def elsewhere(function, *arguments):
        sent.append(pickle.dumps((function, arguments)))
        return function(*arguments)

    fields = asking.filled({"attribute": "word", "epsilon": "0.7", "delta": "1e-7"})
    for _ in range(2):
        made = asking.to_request(fields, elsewhere)
    [function] = [pickle.loads(each)[0] for each in sent]  # once: the second is remembered
    assert function().to_dict() == made.query["plan"]


def test_who_waits_for_a_plan_is_bounded_in_number():
    planning = PlanningTurns()
    request = plan_request(Session("token", "csrf", 0.0, 0.0), planning)
    with planning.waiting.hold(token_hash("token"), 4):
        answer = ask.plan(request)
        assert answer.status_code == 429 and answer.headers["retry-after"] == "1"
        with planning.waiting.hold(b"another's"):
            pass


def plan_request(session: Session, planning: PlanningTurns) -> SimpleNamespace:
    """What the page needs to decide whether a plan is made; the plan itself is left out."""
    return SimpleNamespace(
        http=SimpleNamespace(headers={"x-fragment": "1"}),
        session=session,
        console=SimpleNamespace(planning=planning),
        parameters={},
        page=lambda template, **content: SimpleNamespace(status_code=200),
    )


def test_only_the_newest_plan_of_a_session_is_made(monkeypatch):
    monkeypatch.setattr(ask, "_plan", lambda request, fields: {})
    planning = PlanningTurns()
    one, other = (Session("token", "csrf", 0.0, 0.0) for _ in range(2))
    requests = [plan_request(session, planning) for session in (one, one, other)]
    answers: dict[int, int] = {}

    def asked(number: int) -> None:
        answers[number] = ask.plan(requests[number]).status_code

    threads = [threading.Thread(target=asked, args=(number,)) for number in range(3)]
    with planning.turn(token_hash("token")):
        for number, thread in enumerate(threads):
            thread.start()
            while planning.waiting.open < 2 + number:  # one after the other
                thread.join(0.001)
    for thread in threads:
        thread.join(60)
    assert answers == {0: 429, 1: 200, 2: 200}
    assert ask.plan(requests[0]).status_code == 200  # asked for again, it is the newest


def test_plans_of_one_token_are_made_one_after_another_and_wait_for_no_other_token():
    planning = PlanningTurns()
    begun = threading.Event()

    def second() -> None:
        begun.set()
        with planning.turn(b"a"):
            pass

    thread = threading.Thread(target=second)
    with planning.turn(b"a"):
        thread.start()
        assert begun.wait(60)
        with planning.turn(b"b"):
            assert thread.is_alive()
        assert list(planning._turns) == [b"a"]
    thread.join(60)
    assert not thread.is_alive()
    assert not planning._turns


def test_whoever_has_signed_in_has_a_rate():
    sessions = Sessions(SystemClock())
    tokens = SimpleNamespace(caller=lambda token: SimpleNamespace(operates=False, name="a"))
    console = Console(None, tokens, None, SystemClock(), sessions, requests=TokenBuckets(Rate(0.001, 2)))
    cookie = f"thresher-session={sessions.open('token')}"
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "scheme": "http", "server": ("x", 80)}
    request = Request({**scope, "headers": [(b"cookie", cookie.encode())]})
    for _ in range(2):
        asyncio.run(authenticate(console, request))
    with pytest.raises(Refused):
        asyncio.run(authenticate(console, request))


def test_few_at_a_time_draw_and_verify():
    console = Console(None, None, None, SystemClock(), Sessions(SystemClock()))
    a, b, c = (PageRequest(console, None, SimpleNamespace(token=token), None, {}) for token in "abc")
    with contextlib.ExitStack() as held:
        for request in (a, a, b):
            held.enter_context(request.heavy_work())
        with pytest.raises(Refused) as refused, a.heavy_work():  # two of one token
            pass
        assert refused.value.status == 429
        with b.heavy_work(), pytest.raises(Refused), c.heavy_work():  # four in all
            pass
    with a.heavy_work():
        pass
