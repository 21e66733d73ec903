"""The Python line on an answer's page, run: it asks the very same question under the very same terms."""

from __future__ import annotations

import contextlib
import html
import re
import time
from typing import Any

import pytest
from console_client import client, sign_in

import thresher as th
from thresher.console import ask_form as asking
from thresher.console.python_line import python_line
from thresher.protocol.analyst_messages import QueryRequest
from thresher.questions import Values
from thresher.verbs import HistogramQuery

pytestmark = pytest.mark.slow  # every line is a query


@pytest.fixture(scope="module")
def http(server):
    with client(server) as http:
        http.csrf = sign_in(http, server.analyst)
        yield http


def asked(http, server, settings: dict[str, str]) -> str:
    """Ask by the form and wait; the query."""
    agreed = asking.agreement(asking.filled(settings))
    answer = http.post(f"/ask?agreed={agreed}", data={**settings, "csrf": http.csrf})
    assert answer.status_code == 303, answer.text
    return waited(server, answer.headers["location"].split("/")[-1])


def waited(server, query: str) -> str:
    end = time.monotonic() + 60
    while server.coordinator.status(query).state != "done":
        assert time.monotonic() < end
        time.sleep(0.05)
    return query


def run(line: str, server) -> None:
    """Run the line as somebody would who has imported the library, and hang up afterwards."""
    with contextlib.ExitStack() as stack:

        class Library:
            def __getattr__(self, name: str) -> Any:
                return getattr(th, name)

            def Fleet(self, *given: Any, **settings: Any) -> th.Fleet:
                return stack.enter_context(contextlib.closing(th.Fleet(*given, **settings)))

        eval(line, {"th": Library(), "token": server.analyst})


def line_of(http, query: str) -> str:
    found = re.search(r'<code id="line">(.*?)</code>', http.get(f"/queries/{query}/answer").text, re.DOTALL)
    return html.unescape(found[1])


@pytest.mark.parametrize(
    "settings",
    [
        {"verb": "histogram", "attribute": "country"},
        {"verb": "histogram", "attribute": "country, os", "epsilon": "0.5", "delta": "1e-6"},
        {"verb": "histogram", "attribute": "country", "histogram_domain": "France\nItalia\nnowhere's <b>"},
        {
            "verb": "histogram",
            "attribute": "latency_ms",
            "histogram_group": "bins",
            "histogram_upper": "700",
            "histogram_bins": "70",
        },
        {"verb": "histogram", "attribute": "day", "histogram_group": "dates", "histogram_dates": "month"},
        {"verb": "histogram", "attribute": "country", "contact": "50", "sampled_by": "device"},
        {"verb": "heavy_hitters", "attribute": "word"},
        {"verb": "heavy_hitters", "attribute": "word", "heavy_hitters_method": "trie", "heavy_hitters_levels": "3"},
        {"verb": "quantiles", "attribute": "latency_ms", "quantiles_levels": "3"},
        {
            "verb": "quantiles",
            "attribute": "latency_ms",
            "quantiles_probabilities": "0.5",
            "quantiles_method": "search",
            "quantiles_steps": "3",
        },
        {"verb": "ranges", "attribute": "latency_ms", "ranges_levels": "3", "ranges_branching": "3"},
        {"verb": "histogram", "attribute": "country", "histogram_where": "os = android\nlatency_ms >= 10"},
    ],
)
def test_the_line_asks_the_same(http, server, settings):
    first = server.coordinator.status(asked(http, server, settings))
    run(line_of(http, first.id), server)
    second = server.coordinator.queries()[0]
    assert second.id != first.id
    assert second.query == first.query
    assert second.guarantees == first.guarantees
    assert (second.settings.contact_rate, second.settings.sampled_by) == (
        first.settings.contact_rate,
        first.settings.sampled_by,
    )


def test_a_plan_that_was_made_otherwise_is_written_out(http, server):
    query = HistogramQuery(Values(("country",)), th.plan(1.0, 1e-8, threshold=50))
    first = server.coordinator.submit(QueryRequest(name="otherwise", query=query.to_dict()), "tests")
    waited(server, first.id)
    run(line_of(http, first.id), server)
    assert server.coordinator.queries()[0].query == first.query


def test_many_bins_are_a_short_line(server):
    fields = asking.filled(
        {"attribute": "a", "histogram_group": "bins", "histogram_lower": "-3.7", "histogram_bins": "10000"}
    )
    query = asking.to_query(fields)
    line = python_line(query, "http://server")
    assert len(line) < 200
    edges = re.search(r"bins=(\[.*\])", line)[1]
    assert tuple(eval(edges)) == query.question.edges
    uneven = HistogramQuery(th.questions.Bins("a", (0.0, 1.0, *range(3, 40))), query.plan)
    assert "for i in range" not in python_line(uneven, "http://server")


@pytest.mark.parametrize(
    ("sampled_by", "promise", "coins"),
    [
        ("aggregator", "The same holds against whoever can add devices or reports", ("not tossed", "/2^32")),
        ("device", "nothing is promised against them", ("/2^32", "not tossed")),
    ],
)
def test_pages_say_what_holds_against_whoever_adds_reports(http, server, sampled_by, promise, coins):
    fields = {"verb": "histogram", "attribute": "country", "sampled_by": sampled_by}
    plan = html.unescape(http.get("/ask", params=fields).text)
    assert "Against whoever can add devices or reports." in plan
    assert ("Nothing: they can test what one person holds" in plan) == (sampled_by == "device")
    query = asked(http, server, fields)
    watched = http.get(f"/queries/{query}?watch=1").text
    assert f"<dd>{'each device' if sampled_by == 'device' else 'the aggregator'}</dd>" in watched
    assert ("nothing is promised" in watched) == (sampled_by == "device")
    read = html.unescape(http.get(f"/queries/{query}/answer").text)
    assert promise in read
    for who, shown in zip(("device", "aggregator"), coins, strict=True):
        assert shown in read.split(f"Coin of the {who}</dt>")[1].split("</dd>")[0]
