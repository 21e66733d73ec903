"""Why a server cannot be reached: every door says what is wrong, and which setting helps."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from fleet_server import started
from own_authority import Authority
from typer.testing import CliRunner

from thresher.cli.app import app
from thresher.cli.error_words import in_command_words
from thresher.client.fleet import Fleet
from thresher.device.device import Device
from thresher.errors import InvalidSetting, ServerUnavailable
from thresher.server.peers import HttpAggregator
from thresher.simulator.http_client import HttpClient
from thresher.unreachable import trusted


class Handler(BaseHTTPRequestHandler):
    """Would answer anything, if a connection came about."""

    def do_POST(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    do_GET = do_POST

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def serving(certificate=None):
    """A server on loopback, with a certificate if given; its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.cert, certificate.key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http{'s' if certificate else ''}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


def by_device(url: str, ca_file) -> None:
    with Device(url, "key", {"word": "x"}, ca_file=ca_file, patience=0) as device:
        device.check_in()


def by_loop(url: str, ca_file) -> None:
    asyncio.run(Device(url, "key", {"word": "x"}, ca_file=ca_file, patience=0).check_in_async())


def by_analyst(url: str, ca_file) -> None:
    with Fleet(url, "key", ca_file=ca_file, patience=0) as fleet:
        fleet.queries()


def by_peer(url: str, ca_file) -> None:
    peer = HttpAggregator(url, "key", verify=trusted(ca_file))
    try:
        peer.public_key()
    finally:
        peer.disconnect()


def by_simulator(url: str, ca_file) -> None:
    asyncio.run(HttpClient(url, ca_file=ca_file).send("POST", "/", None, b""))


DOORS = [by_device, by_loop, by_analyst, by_peer, by_simulator]


@pytest.fixture(params=DOORS, ids=lambda door: door.__name__)
def door(request):
    return request.param


def test_a_certificate_that_is_not_trusted(authority, door):
    with serving(authority.certificate("127.0.0.1")) as url:
        with pytest.raises(ServerUnavailable, match=r"certificate of .* is not trusted") as refused:
            door(url, None)
        assert "ca_file=" in refused.value.hint
        assert "--ca-file" in in_command_words(refused.value, [])[1]
        assert url in refused.value.message


def test_a_certificate_for_another_name(authority, door):
    with serving(authority.certificate("fleet.example")) as url, pytest.raises(ServerUnavailable, match="another name"):
        door(url, authority.file)


def test_a_certificate_that_has_expired(authority, door):
    certificate = authority.certificate("127.0.0.1", days=-1.0)
    with serving(certificate) as url, pytest.raises(ServerUnavailable, match="not valid at this time"):
        door(url, authority.file)


@pytest.mark.slow
def test_a_server_without_a_certificate(door):
    with serving() as url, pytest.raises(ServerUnavailable, match="No secure connection") as refused:
        door(url.replace("http://", "https://"), None)
    assert "https://" in refused.value.hint


def test_nobody_listens(door):
    with socket.socket() as taken:  # bound and not listening: nobody else gets the port
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(ServerUnavailable, match="No server listens"):
            door(f"http://127.0.0.1:{taken.getsockname()[1]}", None)


def test_a_name_that_is_not_known(door):
    with pytest.raises(ServerUnavailable, match=r"The name in .* is not known"):
        door("http://no-such-machine.invalid", None)


@pytest.mark.parametrize("content", [None, b"", b"no certificate"])
def test_a_file_that_holds_no_certificates(tmp_path, content):
    path = tmp_path / "authority.pem"
    if content is not None:
        path.write_bytes(content)
    makers = [
        lambda: Device("https://127.0.0.1:9", "key", {}, ca_file=path),
        lambda: Fleet("https://127.0.0.1:9", "key", ca_file=path),
        lambda: HttpClient("https://127.0.0.1:9", ca_file=path),
    ]
    for make in makers:
        with pytest.raises(InvalidSetting, match=r"ca_file .* certificates"):
            make()


def test_a_lasting_failure_is_not_waited_for(authority):
    """A certificate does not become valid by waiting: nothing is tried twice, however patient the caller is."""
    waits: list[float] = []
    with serving(authority.certificate("127.0.0.1")) as url:
        with pytest.raises(ServerUnavailable), Device(url, "key", {}, sleep=waits.append) as device:
            device.check_in()
        with pytest.raises(ServerUnavailable), Fleet(url, "key", sleep=waits.append) as fleet:
            fleet.queries()
    assert waits == []


@pytest.mark.slow
def test_every_client_takes_the_authority_of_a_real_server(tmp_path, authority):
    made, command = authority.certificate("127.0.0.1"), CliRunner()
    trust = ["--ca-file", str(authority.file)]
    with started(tmp_path / "data", "--tls-cert", str(made.cert), "--tls-key", str(made.key)) as server:
        with Device(server.url, server.enrolment_key, {"word": "x"}, ca_file=authority.file) as device:
            assert device.check_in() == []
        with Fleet(server.url, server.analyst, ca_file=authority.file) as fleet:
            assert fleet.overview().enrolled == 1
        asked = ["fleet", "list", "--server", server.url, "--key", server.analyst]
        assert command.invoke(app, [*asked, *trust]).exit_code == 0
        state = str(tmp_path / "device.json")
        runs = ["device", "--server", server.url, "--attribute", "word=x", "--state", state, "--once"]
        runs += ["--enrolment-key", server.enrolment_key]
        assert command.invoke(app, [*runs, *trust]).exit_code == 0
        for arguments in (asked, runs):
            refused = command.invoke(app, arguments)
            assert isinstance(refused.exception, ServerUnavailable)
            assert "is not trusted" in str(refused.exception) and "ca_file=" in str(refused.exception)
