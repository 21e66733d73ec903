"""Health, readiness and metrics: they tell the operator the truth, and nobody anything about a device."""

import json
import re
import threading

import pytest
from server_cases import ASK, handing_in, histogram_request, inside

from thresher.errors import StoreUnavailable
from thresher.server.coordinator_loop import CoordinatorLoop
from thresher.server.metrics import Metrics

LINE = re.compile(r'[a-z_]+(\{[a-z]+="[^"\n]*"(,[a-z]+="[^"\n]*")*\})? [0-9.e+-]+')


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with inside(tmp_path_factory.mktemp("health") / "data") as server:
        yield server


def broken(*_):
    raise StoreUnavailable("/somewhere/secret cannot be written")


def test_ready_follows_the_stores(server, monkeypatch):
    assert server.ask("GET", "/readyz").json()["status"] == "ready"
    for role in ("collector", "aggregator", "coordinator"):
        with monkeypatch.context() as patch:
            patch.setitem(server.services.checks, role, broken)
            answer = server.ask("GET", "/readyz")
            assert answer.status_code == 503 and answer.json()["roles"][role] == "store unavailable"
            assert "secret" not in answer.text
            assert server.ask("GET", "/healthz").status_code == 200  # alive all the same
    assert server.ask("GET", "/readyz").status_code == 200


def test_ready_follows_the_ledger(server):
    file = server.directory.of("coordinator") / "ledger.db"
    away = file.rename(file.with_suffix(".away"))
    answer = server.ask("GET", "/readyz")
    assert answer.status_code == 503
    assert answer.json()["roles"]["coordinator"] == "ledger-unavailable"
    away.rename(file)
    assert server.ask("GET", "/readyz").status_code == 200


def test_a_peer_that_hangs_holds_one_look_and_not_all(server, monkeypatch):
    begun, go_on = threading.Event(), threading.Event()

    def hang():
        begun.set()
        assert go_on.wait(30)

    assert server.ask("GET", "/readyz").json()["roles"]["collector"] == "ready"
    monkeypatch.setitem(server.services.checks, "collector", hang)
    looking = threading.Thread(target=server.ask, args=("GET", "/readyz"))
    looking.start()
    try:
        assert begun.wait(30)
        assert server.ask("GET", "/readyz").json()["roles"]["collector"] == "ready"  # at once, as it was seen before
    finally:
        go_on.set()
        looking.join(30)


def test_a_collector_is_ready_without_the_aggregator_a_coordinator_is_not(server, monkeypatch):
    class Gone:
        def ping(self):
            broken()

    monkeypatch.setitem(server.services.peers, "elsewhere", Gone())
    assert server.ask("GET", "/readyz").status_code == 503
    monkeypatch.setattr(server.services, "coordinator", None)
    answer = server.ask("GET", "/readyz")
    assert answer.status_code == 200 and answer.json()["roles"]["elsewhere"] == "store unavailable"


def test_a_store_that_is_down_is_a_503_and_acknowledges_nothing(server, monkeypatch):
    device = server.enrol()
    monkeypatch.setattr(server.services.collector, "visit", broken)
    monkeypatch.setattr(server.services.coordinator, "ledger_view", broken)
    for answer in (
        server.ask("POST", "/v2/visit", device, json=handing_in(("r", b"AAA"))),
        server.ask("GET", "/v1/ledger", server.token("analyst")),
    ):
        assert answer.status_code == 503 and answer.headers["retry-after"] == "1"
        assert "taken" not in answer.text and "secret" not in answer.text


