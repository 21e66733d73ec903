"""A stored query, round or configuration that cannot be read fails alone: every page answers, and the others run on."""

from __future__ import annotations

import asyncio
import json
import re

import httpx
import pytest
from server_cases import ASK, histogram_request, inside

from thresher.client.fleet import Fleet
from thresher.console.adapter import console_pages
from thresher.errors import ThresherError
from thresher.protocol.analyst_messages import QueryStatus
from thresher.protocol.messages import decode
from thresher.server.analyst_routes import QueryList

CSRF = re.compile(r'name="csrf" value="([^"]+)"')
DAMAGE = {
    # What 0.1.0 stored for a query that was asked with 40 bytes an answer: charged, and never readable again.
    "of 0.1.0": ("settings", lambda text: text.replace('"bucket_size":64', '"bucket_size":40')),
    "settings": ("settings", lambda text: "[]"),
    "question": ("query", lambda text: text[: len(text) // 2]),
    "plan": ("query", lambda text: json.dumps(json.loads(text) | {"plan": None})),
    "verb": ("query", lambda text: json.dumps(json.loads(text) | {"verb": "median"})),
    "guarantees": ("prepared", lambda text: "{}"),
    "state": ("state", lambda text: "lost"),
}


def damage(services, query: str, column: str, change) -> None:
    store = services.coordinator_store
    with store._database.transaction() as transaction:
        [(text,)] = transaction.fetch(f"SELECT {column} FROM queries WHERE id = ?", (query,))
        assert transaction.execute(f"UPDATE queries SET {column} = ? WHERE id = ?", (change(text), query)) == 1


@pytest.fixture
def arguments(request, store_url):
    settings = {"budget_epsilon": 50.0, "budget_delta": 1e-3, "pages": console_pages}
    return settings if not store_url.startswith("postgres") else settings | {"store": store_url}


def asked(server, name: str) -> str:
    answer = server.ask("POST", "/v1/queries", server.token("analyst"), json=histogram_request(name, bucket_size=64))
    assert answer.status_code == 200, answer.text
    return answer.json()["id"]


def pages(server, paths: list[str]) -> dict[str, httpx.Response]:
    """Every page, as an operator sees it."""

    async def visit() -> dict[str, httpx.Response]:
        transport = httpx.ASGITransport(server.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as http:
            mark = CSRF.search((await http.get("/login")).text)[1]
            await http.post("/login", data={"csrf": mark, "token": server.token("operator")})
            return {path: await http.get(path, headers={"accept": "text/html"}) for path in paths}

    return asyncio.run(visit())


def check_every_door(server, bad: dict[str, str], good: str) -> None:
    coordinator = server.services.the_coordinator
    routes = ["/v1/queries", "/v1/ledger", "/v1/fleet", "/readyz", "/metrics", "/v1/operator/tokens"]
    routes += [f"/v1/queries/{query}{rest}" for query in [*bad.values(), good] for rest in ("", "/releases")]
    for route in routes:
        answer = server.ask("GET", route, server.token("operator"))
        assert answer.status_code == 200, (route, answer.text)
    listed = decode(QueryList, server.ask("GET", "/v1/queries", server.token("analyst")).content).queries
    found = {status.id: status for status in listed}
    assert {*bad.values(), good} <= set(found)
    assert found[good].problem is None
    for name, query in bad.items():
        if name != "verb":
            assert "cannot be read" in found[query].problem, name
        assert decode(QueryStatus, server.ask("GET", f"/v1/queries/{query}", server.token("analyst")).content)
    shown = pages(server, ["/", "/home", "/queries", "/ledger", "/ask?attribute=word", "/operate"])
    shown |= pages(server, [f"/queries/{query}" for query in [*bad.values(), good]])
    for path, page in shown.items():
        assert page.status_code == 200, (path, page.text)
    for query in bad.values():
        assert query in shown["/queries"].text
    view = coordinator.ledger_view()
    assert len(view.charges) == len(bad) + 1
    assert {charge.query for charge in view.charges} == {*bad.values(), good}
    assert coordinator.keys_in_use() <= {server.services.the_aggregator.public_key().key_id}


@pytest.mark.slow
def test_what_cannot_be_read_fails_alone(tmp_path, arguments):
    with inside(tmp_path / "data", **arguments) as server:
        bad = {name: asked(server, name.replace(" ", "-")) for name in DAMAGE}
        good = asked(server, "good")
        for name, (column, change) in DAMAGE.items():
            damage(server.services, bad[name], column, change)
        check_every_door(server, bad, good)
        coordinator = server.services.the_coordinator
        for _ in range(3):
            coordinator.step()
        check_every_door(server, bad, good)
        for name, query in bad.items():
            expected = "running" if name == "guarantees" else "failed"  # what its rounds need can be read
            assert coordinator.status(query).state == expected, name
        assert [round.state for round in coordinator.status(good).rounds] == ["open"]
        again = server.ask(
            "POST", "/v1/queries", server.token("analyst"), json=histogram_request("guarantees", bucket_size=64)
        )
        assert again.status_code == 409
        for query in bad.values():
            with pytest.raises(ThresherError):
                coordinator.answer(query)
            assert coordinator.cancel(query, "me").id == query
    with inside(tmp_path / "data", **arguments) as server:  # a restart finds all of them again
        check_every_door(server, bad, good)
        server.services.the_coordinator.step()
        assert server.services.the_coordinator.status(good).state == "running"


@pytest.mark.slow
def test_a_round_that_cannot_be_read_ends_its_query_alone(tmp_path, arguments):
    with inside(tmp_path / "data", **arguments) as server:
        bad, good = asked(server, "bad"), asked(server, "good")
        coordinator, store = server.services.the_coordinator, server.services.coordinator_store
        coordinator.step()
        for table in (store._database, server.services.collector_store._database):
            with table.transaction() as transaction:
                [(content,)] = transaction.fetch("SELECT configuration FROM rounds WHERE round = ?", (f"{bad}-r0",))
                changed = bytes(content).replace(b'"bucket_size":64', b'"bucket_size":40')
                transaction.execute("UPDATE rounds SET configuration = ? WHERE round = ?", (changed, f"{bad}-r0"))
        check_every_door(server, {"verb": bad}, good)
        token = server.enrol()
        chosen = server.ask("POST", "/v2/visit", token, json=ASK).json()["rounds"]
        assert [json.loads(text)["query"] for text in chosen] == [good]
        with store._database.transaction() as transaction:
            transaction.execute("UPDATE rounds SET deadline = 0 WHERE round = ?", (f"{bad}-r0",))
        for _ in range(3):
            coordinator.step()
        assert coordinator.status(bad).state == "failed"
        assert coordinator.status(good).state == "running"
        assert len(coordinator.ledger_view().charges) == 2


def test_a_client_reads_a_list_with_what_cannot_be_read(tmp_path):
    with inside(tmp_path / "data", budget_epsilon=50.0, budget_delta=1e-3) as server:
        query = asked(server, "old")
        damage(server.services, query, *DAMAGE["of 0.1.0"])

        def handle(request: httpx.Request) -> httpx.Response:
            answer = server.ask(request.method, request.url.path, server.token("analyst"), content=request.content)
            return httpx.Response(answer.status_code, content=answer.content, headers=answer.headers)

        with Fleet("http://server", server.token("analyst"), transport=httpx.MockTransport(handle)) as fleet:
            [status] = fleet.queries()
            assert status.id == query
            assert "settings" in status.problem
