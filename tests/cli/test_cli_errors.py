"""What the command says where something is wrong or weak: data errors, empty answers, warnings."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import THRESHER, in_a_process, in_this_process

import thresher as th
from thresher.cli.error_words import in_command_words
from thresher.errors import NotFound

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("always::thresher.errors.WeakGuarantee")]

TARGET = ("--epsilon", "1", "--delta", "1e-8")


def run(*arguments: object, code: int = 0) -> tuple[str, str]:
    done = in_this_process(*arguments)
    assert done.returncode == code, done.stderr.decode()
    assert b"canary" not in done.stdout + done.stderr
    return done.stdout.decode(), done.stderr.decode()


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    path.write_text("name,age\ncanary,N/A\ncanary\n" + "x,7\n" * 20, encoding="utf-8")
    return path


def test_data_errors_in_place_of_an_answer(people: Path, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.db"
    run("ledger", "create", ledger, "--epsilon", "3", "--delta", "1e-6")
    asked = ("mean", people, "--column", "age", "--lower", "0", "--upper", "9", *TARGET, "--ledger", ledger)
    said, _ = run(*asked, "--show-data-errors", code=2)
    for part in (
        "Not private",
        "Nothing was drawn or charged",
        "too few or too many fields for the header, once: line 3.",
        "column 'age', read as floats: a mark for",
        "once: line 2.",
        "Leave it empty",
    ):
        assert part in said
    assert th.Ledger(ledger).history() == []
    content = json.loads(run(*asked, "--show-data-errors", "--json", code=2)[0])
    assert content["private"] is False
    assert [each["places"] for each in content["data_errors"]] == [["line 3"], ["line 2"]]
    said, _ = run("histogram", people, "--column", "name", *TARGET)  # without the switch, no word of it
    assert "line 2" not in said and "line 3" not in said
    people.write_text("name,age\nx,7\n", encoding="utf-8")
    assert "without data errors" in run(*asked, "--show-data-errors")[0]


def test_look_with_data_errors(people: Path) -> None:
    said, _ = run("look", people, "--show-data-errors", code=2)
    assert "--type 'age=whole numbers'" in said
    assert "line 2." in said and "line 3." in said
    said, _ = run("look", people, "--type", "age=booleans", "--show-data-errors", code=2)
    assert "column 'age', read as booleans" in said
    assert json.loads(run("look", people, "--json")[0])["types"] == {"name": "text", "age": "text"}


def test_a_format_in_place_of_a_name(tmp_path: Path) -> None:
    path = tmp_path / "events.log"
    path.write_text('{"country": "fr"}\n' * 300, encoding="utf-8")
    asked = ("histogram", path, "--column", "country", *TARGET)
    assert "--format" in run(*asked, code=2)[1]
    assert "fr" in run(*asked, "--format", "jsonl")[0]
    assert "country: text" in run("look", path, "--format", "jsonl")[0]
    assert "format must be one of" in run(*asked, "--format", "xml", code=2)[1]


def test_an_empty_answer_says_what_would_have_been_seen(people: Path) -> None:
    size = th.plan(1, 1e-8).smallest_visible()
    said, _ = run("histogram", people, "--column", "age", *TARGET)
    assert f"Nothing was released. A value held by {size} rows would have been seen" in said
    assert "--show-data-errors" in said


def test_a_weak_guarantee_is_said_on_standard_error_unless_switched_off(people: Path, tmp_path: Path) -> None:
    weak = ("--epsilon", "12", "--delta", "0.01")
    for command in (
        ("histogram", people, "--column", "age", *weak, "--json"),
        ("plan", *weak, "--json"),
        ("ledger", "create", tmp_path / "a.db", *weak),
    ):
        out, error = run(*command)
        assert error.count("warning (weak-guarantee)") == 1
        assert "epsilon = 12" in error and "delta = 0.01" in error
        assert "thresher --no-warnings" in error and "simplefilter" not in error
        assert "warning" not in out
    out, error = run("--no-warnings", "histogram", people, "--column", "age", *weak)
    assert error == ""
    assert run("plan", *TARGET)[1] == ""
    assert "weak-guarantee" in run("plan", *weak)[1]  # the switch was for one command


@pytest.mark.parametrize(("ended_by", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_command_that_is_ended_leaves_no_rows(tmp_path: Path, ended_by: signal.Signals, code: int) -> None:
    """Not even the copy of what it has read of standard input."""
    command = subprocess.Popen(
        [THRESHER, "histogram", "-", "--column", "name", *TARGET],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    with command:
        assert command.stdin is not None
        command.stdin.write(b"name\n" + b"canary\n" * 100_000)
        command.stdin.flush()
        while not any(tmp_path.glob("*/*")):
            time.sleep(0.02)
        command.send_signal(ended_by)
        out, error = command.communicate(timeout=60)
    assert (command.returncode, out) == (code, b"")
    assert b"canary" not in error
    assert list(tmp_path.iterdir()) == []


ENDED_EARLY = """
import signal, sys
from thresher.cli import main

