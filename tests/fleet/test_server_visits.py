"""The device's routes: versions, statuses of reports, and which web pages may use them."""

import json
import ssl

import httpx
import pytest
from fleet_server import started
from own_authority import Authority
from server_cases import ASK, ENROL, configuration_of, handing_in, inside

from thresher.errors import InvalidSetting
from thresher.protocol.identity import NONCE_HEADER, PROOF_HEADER
from thresher.roles.collector.reports import NewVisit
from thresher.server.assembly import Settings
from thresher.server.cross_origin import Origins
from thresher.server.limits import Limits, Rate

APP, OTHER = "https://app.example", "https://other.example"


@pytest.fixture
def server(tmp_path):
    with inside(tmp_path / "data", allow_origins=(APP, "http://localhost:5173")) as server:
        yield server


def opened(server, *names):
    for name in names:
        server.services.collector.open(configuration_of(server.services.aggregator, name))


# Visits


def test_an_enrolment_and_a_visit(server):
    enrolled = server.ask("POST", "/v2/devices", server.token("enrolment"), json=ENROL).json()
    assert set(enrolled) == {"version", "token", "identity"} and enrolled["version"] == 2
    assert len(enrolled["identity"]) == 64
    opened(server, "r1", "r2")
    answer = server.ask("POST", "/v2/visit", enrolled["token"], json=ASK)
    assert answer.headers["content-type"] == "application/json"
    visited = answer.json()
    assert set(visited) == {"version", "reports", "rounds", "come_back"}
    assert (visited["version"], visited["reports"], visited["come_back"]) == (2, [], 60.0)
    assert visited["rounds"] == [configuration_of(server.services.aggregator, name).text for name in ("r1", "r2")]


def test_each_report_has_a_status_in_the_order_of_the_request(server):
    device = server.enrol()
    opened(server, "r1", "r2", "r3", "over")
    server.services.collector.close("over")
    server.ask("POST", "/v2/visit", device, json=ASK)
    first = handing_in(("r2", bytes(112)), ("nowhere", bytes(112)), ("r1", b"short"), ("over", bytes(112)))
    answer = server.ask("POST", "/v2/visit", device, json=first | {"rounds": True}).json()
    assert answer["reports"] == [
        {"round": "r2", "status": "taken"},
        {"round": "nowhere", "status": "closed"},
        {"round": "r1", "status": "rejected"},
        {"round": "over", "status": "closed"},
    ]
    assert [json.loads(text)["round"] for text in answer["rounds"]] == ["r1", "r3"]
    again = handing_in(("r2", bytes(112)), ("r1", bytes(112)), ("r2", b"x" * 112))
    answer = server.ask("POST", "/v2/visit", device, json=again).json()
    assert [report["status"] for report in answer["reports"]] == ["taken", "taken", "conflict"]
    assert answer["rounds"] == []


def test_a_device_that_was_not_chosen_is_rejected(server, monkeypatch):
    monkeypatch.setattr(server.services.collector, "_toss", lambda numerator, number: [False] * number)
    device = server.enrol()
    opened(server, "r1")
    assert server.ask("POST", "/v2/visit", device, json=ASK).json()["rounds"] == []
    answer = server.ask("POST", "/v2/visit", device, json=handing_in(("r1", bytes(112)))).json()
    assert answer["reports"] == [{"round": "r1", "status": "rejected"}]


def test_a_revoked_device_is_refused_with_all_that_it_hands_in(server):
    device = server.enrol()
    opened(server, "r1")
    collector = server.services.collector
    collector.revoke_device(*collector.identify([device]))
    answer = server.ask("POST", "/v2/visit", device, json=handing_in(("r1", bytes(112))))
    assert (answer.status_code, PROOF_HEADER in answer.headers) == (401, False)
    assert collector.progress("r1").completed == collector.progress("r1").asked == 0


@pytest.mark.parametrize("path", ["/v2/devices", "/v2/visit"])
@pytest.mark.parametrize("body", [{"versions": [1]}, {"versions": [3, 7], "more": 1}])
def test_a_device_of_other_versions_is_told_those_of_the_server(server, path, body):
    token = server.token("enrolment") if path == "/v2/devices" else server.enrol()
    answer = server.ask("POST", path, token, json=body)
    problem = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status_code, problem["code"], problem["versions"]) == (400, "unsupported-version", [2])
    assert (problem["status"], problem["type"]) == (400, "urn:thresher:problem:unsupported-version")


def test_a_device_that_speaks_several_versions_is_answered_in_ours(server):
    assert server.ask("POST", "/v2/visit", server.enrol(), json=ASK | {"versions": [1, 2, 3]}).json()["version"] == 2


