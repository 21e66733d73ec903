"""Webhooks: only allowed addresses, against real receivers that fail, hang, redirect or send more than is read."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import socketserver
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from alert_cases import ABOVE, NEVER, Watched
from series_cases import DAY, WEEK, follow

from thresher._version import __version__
from thresher.errors import InvalidSetting, StoreUnavailable
from thresher.roles.coordinator import alerts
from thresher.server.assembly import Settings
from thresher.server.webhook_sender import WebhookSender
from thresher.server.webhooks import Webhook, check_no_credentials, read_webhooks


class Receiver:
    """An HTTP server on this machine; `answers` are the statuses that it answers with, the last one for ever."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.received = []
        self.release = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.received.append((self.path, dict(self.headers), body))
                answer = receiver.answers.pop(0) if len(receiver.answers) > 1 else receiver.answers[0]
                if callable(answer):
                    with contextlib.suppress(OSError):
                        answer(self)
                    return
                self.send_response(answer)
                if 300 <= answer < 400:
                    self.send_header("Location", f"http://127.0.0.1:{receiver.port}/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_GET = do_POST

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/hooks/secret-path"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self.release.set()
        self._server.shutdown()
        self._server.server_close()

    def hang(self, handler):
        self.release.wait(60)

    def drip(self, handler):
        """Send a header now and then, so that no single read takes long."""
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
        for number in range(600):
            handler.wfile.write(b"X-%d: slow\r\n" % number)
            handler.wfile.flush()
            if self.release.wait(0.1):
                return

    def flood(self, handler):
        """Say that the message was taken, and then send without an end."""
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        while not self.release.is_set():
            handler.wfile.write(b"x" * 65_536)
            self.flooded = getattr(self, "flooded", 0) + 65_536


@pytest.fixture
def receivers():
    with contextlib.ExitStack() as stack:

        def make(*answers):
            receiver = Receiver(*answers)
            stack.callback(receiver.close)
            return receiver

        yield make


@pytest.fixture
def server(tmp_path):
    running = Watched(tmp_path)
    running.follow_words()
    yield running
    running.close()


def sender_of(server, *receivers, seconds=5.0, **settings):
    names = ("ops", "chat")
    webhooks = [Webhook(name, each.url) for name, each in zip(names, receivers, strict=False)]
    return WebhookSender(server.coordinator.alerts, webhooks, seconds=seconds, **settings)


def shown(server):
    return [(alert.delivery, alert.tries) for alert in server.coordinator.alerts.alerts(server.series)]


def test_an_alert_is_posted_once(server, receivers):
    server.start(public_url="https://fleet.example")
    server.watch(ABOVE, "ops")
    server.watch(NEVER, "ops")
    follow(server, DAY)
    receiver = receivers(204)
    sender = sender_of(server, receiver, secret="s3cret")
    assert sender.send_due() == 1 and sender.send_due() == 0
    [(path, headers, body)] = receiver.received
    assert path == "/hooks/secret-path"
    assert headers["Content-Type"] == "application/json" and headers["User-Agent"] == f"thresher/{__version__}"
    assert headers["Thresher-Signature"] == f"sha256={hmac.new(b's3cret', body, hashlib.sha256).hexdigest()}"
    [alert] = server.coordinator.alerts.alerts(server.series)
    content = json.loads(body)
    assert (content["id"], content["text"], content["more"]) == (alert.id, alert.text, 0)
    assert content["findings"][0]["estimate"] == alert.findings[0].estimate
    assert (alert.delivery, alert.tries) == ("sent", 1)


def test_a_failure_is_followed_by_the_same_message(server, receivers):
    server.watch(ABOVE, "ops")
    follow(server, DAY)
    receiver = receivers(500, 200)
    sender = sender_of(server, receiver)
    assert sender.send_due() == 1
    assert shown(server) == [("waiting", 1)] and sender.send_due() == 0
    server.start()  # a restart in between
    sender = sender_of(server, receiver)
    server.clock.time += alerts.PAUSES[0]
    assert sender.send_due() == 1 and shown(server) == [("sent", 2)]
    bodies = [body for _, _, body in receiver.received]
    assert len(bodies) == 2 and bodies[0] == bodies[1]
    assert "Thresher-Signature" not in receiver.received[0][1]


def test_a_crash_before_the_mark_sends_it_again(server, receivers, monkeypatch):
    server.watch(ABOVE, "ops")
    follow(server, DAY)
    receiver = receivers(200)

    def away(*_):
        raise StoreUnavailable("The database is away.")

    with monkeypatch.context() as patched:
        patched.setattr(server.coordinator.alerts, "note_sent", away)
        with pytest.raises(StoreUnavailable):
            sender_of(server, receiver).send_due()
    server.start()
    sender_of(server, receiver).send_due()
    ids = [json.loads(body)["id"] for _, _, body in receiver.received]
    assert len(ids) == 2 and len(set(ids)) == 1 and shown(server) == [("sent", 1)]


@pytest.mark.parametrize("status", [301, 302, 307, 308, 400, 404, 410, 503])
def test_redirects_are_not_followed_and_refusals_are_failures(server, receivers, status, caplog):
    server.watch(ABOVE, "ops")
    follow(server, DAY)
    receiver = receivers(status)
    sender_of(server, receiver).send_due()
    assert [path for path, _, _ in receiver.received] == ["/hooks/secret-path"]
    assert shown(server) == [("waiting", 1)]
    assert f"the webhook ops did not take an alert: it answered {status}" in caplog.text
    assert "secret-path" not in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("how", ["hang", "drip"])
def test_a_receiver_that_hangs_is_left_after_the_time_limit(server, receivers, how):
    server.watch(ABOVE, "ops")
    server.watch(ABOVE, "chat")
    follow(server, DAY)
    slow, quick = receivers(None), receivers(200)
    slow.answers = [getattr(slow, how)]
    began = time.monotonic()
    assert sender_of(server, slow, quick, seconds=1.0).send_due() == 2
    assert time.monotonic() - began < 30  # and not the minute for which it hangs
    states = {alert.webhook: alert.delivery for alert in server.coordinator.alerts.alerts(server.series)}
    assert states == {"ops": "waiting", "chat": "sent"}


def test_an_answer_is_not_read_beyond_its_status(server, receivers):
    server.watch(ABOVE, "ops")
    follow(server, DAY)
    receiver = receivers(None)
    receiver.answers = [receiver.flood]
    sender_of(server, receiver).send_due()
    assert shown(server) == [("sent", 1)]
    assert getattr(receiver, "flooded", 0) < 64 << 20


def test_nobody_there_and_names_that_are_no_longer_allowed(server, receivers, caplog):
    server.watch(ABOVE, "ops")
    server.watch(ABOVE, "chat")
    follow(server, DAY)
    with socketserver.TCPServer(("127.0.0.1", 0), None) as taken:
        port = taken.server_address[1]
    sender = WebhookSender(server.coordinator.alerts, [Webhook("ops", f"http://127.0.0.1:{port}/secret-path")])
    assert sender.send_due() == 2
    assert shown(server) == [("waiting", 1)] * 2
    assert "ConnectError" in caplog.text and "does not allow it any more" in caplog.text
    assert "secret-path" not in caplog.text


def test_only_so_many_are_on_their_way(server, receivers):
    for number in range(5):
        server.watch(type(ABOVE)("above", number, bucket="yes"), "ops")
    follow(server, DAY)
    receiver = receivers(200)
    sender = sender_of(server, receiver)
    assert [sender.send_due() for _ in range(4)] == [2, 2, 1, 0]
    assert len({json.loads(body)["id"] for _, _, body in receiver.received}) == 5


@pytest.mark.slow
def test_the_thread_sends_while_rounds_go_on_and_outlives_errors(server, receivers, caplog):
    server.watch(ABOVE, "ops")
    receiver = receivers(None)
    receiver.answers = [receiver.hang]
    claims = iter([StoreUnavailable("away"), RuntimeError("canary")])

    def claim():
        error = next(claims, None)
        if error is not None:
            raise error

    sender = sender_of(server, receiver, seconds=30.0, claim=claim)
    sender.start()
    follow(server, DAY)
    deadline = time.monotonic() + 30
    while not receiver.received and time.monotonic() < deadline:
        time.sleep(0.05)
    assert receiver.received
    follow(server, WEEK)  # while the receiver hangs, rounds are run and judged
    assert server.coordinator.series.status(server.series).released == 2
    receiver.answers = [200]
    receiver.release.set()
    while not any(state == "sent" for state, _ in shown(server)) and time.monotonic() < deadline:
        time.sleep(0.05)
    sender.stop()
    sender.join(30)
    assert not sender.is_alive() and any(state == "sent" for state, _ in shown(server))
    assert "RuntimeError" in caplog.text and "canary" not in caplog.text


# What an operator may allow.


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example/abc?x=1", "https://user:word@hooks.example", "http://127.0.0.1:9/x", "http://localhost/x",
        "http://[::1]:80/",
    ],
)  # fmt: skip
def test_an_address_is_https_or_of_this_machine(url):
    webhook = Webhook("ops", url)
    assert webhook.url == url and url not in repr(webhook)
    assert url not in repr(Settings(data_dir=".", webhooks=(webhook,), webhook_secret="s3cret"))
    assert "s3cret" not in repr(Settings(data_dir=".", webhook_secret="s3cret"))


