"""Verbs × doors: the same settings make the same query in Python, on the command line, on the form and on the wire."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
from dataclasses import replace
from typing import Any

import pytest
from typer.testing import CliRunner

import thresher as th
from thresher.cli import fleet as fleet_commands
from thresher.cli import fleet_options
from thresher.cli.app import app
from thresher.console import ask_form
from thresher.console.python_line import python_line
from thresher.errors import InvalidSetting
from thresher.protocol.analyst_messages import QueryRequest, RoundSettings
from thresher.questions import Among, Between, Bins, Dates, Joint, Values, Where
from thresher.roles.coordinator.admission import admit
from thresher.verbs import (
    HeavyHittersQuery,
    HistogramQuery,
    MeanQuery,
    QuantilesQuery,
    QueryTaker,
    RangesQuery,
    query_from_dict,
)
from thresher.verbs.asking import function_of, functions
from thresher.verbs.settings import settings_of

TARGET = {"epsilon": 1.0, "delta": 1e-6}
ONE, TWO, FOUR = (th.plan(**TARGET, rounds=rounds) for rounds in (1, 2, 4))
BOUNDS = {"lower": 0.0, "upper": 100.0}

# verb, settings, and the query that they make
RIGHT = [
    ("histogram", {"column": "word"}, HistogramQuery(Values("word"), ONE)),
    ("histogram", {"column": ["word", "os"]}, HistogramQuery(Values(("word", "os")), ONE)),
    ("histogram", {"column": "word", "domain": ["a", "b"]}, HistogramQuery(Values("word"), ONE, ("a", "b"))),
    ("histogram", {"column": "x", "bins": 4, **BOUNDS}, HistogramQuery(Bins("x", (0, 25, 50, 75, 100)), ONE)),
    ("histogram", {"column": "x", "bins": [0, 18, 65]}, HistogramQuery(Bins("x", (0, 18, 65)), ONE)),
    ("histogram", {"column": "day", "dates": "month"}, HistogramQuery(Dates("day", "month"), ONE)),
    ("heavy_hitters", {"column": "word"}, HeavyHittersQuery("word", ONE)),
    (
        "heavy_hitters",
        {"column": "word", "method": "trie", "levels": 4, "step": 2},
        HeavyHittersQuery("word", FOUR, "trie", 2),
    ),
    (
        "quantiles",
        {"column": "x", "probabilities": [0.5, 0.9], **BOUNDS, "method": "search", "steps": 1},
        QuantilesQuery("x", (0.5, 0.9), TWO, **BOUNDS, method="search"),
    ),
    (
        "quantiles",
        {"column": "x", "probabilities": [0.5], **BOUNDS, "method": "hierarchy", "levels": 2, "branching": 3},
        QuantilesQuery("x", (0.5,), TWO, **BOUNDS, method="hierarchy", branching=3),
    ),
    (
        "quantiles",
        {"column": "x", "probabilities": [0.5], **BOUNDS, "method": "hierarchy", "levels": 2, "by": "os"},
        QuantilesQuery("x", (0.5,), TWO, **BOUNDS, method="hierarchy", by=("os",)),
    ),
    (
        "ranges",
        {"column": "x", **BOUNDS, "levels": 2, "branching": 5},
        RangesQuery("x", TWO, **BOUNDS, branching=5),
    ),
    (
        "histogram",
        {"column": "word", "where": ["country = fr", 'version in 1.2, "1,3"', "age >= 18", "age < 65"]},
        HistogramQuery(
            Values("word"),
            ONE,
            where=Where((Among("country", ("fr",)), Among("version", ("1.2", "1,3")), Between("age", 18, 65))),
        ),
    ),
    (
        "quantiles",
        {
            "column": "x",
            "probabilities": [0.5],
            **BOUNDS,
            "method": "hierarchy",
            "levels": 2,
            "branching": 3,
            "where": ["joined from 2024-01-01 below 2024-02-01"],
        },
        QuantilesQuery(
            "x",
            (0.5,),
            TWO,
            **BOUNDS,
            method="hierarchy",
            branching=3,
            where=Where((Between("joined", dt.date(2024, 1, 1), dt.date(2024, 2, 1)),)),
        ),
    ),
    (
        "ranges",
        {"column": "x", **BOUNDS, "levels": 2, "by": ["os", "word"]},
        RangesQuery("x", TWO, **BOUNDS, by=("os", "word")),
    ),
    (
        "ranges",
        {"column": "x", **BOUNDS, "levels": 2, "by": "os", "groups": ["linux", "mac"]},
        RangesQuery("x", TWO, **BOUNDS, by=("os",), groups=("linux", "mac")),
    ),
    ("mean", {"column": "x", **BOUNDS}, MeanQuery("x", ONE, (0.0, 25.0, 50.0, 75.0, 100.0))),
    (
        "mean",
        {"column": "x", **BOUNDS, "points": 3, "by": "os"},
        MeanQuery("x", ONE, (0.0, 50.0, 100.0), by=("os",)),
    ),
    ("mean", {"column": "x", **BOUNDS, "points": 3}, MeanQuery("x", ONE, (0.0, 50.0, 100.0))),
    ("mean", {"column": "x", **BOUNDS, "points": [10.0, 30.0]}, MeanQuery("x", ONE, (0.0, 10.0, 30.0, 100.0))),
]

# verb, settings, and the one that is wrong
WRONG = [
    ("histogram", {"column": "x", "bins": 0, **BOUNDS}, "bins"),
    ("histogram", {"column": "x", "bins": 4, "lower": 9.0, "upper": 1.0}, "lower"),
    ("histogram", {"column": "day", "dates": "year"}, "dates"),
    ("heavy_hitters", {"column": "word", "method": "guess"}, "method"),
    ("heavy_hitters", {"column": "word", "method": "trie", "levels": 0}, "levels"),
    ("heavy_hitters", {"column": "word", "method": "trie", "step": 0}, "step"),
    ("quantiles", {"column": "x", "probabilities": [1.5], **BOUNDS}, "probabilities"),
    ("quantiles", {"column": "x", "probabilities": [0.5], "lower": 5.0, "upper": 5.0}, "lower"),
    ("ranges", {"column": "x", **BOUNDS, "branching": 1}, "branching"),
    ("ranges", {"column": "x", **BOUNDS, "levels": 0}, "levels"),
    ("ranges", {"column": "x", **BOUNDS, "where": ["age > 18"]}, "where"),
    ("heavy_hitters", {"column": "word", "where": ["a = 1", "a = 2"]}, "where"),
    ("ranges", {"column": "x", **BOUNDS, "by": ["x"]}, "by"),
    ("ranges", {"column": "x", **BOUNDS, "groups": ["linux"]}, "groups"),
    ("mean", {"column": "x", **BOUNDS, "points": 1}, "points"),
    ("mean", {"column": "x", **BOUNDS, "points": [30.0, 10.0]}, "points"),
    ("mean", {"column": "x", **BOUNDS, "points": [10.0, 130.0]}, "points"),
    ("mean", {"column": "x", "lower": 5.0, "upper": 5.0}, "lower"),
]


class Taker(QueryTaker):
    """Stands for a fleet: keeps the query it is given, and previews nothing."""

    def __init__(self, *given: Any, **named: Any) -> None:
        self.query: Any = None

    def submit(self, query, *, wait=True, progress=None, **named):
        self.query = query

    def plan(self, query):
        self.query = query
        raise _Seen

    def with_rounds(self, **settings):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


class _Seen(Exception):
    """The query has reached the fleet."""


def in_python(verb, settings, tmp_path):
    taker = Taker()
    function_of(verb)(taker, **settings, **TARGET)
    return taker.query


def again_in_python(verb, settings, tmp_path):
    """What the "same again" line of the query asks."""
    line = python_line(in_python(verb, settings, tmp_path), "http://server")
    taker = Taker()
    names = type("th", (), {"Fleet": lambda *given, **named: taker, "plan": th.plan, **functions()})
    eval(line, {"th": names, "token": "a"})
    return taker.query


def on_a_command_line(verb, settings, tmp_path):
    arguments = ["query", verb.replace("_", "-"), "--server", "http://server"]
    for name, value in {**settings, **TARGET}.items():
        described = settings_of(function_of(verb)).get(name)
        if name == "column":
            arguments += [value] if isinstance(value, str) else value
        elif name in ("domain", "groups"):
            (tmp_path / f"{name}.txt").write_text("\n".join(value))
            arguments += [f"--{name}", str(tmp_path / f"{name}.txt")]
        elif name in ("bins", "points"):
            arguments += [f"--{name}", ",".join(map(str, value)) if isinstance(value, list) else str(value)]
        else:
            option = f"--{((described and described.option) or name).replace('_', '-')}"
            for each in value if isinstance(value, list) else [value]:
                arguments += [option, str(each)]
    taker = Taker()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fleet_options, "connected", lambda *given: taker)
        result = CliRunner().invoke(fleet_commands.app, arguments)
    if isinstance(result.exception, InvalidSetting):
        raise result.exception
    assert isinstance(result.exception, _Seen), (result.output, result.exception)
    return taker.query


def on_the_form(verb, settings, tmp_path):
    fields = {"verb": verb, "attribute": settings["column"], **{name: str(each) for name, each in TARGET.items()}}
    if isinstance(fields["attribute"], list):
        fields["attribute"] = ", ".join(fields["attribute"])
    described = settings_of(function_of(verb))
    for name, value in settings.items():
        if name == "column":
            continue
        if described[name].group:
            fields[f"{verb}_group"] = described[name].group
        parts = "\n" if name in ("domain", "groups", "where") else ", "
        fields[f"{verb}_{name}"] = parts.join(map(str, value)) if isinstance(value, list) else str(value)
    return query_from_dict(ask_form.to_request(ask_form.filled(fields)).query)


def on_the_wire(verb, settings, tmp_path):
    return query_from_dict(json.loads(json.dumps(in_python(verb, settings, tmp_path).to_dict())))


DOORS = [in_python, again_in_python, on_a_command_line, on_the_form, on_the_wire]


def test_the_table_has_every_verb():
    assert {verb for verb, *_ in RIGHT} == {verb for verb, *_ in WRONG} == set(functions())


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
@pytest.mark.parametrize(("verb", "settings", "query"), RIGHT, ids=lambda part: str(part)[:30])
def test_every_door_makes_the_same_query(door, verb, settings, query, tmp_path):
    if door is on_the_form and getattr(query, "whole", False) is None:
        query = replace(query, whole=False)  # a form has no third choice, and in a fleet it means the same
    assert door(verb, settings, tmp_path) == query


@pytest.mark.slow
@pytest.mark.parametrize("door", [in_python, on_a_command_line, on_the_form], ids=lambda door: door.__name__)
@pytest.mark.parametrize(("verb", "settings", "wrong"), WRONG, ids=lambda part: str(part)[:30])
def test_every_door_names_the_wrong_setting(door, verb, settings, wrong, tmp_path):
    with pytest.raises(InvalidSetting) as raised:
        door(verb, settings, tmp_path)
    assert raised.value.setting == wrong


UNUSED = [
    ("heavy_hitters", {"column": "word", "step": 3}, "step"),
    ("heavy_hitters", {"column": "word", "levels": 3}, "levels"),
    ("quantiles", {"column": "x", "probabilities": [0.5], **BOUNDS, "method": "search", "branching": 3}, "branching"),
    ("quantiles", {"column": "x", "probabilities": [0.5], **BOUNDS, "steps": 3}, "steps"),
    ("histogram", {"column": "x", "bins": [0.0, 10.0], "upper": 50.0}, "upper"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("verb", "settings", "unused"), UNUSED, ids=str)
def test_a_setting_that_would_do_nothing_is_refused_but_a_form_leaves_it_out(verb, settings, unused, tmp_path):
    for door in (in_python, on_a_command_line):
        with pytest.raises(InvalidSetting) as raised:
            door(verb, settings, tmp_path)
        assert raised.value.setting == unused
    left = {name: value for name, value in settings.items() if name != unused}
    assert on_the_form(verb, settings, tmp_path) == on_the_form(verb, left, tmp_path)


@pytest.mark.parametrize(
    "query",
    [
        HeavyHittersQuery("word", ONE, "one-shot", 3),
        QuantilesQuery("x", (0.5,), TWO, **BOUNDS, method="search", branching=3),
    ],
    ids=str,
)
def test_a_server_takes_no_new_query_with_a_setting_that_would_do_nothing(query):
    assert query_from_dict(query.to_dict()) == query  # as stored ones may have them
    with pytest.raises(InvalidSetting, match=r"needs .*method="):
        admit(QueryRequest(name="a", query=query.to_dict(), settings=RoundSettings()))
    before = replace(query, branching=4) if isinstance(query, QuantilesQuery) else replace(query, step=1)
    assert admit(QueryRequest(name="a", query=before.to_dict(), settings=RoundSettings())).query.verb == query.verb


@pytest.mark.slow
@pytest.mark.parametrize("verb", list(functions()))
def test_every_verb_answers_on_a_table_from_the_command_line(verb, tmp_path):
    file = tmp_path / "people.csv"
    file.write_text("x\n" + "\n".join(str(index % 10) for index in range(3_000)))
    required = [each for each in settings_of(function_of(verb)).values() if each.required]
    settings = {each.name: {"column": "x", "probabilities": [0.5], **BOUNDS}[each.name] for each in required}
    arguments = [verb.replace("_", "-"), str(file), "--json"]
    for name, value in {**settings, **TARGET}.items():
        described = settings_of(function_of(verb)).get(name)
        option = f"--{((described and described.option) or name).replace('_', '-')}"
        for each in value if isinstance(value, list) else [value]:
            arguments += [option, str(each)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["plan"]["epsilon"] == 1.0


def test_an_unknown_verb_is_refused_at_every_door(tmp_path):
    with pytest.raises(InvalidSetting, match="verb"):
        function_of("count")
    with pytest.raises(InvalidSetting, match="verb"):
        ask_form.to_query(ask_form.filled({"verb": "count", "attribute": "word"}))
    with pytest.raises(Exception, match="not a query"):
        query_from_dict({"verb": "count"})
    assert CliRunner().invoke(app, ["count", "x.csv"]).exit_code == 2
    assert CliRunner().invoke(fleet_commands.app, ["query", "count", "word"]).exit_code == 2
    with contextlib.suppress(AttributeError):
        pytest.fail(f"th.count is {th.count}")


def test_several_columns_with_bins_and_dates():
    taker = Taker()
    th.histogram(taker, ["a", "b", "c"], bins={"a": [0, 1]}, dates={"c": "day"}, **TARGET)
    parts = (Bins("a", (0.0, 1.0)), Values("b"), Dates("c", "day"))
    assert taker.query == HistogramQuery(Joint(parts), ONE)
    line = python_line(taker.query, "http://server")
    again = Taker()
    eval(line, {"th": type("th", (), {"Fleet": lambda *a, **b: again, **functions()}), "token": "a"})
    assert again.query == taker.query
