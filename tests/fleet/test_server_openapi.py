"""The OpenAPI document: valid, whole, and what the server really does."""

import json
import re

import jsonschema
import msgspec
import pytest
import schemathesis
from series_cases import series_request
from server_cases import ASK, ENROL, handing_in, histogram_request, inside

from thresher.server.app import ROUTES
from thresher.server.openapi import document

CONTENT = json.loads(document(ROUTES))
METHODS = ("get", "put", "post", "delete", "patch", "head", "options", "trace")


def operations():
    for path, item in CONTENT["paths"].items():
        for method, operation in item.items():
            assert method in METHODS
            yield path, method.upper(), operation


def test_every_route_is_described_and_nothing_else():
    assert {(method, path) for path, method, _ in operations()} == {(route.method, route.path) for route in ROUTES}


def test_every_reference_leads_somewhere():
    found = re.findall(r'"\$ref":"#/components/schemas/([^"]+)"', json.dumps(CONTENT, separators=(",", ":")))
    assert len(found) > 20
    assert set(found) <= set(CONTENT["components"]["schemas"])


def test_every_schema_is_a_schema():
    for schema in CONTENT["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_messages_are_strict():
    for name in (
        "Enrol",
        "Visit",
        "Report",
        "QueryRequest",
        "SeriesRequest",
        "NewToken",
        "ReleaseRound",
    ):
        assert CONTENT["components"]["schemas"][name]["additionalProperties"] is False


def test_every_operation_is_whole():
    names = set()
    for path, method, operation in operations():
        route = next(route for route in ROUTES if (route.method, route.path) == (method, path))
        names.add(operation["operationId"])
        assert operation["summary"].endswith(".")
        assert {kind for entry in operation["security"] for kind in entry} == {*route.opens, *route.also}
        assert ({} in operation["security"]) == bool(route.also)
        assert {parameter["name"] for parameter in operation.get("parameters", [])} == set(re.findall(r"{(\w+)}", path))
        statuses = set(operation["responses"])
        assert statuses & {"200", "201", "204"} and "503" in statuses
        if route.opens:
            assert {"401", "403", "429"} <= statuses
            assert set(route.opens) <= set(CONTENT["components"]["securitySchemes"])
        if method in ("POST", "PUT"):
            assert "413" in statuses
        assert ("requestBody" in operation) == (route.body is not None or route.takes != "application/json")
    assert len(names) == len(ROUTES)


@pytest.mark.slow
def test_schemathesis_reads_it():
    schema = schemathesis.openapi.from_dict(CONTENT)
    found = [result.ok() for result in schema.get_all_operations()]
    assert len(found) == len(ROUTES)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with inside(tmp_path_factory.mktemp("openapi") / "data") as server:
        yield server


def checked(path: str, method: str, answer) -> None:
    """Fail unless an answer is as described."""
    operation = CONTENT["paths"][path][method.lower()]
    response = operation["responses"][str(answer.status_code)]
    if "content" not in response:
        assert answer.content == b""
        return
    media = answer.headers["content-type"].partition(";")[0]
    schema = response["content"][media]["schema"]
    if media.endswith("json"):
        whole = schema | {"components": CONTENT["components"]}
        jsonschema.Draft202012Validator(whole).validate(answer.json())


@pytest.mark.slow
def test_the_server_serves_what_it_describes(server):
    served = server.ask("GET", "/openapi.json")
    assert served.json() == CONTENT
    analyst, operator = server.token("analyst"), server.token("operator")
    query = server.ask("POST", "/v1/queries", analyst, json=histogram_request())
    checked("/v1/queries", "POST", query)
    server.services.coordinator.step()
    id = query.json()["id"]
    series = msgspec.to_builtins(series_request(releases=2))
    created = server.ask("POST", "/v1/series", analyst, json=series).json()["id"]
    device, stranger = server.enrol(), server.enrol()
    round = server.services.coordinator.status(id).rounds[0].round
    for path, method, at, token, body in [
        ("/v2/devices", "POST", "/v2/devices", server.token("enrolment"), ENROL),
        ("/v2/devices", "POST", "/v2/devices", server.token("enrolment"), {"versions": [3]}),
        ("/v2/devices", "POST", "/v2/devices", server.token("enrolment"), {}),
        ("/v2/devices", "POST", "/v2/devices", analyst, ENROL),
        ("/v2/visit", "POST", "/v2/visit", device, ASK),
        ("/v2/visit", "POST", "/v2/visit", None, ASK),
        ("/v2/visit", "POST", "/v2/visit", device, {}),
        ("/v2/visit", "POST", "/v2/visit", device, handing_in((round, b"short"), ("nowhere", bytes(112)))),
        ("/v2/visit", "POST", "/v2/visit", device, handing_in((round, bytes(112)))),
        ("/v2/visit", "POST", "/v2/visit", device, handing_in((round, b"x" * 112))),
        ("/v2/visit", "POST", "/v2/visit", stranger, handing_in((round, bytes(112)))),
        ("/v1/plans", "POST", "/v1/plans", analyst, histogram_request()),
        ("/v1/plans", "POST", "/v1/plans", analyst, histogram_request() | {"query": {}}),
        ("/v1/queries", "GET", "/v1/queries", analyst, None),
        ("/v1/queries/{query}", "GET", f"/v1/queries/{id}", analyst, None),
        ("/v1/queries/{query}", "GET", "/v1/queries/nowhere", analyst, None),
        ("/v1/queries/{query}/releases", "GET", f"/v1/queries/{id}/releases", operator, None),
        ("/v1/queries/{query}/cancel", "POST", f"/v1/queries/{id}/cancel", operator, None),
        ("/v1/queries/{query}/events", "GET", f"/v1/queries/{id}/events", operator, None),
        ("/v1/series/plans", "POST", "/v1/series/plans", analyst, series),
        ("/v1/series/plans", "POST", "/v1/series/plans", analyst, series | {"epsilon": 0.1}),
        ("/v1/series", "POST", "/v1/series", analyst, series),
        ("/v1/series", "POST", "/v1/series", analyst, series | {"query": {}}),
        ("/v1/series", "GET", "/v1/series", analyst, None),
        ("/v1/series/{series}", "GET", f"/v1/series/{created}", analyst, None),
        ("/v1/series/{series}", "GET", "/v1/series/nowhere", analyst, None),
        ("/v1/series/{series}/pause", "POST", f"/v1/series/{created}/pause", operator, None),
        ("/v1/series/{series}/resume", "POST", f"/v1/series/{created}/resume", analyst, None),
        ("/v1/series/{series}/end", "POST", f"/v1/series/{created}/end", analyst, None),
        ("/v1/series/{series}/end", "POST", "/v1/series/nowhere/end", analyst, None),
        ("/v1/ledger", "GET", "/v1/ledger", analyst, None),
        ("/v1/fleet", "GET", "/v1/fleet", analyst, None),
        ("/v1/operator/tokens", "POST", "/v1/operator/tokens", operator, {"name": "a", "role": "analyst"}),
        ("/v1/operator/tokens", "GET", "/v1/operator/tokens", operator, None),
        ("/v1/operator/enrolment-keys", "POST", "/v1/operator/enrolment-keys", operator, {"name": "a"}),
        ("/v1/operator/enrolment-keys", "GET", "/v1/operator/enrolment-keys", operator, None),
        ("/v1/operator/keys", "GET", "/v1/operator/keys", operator, None),
        ("/healthz", "GET", "/healthz", None, None),
        ("/readyz", "GET", "/readyz", None, None),
        ("/metrics", "GET", "/metrics", None, None),
    ]:
        checked(path, method, server.ask(method, at, token, json=body))


def test_a_single_role_describes_its_own_routes(tmp_path):
    with inside(tmp_path / "data", "aggregator") as alone:
        paths = alone.ask("GET", "/openapi.json").json()["paths"]
    assert "/v1/peer/aggregator/key" in paths and "/v2/devices" not in paths and "/v1/queries" not in paths
