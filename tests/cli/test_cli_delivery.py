"""Between the charge and the answer nothing is lost: every verb, every output, every way in which writing fails."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest
from typer.testing import CliRunner

import thresher as th
from thresher import charts
from thresher.cli import answer_delivery as delivering
from thresher.cli import app as command
from thresher.errors import MissingExtra, ThresherError

TARGET = ("--epsilon", "1", "--delta", "1e-8")
PLAN = {rounds: th.plan(1, 1e-8, rounds=rounds) for rounds in (1, 2, 3)}
VALUE = "東京 → [red]"
VERBS = {
    "histogram": ("--column", "word"),
    "heavy-hitters": ("--column", "word", "--method", "trie", "--levels", "3"),
    "quantiles": (
        "--column",
        "number",
        "--lower",
        "0",
        "--upper",
        "100",
        "--quantile",
        "0.5",
        "--method",
        "search",
        "--steps",
        "2",
    ),
    "ranges": ("--column", "number", "--lower", "0", "--upper", "100", "--range", "0:50", "--levels", "2"),
}
SHOWN = re.compile(r"it is in '([^']*thresher-answer-[^']*)'")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A file of which nothing is released, and one of which one bucket is."""
    folder = tmp_path_factory.mktemp("data")
    for name, common in (("empty", 0), ("one", 3000)):
        words, numbers = [VALUE] * common + ["a", "b"], [30.5] * common + [1.5, 99.5]
        pyarrow.csv.write_csv(pa.table({"word": words, "number": numbers}), folder / f"{name}.csv")
    return folder


@pytest.fixture
def ledger(tmp_path):
    path = tmp_path / "ledger.db"
    th.Ledger(path, epsilon=10, delta=1e-2)
    return path


@pytest.fixture(autouse=True)
def planned(monkeypatch):
    monkeypatch.setattr(th.verbs.asking, "make_plan", lambda epsilon, delta, *, rounds, **_: PLAN[rounds])


def charges(path: Path) -> int:
    return len(th.Ledger(path).history())


def run(*arguments, code: int = 0):
    result = CliRunner().invoke(command.app, [str(part) for part in arguments])
    assert result.exit_code == code, (result.output, result.stderr, result.exception)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


@pytest.mark.slow
@pytest.mark.parametrize("file", ["empty", "one"])
@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_every_output(data, ledger, tmp_path, verb, file):
    asked = (verb, data / f"{file}.csv", *VERBS[verb], *TARGET, "--ledger", ledger)
    picture, output = tmp_path / "picture.html", tmp_path / "answer.json"
    shown = run(*asked, "--plot", picture, "--output", output)
    assert "(1, 1e-08)-differential privacy" in shown.stdout
    assert picture.stat().st_size > 1000
    kept = json.loads(output.read_text())
    printed = json.loads(run(*asked, "--json").stdout)
    assert set(kept) >= set(printed)
    assert th.load(output).query.verb == verb.replace("-", "_")
    if verb == "ranges":
        assert (printed["ranges"][0]["fraction"] is None) == (file == "empty")
    assert charges(ledger) == 2


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("ending", ["png", "svg"])
@pytest.mark.slow
def test_pictures_of_nothing(data, tmp_path, verb, ending):
    picture = tmp_path / f"picture.{ending}"
    run(verb, data / "empty.csv", *VERBS[verb], *TARGET, "--plot", picture)
    assert picture.stat().st_size > 1000


@pytest.mark.slow
@pytest.mark.parametrize("json_wanted", [True, False])
def test_an_output_that_vanishes_is_kept_elsewhere(data, ledger, tmp_path, monkeypatch, json_wanted):
    def gone(path, text):
        raise FileNotFoundError(2, "No such file or directory", str(path))

    monkeypatch.setattr(delivering, "write_whole", gone)
    monkeypatch.setattr(delivering.tempfile, "tempdir", str(tmp_path))
    asked = ("histogram", data / "one.csv", *VERBS["histogram"], *TARGET, "--ledger", ledger)
    result = run(*asked, "--output", tmp_path / "answer.json", *(["--json"] if json_wanted else []), code=1)
    assert "東京" in result.stdout  # it was shown all the same
    assert "could not be written" in result.stderr
    kept = Path(SHOWN.search(result.stderr)[1])
    assert th.load(kept)[VALUE].count > 0
    assert kept.stat().st_mode & 0o777 == 0o600
    assert charges(ledger) == 1


@pytest.mark.slow
def test_a_picture_that_fails_loses_nothing(data, tmp_path, monkeypatch):
    def broken(*given, **settings):
        raise RuntimeError(VALUE)

    monkeypatch.setattr(charts, "show", broken)
    output = tmp_path / "answer.json"
    result = run(
        "ranges",
        data / "empty.csv",
        *VERBS["ranges"],
        *TARGET,
        "--output",
        output,
        "--plot",
        tmp_path / "a.png",
        code=1,
    )
    assert "RuntimeError" in result.stderr
    assert VALUE not in result.stderr
    assert f"it is in '{output}'" in result.stderr
    assert json.loads(output.read_text())["ranges"]


