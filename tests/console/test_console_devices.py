"""An operator finds the devices of a key, and revokes one or all of them."""

from __future__ import annotations

import re

import httpx
import pytest
from console_client import client, sign_in


@pytest.fixture
def operated(server):
    """An operator who has signed in, a key of their own, and three devices that enrolled with it."""
    with client(server) as http, httpx.Client(base_url=server.url, trust_env=False, timeout=30) as api:
        headers = {"Authorization": f"Bearer {server.operator}"}
        made = api.post("/v1/operator/enrolment-keys", json={"name": "test-phones"}, headers=headers).json()
        enrolling = {"Authorization": f"Bearer {made['key']}"}
        tokens = [api.post("/v2/devices", json={"versions": [2]}, headers=enrolling).json()["token"] for _ in range(3)]
        csrf = sign_in(http, server.operator)
        yield http, csrf, made["id"], tokens, api


ASK = {"versions": [2], "reports": [], "rounds": True}


def statuses(api: httpx.Client, tokens: list[str]) -> list[int]:
    return [
        api.post("/v2/visit", json=ASK, headers={"Authorization": f"Bearer {token}"}).status_code for token in tokens
    ]


@pytest.mark.slow
def test_the_devices_of_a_key_are_listed_and_revoked(operated):
    http, csrf, key, tokens, api = operated
    plain = http.get("/operate")
    assert f'href="/operate?key={key}#devices"' in plain.text and 'id="devices"' not in plain.text
    listed = http.get("/operate", params={"key": key})
    devices = re.findall(r'action="/operate/revoke-device">.*?name="id" value="([^"]+)"', listed.text)
    assert len(devices) == 3 and "3 devices enrolled" in listed.text
    assert all(token not in listed.text for token in tokens)
    assert statuses(api, tokens) == [200] * 3
    form = {"csrf": csrf, "id": devices[0], "key": key}
    assert http.post("/operate/revoke-device", data={**form, "csrf": "x"}).status_code == 403
    answer = http.post("/operate/revoke-device", data=form)
    assert answer.status_code == 303 and answer.headers["location"] == f"/operate?key={key}#devices"
    assert sorted(statuses(api, tokens)) == [200, 200, 401]
    assert http.get("/operate", params={"key": key}).text.count('/operate/revoke-device"') == 2
    assert http.post("/operate/revoke-devices", data={"csrf": csrf, "id": key}).status_code == 303
    assert statuses(api, tokens) == [401] * 3


def test_what_does_not_exist_is_said(operated):
    http, csrf, *_ = operated
    assert http.get("/operate", params={"key": "nobody"}).status_code == 404
    for action in ("revoke-device", "revoke-devices"):
        assert http.post(f"/operate/{action}", data={"csrf": csrf, "id": "nobody"}).status_code == 404


def test_an_analyst_revokes_nobody(operated, server):
    _, _, key, tokens, api = operated
    with client(server) as http:
        csrf = sign_in(http, server.analyst)
        assert http.post("/operate/revoke-devices", data={"csrf": csrf, "id": key}).status_code == 403
    assert statuses(api, tokens) == [200] * 3


def test_an_operator_sees_how_many_reports_were_dropped(operated, server):
    http, *_ = operated

    def figures(text: str) -> dict[str, str]:
        return dict(re.findall(r"<dt>(Malformed|Came twice)</dt><dd class=\"figure\">([\d,]+)</dd>", text))

    assert figures(http.get("/operate").text) == {"Malformed": "0", "Came twice": "0"}
    store = server.aggregator._store
    store.add_batch("odd", 0, b"d", b"reports")
    store.store_release("odd", "{}", malformed=1234, duplicates=5)
    assert figures(http.get("/operate").text) == {"Malformed": "1,234", "Came twice": "5"}
