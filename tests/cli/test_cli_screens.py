"""What people see in a terminal of 80 columns: no line is longer, and no word is cut."""

import random
import re

import pytest
from fleet_server import started
from rich.cells import cell_len
from terminal_screens import screens

from thresher.cli.output import console, say
from thresher.ledger import Ledger

WIDTHS = (80, 400)
TARGET = ("--epsilon", "1", "--delta", "1e-8", "--quiet")
LONG = "a label with so many words that it cannot stand in one line of a terminal beside any number"


def check(commands):
    """At 80 columns there is no longer line, and every word stands whole that stands in a very wide terminal."""
    for command, (narrow, wide) in zip(commands, screens(commands, WIDTHS), strict=True):
        where = f"thresher {' '.join(map(str, command))}"
        assert any(narrow), where
        too_long = [line for line in narrow if cell_len(line) > 80 and " " in line.strip()]
        assert not too_long, (where, too_long)
        cut = words(narrow) - words(wide)
        assert not cut, (where, cut, narrow)


def words(lines):
    return set(re.findall(r"[^\W\d_]{2,}", "\n".join(lines)))


@pytest.fixture
def files(tmp_path):
    rng = random.Random(1)
    rows = [
        f"{place},{rng.choice(['fr', 'fr', 'de', LONG])},{rng.randint(0, 95)},{rng.choice('ab')}"
        for place in range(3000)
    ]
    (tmp_path / "visits.csv").write_text("\n".join(["user_id,country,age,os", *rows, "1,fr,N/A,a"]))
    (tmp_path / "headless.csv").write_text("\n".join(rows))
    names = [f"column_{place}" for place in range(300)]
    (tmp_path / "wide.csv").write_text("\n".join([",".join(names), ",".join("1" * 300)]))
    return tmp_path


@pytest.mark.slow
def test_commands_on_files_fit_80_columns(files):
    data, ledger = files / "visits.csv", files / "l.db"
    Ledger(ledger, epsilon=10, delta=1e-5, data_set="visits of March")
    by_age = ("--column", "age", "--lower", "0", "--upper", "128")
    one = ("--sampling-rate", "0.3", "--threshold", "25", "--rounds", "2")
    check(
        [
            ["plan", *TARGET[:4]],
            ["plan", *TARGET[:4], "--rounds", "3", "--population", "1000000"],
            ["privacy", "delta", *one, "--epsilon", "1"],
            ["privacy", "epsilon", "--sampling-rate", "0.99", "--threshold", "2", "--delta", "1e-8"],
            ["look", data],
            ["look", data, "--show-data-errors"],
            ["look", files / "wide.csv"],
            ["look", files / "headless.csv", "--show-data-errors"],
            ["histogram", data, "--column", "country", *TARGET, "--ledger", ledger, "--unit", "user_id"],
            ["histogram", data, "--column", "country", *TARGET, "--show-data-errors"],
            ["histogram", data, "--column", "user_id", *TARGET],
            ["histogram", data, "--column", "county", *TARGET],
            ["histogram", files / "nosuch.csv", "--column", "county", *TARGET],
            ["histogram", data, "--column", "country", "--epsilon", "20", "--delta", "1e-2", "--quiet"],
            ["histogram", data, "--nosuch", "country"],
            ["heavy-hitters", data, "--column", "country", "--method", "trie", *TARGET],
            ["mean", data, *by_age, "--by", "country", "--by", "os", *TARGET],
            ["quantiles", data, *by_age, "--quantile", "0.5", *TARGET],
            ["ranges", data, *by_age, "--range", "18:65", "--by", "os", *TARGET],
            ["ledger", "show", ledger],
            ["ledger", "plan", ledger, "--queries", "5"],
            ["ledger", "affords", ledger, *TARGET[:4]],
            ["policy", "show"],
            ["audit", *one[:4], "--epsilon", "1", "--trials", "1000", "--path", "counts"],
            ["lab", "table"],
        ]
    )


@pytest.mark.slow
def test_commands_on_a_fleet_fit_80_columns(tmp_path):
    with started(tmp_path / "fleet", "--budget-epsilon", "100", "--budget-delta", "0.1") as server:
        analyst = ("--server", server.url, "--key-file", tmp_path / "fleet" / "analyst.token")
        operator = (*analyst[:3], tmp_path / "fleet" / "operator.token")
        asked = ("country", *TARGET[:4], *analyst, "--yes", "--name")
        with server.client(server.analyst) as client:
            run = screens(
                [
                    ["fleet", "query", "histogram", *asked, "one", "--no-wait"],
                    ["fleet", "series", "create", "histogram", "--every", "day", "--releases", "3", *asked, "two"],
                ],
                (80,),
            )
            query = client.get("/v1/queries").json()["queries"][0]["id"]
            series = client.get("/v1/series").json()["series"][0]["id"]
        assert all(any(shown) for (shown,) in run)
        check(
            [
                ["fleet", "query", "histogram", *asked, "one", "--plan"],
                ["fleet", "list", *analyst],
                ["fleet", "show", query, *analyst],
                ["fleet", "ledger", *analyst],
                ["fleet", "show", "nosuch", *analyst],
                ["fleet", "series", "list", *analyst],
                ["fleet", "series", "show", series, *analyst],
                ["fleet", "series", "alert", series, "--above", "5", *analyst],
                ["fleet", "series", "rules", series, *analyst],
                ["fleet", "series", "alerts", series, *analyst],
                ["fleet", "enrolment-keys", *operator],
                ["fleet", "cancel", query, *analyst],
            ]
        )


def test_prose_is_wrapped_on_a_terminal_alone(monkeypatch, capsys):
    text = "  a label   and words that are more than thirty columns\n• a bullet that goes on and on and on\n"
    text += "/path" * 9
    say(text)
    assert capsys.readouterr().out == f"{text}\n"
    monkeypatch.setattr(type(console), "is_terminal", True)
    monkeypatch.setattr(type(console), "width", 30)
    say(text)
    assert capsys.readouterr().out.split("\n") == [
        "  a label   and words that are",
        "            more than thirty",
        "            columns",
        "• a bullet that goes on and on",
        "  and on",
        "/path" * 9,
        "",
    ]
