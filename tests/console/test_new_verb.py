"""A new verb and a new kind of question, taken from CONTRIBUTING.md: two files, and they are there at every door."""

from __future__ import annotations

import datetime
import html
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from console_client import CSRF, client, sign_in
from console_server import console_server

import thresher as th
import thresher.questions
import thresher.verbs
from thresher.console import ask_form, python_line
from thresher.errors import InvalidFormat, InvalidSetting
from thresher.protocol.analyst_messages import QueryRequest
from thresher.questions import question as kinds_of_question
from thresher.questions.question import from_dict
from thresher.tables import Table
from thresher.verbs import Rule, asking, query, reference

ROOT = Path(th.__file__).parents[2]
TARGET = {"epsilon": 1.0, "delta": 1e-6}
ROWS = [{"visits": index % 3} for index in range(6_000)]  # 0 and 2 are even: two thirds


def example() -> dict[str, str]:
    """The files of the worked example."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return dict(re.findall(r"```python\n# (\w+/\w+\.py)\n(.*?)```", text, re.DOTALL))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("house")
    for name, content in example().items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def added(folder):
    """The two files as if they were in the package; what they register is taken out again."""
    before = set(sys.modules)
    registries = (kinds_of_question._KINDS, query._QUERIES, asking._FUNCTIONS)
    known = [set(registry) for registry in registries]
    for package in (thresher.questions, thresher.verbs):
        package.__path__.append(str(folder / package.__name__.rpartition(".")[2]))
    try:
        yield importlib.import_module("thresher.verbs.parity")
    finally:
        for package in (thresher.questions, thresher.verbs):
            package.__path__.pop()
            vars(package).pop("parity", None)
        for registry, names in zip(registries, known, strict=True):
            for name in set(registry) - names:
                del registry[name]
        for name in set(sys.modules) - before:
            if name.endswith(".parity"):
                del sys.modules[name]


def test_the_example_is_two_files():
    assert set(example()) == {"questions/parity.py", "verbs/parity.py"}


@pytest.mark.slow
def test_before_it_is_added_every_door_refuses_it():
    with pytest.raises(AttributeError):
        _ = th.parity
    with pytest.raises(InvalidSetting, match="verb"):
        ask_form.to_query(ask_form.filled({"verb": "parity", "attribute": "visits"}))
    with pytest.raises(InvalidFormat, match="not a query"):
        query.query_from_dict({"verb": "parity", "column": "visits", "plan": th.plan(**TARGET).to_dict()})
    with pytest.raises(InvalidFormat, match="not a question"):
        from_dict({"kind": "parity", "column": "visits"})
    shown = subprocess.run([sys.executable, "-m", "thresher", "parity", "x.csv"], capture_output=True, text=True)
    assert shown.returncode == 2 and "No such command" in shown.stderr


@pytest.mark.slow
def test_in_python(added, tmp_path):
    answer = th.parity([row["visits"] for row in ROWS], "value", times=2, types={"value": "whole numbers"}, **TARGET)
    sides = dict(zip(*answer.to_arrow().to_pydict().values(), strict=True))
    assert sides["even"] > sides["odd"] > 0
    assert answer.guarantee.rounds == 2
    answer.save(tmp_path / "answer.json")
    again = th.load(tmp_path / "answer.json")
    assert type(again) is type(answer)
    assert again.to_json() == answer.to_json()
    with pytest.raises(InvalidSetting, match="times"):
        th.parity([1, 2], "value", times=6, **TARGET)
    with pytest.raises(TypeError, match="colour"):
        th.parity([1, 2], "value", colour="red", **TARGET)


def test_over_time(added):
    """Its rows are followed without a change elsewhere; it states no intervals, so its changes have none."""
    plan = th.plan(**TARGET, rounds=2)
    days = [datetime.datetime(2026, 1, day, tzinfo=datetime.UTC) for day in (1, 2, 3)]
    answers = [
        th.parity([0] * evens + [1] * 2000, "value", plan=plan, types={"value": "whole numbers"}, times=2)
        for evens in (2000, 6000)
    ]
    over_time = th.OverTime([(days[0], answers[0]), (days[1], None), (days[2], answers[1])])
    assert over_time.to_arrow().column_names == ["date", "side", "estimate", "lower", "upper"]
    assert over_time.to_arrow()["lower"].null_count == 4
    assert ">even<" in over_time.svg()
    even = {row.bucket: row for row in over_time.changes()}["even"]
    assert even.change > 2000 and even.interval == (None, None) and even.changed is None
    assert Rule("above", 4000, "even", judged_by="estimate").judge(over_time) is not None
    with pytest.raises(InvalidSetting, match="intervals"):
        Rule("changed").judge(over_time)


def test_a_column_is_counted_as_single_values_are(added):
    question = from_dict({"kind": "parity", "column": "value"})
    values = np.array([1.0, 2.0, 2.5, 4.0, np.nan])
    table, counts = Table(values)._tally(question)
    found = dict(zip(table["value"].to_pylist(), counts.tolist(), strict=True))
    assert found == {"odd": 1, "even": 2}
    assert [question.bucket(value) for value in values] == ["odd", "even", None, "even", None]


BOOT = (
    "import sys, thresher.questions, thresher.verbs\n"
    "for package in (thresher.questions, thresher.verbs):\n"
    "    package.__path__.append(sys.argv[1] + '/' + package.__name__.rpartition('.')[2])\n"
    "del sys.argv[1]\n"
    "from thresher.cli import main; main()"
)


def command(folder: Path, *arguments: str, code: int = 0) -> str:
    shown = subprocess.run(
        [sys.executable, "-c", BOOT, str(folder), *arguments], capture_output=True, text=True, timeout=120
    )
    assert shown.returncode == code, shown.stderr
    return shown.stdout + shown.stderr if code else shown.stdout


@pytest.mark.slow
def test_on_the_command_line(folder, tmp_path):
    file = tmp_path / "visits.csv"
    file.write_text("visits\n" + "\n".join(str(row["visits"]) for row in ROWS))
    target = ("--epsilon", "1", "--delta", "1e-6")
    shown = json.loads(command(folder, "parity", str(file), "--column", "visits", "--times", "2", *target, "--json"))
    assert {row["side"] for row in shown["rows"]} == {"even", "odd"}
    assert "even" in command(folder, "parity", str(file), "--column", "visits", *target)
    assert "How often it is asked" in command(folder, "parity", "--help")
    assert "How often it is asked" in command(folder, "fleet", "query", "parity", "--help")
    keys = ("--enrolment-key", "e", "--analyst-key", "a")
    simulated = command(folder, "simulate", "--server", "http://127.0.0.1:9", "--verb", "parity", *keys, code=2)
    assert "cannot be compared with the truth" in simulated  # before anything is asked


@pytest.mark.slow
def test_over_http_and_on_the_console(added, tmp_path):
    with console_server(tmp_path, ROWS) as server, client(server) as http:
        csrf = sign_in(http, server.analyst)
        form = http.get("/ask").text
        assert 'name="parity_times"' in form and "How often it is asked" in form and 'value="parity"' in form
        fields = {"verb": "parity", "attribute": "visits", "parity_times": "2", "delta": "1e-6", "name": "by-form"}
        agreed = ask_form.agreement(ask_form.filled(fields))
        taken = http.post(f"/ask?agreed={agreed}&anyway=few-devices", data={**fields, "csrf": csrf})
        assert taken.status_code == 303, taken.text
        body = QueryRequest(name="by-http", query=server.coordinator.queries()[0].query | {"column": "visits"})
        sent = {"name": body.name, "query": server.coordinator.status(server.coordinator.queries()[0].id).query}
        answered = http.post("/v1/queries", json=sent, headers={"Authorization": f"Bearer {server.analyst}"})
        assert answered.status_code == 200, answered.text
        for name in ("by-form", "by-http"):
            status = next(each for each in server.coordinator.queries() if each.name == name)
            for _ in range(600):
                if server.coordinator.standing(status.id).state == "done":
                    break
                server.coordinator.step()
            page = http.get(f"/queries/{status.id}/answer").text
            assert "even" in page and "odd" in page and "Parity" in page
            assert "/download/csv" in page and "/download/png" not in page  # it has no picture
            line = html.unescape(re.search(r'<code id="line">(.*?)</code>', page, re.DOTALL)[1])
            assert line.startswith("th.parity(") and "times=2" in line
    assert CSRF  # the page was a real one


def test_in_the_reference_and_in_the_same_again_line(added):
    assert "How often it is asked, one round each." in reference.reference_of("parity")
    made = asking.make("parity", asking.Target(**TARGET), {"column": "visits", "times": 2})
    assert "times=2" in python_line.python_line(made, "http://server")
