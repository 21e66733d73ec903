"""What whoever has not signed in may take of the console: time for a form, tries to sign in."""

from __future__ import annotations

import asyncio

import httpx
from starlette.applications import Starlette

from thresher.console import routes


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


def test_signing_in_has_a_rate():
    app = Starlette(routes=routes(None, None))

    async def trying() -> list[int]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as http:
            return [(await http.post("/login", data={"token": "x"})).status_code for _ in range(250)]

    statuses = asyncio.run(trying())
    assert statuses[:200] == [403] * 200 and 429 in statuses[200:]
