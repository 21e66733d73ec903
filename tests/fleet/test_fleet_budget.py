"""A fleet's budget as operators set it and analysts see it: composition, periods, enlarging, metrics, commands."""

import json

import pytest
from device_cases import StillClock
from server_cases import histogram_request, inside
from typer.testing import CliRunner

import thresher as th
from thresher.cli import budget_words
from thresher.cli.app import app
from thresher.errors import InvalidSetting
from thresher.protocol.analyst_messages import LedgerView, PlanPreview
from thresher.protocol.messages import decode, encode
from thresher.roles.coordinator.views import ledger_view
from thresher.server.server_ledger import FleetBudget

DAY = 86_400.0


def ask(server, name="first"):
    answer = server.ask("POST", "/v1/queries", server.token("analyst"), json=histogram_request(name))
    assert answer.status_code in (200, 201), answer.text
    return answer.json()["id"]


def view(server) -> LedgerView:
    return decode(LedgerView, server.ask("GET", "/v1/ledger", server.token("analyst")).content)


def preview(server) -> PlanPreview:
    return decode(
        PlanPreview, server.ask("POST", "/v1/plans", server.token("analyst"), json=histogram_request()).content
    )


def test_a_new_fleet_composes_adaptively_and_says_how_many_fit(tmp_path):
    with inside(tmp_path / "data") as server:
        shown = preview(server)
        assert shown.fits and shown.affords == 259  # PRIVACY 7: under (10, 1e-6), queries of (1, 1e-8)
        assert "This takes 0.39 % of the budget; about 260 more like it fit." in shown.price
        assert "Rounds that are never asked are given back." in shown.price
        ask(server)
        found = view(server)
    assert (
        found.composition == "adaptive"
        and found.spent_share == 0
        and found.left_share == pytest.approx(1 - 1 / 259, 1e-3)
    )
    (charge,) = found.charges
    assert (charge.drawn, charge.given_back, charge.rounds) == (0, 0, 1)
    assert charge.share == charge.used == pytest.approx(1 - found.left_share)
    assert found.spent_epsilon == 0 and found.period is None and len(found.promises) == 1


def test_a_cancelled_query_gives_its_share_back(tmp_path):
    with inside(tmp_path / "data") as server:
        query = ask(server)
        server.ask("POST", f"/v1/queries/{query}/cancel", server.token("analyst"))
        server.services.coordinator.step()
        found = view(server)
    assert found.left_share == 1 and found.charges[0].given_back == 1 and found.charges[0].share == 0


def test_a_fleet_that_adds_up_is_asked_for_and_kept(tmp_path):
    with inside(tmp_path / "data", budget_composition="sum") as server:
        shown = preview(server)
        assert shown.affords == 10 and "Nothing is given back" in shown.price
        ask(server)
        found = view(server)
        assert (found.composition, found.spent_epsilon, found.left_epsilon) == ("sum", 1.0, 9.0)
        assert "Charges add up" in " ".join(budget_words.spending(found))
    with inside(tmp_path / "data") as server:  # a later start leaves it out
        assert view(server).composition == "sum"
    for wrong, words in (
        ({"budget_composition": "adaptive"}, "sum"),
        ({"budget_period": "30d"}, "none: it never renews"),
    ):
        (name,) = wrong
        option = name.replace("_", "-")
        differs = f"^{option} differs from the ledger's, which is {words}"
        with pytest.raises(InvalidSetting, match=differs) as caught, inside(tmp_path / "data", **wrong):
            pass
        assert f"Leave --{option} out" in caught.value.hint


@pytest.mark.slow
def test_a_budget_renews_by_the_servers_clock(tmp_path):
    clock = StillClock(1.7e9)
    with inside(tmp_path / "data", clock=clock, budget_period="30d") as server:
        ask(server)
        server.services.coordinator.step()
        before = view(server)
        assert before.period.seconds == 30 * DAY and before.period.number == 1
        assert before.period.ends == pytest.approx(clock.time + 30 * DAY)
        query = before.charges[0].query
        server.ask("POST", f"/v1/queries/{query}/cancel", server.token("analyst"))
        server.services.coordinator.step()
        clock.time += 31 * DAY
        after = view(server)
        assert after.left_share == 1 and after.period.number == 2
        ask(server, "second")
        assert view(server).charges[1].used == pytest.approx(before.charges[0].used)  # of its own period
        words = " ".join(budget_words.spending(after))
    assert "renews every 30 days" in words and "the promise is for each period by itself" in words
    with inside(tmp_path / "data", clock=clock, budget_period="720h") as server:  # the same length
        assert view(server).period.number == 2
    differs = r"^budget-period differs from the ledger's, which is 30 days"
    with pytest.raises(InvalidSetting, match=differs), inside(tmp_path / "data", budget_period="7d"):
        pass


