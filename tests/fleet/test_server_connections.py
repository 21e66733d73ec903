"""What one connection may take: the length of a head, seconds for head, body and answer, connections an address."""

import contextlib
import logging
import socket
import ssl
import threading

import pytest
from guarded_server import answer, guarding, until_closed
from test_server_running import certificate

from thresher.errors import InvalidSetting
from thresher.server.door import Door
from thresher.server.limits import Limits
from thresher.server.metrics import Metrics
from thresher.server.rare_log import Seldom

KIB = 1024
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


def send_all(connection: socket.socket, data: bytes) -> None:
    """Send; a server that has closed the connection is no error."""
    with contextlib.suppress(ConnectionError):
        connection.sendall(data)


def served(server, address: str = "127.0.0.1") -> bool:
    with server.connect(address) as other:
        other.sendall(GET)
        return answer(other).startswith(b"HTTP/1.1 200")


@pytest.mark.slow
@pytest.mark.parametrize(
    "endless",
    [
        b"GET / HTTP/1.1\r\nX: " + b"a" * (64 * KIB),
        b"GET /" + b"a" * (64 * KIB),
        b"GET / HTTP/1.1\r\n" + b"X: 1\r\n" * 11_000,
        b"GET / HTTP/1.1\r\nX: 1\r\n" + b" folded\r\n" * 8_000,
        b"G" * (64 * KIB),
        b"\r\n" * (32 * KIB),
    ],
    ids=["value", "url", "many", "folded", "method", "lines"],
)
def test_a_head_without_an_end_is_cut_off_before_the_parser_has_it(endless):
    with guarding() as server, server.connect() as hostile:
        send_all(hostile, endless)
        said = until_closed(hostile)
        assert not said or said.startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 400 "))
        assert sum(server.received) <= 20 * KIB
        assert served(server)


@pytest.mark.slow
def test_the_limit_of_a_head_is_exact():
    start, end = b"GET / HTTP/1.1\r\nHost: x\r\nX: ", b"\r\n\r\n"
    for length, served_ in ((16 * KIB, True), (16 * KIB + 1, False)):
        head = start + b"a" * (length - len(start) - len(end)) + end
        with guarding() as server, server.connect() as connection:
            send_all(connection, head)
            if served_:
                assert answer(connection).startswith(b"HTTP/1.1 200")
            else:
                assert b"HTTP/1.1 200" not in until_closed(connection)


def test_a_head_in_small_pieces_is_cut_off_too():
    with guarding() as server, server.connect() as hostile:
        hostile.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(ConnectionError):
            hostile.sendall(b"GET / HTTP/1.1\r\nX: ")
            for _ in range(2000):
                hostile.sendall(b"a" * 100)
        assert b"431" in until_closed(hostile)
        assert sum(server.received) <= 20 * KIB
        assert server.closed("head-bytes") == 1


def test_a_long_head_that_ends_in_time_is_served_again_and_again():
    """The count starts anew with every request, also where requests come in one piece."""
    long = b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * (15 * KIB) + b"\r\n\r\n"
    with guarding() as server, server.connect() as connection:
        for _ in range(3):
            connection.sendall(long)
            assert answer(connection).startswith(b"HTTP/1.1 200")
        connection.sendall(GET * 1000)
        said = b""
        while said.count(b"hello") < 1000:
            said += connection.recv(65536)


def test_a_body_is_not_counted_as_a_head_nor_what_follows_it():
    with guarding() as server, server.connect() as connection:
        body = b"POST /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + b"b" * 100_000
        for _ in range(3):
            connection.sendall(body + GET)
            said = b""
            while said.count(b"hello") < 2:
                said += connection.recv(65536)


@pytest.mark.parametrize(
    "endless",
    [
        b"POST /slow HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"a" * 100,
        b"POST /slow HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: " + b"a" * 100,
    ],
    ids=["extension", "trailer"],
)
@pytest.mark.slow
def test_what_surrounds_chunks_has_the_bodys_time_and_no_more(endless, monkeypatch):
    monkeypatch.setattr("thresher.server.connections._GRACE_SECONDS", 0.0)
    with guarding(body_seconds=0.2) as server, server.connect() as hostile:
        hostile.sendall(endless)
        until_closed(hostile)
        assert server.closed("body-seconds") == 1
        assert served(server)


