"""Series in the console, over plain HTTP: pages, forms, files, and what cannot be read."""

from __future__ import annotations

import html
import io
import json
import re
from collections.abc import Iterator

import httpx
import pytest
from console_client import CSRF, client, sign_in
from console_series import pass_dates, start_series, versions
from console_server import ConsoleServer, console_server
from pyarrow import csv, parquet

from thresher.console import ask_form as asking
from thresher.console import series_form
from thresher.protocol.alert_messages import RuleRequest
from thresher.verbs.alert_rules import Rule

pytestmark = pytest.mark.slow  # planning a series takes a second
EVIL = "=<b>x</b>"


def rows(week: int) -> list[dict[str, object]]:
    return [*versions(8 * week), *({"version": EVIL, "latency_ms": 1.0} for _ in range(900))]


@pytest.fixture(scope="module")
def weekly(tmp_path_factory) -> Iterator[tuple[ConsoleServer, str]]:
    """A weekly series of eight: five dates have come, one of them was missed, and one was paused."""
    with console_server(tmp_path_factory.mktemp("weekly"), rows(0), epsilon=10.0, delta=1e-6, moved=True) as server:
        series = start_series(server, releases=8, epsilon=2.0, delta=1e-8, time_zone="Europe/Paris")
        server.coordinator.alerts.add(series, RuleRequest(rule=Rule("above", 100).to_dict()), "ana")
        pass_dates(server, series, 5, missed=frozenset({1}), paused=frozenset({3}), rows=rows)
        yield server, series


@pytest.fixture
def http(weekly) -> Iterator[httpx.Client]:
    with client(weekly[0]) as opened:
        sign_in(opened, weekly[0].analyst)
        yield opened


def csrf_of(http: httpx.Client) -> str:
    return CSRF.search(http.get("/").text)[1]


def text_of(page: str) -> str:
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", page)))


def reserved(server: ConsoleServer) -> int:
    return len(server.coordinator.ledger_view().charges)


def test_the_page_has_the_trend_the_numbers_the_dates_and_the_budget(weekly, http):
    server, series = weekly
    page = http.get(f"/series/{series}")
    assert page.status_code == 200
    said = text_of(page.text)
    last = server.coordinator.answer(f"{series}-4")
    row = max(last, key=lambda each: each.estimate)
    assert f"{row.estimate:,.0f} {row.interval[0]:,} to {row.interval[1]:,}" in said
    assert "not asked: the server did not run" in said
    assert "not asked: the series was paused" in said
    assert f'href="/queries/{series}-4/answer"' in page.text
    assert "ε 2" in said and "3 of 8 rounds drawn" in said and "5 reserved" in said
    assert "what was never drawn, when it ends" in said
    assert "That covers all 8 releases together." in said
    assert "CET" in said or "CEST" in said
    assert "appeared above the threshold" in said.lower() or "vanished above the threshold" in said.lower()
    assert "by chance" in said
    assert EVIL not in page.text
    assert html.escape(EVIL) in page.text


def test_looking_spends_nothing(weekly, http):
    before = weekly[0].coordinator.ledger_view()
    for path in ("/", "/series", f"/series/{weekly[1]}", f"/series/{weekly[1]}/download/csv"):
        assert http.get(path).status_code == 200
    assert weekly[0].coordinator.ledger_view() == before


def test_lines_are_chosen_by_the_address(weekly, http):
    every = http.get(f"/series/{weekly[1]}").text
    one = http.get(f"/series/{weekly[1]}", params={"bucket": EVIL}).text
    assert every.count('class="trend-2') > 0
    assert one.count('class="trend-2') == 0
    assert re.search(r'value="=&lt;b&gt;x&lt;/b&gt;" checked', one)
    unknown = http.get(f"/series/{weekly[1]}", params=[("bucket", "<i>"), ("bucket", EVIL)])
    assert unknown.status_code == 200
    assert "No release of this series has such a bucket." in text_of(unknown.text)
    assert "<i>" not in unknown.text
    assert unknown.text.count('class="trend-2') == 0


