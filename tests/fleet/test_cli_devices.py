"""`thresher device` and `thresher simulate`, against a real `thresher serve`."""

import itertools
import json
import socket
import stat
import threading
import time
from types import SimpleNamespace

import pytest
import typer
from typer.testing import CliRunner

from thresher.cli import devices
from thresher.client.fleet import Fleet
from thresher.errors import InvalidSetting, ServerUnavailable, Unauthorised
from thresher.simulator import simulation as running
from thresher.simulator.local_server import local_server
from thresher.simulator.population import demo_population
from thresher.simulator.simulation import Simulation, keep_checking_in, simulate

pytestmark = pytest.mark.slow  # processes and browsers take their time

app = typer.Typer()
app.command("device")(devices.device)
app.command("simulate")(devices.simulate)
WORDS = "the\nof\nand\nto\nin\nis\nthat\nrare\n"


@pytest.fixture(scope="module")
def server():
    with local_server("--budget-epsilon", "100", "--budget-delta", "1e-3") as started:
        yield started


@pytest.fixture
def words(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text(WORDS, encoding="utf-8")
    return path


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def simulated(server, *arguments):
    done = run("simulate", "--server", server.url, "--enrolment-key", server.enrolment_key, *arguments)
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


def became(result, what):
    """What became of reports, and how often."""
    return {row["status"]: row["count"] for row in result["reports"] if row["what"] == what}


def answered(result, what):
    return {row["status"]: row["count"] for row in result["answers"] if row["what"] == what}


def is_close(line, plan, dropouts=0.05):
    """Within seven standard deviations and a few units: a false alarm has probability below 1e-9 a line."""
    rate = plan["sampling_rate"] * (1 - dropouts)
    return abs(line["estimate"] - line["truth"]) <= 7 * (line["truth"] / rate) ** 0.5 + 7 / rate


def test_what_is_far_off_is_not_close():
    plan = {"sampling_rate": 0.3}
    assert is_close({"estimate": 420, "truth": 400}, plan)
    assert not is_close({"estimate": 800, "truth": 400}, plan)
    assert not is_close({"estimate": 0, "truth": 400}, plan)


# One device


def test_attributes_are_names_and_values():
    assert devices._attributes(["os=linux", "version=2.10", "age=42", "note=a=b", "empty="], text=False) == {
        "os": "linux",
        "version": "2.10",
        "age": 42,
        "note": "a=b",
        "empty": "",
    }
    assert devices._attributes(["age=42"], text=True) == {"age": "42"}
    with pytest.raises(InvalidSetting, match="equals sign"):
        devices._attributes(["linux"], text=False)


def test_a_device_enrols_once_and_keeps_its_token(server, tmp_path):
    state = tmp_path / "device.json"
    device = ("device", "--server", server.url, "--state", state, "--attribute", "word=hello", "--once")
    first = run(*device, "--enrolment-key", server.enrolment_key)
    assert first.exit_code == 0, (first.output, first.exception)
    assert "No round to answer." in first.output
    assert stat.S_IMODE(state.stat().st_mode) == 0o600
    token = json.loads(state.read_text())["token"]
    again = run(*device, "--json")
    assert again.exit_code == 0, (again.output, again.exception)
    assert json.loads(again.output) == []
    assert json.loads(state.read_text())["token"] == token
    assert "hello" not in state.read_text()


def test_a_device_needs_a_key_that_the_server_knows(server, tmp_path):
    arguments = ("--server", server.url, "--state", tmp_path / "d.json", "--attribute", "word=x", "--once")
    wrong = run("device", *arguments, "--enrolment-key", "thresher-enrolment-wrong")
    assert isinstance(wrong.exception, Unauthorised)
    bad_pin = run("device", *arguments, "--enrolment-key", server.enrolment_key, "--pinned-key", "zz")
    assert isinstance(bad_pin.exception, InvalidSetting)


# Many devices


@pytest.mark.slow
def test_a_histogram_beside_the_truth(server, words):
    result = json.loads(
        simulated(
            server,
            *("--devices", 1500, "--values", words, "--analyst-key", server.analyst_key, "--delta", 1e-6),
            *("--seconds", 600, "--dropouts", 0.04, "--retries", 0.05, "--duplicates", 0.05, "--slow", 0.01),
            *("--hostile", 0.02, "--json"),
        )
    )
    comparison = result["comparison"]
    assert comparison["invented"] == 0
    assert result["unexpected"] == []
    assert comparison["large_released"] >= 3
    assert {line["what"] for line in comparison["lines"]} <= set(WORDS.split())
    assert result["reports_accepted"] == 1440  # the rest dropped out
    assert became(result, "report")["taken"] == 1440
    assert answered(result, "reports, answer lost")[None] > 0
    assert answered(result, "the same reports again")[200] > 0
    # The one that completes the round finds it closed.
    assert "conflict" in became(result, "other bytes for the same round")
    assert set(became(result, "other bytes for the same round")) <= {"conflict", "closed"}
    assert set(answered(result, "wrong token")) == {401}
    assert set(answered(result, "no token")) == {401}
    assert set(answered(result, "other version")) <= {400}
    assert set(became(result, "unknown round")) == {"closed"}
    assert all(is_close(line, comparison["plan"]) for line in comparison["lines"])


def test_for_people_the_promise_is_in_words(server, words):
    shown = simulated(
        server,
        *("--devices", 600, "--values", words, "--analyst-key", server.analyst_key),
        *("--verb", "heavy-hitters", "--epsilon", 2, "--delta", 1e-6, "--seconds", 600),
    )
    assert "none that nobody holds" in shown
    assert "Whatever is released would have been almost as likely" in shown
    assert "600 devices sent" in shown


@pytest.mark.slow
@pytest.mark.parametrize(
    "query",
    [
        ("--verb", "heavy-hitters", "--method", "trie", "--rounds", 2, "--step", 3),
        # With a contact rate nobody knows how many will report: the round waits for its deadline.
        ("--verb", "heavy-hitters", "--contact-rate", 0.9, "--seconds", 10),
        ("--verb", "quantiles", "--rounds", 2, "--quantile", 0.5),
        ("--verb", "quantiles", "--method", "hierarchy", "--rounds", 2, "--sampled-by", "aggregator"),
        ("--verb", "ranges", "--rounds", 2),
    ],
)
def test_every_verb_beside_the_truth(server, query, tmp_path):
    values = ()
    if "heavy-hitters" in query:
        # 300 of 400 hold it: not released with probability 4e-44, and 2e-15 if only half of them were asked in time.
        (tmp_path / "values.txt").write_text("the\t3\nrare\t1\n", encoding="utf-8")
        values = ("--values", tmp_path / "values.txt")
    result = json.loads(
        simulated(
            server,
            *("--devices", 400, "--analyst-key", server.analyst_key, "--epsilon", 2, "--delta", 1e-6),
            *("--seconds", 600, "--json", *query, *values),
        )
    )
    comparison = result["comparison"]
    assert result["unexpected"] == []
    assert comparison["invented"] == 0
    least = 200 if "--contact-rate" in query else 400
    assert all(least <= each["asked"] <= 400 for each in comparison["rounds"]), comparison["rounds"]
    assert comparison["lines"], comparison["rounds"]
    if "quantiles" in query:
        assert all(0 <= line["lower"] <= line["estimate"] <= line["upper"] <= 4096 for line in comparison["lines"])
    elif "ranges" in query:
        # A range may be the difference of two counts, each of up to all 400: it is as close as 800 are.
        assert is_close(comparison["lines"][0], comparison["plan"])
        shifted = [{"truth": 800, "estimate": 800 + line["estimate"] - line["truth"]} for line in comparison["lines"]]
        assert all(is_close(line, comparison["plan"]) for line in shifted)
    else:
        assert all(is_close(line, comparison["plan"]) for line in comparison["lines"])


def test_without_a_query_devices_keep_checking_in(server, monkeypatch):
    # A clock that goes on by a fiftieth of a second whenever it is looked at: each device has its turn in that second.
    ticks = itertools.count(step=0.02)
    monkeypatch.setattr(running, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    result = json.loads(simulated(server, "--devices", 20, "--seconds", 1, "--json"))
    assert result["comparison"] is None
    assert answered(result, "visit")[200] >= 20
    assert result["unexpected"] == []


def test_settings_that_cannot_be_are_refused(server):
    both = ("--server", server.url, "--enrolment-key", server.enrolment_key)
    assert isinstance(run("simulate", *both, "--verb", "median").exception, InvalidSetting)
    assert isinstance(run("simulate", *both, "--dropouts", 2).exception, InvalidSetting)
    assert isinstance(run("simulate", "--server", server.url).exception, InvalidSetting)
    wrong = run("simulate", "--server", server.url, "--enrolment-key", "thresher-enrolment-wrong", "--devices", 5)
    assert isinstance(wrong.exception, Unauthorised)


def test_a_server_that_is_not_there(monkeypatch):
    monkeypatch.setattr(running, "ENROL_ATTEMPTS", 2)
    with socket.socket() as silent:  # nobody listens here, and nobody else can
        silent.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        done = run("simulate", "--server", address, "--enrolment-key", "k", "--devices", 5)
    assert isinstance(done.exception, ServerUnavailable)


def test_a_server_where_nobody_enrols_is_not_asked_again_and_again(server):
    simulation = Simulation(f"{server.url}/elsewhere", server.enrolment_key, demo_population(3))
    with pytest.raises(ServerUnavailable, match="404"):
        simulate(simulation, None, stop=threading.Event())
    assert simulation.result.requests == 1


def test_told_to_stop_while_devices_enrol_nothing_is_asked(server):
    """A query would be charged."""
    asked = []

    class Soon:
        """Set after some looks: in the middle of the enrolments."""

        looks = 0

        def is_set(self):
            self.looks += 1
            return self.looks > 50

    simulation = Simulation(server.url, server.enrolment_key, demo_population(500))
    assert simulate(simulation, lambda: asked.append("query"), stop=Soon()) is None
    assert asked == []
    assert simulation.result.requests <= 50


def test_a_server_that_takes_no_more_devices_is_waited_for_until_told_to_stop(caplog):
    asked = []

    class WhenSaid:
        def is_set(self):
            return "The server takes no more devices for now. Waiting for" in caplog.text

    with local_server("--enrolments-per-hour", "5") as few:
        simulation = Simulation(few.url, few.enrolment_key, demo_population(12))
        started = time.monotonic()
        assert simulate(simulation, lambda: asked.append("query"), stop=WhenSaid()) is None
    assert time.monotonic() - started < 60  # and not the hour that the server says
    assert asked == []


def test_devices_for_demonstrations_end_when_told(server):
    stop = threading.Event()
    with Fleet(server.url, server.analyst_key) as fleet:
        before = fleet.overview().active

        def stop_when_all_have_come() -> None:
            while fleet.overview().active < before + 30:
                time.sleep(0.05)
            stop.set()

        watching = threading.Thread(target=stop_when_all_have_come, daemon=True)
        watching.start()
        result = keep_checking_in(server.url, server.enrolment_key, 30, stop)
        watching.join()
    assert result.outcomes.answers["visit", 200] >= 30
    assert not result.outcomes.unexpected