@pytest.mark.slow
def test_metrics_are_prometheus_text_without_data(tmp_path):
    with inside(tmp_path / "data") as server:
        analyst = server.token("analyst")
        query = server.ask("POST", "/v1/queries", analyst, json=histogram_request("canary-name")).json()
        server.services.coordinator.step()
        round = server.services.coordinator.status(query["id"]).rounds[0].round
        device = server.enrol()
        visited = server.ask("POST", "/v2/visit", device, json=ASK).json()
        assert [json.loads(text)["round"] for text in visited["rounds"]] == [round]
        statuses = []
        for sealed in (bytes(112), bytes(112), b"x" * 112, b"short"):
            answer = server.ask("POST", "/v2/visit", device, json=handing_in((round, sealed)))
            statuses += [report["status"] for report in answer.json()["reports"]]
        assert statuses == ["taken", "taken", "conflict", "rejected"]
        server.ask("GET", "/canary-path")
        server.ask("CANARY", "/v1/queries")
        answer = server.ask("GET", "/metrics")
        operators = server.ask("GET", "/metrics", server.token("operator"))
    text = answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    assert samples and all(LINE.fullmatch(line) for line in samples)
    assert 'thresher_requests_total{method="POST",route="/v2/visit",status="200"} 5' in samples
    for outcome in ("accepted", "again", "conflict", "wrong-size"):
        assert f'thresher_reports_total{{outcome="{outcome}"}} 1' in samples
    assert "thresher_open_rounds 1" in samples
    assert 'thresher_group_commit_items_sum{kind="visit"} 5' in samples
    for name in ("thresher_malformed_reports", "thresher_duplicate_reports"):
        assert name not in text
        assert f"{name} 0" in operators.text.splitlines()
    for secret in ("canary", "CANARY", query["id"], round, device, analyst, "word"):
        assert secret not in text
    named = re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE)
    assert len(named) == len(set(named))


@pytest.mark.slow
def test_tokens_show_more_in_the_metrics(tmp_path):
    """Malformed reports are for operators, alerts also for analysts. A wrong token is refused, not taken for none."""
    with inside(tmp_path / "data") as server:
        for kind, status in (("operator", 200), ("analyst", 200), ("enrolment", 403)):
            answer = server.ask("GET", "/metrics", server.token(kind))
            assert answer.status_code == status
            assert ("thresher_malformed_reports" in answer.text) == (kind == "operator")
            assert ("thresher_series_alerts_total" in answer.text) == (kind != "enrolment")
        assert "thresher_series_alert" not in server.ask("GET", "/metrics").text
        assert server.ask("GET", "/metrics", "thresher-operator-" + "x" * 43).status_code == 401
        assert server.ask("GET", "/metrics", headers={"Authorization": "Basic eDp5"}).status_code == 401
        assert server.ask("GET", "/metrics").status_code == 200


def test_a_histogram_of_sizes_adds_up():
    metrics = Metrics()
    for size in (1, 2, 3, 1000, 5000):
        metrics.size("report", size)
    text = metrics.text().decode()
    assert 'le="2"} 2' in text and 'le="5"} 3' in text and 'le="1000"} 4' in text and 'le="+Inf"} 5' in text
    assert '_sum{kind="report"} 6006' in text and '_count{kind="report"} 5' in text


def test_a_gauge_that_cannot_be_read_is_left_out():
    metrics = Metrics()
    metrics.gauge("bad", "Bad.", broken)
    metrics.gauge("good", "Good.", lambda: 3)
    assert b"good 3" in metrics.text() and b"bad" not in metrics.text()


@pytest.mark.slow
def test_the_loop_outlives_errors_and_counts_them(server, caplog):
    class Failing:
        def __init__(self):
            self.steps = 0

        def step(self):
            self.steps += 1
            if self.steps == 1:
                raise StoreUnavailable("down")
            if self.steps == 2:
                raise RuntimeError("canary")
            loop.stop()
            return 0.01

        def keys_in_use(self):
            return set()

    failing, metrics, wake = Failing(), Metrics(), server.services.wake
    loop = CoordinatorLoop(failing, server.services.aggregator, metrics, wake)
    loop.start()
    for _ in range(200):
        wake.set()  # a waiting loop goes on at once
        loop.join(0.05)
        if not loop.is_alive():
            break
    assert not loop.is_alive() and failing.steps == 3
    text = metrics.text().decode()
    assert 'thresher_step_errors_total{code="store-unavailable"} 1' in text
    assert 'thresher_step_errors_total{code="internal"} 1' in text
    assert "canary" not in caplog.text and "RuntimeError" in caplog.text
