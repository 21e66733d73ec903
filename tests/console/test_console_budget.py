"""The budget on the console's pages: shares, promises, periods, and what is given back."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from console_client import client, sign_in
from console_server import people

from thresher import charts
from thresher.console.pages.ledger import taken
from thresher.console.rendering import share_left
from thresher.protocol.analyst_messages import BudgetPeriod, Charge, LedgerView, QueryRequest
from thresher.verbs.asking import Target, make

pytestmark = pytest.mark.slow


def ask(server, name, epsilon=1.0, verb="histogram", **settings):
    query = make(verb, Target(epsilon, 1e-8), {"column": ["country"] if verb == "histogram" else "word", **settings})
    return server.coordinator.submit(QueryRequest(name=name, query=query.to_dict()), "maria").id


def texts(server, *paths):
    """What people read on pages, with one space for each gap."""
    with client(server) as http:
        sign_in(http, server.analyst)
        return [" ".join(re.sub(r"<[^>]+>", " ", http.get(path).text).split()) for path in paths]


def test_shares_what_is_given_back_and_how_many_more_fit(start):
    server = start(people(900), epsilon=10.0, delta=1e-6)
    query = ask(server, "trie", verb="heavy_hitters", method="trie")
    server.coordinator.cancel(query, "maria")
    ask(server, "one")
    while server.coordinator.ledger_view().charges[0].given_back == 0:
        server.coordinator.step()
    (home, ledger, plan) = texts(server, "/", "/ledger", "/ask?attribute=country")
    view = server.coordinator.ledger_view()
    assert "Budget left" in home and f"{share_left(view.left_share)} of ε 10, δ 1e-6" in home
    assert "Rounds that are never drawn are given back." in ledger and "Nothing is given back" not in ledger
    assert f"{share_left(view.left_share)} left" in ledger and "Guaranteed so far" in ledger
    cancelled = view.charges[0]
    assert f"{cancelled.drawn} of {cancelled.rounds} {cancelled.given_back}" in ledger
    assert "Everything released together guarantees ε 10 with δ 1e-6, however queries were chosen." in ledger
    assert re.search(r"This takes 0\.39 % of the budget; about 2\d0 more like it fit\. Rounds that are never", plan)
    assert f"{share_left(view.left_share)} of ε 10, δ 1e-6 is left." in plan


def test_an_enlarged_budget_shows_each_promise_with_its_date(start):
    server = start(people(300), epsilon=2.0, delta=1e-6)
    server.ledger.enlarge(3.0)
    (ledger,) = texts(server, "/ledger")
    assert "The budget was changed. The highest epsilon is the one that holds for everything." in ledger
    assert re.search(r"ε 2 from \d+ \w+ \d{4}, \d\d:\d\d UTC on ε 3 from", ledger)


def test_a_budget_that_renews_says_so_on_every_page(start):
    server = start(people(300), epsilon=2.0, delta=1e-6, period="30d")
    for name in ("first", "second"):
        ask(server, name, 0.5)
        while not server.coordinator.ledger_view().charges[-1].drawn:
            server.coordinator.step()
        server.console_clock.ahead += 30 * 86_400
    (home, ledger, plan) = texts(server, "/", "/ledger", "/ask?attribute=country")
    assert "100 % of ε 2, δ 1e-6 ; renews" in home
    assert "The promise is for each period of 30 days by itself." in ledger and "renews on" in ledger
    assert "2 periods so far together come to ε 4 and δ 2e-6." in ledger
    assert "is left until" in plan


def test_a_budget_that_adds_up_is_shown_as_epsilon_and_delta(start):
    server = start(people(300), epsilon=2.0, delta=1e-6, composition="sum")
    ask(server, "one")
    (home, ledger, plan) = texts(server, "/", "/ledger", "/ask?attribute=country")
    assert "Budget left ε 1 of 2" in home
    assert "Nothing is given back" in ledger and "1 of 2 spent" in ledger and "Share" not in ledger
    assert "This takes 50 % of the budget; none like it fits after it. Nothing is given back" in plan
    assert "leaving ε 0 of 2" in plan


def test_a_query_that_does_not_fit_says_what_does(start):
    server = start(people(300), epsilon=1.0, delta=1e-6)
    (plan,) = texts(server, "/ask?attribute=country&epsilon=4&delta=1e-5")
    assert "This does not fit into the budget." in plan
    assert "Ask, spending" not in plan  # there is nothing to press
    assert "It does not even fit on its own: one query alone may use epsilon = 1 with delta = 1e-07." in plan


# The pictures.


def view(charges, *, left, period=None):
    return LedgerView(
        epsilon=2.0, delta=1e-6, spent_epsilon=1.0, spent_delta=1e-6, left_epsilon=1.0, left_delta=1e-7,
        charges=[
            Charge(id=number, time=time, what="x", by="", epsilon=1.0, delta=1e-8, rounds=1, query=None, used=used)
            for number, (time, used) in enumerate(charges)
        ],
        composition="adaptive", left_share=left, period=period,
    )  # fmt: skip


def heights(picture):
    """The heights of the line, from 0 to 1, from left to right."""
    root = ElementTree.fromstring(picture)
    (line,) = (each for each in root.iter("path") if each.get("class") == "line")
    points = [point.split() for point in line.get("d")[1:].split("L")]
    return [round(1 - float(y) / 1000, 3) for _, y in points]


def test_the_picture_falls_where_a_budget_renews():
    growing = taken(view([(100.0, 0.2), (200.0, 0.5)], left=0.4), 300.0)
    assert heights(growing)[-1] == 0.6 and sorted(heights(growing)) == heights(growing)
    assert "60 % of the budget is taken, 40 % is left." in growing
    period = BudgetPeriod(seconds=100.0, number=4, ends=400.0, used=2, together_epsilon=4.0, together_delta=2e-6)
    falling = heights(taken(view([(50.0, 0.2), (150.0, 0.5)], left=1.0, period=period), 350.0))
    assert [falling[place] for place in range(len(falling)) if place == 0 or falling[place] != falling[place - 1]] == [
        0.0, 0.2, 0.0, 0.5, 0.0,
    ]  # fmt: skip


def test_the_picture_of_an_untouched_budget_is_flat():
    assert set(heights(charts.shares([], 1.0, 1e9))) == {0.0}


@pytest.mark.parametrize(
    ("part", "shown"), [(1.0, "100 %"), (0.9999, "99.9 %"), (0.8936, "89.3 %"), (0.05, "5 %"), (0.0, "0 %")]
)
def test_a_share_that_is_left_is_never_rounded_up(part, shown):
    assert share_left(part) == shown
