"""How many devices enrol with a key and from an address in an hour, and how they are revoked."""

import asyncio
import json

import httpx
import pytest
from fleet_server import started
from server_cases import ASK, ENROL, handing_in, histogram_request, inside
from typer.testing import CliRunner

from thresher.cli.app import app
from thresher.errors import InvalidSetting
from thresher.protocol.identity import _NONCE_BYTES, NONCE_HEADER, PROOF_HEADER
from thresher.server.limits import Limits
from thresher.server.networks import Addresses
from thresher.server.problem import Refused

SEALED = bytes(112)


def enrol_from(server, address: str) -> httpx.Response:
    """Enrol as a device at an address."""

    async def asking() -> httpx.Response:
        transport = httpx.ASGITransport(server.app, client=(address, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
            headers = {"Authorization": f"Bearer {server.token('enrolment')}"}
            return await client.post("/v2/devices", json=ENROL, headers=headers)

    return asyncio.run(asking())


def test_a_key_enrols_so_many_devices_an_hour(tmp_path):
    with inside(tmp_path / "data", limits=Limits(enrolments_per_hour=2)) as server:
        assert [enrol_from(server, "127.0.0.1").status_code for _ in range(3)] == [200, 200, 429]
        refused = enrol_from(server, "127.0.0.1")
        assert refused.json()["code"] == "too-many-enrolments" and "key" in refused.json()["detail"]
        assert 1 <= int(refused.headers["retry-after"]) <= 3600
        assert 'thresher_enrolments_refused_total{reason="key"} 2' in server.ask("GET", "/metrics").text
        operator = server.token("operator")
        body = {"name": "small", "hourly": 1, "devices": 5}
        made = server.ask("POST", "/v1/operator/enrolment-keys", operator, json=body).json()
        statuses = [server.ask("POST", "/v2/devices", made["key"], json=ENROL).status_code for _ in range(2)]
        assert statuses == [200, 429]
        listed = server.ask("GET", "/v1/operator/enrolment-keys", operator).json()["keys"]
        assert [key["hourly"] for key in listed] == [None, 1]


def test_an_address_enrols_so_many_devices_an_hour_and_is_kept_nowhere(tmp_path, caplog):
    with inside(tmp_path / "data", limits=Limits(enrolments_per_address=2)) as server:
        assert [enrol_from(server, "192.0.2.77").status_code for _ in range(3)] == [200, 200, 429]
        assert enrol_from(server, "192.0.2.78").status_code == 200
        assert [enrol_from(server, "127.0.0.1").status_code for _ in range(4)] == [200] * 4
        metrics = server.ask("GET", "/metrics").text
        assert 'thresher_enrolments_refused_total{reason="address"} 1' in metrics and "192.0.2" not in metrics
    assert "192.0.2" not in caplog.text
    for file in (tmp_path / "data").rglob("*"):
        assert not file.is_file() or b"192.0.2.7" not in file.read_bytes()


def test_an_address_is_a_network_of_one_caller():
    now = [0.0]
    addresses = Addresses(2, now=lambda: now[0])
    for text in ("2001:db8::1", "2001:db8::2"):
        addresses.take((text, 1))
    with pytest.raises(Refused):
        addresses.take(("2001:db8::3", 1))
    addresses.take(("2001:db8:0:1::3", 1))
    for free in (None, ("", 1), ("testclient", 1), ("::1", 1), ("::ffff:127.0.0.1", 1)):
        for _ in range(5):
            addresses.take(free)
    now[0] = 1800.0
    addresses.take(("2001:db8::3", 1))
    assert not any(b"2001" in bytes(key) for key in addresses._buckets._buckets)


@pytest.mark.parametrize("name", ["enrolments_per_hour", "enrolments_per_address"])
def test_somebody_may_enrol(name):
    with pytest.raises(InvalidSetting, match=name.replace("_", "-")):
        Limits(**{name: 0})


@pytest.fixture
def fleet(tmp_path):
    """A server with an open round and three devices that were chosen for it."""
    with inside(tmp_path / "data") as server:
        query = server.ask("POST", "/v1/queries", server.token("analyst"), json=histogram_request(seconds=3600)).json()
        server.services.coordinator.step()
        devices = [server.enrol() for _ in range(3)]
        for device in devices:
            assert len(server.ask("POST", "/v2/visit", device, json=ASK).json()["rounds"]) == 1
        [round] = server.services.coordinator.status(query["id"]).rounds
        yield server, devices, round.round


def report(server, device, round):
    answer = server.ask("POST", "/v2/visit", device, json=handing_in((round, SEALED)))
    return answer.json()["reports"][0]["status"] if answer.status_code == 200 else answer.status_code


def test_an_operator_revokes_a_device(fleet):
    server, (first, second, _), round = fleet
    operator = server.token("operator")
    [key] = server.ask("GET", "/v1/operator/enrolment-keys", operator).json()["keys"]
    listed = server.ask("GET", f"/v1/operator/enrolment-keys/{key['id']}/devices", operator).json()
    assert listed["number"] == 3
    assert {frozenset(each) for each in listed["devices"]} == {
        frozenset({"id", "enrolled", "last_check_in", "revoked"})
    }
    assert report(server, first, round) == "taken"
    [device] = server.services.collector.identify([first])
    assert server.ask("DELETE", f"/v1/operator/devices/{device}", operator).status_code == 204
    nonce = {NONCE_HEADER: "00" * _NONCE_BYTES}
    refused = server.ask("POST", "/v2/visit", first, json=ASK, headers=nonce)
    unknown = server.ask("POST", "/v2/visit", "thresher-device-" + "x" * 32, json=ASK, headers=nonce)
    assert refused.status_code == unknown.status_code == 401 and refused.json() == unknown.json()
    assert PROOF_HEADER in unknown.headers and PROOF_HEADER not in refused.headers  # else it would enrol again
    assert report(server, first, round) == 401
    assert report(server, second, round) == "taken"
    numbers = server.services.collector.close(round)
    assert (numbers.asked, numbers.contacted, numbers.completed) == (3, 3, 2)  # what was taken stays
    assert server.ask("DELETE", "/v1/operator/devices/nobody", operator).status_code == 404
    assert server.ask("DELETE", f"/v1/operator/devices/{device}", server.token("analyst")).status_code == 403


def test_an_operator_revokes_all_devices_of_a_key(fleet):
    server, devices, round = fleet
    operator = server.token("operator")
    [key] = server.ask("GET", "/v1/operator/enrolment-keys", operator).json()["keys"]
    path = f"/v1/operator/enrolment-keys/{key['id']}/devices"
    assert server.ask("DELETE", path, operator).json() == {"revoked": 3}
    assert server.ask("DELETE", path, operator).json() == {"revoked": 0}
    assert all(each["revoked"] for each in server.ask("GET", path, operator).json()["devices"])
    assert [report(server, device, round) for device in devices] == [401] * 3
    assert server.ask("POST", "/v2/devices", server.token("enrolment"), json=ENROL).status_code == 401
    assert server.ask("GET", "/v1/fleet", server.token("analyst")).json()["enrolled"] == 0
    for method in ("GET", "DELETE"):
        assert server.ask(method, "/v1/operator/enrolment-keys/nobody/devices", operator).status_code == 404


@pytest.mark.slow
def test_the_command_lists_and_revokes(tmp_path):
    with started(tmp_path / "data", "--no-console") as server:
        with server.client(server.enrolment_key) as client:
            tokens = [client.post("/v2/devices", json=ENROL).json()["token"] for _ in range(3)]
        given = ["--server", server.url, "--key-file", str(server.data_dir / "operator.token"), "--json"]

        def run(*arguments):
            done = CliRunner().invoke(app, ["fleet", *arguments, *given])
            assert done.exit_code == 0, (done.output, done.exception)
            return json.loads(done.stdout)

        [key] = run("enrolment-keys")["keys"]
        listed = run("devices", key["id"])["devices"]
        assert run("revoke-device", listed[0]["id"]) == {"revoked": 1}
        assert sum(each["revoked"] for each in run("devices", key["id"])["devices"]) == 1
        assert run("revoke-devices", key["id"]) == {"revoked": 2}
        for token in tokens:
            with server.client(token) as client:
                assert client.post("/v2/visit", json=ASK).status_code == 401
        for words in (["devices", key["id"]], ["enrolment-keys"]):
            shown = CliRunner().invoke(app, ["fleet", *words, *given[:-1]])
            assert shown.exit_code == 0 and "revoked" in shown.output
        wrong = CliRunner().invoke(app, ["fleet", "revoke-device", "a/../b", *given])
        assert wrong.exit_code != 0
