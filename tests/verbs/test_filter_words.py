"""A filtered answer says that it is filtered, wherever it is shown or kept."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import thresher as th
from thresher.cli.app import app
from thresher.errors import InvalidSetting
from thresher.verbs.answer import _digest

WORDS = "only where carrier = UA"
PLAN = th.plan(1, 1e-6, rounds=2)
ONE = th.plan(1, 1e-6)
FRAME = pa.table({"carrier": ["UA"] * 3_000 + ["B6"] * 3_000, "delay": [1, 2, 3, 4, 5, 6] * 1_000})
BOUNDS = {"lower": 0, "upper": 8}
ASKED: dict[str, tuple[Any, dict[str, Any]]] = {
    "histogram": (th.histogram, {"plan": ONE}),
    "heavy_hitters": (th.heavy_hitters, {"plan": ONE}),
    "mean": (th.mean, {"plan": ONE, **BOUNDS}),
    "quantiles": (th.quantiles, {"probabilities": 0.5, "plan": PLAN, **BOUNDS}),
    "ranges": (th.ranges, {"plan": PLAN, **BOUNDS}),
    "ranges by group": (th.ranges, {"plan": PLAN, "by": "carrier", **BOUNDS}),
}


def asked(name: str, **more: Any) -> Any:
    verb, settings = ASKED[name]
    return verb(FRAME, "delay", **settings, **more)


@pytest.mark.slow
@pytest.mark.parametrize("name", ASKED)
def test_a_filtered_answer_says_so(name: str) -> None:
    answer, whole = asked(name, where={"carrier": "UA"}), asked(name)
    assert answer.asked_of == WORDS
    assert whole.asked_of is None
    for shown in (repr, str, lambda each: json.dumps(each.plot().to_dict())):
        assert WORDS in shown(answer)
        assert "only where" not in shown(whole)
    if hasattr(answer, "_repr_html_"):
        assert WORDS in answer._repr_html_()
    assert json.loads(answer.to_json())["where"] == ["carrier = UA"]
    assert json.loads(whole.to_json())["where"] == []


COMMANDS: dict[str, tuple[str, ...]] = {
    "histogram": (),
    "mean": ("--lower", "0", "--upper", "8"),
    "quantiles": ("--quantile", ".5", "--lower", "0", "--upper", "8", "--levels", "2"),
    "ranges": ("--lower", "0", "--upper", "8", "--levels", "2", "--range", "0:4"),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verb", "by"), [(verb, by) for verb in COMMANDS for by in (False, True) if verb != "histogram" or not by]
)
def test_what_a_command_writes_is_read_back_with_its_filter(verb: str, by: bool, tmp_path: Any) -> None:
    data, kept = tmp_path / "flights.csv", tmp_path / "kept.json"
    rows = zip(FRAME["carrier"].to_pylist(), FRAME["delay"].to_pylist(), strict=True)
    data.write_text("\n".join(["carrier,delay", *(f"{carrier},{delay}" for carrier, delay in rows)]) + "\n")
    arguments = [verb, str(data), "--column", "delay", *COMMANDS[verb], "--where", "carrier = UA", "--epsilon", "1"]
    arguments += ["--delta", "1e-6", "--output", str(kept), *(["--by", "carrier"] if by else [])]
    in_words = CliRunner().invoke(app, arguments)
    assert "Only where carrier = UA" in in_words.stdout
    loaded = th.load(kept)
    assert isinstance(loaded, th.verbs.Answer)
    assert loaded.asked_of == WORDS
    assert loaded.query.verb == verb
    assert loaded.grouped == by
    in_json = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert in_json["where"] == ["carrier = UA"]
    assert set(in_json) <= set(json.loads(kept.read_text()))
    content = json.loads(kept.read_text())
    kept.write_text(json.dumps(content | {"where": ["carrier = B6"]}))
    with pytest.raises(th.ThresherError):
        th.load(kept)


@pytest.mark.slow
def test_a_group_of_very_many_digits_is_sorted() -> None:
    groups = ["1" * 5_000, "2" * 5_000, "7", "07", "10", "a9", "a10"]
    frame = pa.table({"group": groups * 1_000, "delay": [1] * 7_000})
    found = th.mean(frame, "delay", by="group", **BOUNDS, plan=ONE)
    assert found.groups == ("07", "7", "10", "1" * 5_000, "2" * 5_000, "a9", "a10")


@pytest.mark.slow
def test_ranges_of_missing_groups_are_shown(tmp_path: Any) -> None:
    data, groups = tmp_path / "flights.csv", tmp_path / "groups.txt"
    data.write_text("carrier,delay\n" + "UA,3\n" * 3_000)
    groups.write_text("UA\nZZ\n")
    arguments = ["ranges", str(data), "--column", "delay", *COMMANDS["ranges"], "--by", "carrier", "--json"]
    arguments += ["--groups", str(groups), "--epsilon", "1", "--delta", "1e-6"]
    rows = json.loads(CliRunner().invoke(app, arguments).stdout)["ranges"]
    assert [(row["carrier"], row["status"], row["estimate"] is None) for row in rows] == [
        ("UA", "released", False),
        ("ZZ", "below threshold", True),
    ]
    arguments[arguments.index("0:4")] = "0:inf"
    rows = json.loads(CliRunner().invoke(app, arguments).stdout)["ranges"]
    assert [row["to"] for row in rows] == [8, 8]  # the bound, which everything beyond it counts as


@pytest.mark.parametrize(
    ("settings", "setting", "words"),
    [
        ({"by": "carier"}, "by", "'carier' is not in the data"),
        ({"where": {"carier": "UA"}}, "where", "'carier' is not in the data"),
        ({"by": "carrier", "where": {"carier": "UA"}}, "where", "'carier' is not in the data"),
        ({"upper": 1e300}, "upper", "must be from -1e"),
        ({"lower": -1e300}, "lower", "must be from -1e"),
    ],
)
def test_a_message_names_the_setting_that_is_wrong(settings: dict[str, Any], setting: str, words: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        th.mean(FRAME, "delay", **{**BOUNDS, **settings}, plan=ONE)
    assert refused.value.setting == setting
    assert words in refused.value.message


def test_contributions_without_units_are_named_plainly() -> None:
    with pytest.raises(InvalidSetting, match="contributions is 5, and each row is a unit here"):
        th.histogram(FRAME, "carrier", epsilon=1, delta=1e-6, contributions=5)


@pytest.mark.filterwarnings("error")
def test_the_widest_bounds_have_errors() -> None:
    found = th.mean(pa.table({"x": [1e140, -1e140] * 3_000}), "x", lower=-1e140, upper=1e140, plan=ONE)
    assert 0 < found.error.sampling < 1e140
    assert 0 < found.error.bound < 1e140


@pytest.mark.slow
@pytest.mark.parametrize("name", ["histogram", "quantiles"])
def test_an_answer_that_an_earlier_version_saved_is_read(name: str, tmp_path: Any) -> None:
    """It wrote whole numbers beyond 2^53 as such, where a string of digits is written now."""
    kept = tmp_path / "kept.json"
    asked(name, where={"delay": (-(2**53) - 1, 100)}).save(kept)
    text = kept.read_text()
    content = json.loads(text.replace('"-9007199254740993"', "-9007199254740993"))
    assert content != json.loads(text)
    del content["digest"]
    content["digest"] = _digest(content)
    kept.write_text(json.dumps(content))
    loaded = th.load(kept)
    assert loaded.asked_of == asked(name, where={"delay": (-(2**53) - 1, 100)}).asked_of
