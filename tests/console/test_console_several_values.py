"""How many values of a device counted, on the console's pages."""

from __future__ import annotations

import pytest
from console_server import people
from test_console_budget import texts

import thresher as th
from thresher.console.python_line import python_line
from thresher.protocol.analyst_messages import QueryRequest
from thresher.questions import Values
from thresher.verbs import HistogramQuery

pytestmark = pytest.mark.slow
PLAN = th.plan(1, 1e-8, contributions=3)


def test_the_answer_its_certificate_and_the_ledger_say_it(start):
    server = start(people(3_000), epsilon=10.0, delta=1e-6)
    asked = [HistogramQuery(Values(("country",)), plan).to_dict() for plan in (PLAN, th.plan(1, 1e-8))]
    several, one = (
        server.coordinator.submit(QueryRequest(name=f"q{number}", query=query), "maria").id
        for number, query in enumerate(asked)
    )
    for _ in range(10_000):
        if {server.coordinator.status(query).state for query in (several, one)} == {"done"}:
            break
        server.coordinator.step()
    answer, ledger, single = texts(server, f"/queries/{several}/answer", "/ledger", f"/queries/{one}/answer")
    assert "Up to 3 values of each device were counted. A device that holds more was counted under 3 of them" in answer
    assert "How many devices hold more is not public." in answer
    assert "Values of a device up to 3 each with a coin of its own" in answer
    assert "of up to 3 values a unit" in answer
    assert "1 of 1 × 3 values" in ledger and ledger.count("× 3 values") == 1
    assert "values of each device" not in single and "Values of a device" not in single


def test_the_line_that_asks_again_has_the_number():
    fixed = th.plan(1, 1e-8, threshold=40, contributions=3)
    line = python_line(HistogramQuery(Values(("tags",)), fixed), "http://fleet")
    assert "contributions=3" in line