CHUNKED = b"POST /slow HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "endless", [b"1;" + b"a" * (256 * KIB), b"0\r\nX: " + b"a" * (256 * KIB)], ids=["extension", "trailer"]
)
def test_what_surrounds_chunks_is_no_longer_than_a_head(endless):
    """A parser that keeps such a line whole copies it with every piece that comes: quadratic time."""
    with guarding() as server, server.connect() as hostile:
        send_all(hostile, CHUNKED + endless)
        until_closed(hostile)
        assert sum(server.received) <= 64 * KIB and server.closed("around-body") == 1
        assert served(server)


UPGRADES = [
    b"Connection: Upgrade\r\nUpgrade: foo\r\n",
    b"Connection: keep-alive, Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n",
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbX==\r\n",
]
INNER = b"GET /inner HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.slow
@pytest.mark.parametrize("cut", [True, False], ids=["in two", "in one"])
@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
@pytest.mark.parametrize("upgrade", UPGRADES, ids=["foo", "h2c", "websocket"])
def test_a_request_that_asks_for_another_protocol_is_read_as_if_it_did_not(upgrade, chunked, cut, caplog):
    """Its body is its body and never the next request, and a request that follows it is answered."""
    seen = []

    async def app(scope, receive, send):
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        seen.append((scope["method"], scope["path"], body))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
        await send({"type": "http.response.body", "body": b"hello"})

    length = b"Transfer-Encoding: chunked\r\n" if chunked else b"Content-Length: %d\r\n" % len(INNER)
    body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(INNER), INNER) if chunked else INNER
    head = b"POST /outer HTTP/1.1\r\nHost: x\r\n" + upgrade + length + b"\r\n"
    follows = b"GET /next HTTP/1.1\r\nHost: x\r\n" + upgrade + b"\r\n" + GET
    with guarding(app=app) as server, server.connect() as connection:
        connection.sendall(head if cut else head + body + follows)
        if cut:
            while not server.received:
                pass
            connection.sendall(body + follows)
        said = b""
        while said.count(b"hello") < 3:
            said += connection.recv(65536)
    assert seen == [("POST", "/outer", INNER), ("GET", "/next", b""), ("GET", "/", b"")]
    assert said.count(b"HTTP/1.1 200") == 3
    assert not caplog.records


@pytest.mark.slow
@pytest.mark.parametrize(
    "odd",
    [
        b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"CONNECT / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n",
        b"GET //: HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET http://[ HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET http://x HTTP/1.1\r\nHost: x\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST http://[ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: foo\r\nContent-Length: 1000\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST /slow HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nnot a number\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\nnot a number\r\n",
    ],
)
def test_no_request_is_an_error_of_ours(odd, caplog):
    """Whatever it is, and whatever follows it: no traceback is written for it."""
    with guarding() as server:
        for more in (b"", b"A" * 1000, GET, b"\0" * 20_000):
            with server.connect() as hostile:
                send_all(hostile, odd + more)
                hostile.shutdown(socket.SHUT_WR)
                until_closed(hostile)
        assert served(server)
    assert not [record for record in caplog.records if record.levelno > logging.WARNING or record.exc_info]


def test_a_body_that_breaks_off_in_the_middle_of_an_answer_ends_it_without_a_second_one(caplog):
    begun = threading.Event()

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"50")]})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        begun.set()
        while (await receive())["type"] != "http.disconnect":
            pass

    with guarding(app=app) as server, server.connect() as hostile:
        hostile.sendall(CHUNKED)
        assert begun.wait(60)
        hostile.sendall(b"not a number\r\n")
        said = until_closed(hostile)
    assert said.count(b"HTTP/1.1 ") == 1 and said.endswith(b"half")
    assert not [record for record in caplog.records if record.levelno > logging.WARNING or record.exc_info]


