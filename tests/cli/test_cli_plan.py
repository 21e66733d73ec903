"""The command line as a person and as a program meet it: real files, exit codes, and once of each kind a process."""

import json
from dataclasses import dataclass

import pytest
from command_line import in_a_process, in_this_process

import thresher as th

pytestmark = pytest.mark.slow  # processes, pictures and plans


@dataclass(frozen=True)
class Said:
    stdout: str
    stderr: str


def run(*arguments: str, code: int = 0, process: bool = False) -> Said:
    done = (in_a_process if process else in_this_process)(*arguments)
    said = Said(done.stdout.decode(), done.stderr.decode())
    assert done.returncode == code, said.stderr
    assert "Traceback" not in said.stderr
    return said


def test_an_error_of_all_of_a_bucket_is_no_power_of_ten():
    assert "typically 100 % for a bucket of 1,000 units" in str(th.Plan(0.0006, 25, 1.0, 1e-8))


def test_plan_prints_the_card_and_what_will_be_seen():
    shown = run("plan", "--epsilon", "1", "--delta", "1e-8", "--population", "1000000", process=True).stdout
    for part in ("threshold", "below 25", "What will be seen", "106", "95.2 %", "Expected sample", "261"):
        assert part in shown


def test_plan_as_json_is_one_document():
    content = json.loads(run("plan", "--epsilon", "1", "--delta", "1e-8", "--adjacency", "add-remove", "--json").stdout)
    assert content["smallest_visible"] == 104
    assert content["plan"]["adjacency"] == "add-remove"
    assert content["paper"]["smallest_visible"] == 261
    assert all(0 <= row["released"] <= 1 for row in content["seen"])


@pytest.mark.parametrize(
    ("options", "key", "value"),
    [
        (("--sampling-rate", "0.05"), "sampling_rate", 0.05),
        (("--threshold", "50"), "threshold", 50),
        (("--rounds", "4", "--threshold", "20"), "rounds", 4),
    ],
)
def test_plan_options_reach_the_planner(options, key, value):
    content = json.loads(run("plan", "--epsilon", "1", "--delta", "1e-8", *options, "--json").stdout)
    assert content["plan"][key] == value


def test_plan_draws_the_frontier_with_the_paper_on_it(tmp_path):
    picture = tmp_path / "frontier.svg"
    run("plan", "--epsilon", "1", "--delta", "1e-8", "--plot", str(picture))
    drawn = picture.read_text(encoding="utf-8")
    assert "paper's rule: τ = 20" in drawn.replace("&#39;", "'")
    assert "this plan: τ = 25" in drawn


def test_privacy_delta_and_epsilon():
    settings = ("--sampling-rate", "0.1", "--threshold", "20", "--adjacency", "add-remove")
    delta = json.loads(run("privacy", "delta", *settings, "--epsilon", "1", "--json").stdout)["delta"]
    assert delta == pytest.approx(2.7607e-15, rel=1e-4)
    epsilon = json.loads(run("privacy", "epsilon", *settings, "--delta", "1e-8", "--json").stdout)["epsilon"]
    assert epsilon == pytest.approx(0.29978, rel=1e-4)
    said = run("privacy", "delta", *settings, "--epsilon", "1").stdout
    assert "delta = 2.76069e-15" in said and "sampling rate 0.1" in said and "sampling_rate" not in said
    none = run("privacy", "epsilon", "--sampling-rate", "0.5", "--threshold", "2", "--delta", "1e-8")
    assert "no finite epsilon" in none.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("plan", "--epsilon", "nan", "--delta", "1e-8"), 2, "epsilon must be above 0"),
        (("plan", "--epsilon", "1"), 2, "delta is missing"),
        (("plan", "--epsilon", "1"), 2, "--epsilon 1, --delta 1e-8"),
        (("plan", "--epsilon", "1", "--delta", "1e-8", "--threshold", "0"), 2, "threshold must be"),
        (("plan", "--epsilon", "1", "--delta", "1e-8", "--adjacency", "x"), 2, "adjacency must be"),
        (("plan", "--epsilon", "1", "--delta", "1e-8", "--population", "0"), 2, "population must be"),
        (("plan", "--epsilon", "one", "--delta", "1e-8"), 2, "--epsilon"),
        (("plan", "--epsilon", "1", "--delta", "1e-8", "--plot", "x.doc"), 2, "plot must be a file ending in"),
        (("plan", "--epsilon", "1", "--delta", "1e-30", "--threshold", "1"), 3, "Raise the threshold"),
        (("nonsense",), 2, "nonsense"),
    ],
)
def test_bad_input_is_a_message_and_an_exit_code(arguments, code, message):
    assert message in run(*arguments, code=code).stderr


def test_version():
    assert run("--version", process=True).stdout.startswith("thresher 0.")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("plan", "--epsilon", "nan", "--delta", "1e-8"), 2),
        (("plan", "--epsilon", "1", "--delta", "1e-30", "--threshold", "1"), 3),
    ],
)
def test_a_process_ends_with_the_same_words_and_code(arguments, code):
    assert run(*arguments, code=code, process=True) == run(*arguments, code=code)


def test_a_plans_card_has_no_exponents_where_a_number_has_three_digits():
    said = run("plan", "--epsilon", "1", "--delta", "1e-8", "--rounds", "365").stdout
    assert "sees buckets 100 times smaller" in said