def test_the_list_and_the_home_page_show_it(weekly, http):
    listed, home = http.get("/series"), http.get("/")
    for page in (listed, home, http.get("/home", headers={"X-Fragment": "1"})):
        assert f'href="/series/{weekly[1]}' in page.text
    assert 'class="sparkline"' in listed.text
    assert f'href="/series/{weekly[1]}">the series</a>' in http.get("/ledger").text
    assert home.text.index("following-title") < home.text.index("Devices enrolled")
    assert "is above 100" in text_of(home.text)
    assert "3 of 8 released" in text_of(home.text)


def test_files_have_the_rows_over_time(weekly, http):
    server, series = weekly
    expected = sum(len(server.coordinator.answer(f"{series}-{index}")) for index in (0, 2, 4))
    table = csv.read_csv(io.BytesIO(http.get(f"/series/{series}/download/csv").content))
    assert table.column_names == ["date", "version", "estimate", "lower", "upper", "stands_for", "guarantee"]
    assert table.num_rows == expected
    assert "'" + EVIL in table["version"].to_pylist()  # no formula
    found = http.get(f"/series/{series}/download/json")
    assert "attachment" in found.headers["content-disposition"]
    content = json.loads(found.content)
    assert len(content["rows"]) == expected
    assert len(content["missed"]) == 2
    assert parquet.read_table(io.BytesIO(http.get(f"/series/{series}/download/parquet").content)).num_rows == expected
    assert http.get(f"/series/{series}/download/svg").content.startswith(b"<svg")
    assert http.get(f"/series/{series}/download/exe").status_code == 404


def test_a_series_without_an_answer_has_pages_but_no_files(weekly, http):
    server = weekly[0]
    later = start_series(server, name="later", releases=2, epsilon=0.5, delta=1e-10, start="2060-01-04 09:00")
    page = http.get(f"/series/{later}")
    assert "Nothing was released yet." in text_of(page.text)
    assert "/download/" not in page.text
    assert http.get(f"/series/{later}/download/csv").status_code == 422
    server.coordinator.series.end(later, "ana")


@pytest.mark.parametrize("path", ["", "/download/csv"])
def test_a_wrong_id_is_a_page_that_says_so(http, path):
    found = http.get(f"/series/none{path}", headers={"accept": "text/html"})
    assert found.status_code == 404
    assert "There is no such series." in found.text


def test_forms_need_their_token(weekly, http):
    server, series = weekly
    for action in ("pause", "resume", "end", "add-rule", "remove-rule"):
        for form in ({}, {"csrf": "x"}, {"csrf": "", "kind": "changed"}):
            assert http.post(f"/series/{series}/{action}", data=form).status_code == 403
    assert server.coordinator.series.status(series).state == "running"
    assert len(server.coordinator.alerts.rules(series).rules) == 1
    with client(server) as stranger:
        assert stranger.get(f"/series/{series}").status_code == 303  # to the login page
        assert stranger.post(f"/series/{series}/end").status_code == 303
    csrf = csrf_of(http)
    assert http.post("/series/none/end", data={"csrf": csrf}).status_code == 404


def test_pause_resume_and_end(weekly, http):
    server = weekly[0]
    other = start_series(server, name="other", releases=3, epsilon=0.5, delta=1e-10, start="2060-01-04 09:00")
    csrf = csrf_of(http)
    for action, state, offered in (("pause", "paused", "Resume"), ("resume", "running", "Pause")):
        sent = http.post(f"/series/{other}/{action}", data={"csrf": csrf})
        assert (sent.status_code, sent.headers["location"]) == (303, f"/series/{other}")
        status = server.coordinator.series.status(other)
        assert (status.state, status.changed_by) == (state, "analyst")
        assert f">{offered}</button>" in http.get(f"/series/{other}").text
    assert http.post(f"/series/{other}/end", data={"csrf": csrf}).status_code == 303
    page = http.get(f"/series/{other}")
    assert server.coordinator.series.status(other).state == "ended"
    assert 'action="/series/' not in page.text  # there is nothing left to do


