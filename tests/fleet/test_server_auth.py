"""Who may call what: every route × every kind of token × missing, wrong, expired, revoked; from the route table."""

import re

import pytest
from server_cases import ENROL, inside

from thresher.roles.tokens import new_token, token_hash
from thresher.server.app import ROUTES
from thresher.server.auth import KINDS, kind_of

PATHS = {
    "round": "r-unknown",
    "query": "q-unknown",
    "series": "s-unknown",
    "rule": "r-unknown",
    "number": "0",
    "id": "unknown",
}
LOCKED = [route for route in ROUTES if route.opens]
REFUSALS = (401, 403)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with inside(tmp_path_factory.mktemp("auth") / "data") as server:
        yield server


@pytest.fixture(scope="module")
def tokens(server):
    """A valid token of every kind."""
    return {kind: server.enrol() if kind == "device" else server.token(kind) for kind in KINDS}


def path_of(route):
    return re.sub(r"{(\w+)}", lambda found: PATHS[found[1]], route.path)


def ids(route):
    return f"{route.method} {route.path}"


@pytest.mark.parametrize("route", LOCKED, ids=ids)
def test_only_the_right_kind_of_token_opens_a_route(server, tokens, route):
    for kind, token in tokens.items():
        answer = server.ask(route.method, path_of(route), token)
        if kind in route.opens:
            # What the route then says of an empty or unknown request is its own business.
            assert answer.status_code not in REFUSALS and answer.status_code < 500, (kind, answer.text)
        else:
            assert answer.status_code == 403 and answer.json()["code"] == "forbidden", (kind, answer.text)


@pytest.mark.slow
@pytest.mark.parametrize("route", LOCKED, ids=ids)
def test_a_missing_or_wrong_token_opens_nothing(server, tokens, route):
    wrong = [None, "", "nonsense", "thresher-", "thresher-nobody-" + "x" * 32, "thresher-analyst-", "ü" * 40]
    wrong += [new_token(kind) for kind in route.opens]
    wrong += [tokens[kind][:-1] + ("A" if tokens[kind][-1] != "A" else "B") for kind in route.opens]
    wrong += [tokens[kind] + "A" for kind in route.opens]
    wrong += [token_hash(tokens[kind]).hex() for kind in route.opens]
    for token in wrong:
        headers = [] if token is None else [(b"Authorization", b"Bearer " + token.encode())]
        # An enrolment key is looked up together with the enrolment, so that request must be whole.
        answer = server.ask(
            route.method, path_of(route), headers=headers, content=b'{"versions":[2]}' if route.name == "enrol" else b""
        )
        assert answer.status_code == 401, (token, answer.text)
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.headers["content-type"] == "application/problem+json"
        assert not token or len(token) < 20 or token not in answer.text
    for scheme in ("Basic", "Token", ""):
        for kind in route.opens:
            answer = server.ask(route.method, path_of(route), headers={"Authorization": f"{scheme} {tokens[kind]}"})
            assert answer.status_code == 401


def put_away(server, kind: str, *, expired: bool) -> str:
    """A token of a kind that has expired or was revoked."""
    token = new_token(kind)
    now = server.services.clock.now()
    expires = now - 1 if expired else None
    id = token_hash(token).hex()[:12]
    if kind == "enrolment":
        store = server.services.collector_store
        store.add_enrolment_key(id, token_hash(token), "old", now - 10, expires=expires)
        revoke = store.revoke_enrolment_key
    else:
        store = server.services.coordinator_store
        store.add_token(id, kind, token_hash(token), "old", now=now - 10, expires=expires)
        revoke = store.revoke_token
    if not expired:
        assert revoke(id, now)
    return token


@pytest.mark.parametrize("expired", [True, False], ids=["expired", "revoked"])
@pytest.mark.parametrize(
    "route", [route for route in LOCKED if {"enrolment", "analyst", "operator"} & set(route.opens)], ids=ids
)
def test_an_expired_or_revoked_token_opens_nothing(server, route, expired):
    for kind in {"enrolment", "analyst", "operator"} & set(route.opens):
        body = ENROL if kind == "enrolment" else None
        answer = server.ask(route.method, path_of(route), put_away(server, kind, expired=expired), json=body)
        assert answer.status_code == 401, (kind, answer.text)


def test_a_token_stored_under_another_kind_than_it_says_opens_nothing(server):
    token = new_token("operator")
    server.services.coordinator_store.add_token("odd", "analyst", token_hash(token), "odd", now=0.0)
    assert server.ask("GET", "/v1/operator/tokens", token).status_code == 401
    assert server.ask("GET", "/v1/ledger", token).status_code == 401


