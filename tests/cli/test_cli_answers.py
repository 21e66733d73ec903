"""What the command shows of an answer: tables of 80 columns for people, one shape of JSON for machines."""

import json

import pyarrow as pa
import pytest

import thresher as th
from thresher.cli.answer_delivery import deliver
from thresher.cli.output import console, range_rows
from thresher.cli.verb_commands import show_answer

LONG = "a rather long name of a place, which goes on and on and on until nothing of it can fit into one line"
ROWS = 6_000
DATA = pa.table(
    {
        "place": [(LONG, "fr", "de")[number % 3] for number in range(ROWS)],
        "os": [("linux", "mac")[number // 3 % 2] for number in range(ROWS)],
        "ms": [number * 7 % 60_000 for number in range(ROWS)],
    }
)
BOUNDS = {"lower": 0, "upper": 60_000}
CASES = {
    "histogram": lambda **more: th.histogram(DATA, "place", **more),
    "histogram of two columns": lambda **more: th.histogram(DATA, ["place", "os"], **more),
    "histogram with a domain": lambda **more: th.histogram(DATA, "place", domain=["fr", "it"], **more),
    "heavy hitters": lambda **more: th.heavy_hitters(DATA, "place", **more),
    "quantiles": lambda **more: th.quantiles(DATA, "ms", [0.5, 0.99], levels=2, **BOUNDS, **more),
    "quantiles by two": lambda **more: th.quantiles(DATA, "ms", 0.5, levels=2, by=["place", "os"], **BOUNDS, **more),
    "ranges": lambda **more: th.ranges(DATA, "ms", levels=2, **BOUNDS, **more),
    "ranges by two": lambda **more: th.ranges(DATA, "ms", levels=2, by=["place", "os"], **BOUNDS, **more),
    "mean": lambda **more: th.mean(DATA, "ms", **BOUNDS, **more),
    "mean by a list": lambda **more: th.mean(DATA, "ms", by="place", groups=["fr", "it"], **BOUNDS, **more),
}
HEADINGS = {
    "histogram": "place count estimate 95 % interval",
    "histogram of two columns": "place os count estimate 95 % interval",
    "histogram with a domain": "place count estimate 95 % interval",
    "heavy hitters": "item count estimate 95 % interval complete",
    "quantiles": "probability value 95 % interval rank error at most",
    "quantiles by two": "place os probability value 95 % interval rank error at most",
    "ranges": "level cell count estimate 95 % interval",
    "ranges by two": "place os level cell count estimate 95 % interval",
    "mean": "statistic value 95 % interval",
    "mean by a list": "place statistic value 95 % interval status",
}
KEYS = [
    *("verb", "columns", "by", "settings", "where", "unit", "counting", "private", "promise", "guarantee", "plan"),
    *("rounds_asked", "confidence", "rows", "other", "more"),
]
ONE, TWO = (th.plan(1, 1e-6, rounds=rounds) for rounds in (1, 2))


@pytest.fixture(scope="module")
def answers():
    levels = ("quantiles", "ranges")
    return {name: ask(plan=TWO if name.startswith(levels) else ONE) for name, ask in CASES.items()}


def shown(answer, width: int, ranges=()) -> list[str]:
    before = console._width  # None where it is that of the terminal
    try:
        console.width = width
        with console.capture() as caught:
            show_answer(answer, range_rows(answer, ranges) if ranges else [], 50, lambda: None)
    finally:
        console._width = before
    return caught.get().splitlines()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("width", [80, 120])
def test_a_table_fits_with_all_its_columns_side_by_side(answers, name, width):
    lines = shown(answers[name], width)
    assert max(map(len, lines)) <= width
    said = " ".join(lines[0].split())
    assert said == HEADINGS[name] or said + " " + lines[1].strip() == HEADINGS[name]  # the last heading may go on below
    assert len(lines) > 2


@pytest.mark.parametrize("name", ["histogram", "quantiles by two"])
def test_a_long_name_goes_on_below_and_is_whole(answers, name):
    lines = shown(answers[name], 80)
    assert "…" not in "".join(lines)
    column = "".join(line[: lines[0].index("os" if "by" in name else "count") - 1].strip() + " " for line in lines[1:])
    first = column.replace(" ", "")
    assert LONG.replace(" ", "") in first


def test_a_very_long_value_says_how_much_is_not_shown():
    long = th.histogram(pa.table({"x": ["y" * 1_000] * 3_000}), "x", plan=ONE)
    assert "600 more characters" in " ".join(shown(long, 200))
    assert "".join(shown(long, 200)).count("y") == 400


def test_ranges_that_are_read_off_fit_with_two_groups(answers):
    lines = shown(answers["ranges by two"], 80, [(0, 30_000), (30_000, 60_000)])
    assert " ".join(lines[0].split()) == "place os from to estimate 95 % interval fraction"
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("name", CASES)
def test_json_has_one_shape(answers, name):
    answer = answers[name]
    document = json.loads(answer.to_json())
    assert list(document) == KEYS
    table = answer.to_arrow()
    assert [list(row) for row in document["rows"]] == [table.column_names] * len(table)
    assert document["verb"] == answer.query.verb
    assert document["by"] == (list(answer.query.by) if answer.grouped else [])
    assert document["columns"] == (["ms"] if "ms" in answer.columns else list(answer.columns))
    assert document["plan"] == answer.plan.to_dict()
    assert document["guarantee"]["epsilon"] == 1 and document["guarantee"]["words"] == str(answer.guarantee)
    assert document["unit"] == document["guarantee"]["unit"] == "row"
    assert (document["other"] is None) == (document["verb"] != "histogram")


def test_json_of_the_command_has_the_ranges_too(answers, capsys):
    answer = answers["ranges by two"]
    rows = range_rows(answer, [(0, 30_000)])
    deliver(answer, lambda: None, plot=None, output=None, json=True, ranges=rows)
    document = json.loads(capsys.readouterr().out)
    assert list(document) == [*KEYS, "ranges"]
    assert [(row["place"], row["from"], row["to"]) for row in document["ranges"]][:1] == [(rows[0]["place"], 0, 30_000)]


def test_a_file_of_the_command_is_read_back_and_has_what_json_prints(answers, tmp_path, capsys):
    for name in ("histogram with a domain", "mean by a list"):
        deliver(answers[name], lambda: None, plot=None, output=tmp_path / "a.json", json=True)
        kept, printed = json.loads((tmp_path / "a.json").read_text()), json.loads(capsys.readouterr().out)
        assert {key: kept[key] for key in printed} == printed
        assert th.load(tmp_path / "a.json").to_arrow() == answers[name].to_arrow()
