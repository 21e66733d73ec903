"""What a hostile or clumsy neighbour must not achieve: a server, an analyst, a proxy, a token that was revoked."""

from __future__ import annotations

import asyncio
import contextlib
from types import SimpleNamespace

import httpx
import msgspec
import numpy as np
import pytest
from coordinator_cases import Roles
from device_cases import StillClock, configuration, device, shown, take
from server_cases import histogram_request, inside

from thresher.console.pages import watch
from thresher.console.shared_state import Console
from thresher.device import core as device_core
from thresher.device.device import Device
from thresher.errors import Conflict, InvalidFormat, InvalidSetting, NotFound, ServerUnavailable, Unauthorised
from thresher.ledger import Ledger
from thresher.protocol.analyst_messages import QueryRequest
from thresher.protocol.messages import LARGEST_ANSWER, Enrolled, Problem, Visit, Visited, decode, encode
from thresher.protocol.plaintext import encode_bucket, fleet_bucket
from thresher.protocol.readable import read_round
from thresher.protocol.recomputation import check_configuration
from thresher.questions import Below, Bins, Cells, Joint, Prefixes, Values, from_dict
from thresher.roles.collector.collector import Collector
from thresher.roles.collector.reports import NewVisit
from thresher.roles.collector.store import CollectorStore
from thresher.roles.coordinator.coordinator import Coordinator
from thresher.roles.coordinator.store import CoordinatorStore
from thresher.roles.tokens import new_token, token_hash
from thresher.server.analyst_routes import ANALYST, query_events
from thresher.server.peers import HttpCollector
from thresher.server.routing import Call

ALWAYS = {"contact_rate": 1 / 16}  # then the device's own rate is 1


class Unreadable:
    """A question whose buckets no aggregator reads: a stand-in for whatever somebody may yet invent."""

    columns = ("word",)
    parts = ()
    randomised = False

    def device_bucket(self, value):
        return value


def test_a_device_sends_a_decoy_where_its_bucket_would_be_malformed():
    # How many reports were malformed must not depend on what devices hold.
    bucket = fleet_bucket(Unreadable(), "x")
    assert bucket == "x"
    assert encode_bucket(Unreadable(), bucket, 64) is None


@pytest.mark.parametrize(
    "question",
    [
        {"kind": "joint", "parts": [Values(("word",)).to_dict()]},  # "x" was malformed, "xy" a decoy
        {"kind": "joint", "parts": []},
        {"kind": "joint", "parts": [Joint((Values(("a",)), Values(("b",)))).to_dict(), Values(("c",)).to_dict()]},
        {"kind": "joint", "parts": [Below("a", 1.0).to_dict(), Values(("c",)).to_dict()]},
        {"kind": "cells", "column": "word", "lower": 0, "upper": 100, "cells": 2.5},  # 90 was malformed, 10 counted
        {"kind": "cells", "column": "word", "lower": 0, "upper": 100, "cells": True},
        {"kind": "prefixes", "column": "word", "length": 2.0, "known": 0, "parents": []},
    ],
)
def test_a_question_whose_buckets_cannot_be_read_back_is_refused_by_everybody(question):
    with pytest.raises((InvalidSetting, InvalidFormat)):
        from_dict(question)
    asked = msgspec.structs.replace(configuration(**ALWAYS), question=question)
    with pytest.raises(InvalidFormat):
        check_configuration(asked)
    core = device({"word": "x"})
    assert take(core, shown(asked)) == []
    assert core.outcome(asked.round).status == "refused"


def test_whole_numbers_of_any_type_still_make_cells_and_prefixes():
    assert Cells("x", 0, 1, np.int64(4)).bucket(0.6) == 2
    assert Prefixes("x", np.int64(2)).bucket("word") == "wo"


def test_a_server_that_names_ever_more_rounds_does_not_fill_a_device(monkeypatch):
    monkeypatch.setattr(device_core, "MOST_ROUNDS", 3)
    clock = StillClock()
    core = device({"word": "x"}, clock=clock)
    rounds = [configuration(f"round-{number}", index=number, query=f"query-{number}") for number in range(3)]
    assert take(core, shown(*rounds[:2])) == ["round-0", "round-1"]
    take(core, shown(*(configuration(f"more-{number}", index=2) for number in range(5))))
    assert len(core.outcomes()) == 3
    clock.time += core.policy.period + 3600
    assert take(core, shown(rounds[2])) == ["round-2"], "what is forgotten makes room"


def test_a_device_that_the_server_forgot_enrols_again_and_keeps_what_it_sealed():
    rounds, tokens, reports = [configuration()], ["first", "second"], []
    refused = Problem(type="urn:thresher:problem:unauthorised", title="", status=401, code="unauthorised", detail="")

    def said(message, status: int = 200) -> httpx.Response:
        kind = "application/problem+json" if message is refused else "application/json"
        return httpx.Response(
            status, content=encode(refused) if message is refused else message, headers={"content-type": kind}
        )

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v2/devices":
            return said(encode(Enrolled(version=2, token=tokens.pop(0))), 201)
        if request.headers["authorization"] == "Bearer first" and reports:
            return said(refused, 401)
        visit = decode(Visit, request.content)
        if not visit.reports:
            return said(shown(*rounds))
        reports.extend(visit.reports)
        return said(refused, 401) if len(reports) == 1 else said(shown(*rounds, **{"round-0": "taken"}))

    network = httpx.MockTransport(answer)
    with Device("http://server", "key", {"word": "x"}, transport=network, clock=StillClock()) as device:
        assert [outcome.status for outcome in device.check_in()] == ["sealed"]
        with pytest.raises(Unauthorised, match="again=True"):
            device.check_in()
        spends = device.core._kept.spends
        device.enrol()
        assert device.core.token == "first"
        device.enrol(again=True)
        assert device.core.token == "second"
        assert [outcome.status for outcome in device.check_in()] == ["taken"]
        assert device.core._kept.spends == spends
    assert reports[0] == reports[1], "no coin is tossed again"