class Ended:
    def find_spec(self, name, *_):
        if name.startswith("thresher.cli."):
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Ended())
main()
"""


def test_a_command_that_is_ended_while_it_is_imported_ends_quietly() -> None:
    done = subprocess.run([sys.executable, "-c", ENDED_EARLY, "--version"], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_errors_of_any_kind_have_one_look_and_one_json(people: Path, tmp_path: Path) -> None:
    asked = ("histogram", people, "--column", "age", "--delta", "1e-8", "--epsilon")
    (tmp_path / "zipped.csv").write_bytes(gzip.compress(b"age\n1\n"))
    for command, message, hint in (
        ((*asked, "1,0"), "'--epsilon'", "Write 1.0, with a point."),
        ((*asked, "1", "--nosuch"), "--nosuch", "thresher histogram --help says more."),
        (("nosuch",), "nosuch", "thresher --help says more."),
        ((*asked, "1", "--ledger", tmp_path / "no.db"), "no.db' does not exist.", "Create it: thresher ledger create"),
        ((*asked, "1", "--plan", tmp_path / "no.json"), "no.json' does not exist.", "thresher ledger plan --output"),
        ((*asked, "1", "--plan", people), "--plan", "JSON that can be read"),
        (("ledger", "show", tmp_path / "no.db"), "ledger '", "thresher ledger create"),
        (("mean", people, "--lower", "5", "--upper", "2", *asked[2:], "1"), "--lower must be below --upper", ""),
        (("histogram", tmp_path / "zipped.csv", *asked[2:], "1"), "gzip", "Let its name end in .csv.gz."),
        (("policy", "show", tmp_path / "no.json"), "policy '", "no.json"),
    ):
        said = " ".join(run(*command, code=2)[1].split())
        assert said.startswith("error (invalid-setting): "), said
        assert message in said and hint in said, said
        out, error = run(*command, "--json", code=2)
        problem = json.loads(error)
        assert out == "" and (problem["code"], problem["status"]) == ("invalid-setting", 422)
        assert f"{problem['detail']} {problem['hint']}".strip() in said.partition(": ")[2]


@pytest.mark.parametrize(
    ("arguments", "option", "not_said"),
    [
        (("histogram", "PEOPLE", "--column", "name", *TARGET, "--contributions", "2"), "leave --contributions out", ""),
        (
            ("audit", "--sampling-rate", "0.3", "--threshold", "8", "--epsilon", "0.5", "--contributions", "2",
             "--path", "injected"),
            "Leave --contributions out", "",
        ),
        (("plan", *TARGET, "--sampling-rate", "0.999999"), "Lower --sampling-rate", "sampling_rate"),
        (
            ("fleet", "series", "create", "histogram", "word", *TARGET, "--every", "week", "--server", "http://h:1",
             "--key", "thresher-analyst-x"),
            "--releases or --until must be given", "",
        ),
        (
            ("fleet", "series", "alert", "s1", "--server", "http://h:1", "--key", "thresher-analyst-x"),
            "--above or --below or --changed must be given", "",
        ),
        (("policy", "show", "PEOPLE.json"), "people.csv.json' does not exist", ""),
        (("histogramm",), "Did you mean 'histogram'?\n", "?."),
    ],
)  # fmt: skip
def test_errors_speak_of_options_and_say_what_is_wrong(
    people: Path, arguments: tuple[str, ...], option: str, not_said: str
) -> None:
    done = in_this_process(*(each.replace("PEOPLE", str(people)) for each in arguments))
    said = done.stderr.decode()
    assert done.returncode and option in said
    assert not not_said or not_said not in said


def test_standard_input_has_no_path() -> None:
    done = in_a_process("histogram", "-", "--column", "age", *TARGET, stdin="age\n1\n".encode("utf-16"))
    said = " ".join(done.stderr.decode().split())
    assert said.startswith("error (invalid-setting): standard input is text in UTF-16. Convert it")


def test_a_server_names_the_command_that_lists_things() -> None:
    error = NotFound("There is no such query.", hint="GET /v1/queries or thresher fleet list lists them.")
    assert in_command_words(error, []) == ("There is no such query.", "thresher fleet list lists them.")