def test_rules_are_added_and_removed(weekly, http):
    server, series = weekly
    csrf = csrf_of(http)
    sent = http.post(f"/series/{series}/add-rule", data={"csrf": csrf, "kind": "below", "bound": "50", "bucket": "2.0"})
    assert sent.status_code == 303, sent.text
    rules = server.coordinator.alerts.rules(series).rules
    assert [rule.by for rule in rules] == ["ana", "analyst"]
    page = text_of(http.get(f"/series/{series}").text)
    assert "2.0 is below 50" in page
    assert "is above 100" in page
    for form in ({"kind": "above", "bound": ""}, {"kind": "above", "bound": "many"}, {"kind": "no"}):
        refused = http.post(f"/series/{series}/add-rule", data={"csrf": csrf, **form}, headers={"accept": "text/html"})
        assert refused.status_code == 422
        assert f'href="/series/{series}"' in refused.text
    removed = http.post(f"/series/{series}/remove-rule", data={"csrf": csrf, "rule": rules[-1].id})
    assert removed.status_code == 303
    assert len(server.coordinator.alerts.rules(series).rules) == 1


FORM = {
    "attribute": "version",
    "epsilon": "0.5",
    "delta": "1e-10",
    "every": "week",
    "releases": "3",
    "start": "2060-01-04T09:00",
    "time_zone": "Europe/Paris",
    "name": "from-the-form",
}


def agreed_in(page: str) -> str:
    return re.search(r"agreed=([0-9a-f]+)", page)[1]


def test_the_plan_shown_is_the_plan_run_or_nothing(weekly, http):
    server, csrf, before = weekly[0], csrf_of(http), reserved(weekly[0])
    page = http.get("/ask", params=FORM)
    said = text_of(page.text)
    assert "4 Jan 2060, 09:00 CET" in said and "18 Jan 2060, 09:00 CET" in said
    assert "Start the series, reserving ε 0.5" in said
    agreed = agreed_in(page.text)
    for changed in ({"releases": "4"}, {"epsilon": "0.6"}, {"every": "day"}, {"missed": "late"}, {"every": "once"}):
        assert http.post(f"/ask?agreed={agreed}", data={**FORM, **changed, "csrf": csrf}).status_code == 409
    assert http.post("/ask", data={**FORM, "csrf": csrf}).status_code == 409
    assert reserved(server) == before
    first = http.post(f"/ask?agreed={agreed}", data={**FORM, "csrf": csrf})
    again = http.post(f"/ask?agreed={agreed}", data={**FORM, "csrf": csrf})
    assert first.status_code == again.status_code == 303
    assert first.headers["location"] == again.headers["location"]
    assert reserved(server) == before + 1
    series = first.headers["location"].removeprefix("/series/")
    status = server.coordinator.series.status(series)
    assert (status.schedule.releases, status.total.analyst.epsilon, status.schedule.missed) == (3, 0.5, "skip")
    filled = http.get("/ask", params={"like_series": series}).text
    for name, value in (("attribute", "version"), ("epsilon", "0.5"), ("releases", "3"), ("time_zone", "Europe/Paris")):
        assert re.search(rf'name="{name}"[^>]*value="{value}"', filled), name
    server.coordinator.series.end(series, "ana")


def test_a_last_date_is_agreed_to_as_a_number_of_releases(weekly):
    clock = weekly[0].console_clock
    fields = asking.filled({"attribute": "version", "every": "day", "until": "2060-01-10", "start": "2060-01-08"})
    three = series_form.to_series(fields, clock)
    assert three.schedule.releases == 3
    two = series_form.to_series({**fields, "start": "2060-01-09"}, clock)
    assert series_form.series_agreement(fields, three) != series_form.series_agreement(fields, two)
    assert series_form.series_agreement(fields, three) == series_form.series_agreement({**fields, "name": "x"}, three)


def test_what_does_not_fit_is_said_and_not_kept(weekly, http):
    server, csrf, before = weekly[0], csrf_of(http), reserved(weekly[0])
    form = {**FORM, "epsilon": "40", "delta": "1e-5", "name": "dear"}
    page = http.get("/ask", params=form)
    assert "This does not fit into the budget." in text_of(page.text)
    assert "Start the series" not in page.text  # there is nothing to press
    fields = asking.filled(form)
    agreed = series_form.series_agreement(fields, series_form.to_series(fields, server.console_clock))
    refused = http.post(f"/ask?agreed={agreed}&anyway=weak-guarantee", data={**form, "csrf": csrf})
    assert refused.status_code == 402
    assert "The budget does not allow this." in refused.text
    assert reserved(server) == before
    assert "dear" not in [each.name for each in server.coordinator.series.all()]


