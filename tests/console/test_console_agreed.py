"""Nothing is spent but what the page said, and nothing twice: late plans, no scripts, quick fingers, two windows."""

from __future__ import annotations

import re

import pytest
from console_client import client, sign_in
from console_server import people
from playwright.sync_api import expect

from thresher.console import ask_form as asking

pytestmark = pytest.mark.slow  # browsers take their time


@pytest.fixture
def fleet(start):
    return start(people(800), epsilon=50.0, delta=1e-3, attributes=("country", "word"))


def spent(server) -> float:
    """The epsilons of all that was charged."""
    return sum(charge.epsilon for charge in server.coordinator.ledger_view().charges)


def test_a_plan_that_comes_late_is_not_run_unseen(visit, fleet):
    visitor = visit(fleet)
    visitor.sign_in(fleet.analyst)
    page = visitor.go("/ask?attribute=country&epsilon=0.1")
    held = []
    page.route("**/ask/plan*", lambda route: held.append(route))  # the server is slow
    button = page.locator("#plan button.primary")
    expect(button).to_have_text("Ask, spending ε 0.1")
    page.fill("#epsilon", "7")
    expect(button).to_be_disabled()  # the plan that is shown is no longer the one that would run
    while not held:
        page.wait_for_timeout(10)
    held.pop().continue_()
    expect(button).to_have_text("Ask, spending ε 7")
    expect(button).to_be_enabled()
    assert spent(fleet) == 0


def test_the_server_asks_again_if_settings_changed_under_the_button(visit, fleet):
    """Without scripts nothing follows the fields, so the button may say less than they would spend."""
    visitor = visit(fleet, scripts=False)
    visitor.allowed = {409}
    visitor.sign_in(fleet.analyst)
    page = visitor.go("/ask?attribute=country&epsilon=0.1")
    page.fill("#epsilon", "7")
    page.get_by_role("button", name="Ask, spending ε 0.1").click()
    expect(page.locator("#refused")).to_contain_text("Nothing was asked, and nothing was spent.")
    assert spent(fleet) == 0
    page.get_by_role("button", name="Ask, spending ε 7").click()
    page.wait_for_url("**/queries/**")
    assert spent(fleet) == 7


def test_a_form_without_an_agreement_spends_nothing(fleet):
    with client(fleet) as http:
        csrf = sign_in(http, fleet.analyst)
        form = {"csrf": csrf, "attribute": "country", "epsilon": "0.5"}
        for path in ("/ask", "/ask?agreed=", f"/ask?agreed={asking.agreement(asking.filled({}))}"):
            assert http.post(path, data=form).status_code == 409
        assert spent(fleet) == 0
        agreed = asking.agreement(asking.filled(form))
        assert http.post(f"/ask?agreed={agreed}", data={**form, "histogram_domain": "a\r\nb"}).status_code == 409
        assert http.post(f"/ask?agreed={agreed}", data=form).status_code == 303
        assert spent(fleet) == 0.5


def test_an_agreement_is_to_what_costs():
    fields = asking.filled({"attribute": "country", "histogram_domain": "a\r\nb"})
    assert asking.agreement(fields) == asking.agreement(
        asking.filled({"attribute": "word", "histogram_domain": "a\nb"})
    )
    for name in asking.defaults():
        changed = asking.agreement({**fields, name: "x"}) != asking.agreement(fields)
        assert changed == (name not in ("attribute", "name")), name


def test_quick_fingers_pay_once(visit, fleet):
    visitor = visit(fleet)
    visitor.sign_in(fleet.analyst)
    page = visitor.go("/ask?attribute=country&epsilon=0.5")
    page.locator("#plan button.primary").dblclick()
    page.get_by_role("button", name="Ask and spend").dblclick()
    page.wait_for_url("**/queries/**")
    first = page.url
    page.reload()
    page.go_back()
    page.go_forward()
    expect(page).to_have_url(re.compile(re.escape(first.split("?")[0])))
    assert spent(fleet) == 0.5
    assert len(fleet.coordinator.queries()) == 1