@pytest.mark.parametrize(
    "body",
    [{}, [], ENROL, ASK | {"versions": []}, ASK | {"versions": [2, "3"]}, ASK | {"more": 1}, ASK | {"rounds": "yes"},
     ASK | {"reports": [{"round": "r"}]}, ASK | {"reports": [{"round": "r", "sealed": "?"}]},
     ASK | {"reports": [{"round": "r", "sealed": "QQ"}]}, ASK | {"reports": [{"round": "a/b", "sealed": "QQ=="}]},
     ASK | {"reports": [{"round": "r", "sealed": "QQ=="}] * 257}],
)  # fmt: skip
def test_a_visit_that_cannot_be_read_is_refused(server, body):
    answer = server.ask("POST", "/v2/visit", server.enrol(), json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid-format")


def test_a_visit_has_256_kib_at_most(server):
    device = server.enrol()
    body = json.dumps(ASK).encode()
    whole = server.ask("POST", "/v2/visit", device, content=body.ljust(256 << 10))
    assert whole.status_code == 200
    assert server.ask("POST", "/v2/visit", device, content=body.ljust((256 << 10) + 1)).status_code == 413
    many = handing_in(*((f"r{number}", bytes(112)) for number in range(256)))
    assert len(server.ask("POST", "/v2/visit", device, json=many).json()["reports"]) == 256


@pytest.mark.parametrize("path", ["/v1/devices", "/v1/check-in", "/v1/rounds/r1/report"])
def test_the_routes_of_protocol_1_are_gone(server, path):
    assert server.ask("POST", path, server.enrol(), json={}).status_code == 404


# Web pages


@pytest.mark.parametrize("path", ["/v2/devices", "/v2/visit"])
def test_a_preflight_of_a_listed_origin(server, path):
    asked = {"origin": APP, "access-control-request-method": "POST"}
    asked["access-control-request-headers"] = "authorization,content-type,thresher-nonce"
    answer = server.ask("OPTIONS", path, headers=asked)
    assert (answer.status_code, answer.content) == (204, b"")
    assert answer.headers["access-control-allow-origin"] == APP
    assert answer.headers["access-control-allow-methods"] == "POST"
    allowed = answer.headers["access-control-allow-headers"].split(", ")
    assert set(allowed) == {"authorization", "content-type", NONCE_HEADER}
    assert int(answer.headers["access-control-max-age"]) > 0
    assert answer.headers["vary"] == "origin"
    assert "access-control-allow-credentials" not in answer.headers


def cors(answer) -> set[str]:
    return {name for name in answer.headers if name.startswith("access-control-")}


@pytest.mark.parametrize("origin", [OTHER, "null", "https://app.example.evil", "https://app.example:8443", ""])
def test_other_origins_get_no_header(server, origin):
    headers = {"origin": origin, "access-control-request-method": "POST"}
    refused = server.ask("OPTIONS", "/v2/visit", headers=headers)
    assert (refused.status_code, cors(refused)) == (403, set())
    answer = server.ask("POST", "/v2/visit", server.enrol(), json=ASK, headers=headers)
    assert (answer.status_code, cors(answer), answer.headers["vary"]) == (200, set(), "origin")


def test_every_answer_of_these_routes_to_a_listed_origin_can_be_read(tmp_path):
    slow = Limits(rates=Limits().rates | {"device": Rate(0.001, 3)}, enrolments_per_hour=1, headers=20)
    with inside(tmp_path / "data", limits=slow, allow_origins=(APP,)) as server:
        device, key, unknown = server.enrol(), server.token("enrolment"), "thresher-device-" + "x" * 32
        nonce = {NONCE_HEADER: "0" * 32}
        many = {f"x-{number}": "1" for number in range(30)}
        for status, method, path, token, content in [
            (200, "POST", "/v2/visit", device, {"json": ASK}),
            (400, "POST", "/v2/visit", device, {"json": {}}),
            (413, "POST", "/v2/visit", device, {"content": b" " * (300 << 10)}),
            (429, "POST", "/v2/visit", device, {"json": ASK}),
            (401, "POST", "/v2/visit", unknown, {"json": ASK, "headers": nonce}),
            (401, "POST", "/v2/visit", None, {"json": ASK}),
            (403, "POST", "/v2/visit", server.token("analyst"), {"json": ASK}),
            (429, "POST", "/v2/devices", key, {"json": ENROL}),
            (405, "GET", "/v2/visit", device, {}),
            (431, "POST", "/v2/visit", device, {"json": ASK, "headers": many}),
        ]:
            headers = {"origin": APP, **content.pop("headers", {})}
            answer = server.ask(method, path, token, headers=headers, **content)
            assert answer.status_code == status, answer.text
            assert answer.headers["access-control-allow-origin"] == APP
            assert set(answer.headers["access-control-expose-headers"].split(", ")) == {"retry-after", PROOF_HEADER}
            assert answer.headers["vary"] == "origin"
            assert (PROOF_HEADER in answer.headers) == (token == unknown)
        server.app.crowded = lambda: True
        crowded = server.ask("POST", "/v2/visit", device, json=ASK, headers={"origin": APP})
        assert (crowded.status_code, crowded.headers["access-control-allow-origin"]) == (503, APP)
        elsewhere = server.ask("GET", "/v1/queries", headers={"origin": APP})
        assert (elsewhere.status_code, cors(elsewhere)) == (503, set())


def test_a_store_that_is_down_and_an_error_inside_can_be_read_too(server, monkeypatch):
    device = server.enrol()

    def breaks(*_):
        raise RuntimeError("canary")

    monkeypatch.setattr(server.services.collector, "visit", breaks)
    answer = server.ask("POST", "/v2/visit", device, json=ASK, headers={"origin": APP})
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (500, APP)


@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [("GET", "/v1/queries", "analyst"), ("GET", "/healthz", None), ("GET", "/metrics", None), ("GET", "/nowhere", None),
     ("OPTIONS", "/v1/queries", "analyst"), ("OPTIONS", "/v2/nowhere", None)],
)  # fmt: skip
def test_no_other_route_has_such_headers(server, method, path, kind):
    token = None if kind is None else server.token(kind)
    answer = server.ask(method, path, token, headers={"origin": APP, "access-control-request-method": "GET"})
    assert cors(answer) == set()
    assert answer.status_code != 204


