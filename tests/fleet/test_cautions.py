"""Queries that cannot succeed are not sold without a word: what speaks against one is said at every door, first."""

from __future__ import annotations

import asyncio
import json
import re
import warnings

import httpx
import pytest
from coordinator_cases import StillClock
from server_cases import fleet_of, histogram_request, inside
from typer.testing import CliRunner

import thresher as th
from thresher.cli import fleet as commands
from thresher.cli import fleet_asking, fleet_options
from thresher.console import ask_form as asking
from thresher.console.adapter import ServerDesk, console_pages
from thresher.device.policy import Policy
from thresher.device.policy_file import read_policy, with_attributes
from thresher.device.terms import Terms, terms_of
from thresher.errors import InvalidSetting, ThresherWarning
from thresher.privacy.planner import make_plan
from thresher.privacy.round_prices import whole_rate
from thresher.privacy.units import DEVICE
from thresher.privacy.whole_numbers import ONE, PERIOD
from thresher.protocol.analyst_messages import QueryRequest, RoundSettings
from thresher.protocol.messages import decode
from thresher.questions import Between, Values, Where
from thresher.roles.collector.enrolment import Overview
from thresher.roles.coordinator.admission import admit
from thresher.roles.coordinator.cautions import Public, cautions, series_cautions
from thresher.verbs import HistogramQuery

PLAN = th.plan(1, 1e-8)
MANY = 100_000
CSRF = re.compile(r'name="csrf" value="([^"]+)"')


def codes(
    policy: Policy | None = None,
    active: int = MANY,
    column: str = "country",
    plan=PLAN,
    come_back: float = 0.0,
    where: Where | None = None,
    **settings,
):
    query = HistogramQuery(Values((column,)), plan, where=where)
    admitted = admit(QueryRequest(name="a", query=query.to_dict(), settings=RoundSettings(**settings)))
    return {each.code: each.text for each in cautions(admitted, Public(active, policy or Policy(), (), come_back))}


def test_nothing_speaks_against_a_query_that_can_succeed():
    assert codes() == {}
    assert codes(Policy(attributes=frozenset({"country"}))) == {}
    assert codes(active=PLAN.smallest_visible()) == {}


def test_a_guarantee_that_is_weak():
    assert "epsilon = 12 is above 10" in codes(Policy(max_epsilon=20), plan=th.plan(12, 1e-8))["weak-guarantee"]
    assert "delta = 0.001" in codes(plan=th.plan(1, 1e-3))["weak-guarantee"]
    query = HistogramQuery(Values(("country",)), PLAN)
    admitted = admit(QueryRequest(name="a", query=query.to_dict()))
    for total, expected in ((th.plan(12, 1e-8), ["weak-guarantee"]), (PLAN, [])):  # of a series, the total counts
        found = series_cautions(admitted, Public(MANY, Policy(), (), 0.0), 1, total)
        assert [each.code for each in found] == expected


def test_a_filter_that_devices_do_not_take():
    adults = Where((Between("age", 18),))
    assert codes(where=adults) == {}
    assert codes(Policy(attributes=frozenset({"country", "age"})), where=adults) == {}
    for policy in (Policy(attributes=frozenset({"country"})), Policy(filters=frozenset({"country"}))):
        said = codes(policy, where=adults)
        assert list(said) == ["filtered-attribute"]
        assert "filtered by age" in said["filtered-attribute"]
        assert "filters by: country" in said["filtered-attribute"]


def test_fewer_devices_than_must_hold_a_value():
    needed = PLAN.smallest_visible()
    said = codes(active=needed - 1)["few-devices"]
    assert f"{needed - 1:,} devices were active in the last day" in said
    assert f"held by {needed:,}" in said
    assert f"{100 * float(PLAN.sees(needed - 1)):.3g} %" in said
    assert "1 device was active" in codes(active=1)["few-devices"]
    assert "No device was active" in codes(active=0)["few-devices"]


def test_a_round_that_closes_before_enough_have_completed_it():
    needed = PLAN.smallest_visible()
    assert f"when {needed - 1:,} devices have completed it" in codes(completions=needed - 1)["few-devices"]
    assert codes(completions=needed) == {}
    # Who is contacted stands for the others too.
    assert "few-devices" not in codes(Policy(max_delta=0.5, period_delta=0.9), completions=needed - 1, contact_rate=0.9)


def test_a_round_that_is_shorter_than_the_time_between_two_visits():
    assert codes(come_back=60.0, seconds=60.0) == {}
    said = codes(come_back=60.0, seconds=6.0)
    assert list(said) == ["short-round"]
    assert "open for 6 s, and devices visit every 60 s: expect about 10 %" in said["short-round"]


def test_every_door_knows_when_devices_come_back(tmp_path):
    with inside(tmp_path / "data", come_back=30.0, pages=console_pages) as server:
        for seconds, short in ((29.0, True), (30.0, False)):
            answer = server.ask("POST", "/v1/plans", server.token("analyst"), json=histogram_request(seconds=seconds))
            assert ("short-round" in [each["code"] for each in answer.json()["warnings"]]) == short
            request = decode(QueryRequest, json.dumps(histogram_request(seconds=seconds)))
            found = [each.code for each in ServerDesk(server.services).preview(request).warnings]
            assert ("short-round" in found) == short


