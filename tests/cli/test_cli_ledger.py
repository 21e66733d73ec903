"""`thresher ledger`: what each command says, and what it changes."""

import json

import pytest
from typer.testing import CliRunner

import thresher as th
from thresher.cli import ledger_changes
from thresher.cli.app import app
from thresher.errors import BudgetExceeded, InvalidSetting, NotFound

TRIE = th.plan(epsilon=0.5, delta=1e-8, rounds=3)


def invoke(*arguments, input=None):
    result = CliRunner().invoke(app, list(map(str, arguments)), input=input)
    if isinstance(result.exception, th.errors.ThresherError):
        raise result.exception
    return result


def said(*arguments):
    result = invoke("ledger", *arguments)
    assert result.exit_code == 0, result.output
    return " ".join(result.stdout.split())


def read(*arguments):
    return json.loads(invoke("ledger", *arguments, "--json").stdout)


@pytest.fixture
def path(tmp_path):
    th.Ledger(tmp_path / "privacy.db", epsilon=3, delta=1e-6, unit="user")
    return tmp_path / "privacy.db"


@pytest.fixture
def visits(tmp_path):
    path = tmp_path / "visits.csv"
    path.write_text("page,reader\n" + "".join(f"home,{reader}\n" for reader in range(2000)))
    return path


@pytest.mark.slow
def test_create_takes_every_option(tmp_path):
    made = read(
        *("create", tmp_path / "a.db", "--epsilon", 3, "--delta", 1e-6, "--composition", "adaptive"),
        *("--period", "30d", "--data-set", "visits", "--unit", "user"),
    )
    assert made["budget"]["composition"] == "adaptive" and made["budget"]["data_set"] == "visits"
    assert made["period"]["seconds"] == 30 * 86_400 and made["left"]["share"] == 1
    assert "sum" in said("create", tmp_path / "b.db", "--epsilon", 3, "--delta", 1e-6, "--composition", "sum")
    for wrong in (("--composition", "product"), ("--period", "soon"), ("--period", "1h", "--data-set", "")):
        with pytest.raises(InvalidSetting, match=wrong[-2][2:].replace("-", "_")):
            invoke("ledger", "create", tmp_path / "c.db", "--epsilon", 3, "--delta", 1e-6, *wrong)
        assert not (tmp_path / "c.db").exists()


@pytest.mark.slow
def test_a_plan_for_many_queries_is_written_asked_with_and_counted(path, visits, tmp_path):
    file = tmp_path / "plan.json"
    shown = said("plan", path, "--queries", 52, "--output", file)
    assert "Thresher plan" in shown and "This takes 1.9 % of the budget; about 51 more like it fit." in shown
    assert th.Plan.from_dict(json.loads(file.read_text())) == th.Ledger(path).plan(queries=52)
    assert "about 51 more like it fit" in said("affords", path, "--plan", file)
    answer = invoke("histogram", visits, "--column", "page", "--plan", file, "--unit", "reader", "--json")
    assert json.loads(answer.stdout)["plan"] == json.loads(file.read_text())
    th.Ledger(tmp_path / "rows.db", epsilon=3, delta=1e-6)
    asked = ("histogram", visits, "--column", "page", "--plan", file, "--ledger", tmp_path / "rows.db")
    assert "This took 1.9 % of the budget; about 51 more like it fit." in invoke(*asked).stdout
    found = read("affords", tmp_path / "rows.db", "--plan", file)
    assert found["budget"]["affords"] == 51 and found["budget"]["fits"] and 0.98 < found["budget"]["left"] < 0.99
    with pytest.raises(InvalidSetting, match="plan and epsilon"):
        invoke(*asked, "--epsilon", 1)


@pytest.mark.slow
def test_a_query_by_its_target(path):
    # The numbers of docs/privacy.md, section 7: 29 queries of (1, 1e-8) fit under (3, 1e-6).
    assert "This takes 3.4 % of the budget; about 28 more like it fit." in said(
        "affords", path, "--epsilon", 1, "--delta", 1e-8
    )
    assert read("affords", path, "--epsilon", 1, "--delta", 1e-8)["budget"]["affords"] == 29
    dear = said("affords", path, "--epsilon", 20, "--delta", 1e-4)
    assert "No query like it fits." in dear and "does not even fit on its own" in dear
    assert read("affords", path, "--epsilon", 20, "--delta", 1e-4)["budget"]["fits"] is False
    with pytest.raises(InvalidSetting, match="plan and epsilon"):
        invoke("ledger", "affords", path, "--plan", path, "--epsilon", 1)


@pytest.mark.slow
def test_plans_that_cannot_be_read_or_do_not_hold_are_refused(path, tmp_path):
    file = tmp_path / "plan.json"
    good = th.plan(epsilon=1, delta=1e-8).to_dict()
    for content in ("{", "[]", json.dumps({"plan": 3}), json.dumps({**good, "delta": 1e-30})):
        file.write_text(content)
        with pytest.raises(th.errors.ThresherError):
            invoke("ledger", "affords", path, "--plan", file)
    file.write_text(json.dumps({"plan": good}))  # as `thresher plan --json` prints it
    assert "28 more" in said("affords", path, "--plan", file)


