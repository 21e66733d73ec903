"""The analyst's Python and command line against a real server with real devices; and what happens on a bad line."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
import time

import httpx
import pytest
from fleet_server import started
from typer.testing import CliRunner

import thresher as th
from thresher.cli import fleet as commands
from thresher.client import connection as connection_module
from thresher.client.connection import Connection, error_of
from thresher.client.fleet import Fleet, QueryHandle
from thresher.device.device import Device
from thresher.device.policy import Policy
from thresher.errors import (
    BudgetExceeded,
    Conflict,
    InvalidSetting,
    NotFound,
    QueryEnded,
    ServerUnavailable,
    ThresherError,
    Unauthorised,
)
from thresher.privacy import DEVICE
from thresher.questions import Values
from thresher.verbs import HistogramQuery

pytestmark = pytest.mark.slow  # processes and browsers take their time

TARGET = {"epsilon": 1.0, "delta": 1e-6}
DEVICES = 150
POLICY = Policy(period_delta=0.1)
"""Devices that answer all queries of this module: their own budgets are tested elsewhere."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    directory = tmp_path_factory.mktemp("fleet")
    (directory / "policy.json").write_text(json.dumps({"period_delta": POLICY.period_delta}))
    arguments = ("--come-back", "1", "--round-seconds", "300", "--budget-epsilon", "40", "--budget-delta", "1e-3")
    with started(directory / "data", *arguments, "--device-policy", str(directory / "policy.json")) as running:
        yield running


@pytest.fixture(scope="module")
def devices(server):
    """Most hold "yes"; one alone holds the canary."""
    made = [
        Device(
            server.url,
            server.enrolment_key,
            {"word": "yes" if number % 15 else "no", "age": number % 90},
            policy=POLICY,
        )
        for number in range(DEVICES - 1)
    ]
    made.append(Device(server.url, server.enrolment_key, {"word": "canary", "age": 5}, policy=POLICY))
    yield made
    for device in made:
        device.close()


@pytest.fixture
def fleet(server):
    with Fleet(server.url, server.analyst) as connection:
        yield connection


class Visiting:
    """Devices that check in again and again, in the background, while a test waits for an answer."""

    def __init__(self, devices) -> None:
        self._devices = devices
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stop.is_set():
            for device in self._devices:
                if self._stop.is_set():
                    return
                device.check_in()

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_) -> None:
        self._stop.set()
        self._thread.join(60)


def test_a_histogram_waits_and_reports_its_rounds(fleet, devices):
    told = []
    with Visiting(devices):
        answer = th.histogram(
            fleet.with_rounds(completions=DEVICES), "word", progress=lambda *each: told.append(each), **TARGET
        )
    assert told == [(1, 1, "histogram of word")]
    assert answer.verify() == answer.plan.guarantee.for_unit(DEVICE)
    assert answer.release.response.completed == DEVICES
    assert "yes" in answer  # false alarm: 139 devices at p = 0.31 miss a threshold of 18 with probability 1.4e-7
    assert "canary" not in answer.to_json()
    assert answer.plan.epsilon == 1.0


@pytest.mark.slow
def test_a_trie_by_handle_and_its_answer_again(fleet, devices):
    with Visiting(devices):
        handle = th.heavy_hitters(
            fleet.with_rounds(completions=DEVICES), "word", method="trie", levels=2, wait=False, epsilon=4, delta=1e-5
        )
        status = handle.wait(120)
    assert status.state == "done"
    answer = handle.result()
    assert answer.plan.rounds == 2
    assert fleet.query(handle.id).result().to_json() == answer.to_json()
    assert [release.plan for release in handle.releases()] == [answer.plan] * answer.rounds_asked
    assert handle.id in {each.id for each in fleet.queries()}
    assert handle.id in {charge.query for charge in fleet.ledger().charges}


def wait_until_charged(handle):
    """Until a round of it is open: it is charged before that."""
    while not any(round.opened for round in handle.status().rounds):
        time.sleep(0.05)


def test_cancelling(fleet):
    handle = th.histogram(fleet, "word", wait=False, **TARGET)
    assert handle.wait(0).state == "running"
    with pytest.raises(Conflict):
        handle.result(timeout=0)
    wait_until_charged(handle)
    before = fleet.ledger().spent_epsilon
    assert handle.cancel().state == "cancelled"
    assert handle.cancel().state == "cancelled"
    with pytest.raises(QueryEnded):
        handle.result()
    assert fleet.ledger().spent_epsilon == before