def test_a_missing_package_is_found_before_the_charge(data, ledger, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    asked = ("histogram", data / "one.csv", *VERBS["histogram"], *TARGET, "--ledger", ledger)
    result = CliRunner().invoke(command.app, [str(part) for part in (*asked, "--plot", tmp_path / "a.png")])
    assert isinstance(result.exception, MissingExtra)
    assert charges(ledger) == 0


@pytest.mark.slow
def test_an_interrupt_after_the_charge_says_so(data, ledger, monkeypatch):
    def interrupted(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(th.tables.table, "sample_and_threshold", interrupted)
    asked = ("histogram", data / "one.csv", *VERBS["histogram"], *TARGET, "--ledger", ledger)
    result = CliRunner().invoke(command.app, [str(part) for part in asked])
    assert result.exit_code != 0
    assert "had been charged" in result.stderr
    assert charges(ledger) == 1
    monkeypatch.setattr(th.Ledger, "reserve", interrupted)  # before the charge, nothing is said
    assert "charged" not in CliRunner().invoke(command.app, [str(part) for part in asked]).stderr
    assert charges(ledger) == 1


def test_an_interrupt_while_the_answer_is_shown_keeps_it(data, tmp_path, monkeypatch):
    def interrupted(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(delivering, "print_json", interrupted)
    monkeypatch.setattr(delivering.tempfile, "tempdir", str(tmp_path))
    result = CliRunner().invoke(
        command.app, ["histogram", str(data / "one.csv"), *VERBS["histogram"], *TARGET, "--json"]
    )
    assert result.exit_code != 0
    assert th.load(SHOWN.search(result.stderr)[1])[VALUE].count > 0


def test_an_engine_that_cannot_be_closed_loses_nothing(monkeypatch, caplog):
    def broken(self):
        raise OSError(VALUE)

    from thresher.tables.arrow_engine import ArrowEngine

    monkeypatch.setattr(ArrowEngine, "close", broken, raising=False)
    assert VALUE in th.histogram(pa.table({"word": [VALUE] * 3000}), "word", epsilon=1, delta=1e-8)
    assert "OSError" in caplog.text
    assert VALUE not in caplog.text


def test_a_number_that_json_has_not_is_written():
    found = th.heavy_hitters(pa.table({"x": [float("inf")] * 3000}), "x", epsilon=1, delta=1e-8)
    assert json.loads(found.to_json())["rows"][0]["item"] == "inf"


# What only a process of its own can show.

SLOW = pytest.mark.slow
BOOT = "from thresher.cli import main; main()"


def process(data, *arguments, stdout=subprocess.PIPE, boot: str = BOOT, **environment):
    asked = ["histogram", data / "one.csv", *VERBS["histogram"], *TARGET, *arguments]
    return subprocess.run(
        [sys.executable, "-c", boot, *map(str, asked)],
        stdout=stdout,
        stderr=subprocess.PIPE,
        timeout=120,
        check=False,
        env=os.environ | {"PYTHONUNBUFFERED": ""} | environment,  # what is buffered fails only when the process ends
    )


@SLOW
@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_terminal_that_cannot_write_a_value(data, more):
    done = process(data, *more, LANG="C", LC_ALL="C", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0, done.stderr
    assert rb"\u6771\u4eac" in done.stdout
    if more:
        assert json.loads(done.stdout)["rows"][0]["word"] == VALUE


@SLOW
@pytest.mark.parametrize(("place", "more"), [("pipe", ()), ("pipe", ("--json",)), ("/dev/full", ())])
def test_whoever_stops_reading_finds_the_answer_in_a_file(data, tmp_path, place, more):
    if place == "pipe":
        reading, writing = os.pipe()
        os.close(reading)  # nobody reads: whatever is written fails
    else:
        writing = os.open(place, os.O_WRONLY)
    done = process(data, *more, stdout=writing, TMPDIR=str(tmp_path))
    os.close(writing)
    assert done.returncode == 1, done.stderr
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr
    kept = Path(SHOWN.search(done.stderr.decode())[1])
    assert th.load(kept)[VALUE].count > 0


@SLOW
def test_a_closed_output_is_refused_before_the_charge(data, ledger):
    done = process(data, "--ledger", str(ledger), boot=f"import sys; sys.stdout = None; {BOOT}")
    assert done.returncode == 2
    assert b"standard output is closed" in done.stderr
    assert charges(ledger) == 0


def test_errors_of_ours_are_no_tracebacks(data, ledger):
    with pytest.raises(ThresherError):
        command.app(
            ["histogram", str(data / "one.csv"), "--column", "nothing", *TARGET, "--ledger", str(ledger)],
            standalone_mode=False,
        )
    assert charges(ledger) == 0