def test_an_operator_may_do_what_an_analyst_may_and_not_the_reverse():
    for route in ROUTES:
        if "analyst" in route.opens:
            assert "operator" in route.opens
    assert any(route.opens == ("operator",) for route in ROUTES)


def test_every_route_says_who_may_call_it_and_public_ones_are_few():
    for route in ROUTES:
        assert set(route.opens) <= set(KINDS)
    assert {route.path for route in ROUTES if not route.opens} == {"/healthz", "/readyz", "/metrics", "/openapi.json"}
    peers = [route for route in ROUTES if route.path.startswith("/v1/peer/")]
    assert peers
    for route in peers:
        # A key between two roles opens routes of the role that is called, for the one role that calls.
        assert len(route.opens) == 1 and route.opens[0].endswith(f"-to-{route.role}")


def test_public_routes_answer_without_a_token(server):
    for route in ROUTES:
        if not route.opens:
            assert server.ask(route.method, route.path).status_code == 200


@pytest.mark.slow
def test_every_route_of_the_table_is_served(server, tokens):
    for route in ROUTES:
        token = tokens[route.opens[0]] if route.opens else None
        answer = server.ask(route.method, path_of(route), token)
        assert answer.status_code != 405 and "nothing at this path" not in answer.text
        assert server.ask("PATCH", path_of(route), token).status_code == 405
    assert "nothing at this path" in server.ask("GET", "/v1/nowhere").text  # the check can fail


def test_the_table_has_no_two_routes_alike():
    assert len({(route.method, route.path) for route in ROUTES}) == len(ROUTES)
    assert len({route.name for route in ROUTES}) == len(ROUTES)


def test_a_role_alone_serves_only_its_own_routes(tmp_path):
    with inside(tmp_path / "aggregator", "aggregator") as alone:
        operator = alone.token("operator")
        assert alone.ask("GET", "/v1/operator/keys", operator).status_code == 200
        for path in ("/v1/ledger", "/v1/operator/tokens", "/v1/operator/enrolment-keys", "/v1/peer/collector/overview"):
            assert alone.ask("GET", path, operator).status_code == 404
        assert alone.ask("POST", "/v2/devices", new_token("enrolment"), json=ENROL).status_code == 404


def test_operators_make_list_and_revoke_tokens(server, tokens):
    operator = tokens["operator"]
    made = server.ask("POST", "/v1/operator/tokens", operator, json={"name": "ann", "role": "analyst"})
    assert made.status_code == 201
    token, id = made.json()["token"], made.json()["id"]
    assert kind_of(token) == "analyst"
    assert server.ask("GET", "/v1/ledger", token).status_code == 200
    shown = server.ask("GET", "/v1/operator/tokens", operator)
    assert {"ann"} <= {entry["name"] for entry in shown.json()["tokens"]}
    assert token not in shown.text and token_hash(token).hex() not in shown.text
    assert server.ask("DELETE", f"/v1/operator/tokens/{id}", operator).status_code == 204
    assert server.ask("GET", "/v1/ledger", token).status_code == 401
    assert server.ask("DELETE", "/v1/operator/tokens/nobody", operator).status_code == 404


def test_operators_make_list_and_revoke_enrolment_keys(server, tokens):
    operator = tokens["operator"]
    made = server.ask("POST", "/v1/operator/enrolment-keys", operator, json={"name": "shop", "devices": 1})
    assert made.status_code == 201
    key, id = made.json()["key"], made.json()["id"]
    assert server.ask("POST", "/v2/devices", key, json=ENROL).status_code == 200
    assert server.ask("POST", "/v2/devices", key, json=ENROL).status_code == 401  # it was for one device
    shown = server.ask("GET", "/v1/operator/enrolment-keys", operator)
    entry = next(entry for entry in shown.json()["keys"] if entry["id"] == id)
    assert (entry["name"], entry["devices"], entry["enrolled"], entry["revoked"]) == ("shop", 1, 1, False)
    assert key not in shown.text
    assert server.ask("DELETE", f"/v1/operator/enrolment-keys/{id}", operator).status_code == 204
    assert server.ask("DELETE", "/v1/operator/enrolment-keys/nobody", operator).status_code == 404


def test_operators_rotate_the_key(server, tokens):
    before = server.ask("GET", "/v1/operator/keys", tokens["operator"]).json()
    rotated = server.ask("POST", "/v1/operator/keys/rotate", tokens["operator"])
    assert rotated.status_code == 200 and rotated.json() != before
    assert server.ask("GET", "/v1/operator/keys", tokens["operator"]).json() == rotated.json()