def test_a_name_is_one_query(fleet):
    query = HistogramQuery(Values(("word",)), th.plan(**TARGET))
    first = fleet.submit(query, wait=False, name="monday")
    wait_until_charged(first)
    spent = fleet.ledger().spent_epsilon
    assert fleet.submit(query, wait=False, name="monday").id == first.id
    assert fleet.ledger().spent_epsilon == spent
    with pytest.raises(Conflict):
        fleet.with_rounds(seconds=5).submit(query, wait=False, name="monday")
    first.cancel()


def test_errors_are_those_that_were_raised_there(fleet, server):
    with pytest.raises(InvalidSetting, match="contact_rate") as caught:
        th.histogram(fleet.with_rounds(contact_rate=1e-6), "word", **TARGET)
    assert caught.value.setting == "contact_rate"
    assert isinstance(caught.value, ValueError)
    assert caught.value.hint
    with pytest.raises(InvalidSetting, match="adjacency"):
        th.histogram(fleet, "word", adjacency="add-remove", **TARGET)
    with pytest.raises(BudgetExceeded):
        th.histogram(fleet, "word", epsilon=50, delta=1e-3)
    with pytest.raises(NotFound):
        fleet.query("nothing").status()
    with pytest.raises(InvalidSetting):
        fleet.query("../ledger")
    for wrong in ("thresher-analyst-wrong", server.enrolment_key):
        with pytest.raises(Unauthorised), Fleet(server.url, wrong) as stranger:
            stranger.queries()
    with pytest.raises(InvalidSetting, match=r"^seconds must be"):
        fleet.with_rounds(bucket_size=64, seconds=-1)
    with pytest.raises(InvalidSetting, match=r"^sampled_by must be one of aggregator, device"):
        fleet.with_rounds(sampled_by="nobody")


def test_a_refused_query_costs_nothing(fleet):
    spent = fleet.ledger().spent_epsilon
    known = {each.id for each in fleet.queries()}
    with pytest.raises(InvalidSetting):
        th.heavy_hitters(fleet.with_rounds(bucket_size=48), "word", method="trie", levels=100, **TARGET)
    assert fleet.ledger().spent_epsilon == spent
    assert {each.id for each in fleet.queries()} == known


def test_the_preview_and_the_overview(fleet, devices):
    shown = fleet.plan(HistogramQuery(Values(("word",)), th.plan(**TARGET)))
    assert shown.fits
    assert shown.cost_epsilon == 1.0
    overview = fleet.overview()
    assert set(overview.roles.values()) == {"ready"}


def test_the_key_is_nowhere_to_be_seen(fleet, server, monkeypatch):
    assert server.analyst not in repr(fleet) + repr(fleet.query("q1")) + repr(fleet.with_rounds(seconds=5))
    assert "seconds=5" in repr(fleet.with_rounds(seconds=5))
    monkeypatch.delenv("THRESHER_KEY", raising=False)
    with pytest.raises(InvalidSetting, match="key"):
        Fleet(server.url)
    monkeypatch.setenv("THRESHER_KEY", server.analyst)
    with Fleet(server.url) as connection:
        assert connection.overview().fleet
    with pytest.raises(InvalidSetting, match="https"):
        Fleet("fleet.example", "key")
    with pytest.raises(InvalidSetting, match="ca"):
        Fleet(server.url, "key", ca_file="no-such-file.pem")


