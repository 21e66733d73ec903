"""People at the console, in a real Chromium: ask, watch, read, spend, cancel, operate, and what goes wrong."""

from __future__ import annotations

import json
import re
import time

import pyarrow.parquet as parquet
import pytest
from console_server import people
from playwright.sync_api import expect
from scipy.stats import binomtest

import thresher as th
from thresher.protocol.analyst_messages import QueryRequest
from thresher.verbs.asking import Target, make

pytestmark = pytest.mark.slow  # processes and browsers take their time

VERBS = [
    ("histogram", "country", {}, "France"),
    (
        "histogram",
        "latency_ms",
        {"histogram_group": "=bins", "histogram_upper": "500", "histogram_bins": "5"},
        "100 to 200",
    ),
    ("heavy_hitters", "word", {}, "the"),
    ("heavy_hitters", "word", {"heavy_hitters_method": "=trie", "heavy_hitters_levels": "4"}, "the"),
    ("quantiles", "latency_ms", {"quantiles_probabilities": "0.5, 0.9"}, "50 %"),
    (
        "quantiles",
        "latency_ms",
        {"quantiles_method": "=search", "quantiles_probabilities": "0.5", "quantiles_steps": "5"},
        "50 %",
    ),
    ("ranges", "latency_ms", {"ranges_levels": "4"}, "0 to 250"),
]


@pytest.mark.parametrize(("verb", "attribute", "settings", "shown"), VERBS)
def test_ask_watch_read(visit, server, verb, attribute, settings, shown):
    visitor = visit(server)
    visitor.sign_in(server.analyst)
    page = visitor.ask(verb, attribute, **settings)
    page.wait_for_url("**/queries/**")
    expect(page.get_by_role("heading", level=1)).to_contain_text(attribute)
    visitor.read()
    table = page.locator("#table")
    expect(table).to_contain_text(shown)
    expect(page.locator("#certificate")).to_contain_text("sample-and-threshold")
    page.get_by_role("button", name="Verify").click()
    expect(page.locator("#verified")).to_contain_text("It holds.")


def test_the_numbers_shown_are_those_of_the_release(visit, server):
    visitor = visit(server)
    visitor.sign_in(server.analyst)
    visitor.ask("histogram", "country")
    page = visitor.read()
    query = page.url.split("/")[-2]
    answer = server.coordinator.answer(query)
    rows = page.locator("#table tbody tr").all_inner_texts()
    expected = [
        "\t".join([row.bucket, *(f"{number:,.0f}" for number in (row.estimate, *row.interval, row.count))])
        for row in answer
    ]
    assert rows == expected
    # False alarm: 1e-9. Of those who hold it and completed, each was sampled with probability p; with 1.5 p it fails.
    completed = server.coordinator.status(query).rounds[0].completed
    held = sum(row["country"] == "France" for row in people()[:completed])
    rate = answer.plan.sampling_rate
    assert binomtest(answer["France"].count, held, rate).pvalue > 1e-9
    assert binomtest(answer["France"].count, held, 1.5 * rate).pvalue < 1e-9


def test_the_plan_follows_the_sliders_and_spends_nothing(visit, server):
    visitor = visit(server)
    visitor.sign_in(server.analyst)
    visitor.allowed = {429}  # a plan that was overtaken by the next one
    before = server.coordinator.ledger_view().charges
    page = visitor.go("/ask")
    expect(page.locator("#plan")).to_contain_text("106 devices: 95 %")
    slider = page.locator("#epsilon-slider")
    slider.focus()
    for _ in range(10):
        slider.press("ArrowLeft")
    expect(page.locator("#epsilon")).to_have_value("0.32")
    expect(page.locator("#plan")).to_contain_text("Ask, spending ε 0.32")
    plan = th.plan(epsilon=0.32, delta=1e-8)
    expect(page.locator("#plan")).to_contain_text(f"{plan.smallest_visible():,} devices: 95 %")
    expect(page.locator("#plan")).to_contain_text("Against whoever also knows who was contacted.")
    page.fill("#delta", "1e-4")
    expect(page.locator("#plan")).to_contain_text(
        f"{th.plan(epsilon=0.32, delta=1e-4).smallest_visible():,} devices: 95 %"
    )
    expect(page.locator("#plan .cost")).to_contain_text(
        re.compile(r"This takes [\d.]+ % of the budget; about [\d,]+ more")
    )
    page.fill("#epsilon", "many")
    expect(page.locator("#plan")).to_contain_text("Epsilon must be a number.")
    expect(page.locator("[aria-invalid]")).to_have_id("epsilon")
    page.fill("#epsilon", "0.5")
    expect(page.locator("[aria-invalid]")).to_have_count(0)
    assert server.coordinator.ledger_view().charges == before