def test_a_policy_that_devices_will_not_answer_under():
    five = th.plan(5, 1e-8)
    assert "gives away more than epsilon 4 with delta 1e-05" in codes(plan=th.plan(5, 1e-4))["policy"]
    assert codes(plan=five) == {}  # at epsilon 4 its delta is far below 1e-5
    assert codes(Policy(max_epsilon=5), plan=five) == {}
    assert "its threshold is below 1000" in codes(Policy(min_threshold=1000))["policy"]
    assert "more than epsilon 1 with delta 1e-09" in codes(Policy(max_epsilon=1, max_delta=1e-9))["policy"]
    assert "coins are not the aggregator's" in codes(Policy(coins="aggregator"), sampled_by="device")["policy"]
    assert codes(Policy(coins="aggregator"), sampled_by="aggregator") == {}
    assert "policy" in codes(contact_rate=0.35, sampled_by="device")  # hides from the contact list
    assert "or than epsilon 0.01" in codes(Policy(period_epsilon=0.01))["policy"]


@pytest.mark.slow
@pytest.mark.parametrize("total_only", [False, True])
def test_devices_that_have_answered_enough(tmp_path, total_only):
    ledger = th.Ledger(tmp_path / "ledger.db", epsilon=10, delta=1e-3)
    if total_only:
        ledger.charge(1.0, 1e-8, "another tool", unit=DEVICE)
    else:
        ledger.reserve(PLAN, "a histogram", unit=DEVICE, reference="a")
        ledger.draw("a", 0)
    [entry] = ledger.history()
    query = HistogramQuery(Values(("country",)), PLAN)
    admitted = admit(QueryRequest(name="a", query=query.to_dict()))
    for policy, days, expected in (
        (Policy(period_epsilon=0.6), 1, ["device-budget"]),  # for one such query, not for two
        (Policy(period_epsilon=0.6), 31, []),
        (Policy(period_epsilon=0.8), 1, ["device-budget"] if total_only else []),
    ):
        public = Public.of(MANY, policy, ledger, now=entry.time.timestamp() + days * 86_400)
        assert [each.code for each in cautions(admitted, public)] == expected


def test_the_caution_says_what_devices_do():
    """As many queries are asked without a caution as a device that answers all of them answers."""
    policy = Policy(period_epsilon=0.8)
    query = HistogramQuery(Values(("country",)), PLAN)
    admitted = admit(QueryRequest(name="a", query=query.to_dict()))
    cost = policy.cost(terms_of(admitted.plan, admitted.rates))
    allowed = PERIOD // cost
    assert allowed > 1
    for asked in (allowed - 1, allowed):
        found = [each.code for each in cautions(admitted, Public(MANY, policy, (cost,) * asked))]
        assert found == (["device-budget"] if asked == allowed else [])


def test_devices_are_charged_for_the_rounds_that_were_drawn_in_their_period(tmp_path):
    """A series reserves many rounds, and draws them over a year."""
    clock = StillClock(1_800_000_000.0)
    ledger = th.Ledger(tmp_path / "ledger.db", epsilon=10, delta=1e-3, clock=clock)
    plan = th.plan(1, 1e-8, rounds=10)
    ledger.reserve(plan, "a histogram every week", unit=DEVICE, reference="a")
    assert Public.of(MANY, Policy(), ledger, now=clock.time).recent == ()
    for position in range(10):
        ledger.draw("a", position)
        clock.time += 7 * 86_400
    [cost] = Public.of(MANY, Policy(), ledger, now=clock.time).recent
    assert cost == Policy().cost(Terms(4, 1, plan.threshold, ONE, ONE, whole_rate(plan.sampling_rate)))
    assert ledger.drawn_since(clock.time - 8 * 86_400) == {"a": 1}
    assert Public.of(MANY, Policy(), ledger, now=clock.time + 40 * 86_400).recent == ()


def test_a_misspelt_attribute_and_what_was_meant():
    known = Policy(attributes=frozenset({"country", "app_version"}))
    assert "Did you mean country?" in codes(known, column="contry")["unknown-attribute"]
    assert "They answer about: app_version, country." in codes(known, column="zzz")["unknown-attribute"]
    assert list(codes(known, column="zzz")) == ["unknown-attribute"]


