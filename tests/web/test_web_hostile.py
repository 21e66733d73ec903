"""Servers that want too much: the page refuses, says why, and stays usable. Work is counted, not timed."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from importlib.resources import files as resources
from typing import Any

import pytest
from browsers import states, text, wait_for
from page_steps import READY, SWITCH, opened
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from web_fleet import CROSS_ORIGIN, address, page_at, place, serving

pytestmark = pytest.mark.slow  # browsers take their time

ONE = 1 << 32
PUBLIC_KEY = "07" * 32
Answer = Callable[[dict[str, Any]], Response]


def round_of(name: str, *, rate: float = 0.25, threshold: int = 25, **changes: Any) -> str:
    rate = int(rate * ONE) / ONE
    plan = {
        **{"format": "thresher-plan", "version": 1, "sampling_rate": rate, "threshold": threshold, "epsilon": 1.0},
        **{"delta": 1e-8, "adjacency": "replace", "rounds": 1},
    }
    configuration = {
        **{"version": 3, "fleet": "default", "query": name, "index": 0, "round": f"{name}-0"},
        **{"question": {"kind": "values", "columns": ["country"]}, "plan": plan, "contact_rate": ONE},
        **{"device_rate": ONE, "aggregator_rate": int(rate * ONE), "bucket_size": 64, "deadline": time.time() + 3600},
        **{"key_id": "k1", "public_key": PUBLIC_KEY, "guarantees": {}},
    }
    return json.dumps(configuration | changes)


class HostileServer:
    """Enrols everybody, and answers visits as a test says. `handed` are all reports that it was given."""

    def __init__(self, answer: Answer) -> None:
        self.handed: list[dict[str, str]] = []
        self.visits = 0
        self._answer = answer
        self.app = Starlette(routes=[Route("/v2/{what}", self._serve, methods=["POST", "OPTIONS"])])

    async def _serve(self, request: Request) -> Response:
        if request.method == "OPTIONS":
            return Response(headers=CROSS_ORIGIN)
        body = await request.json()
        if request.path_params["what"] == "devices":
            answer: Response = JSONResponse({"version": 2, "token": "t", "identity": None})
        else:
            self.visits += 1
            self.handed += body["reports"]
            answer = self._answer(body)
        answer.headers.update(CROSS_ORIGIN)
        return answer


def listing(*rounds: str) -> Answer:
    def answer(body: dict[str, Any]) -> Response:
        taken = [{"round": each["round"], "status": "taken"} for each in body["reports"]]
        listed = list(rounds) if body["rounds"] else []
        return JSONResponse({"version": 2, "reports": taken, "rounds": listed, "come_back": 1})

    return answer


@pytest.fixture
def against(profile) -> Iterator[Any]:
    """Open the page with a hostile server and switch it on."""
    with contextlib.ExitStack() as stack:

        def visited(answer: Answer, **settings: Any) -> tuple[HostileServer, Any]:
            here, there = stack.enter_context(place()), stack.enter_context(place())
            server = HostileServer(answer)
            stack.enter_context(serving(server.app, there))
            tab = opened(profile, stack.enter_context(page_at(here, address(there), "key", **settings)))
            tab.evaluate(SWITCH)
            return server, tab

        yield visited


def usable(tab) -> None:
    """The page reacts to the person: what is typed is there, and switching off works."""
    tab.evaluate("() => { document.querySelector('#holds-country').value = 'de'; }")
    tab.evaluate(SWITCH)
    wait_for(tab, "() => document.querySelector('#status').innerText.startsWith('Off')", 10)
    wait_for(tab, READY)  # everything is forgotten


def test_a_weak_plan_is_refused_and_a_good_one_answered(against) -> None:
    server, tab = against(
        listing(round_of("weak", rate=0.9, threshold=2), round_of("broad", rate=0.9), round_of("good"))
    )
    wait_for(tab, "() => document.querySelectorAll('#entries tr').length === 3")
    wait_for(tab, "() => document.querySelectorAll('.badge-taken').length === 1")
    words = text(tab, "#entries")
    assert "Too small a group could be seen: the threshold is too low." in words
    assert "It would cost more privacy than one question may." in words
    assert [each["round"] for each in server.handed] == ["good-0"]
    usable(tab)


def test_another_key_than_the_pinned_one_is_refused(against) -> None:
    policy = json.loads((resources("thresher.device") / "default_policy.json").read_text())
    server, tab = against(
        listing(round_of("other", public_key="09" * 32), round_of("own")), policy=policy | {"pinned_key": PUBLIC_KEY}
    )
    wait_for(tab, "() => document.querySelectorAll('.badge-taken').length === 1")
    assert "It is not sealed for the key that this device trusts." in text(tab, "#entries")
    assert [each["round"] for each in server.handed] == ["own-0"]


def test_ten_thousand_rounds_in_one_answer(against) -> None:
    """256 of them are looked at in a visit; the budget ends the answers, and the table shows the latest 100."""
    server, tab = against(listing(*(round_of(f"q{number}") for number in range(10_000))))
    wait_for(tab, "() => document.querySelectorAll('#entries tr').length === 100")
    usable(tab)
    (state,) = states(tab)
    assert state["records"] == []
    assert len(state["charges"]) <= 256 * server.visits
    assert len(server.handed) <= 256 * server.visits


def test_markup_in_a_question_is_text(against) -> None:
    bad = {"kind": "values", "columns": ["<img src=x onerror=alert(1)>"]}
    _, tab = against(listing(round_of("q", question=bad)))
    wait_for(tab, "() => document.querySelectorAll('#entries tr').length")
    assert text(tab, "#entries strong") == "<img src=x onerror=alert(1)>"
    assert tab.evaluate("() => document.querySelectorAll('#entries img').length") == 0


def endless(body: dict[str, Any]) -> Response:
    """64 MiB, as fast as they are read."""

    async def pieces() -> Any:
        for _ in range(64):
            yield b" " * (1 << 20)

    return StreamingResponse(pieces(), media_type="application/json")


NO_ANSWERS: dict[str, Answer] = {
    "a login page": lambda body: HTMLResponse("<h1>Log in to this network</h1>"),
    "511": lambda body: HTMLResponse("<h1>Log in</h1>", 511),
    "a redirect": lambda body: RedirectResponse("/login", 302),
    "no text": lambda body: Response(b"\xff", media_type="application/json"),
    "no visit": lambda body: JSONResponse({"rounds": "all"}),
    "64 MiB": endless,
}


def test_what_is_no_answer_is_none(against) -> None:
    """In tabs beside each other, as a page complains only after a few seconds."""
    pages = {name: against(answer) for name, answer in NO_ANSWERS.items()}
    for name, (server, tab) in pages.items():
        wait_for(tab, "() => !document.querySelector('#problem').hidden")
        assert server.handed == [], name
        assert text(tab, "#empty") == "Nothing was asked yet.", name
        usable(tab)
        assert server.visits <= 8, name
