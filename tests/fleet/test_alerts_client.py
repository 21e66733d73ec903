"""Rules and alerts from Python, from the command line and over HTTP; metrics; and a real server that posts."""

from __future__ import annotations

import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest
from alert_cases import ABOVE, NEVER
from coordinator_cases import Roles
from device_cases import StillClock
from fleet_server import started
from series_cases import DAY, TOTAL, WEEK, WORDS, follow
from server_cases import fleet_of, inside
from typer.testing import CliRunner

import thresher as th
from thresher.cli import fleet as commands
from thresher.cli import fleet_options
from thresher.cli.app import app
from thresher.client.fleet import Fleet
from thresher.console.adapter import ServerDesk
from thresher.device.device import Device
from thresher.errors import Conflict, InvalidSetting, NotFound
from thresher.protocol.alert_messages import RuleRequest
from thresher.roles.coordinator.coordinator import Coordinator
from thresher.verbs import Rule

NOW = 1_700_000_040.0


@pytest.fixture
def running(tmp_path):
    """A server's routes over a coordinator whose devices all hold words, and whose clock the test moves."""
    with inside(tmp_path / "data") as server:
        clock, roles = StillClock(NOW), Roles(list(WORDS))
        ledger = th.Ledger(tmp_path / "ledger.db", epsilon=10, delta=1e-4)
        server.services.coordinator = coordinator = Coordinator(
            server.services.coordinator_store, ledger, clock, roles, roles, "fleet", webhooks=("ops",)
        )
        with fleet_of(server) as fleet:
            series = fleet.series("histogram", "word", every="week", releases=4, warn=False, **TOTAL)
            yield SimpleNamespace(fleet=fleet, clock=clock, coordinator=coordinator, server=server, series=series)


def test_rules_and_alerts_from_python(running):
    series = running.series
    assert series.rules() == [] and series.alerts() == []
    added = series.alert(th.verbs.Rule("above", 1_500, bucket="yes"), webhook="ops")
    assert (added.by, added.webhook, Rule.from_dict(added.rule)) == ("analyst", "ops", ABOVE)
    assert series.alert(ABOVE, webhook="ops") == added
    never = series.alert(NEVER)
    assert {rule.id for rule in series.rules()} == {added.id, never.id}
    assert series.rules_and_webhooks().webhooks == ["ops"]
    spent = running.fleet.ledger().charges
    follow(running, WEEK + DAY)
    assert [charge.epsilon for charge in running.fleet.ledger().charges] == [charge.epsilon for charge in spent]
    newest, first = series.alerts()
    assert (newest.index, first.index, newest.delivery) == (1, 0, "waiting")
    assert newest.findings[0].bucket == "yes" and newest.text.startswith("yes is above 1,500")
    dates = [date.timestamp() for date, _ in series.answers()]
    assert [first.date, newest.date] == dates
    assert [rule.id for rule in series.remove_rule(added.id)] == [never.id]
    assert [rule.id for rule in series.remove_rule(added.id)] == [never.id]
    assert [alert.delivery for alert in series.alerts()] == ["given up", "given up"]


def test_refusals_reach_python(running):
    series = running.series
    with pytest.raises(InvalidSetting, match="must be a Rule"):
        series.alert({"kind": "above", "bound": 5})
    with pytest.raises(InvalidSetting, match="webhook") as raised:
        series.alert(ABOVE, webhook="evil")
    assert "Allowed: ops." in raised.value.hint
    with pytest.raises(InvalidSetting, match="webhook"):
        series.alert(ABOVE, webhook="https://evil.example/hook")
    with pytest.raises(InvalidSetting, match="rule must be the id"):
        series.remove_rule("../../x")
    with pytest.raises(NotFound):
        running.fleet.series_by_id("nowhere").rules()
    assert series.rules() == []
    series.end()
    with pytest.raises(Conflict, match="has ended"):
        series.alert(ABOVE)


def test_routes_want_an_analysts_token(running):
    server, path = running.server, f"/v1/series/{running.series.id}"
    for method, rest in (("POST", "rules"), ("GET", "rules"), ("DELETE", "rules/r1"), ("GET", "alerts")):
        assert server.ask(method, f"{path}/{rest}").status_code == 401
        assert server.ask(method, f"{path}/{rest}", server.token("enrolment")).status_code == 403
    analyst = server.token("analyst")
    for body in (b"", b"{}", b"[]", b'{"rule":{"kind":"above","bound":1e999}}', b'{"rule":{},"webhook":"a b"}'):
        assert server.ask("POST", f"{path}/rules", analyst, content=body).status_code == 400
    wrong = server.ask("POST", f"{path}/rules", analyst, json={"rule": {"kind": "above", "bound": "canary"}})
    assert wrong.status_code == 422 and "canary" not in wrong.text
    assert server.ask("GET", "/v1/series/s1/alerts", analyst).status_code == 404
    assert server.ask("DELETE", f"{path}/rules/%00", analyst).status_code == 200  # there is none such


def test_metrics_show_alerts_to_analysts_only(running):
    rule = running.series.alert(ABOVE, webhook="ops")
    never = running.series.alert(NEVER)
    follow(running, WEEK + DAY)
    server = running.server
    for kind in ("analyst", "operator"):
        lines = server.ask("GET", "/metrics", server.token(kind)).text.splitlines()
        label = f'series="{running.series.id}",rule='
        assert f'thresher_series_alerts_total{{{label}"{rule.id}"}} 2' in lines
        assert f'thresher_series_alert_standing{{{label}"{rule.id}"}} 1' in lines
        assert f'thresher_series_alerts_total{{{label}"{never.id}"}} 0' in lines
        assert f'thresher_series_alert_standing{{{label}"{never.id}"}} 0' in lines
        assert 'thresher_series_alert_messages{state="waiting"} 2' in lines
        assert 'thresher_series_alert_messages{state="given-up"} 0' in lines
        text = "\n".join(lines)
        assert "# TYPE thresher_series_alerts_total counter" in text
        assert "yes" not in re.sub(r"# HELP.*", "", text) and "word" not in text
    assert "alert" not in server.ask("GET", "/metrics").text


