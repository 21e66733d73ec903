"""Verbs × options on tables: every option of every verb's command does what it says, in the command's own process."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import thresher as th
from thresher.cli.app import app
from thresher.errors import ThresherError
from thresher.verbs.asking import functions

pytestmark = pytest.mark.slow

TARGET = ("--epsilon", "1", "--delta", "1e-6")
NEEDED = {
    "histogram": (),
    "heavy_hitters": (),
    "quantiles": ("--lower", "0", "--upper", "100", "--quantile", "0.5", "--levels", "3"),
    "ranges": ("--lower", "0", "--upper", "100", "--levels", "3"),
    "mean": ("--lower", "0", "--upper", "100"),
}


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    path = tmp_path_factory.mktemp("people") / "people.csv"
    random = np.random.default_rng(5)
    lines = [f"{random.integers(0, 100)},{index // 2}" for index in range(6_000)]
    path.write_text("\n".join(["x,user", *lines]) + "\n")
    return path


def asked(verb, people, *options, code=0):
    arguments = [verb.replace("_", "-"), str(people), "--column", "x", *NEEDED[verb], *TARGET, *map(str, options)]
    result = CliRunner().invoke(app, arguments)
    if isinstance(result.exception, ThresherError):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.stdout


VERBS = pytest.mark.parametrize("verb", list(functions()))


def test_the_table_has_every_verb():
    assert set(NEEDED) == set(functions())


@VERBS
def test_unit_and_adjacency_are_in_the_promise(verb, people):
    plain = " ".join(asked(verb, people).split())
    assert "for one row" in plain and "Each row is a unit" in plain
    unit = " ".join(asked(verb, people, "--unit", "user", "--adjacency", "add-remove").split())
    assert "for one unit (user)" in unit and "add-remove" in unit


@VERBS
def test_types_and_time_zones_are_taken_or_named(verb, people):
    kind = "text" if verb == "heavy_hitters" else "whole numbers"
    assert json.loads(asked(verb, people, "--type", f"x={kind}", "--time-zone", "Europe/Paris", "--json"))
    with pytest.raises(th.errors.InvalidSetting, match="types"):
        asked(verb, people, "--type", "x=colours")
    with pytest.raises(th.errors.InvalidSetting, match="time_zone"):
        asked(verb, people, "--time-zone", "Mars/Olympus")


@VERBS
def test_a_ledger_is_charged_once_and_refuses_the_rest(verb, people, tmp_path):
    path = tmp_path / "privacy.db"
    ledger = th.Ledger(path, epsilon=1, delta=1e-5)  # one such query takes all of its plain part
    with pytest.raises(th.errors.InvalidSetting):
        asked(verb, people, "--ledger", path, "--type", "x=colours")
    assert ledger.history() == []
    asked(verb, people, "--ledger", path)
    (charge,) = ledger.history()
    assert charge.what.startswith(verb) and charge.epsilon == 1
    with pytest.raises(th.errors.BudgetExceeded):
        asked(verb, people, "--ledger", path)
    assert len(ledger.history()) == 1


@VERBS
def test_output_and_plot_are_written(verb, people, tmp_path):
    answer, picture = tmp_path / "answer.json", tmp_path / "picture.svg"
    shown = json.loads(asked(verb, people, "--output", answer, "--plot", picture, "--json"))
    kept = json.loads(answer.read_text())
    assert {name: kept[name] for name in shown} == shown
    assert th.load(answer).query.verb == verb.replace("-", "_")
    assert picture.read_text().startswith("<svg")
    assert shown["plan"]["epsilon"] == 1


@VERBS
def test_top_says_how_many_rows_are_shown(verb, people):
    assert "more rows" in asked(verb, people, "--top", "0")
    assert "more rows" not in asked(verb, people, "--top", "1000")


@pytest.mark.parametrize("ranges", [(), ("--range", "0:50", "--range", "50:100")])
def test_ranges_are_read_off_or_its_cells_are_shown(people, ranges):
    shown = json.loads(asked("ranges", people, *ranges, "--json"))
    assert len(shown["ranges"]) == len(ranges) // 2
    assert {"level", "least", "most"} < set(shown["rows"][0])
    assert ("fraction" in asked("ranges", people, *ranges)) == bool(ranges)


@pytest.mark.parametrize("by", [(), ("--by", "user", "--groups", "GROUPS")])
def test_ranges_are_shown_with_the_ends_that_were_used(people, tmp_path, by):
    groups = tmp_path / "groups"
    groups.write_text("1\n2\n", encoding="utf-8")
    asked_for = (*(each.replace("GROUPS", str(groups)) for each in by), "--whole", "yes", "--range", "9.5:49.5")
    shown = json.loads(asked("ranges", people, *asked_for, "--range=-inf:10", "--json"))
    assert {(row["from"], row["to"]) for row in shown["ranges"]} == {(10, 50), (0, 10)}


@pytest.mark.parametrize("verb", ["mean", "quantiles", "ranges"])
def test_verbs_with_bounds_say_that_values_outside_them_are_bias(verb, people):
    assert "Values outside 0 to 100 count as at the nearest bound: that is bias" in " ".join(
        asked(verb, people).split()
    )


@pytest.mark.parametrize("verb", [verb for verb in functions() if verb != "ranges"])
def test_options_of_another_verb_are_refused(verb, people):
    asked(verb, people, "--range", "0:50", code=2)