@pytest.mark.slow
def test_a_budget_that_does_not_last_says_so(path):
    ledger = th.Ledger(path)
    ledger.reserve(ledger.plan(queries=1), "a histogram", unit="user", drawn=1)
    with pytest.raises(BudgetExceeded) as caught:
        ledger.reserve(th.plan(epsilon=3, delta=1e-8), "another", unit="user")
    assert "ledger.plan" in caught.value.hint


@pytest.mark.slow
def test_enlarging_needs_a_word_and_keeps_both_promises(path):
    th.Ledger(path).reserve(th.plan(epsilon=2, delta=1e-8), "a histogram", unit="user", drawn=1)
    with pytest.raises(InvalidSetting, match="yes is missing"):
        invoke("ledger", "enlarge", path, "--epsilon", 5)
    assert th.Ledger(path).epsilon == 3
    meaning = said("enlarge", path, "--epsilon", 5, "--yes")
    assert "promises epsilon 3 with delta 1e-06" in meaning and "would promise epsilon 5" in meaning
    assert "everybody who is in the data already" in meaning and "148 in place of 20.1" in meaning
    assert [promise.epsilon for promise in th.Ledger(path).promises] == [3, 5]
    shown = said("show", path)
    assert "It promised epsilon 3 from" in shown and "epsilon 5 from" in shown
    assert read("enlarge", path, "--epsilon", 6, "--yes")["before"] == 5
    assert "For what was drawn before" in said("enlarge", path, "--epsilon", 4, "--yes")
    with pytest.raises(InvalidSetting, match=r"0\.1 is spent already"):
        invoke("ledger", "enlarge", path, "--epsilon", 0.1, "--yes")
    with pytest.raises(InvalidSetting, match="epsilon must"):
        invoke("ledger", "enlarge", path, "--epsilon", -1, "--yes")


@pytest.mark.parametrize(("answer", "epsilon"), [("y\n", 5), ("n\n", 3)])
def test_enlarging_asks_a_person(path, monkeypatch, answer, epsilon):
    monkeypatch.setattr(ledger_changes, "is_terminal", lambda: True)
    result = invoke("ledger", "enlarge", path, "--epsilon", 5, input=answer)
    assert (result.exit_code == 0) == (epsilon == 5)
    assert th.Ledger(path).epsilon == epsilon


@pytest.mark.slow
def test_a_reservation_of_a_process_that_is_gone_is_given_back(path):
    ledger = th.Ledger(path)
    ledger.reserve(TRIE, "a trie", unit="user", reference="gone", drawn=1)
    shown = said("show", path)
    assert "gone has drawn 1 of 3 rounds and has not ended" in shown and "is reserved" in shown and "1 of 3" in shown
    assert read("show", path)["reserved"]["share"] > 0
    assert "2 rounds given back." in said("give-back", path, "gone")
    assert "had ended" in said("give-back", path, "gone")
    assert [entry.drawn for entry in ledger.history()] == [1]  # what was drawn stays
    after = read("show", path)
    assert after["reserved"]["share"] == pytest.approx(0, abs=1e-12)
    assert after["charges"][0]["given_back"] == 2 and after["charges"][0]["share"] == pytest.approx(
        after["spent"]["share"]
    )
    with pytest.raises(NotFound):
        invoke("ledger", "give-back", path, "unknown")


@pytest.mark.slow
def test_a_ledger_that_adds_up_is_shown_as_before_and_gives_nothing_back(tmp_path):
    path = tmp_path / "sum.db"
    ledger = th.Ledger(path, epsilon=3, delta=1e-6, composition="sum", unit="user")
    ledger.reserve(TRIE, "a trie", unit="user", reference="gone", drawn=1)
    assert "Nothing was given back: this ledger adds up" in said("give-back", path, "gone")
    shown = said("show", path)
    assert "Spent: epsilon 0.5, delta 1e-08. Left: epsilon 2.5" in shown and "add up" in shown and "share" not in shown
    assert read("show", path)["left"]["epsilon"] == 2.5


def test_a_budget_that_renews_says_what_all_periods_come_to(tmp_path):
    class Clock:
        time = 1e9

        def now(self):
            return self.time

        def sleep(self, seconds):
            raise AssertionError

    clock, path = Clock(), tmp_path / "renewing.db"
    ledger = th.Ledger(path, epsilon=3, delta=1e-6, unit="user", period="30d", clock=clock)
    for _ in range(2):
        ledger.reserve(th.plan(epsilon=1, delta=1e-8), "a histogram", unit="user", drawn=1)
        clock.time += 30 * 86_400
    shown = said("show", path)
    assert "renews every 30 days" in shown and "the promise is for each period by itself" in shown
    assert "2 periods, which together come to epsilon 6 and delta 2e-06" in shown
    assert read("show", path)["period"]["used"] == 2


def test_a_ledger_restored_beyond_its_budget_is_shown(tmp_path):
    path = tmp_path / "small.db"
    ledger = th.Ledger(path, epsilon=1, delta=1e-9, unit="user")
    for name in ("a", "b"):
        ledger.restore(th.plan(epsilon=1, delta=1e-6), "a histogram", "user", name)
    assert "More was drawn than any epsilon covers" in said("show", path)
    assert read("show", path)["spent"]["epsilon"] is None