def test_importing_the_client_loads_no_network():
    code = (
        "import sys, thresher.client.fleet; "
        "print([name for name in ('httpx', 'starlette', 'rich') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert shown.stdout.strip() == "[]"


# The command line.


def invoke(server, *arguments: str):
    result = CliRunner().invoke(
        commands.app, [*arguments, "--server", server.url], env={"THRESHER_KEY": server.analyst}
    )
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


def test_commands_for_people_and_machines(server, devices, tmp_path):
    planned = json.loads(
        invoke(server, "query", "histogram", "word", "--plan", "--epsilon", "1", "--delta", "1e-6", "--json").output
    )
    assert planned["cost_epsilon"] == 1.0
    words = ["query", "ranges", "age", "--plan", "--epsilon", "1", "--delta", "1e-6", "--lower", "0", "--upper", "128"]
    assert "Rounds that are never asked are given back" in invoke(server, *words).output
    dear = ["query", "histogram", "word", "--plan", "--epsilon", "20", "--delta", "1e-3"]
    assert "it does not fit." in invoke(server, *dear).output
    cheap = tmp_path / "plan.json"
    cheap.write_text(json.dumps(th.plan(epsilon=0.1, delta=1e-9).to_dict()))
    planned = json.loads(
        invoke(server, "query", "histogram", "word", "--plan", "--plan-file", str(cheap), "--json").output
    )
    assert planned["cost_epsilon"] == 0.1 and planned["affords"] > 100 and "of the budget" in planned["price"]
    with Visiting(devices):
        asked = ["query", "histogram", "word", "--epsilon", "1", "--delta", "1e-6", "--completions", str(DEVICES)]
        document = json.loads(invoke(server, *asked, "--output", str(tmp_path / "answer.json"), "--json").stdout)
    assert document["query"]["state"] == "done"
    kept = th.load(tmp_path / "answer.json")
    assert kept.query.verb == "histogram"
    assert document["rows"] == json.loads(kept.to_json())["rows"]
    query = document["query"]["id"]
    assert json.loads(invoke(server, "show", query, "--json").output) == document
    assert json.loads(invoke(server, "watch", query, "--json").output) == document
    shown = invoke(server, "show", query).output
    assert "histogram of word: done" in shown
    assert "Each device is a unit" in shown
    (promised,) = re.findall(
        "^Against (.*): \\(1, 1e-06\\)-differential privacy", shown, re.MULTILINE
    )  # equal ones are one
    for whom in ("sees the release", "knows who was contacted", "can add devices or reports"):
        assert whom in promised
    listed = invoke(server, "list").output
    assert re.search(rf"^{query}  done       histogram of word$", listed, re.MULTILINE)
    assert max(len(line) for line in listed.splitlines()) <= 80
    assert query in {each["id"] for each in json.loads(invoke(server, "list", "--json").output)["queries"]}
    ledger = invoke(server, "ledger").output
    assert "The fleet promises epsilon 40 with delta 0.001, for one device." in ledger
    assert "was drawn" in ledger and "histogram of word" in " ".join(ledger.split()) and " left" in ledger
    assert query in {each["query"] for each in json.loads(invoke(server, "ledger", "--json").output)["charges"]}


def test_a_query_can_be_left_and_cancelled(server, tmp_path):
    key_file = tmp_path / "key"
    key_file.write_text(server.analyst + "\n")
    asked = ["query", "quantiles", "age", "--quantile", "0.5", "--lower", "0", "--upper", "100", "--levels", "2"]
    settings = ["--epsilon", "1", "--delta", "1e-6", "--no-wait", "--json", "--server", server.url]
    result = CliRunner().invoke(commands.app, [*asked, *settings, "--key-file", str(key_file)])
    document = json.loads(result.output)
    assert document["query"]["state"] == "running"
    assert document["rows"] is None
    assert "cancelled" in invoke(server, "cancel", document["query"]["id"]).output


def test_an_interrupted_wait_says_how_to_go_on(server, monkeypatch):
    """The query is charged and goes on, whoever waits for it or not."""

    def interrupt(handle, *_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(QueryHandle, "wait", interrupt)
    asked = ["query", "histogram", "word", "--epsilon", "0.5", "--delta", "1e-6"]
    result = CliRunner().invoke(commands.app, [*asked, "--server", server.url], env={"THRESHER_KEY": server.analyst})
    [query] = set(re.findall(r"thresher fleet (?:watch|cancel) (q[0-9a-f]+)", result.output))
    assert result.exit_code == 130
    assert "cancelled" in invoke(server, "cancel", query).output


@pytest.mark.parametrize("option", ["--output", "--plot"])
def test_nothing_is_asked_for_an_answer_that_cannot_be_written(server, fleet, tmp_path, option):
    before = len(fleet.queries())
    asked = ["query", "histogram", "word", "--epsilon", "0.5", "--delta", "1e-6"]
    with pytest.raises(InvalidSetting, match="does not exist"):
        invoke(server, *asked, option, str(tmp_path / "missing" / "answer.svg"))
    assert len(fleet.queries()) == before


COST = ("--epsilon", "1", "--delta", "1e-6")


@pytest.mark.parametrize(
    "arguments",
    [
        ("query", "histogram", "word", "--plan", *COST, "--bins", "few"),
        ("show", "q1", "--range", "wide"),
        ("query", "ranges", "age", "--lower", "0", "--upper", "9", *COST, "--range", "9:12"),
    ],
)
def test_wrong_settings_are_named(server, arguments):
    before = len(invoke(server, "list").output)
    with pytest.raises(InvalidSetting):
        invoke(server, *arguments)
    assert len(invoke(server, "list").output) == before


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("query", "mode", "word"), "mode"),
        (("query", "ranges", "age"), "--lower"),
        (("query", "ranges", "age", "word", "--lower", "0", "--upper", "1"), "word"),
        (("query", "quantiles", "age", "--lower", "0", "--upper", "1"), "--quantile"),
    ],
)
def test_what_is_missing_or_too_much_is_named(arguments, named):
    result = CliRunner().invoke(commands.app, [*arguments, "--epsilon", "1", "--delta", "1e-6", "--server", "http://x"])
    assert result.exit_code == 2
    assert named in result.output