def test_a_form_that_is_sent_twice_is_one_query(fleet):
    """Two windows, a lost answer, a browser that sends again: the name in the form is the query's."""
    with client(fleet) as http:
        csrf = sign_in(http, fleet.analyst)
        form = {"csrf": csrf, "attribute": "country", "epsilon": "0.5", "name": "console-twice"}
        path = f"/ask?agreed={asking.agreement(asking.filled(form))}"
        first, second = http.post(path, data=form), http.post(path, data=form)
        assert first.headers["location"] == second.headers["location"]
        assert spent(fleet) == 0.5


def test_two_windows_plan_side_by_side(visit, fleet):
    visitor = visit(fleet)
    visitor.allowed = {429}  # a plan that the other window overtook; it is asked for again
    visitor.sign_in(fleet.analyst)
    page = visitor.go("/ask?attribute=country")
    other = page.context.new_page()
    other.goto(fleet.url + "/ask?attribute=word")
    page.fill("#epsilon", "0.3")
    other.fill("#epsilon", "0.4")
    expect(page.locator("#plan")).to_contain_text("Ask, spending ε 0.3")
    expect(other.locator("#plan")).to_contain_text("Ask, spending ε 0.4")


def test_the_address_keeps_what_was_filled_in(visit, fleet):
    visitor = visit(fleet)
    visitor.allowed = {401}
    visitor.sign_in(fleet.analyst)
    page = visitor.go("/ask")
    page.get_by_role("button", name="word").click()
    expect(page.locator("#attribute")).to_have_value("word")
    visitor.fill_ask("heavy_hitters", "word", epsilon="0.7", heavy_hitters_method="=trie")
    expect(page).to_have_url(
        re.compile(r"/ask\?attribute=word&verb=heavy_hitters&heavy_hitters_method=trie&epsilon=0\.7$")
    )
    page.reload()
    expect(page.locator("#epsilon")).to_have_value("0.7")
    expect(page.locator('input[name="heavy_hitters_method"][value="trie"]')).to_be_checked()
    fleet.console_clock.ahead = 2 * 3600  # the session ends over it
    page.fill("#epsilon", "0.8")
    page.wait_for_url("**/login?**")
    page.fill("#token", fleet.analyst)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/ask?**")
    expect(page.locator("#epsilon")).to_have_value("0.8")
    expect(page.locator("#attribute")).to_have_value("word")


def test_an_operators_form_is_sent_once(visit, fleet):
    visitor = visit(fleet)
    page = visitor.sign_in(fleet.operator)
    visitor.go("/operate")
    page.fill("#token-name", "maria")
    page.get_by_role("button", name="Make a token").dblclick()
    expect(page.locator("#secret")).to_be_visible()
    expect(page.locator("#tokens tbody tr", has_text="maria")).to_have_count(1)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("contact=10", r"Devices contacted must be at least 30\.43 %, the part that is sampled\."),
        ("verb=quantiles&quantiles_lower=5&quantiles_upper=1", r"From must be below"),
        ("attribute=,", r"Attribute must be"),
        ("epsilon=1,5", r"Epsilon must be a number\.</strong></p>\s*<p>Write 0\.5 or 1e-8"),
        ("epsilon=1_0", r"Epsilon must be a number\."),
        ("epsilon=nan", r"Epsilon must be a number\."),
        ("epsilon=1e400", r"Epsilon must be a finite number\."),
        ("epsilon=%EF%BC%91", r"Epsilon must be a number\."),
    ],
)
def test_what_is_wrong_is_said_in_the_words_of_the_form(server, settings, said):
    with client(server) as http:
        sign_in(http, server.analyst)
        page = http.get("/ask?" + ("" if "attribute" in settings else "attribute=country&") + settings).text
        assert re.search(said, page), re.findall(r"<strong>.*", page)
