"""Limits: bytes a request, requests a second, rounds and queries at a time."""

import asyncio
import contextlib
import math
import re
import socket
import subprocess
import sys
import time

import httpx
import pytest
from fleet_server import started
from server_cases import ASK, ENROL, configuration_of, histogram_request, inside

from thresher.console.adapter import console_pages
from thresher.errors import InvalidSetting
from thresher.server import event_streams
from thresher.server.app import ROUTES
from thresher.server.limits import MIB, Bodies, Limits, Rate, Streams, TokenBuckets, read_body
from thresher.server.problem import Refused


def receiving(*chunks: bytes, pause: float = 0.0):
    left = list(chunks)
    taken = []

    async def receive():
        await asyncio.sleep(pause)
        taken.append(left[0])
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    return receive, taken


def read(receive, *, largest=100, headers=(), seconds=5.0):
    return asyncio.run(read_body({"headers": list(headers)}, receive, largest, seconds))


def test_a_body_up_to_the_limit_is_read_whole_however_it_is_cut():
    for cut in ([b"x" * 100], [b"x" * 50] * 2, [b"x"] * 100, [b"", b"x" * 100, b""]):
        assert read(receiving(*cut)[0]) == b"x" * 100


@pytest.mark.parametrize("cut", [[b"x" * 101], [b"x" * 100, b"x"], [b"x"] * 101])
def test_a_body_above_the_limit_is_refused_however_it_is_cut(cut):
    with pytest.raises(Refused) as refused:
        read(receiving(*cut)[0])
    assert refused.value.status == 413


def test_reading_stops_at_the_limit():
    receive, taken = receiving(*[b"x" * 60] * 1000)
    with pytest.raises(Refused):
        read(receive)
    assert len(taken) == 2


@pytest.mark.parametrize("length", [b"101", b"9" * 30, b"-1", b"1e3", b""])
def test_a_stated_length_above_the_limit_is_refused_unread(length):
    receive, taken = receiving(b"x")
    with pytest.raises(Refused) as refused:
        read(receive, headers=[(b"content-length", length)])
    assert refused.value.status == 413 and not taken


def test_a_body_that_trickles_is_refused():
    with pytest.raises(Refused) as refused:
        read(receiving(*[b"x"] * 50, pause=0.02)[0], seconds=0.1)
    assert refused.value.status == 408


def test_a_caller_that_goes_away_is_not_an_error_of_ours():
    async def receive():
        return {"type": "http.disconnect"}

    with pytest.raises(ConnectionResetError):
        read(receive)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with inside(tmp_path_factory.mktemp("limits") / "data") as server:
        yield server