def test_many_chunks_with_extensions_are_one_body_and_trailers_are_no_headers():
    seen = []

    async def app(scope, receive, send):
        length, more = 0, True
        while more:
            message = await receive()
            length, more = length + len(message["body"]), message["more_body"]
        seen.append((length, [name for name, _ in scope["headers"]]))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
        await send({"type": "http.response.body", "body": b"hello"})

    with guarding(app=app) as server, server.connect() as connection:
        chunk = b"a;" + b"e" * (3 * KIB) + b"\r\n" + b"0123456789" + b"\r\n"
        connection.sendall(CHUNKED + chunk * 40 + b"0\r\nAuthorization: Bearer later\r\n\r\n")
        assert answer(connection).startswith(b"HTTP/1.1 200")
    assert seen == [(400, [b"host", b"transfer-encoding"])]


@pytest.mark.parametrize("sent", [b"", b"\r\n", b"GET / HTTP/1.1\r\nX: "], ids=["nothing", "line", "half"])
@pytest.mark.slow
def test_a_head_that_does_not_come_is_not_waited_for(sent):
    with guarding(head_seconds=0.2) as server, server.connect() as slow:
        slow.sendall(sent)
        assert until_closed(slow) == b"" and server.closed("head-seconds") == 1  # a timeout if it stays open
        assert served(server)


@pytest.mark.slow
def test_a_second_head_that_does_not_come_is_not_waited_for():
    with guarding(head_seconds=0.2) as server, server.connect() as slow:
        slow.sendall(GET)
        answer(slow)
        slow.sendall(b"GET / HTTP/1.1\r\nX: ")
        assert until_closed(slow) == b""
        assert server.closed("head-seconds") == 1


