"""Help, completion and errors of the command: nothing is cut off, and everything is said in options."""

import ast
import doctest
import functools
import inspect
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from command_line import in_this_process
from typer.testing import CliRunner

import thresher
import thresher as th
from thresher.cli import completion
from thresher.cli.app import app
from thresher.cli.error_words import in_command_words
from thresher.cli.progress import Lines
from thresher.errors import Hint, InvalidSetting, ThresherError
from thresher.verbs.asking import functions

SOURCE = Path(thresher.__file__).parent


def commands(group, path=()):
    """Every command with the words that run it, groups too."""
    yield path
    for name, each in getattr(group, "commands", {}).items():
        yield from commands(each, (*path, name))


ALL = sorted(commands(typer.main.get_command(app)))


def test_there_are_many_commands():
    assert len(ALL) > 50


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_help_is_whole_at_80_columns(path):
    done = CliRunner(env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"}).invoke(app, [*path, "--help"])
    assert done.exit_code == 0, done.output
    text = done.output.replace("[ARGS]...", "").replace("column}...", "").replace("column...", "")
    assert max(map(len, text.splitlines())) <= 80
    assert not re.search(r"\w…|\.\.\.", re.sub(r"[a-z]+://…", "", text)), text


# Completion


LINES = {
    ("hist",): ["histogram"],
    ("histogram", "--adj"): ["--adjacency"],
    ("histogram", "visits.csv", "--adjacency", ""): ["replace", "add-remove"],
    ("quantiles", "visits.csv", "--method", ""): ["hierarchy", "search"],
    ("histogram", "visits.csv", "--column", "c"): ["country", r"city\ of\ birth"],
    ("histogram", "visits.csv", "--column", "'c"): ["country", "city of birth"],
    ("histogram", "visits.csv", "--column", "=", "co"): ["country"],
    ("histogram", "visits.csv", "--column", "="): ["user_id", "country", r"city\ of\ birth"],
    ("histogram", "visits.parquet", "--unit", ""): ["latency", "page"],
    ("histogram", "vis"): ["visits.csv", "visits.parquet"],
    ("histogram", "no"): [r"no\ header.csv"],
    ("histogram", r"no\ header.csv", "--unit", ""): ["no files"],
    ("histogram", "visits.csv", "--epsilon", ""): ["no files"],
    ("ledger", "show", "vis"): [],  # left to the shell, which completes files
    ("fleet", "list", "--key-file", "vis"): [],
}


@pytest.mark.slow
def test_a_real_bash_completes_verbs_options_choices_files_and_columns(tmp_path):
    (tmp_path / "visits.csv").write_text("user_id,country,city of birth\n1,secret,b\n")
    (tmp_path / "no header.csv").write_text("17,secret\n")
    pq.write_table(pa.table({"latency": [1.0], "page": ["x"]}), tmp_path / "visits.parquet")
    script = 'eval "$(thresher --show-completion bash)"\ncompopt() { [[ $1 == +o ]] && without="no files"; }\n'
    for line in LINES:
        words = ["thresher", *line]
        quoted = " ".join(map(shlex.quote, words))
        script += f"COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; without=; _thresher_completion thresher\n"
        script += '(IFS="|"; echo "${COMPREPLY[*]}$without")\n'
    found = [line.split("|") if line else [] for line in run_by("bash", script, tmp_path)]
    assert dict(zip(LINES, found, strict=True)) == LINES


def run_by(shell: str, script: str, directory: Path) -> list[str]:
    """The lines that a shell prints when it runs a script."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [shell, "-c", script],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
        cwd=directory,
        env=os.environ | {"PATH": path, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
    )
    assert not done.stderr
    return done.stdout.splitlines()


OFFERED = {
    "thresher hist": "histogram",
    "thresher histogram visits.csv --adjacency ": "replace",
    "thresher histogram visits.csv --column ": "user:id",
    "thresher histogram visits.csv --column x": r"x\$(touch ran)",
    "thresher histogram y": r"y\$(touch ran)",
}
"""What two other shells offer, among others: names that could be commands too, as they are."""

IN_ZSH = """
compdef() { }; _files() { print files }; _describe() { print -rl -- $found }
eval "$(thresher --show-completion zsh)"
while IFS= read -r line; do print "== $line"; words=("${(@s: :)line}"); CURRENT=$#words; _thresher_completion; done
"""
IN_FISH = """
thresher --show-completion fish | source
while read -l line; echo "== $line"; complete -C "$line"; end
"""


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_a_real_zsh_and_fish_complete_and_run_no_name(shell, tmp_path):
    (tmp_path / "visits.csv").write_text("user:id,x\\$(touch ran)\n1,secret\n")
    (tmp_path / r"y\$(touch ran)").touch()
    lines = [*OFFERED, "thresher ledger ", "thresher ledger show v"]
    asked = shlex.quote("\n".join(lines) + "\n")
    script = (IN_ZSH if shell == "zsh" else IN_FISH).rstrip()
    printed = run_by("bash", f"printf %s {asked} | {shell} -c {shlex.quote(script)}", tmp_path)
    found = [part.splitlines() for part in "\n".join(printed).split("== ")[1:]]
    offered = {line: [re.sub("\\t.*", "", each) for each in words] for line, *words in found}
    assert not (tmp_path / "ran").exists()
    if shell == "zsh":  # which reads an escaped colon, and help after one that is not
        offered = {
            line: [re.sub(r"(?<!\\):.*", "", each).replace(r"\:", ":").replace("\\\\", "\\") for each in words]
            for line, words in offered.items()
        }
    assert {line: each for line, each in OFFERED.items() if each in offered[line]} == OFFERED
    assert set(offered["thresher ledger "]) >= {"plan", "show", "rebuild"}  # one line each, with whole help
    assert offered["thresher ledger show v"] == ["files" if shell == "zsh" else "visits.csv"]


def test_columns_come_from_headers_alone(tmp_path, monkeypatch):
    (tmp_path / "a.jsonl").write_text('{"secret": 1}\n')
    (tmp_path / "no header.csv").write_bytes(b"\xff\xfe")
    (tmp_path / "a.tsv").write_text("one\ttwo\n1\t2\n")
    (tmp_path / "first person.csv").write_text("17,fr,linux\n18,de,mac\n")
    none = ["a.jsonl", "no header.csv", "missing.csv", "first person.csv"]
    for name, columns in (*((each, []) for each in none), ("a.tsv", ["one", "two"])):
        line = f"thresher histogram {shlex.quote(str(tmp_path / name))} --column"
        monkeypatch.setenv("COMP_WORDS", line)
        assert completion.columns("") == columns


# Errors


def raised(call) -> ThresherError:
    with pytest.raises(ThresherError) as caught:
        call()
    return caught.value


def wrong(hint: str | Hint) -> InvalidSetting:
    return InvalidSetting("x", "is wrong", hint=hint)


@pytest.mark.parametrize(
    ("error", "options", "words"),
    [
        (raised(lambda: th.plan()), ["--epsilon"], "--epsilon is missing. For example --epsilon 1, --delta 1e-8."),
        (InvalidSetting("bin_width", "and `bins` differ"), ["--bin-width", "--bins"], "--bin-width and --bins differ."),
        (InvalidSetting("path", "is wrong"), ["--epsilon"], "path is wrong."),
        (wrong("As `bins=[0, 18]`."), [], "x is wrong. As --bins 0,18."),
        (wrong("As `by=['a', 'b c']`."), [], "x is wrong. As --by a --by 'b c'."),
        (wrong("As `probabilities=[0.5]`."), [], "x is wrong. As --quantile 0.5."),
        (wrong("As `types={'age': 'whole numbers'}`."), [], "x is wrong. As --type 'age=whole numbers'."),
        (wrong("As `whole=True`, `upper=60_000`."), [], "x is wrong. As --whole yes, --upper 60000."),
        (wrong(Hint("No.", command="Run it.")), [], "x is wrong. Run it."),
    ],
)
def test_the_command_names_options(error, options, words):
    assert " ".join(in_command_words(error, options)).strip() == words


def test_a_setting_is_python_in_python_and_json_on_the_wire():
    from thresher.client.connection import error_of
    from thresher.server.problem import answer_of, problem_of

    error = InvalidSetting("by", "is missing", hint="Name it: `by='version'`, with `rounds=1`.")
    assert str(error) == "by is missing. Name it: by='version', with rounds=1."
    assert problem_of(error).hint == 'Name it: `"by": "version"`, with `"rounds": 1`.'
    status, _, body = answer_of(error)
    received = error_of(status, body)
    assert (str(received), received.setting) == (str(error), "by")
    assert in_command_words(received, ["--by"]) == ("--by is missing.", "Name it: --by version, with --rounds 1.")


def test_a_command_that_is_wrong_says_so_in_options(tmp_path):
    data = tmp_path / "a.csv"
    data.write_text("x\n1\n")
    done = in_this_process("histogram", data, "--column", "x", "--epsilon", "1")
    said = " ".join(done.stderr.decode().split())
    assert said == "error (invalid-setting): --delta is missing. For example --epsilon 1, --delta 1e-8."


PYTHON = re.compile(
    r"(?<![\w/?&-])[a-z_]+=(?!=)|\b(th|thresher|ledger|h|table|frame|datetime)\.[a-z]\w*|\b[A-Za-z_]\w*\((?!s\))"
)
COMMANDS = re.compile(r"pip install '[^']*'|name=https://|os=linux|service=name|alpha\(1")


def texts(node: ast.AST) -> list[str]:
    """The texts of a hint in the source, as the command says them; what is put in is left out."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "Hint":
        given = {each.arg: each.value for each in node.keywords}
        return texts(given.get("command") or (node.args[0] if node.args else ast.Constant("")))
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    if isinstance(node, ast.JoinedStr):
        return ["".join(part.value if isinstance(part, ast.Constant) else "it" for part in node.values)]
    if isinstance(node, ast.IfExp):
        return texts(node.body) + texts(node.orelse)
    return []


def hints():
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            given = [(each.arg, each.value) for each in node.keywords] if isinstance(node, ast.Call) else []
            if isinstance(node, ast.Assign) and re.search("accepted|hint", ast.unparse(node.targets[0]), re.I):
                given = [("hint", node.value)]
            for name, value in given:
                for text in texts(value) if name == "hint" else ():
                    yield f"{path.relative_to(SOURCE)}:{node.lineno}", text


@pytest.mark.slow
def test_no_hint_of_the_command_is_python():
    found = list(hints())
    assert len(found) > 300
    wrong = {}
    for where, text in found:
        _, said = in_command_words(ThresherError("x", hint=text), [])
        if PYTHON.search(COMMANDS.sub("", said)):
            wrong[where] = said
    assert wrong == {}


# Progress


def test_lines_come_after_a_while_and_not_too_often(capsys):
    now = 0.0
    lines = Lines(lambda: now)
    for second in range(35):
        now = float(second)
        lines.report(second, 40, "reading and counting")
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [f"reading and counting: {part} %" for part in (25, 50, 75)]


# Python


def test_dir_has_public_names_only():
    assert dir(th) == sorted(th.__all__)


@pytest.mark.parametrize("verb", list(functions()))
def test_help_explains_every_argument_with_an_example(verb):
    function = getattr(th, verb)
    words = inspect.getdoc(function)
    explained = re.findall(r"^    ([a-z_]+(?:, [a-z_]+)*): ", words[words.index("Args:") :], re.MULTILINE)
    names = [name for names in explained for name in names.split(", ")]
    assert sorted(names) == sorted(inspect.signature(function).parameters)
    assert ">>> " in words and f"th.{verb}(" in words
    assert "asking" not in names


@pytest.mark.parametrize("name", ["Guarantee", "Plan", "Population.ask", "Release", "look", "plan"])
def test_help_explains_every_argument(name):
    named = functools.reduce(getattr, name.split("."), th)
    words = inspect.getdoc(named)
    explained = re.findall(r"^    ([a-z_]+(?:, [a-z_]+)*): ", words[words.index("Args:") :], re.MULTILINE)
    taken = [each for each in inspect.signature(named).parameters if each != "self"]
    assert [each for names in explained for each in names.split(", ")] == taken


@pytest.mark.parametrize("name", ["Population", "look", "plan"])
def test_examples_in_help_say_what_happens(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("visits.csv").write_text("country,age\nfr,30\nde,41\n", encoding="utf-8")
    example = doctest.DocTestParser().get_doctest(inspect.getdoc(getattr(th, name)), {"th": th}, name, None, None)
    assert example.examples
    assert doctest.DocTestRunner().run(example).failed == 0