def test_options_may_stand_before_the_verb(server):
    options = ["--plan", "--epsilon", "0.5", "--delta", "1e-6", "--server", server.url]
    result = CliRunner().invoke(
        commands.app, ["query", *options, "histogram", "word"], env={"THRESHER_KEY": server.analyst}
    )
    assert result.exit_code == 0, result.output
    assert "histogram of word" in result.output


# A bad line.


def connection(*answers, patience: float = 60.0):
    """A connection to a server that answers as scripted; an exception in place of an answer is a lost one."""
    script, pauses, bodies = iter(answers), [], []

    def answer(request: httpx.Request) -> httpx.Response:
        bodies.append(request.content)
        step = next(script)
        if isinstance(step, Exception):
            raise step
        return step

    made = Connection(
        "http://server", "token", transport=httpx.MockTransport(answer), sleep=pauses.append, patience=patience
    )
    return made, pauses, bodies


def problem(status: int, code: str, **headers: str) -> httpx.Response:
    content = {"code": code, "detail": "setting is wrong.", "hint": "Mend it."}
    return httpx.Response(status, json=content, headers={"content-type": "application/problem+json", **headers})


def test_a_lost_answer_is_met_by_the_same_request_again():
    made, pauses, bodies = connection(
        httpx.ReadTimeout("lost"), httpx.ConnectError("gone"), httpx.Response(200, json=1)
    )
    assert made.post("/v1/queries", b'{"name":"x"}') == b"1"
    assert bodies == [b'{"name":"x"}'] * 3
    assert pauses == [0.2, 0.4]


def test_retry_after_is_honoured():
    later = {"retry-after": "7"}
    made, pauses, _ = connection(
        problem(503, "store-unavailable", **later), problem(429, "too-many", **later), httpx.Response(204)
    )
    assert made.get("/") == b""
    assert pauses == [7.0, 7.0]


def test_patience_ends():
    made, pauses, _ = connection(*[problem(503, "store-unavailable")] * 100, patience=5.0)
    with pytest.raises(ServerUnavailable):
        made.get("/")
    assert 2 < sum(pauses) <= 5


def test_a_server_that_hangs_costs_patience(monkeypatch):
    """What is waited for an answer counts, not only the pauses between attempts."""
    monkeypatch.setattr(connection_module, "_TIMEOUT", 0.2)
    pauses: list[float] = []
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        url = f"http://127.0.0.1:{hanging.getsockname()[1]}"
        made = Connection(url, "token", patience=0.3, sleep=pauses.append)
        with pytest.raises(ServerUnavailable):
            made.get("/")
        made.close()
    assert pauses == []


def test_whoever_waits_is_told_for_what_once(caplog):
    made, pauses, _ = connection(*[httpx.ConnectError("gone")] * 3, httpx.Response(200, json=1))
    made.get("/")
    assert len(pauses) == 3
    assert [record.message for record in caplog.records] == [
        "The connection to http://server cannot be made, or breaks. Trying again for up to 60 s."
    ]


def test_what_will_not_change_is_not_tried_again():
    made, pauses, _ = connection(problem(409, "conflict"))
    with pytest.raises(Conflict, match=r"setting is wrong\. Mend it\."):
        made.get("/")
    assert pauses == []


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (422, b'{"code": "invalid-setting", "detail": "epsilon is wrong."}', InvalidSetting),
        (402, b'{"code": "budget-exceeded", "detail": "No."}', BudgetExceeded),
        (403, b'{"code": "forbidden", "detail": "No."}', Unauthorised),
        (401, b"<html>", Unauthorised),
        (500, b"", ThresherError),
        (404, b"[1]", ThresherError),
        (502, b"<html>", ServerUnavailable),
        (418, b'{"code": "teapot", "detail": "No."}', ThresherError),
    ],
)
def test_problems_become_errors(status, body, kind):
    error = error_of(status, body)
    assert type(error) is kind
    assert str(error)
    if status == 418:
        assert error.code == "teapot"