def test_contacting_a_part_states_both_guarantees(visit, server):
    visitor = visit(server)
    visitor.sign_in(server.analyst)
    page = visitor.go("/ask")
    page.get_by_text("How rounds are run").click()
    visitor.fill_ask("histogram", "country", contact="50")
    plan = page.locator("#plan .promise")
    expect(plan).not_to_contain_text("The same, because every device")
    expect(page.locator("#plan")).to_contain_text("2,790 of 5,580 active")


def test_an_attribute_is_needed_and_not_now_spends_nothing(visit, server):
    visitor = visit(server)
    visitor.sign_in(server.analyst)
    before = len(server.coordinator.queries())
    page = visitor.go("/ask")
    page.locator("#plan button.primary").click()
    expect(page.locator("#attribute")).to_be_focused()
    expect(page.locator("dialog")).to_have_count(0)
    visitor.fill_ask("histogram", "country")
    page.locator("#plan button.primary").click()
    expect(page.get_by_role("button", name="Not now")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    assert len(server.coordinator.queries()) == before


@pytest.mark.slow
def test_budget_refusal(visit, start):
    server = start(people(1000), epsilon=1.0, delta=1e-6)  # one query of (1, 1e-8) fits
    visitor = visit(server)
    visitor.allowed = {402}
    visitor.sign_in(server.analyst)
    page = visitor.page
    visitor.go("/ask")
    visitor.fill_ask("histogram", "country")
    query = make("histogram", Target(1.0, 1e-8), {"column": "country"})
    server.coordinator.submit(QueryRequest(name="first", query=query.to_dict()), "maria")  # while the plan is read
    page.locator("#plan button.primary").click()
    page.get_by_role("button", name="Ask and spend").click()
    expect(page.locator("#refused")).to_contain_text("The budget does not allow this.")
    expect(page.locator("#plan")).to_contain_text("This does not fit into the budget.")
    expect(page.locator("#plan button.primary")).to_have_count(0)
    assert [charge.epsilon for charge in server.coordinator.ledger_view().charges] == [1.0]
    expect(page).to_have_url(server.url + "/ask?attribute=country")
    page.reload()  # asks nothing again, and keeps what was filled in
    expect(page.locator("#attribute")).to_have_value("country")
    visitor.go("/queries?state=refused")
    expect(page.locator("tbody tr")).to_contain_text("not charged")
    page.locator("tbody a").click()
    expect(page.locator("main")).to_contain_text("nothing of ε 1, δ 1e-8")
    visitor.go("/ask?attribute=country")
    # Something smaller can be asked at once.
    visitor.fill_ask("histogram", "country", epsilon="0.5")
    page.locator("#plan button.primary").click()
    page.get_by_role("button", name="Ask and spend").click()
    page.wait_for_url("**/queries/**")
    visitor.go("/ledger")
    expect(page.locator(".tile", has_text="Charges")).to_contain_text("2")
    states = sorted(query.state for query in server.coordinator.queries())
    assert "refused" in states and "failed" not in states


@pytest.mark.slow
def test_watching_live_and_cancelling(visit, start):
    server = start(people(3000), pace=60.0)
    visitor = visit(server)
    visitor.sign_in(server.analyst)
    page = visitor.ask("quantiles", "latency_ms")
    page.wait_for_url("**/queries/**")
    completed = page.locator(".facts div", has_text="Completed").locator("dd")
    expect(completed).to_contain_text("of 2,700 needed")
    first = int(re.match(r"[\d,]+", completed.inner_text())[0].replace(",", ""))
    expect(completed).not_to_contain_text(re.compile(rf"^{first:,} "))
    expect(page.locator("[data-until]")).to_contain_text(re.compile(r"in \d+:\d\d"))
    visitor.go("/")
    expect(page.locator("main")).to_contain_text("0 of at most 6 rounds released")
    page.get_by_role("link", name="Watch").click()
    page.get_by_role("button", name="Cancel").click()
    # The page is drawn anew while the dialog is open: that must not make the answer to it go nowhere.
    page.locator(".danger[data-confirm]").evaluate("button => { button.dataset.old = 'yes' }")
    expect(page.locator("[data-old]")).to_have_count(0)
    page.get_by_role("button", name="Cancel the query").click()
    expect(page.locator("main")).to_contain_text("Rounds that were drawn stay charged")
    assert server.coordinator.queries()[0].state == "cancelled"
    visitor.go("/ledger")
    expect(page.locator("main")).to_contain_text("no answer: cancelled")


def test_wrong_login(visit, server):
    visitor = visit(server)
    visitor.allowed = {401}
    page = visitor.go("/")
    expect(page).to_have_url(server.url + "/login")
    for token in ("nonsense", "thresher-analyst-" + "x" * 32, "x" * 5000):
        page.fill("#token", token)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_contain_text("does not open the console")
        expect(page.locator("#token")).to_have_value("")


def test_an_expired_session_leads_back_to_where_one_was(visit, start):
    server = start(people(500))
    visitor = visit(server)
    visitor.allowed = {401}
    visitor.sign_in(server.analyst)
    page = visitor.go("/ask")
    server.console_clock.ahead = 2 * 3600
    page.fill("#attribute", "country")  # the plan is asked for, and the session has ended
    page.wait_for_url("**/login?**")
    expect(page.locator("main")).to_contain_text("Your session has ended")
    page.fill("#token", server.analyst)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/ask?attribute=country")  # as it was filled in
    server.console_clock.ahead = 4 * 3600
    visitor.go("/ledger")
    expect(page).to_have_url(re.compile(r"/login\?next=%2Fledger&ended=1$"))


@pytest.mark.slow
def test_a_session_that_ends_while_watching(visit, start):
    server = start(people(500), pace=600.0)
    visitor = visit(server)
    visitor.allowed = {401}
    visitor.sign_in(server.analyst)
    page = visitor.ask("histogram", "country")
    page.wait_for_url("**/queries/**")
    expect(page.locator(".facts").first).to_contain_text("of 450 needed")
    server.console_clock.ahead = 2 * 3600
    page.wait_for_url("**/login?**", timeout=30_000)
    expect(page.locator("main")).to_contain_text("Your session has ended")


def test_signing_out(visit, server):
    visitor = visit(server)
    page = visitor.sign_in(server.analyst)
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/login")
    visitor.go("/ledger")
    expect(page).to_have_url(re.compile("/login"))


@pytest.mark.slow
def test_empty_fleet_and_empty_release(visit, start):
    server = start([])
    visitor = visit(server)
    page = visitor.sign_in(server.analyst)
    expect(page.locator("main")).to_contain_text("No device has enrolled yet")
    visitor.go("/ledger")
    expect(page.locator("main")).to_contain_text("Nothing has been spent.")
    few = start(people(60))
    visitor = visit(few)
    visitor.sign_in(few.analyst)
    for verb, settings in (
        ("histogram", {"attribute": "country"}),
        ("heavy_hitters", {"attribute": "word"}),
        ("quantiles", {"attribute": "latency_ms"}),
        ("ranges", {"attribute": "latency_ms"}),
    ):
        visitor.ask(verb, settings["attribute"], epsilon="0.2")
        page = visitor.read()
        expect(page.locator("main")).to_contain_text("Nothing reached the threshold")
        assert visitor.violations() == []


@pytest.mark.slow
def test_searching_sorting_and_the_calculator(visit, server):
    visitor = visit(server)
    visitor.sign_in(server.analyst)
    visitor.ask("heavy_hitters", "word")
    page = visitor.read()
    page.fill("#search", "to")
    expect(page.locator("#table tbody tr")).to_have_count(4)  # to, today, tomorrow, top
    page.fill("#search", "no such word")
    expect(page.locator("#table")).to_contain_text("Nothing that was released contains “no such word”")
    page.fill("#search", "")
    expect(page.locator("#table tbody tr").first).to_contain_text("the")
    page.locator("#table").get_by_role("link", name="word").click()
    expect(page.locator("#table tbody tr").first).to_contain_text("and")
    expect(page.locator("#table th[aria-sort=ascending]")).to_contain_text("word")
    assert "sort=item" in page.url  # the address can be shared
    page.reload()
    expect(page.locator("#table tbody tr").first).to_contain_text("and")
    page.get_by_role("button", name="Open all").click()
    assert page.locator(".tree details:not([open])").count() == 0
    visitor.ask("ranges", "latency_ms")
    page = visitor.read()
    page.fill("#from", "50")
    page.fill("#to", "150")
    page.get_by_role("button", name="Count").click()
    answer = server.coordinator.answer(page.url.split("/")[-2]).count(50, 150)
    expect(page.locator(".result strong")).to_have_text(f"{answer.estimate:,.0f}")
    page.fill("#to", "10")
    page.get_by_role("button", name="Count").click()
    expect(page.locator("#range")).to_contain_text("lower end at or below its upper end")


@pytest.mark.slow
def test_downloads_and_the_python_line(visit, server, tmp_path):
    visitor = visit(server)
    visitor.sign_in(server.analyst)
    visitor.ask("histogram", "country")
    page = visitor.read()
    answer = server.coordinator.answer(page.url.split("/")[-2])
    files = {}
    for kind in ("CSV", "JSON", "Parquet", "PNG", "SVG"):
        with page.expect_download() as started:
            page.get_by_role("link", name=kind, exact=True).click()
        files[kind] = tmp_path / started.value.suggested_filename
        started.value.save_as(files[kind])
        assert files[kind].name == f"histogram-of-country.{kind.lower()}"
    assert parquet.read_table(files["Parquet"]).equals(answer.to_arrow())
    assert th.load(files["JSON"]).to_arrow().equals(answer.to_arrow())
    assert files["CSV"].read_text().startswith('"country","count","estimate","lower","upper"\n"France"')
    assert files["PNG"].read_bytes().startswith(b"\x89PNG")
    assert "<svg" in files["SVG"].read_text()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("th.histogram(th.Fleet('http://127.0.0.1:")


@pytest.mark.slow
def test_an_operator_makes_and_revokes(visit, start):
    server = start(people(500))
    operator = visit(server)
    page = operator.sign_in(server.operator)
    operator.go("/operate")
    for role in ("Coordinator", "Collector", "Aggregator"):
        expect(page.locator(".health")).to_contain_text(role)
    page.fill("#key-name", "phones <b>in</b> the field")
    page.fill("#key-days", "30")
    page.fill("#key-devices", "100")
    page.get_by_role("button", name="Make a key").click()
    assert page.locator("#secret").inner_text().startswith("thresher-enrolment-")
    row = page.locator("#enrolment-keys tr", has_text="phones <b>in</b> the field")
    expect(row).to_contain_text("of 100")
    row.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(row).to_contain_text("Revoked")
    page.fill("#token-name", "maria")
    page.get_by_role("button", name="Make a token").click()
    token = page.locator("#secret").inner_text()
    maria = visit(server)
    maria.sign_in(token)
    expect(maria.page.locator(".account")).to_contain_text("maria")
    expect(maria.page.get_by_role("link", name="Operate")).to_have_count(0)
    page.reload()
    expect(page.locator("#secret")).to_have_count(0)  # shown once
    row = page.locator("#tokens tr", has_text="maria")
    row.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(row).to_contain_text("Revoked")
    maria.go("/ledger")
    expect(maria.page).to_have_url(re.compile("/login"))  # at once
    before = page.locator("#sealing-keys tbody th").first.inner_text()
    page.get_by_role("button", name="Rotate the key").click()
    page.get_by_role("dialog").get_by_role("button", name="Rotate").click()
    expect(page.locator("#sealing-keys tbody th").first).not_to_have_text(before)


def test_silent_devices_are_shown_in_aggregate(visit, start):
    server = start(people(2000))
    visitor = visit(server)
    visitor.sign_in(server.operator)
    visitor.ask("histogram", "country")
    visitor.read()
    page = visitor.go("/operate")
    expect(page.locator("main")).to_contain_text(
        "5 % of the devices contacted in the last 1 closed round did not answer"
    )


def test_an_analyst_cannot_operate(visit, server):
    visitor = visit(server)
    visitor.allowed = {403}
    page = visitor.sign_in(server.analyst)
    expect(page.get_by_role("link", name="Operate")).to_have_count(0)
    visitor.go("/operate")
    expect(page.locator("main")).to_contain_text("This page needs an operator's token.")


def test_it_works_without_scripts(visit, server):
    visitor = visit(server, scripts=False)
    page = visitor.sign_in(server.analyst)
    visitor.go("/ask")
    page.fill("#attribute", "country")
    page.get_by_role("button", name="Work out the plan").click()
    expect(page).to_have_url(re.compile("attribute=country"))
    assert "csrf" not in page.url
    page.locator("#plan button.primary").click()
    page.wait_for_url("**/queries/**")
    end = time.monotonic() + 30
    while page.get_by_role("heading", name="Certificate").count() == 0:
        assert time.monotonic() < end
        page.goto(page.url.partition("?")[0])
    page.get_by_role("button", name="Verify").click()
    expect(page.locator("#verified")).to_contain_text("It holds.")
    page.locator("#table").get_by_role("link", name="country").click()
    expect(page.locator("#table tbody tr").first).to_contain_text("Deutschland")


def test_themes(visit, server):
    visitor = visit(server)
    page = visitor.sign_in(server.analyst)
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_role("button", name="Dark").click()
    dark = page.evaluate(ground)
    assert dark != light
    visitor.go("/ledger")
    assert page.evaluate(ground) == dark
    page.get_by_role("button", name="System").click()
    assert page.evaluate(ground) == light


def test_a_release_is_read_by_whoever_verifies_it(server, visit):
    """What the page offers for download is all that an auditor needs."""
    visitor = visit(server)
    visitor.sign_in(server.analyst)
    visitor.ask("quantiles", "latency_ms", quantiles_probabilities="0.5")
    page = visitor.read()
    content = page.request.get(page.url.replace("/answer", "/download/json")).json()
    assert th.privacy.plans.Plan.from_dict(content["plan"]).verify() <= 1e-8
    assert json.dumps(content).count("promise") == 1
