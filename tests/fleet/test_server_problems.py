"""Errors on the wire: one shape, the right status, and nothing of what went wrong inside."""

import logging

import pytest
from server_cases import ASK, handing_in, histogram_request, inside
from starlette.routing import Route as Page

from thresher import errors
from thresher.protocol.messages import Problem, decode
from thresher.server.group_commit import Busy
from thresher.server.problem import Refused, answer_of, http_refusal

CANARY = "canary-8f31c2"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    async def breaks(request):
        raise RuntimeError(CANARY)

    with inside(tmp_path_factory.mktemp("problems") / "data", pages=[Page("/breaks", breaks)]) as server:
        yield server


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.InvalidFormat("words"), 400),
        (errors.Unauthorised("words"), 401),
        (errors.BudgetExceeded("words"), 402),
        (errors.VerificationFailed("words"), 422),
        (errors.NotFound("words"), 404),
        (errors.Conflict("words"), 409),
        (errors.InvalidSetting("rate", "is wrong"), 422),
        (errors.StoreUnavailable("words"), 503),
        (Busy("words"), 503),
        (errors.ServerUnavailable("words", retry_after=7.2), 503),
    ],
)
def test_statuses(error, status):
    got, headers, body = answer_of(error)
    problem = decode(Problem, body)
    assert got == problem.status == status
    assert problem.code == error.code and problem.type == f"urn:thresher:problem:{error.code}"
    fields = dict(headers)
    assert fields[b"content-type"] == b"application/problem+json"
    assert (b"retry-after" in fields) == (status == 503)
    if isinstance(error, errors.ServerUnavailable):
        assert fields[b"retry-after"] == b"8"


@pytest.mark.parametrize("after", [None, 0, -1, float("nan"), float("inf"), 0.001, 1])
def test_retry_after_is_always_a_whole_second_or_more(after):
    _, headers, _ = answer_of(Refused(429, "slow", "words", retry_after=after))
    assert dict(headers)[b"retry-after"] == b"1"


@pytest.mark.parametrize("kind", [errors.StoreUnavailable, errors.LedgerUnavailable, errors.ServerUnavailable])
def test_where_things_are_on_the_server_stays_there(kind):
    _, _, body = answer_of(kind(f"/somewhere/{CANARY} cannot be written", hint=CANARY))
    assert CANARY.encode() not in body


def test_an_unexpected_error_says_nothing_of_itself(caplog):
    with caplog.at_level(logging.DEBUG):
        try:
            raise ValueError(CANARY)
        except ValueError as error:
            status, _, body = answer_of(error)
    problem = decode(Problem, body)
    assert status == 500 and problem.code == "internal"
    number = problem.detail.split()[-1].rstrip(".")
    assert number in caplog.text and "ValueError" in caplog.text
    assert CANARY not in caplog.text and CANARY.encode() not in body
    assert all(record.exc_info is None for record in caplog.records)


def test_an_unexpected_error_in_a_role_is_a_500_without_its_words(server, caplog, monkeypatch):
    def breaks(*_):
        raise RuntimeError(CANARY)

    monkeypatch.setattr(server.services.coordinator, "ledger_view", breaks)
    monkeypatch.setattr(server.services.collector, "visit", breaks)
    with caplog.at_level(logging.DEBUG):
        for answer in (
            server.ask("GET", "/v1/ledger", server.token("analyst")),
            server.ask("POST", "/v2/visit", server.enrol(), json=handing_in(("r", b"AAA"))),
        ):
            assert answer.status_code == 500 and answer.json()["code"] == "internal"
            assert CANARY not in answer.text
    assert CANARY not in caplog.text
    assert caplog.text.count("RuntimeError") == 2


def test_an_error_in_a_page_is_a_500_without_its_words(server, caplog):
    with caplog.at_level(logging.DEBUG):
        answer = server.ask("GET", "/breaks")
    assert answer.status_code == 500
    assert CANARY not in answer.text and CANARY not in caplog.text


def test_a_path_that_is_not_there_and_a_method_that_is_not_taken(server):
    missing = server.ask("GET", "/v1/nowhere")
    assert missing.status_code == 404 and missing.json()["code"] == "not-found"
    for path, method, allowed in [
        ("/v1/queries", "DELETE", "GET, POST"),
        ("/v2/visit", "GET", "POST"),
        ("/v2/visit", "OPTIONS", "POST"),
        ("/v2/devices", "PUT", "POST"),
    ]:
        answer = server.ask(method, path)
        assert answer.status_code == 405 and answer.headers["allow"] == allowed
        assert answer.json()["code"] == "method-not-allowed"
    page = server.ask("DELETE", "/breaks")
    assert page.status_code == 405 and page.json()["code"] == "method-not-allowed"
    assert set(page.headers["allow"].split(", ")) == {"GET", "HEAD"}
    assert http_refusal(418).status == 418


def test_what_was_sent_is_not_said_back(server):
    analyst, device = server.token("analyst"), server.enrol()
    for method, path, token, body in [
        ("POST", "/v1/queries", analyst, {"name": CANARY + "/", "query": {}}),
        ("POST", "/v1/queries", analyst, {"name": "x", "query": {"verb": CANARY}}),
        ("POST", "/v1/queries", analyst, {"name": "x", "query": {}, "unknown": CANARY}),
        ("POST", "/v1/queries", analyst, histogram_request() | {"version": CANARY}),
        ("POST", "/v2/visit", device, ASK | {"reports": [{"round": "r", "sealed": CANARY}]}),
        ("POST", "/v2/visit", device, ASK | {"reports": [{"round": "r", "sealed": "AAAA", CANARY: 1}]}),
        ("POST", "/v2/visit", device, ASK | {"reports": [{"round": CANARY + "/", "sealed": "AAAA"}]}),
        ("POST", "/v2/visit", device, ASK | {CANARY: 1}),
        ("POST", "/v2/visit", device, ASK | {"versions": [CANARY]}),
        ("GET", f"/v1/queries/{CANARY}", analyst, None),
        ("GET", f"/{CANARY}", analyst, None),
    ]:
        answer = server.ask(method, path, token, json=body)
        assert 400 <= answer.status_code < 500, answer.text
        assert CANARY not in answer.text, (path, answer.text)


def test_the_budget_is_a_402(tmp_path):
    with inside(tmp_path / "data", budget_epsilon=0.5, budget_delta=1e-8) as server:
        answer = server.ask("POST", "/v1/queries", server.token("analyst"), json=histogram_request())
        assert answer.status_code == 402 and answer.json()["code"] == "budget-exceeded"