@pytest.mark.slow
def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch):
    monkeypatch.setattr("thresher.server.connections._GRACE_SECONDS", 0.0)
    with guarding(body_seconds=0.2) as server, server.connect() as slow:
        slow.sendall(b"POST /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
        assert until_closed(slow) == b""
        assert server.closed("body-seconds") == 1
        assert served(server)


def test_a_refused_body_that_goes_on_is_not_read_for_ever():
    with guarding() as server, server.connect() as hostile:
        hostile.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n")
        assert answer(hostile).startswith(b"HTTP/1.1 200")  # sent before the body has come
        with pytest.raises(ConnectionError):
            for _ in range(1000):
                hostile.sendall(b"b" * 65536)
        assert server.closed("body-bytes") == 1
        assert sum(server.received) < 1 << 20


@pytest.mark.slow
def test_an_answer_that_nobody_takes_is_given_up():
    with guarding(stall_seconds=0.2) as server:
        hostile = socket.socket()
        hostile.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with hostile:
            hostile.connect(("127.0.0.1", server.port))
            hostile.settimeout(60)
            hostile.sendall(b"GET /flood HTTP/1.1\r\nHost: x\r\n\r\n")
            while not server.closed("stall-seconds"):
                assert served(server)
            assert len(until_closed(hostile)) < 64 << 20


def test_an_address_holds_so_many_connections_and_others_are_served():
    with guarding(connections_per_address=5) as server, contextlib.ExitStack() as held:
        for _ in range(5):
            half = held.enter_context(server.connect("127.0.0.2"))
            half.sendall(b"GET / HTTP/1.1\r\nX: ")
        for _ in range(20):
            sixth = held.enter_context(server.connect("127.0.0.2"))
            assert until_closed(sixth) == b""
        assert server.closed("address") == 20
        for address in ("127.0.0.1", "127.0.0.3"):
            assert served(server, address)
        half.sendall(b"1\r\nHost: x\r\n\r\n")  # one of the five goes on, and its place is free again after it
        assert answer(half)
        half.close()
        held.callback(lambda: None)
        while server.door._by_address["127.0.0.2"] == 5:
            assert served(server)
        assert served(server, "127.0.0.2")


def test_a_trusted_proxy_may_hold_more():
    with guarding(connections_per_address=2, trusted=("127.0.0.2/32",)) as server, contextlib.ExitStack() as held:
        through = [held.enter_context(server.connect("127.0.0.2")) for _ in range(10)]
        for connection in through:
            connection.sendall(GET)
            assert answer(connection)
        assert server.closed("address") == 0


def test_a_newcomer_takes_the_place_of_who_waits_longest():
    with guarding(connections=3) as server, contextlib.ExitStack() as held:
        waiting = []
        for _ in range(3):
            half = held.enter_context(server.connect("127.0.0.2"))
            half.sendall(b"GET / HTTP/1.1\r\nX: ")
            waiting.append(half)
            while len(server.door._inside) < len(waiting):  # so that the order is known
                pass
        assert served(server)
        assert until_closed(waiting[0]) == b""
        waiting[1].sendall(b"1\r\nHost: x\r\n\r\n")
        assert answer(waiting[1])
        assert server.closed("server") == 1


def test_connections_count_before_tls_is_agreed_on(tmp_path):
    files = certificate(tmp_path)
    context = ssl.create_default_context(cafile=files[0])
    with guarding(connections_per_address=3, head_seconds=30, tls=files) as server, contextlib.ExitStack() as held:
        for _ in range(3):
            held.enter_context(server.connect("127.0.0.2")).sendall(b"\x16\x03\x01")
        fourth = held.enter_context(server.connect("127.0.0.2"))
        assert until_closed(fourth) == b""
        with context.wrap_socket(server.connect(), server_hostname="127.0.0.1") as secure:
            for _ in range(2):
                secure.sendall(GET)
                assert answer(secure).startswith(b"HTTP/1.1 200")
        assert server.closed("address") == 1


@pytest.mark.slow
def test_a_tls_handshake_that_does_not_come_is_not_waited_for(tmp_path):
    with guarding(head_seconds=0.2, tls=certificate(tmp_path)) as server, server.connect() as slow:
        slow.sendall(b"\x16\x03\x01")
        until_closed(slow)
        while server.door._inside:  # a hang, if its place were not given back
            pass
        assert not server.door._by_address


class Peer:
    def __init__(self, address):
        self.address = address
        self.aborted = False

    def get_extra_info(self, name):
        return self.address

    def abort(self):
        self.aborted = True


def test_addresses_are_told_apart_as_networks_give_them_out():
    door = Door(Limits(), Metrics(), trusted=("10.0.0.0/8", "2001:db8:1::/48"))
    assert (
        door._key(("2001:db8::1", 1, 0, 0)) == door._key(("2001:db8::ffff:2", 1, 0, 0)) != door._key(("2001:db9::1",))
    )
    assert door._key(("::ffff:192.0.2.7", 1)) == door._key(("192.0.2.7", 1)) == "192.0.2.7"
    assert door._key(("fe80::1%eth0", 1, 0, 0)) == "fe80::/64"
    for free in (("10.1.2.3", 1), ("::ffff:10.1.2.3", 1), ("2001:db8:1::9", 1), "", None, ()):
        assert door._key(free) is None


def test_a_limit_is_logged_once_a_minute_without_an_address(caplog):
    now = [0.0]
    door = Door(Limits(), Metrics(), now=lambda: now[0])
    with caplog.at_level(logging.WARNING):
        for _ in range(100):
            door.tell("address")
        assert len(caplog.records) == 1
        now[0] = 61.0
        door.tell("address")
    assert len(caplog.records) == 2 and "(100 since" in caplog.records[1].getMessage()


def test_lines_that_anybody_can_cause_are_logged_seldom():
    now = [0.0]
    seldom = Seldom(now=lambda: now[0], most=2)

    def said(level, text):
        return seldom.filter(logging.LogRecord("x", level, "", 0, text, (), None))

    assert [said(logging.WARNING, "bad") for _ in range(3)] == [True, False, False]
    assert [said(logging.ERROR, "worse") for _ in range(3)] == [True, True, True]
    seldom = Seldom(now=lambda: now[0], most=2, errors=True)
    assert [said(logging.ERROR, f"worse\nat {number}") for number in range(3)] == [True, False, False]
    assert [said(logging.WARNING, "bad") for _ in range(3)] == [True, False, False]
    now[0] = 61.0
    assert said(logging.WARNING, "bad")
    for text in ("b", "c", "d"):
        said(logging.WARNING, text)
    assert len(seldom._said) == 2


@pytest.mark.parametrize("wrong", [{"connections": 0}, {"connections_per_address": 0}])
def test_a_door_lets_somebody_in(wrong):
    with pytest.raises(InvalidSetting):
        Limits(**wrong)