def test_the_consoles_desk_has_rules_and_alerts(running):
    desk = ServerDesk(running.server.services)
    series = running.series.id
    rule = desk.add_rule(series, RuleRequest(rule=ABOVE.to_dict()), "ada")
    follow(running, DAY)
    assert desk.rules(series).rules[0].standing and desk.rules(series).webhooks == ["ops"]
    assert [alert.rule for alert in desk.alerts(series)] == [rule.id]
    assert [each.alert for each in desk.standing_alerts(5).series] == desk.alerts(series)
    assert desk.remove_rule(series, rule.id).rules == [] and desk.standing_alerts(5).series == []


# The command.


@pytest.fixture
def command(running, monkeypatch):
    """`thresher fleet series …`, on that server."""
    monkeypatch.setattr(fleet_options, "connected", lambda *_: fleet_of(running.server))

    def run(name, *arguments, code=0):
        result = CliRunner().invoke(commands.app, ["series", name, running.series.id, *arguments, "--server=x"])
        assert result.exit_code == code, result.output + repr(result.exception)
        return " ".join(result.stdout.split())

    return run


@pytest.mark.slow
def test_the_command_adds_shows_and_removes(running, command):
    assert "There is no rule." in command("rules") and "There is no alert yet." in command("alerts")
    said = command("alert", "--above=1500", "--bucket=yes", "--webhook=ops")
    assert "yes is above 1,500, by its 95 % interval, posts to ops" in said
    added = json.loads(command("alert", "--below=10", "--judged-by=estimate", "--confidence=0.999", "--json"))
    assert added["rule"] == {
        "kind": "below", "bound": 10.0, "bucket": None, "judged_by": "estimate", "confidence": 0.999
    }  # fmt: skip
    command("alert", "--changed")
    follow(running, DAY)
    shown = command("alerts")
    assert "2023-11-14 22:14 UTC yes is above 1,500" in shown and "ops: waiting" in shown
    [alert] = json.loads(command("alerts", "--json"))["alerts"]
    assert alert["index"] == 0 and alert["findings"][0]["bucket"] == "yes"
    listed = command("rules")
    assert "posts to ops alert" in listed and "Webhooks that the operator has allowed: ops." in listed
    assert len(json.loads(command("rules", "--json"))["rules"]) == 3
    assert len(json.loads(command("remove-rule", added["id"], "--json"))["rules"]) == 2
    assert alert["rule"] not in command("remove-rule", alert["rule"])


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--above=1", "--below=2"), ("--changed", "--above=1")])
def test_the_command_wants_one_kind(command, options):
    with pytest.raises(AssertionError, match="exactly one of them"):
        command("alert", *options)
    assert "There is no rule." in command("rules")


def test_serve_refuses_what_everybody_could_read(tmp_path):
    for options, said in (
        (("--alert-webhook", "ops=https://ada:canary@hooks.example"), "process list"),
        (("--alert-webhook", "ops=http://canary.example"), "https"),
        (("--alert-webhook-file", str(tmp_path / "none")), "cannot be read"),
    ):
        result = CliRunner().invoke(app, ["serve", "--data-dir", str(tmp_path / "data"), *options])
        assert result.exit_code != 0 and said in f"{result.output}{result.exception}"
        assert "canary" not in f"{result.output}{result.exception}"
    assert not (tmp_path / "data").exists()


# A real server.


@pytest.mark.slow
def test_a_real_server_posts_to_what_the_operator_allowed(tmp_path):
    received: list[tuple[str, dict]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append((self.headers.get("Thresher-Signature", ""), json.loads(body)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    receiver = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=receiver.serve_forever, args=(0.05,), daemon=True).start()
    hooks, secret = tmp_path / "hooks", tmp_path / "secret"
    hooks.write_text(f"ops=http://127.0.0.1:{receiver.server_address[1]}/in\n")
    secret.write_text("s3cret\n")
    allowed = ("--alert-webhook-file", str(hooks), "--alert-secret-file", str(secret))
    budget = ("--budget-epsilon", "40", "--budget-delta", "1e-3", "--public-url", "https://fleet.example/")
    with started(tmp_path / "data", "--come-back", "1", "--no-console", *budget, *allowed) as server:
        devices = [
            Device(server.url, server.enrolment_key, {"word": "yes" if number % 15 else "no"}) for number in range(120)
        ]
        with Fleet(server.url, server.analyst) as fleet:
            series = fleet.with_rounds(completions=120, seconds=600).series(
                "histogram", "word", every="hour", releases=3, epsilon=8, delta=1e-5, missed="late", warn=False
            )
            series.alert(Rule("above", 20, bucket="yes", judged_by="estimate"), webhook="ops")
            deadline = time.monotonic() + 60
            while not received and time.monotonic() < deadline:
                for device in devices:
                    device.check_in()
            while not (received and series.alerts()[0].delivery == "sent") and time.monotonic() < deadline:
                time.sleep(0.1)
            [(signature, body)] = received
            [alert] = series.alerts()
            assert signature.startswith("sha256=") and body["id"] == alert.id and body["text"] == alert.text
            assert body["link"] == f"https://fleet.example/series/{series.id}"
            assert (alert.delivery, alert.tries) == ("sent", 1)
        for device in devices:
            device.close()
    receiver.shutdown()
    receiver.server_close()
