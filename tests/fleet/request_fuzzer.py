"""Sends requests that nobody sensible sends, and fails on the first answer that no server should give."""

from __future__ import annotations

import contextlib
import copy
import json
import re
import secrets
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
from canary_cases import tokens_of
from fleet_server import RunningServer
from fleet_under_load import Handful, ask, await_query
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode

from thresher.questions import END

LONGEST_SECONDS = 30.0
"""A plan at the edge of what is allowed takes some seconds to verify; nothing takes longer than that."""
QUIET = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck), print_blob=True)


# Anything

leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(
        ["a", "ab", "abc", f"a{END}", END, "e\u0301", "é", "2024-01-01", "2024-01-02", 0, 18, 18.0, 15, 16]
    )
)
documents = st.recursive(
    leaves, lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(max_size=6), inside, max_size=3)
)
extremes = st.sampled_from(
    [0, -1, 1, 2**31, 2**53, 2**63, 2**64, 10**30, 0.0, -0.0, 5e-324, 1e-300, 1e300, 0.999999999, 1e-9, "", "x" * 300,
     "\x00", "replace", "add-remove", "trie", "one-shot", "device", "aggregator", [], {}, [[]], [0, 1], [0.5] * 40]
)  # fmt: skip


LEFT_OUT = object()
replacements = st.just(LEFT_OUT) | extremes | leaves | documents


# Requests


def resident(server: RunningServer) -> int:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


class Fuzzer:
    """Sends what schemathesis makes up to a server, mostly with the token that opens the route."""

    def __init__(self, server: RunningServer) -> None:
        self.server = server
        self.few = Handful(server, {"one": "x"})
        self.tokens = tokens_of(server, self.few.devices["one"].token)
        self.client = server.client()
        self.statuses: Counter[int] = Counter()
        self.slowest: tuple[float, str] = (0.0, "")
        with server.client(server.analyst) as analyst:
            # One release before anything is measured: what it needs is imported then.
            await_query(analyst, ask(analyst, "first", seconds=0.5))
            self.query = ask(analyst, "known", seconds=3600)
            self.round = await_query(analyst, self.query, opened=True)["rounds"][0]["round"]

    def close(self) -> None:
        self.client.close()

    def fuzz(self, operation: Any, mode: GenerationMode, cases: int) -> None:
        """Cases that the document allows, or does not. Nothing can be wrong with a request that has no parts."""
        security = operation.definition.raw.get("security", [])
        kinds = [kind for entry in security for kind in entry]
        if mode is GenerationMode.NEGATIVE and (not kinds or {} in security):
            return
        number = 0

        @settings(QUIET, max_examples=cases)
        @given(operation.as_strategy(mode))
        def send(case: Any) -> None:
            nonlocal number
            number += 1
            token = self.tokens[kinds[0]] if kinds else None
            if kinds and number % 10 == 0:
                token = secrets.choice(list(self.tokens.values()))
            self.send(case, token, known=number % 3 == 0)

        send()

    def send(self, case: Any, token: str | None, *, known: bool) -> None:
        if known:
            real = {"query": self.query, "round": self.round}
            case.path_parameters = {name: real.get(name, value) for name, value in (case.path_parameters or {}).items()}
        if case.path.endswith("/events") and (case.path_parameters or {}).get("query") == self.query:
            return  # it would go on as long as the query does
        arguments = case.as_transport_kwargs(base_url=self.server.url)
        headers = sendable(arguments.get("headers") or {})
        if token is not None:
            headers[b"Authorization"] = f"Bearer {token}".encode()
        self.request(
            arguments["method"], arguments["url"], params=arguments.get("params"), headers=headers,
            json=arguments.get("json"), content=arguments.get("data"),
        )  # fmt: skip

    def request(self, method: str, url: str, **content: Any) -> None:
        begun = time.monotonic()
        try:
            answer = self.client.request(method, url, timeout=LONGEST_SECONDS, **content)
        except (httpx.InvalidURL, httpx.LocalProtocolError, UnicodeError, TypeError, ValueError):
            self.statuses[0] += 1  # what this client cannot send
            return
        except httpx.TimeoutException:
            raise AssertionError(f"{method} {url} hangs: {content}") from None
        self.slowest = max(self.slowest, (time.monotonic() - begun, f"{method} {url} {content.get('content')!r}"))
        self.statuses[answer.status_code] += 1
        assert answer.status_code < 500, f"{method} {url} {content} gave {answer.status_code} {answer.text}"
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == "application/problem+json"
            assert set(answer.json()) >= {"type", "title", "status", "code", "detail"}

    def nearly_right(self, operation: Any, body: Any, cases: int) -> None:
        """A body that would be taken, with one to three of its parts replaced or left out."""
        [kind, *_] = [kind for entry in operation.definition.raw["security"] for kind in entry]
        headers = {"Authorization": f"Bearer {self.tokens[kind]}", "Content-Type": "application/json"}
        url = self.server.url + re.sub(r"{\w+}", "r1", operation.path)
        places = list(parts_of(body))

        @settings(QUIET, max_examples=cases)
        @given(
            st.lists(st.tuples(st.sampled_from(places), replacements), min_size=1, max_size=3), st.integers(0, 1 << 30)
        )
        def send(changes: list[tuple[tuple[Any, ...], Any]], number: int) -> None:
            changed = copy.deepcopy(body)
            for place, value in changes:
                change(changed, place, value)
            if number % 4 and isinstance(changed, dict) and "name" in changed:
                changed["name"] = f"n{number}"  # a name that is taken ends most requests
            self.request(operation.method, url, headers=headers, content=json.dumps(changed).encode())

        send()


def parts_of(body: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where in a document something could be changed."""
    inside = body.items() if isinstance(body, dict) else enumerate(body) if isinstance(body, list) else ()
    for key, value in inside:
        yield (*place, key)
        yield from parts_of(value, (*place, key))


def change(body: Any, place: tuple[Any, ...], value: Any) -> None:
    for key in place[:-1]:
        try:
            body = body[key]
        except (KeyError, IndexError, TypeError):
            return  # an earlier change took it away
    if isinstance(body, dict) and value is LEFT_OUT:
        body.pop(place[-1], None)
    elif isinstance(body, dict | list):
        with contextlib.suppress(TypeError, IndexError):
            body[place[-1]] = None if value is LEFT_OUT else copy.deepcopy(value)


def sendable(headers: Any) -> dict[bytes, bytes]:
    return {
        str(name).encode("latin-1", "replace"): str(value).encode("latin-1", "replace").strip()
        for name, value in headers.items()
        if str(value).isprintable()
    }