def test_without_listed_origins_nothing_changes(tmp_path):
    with inside(tmp_path / "data") as server:
        asked = server.ask("OPTIONS", "/v2/visit", headers={"origin": APP, "access-control-request-method": "POST"})
        assert (asked.status_code, cors(asked), "vary" in asked.headers) == (405, set(), False)
        answer = server.ask("POST", "/v2/visit", server.enrol(), json=ASK, headers={"origin": APP})
        assert (answer.status_code, cors(answer), "vary" in answer.headers) == (200, set(), False)


def test_all_origins(tmp_path):
    with inside(tmp_path / "data", allow_origins=("*",)) as server:
        for origin in (APP, OTHER, "null"):
            answer = server.ask("POST", "/v2/visit", server.enrol(), json=ASK, headers={"origin": origin})
            assert answer.headers["access-control-allow-origin"] == "*"
            assert server.ask("OPTIONS", "/v2/visit", headers={"origin": origin}).status_code == 204
        assert cors(server.ask("POST", "/v2/visit", server.enrol(), json=ASK)) == set()


@pytest.mark.parametrize(
    ("given", "sent"),
    [("https://app.example", "https://app.example"), ("HTTPS://App.Example", "https://app.example"),
     ("https://app.example:443", "https://app.example"), ("http://app.example:443", "http://app.example:443"),
     ("http://localhost:5173", "http://localhost:5173"), ("http://[::1]:8080", "http://[::1]:8080"),
     ("capacitor://localhost", "capacitor://localhost")],
)  # fmt: skip
def test_origins_are_compared_as_browsers_write_them(given, sent):
    assert Origins([given]).allow(sent.encode())
    assert not Origins([given]).allow(b"https://else.example")


@pytest.mark.parametrize(
    "origin",
    ["", "app.example", "https://", "https://app.example/", "https://app.example/page", "https://a@app.example",
     "https://app.example:0", "https://app.example:99999", "https://*.app.example", "null", "https://app.example?x",
     "https://app.example#x", " https://app.example", "https://app.example\r\nx: y", "https://é.example", "**"],
)  # fmt: skip
def test_what_is_no_origin_is_refused_by_name(tmp_path, origin):
    with pytest.raises(InvalidSetting, match="allow-origin"):
        Settings(data_dir=tmp_path, allow_origins=(origin,))


def test_only_a_collector_has_pages_to_let_in(tmp_path):
    with pytest.raises(InvalidSetting, match="allow-origin"):
        Settings(data_dir=tmp_path, roles=("aggregator",), allow_origins=(APP,))


@pytest.mark.slow
def test_a_real_server_over_tls_answers_pages(tmp_path):
    authority = Authority(tmp_path)
    made = authority.certificate("127.0.0.1")
    arguments = ("--no-console", "--allow-origin", APP, "--tls-cert", str(made.cert), "--tls-key", str(made.key))
    with started(tmp_path / "data", *arguments) as server:
        trusted = ssl.create_default_context(cafile=str(authority.file))
        with httpx.Client(base_url=server.url, verify=trusted, trust_env=False) as client:
            asked = client.options("/v2/visit", headers={"origin": APP, "access-control-request-method": "POST"})
            assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (204, APP)
            refused = client.post("/v2/visit", json=ASK, headers={"origin": APP})
            assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, APP)


@pytest.mark.slow
def test_the_command_names_the_option_that_is_wrong(tmp_path):
    with pytest.raises(RuntimeError, match="allow-origin"), started(tmp_path / "data", "--allow-origin", "app.example"):
        pass


def test_answers_are_made_once_for_all_devices_of_a_commit(server, monkeypatch):
    """Devices with the same rounds and nothing to hand in get the same bytes."""
    made = []
    collector = server.services.collector
    real = collector.written
    monkeypatch.setattr(collector, "written", lambda *given: made.append(given) or real(*given))
    opened(server, "r1")
    devices = collector.identify([server.enrol() for _ in range(5)])
    front = server.app.devices
    assert front is not None
    answers = front._serve_visits([NewVisit(device) for device in devices])
    assert len(made) == 1
    assert len({id(answer) for answer in answers}) == 1
