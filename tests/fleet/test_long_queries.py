"""A query that names a hundred thousand values costs whoever reads it whole, and nobody else."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections import Counter

import httpx
import pytest
from coordinator_cases import MINUTE, PLAN, Server, request
from server_cases import inside
from store_cases import NOW

import thresher as th
from thresher.console.adapter import console_pages
from thresher.errors import BudgetExceeded
from thresher.protocol.analyst_messages import QueryStatus
from thresher.protocol.messages import decode, encode
from thresher.questions import Bins, Joint, Values
from thresher.roles.coordinator import views
from thresher.roles.coordinator.coordinator import Coordinator
from thresher.roles.coordinator.outlines import LONGEST, columns, outlined
from thresher.roles.coordinator.store import CoordinatorStore, StoredQuery
from thresher.server.analyst_routes import query_events
from thresher.server.routing import Call
from thresher.verbs import HistogramQuery, QuantilesQuery

WORDS = ["yes"] * 3_000 + ["no"] * 2_000
DOMAIN = ("yes", *(f"value{number:07d}" for number in range(2_000)))
LONG = HistogramQuery(Values(("word",)), PLAN, DOMAIN)
DEAR = HistogramQuery(Values(("word",)), th.plan(epsilon=20, delta=1e-4), DOMAIN)
BINS = tuple(float(number) for number in range(2_000))
CSRF = re.compile(r'name="csrf" value="([^"]+)"')


@pytest.fixture
def server(tmp_path):
    running = Server(tmp_path, WORDS)
    yield running
    running.close()


def bodies(store) -> list[str]:
    with store._database.transaction(write=False) as transaction:
        return [id for (id,) in transaction.fetch("SELECT id FROM query_bodies ORDER BY id")]


@pytest.mark.parametrize(
    ("query", "left_out"),
    [
        (LONG, ["domain"]),
        (HistogramQuery(Bins("x", BINS), PLAN), ["edges"]),
        (HistogramQuery(Joint((Values(("word",)), Bins("x", BINS))), PLAN), ["edges"]),
        (QuantilesQuery("x", tuple(n / 2_000 for n in range(1, 2_000)), PLAN, 0, 10, "hierarchy"), ["probabilities"]),
    ],
)
def test_a_query_in_short_has_its_plan_and_columns_and_no_list_of_values(query, left_out):
    whole = json.dumps(query.to_dict())
    short = outlined(whole)
    assert len(short) < LONGEST < len(whole)
    content = json.loads(short)
    assert content["plan"] == query.to_dict()["plan"]
    assert content["verb"] == query.verb
    assert columns(content) == list(query.first_question.columns)
    assert not any(name in short for name in left_out)


def test_a_short_query_and_what_cannot_be_read_stay_as_they_are():
    for text in ("{}", json.dumps(HistogramQuery(Values(("word",)), PLAN).to_dict()), "[" * 10_000):
        assert outlined(text) == text
    assert columns({}) == columns({"question": None}) == columns({"question": {"parts": [3]}}) == []


def test_lists_hold_no_list_of_values_and_a_query_alone_is_whole(server):
    id = server.coordinator.submit(request(query=LONG), "ada").id
    [listed] = server.coordinator.queries()
    standing, whole = server.coordinator.standing(id), server.coordinator.status(id)
    assert len(encode(listed)) < LONGEST < len(encode(whole))
    assert listed == standing
    assert whole.query["domain"] == list(DOMAIN)
    assert listed.query == {name: value for name, value in whole.query.items() if name != "domain"}
    assert listed.settings == whole.settings
    server.run(MINUTE)
    [listed] = server.coordinator.queries()
    assert [round.state for round in listed.rounds] == ["released"]
    assert server.coordinator.answer(id).below_threshold == list(DOMAIN[1:])


def test_one_query_is_sent_whole_without_being_decoded(server, monkeypatch):
    long = server.coordinator.submit(request(query=LONG), "ada").id
    short = server.coordinator.submit(request("short"), "ada").id
    whole = {id: server.coordinator.status(id) for id in (long, short)}
    read, content = [], views._content
    monkeypatch.setattr(views, "_content", lambda query: read.append(len(query.query)) or content(query))
    for id in (long, short):
        assert decode(QueryStatus, server.coordinator.status_json(id)) == whole[id]
    assert max(read) < LONGEST
    with server.store._database.transaction() as transaction:
        transaction.execute("UPDATE query_bodies SET query = substr(query, 1, 5000)")
    damaged = decode(QueryStatus, server.coordinator.status_json(long))
    assert "cannot be read: its question" in damaged.problem
    assert "domain" not in damaged.query


def test_only_what_is_asked_for_is_read_whole(server, monkeypatch):
    """Neither lists nor the ledger nor another query decode it; it is read whole where a round is planned."""
    id = server.coordinator.submit(request(query=LONG), "ada").id
    server.coordinator.step()
    read, calls, content = [], Counter(), views._content
    monkeypatch.setattr(views, "_content", lambda query: read.append(len(query.query)) or content(query))
    for name in ("query", "queries", "rounds"):
        asked = getattr(CoordinatorStore, name)

        def counted(store, *arguments, asked=asked, name=name, **settings):
            if store is server.store:  # servers of other tests may still run
                calls.update([name])
            return asked(store, *arguments, **settings)

        monkeypatch.setattr(CoordinatorStore, name, counted)
    server.coordinator.queries()
    server.coordinator.ledger_view()
    server.coordinator.keys_in_use()
    server.coordinator.standing(id)
    server.coordinator.step()
    assert max(read) < LONGEST
    assert calls["query"] == calls["rounds"] == 0
    calls.clear()
    other = server.coordinator.submit(request("other"), "ada").id
    assert server.coordinator.submit(request("other"), "ada").id == other
    assert max(read) < LONGEST
    assert calls["queries"] == 0


def test_a_refused_query_keeps_no_list_of_values(server):
    for _ in range(2):
        with pytest.raises(BudgetExceeded):
            server.coordinator.submit(request(query=DEAR), "ada")
    assert bodies(server.store) == []
    [listed] = server.coordinator.queries()
    assert listed.state == "refused"
    whole = server.coordinator.status(listed.id)
    assert "domain" not in whole.query
    assert whole.query["plan"]["epsilon"] == 20.0
    taken = server.coordinator.submit(request("taken", query=LONG), "ada").id
    assert bodies(server.store) == [taken]


def test_what_an_earlier_version_stored_is_shortened_when_its_store_is_opened(store_url):
    text = json.dumps(LONG.to_dict())
    store = CoordinatorStore.open(store_url)
    store.create_query(StoredQuery("q1", "ada", "a", "histogram", "what", "{}", "{}", "{}", "running", NOW))
    store.create_query(StoredQuery("q2", "ada", "b", "histogram", "what", "{}", "{}", "{}", "running", NOW))
    with store._database.transaction() as transaction:
        transaction.execute("UPDATE queries SET query = ? WHERE id = 'q1'", (text,))
    store.close()
    for _ in range(2):
        store = CoordinatorStore.open(store_url)
        assert store.query("q1").query == text
        assert store.outline("q1").query == store.queries()[0].query == outlined(text)
        assert bodies(store) == ["q1"]
        assert store.query("q2").query == "{}"
        store.close()


@pytest.mark.slow
def test_pages_and_routes_stay_small(tmp_path):
    """Of long queries, some of them refused, no list has the values; the pages show what they showed before."""
    requests = [
        {"name": f"n{number}", "query": (LONG if number % 2 else DEAR).to_dict(), "settings": {"seconds": 60.0}}
        for number in range(8)
    ]
    with inside(tmp_path / "data", budget_epsilon=4.4, budget_delta=1e-3, pages=console_pages) as server:
        token = server.token("operator")
        states = [server.ask("POST", "/v1/queries", token, json=each).status_code for each in requests]
        assert set(states) == {200, 402}
        ids = [each["id"] for each in server.ask("GET", "/v1/queries", token).json()["queries"]]
        assert len(ids) == len(requests)
        paths = ["/", "/home", "/queries", "/ledger", "/ask?attribute=word", "/operate"]
        paths += [f"/queries/{id}" for id in ids]

        async def visit() -> dict[str, httpx.Response]:
            transport = httpx.ASGITransport(server.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://server") as http:
                mark = CSRF.search((await http.get("/login")).text)[1]
                await http.post("/login", data={"csrf": mark, "token": token})
                return {path: await http.get(path) for path in paths}

        for path, page in asyncio.run(visit()).items():
            assert page.status_code == 200, path
            assert "value0000001" not in page.text
            if path.startswith("/queries/"):
                assert "<bdi>word</bdi>" in page.text
                assert ("2,001 values" in page.text) == ("Cancel" in page.text), path
        for route in ("/v1/queries", "/v1/ledger", "/v1/fleet"):
            assert b"value0000001" not in server.ask("GET", route, token).content
        running = next(id for id in ids if server.services.the_coordinator.status(id).state == "running")
        assert b"value0000001" in server.ask("GET", f"/v1/queries/{running}", token).content


def test_streams_of_a_query_look_at_it_once_and_send_no_list_of_values(tmp_path, monkeypatch):
    looked = Counter()
    standing = Coordinator.standing
    monkeypatch.setattr(Coordinator, "status", lambda *a: pytest.fail("a stream reads no query whole"))
    with inside(tmp_path / "data") as server:
        services, token = server.services, server.token("analyst")
        services.followed._seconds = services.still_allowed._seconds = math.inf
        query = services.the_coordinator.submit(request(query=LONG), "ada").id
        monkeypatch.setattr(Coordinator, "standing", lambda *a: looked.update(["standing"]) or standing(*a))
        identity = services.tokens.identify(token, ("analyst",))

        async def watched() -> list[bytes]:
            streams = [query_events(Call(services, identity, {"query": query}, None, token)) for _ in range(20)]
            first = await asyncio.gather(*(anext(stream) for stream in streams))
            for stream in streams:
                await stream.aclose()
            return first

        sent = asyncio.run(watched())
    assert looked["standing"] == 1
    assert len(set(sent)) == 1
    assert query.encode() in sent[0]
    assert b"value0000001" not in sent[0]
    assert len(sent[0]) < LONGEST