def test_a_server_cannot_send_a_device_away_for_more_than_a_day():
    far_off = 250e9  # what "Retry-After: Fri, 31 Dec 9999 …" comes to; no event can be waited for so long
    assert 86_400 <= device_core.back_off(1, far_off) <= 86_400 + device_core.LARGEST_WAIT
    assert device_core.back_off(1, 100.0) >= 100.0


@pytest.mark.slow
def test_an_answer_is_never_longer_than_a_device_reads(tmp_path):
    store = CollectorStore.open(tmp_path)
    collector = Collector(store, StillClock(), aggregator=None)
    collector.add_enrolment_key("the key", "all")
    [enrolled] = collector.enrol(["the key"])
    [device] = collector.identify([enrolled.token])
    large = Bins("word", tuple(number + 0.123456789 for number in range(200_000)))  # 3.3 MB each
    for number in range(6):
        collector.open(configuration(f"round-{number}", question=large, query=f"query-{number}"))
    [visited] = collector.visit([NewVisit(device)])
    rounds = list(visited.rounds)
    body = collector.written((), visited, 60)
    listed = [read_round(text).name for text in decode(Visited, body).rounds]
    assert len(body) <= LARGEST_ANSWER < len(body) * len(rounds) / len(listed)
    assert listed == rounds[: len(listed)]
    store.close()


@pytest.mark.slow
def test_an_event_stream_ends_when_its_token_is_revoked(tmp_path):
    with inside(tmp_path / "data") as server:
        store, token = server.services.coordinator_store, new_token("analyst")
        store.add_token("maria", "analyst", token_hash(token), "maria", now=0.0)
        query = server.ask("POST", "/v1/queries", token, json=histogram_request()).json()["id"]

        async def watched() -> list[bytes]:
            identity = server.services.tokens.identify(token, ANALYST)
            events = query_events(Call(server.services, identity, {"query": query}, None, token))
            seen = [await anext(events)]
            store.revoke_token("maria", 1.0)
            async with asyncio.timeout(10):
                return seen + [event async for event in events]

        [first] = asyncio.run(watched())
        assert query.encode() in first
        assert server.services.streams.open == 0


@pytest.mark.slow
def test_a_live_page_ends_when_its_token_is_revoked(tmp_path):
    """The session is still there: nobody has come with it since."""
    callers = [object(), None]
    with inside(tmp_path / "data") as server:
        query = server.ask("POST", "/v1/queries", server.token("analyst"), json=histogram_request()).json()["id"]
        console = Console(
            server.services.coordinator,
            SimpleNamespace(caller=lambda token: callers.pop(0)),
            None,
            server.services.clock,
            SimpleNamespace(find=lambda identifier, touch: object()),
        )
        page = SimpleNamespace(query=query, session=SimpleNamespace(token="t", csrf="c"))
        request = SimpleNamespace(cookies={}, url=SimpleNamespace(scheme="http"))

        async def watched() -> list[str]:
            async with asyncio.timeout(10):
                return [message async for message in watch._messages(console, page, request)]

        assert len(asyncio.run(watched())) == 1
        assert callers == []


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"<html>default backend - 404</html>", ServerUnavailable),
        (b"", ServerUnavailable),
        (encode(Problem(type="t", title="t", status=404, code="not-found", detail="No such round.")), NotFound),
    ],
)
def test_a_proxy_that_finds_nobody_is_no_verdict_on_a_round(body, kind):
    # A query ends for good after a few verdicts; a role that restarts behind a proxy must not look like one.
    peer = HttpCollector("http://collector", "key")
    peer._client = httpx.Client(
        base_url="http://collector", transport=httpx.MockTransport(lambda request: httpx.Response(404, content=body))
    )
    with pytest.raises(kind):
        peer.progress("round-1")


def test_a_store_without_its_ledger_does_not_start(tmp_path):
    """A new machine with the old database, or a ledger from an old backup, would have its budget again."""
    roles, clock = Roles(["x"] * 100), StillClock(1_700_000_000.0)
    with contextlib.closing(CoordinatorStore.open(tmp_path)) as store:
        first = Coordinator(store, Ledger(tmp_path / "ledger.db", 2, 1e-4), clock, roles, roles, "fleet")
        first.submit(decode(QueryRequest, msgspec.json.encode(histogram_request())), "maria")
        with pytest.raises(Conflict, match="ledger does not hold"):
            Coordinator(store, Ledger(tmp_path / "other.db", 2, 1e-4), clock, roles, roles, "fleet")
        Coordinator(store, Ledger(tmp_path / "ledger.db"), clock, roles, roles, "fleet")


@pytest.mark.slow
@pytest.mark.parametrize("column", ["count", "estimate", "lower", "upper"])
def test_a_query_that_no_release_could_answer_is_refused_before_it_is_charged(tmp_path, column):
    asked = histogram_request()
    asked["query"]["question"]["columns"] = [column]
    with inside(tmp_path / "data") as server:
        analyst = server.token("analyst")
        assert server.ask("POST", "/v1/queries", analyst, json=asked).status_code == 422
        assert server.ask("GET", "/v1/ledger", analyst).json()["charges"] == []
