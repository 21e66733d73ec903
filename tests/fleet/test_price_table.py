"""A policy's table: what a file may hold, how cells are found, and that computed and compiled tables are the same."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import thresher as th
from thresher.cli.app import app
from thresher.device.computed_prices import ComputedTable, compiled
from thresher.device.policy import DEFAULT_TABLE, Policy
from thresher.device.policy_file import changed_policy, policy_text, read_policy
from thresher.device.price_table import Row, StoredTable
from thresher.errors import InvalidFormat, InvalidSetting
from thresher.privacy.round_prices import ROUNDS, THRESHOLDS, Bounds
from thresher.privacy.whole_numbers import BEYOND, ONE, PERIOD

BOUNDS = (1.0, 1e-6, 5.0, 1e-5)
SMALL = StoredTable(
    (4.0, 1e-5, 20.0, 1e-4),
    (1, 3, 10),
    (Row(5, (100, 50, 20), (10, 100), (7, 2_000)), Row(20, (400, 300, 200), (50, 400), (3, 500_000_000))),
)


def test_cells_are_found_by_rounding():
    assert [SMALL.limit(times, 5) for times in (1, 2, 3, 4, 10, 11)] == [100, 50, 50, 20, 20, 0]
    assert [SMALL.limit(1, threshold) for threshold in (4, 5, 19, 20, 10**6)] == [0, 100, 100, 400, 400]
    assert [SMALL.cost(1, 19, rate) for rate in (1, 10, 11, 100, 101)] == [7, 7, 2_000, 2_000, BEYOND]
    assert [SMALL.cost(times, 20, 400) for times in (1, 2, 3, 1_000)] == [500_000_000, PERIOD, BEYOND, BEYOND]
    assert SMALL.cost(1, 4, 1) == BEYOND
    assert SMALL.knows(1, 4)


def test_a_table_is_read_back():
    assert StoredTable.from_dict(json.loads(json.dumps(SMALL.to_dict()))) == SMALL


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("rounds",), [1, 1, 10]),
        (("rounds",), [0, 3, 10]),
        (("rounds",), [1, 3]),
        (("rounds",), []),
        (("rounds",), "123"),
        (("bounds",), [4.0, 1e-5, 20.0]),
        (("bounds",), None),
        (("rows",), []),
        (("rows", 0, "threshold"), 20),
        (("rows", 0, "threshold"), "5"),
        (("rows", 0, "threshold"), True),
        (("rows", 0, "limits"), [100, 50]),
        (("rows", 0, "limits"), [100, 50, -1]),
        (("rows", 0, "limits"), [ONE, 50, 20]),
        (("rows", 0, "limits"), [100.5, 50, 20]),
        (("rows", 0, "rates"), [100, 10]),
        (("rows", 0, "rates"), [0, 10]),
        (("rows", 0, "rates"), [10]),
        (("rows", 0, "costs"), [2_000, 7]),
        (("rows", 0, "costs"), [0, 7]),
        (("rows", 0, "costs"), [7, BEYOND + 1]),
        (("rows", 0, "more"), 1),
        (("more",), 1),
    ],
)
def test_what_does_not_hold_together_is_no_table(where, value):
    content = copy.deepcopy(SMALL.to_dict())
    *path, last = where
    inner = content
    for step in path:
        inner = inner[step]
    inner[last] = value
    with pytest.raises(InvalidFormat):
        StoredTable.from_dict(content)


@pytest.mark.parametrize("content", [None, [], {}, {"rounds": [1], "rows": [1]}, "table"])
def test_what_is_no_table_at_all(content):
    with pytest.raises(InvalidFormat):
        StoredTable.from_dict(content)


@pytest.mark.slow
def test_a_compiled_table_is_the_computed_one():
    whole = compiled(Bounds(*BOUNDS), least=13, rounds=(1, 3), thresholds=(5, 12, 16, 20))
    assert whole.rounds == (1, 3)
    assert [row.threshold for row in whole.rows] == [12, 16, 20]  # 13 is read as 12
    again = compiled(Bounds(*BOUNDS), least=13, rounds=(3, 1), thresholds=(20, 16, 12, 5), workers=2)
    assert again == whole
    lazy = ComputedTable(Bounds(*BOUNDS))
    assert lazy.bounds == whole.bounds == BOUNDS
    for times in (1, 3):
        for threshold in (12, 16, 20):
            assert not lazy.knows(times, threshold) or times == 3
            assert lazy.limit(times, threshold) == whole.limit(times, threshold) > 0
            for rate in (1, 1 << 24, 1 << 28, 1 << 30, ONE):
                assert lazy.cost(times, threshold, rate) == whole.cost(times, threshold, rate)
            assert lazy.knows(times, threshold)
    assert lazy.limit(1, 0) == lazy.limit(1_001, 12) == 0
    assert lazy.cost(1, 0, 1) == BEYOND


def test_a_table_needs_whole_numbers_in_range():
    for settings in ({"rounds": (0, 1)}, {"rounds": (1_001,)}, {"rounds": ()}, {"thresholds": (100_001,)}):
        with pytest.raises(InvalidSetting) as caught:
            compiled(Bounds(*BOUNDS), **settings)
        assert caught.value.setting in settings


# The table that is at hand


@pytest.mark.slow
def test_the_default_table_is_what_compiling_the_default_policy_gives():
    """All rounds of two rows, computed anew. A machine may round the last bit of a limit in another way."""
    stored = StoredTable.from_dict(json.loads(DEFAULT_TABLE.read_bytes())["table"])
    assert set(stored.rounds) < set(ROUNDS)
    assert {row.threshold for row in stored.rows} < set(THRESHOLDS)
    assert (stored.rounds[0], stored.rounds[-1], stored.rows[0].threshold) == (1, 1_000, Policy().min_threshold)
    fresh = compiled(Bounds(*Policy().bounds), least=5, rounds=(1, 3, 10, 100), thresholds=(5, 15, 64))
    for row in fresh.rows:
        [kept] = [each for each in stored.rows if each.threshold == row.threshold]
        assert kept.limits[0] == pytest.approx(row.limits[0], abs=2)
        assert [kept.limits[stored.rounds.index(each)] for each in fresh.rounds] == pytest.approx(row.limits, rel=1e-8)
        assert kept.rates[:-1] == row.rates[:-1]
        assert kept.costs == row.costs


def test_the_default_policy_computes_nothing(monkeypatch):
    monkeypatch.setattr(ComputedTable, "__init__", None)
    for policy in (Policy(), Policy(min_threshold=20, attributes=frozenset({"a"}), period_days=7)):
        assert isinstance(policy.prices, StoredTable)
    assert read_policy(DEFAULT_TABLE) == Policy()
    assert read_policy(DEFAULT_TABLE).prices == Policy().prices


def test_smaller_thresholds_than_the_default_table_has_are_computed():
    assert isinstance(Policy(min_threshold=4).prices, ComputedTable)
    assert isinstance(Policy(max_epsilon=3.9).prices, ComputedTable)
    assert Policy(max_epsilon=3.9).prices is Policy(max_epsilon=3.9, min_threshold=9).prices


def test_without_numerics_another_policy_needs_a_table(monkeypatch):
    monkeypatch.setattr("thresher.device.policy._has_numerics", lambda: False)
    assert Policy().prices.limit(1, 20) > 0
    with pytest.raises(InvalidSetting, match="no table"):
        Policy(max_epsilon=2)
    table = StoredTable((2.0, *SMALL.bounds[1:]), SMALL.rounds, SMALL.rows)
    assert Policy(max_epsilon=2, table=table).prices is table


# Files


def test_a_policy_in_a_file_with_its_table(tmp_path):
    path = tmp_path / "policy.json"
    stated = Policy(attributes=frozenset({"b", "a"}), filters=frozenset(), pinned_key=bytes(range(32)), table=SMALL)
    path.write_text(policy_text(stated, SMALL))
    read = Policy.from_file(path)
    assert read == stated
    assert read.prices == SMALL
    assert json.loads(path.read_text())["attributes"] == ["a", "b"]


def test_a_table_of_other_bounds_is_refused(tmp_path):
    path = tmp_path / "policy.json"
    content = json.loads(policy_text(Policy(), SMALL))
    path.write_text(json.dumps({**content, "max_epsilon": 3.0}))
    with pytest.raises(InvalidSetting, match="computed for another") as caught:
        read_policy(path)
    assert "compile" in caught.value.hint
    path.write_text(json.dumps({**content, "table": {**content["table"], "rows": []}}))
    with pytest.raises(InvalidSetting, match="does not hold together"):
        read_policy(path)
    path.write_text(json.dumps({**content, "version": 2}))
    with pytest.raises(InvalidSetting, match="version"):
        read_policy(path)


def test_settings_that_do_not_touch_the_table_keep_it():
    stated = Policy(table=SMALL)
    assert changed_policy(stated, {"min_threshold": 20}).prices is SMALL
    assert isinstance(changed_policy(stated, {"max_epsilon": 2.0}).prices, ComputedTable)


@given(st.integers(1, 1_000), st.integers(1, 2_000), st.integers(1, ONE))
def test_costs_grow_and_limits_fall_with_rounds(times, threshold, rate):
    table = Policy().prices
    cost = table.cost(times, threshold, rate)
    assert 1 <= cost <= BEYOND
    assert cost <= table.cost(times + 1, threshold, rate)
    assert cost <= table.cost(times, threshold, min(2 * rate, ONE))
    assert table.limit(times, threshold) <= table.limit(times, threshold + 1)
    assert table.limit(times, threshold) >= table.limit(times + 1, threshold)


@pytest.mark.slow
def test_the_command_compiles_and_shows(tmp_path):
    settings, output = tmp_path / "settings.json", tmp_path / "policy.json"
    settings.write_text('{"max_epsilon": 2, "min_threshold": 20, "attributes": ["country"]}')
    run = CliRunner()
    made = run.invoke(
        app, ["policy", "compile", str(settings), "--output", str(output), "--rounds=1,3", "--thresholds=20,32"]
    )
    assert made.exit_code == 0, made.output
    policy = th.Policy.from_file(output)
    assert policy == Policy(max_epsilon=2, min_threshold=20, attributes=frozenset({"country"}))
    assert isinstance(policy.prices, StoredTable)
    shown = json.loads(run.invoke(app, ["policy", "show", str(output), "--json"]).output)
    assert {each["refused"] for each in shown["queries"]} == {None, "limit"}  # ten rounds are none of the table's
    assert min(each["threshold"] for each in shown["queries"]) == 20
    assert "740" in run.invoke(app, ["policy", "show"]).output
    settings.write_text('{"max_epsilon": 1e-6, "max_delta": 1e-300, "period_epsilon": 1e-5, "period_delta": 1e-299}')
    cells = ["--rounds=1,3", "--thresholds=20,32"]
    for arguments, said in (([], "answer nothing"), (["--json"], '"refuses_everything": true')):
        made = run.invoke(app, ["policy", "compile", str(settings), "--output", str(output), *cells, *arguments])
        assert said in made.output
    settings.write_text('{"min_threshold": 100001}')  # more than any round has
    assert (
        "answer nothing"
        in run.invoke(
            app, ["policy", "compile", str(settings), "--output", str(output), "--rounds=1", "--thresholds=32"]
        ).output
    )
    shown = json.loads(run.invoke(app, ["policy", "show", str(settings), "--json"]).output)
    assert {each["refused"] for each in shown["queries"]} == {"threshold"}
    for wrong in (["--rounds=a"], ["--rounds=0"], []):
        arguments = ["policy", "compile", str(settings), *(["--output", str(output)] if wrong else []), *wrong]
        assert isinstance(run.invoke(app, arguments).exception, InvalidSetting)