@pytest.mark.slow
def test_an_enlarged_budget_is_shown_at_once_and_asked_for_at_the_next_start(tmp_path):
    path = tmp_path / "data" / "coordinator" / "ledger.db"
    with inside(tmp_path / "data", budget_epsilon=5.0) as server:
        result = CliRunner().invoke(app, ["ledger", "enlarge", str(path), "--epsilon", "8", "--yes"])
        assert result.exit_code == 0, result.output
        found = view(server)
        assert found.epsilon == 8 and [epsilon for _, epsilon in found.promises] == [5, 8]
        words = " ".join(budget_words.spending(found))
    assert "It promised epsilon 5 from" in words and "The highest holds for everything." in words
    differs = r"^budget-epsilon differs from the ledger's, which is 8\.0"
    with pytest.raises(InvalidSetting, match=differs) as caught, inside(tmp_path / "data", budget_epsilon=5.0):
        pass
    assert "thresher ledger enlarge" in caught.value.hint
    with inside(tmp_path / "data", budget_epsilon=8.0) as server:
        assert view(server).epsilon == 8


@pytest.mark.parametrize(
    ("option", "value"), [("--budget-composition", "product"), ("--budget-period", "soon"), ("--budget-period", "1s")]
)
def test_options_that_are_wrong_are_named_and_make_nothing(tmp_path, option, value):
    result = CliRunner().invoke(app, ["serve", "--data-dir", str(tmp_path / "data"), option, value])
    assert isinstance(result.exception, InvalidSetting) and result.exception.setting == option[2:]
    assert not (tmp_path / "data").exists()


@pytest.mark.slow
def test_a_rebuilt_ledger_is_made_as_the_first_start_made_it(tmp_path):
    data = tmp_path / "data"
    with inside(data, budget_epsilon=5.0, budget_delta=1e-5, budget_period="30d") as server:
        ask(server)
        before = view(server)
    (data / "coordinator" / "ledger.db").unlink()
    budget = ("--budget-epsilon", "5", "--budget-delta", "1e-5", "--budget-composition", "adaptive")
    result = CliRunner().invoke(
        app, ["ledger", "rebuild", "--data-dir", str(data), *budget, "--budget-period", "30d", "--json"]
    )
    assert result.exit_code == 0 and json.loads(result.stdout)["entered"] == 1
    with inside(data) as server:
        after = view(server)
    assert (after.composition, after.period.seconds) == ("adaptive", 30 * DAY)
    assert after.left_share == before.left_share
    assert after.charges[0].drawn == before.charges[0].drawn  # it goes on, as the store knows


def test_operators_see_what_is_left_of_the_budget(tmp_path):
    with inside(tmp_path / "data") as server:
        ask(server)
        left = view(server).left_share
        everybody = server.ask("GET", "/metrics").text
        operators = server.ask("GET", "/metrics", server.token("operator")).text
        assert server.services.health()["coordinator"] == "ready"
        (tmp_path / "data" / "coordinator" / "ledger.db").write_bytes(b"no ledger")
        assert server.services.health()["coordinator"] != "ready"
    assert "thresher_budget_left" not in everybody
    (line,) = (line for line in operators.splitlines() if line.startswith("thresher_budget_left "))
    assert float(line.split()[1]) == left


def test_a_ledger_restored_beyond_its_budget_can_be_sent(tmp_path):
    ledger = th.Ledger(tmp_path / "small.db", epsilon=1, delta=1e-9)
    for name in ("a", "b"):
        ledger.restore(th.plan(epsilon=1, delta=1e-6), "a histogram", th.privacy.DEVICE, name)
    found = decode(LedgerView, encode(ledger_view(ledger, {}, {})))
    assert found.spent_epsilon is None and found.left_share == 0
    assert "nothing more can be asked" in budget_words.spending(found)[0]


def test_budgets_are_checked_where_they_are_made():
    with pytest.raises(InvalidSetting, match=r"^budget-composition"):
        FleetBudget(composition="product")
    with pytest.raises(InvalidSetting, match=r"^budget-period"):
        FleetBudget(period="10 minutes")
