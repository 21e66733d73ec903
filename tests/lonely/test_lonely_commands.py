"""The lonely person at the command line: output, exit code, the file written and the ledger are the same."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hostile_values import values
from hypothesis import given
from hypothesis import strategies as st
from lonely_people import FILES, NOTHING, TYPED, Row, lonely, typed_values, with_lonely
from lonely_search import bounded
from observing import ledger_content, observe_command
from test_lonely_tables import PLACES, alone, alone_typed

import thresher as th

TARGET = ("--epsilon", "2", "--delta", "1e-4")
# Each command, with the verb whose lonely values it takes and the column that it asks about.
COMMANDS: dict[str, tuple[str, str, list[str]]] = {
    "histogram": ("values of text", "word", ["histogram", "--column", "word"]),
    "numbers": ("values of numbers", "age", ["histogram", "--column", "age"]),
    "bins": ("bins", "age", ["histogram", "--column", "age", "--bins", "29,35,43"]),
    "dates": ("months", "at", ["histogram", "--column", "at", "--dates", "month"]),
    "heavy-hitters": ("one-shot", "word", ["heavy-hitters", "--column", "word"]),
    "quantiles": (
        "search",
        "age",
        [
            "quantiles",
            "--column",
            "age",
            "--lower",
            "0",
            "--upper",
            "64",
            "--quantile",
            "0.5",
            "--method",
            "search",
            "--steps",
            "3",
        ],
    ),
    "ranges": (
        "ranges",
        "age",
        ["ranges", "--column", "age", "--lower", "0", "--upper", "64", "--range", "20:40", "--levels", "2"],
    ),
}
BASELINES: dict[Any, Any] = {}


def check(name: str, command: str, row: Row, place: int, options: tuple[bool, bool, bool], folder: Path) -> None:
    in_json, unit, used_up = options

    def seen(row: Row) -> Any:
        ledger = th.Ledger(folder / "command.db", epsilon=2, delta=1e-2)
        try:
            if used_up:
                ledger.charge(2, 1e-3, "everything", unit="user" if unit else th.privacy.ROW)
            # One path for all: it may be in a message.
            made = {**FILES, **TYPED}[name](with_lonely(row, place), folder)
            path = folder / made.name
            shutil.move(made, path)
            arguments = [*COMMANDS[command][2], str(path), *TARGET, "--ledger", str(ledger.path)]
            arguments += ["--json"] if in_json else ["--output", str(folder / "answer.json")]
            return observe_command(arguments + (["--unit", "user"] if unit else []), folder), ledger_content(ledger)
        finally:
            ledger.path.unlink()

    key = (name, command, options)
    if key not in BASELINES:
        BASELINES[key] = seen(dict(NOTHING))
    found = seen(row)
    assert found == BASELINES[key]
    assert found[0]["code"] == (4 if used_up else 0), found[0]["error"]
    if in_json and not used_up:
        json.loads(found[0]["out"])


@st.composite
def anything(draw: st.DrawFn) -> tuple[str, str, Row]:
    name = draw(st.sampled_from([*FILES, "parquet"]))
    command = draw(st.sampled_from(sorted(COMMANDS)))
    verb, column, _ = COMMANDS[command]
    if name == "parquet":
        return name, command, lonely(column, draw(typed_values(column).filter(lambda value: alone_typed(verb, value))))
    return name, command, lonely(column, draw(values(long=False).filter(lambda value: alone(verb, value))))


@pytest.mark.slow
@bounded(30)
@given(case=anything(), place=PLACES, options=st.tuples(st.booleans(), st.booleans(), st.booleans()))
def test_a_lonely_value_at_the_command_line(
    folder: Path, case: tuple[str, str, Row], place: int, options: tuple[bool, bool, bool]
) -> None:
    check(case[0], case[1], case[2], place, options, folder)


@pytest.mark.slow
def test_exit_codes_do_not_tell_who_is_in_a_file(folder: Path) -> None:
    """With the budget used up, a file with one non-number ended in 2, and its neighbour in 4."""
    for used_up in (True, False):
        check("csv", "bins", lonely("age", "HIV+"), 0, (False, False, used_up), folder)