def test_what_may_give_no_answer_is_started_after_a_second_confirmation(tmp_path):
    with console_server(tmp_path, rows(0)[:40]) as server, client(server) as http:  # too few devices
        sign_in(http, server.analyst)
        form = {**FORM, "csrf": csrf_of(http)}
        page = http.get("/ask", params=FORM)
        assert "There are warnings." in text_of(page.text)
        first = http.post(f"/ask?agreed={agreed_in(page.text)}", data=form)
        assert first.status_code == 409
        assert reserved(server) == 0
        action = html.unescape(re.search(r'formaction="(/ask[^"]*anyway=[^"]+)"', first.text)[1])
        assert http.post(action, data=form).status_code == 303
        assert reserved(server) == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"releases": "0"}, "Releases must be"),
        ({"releases": "3", "until": "2060-02-01"}, "and not both"),
        ({"time_zone": "Mars/Base"}, "Time zone"),
        ({"start": "soon"}, "Start must be a date"),
        ({"start": "2020-01-01"}, "lies in the past"),
        ({"until": "2059-01-01", "releases": ""}, "lies before the start"),
        ({"until": "9999-12-31", "releases": ""}, "Until must lie within a hundred years"),
        ({"apart": "0"}, "must be a whole number from 1 to 999"),
        ({"every": "year"}, "Every must be one of"),
        ({"missed": "never"}, "Missed must be one of"),
        ({"minutes": "20000"}, "Minutes a round is open"),
    ],
)
def test_a_wrong_schedule_is_named_beside_the_form(http, given, said):
    page = http.get("/ask", params={**FORM, **given})
    assert page.status_code == 200
    assert said in text_of(page.text)
    assert "Start the series" not in page.text


def test_every_answer_offers_to_ask_again_and_every_week(weekly, http):
    server, series = weekly
    query = f"{series}-4"
    answer = http.get(f"/queries/{query}/answer").text
    assert f'href="/ask?like={query}"' in answer
    assert f'href="/series/{series}"' in answer
    again = http.get("/ask", params={"like": query, "every": "week"}).text
    assert re.search(r'name="every" value="week" checked', again)
    assert re.search(r'name="attribute"[^>]*value="version"', again)
    epsilon = server.coordinator.status(query).query["plan"]["epsilon"]
    assert f'value="{epsilon!r}"' in again
    assert http.get("/ask", params={"like": "none"}).status_code == 404


def test_what_cannot_be_read_fails_alone(tmp_path):
    with console_server(tmp_path, rows(0), epsilon=10.0, delta=1e-6, moved=True) as server:
        series = start_series(server, releases=4, epsilon=1.0, delta=1e-9)
        pass_dates(server, series, 3)
        database = server.coordinator._store._database

        def damage(content: str) -> None:
            with database.transaction() as transaction:
                assert transaction.execute("UPDATE series SET query = ? WHERE id = ?", (content, series)) == 1

        with client(server) as http:
            sign_in(http, server.analyst)
            stored = json.dumps(server.coordinator.series.status(series).query)
            damage(json.dumps(json.loads(stored) | {"verb": "median"}))
            page = http.get(f"/series/{series}")
            assert page.status_code == 200
            assert "Ask the same from Python" not in page.text
            assert f"/queries/{series}-2/answer" in page.text
            damage(stored[: len(stored) // 2])
            broken = http.get(f"/series/{series}", headers={"accept": "text/html"})
            assert broken.status_code != 200
            assert "This stored series cannot be read." in broken.text
            for path in ("/", "/series", "/ledger", "/queries"):
                assert http.get(path).status_code == 200


def test_without_a_series_the_home_page_says_how_to_begin_one(tmp_path):
    with console_server(tmp_path, rows(0)) as server, client(server) as http:
        sign_in(http, server.analyst)
        assert 'href="/ask?every=week"' in http.get("/").text
        assert "There is no series yet" in http.get("/series").text
