"""`thresher serve` for real: processes, sockets, signals, certificates; all roles in one, and three that run apart."""

import contextlib
import datetime as dt
import json
import signal
import socket
import sqlite3
import ssl
import stat
import subprocess
import sys
import time
from types import SimpleNamespace

import httpx
import pytest
from fleet_server import running_server, start_server, started  # noqa: F401
from typer.testing import CliRunner

import thresher as th
from thresher.cli.app import app
from thresher.device.device import Device
from thresher.device.policy import Policy
from thresher.errors import Conflict, InvalidFormat, NotFound, ServerUnavailable
from thresher.mechanism.response import Response
from thresher.questions import Values
from thresher.server.peers import HttpAggregator, HttpCollector
from thresher.server.serving import _our_signals
from thresher.verbs import HistogramQuery

pytestmark = pytest.mark.slow  # processes and browsers take their time

PLAN = th.plan(epsilon=3, delta=1e-3)
DEVICES = 60
BUDGET = ("--budget-epsilon", "100", "--budget-delta", "0.1")
POLICY = Policy(max_epsilon=10, max_delta=0.01, period_epsilon=100, period_delta=0.5)
CANARY = "canary-held-by-one"


def ask(client: httpx.Client, name: str = "words", **settings) -> str:
    body = {"name": name, "query": HistogramQuery(Values("word"), PLAN).to_dict(), "settings": settings}
    answer = client.post("/v1/queries", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["id"]


def await_state(client: httpx.Client, query: str, *states: str, seconds: float = 120) -> dict:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        status = client.get(f"/v1/queries/{query}").json()
        if status["state"] in states:
            return status
        time.sleep(0.1)
    raise AssertionError(f"not {states} after {seconds} s: {status}")


def await_round(client: httpx.Client, query: str, seconds: float = 120) -> dict:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        rounds = client.get(f"/v1/queries/{query}").json()["rounds"]
        if rounds and rounds[-1]["state"] == "open":
            return rounds[-1]
        time.sleep(0.05)
    raise AssertionError("no round opened")


def visit(url: str, key: str, **settings) -> None:
    """Devices visit once each; all but one hold the same word."""
    for number in range(DEVICES):
        word = CANARY if number == 0 else "common"
        with Device(url, key, {"word": word}, policy=POLICY, **settings) as device:
            assert [outcome.status for outcome in device.check_in()] == ["taken"]


def answered(url: str, key: str, client: httpx.Client) -> list[dict]:
    """Ask, let all devices answer, and return the release's rows."""
    assert PLAN.sees(DEVICES - 1) > 1 - 1e-6  # false alarm of what follows
    query = ask(client, completions=DEVICES)
    await_round(client, query)
    visit(url, key)
    status = await_state(client, query, "done", "failed")
    assert status["state"] == "done"
    [round] = status["rounds"]
    assert (round["state"], round["asked"], round["completed"]) == ("released", DEVICES, DEVICES)
    answer = client.get(f"/v1/queries/{query}/releases").json()
    assert answer["state"] == "done" and CANARY not in json.dumps(answer)
    [release] = answer["releases"]
    assert "common" in release
    return th.Release.from_json(release).to_arrow().to_pylist()


def no_secret_in(output: str, *secrets: str) -> None:
    for secret in secrets:
        assert secret not in output
    assert "Traceback" not in output and CANARY not in output


def test_a_cancelled_query_and_its_events(running_server):  # noqa: F811
    server = running_server
    with server.client(server.analyst) as client:
        query = ask(client)
        assert client.post(f"/v1/queries/{query}/cancel").json()["state"] == "cancelled"
        with client.stream("GET", f"/v1/queries/{query}/events") as events:
            assert events.headers["content-type"] == "text/event-stream"
            text = "".join(events.iter_text())  # ends by itself, since the query has ended
        assert text.startswith("event: status\ndata: {") and json.loads(text.split("data: ")[1])["id"] == query
        metrics = client.get("/metrics").text
    assert query not in metrics
    assert server.stop() == 0
    no_secret_in(server.output, server.analyst, server.operator, server.enrolment_key)


def test_devices_query_release(start_server):  # noqa: F811
    server = start_server(*BUDGET)
    with server.client(server.analyst) as client:
        rows = answered(server.url, server.enrolment_key, client)
        assert [row["word"] for row in rows] == ["common"]
        assert CANARY not in client.get("/metrics").text
    assert server.stop() == 0
    no_secret_in(server.output, server.analyst, server.operator, server.enrolment_key)
    for path in server.data_dir.rglob("*"):
        if path.is_file():
            assert CANARY.encode() not in path.read_bytes()


@pytest.mark.slow
def test_events_follow_a_query_as_it_moves(start_server):  # noqa: F811
    server = start_server(*BUDGET)
    states = []
    with (
        server.client(server.analyst) as client,
        Device(server.url, server.enrolment_key, {"word": "x"}, policy=POLICY) as device,
    ):
        query = ask(client, completions=1)
        with client.stream("GET", f"/v1/queries/{query}/events") as events:
            for line in events.iter_lines():
                if line.startswith("data: "):
                    states.append(json.loads(line.removeprefix("data: ")))
                    if any(round["state"] == "open" for round in states[-1]["rounds"]):
                        device.check_in()  # what the query waits for: so its open round is seen, however slow we are
    assert len(states) >= 2 and states[-1]["state"] == "done"
    assert [status["id"] for status in states] == [query] * len(states)
    assert any(round["state"] == "open" for status in states for round in status["rounds"])


def test_an_open_event_stream_does_not_hold_up_the_end(start_server):  # noqa: F811
    server = start_server(*BUDGET)
    with server.client(server.analyst) as client:
        query = ask(client, seconds=600)
        with client.stream("GET", f"/v1/queries/{query}/events") as events:
            next(events.iter_lines())
            assert server.stop() == 0
    assert "ERROR" not in server.output  # a stream that must be cut off, once its time is up, is logged as one


def test_how_to_use_the_tokens_is_printed_once_and_without_them(tmp_path):
    with started(tmp_path / "data") as server:
        for file in ("analyst.token", "operator.token", "enrolment.key"):
            path = server.data_dir / file
            assert str(path) in server.output or file in server.output
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        secrets = (server.analyst, server.operator, server.enrolment_key)
        no_secret_in(server.output, *secrets)
        assert server.stop() == 0
        first = server.output
        server.start()
        again = server.output.removeprefix(first)
        assert "ready at" in again and "token" not in again


def test_a_killed_server_comes_back_with_what_it_had(tmp_path):
    with started(tmp_path / "data", *BUDGET) as server:
        with server.client(server.analyst) as client:
            query = ask(client)
            before = await_round(client, query)
        with Device(server.url, server.enrolment_key, {"word": "x"}, policy=POLICY) as device:
            assert [outcome.status for outcome in device.check_in()] == ["taken"]
            server.kill()
            server.start()
            assert device.check_in() == []  # it is known, and its report is
        with server.client(server.analyst) as client:
            after = await_round(client, query)
            assert after["round"] == before["round"] and after["completed"] == 1
            assert len(client.get("/v1/ledger").json()["charges"]) == 1


def serve_once(*arguments: str) -> subprocess.CompletedProcess:
    from fleet_server import _BOOT

    command = [sys.executable, "-c", _BOOT, "serve", "--port", "0", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_a_directory_in_use_is_refused(tmp_path):
    with started(tmp_path / "data") as server:
        second = serve_once("--data-dir", str(server.data_dir))
        assert second.returncode == 2 and "in use" in second.stderr
        with server.client() as client:
            assert client.get("/readyz").status_code == 200


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--role", "boss"], "role"),
        (["--role", "coordinator"], "collector"),
        (["--role", "coordinator", "--collector", "http://x"], "peer-key-file"),
        (["--tls-cert", "x.pem"], "tls-cert"),
        (["--store", "mysql://x"], "store"),
        (["--come-back", "0"], "come-back"),
        (["--round-seconds", "-1"], "round-seconds"),
        (["--host", "203.0.113.1"], "port"),
    ],
)
@pytest.mark.slow
def test_settings_that_cannot_work_are_refused_in_words(tmp_path, arguments, words):
    ended = serve_once("--data-dir", str(tmp_path / "data"), *arguments)
    assert ended.returncode == 2, ended.stderr
    assert words in ended.stderr and "Traceback" not in ended.stderr