def test_a_policy_from_a_file(tmp_path):
    path = tmp_path / "policy.json"
    path.write_text(json.dumps({"max_epsilon": 2, "attributes": ["country"], "pinned_key": "00" * 32}))
    expected = Policy(max_epsilon=2, attributes=frozenset({"country"}), pinned_key=bytes(32))
    assert read_policy(path) == expected
    assert with_attributes(Policy(), ["a ", " b"]).attributes == {"a", "b"}
    for wrong in ("{", "[]", '{"max_epsilons": 2}', '{"max_epsilon": -1}', '{"attributes": "country"}',
                  '{"pinned_key": "zz"}', '{"max_epsilon": "2"}', '{"hide_from_contact_list": 1}'):  # fmt: skip
        path.write_text(wrong)
        with pytest.raises(InvalidSetting):
            read_policy(path)
    with pytest.raises(InvalidSetting):
        read_policy(tmp_path / "none.json")
    with pytest.raises(InvalidSetting):
        with_attributes(Policy(), [""])


# At every door.


@pytest.fixture
def server(tmp_path, monkeypatch):
    """51 devices were active, and they answer about country."""
    policy = Policy(attributes=frozenset({"country"}))
    with inside(tmp_path / "data", pages=console_pages, device_policy=policy, budget_epsilon=50.0) as running:
        running.services.collector.overview = lambda: Overview(60, 51, [])
        monkeypatch.setattr(fleet_options, "connected", lambda *given: fleet_of(running))
        yield running


def charged(server) -> int:
    return len(server.services.the_coordinator.ledger_view().charges)


def test_the_preview_says_it(server):
    answer = server.ask("POST", "/v1/plans", server.token("analyst"), json=histogram_request())
    assert [each["code"] for each in answer.json()["warnings"]] == ["few-devices", "unknown-attribute"]
    assert charged(server) == 0


def test_python_warns_before_the_charge(server):
    with fleet_of(server) as fleet:
        with warnings.catch_warnings():
            warnings.simplefilter("error", ThresherWarning)
            with pytest.raises(ThresherWarning, match="51 devices were active"):
                th.histogram(fleet, "country", plan=PLAN, wait=False)
        assert charged(server) == 0
        with pytest.warns(ThresherWarning) as said:
            th.histogram(fleet, "contry", plan=PLAN, wait=False)
        assert [re.split(r"[;,]", str(each.message))[0] for each in said] == [
            "51 devices were active in the last day",
            "Devices do not answer about contry",
        ]
        assert {each.filename for each in said} == {__file__}
        assert charged(server) == 1


def test_a_weak_guarantee_is_a_warning_of_its_own(server):
    with fleet_of(server) as fleet, warnings.catch_warnings():
        warnings.simplefilter("always")
        with pytest.warns(ThresherWarning) as said:
            th.histogram(fleet, "country", plan=make_plan(12, 1e-8), wait=False)
        weak = [each for each in said if isinstance(each.message, th.WeakGuarantee)]
        assert len(weak) == 1
        assert weak[0].filename == __file__


@pytest.mark.slow
def test_the_command_warns_and_asks_where_a_person_is(server, monkeypatch):
    command = ["query", "histogram", "country", "--epsilon=1", "--delta=1e-8", "--server=x", "--no-wait"]
    nobody = CliRunner().invoke(commands.app, command)  # no terminal: it is said, and asked
    assert nobody.exit_code == 0, nobody.output
    assert "warning (few-devices): 51 devices" in nobody.stderr
    assert charged(server) == 1
    monkeypatch.setattr(fleet_asking, "is_terminal", lambda: True)
    refusing = CliRunner().invoke(commands.app, command, input="n\n")
    assert refusing.exit_code == 1
    assert "Nothing was asked, and nothing was spent." in refusing.stderr
    assert charged(server) == 1
    assert CliRunner().invoke(commands.app, command, input="y\n").exit_code == 0
    assert CliRunner().invoke(commands.app, [*command, "--yes"]).exit_code == 0
    assert charged(server) == 3
    shown = CliRunner().invoke(commands.app, [*command, "--plan"])
    assert "Warning: 51 devices" in shown.stdout


def test_the_console_asks_a_second_time(server):
    form = {"attribute": "country", "epsilon": "1", "name": "console-once"}
    agreed = asking.agreement(asking.filled(form))

    async def visit() -> None:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(server.app), base_url="http://server") as http:
            mark = CSRF.search((await http.get("/login")).text)[1]
            await http.post("/login", data={"csrf": mark, "token": server.token("analyst")})
            page = (await http.get("/ask?attribute=country")).text
            assert "51 devices were active" in page
            assert "anyway=" not in page
            csrf = CSRF.search(page)[1]
            for path in (f"/ask?agreed={agreed}", f"/ask?agreed={agreed}&anyway=policy"):
                again = await http.post(path, data={**form, "csrf": csrf})
                assert again.status_code == 409
                assert "Nothing was asked, and nothing was spent." in again.text
                assert "Ask anyway, spending ε 1" in again.text
            assert charged(server) == 0
            [action] = re.findall(r'formaction="(/ask\?[^"]*)"', again.text)
            done = await http.post(action.replace("&amp;", "&"), data={**form, "csrf": csrf})
            assert done.status_code == 303
            assert charged(server) == 1
            assert "do not answer about" not in (await http.get("/ask")).text  # while there is no name, none is wrong

    asyncio.run(visit())