@pytest.mark.parametrize(
    "route", [route for route in ROUTES if route.method in ("POST", "PUT")], ids=lambda route: route.name
)
def test_every_route_that_takes_a_body_has_a_limit(server, route):
    token = server.enrol() if route.opens == ("device",) else server.token(route.opens[0])
    path = route.path.replace("{round}", "r").replace("{query}", "q").replace("{number}", "0")

    async def chunks():
        for _ in range(route.largest_body // 65_536 + 1):
            yield b" " * 65_536
        yield b" "

    assert server.ask(route.method, path, token, content=chunks()).status_code == 413  # chunked, of unknown length
    too_long = {"Content-Length": str(route.largest_body + 1)}
    assert server.ask(route.method, path, token, headers=too_long, content=b"").status_code == 413


def test_device_routes_take_so_many_bytes_at_most():
    for route in ROUTES:
        if set(route.opens) & {"device", "enrolment"}:
            assert route.largest_body == {"enrol": 64, "visit": 256}[route.name] * 1024


class Seconds:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_a_token_bucket_lets_through_its_burst_and_then_its_rate():
    clock = Seconds()
    buckets = TokenBuckets(Rate(2, 5), now=clock)
    for _ in range(5):
        buckets.take("a")
    with pytest.raises(Refused) as refused:
        buckets.take("a")
    assert refused.value.status == 429 and refused.value.retry_after == pytest.approx(0.5)
    buckets.take("b")  # another caller has a bucket of its own
    clock.now = 0.5
    buckets.take("a")
    with pytest.raises(Refused):
        buckets.take("a")
    clock.now = 1000.0
    for _ in range(5):
        buckets.take("a")
    with pytest.raises(Refused):
        buckets.take("a")


def test_refused_requests_cost_nothing():
    clock = Seconds()
    buckets = TokenBuckets(Rate(1, 1), now=clock)
    buckets.take("a")
    for step in range(9):
        clock.now = step / 10
        with pytest.raises(Refused):
            buckets.take("a")
    clock.now = 1.0
    buckets.take("a")


def test_buckets_forget_the_caller_seen_longest_ago():
    buckets = TokenBuckets(Rate(1, 1), most=3, now=Seconds())
    for caller in ("a", "b", "c"):
        buckets.take(caller)
    with pytest.raises(Refused):
        buckets.take("a")  # seen again, so b is now the oldest
    buckets.take("d")
    buckets.take("b")
    with pytest.raises(Refused):
        buckets.take("a")


@pytest.mark.parametrize(("per_second", "burst"), [(0, 1), (-1, 1), (float("nan"), 1), (1, 0), (1, float("nan"))])
def test_a_rate_is_above_zero(per_second, burst):
    with pytest.raises(InvalidSetting):
        Rate(per_second, burst)


def test_each_token_has_a_rate_of_its_own(tmp_path):
    slow = {kind: Rate(0.001, 2) for kind in ("device", "enrolment", "analyst", "operator", "peer")}
    with inside(tmp_path / "data", limits=Limits(rates=slow)) as server:
        devices = [server.enrol(), server.enrol()]
        assert server.ask("POST", "/v2/devices", server.token("enrolment"), json=ENROL).status_code == 429
        for path, tokens in (("/v2/visit", devices), ("/v1/ledger", [server.token("analyst")])):
            method = "POST" if path == "/v2/visit" else "GET"
            body = ASK if method == "POST" else None
            for token in tokens:
                statuses = [server.ask(method, path, token, json=body).status_code for _ in range(3)]
                assert statuses == [200, 200, 429]
        answer = server.ask("GET", "/v1/ledger", server.token("analyst"))
        assert int(answer.headers["retry-after"]) >= 1 and answer.json()["code"] == "too-many-requests"


def test_a_token_that_is_not_known_is_limited_before_it_is_looked_up(tmp_path):
    slow = Limits(rates=Limits().rates | {"analyst": Rate(0.001, 2)})
    with inside(tmp_path / "data", limits=slow) as server:
        wrong = "thresher-analyst-" + "x" * 32
        assert [server.ask("GET", "/v1/ledger", wrong).status_code for _ in range(3)] == [401, 401, 429]


@pytest.mark.slow
def test_the_number_of_open_rounds_is_limited(tmp_path):
    with inside(tmp_path / "data", limits=Limits(open_rounds=2)) as server:
        key = server.token("coordinator-to-collector")

        def opened(name):
            configuration = configuration_of(server.services.aggregator, name).text
            return server.ask("POST", "/v1/peer/collector/rounds", key, json={"configuration": configuration})

        assert [opened(name).status_code for name in ("r1", "r2", "r3")] == [204, 204, 429]
        assert opened("r2").status_code == 204  # asking again is not one more
        assert server.ask("POST", "/v1/peer/collector/rounds/r1/close", key).status_code == 200
        assert opened("r3").status_code == 204


@pytest.mark.slow
def test_the_number_of_running_queries_is_limited(tmp_path):
    with inside(tmp_path / "data", limits=Limits(open_queries=2), budget_epsilon=100, budget_delta=1e-4) as server:
        analyst = server.token("analyst")

        def asked(name):
            return server.ask("POST", "/v1/queries", analyst, json=histogram_request(name))

        first = asked("a")
        assert [first.status_code, asked("b").status_code, asked("c").status_code] == [200, 200, 409]
        assert asked("b").status_code == 200  # asking again is not one more
        assert server.ask("POST", f"/v1/queries/{first.json()['id']}/cancel", analyst).status_code == 200
        assert asked("c").status_code == 200


def test_a_stream_whose_reader_has_gone_is_given_back_at_once(tmp_path, monkeypatch):
    """Not only with the next event, which may be long in coming: streams are limited in number."""
    monkeypatch.setattr(event_streams, "_QUIET_SECONDS", math.inf)
    with inside(tmp_path / "data", limits=Limits(streams=1)) as server:
        analyst = server.token("analyst")
        query = server.ask("POST", "/v1/queries", analyst, json=histogram_request(seconds=3600)).json()["id"]
        scope = {
            "type": "http", "method": "GET", "path": f"/v1/queries/{query}/events", "query_string": b"",
            "headers": [(b"authorization", f"Bearer {analyst}".encode())],
        }  # fmt: skip

        async def read_and_go():
            begun = asyncio.Event()

            async def receive():
                await begun.wait()
                return {"type": "http.disconnect"}

            async def send(message):
                if message.get("body"):
                    assert server.services.streams.open == 1
                    begun.set()

            await server.app(scope, receive, send)

        for _ in range(2):
            asyncio.run(read_and_go())
            assert server.services.streams.open == 0


@pytest.mark.slow
def test_a_real_server_refuses_an_endless_chunked_body_and_goes_on(tmp_path):
    with started(tmp_path / "data", "--no-console") as server, server.client() as client:
        token = client.post("/v2/devices", json=ENROL, headers={"Authorization": f"Bearer {server.enrolment_key}"})
        device = token.json()["token"]
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw:
            head = f"POST /v2/visit HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {device}\r\n"
            raw.sendall(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n")
            raw.settimeout(0.01)
            answer = b""
            end = time.monotonic() + 60
            while b"\r\n\r\n" not in answer and time.monotonic() < end:
                with_chunk = b"4000\r\n" + b" " * 0x4000 + b"\r\n"
                # The server answers and closes, perhaps in between: what it said can be read all the same.
                with contextlib.suppress(TimeoutError, ConnectionError):
                    raw.sendall(with_chunk)
                with contextlib.suppress(TimeoutError):
                    answer += raw.recv(4096)
            assert answer.startswith(b"HTTP/1.1 413")
        assert client.get("/healthz").status_code == 200


def test_a_crowded_server_says_when_to_come_back_and_shows_its_health(server, monkeypatch):
    monkeypatch.setattr(server.app, "crowded", lambda: True)
    refused = server.ask("POST", "/v2/visit", json=ASK)
    assert refused.status_code == 503 and refused.headers["retry-after"] == "5"
    assert refused.json()["code"] == "too-many-connections"
    for path in ("/healthz", "/readyz", "/metrics"):
        assert server.ask("GET", path).status_code == 200


def test_a_request_has_at_most_100_headers(server):
    many = {f"X-{number}": "1" for number in range(101)}
    assert server.ask("GET", "/healthz", headers=many).status_code == 431


def test_streams_are_limited_in_all_and_for_each_caller():
    streams = Streams(3, 2)
    with contextlib.ExitStack() as held:
        for _ in range(2):
            held.enter_context(streams.hold(b"a"))
        with pytest.raises(Refused), streams.hold(b"a"):
            pass
        with streams.hold(b"b"), pytest.raises(Refused), streams.hold(b"c"):
            pass
        with streams.hold(b"c"):  # b has given its place back
            pass
    assert streams.open == 0


def test_bytes_of_bodies_are_limited_in_all_and_for_each_caller(tmp_path):
    """A body counts from before its first byte is read until its request is answered, and as its longest if unsaid."""
    limits = Limits(body_bytes=9 * MIB, body_bytes_per_caller=5 * MIB)
    with inside(tmp_path / "data", limits=limits) as server:
        bodies = server.services.bodies

        async def post(kind: str, length: int | None, come: asyncio.Event | None = None) -> tuple[int, int]:
            said = []
            headers = [(b"authorization", f"Bearer {server.token(kind)}".encode())]
            if length is not None:
                headers.append((b"content-length", str(length).encode()))
            scope = {
                "type": "http", "method": "POST", "path": "/v1/plans", "query_string": b"", "headers": headers,
            }  # fmt: skip

            async def receive():
                assert come is not None, "a request that is refused is not read"
                await come.wait()
                return {"type": "http.request", "body": b"{", "more_body": False}

            async def send(message):
                said.append(message)

            await server.app(scope, receive, send)
            return said[0]["status"], bodies.open

        async def all_of_them() -> None:
            come = asyncio.Event()
            held = [
                asyncio.ensure_future(post("analyst", None, come)),  # 4 MiB, the most that this route takes
                asyncio.ensure_future(post("operator", 4 * MIB, come)),
            ]
            while bodies.open < 8 * MIB:
                await asyncio.sleep(0)
            assert await post("analyst", MIB + 1) == (429, 8 * MIB)
            assert await post("operator", None) == (429, 8 * MIB)
            fits = asyncio.ensure_future(post("operator", MIB, come))
            while bodies.open < 9 * MIB:
                await asyncio.sleep(0)
            assert await post("analyst", 1) == (503, 9 * MIB)
            come.set()
            assert {status for status, _ in await asyncio.gather(*held, fits)} == {400}
            assert bodies.open == 0

        asyncio.run(all_of_them())
        assert server.ask("POST", "/v1/plans", server.token("analyst"), json=histogram_request()).status_code == 200


def test_forms_are_limited_and_strangers_send_little(tmp_path):
    with inside(tmp_path / "data", pages=console_pages) as server:
        form = {"content-type": "application/x-www-form-urlencoded"}
        for length, status in ((16 << 10, 403), ((16 << 10) + 1, 413)):
            answer = server.ask("POST", "/login", content=b"a=" + b"a" * (length - 2), headers=form)
            assert answer.status_code == status
    bodies = Bodies(3, 2)
    with bodies.hold(b"a", 2), pytest.raises(Refused) as refused, bodies.hold(b"a"):
        pass
    assert refused.value.status == 429
    with bodies.hold(b"a", 2), pytest.raises(Refused) as refused, bodies.hold(b"b", 2):
        pass
    assert refused.value.status == 503 and bodies.open == 0


GUARDED = """
import sys
from pathlib import Path
from thresher.server.assembly import Settings
from thresher.server.limits import Limits
from thresher.server.serving import serve
limits = Limits(connections=50, connections_per_address=20, head_seconds=0.5)
serve(Settings(data_dir=Path(sys.argv[1]), port=0, limits=limits), ready=lambda url: print(url, flush=True))
"""


@pytest.mark.slow
def test_half_sent_requests_do_not_keep_others_out_of_a_real_server(tmp_path):
    command = [sys.executable, "-c", GUARDED, str(tmp_path / "data")]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process,
        contextlib.ExitStack() as held,
    ):
        try:
            url = next(line.strip() for line in process.stdout if line.startswith("http"))
            place = ("127.0.0.1", int(url.rpartition(":")[2]))

            def half(address):
                connection = socket.create_connection(place, timeout=60, source_address=(address, 0))
                held.enter_context(connection)
                with contextlib.suppress(ConnectionError):
                    connection.sendall(b"GET / HTTP/1.1\r\nX: ")
                return connection

            hostile = [half(f"127.0.0.{max(2, number // 40)}") for number in range(250)]
            with httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
                assert client.get("/healthz").status_code == 200
                for connection in hostile:  # each is closed, or this is a timeout
                    with contextlib.suppress(ConnectionError):
                        assert connection.recv(1) == b""
                metrics = client.get("/metrics").text
            numbers = re.findall(r'thresher_connections_closed_total\{reason="([a-z-]+)"\} (\d+)', metrics)
            assert sum(int(number) for _, number in numbers) == 250
            assert {"address", "server"} <= {reason for reason, _ in numbers}
        finally:
            process.terminate()
        log = process.stderr.read()
    assert "its address holds as many as one address may" in log and "127.0.0" not in log