@pytest.mark.slow
def test_a_missing_peer_key_leaves_no_secrets_that_nobody_was_told_of(tmp_path):
    missing = ["--aggregator", "http://x", "--peer-key-file", str(tmp_path / "missing.key")]
    ended = serve_once("--data-dir", str(tmp_path / "data"), "--role", "collector", *missing)
    assert ended.returncode == 2 and "peer-key-file" in ended.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.slow
def test_a_port_in_use_leaves_no_secrets_that_nobody_was_told_of(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = serve_once("--data-dir", str(tmp_path / "data"), "--port", str(taken.getsockname()[1]))
    assert ended.returncode == 2 and "cannot be used" in ended.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.slow
def test_another_budget_than_the_ledgers_is_refused(tmp_path):
    with started(tmp_path / "data", *BUDGET) as server:
        assert server.stop() == 0
    ended = serve_once("--data-dir", str(tmp_path / "data"), "--budget-epsilon", "7")
    assert ended.returncode == 2 and "epsilon" in ended.stderr


def certificate(directory):
    """A certificate for 127.0.0.1, signed by itself."""
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert_path, key_path = directory / "cert.pem", directory / "key.pem"
    cert_path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return cert_path, key_path


def test_tls(tmp_path):
    cert, key = certificate(tmp_path)
    with started(tmp_path / "data", "--tls-cert", str(cert), "--tls-key", str(key)) as server:
        assert server.url.startswith("https://")
        context = ssl.create_default_context(cafile=cert)
        with server.client(server.analyst, verify=context) as client:
            assert client.get("/v1/ledger").status_code == 200
        with server.client() as client, pytest.raises(httpx.ConnectError):
            client.get("/healthz")
        with httpx.Client(trust_env=False) as client, pytest.raises(httpx.HTTPError):
            client.get(server.url.replace("https", "http") + "/healthz")


@pytest.fixture
def apart(tmp_path):
    """Collector, aggregator and coordinator as three processes, each with the keys it needs and no others."""
    with started(tmp_path / "aggregator", "--role", "aggregator") as aggregator:
        keys = tmp_path / "aggregator" / "aggregator"
        with started(
            tmp_path / "collector", "--role", "collector", "--come-back", "1",
            "--aggregator", aggregator.url, "--peer-key-file", str(keys / "collector.key"),
        ) as collector:  # fmt: skip
            key = tmp_path / "collector" / "collector" / "coordinator.key"
            with started(
                tmp_path / "coordinator", "--role", "coordinator", *BUDGET,
                "--collector", collector.url, "--peer-key-file", str(key),
                "--aggregator", aggregator.url, "--peer-key-file", str(keys / "coordinator.key"),
            ) as coordinator:  # fmt: skip
                yield aggregator, collector, coordinator


def _devices_of(collector) -> list[bytes]:
    """What a collector knows its devices by: their ids, and the hashes of their tokens."""
    with contextlib.closing(sqlite3.connect(collector.data_dir / "collector" / "collector.db")) as connection:
        rows = connection.execute("SELECT device, token_hash FROM devices").fetchall()
    return [known for device, token_hash in rows for known in (device.encode(), token_hash)]


def test_three_processes_answer_a_query(apart):
    aggregator, collector, coordinator = apart
    with coordinator.client(coordinator.analyst) as client:
        rows = answered(collector.url, collector.enrolment_key, client)
        assert [row["word"] for row in rows] == ["common"]
        assert client.get("/v1/fleet").json()["roles"] == {
            "coordinator": "ready", "collector": "ready", "aggregator": "ready",
        }  # fmt: skip
        assert client.post("/v2/devices", json={"versions": [2]}).status_code == 404
    for server in apart:
        assert server.stop() == 0
        no_secret_in(server.output, server.operator)
    assert not (collector.data_dir / "analyst.token").exists()
    assert not (coordinator.data_dir / "enrolment.key").exists()
    assert not list(coordinator.data_dir.rglob("*.key")) and not list(collector.data_dir.rglob("keys"))
    devices = _devices_of(collector)
    assert len(devices) >= 2 * DEVICES
    for file in aggregator.data_dir.rglob("*"):
        content = file.read_bytes() if file.is_file() else b""
        assert not any(known in content for known in devices)


@pytest.mark.slow
def test_devices_are_simulated_at_the_collector_while_the_coordinator_is_asked(apart):
    _, collector, coordinator = apart
    places = ["--server", collector.url, "--coordinator", coordinator.url]
    keys = ["--enrolment-key", collector.enrolment_key, "--analyst-key", coordinator.analyst]
    done = CliRunner().invoke(app, ["simulate", *places, *keys, "--devices", "200", "--seconds", "60", "--json"])
    assert done.exit_code == 0, (done.output, done.exception)
    assert json.loads(done.stdout)["reports_accepted"] == 200


@pytest.mark.slow
def test_the_coordinator_waits_for_peers_that_are_away(apart):
    aggregator, collector, coordinator = apart
    with coordinator.client(coordinator.analyst) as client:
        query = ask(client, completions=DEVICES)
        await_round(client, query)
        aggregator.kill()  # before the last report: from then on the round could be released at any moment
        visit(collector.url, collector.enrolment_key)
        ready = client.get("/readyz")
        assert ready.status_code == 503 and ready.json()["roles"]["aggregator"] != "ready"
        with collector.client() as devices:
            assert devices.get("/readyz").status_code == 200  # it takes reports all the same
        collector.kill()
        time.sleep(1.5)
        assert client.get(f"/v1/queries/{query}").json()["state"] == "running"
        collector.start()
        aggregator.start()
        assert await_state(client, query, "done", "failed")["state"] == "done"
        assert len(client.get("/v1/ledger").json()["charges"]) == 1


@pytest.mark.slow
def test_ports_over_http_say_what_the_roles_say(apart):
    import msgspec
    from server_cases import configuration_of

    aggregator, collector, _ = apart
    keys = aggregator.data_dir / "aggregator"
    batches = HttpAggregator(aggregator.url, (keys / "collector.key").read_text().strip())
    releases = HttpAggregator(aggregator.url, (keys / "coordinator.key").read_text().strip())
    rounds = HttpCollector(collector.url, (collector.data_dir / "collector" / "coordinator.key").read_text().strip())
    configuration = configuration_of(releases, "over-http")
    with pytest.raises(NotFound):
        rounds.progress("over-http")
    for _ in range(2):
        rounds.open(configuration, 10)
    with pytest.raises(Conflict):
        rounds.open(msgspec.structs.replace(configuration, bucket_size=128))
    assert rounds.progress("over-http").asked == 0
    with pytest.raises(Conflict):
        rounds.forward("over-http")
    assert rounds.close("over-http") == rounds.close("over-http")
    assert rounds.forward("over-http") == 0
    for _ in range(2):
        batches.add_batch("another", 0, b"x" * 112)
    with pytest.raises(Conflict):
        batches.add_batch("another", 0, b"y" * 112)
    empty = Response(0, 0, 0, configuration.rates)
    with pytest.raises(Conflict):
        releases.release(configuration, 1, empty)  # more was announced than has come
    with pytest.raises(InvalidFormat):
        releases.release(msgspec.structs.replace(configuration, contact_rate=1), 0, empty)
    assert releases.release(configuration, 0, empty) == releases.release(configuration, 0, empty)
    for port in (rounds, releases):
        port.forget("over-http")
        port.forget("over-http")
    assert rounds.overview().enrolled == 0
    assert releases.retire_keys({configuration.key_id}) == []
    for stranger in (HttpAggregator(aggregator.url, "thresher-collector-to-aggregator-" + "x" * 32), batches):
        with pytest.raises(ServerUnavailable):  # a key that is refused is a matter of set-up, and may be mended
            stranger.forget("over-http")
        stranger.disconnect()
    nobody = HttpCollector("http://127.0.0.1:9", "thresher-coordinator-to-collector-" + "x" * 32)
    with pytest.raises(ServerUnavailable):
        nobody.overview()
    for port in (rounds, releases, nobody):
        port.disconnect()


def test_sigint_ends_it_as_well(tmp_path):
    with started(tmp_path / "data", "--no-console", forked=False) as server:
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(30) == 0
        assert "Traceback" not in server.output


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_before_the_server_looks_for_them_stops_it_too(kind):
    server = SimpleNamespace(should_exit=False)
    before = signal.getsignal(kind)
    with _our_signals(server):
        signal.raise_signal(kind)
    assert server.should_exit
    assert signal.getsignal(kind) is before