@pytest.mark.parametrize(
    "line",
    [
        "https://hooks.example/canary", "ops=http://hooks.example/canary", "ops=ftp://canary", "ops=", "=https://canary",
        "ops=https://", "o ps=https://canary", "ops=https://canary/#x", "ops=https://canary/" + "x" * 3_000,
        "ops=http://127.0.0.1.canary.example/", "ops=https://canary\r\nX: y", "ops=//canary", "canary",
        "a=https://canary/1\na=https://canary/2",
    ],
)  # fmt: skip
def test_what_is_no_webhook_is_refused_without_being_quoted(line):
    with pytest.raises(InvalidSetting) as raised:
        read_webhooks([line] if "\r" in line else line.split("\n"))
    assert "canary" not in f"{raised.value}{raised.value.hint}"


def test_webhooks_in_lines():
    found = read_webhooks(["# ours", "", " ops=https://hooks.example/a=b \n", "chat=https://chat.example"])
    assert [(each.name, each.url) for each in found] == [
        ("ops", "https://hooks.example/a=b"),
        ("chat", "https://chat.example"),
    ]
    check_no_credentials(["ops=https://hooks.example/a"])
    with pytest.raises(InvalidSetting, match="process list") as raised:
        check_no_credentials(["ops=https://ada:canary@hooks.example/a"])
    assert "canary" not in f"{raised.value}{raised.value.hint}"


def test_webhooks_are_for_the_coordinator():
    with pytest.raises(InvalidSetting, match="coordinator"):
        Settings(data_dir=".", roles=("collector",), webhooks=(Webhook("ops", "https://hooks.example"),))
    with pytest.raises(InvalidSetting, match="public-url"):
        Settings(data_dir=".", public_url="fleet.example")
