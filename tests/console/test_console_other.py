"""A histogram of a real fleet: devices without a value are in what it leaves out, on the page and in Python."""

from __future__ import annotations

import html
import time

import pytest
from console_client import client, sign_in

from thresher.privacy import plan
from thresher.protocol.analyst_messages import QueryRequest, RoundSettings
from thresher.questions import Values
from thresher.verbs import HistogramQuery

pytestmark = pytest.mark.slow  # processes take their time

HOLDERS, SILENT = 1_500, 500


def test_devices_without_a_value_are_in_the_rest(start):
    """The estimate has a standard deviation of about 47 devices. That an end is 200 beside the truth, with half an
    interval of about 95, takes more than six of them: a false alarm in 1e9 runs.
    """
    server = start([{"country": "fr"}] * HOLDERS + [{"age": 7}] * SILENT)
    query = HistogramQuery(Values(("country",)), plan(2.0, 1e-6))
    server.rows.silent = 0.0
    everybody = RoundSettings(seconds=60, completions=HOLDERS + SILENT)
    asked = QueryRequest(name="rest", query=query.to_dict(), settings=everybody)
    status = server.coordinator.submit(asked, "tests")
    end = time.monotonic() + 90
    while server.coordinator.status(status.id).state != "done":
        assert time.monotonic() < end
        time.sleep(0.05)
    answer = server.coordinator.answer(status.id)
    assert answer.other.units == answer.release.response.asked == HOLDERS + SILENT
    assert answer.other.interval[0] <= SILENT + 200
    assert answer.other.interval[1] >= SILENT - 200
    with client(server) as http:
        sign_in(http, server.analyst)
        page = html.unescape(http.get(f"/queries/{status.id}/answer").text)
    assert f"Other, which is {answer.other.in_words()}." in page
    assert "or without a value" in answer.other.in_words() and "devices" in answer.other.in_words()
