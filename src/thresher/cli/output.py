"""Output for people and for machines."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from thresher.charts.numbers import printable
from thresher.charts.rendering import check_format
from thresher.errors import InvalidSetting
from thresher.files import file_target
from thresher.verbs.public_lists import BELOW, RELEASED, STATUS


class _Console(Console):
    """Leaves it to whoever prints what to do when nobody reads any more."""

    def on_broken_pipe(self) -> None:
        raise


console = _Console(highlight=False)
errors = _Console(highlight=False, stderr=True)

_LABEL = re.compile(r"\s*(?:• |\S.{0,11}?\s{2,}(?=\S))?")
"""What stands before the text of a line: blanks, a bullet, or a short label with blanks behind it."""
_LONG_LABEL = re.compile(r"\S+ {2,}\S")


def say(text: str | Text, style: str = "", *, on: Console | None = None) -> None:
    """Print prose: on a terminal wrapped at words, elsewhere each line whole, for whatever reads it.

    A line that goes on below is indented as its text is, behind blanks, a bullet or a short label. Control characters
    are shown as �. `on` is standard output unless it says `errors`, which is standard error.
    """
    screen = console if on is None else on
    for line in Text(style=style).append(text).split("\n", allow_blank=True):
        line.plain = printable(line.plain)
        for part in _wrapped(line, screen) if screen.is_terminal else [line]:
            screen.print(part, soft_wrap=True)


def one_command(parts: Sequence[str]) -> str:
    """Parts of a command to copy, on a terminal in lines that a shell reads as one."""
    lines = [""]
    for part in parts:
        if lines[-1] and console.is_terminal and cell_len(f"{lines[-1]} {part}") > console.width - 2:
            lines.append("")
        lines[-1] = f"{lines[-1]} {part}".strip()
    return " \\\n".join(lines)


def _wrapped(line: Text, screen: Console) -> list[Text]:
    """The lines of one line that fits the width; a word that is wider than all of it stays whole."""
    found = _LABEL.match(line.plain)
    label, rest = line.divide([found.end() if found else 0])
    if cell_len(line.plain) <= screen.width or label.cell_len >= screen.width // 2:
        return [line]
    hang = label.cell_len + (2 if _LONG_LABEL.match(rest.plain) else 0)
    first, *more = rest.divide(_breaks(rest.plain, screen.width - hang))
    lines = [label.append(first), *(Text(" " * hang).append(each) for each in more)]
    for each in lines:
        each.rstrip()
    return lines


def _breaks(text: str, width: int) -> list[int]:
    """Where lines of this width begin, after the first."""
    found, used = [], 0
    for word in re.finditer(r"\S+\s*", text):
        if used and used + cell_len(word.group().rstrip()) > width:
            found.append(word.start())
            used = 0
        used += cell_len(word.group())
    return found


_RANGE = ("from", "to", "estimate", "lower", "upper", "fraction")


def as_json(content: Any, encoding: str = "utf-8") -> str:
    """Content as JSON for people; escaped where the encoding has no way to write it."""
    text = json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False)
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return json.dumps(content, indent=2, allow_nan=False)
    return text


def plain(message: Any) -> Any:
    """A message as the plain values that JSON has."""
    import msgspec

    return msgspec.to_builtins(message)


def print_json(content: Any) -> None:
    """One JSON document on standard output, nothing else."""
    typer.echo(as_json(content, getattr(sys.stdout, "encoding", None) or "utf-8"))


def any_text(*streams: Any) -> None:
    """Let streams write any text: what their encoding does not have is escaped, and never an error."""
    for stream in streams:
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def is_terminal() -> bool:
    """Whether a person can be asked something."""
    return sys.stdin is not None and sys.stdin.isatty()


def check_files(plot: Path | None, output: Path | None = None) -> None:
    """Require, before anything is spent, that what was asked for can be written."""
    if sys.stdout is None and output is None:
        raise InvalidSetting("output", "is missing, and standard output is closed", hint="Give a file with --output.")
    for setting, path in (("plot", plot), ("output", output)):
        if path is None:
            continue
        folder = file_target(path, setting=setting).parent
        if not os.access(folder, os.W_OK):
            problem = "cannot be written to" if folder.is_dir() else "does not exist"
            raise InvalidSetting(setting, f"cannot be written: the directory {str(folder)!r} {problem}")
    if plot is not None:
        check_format(plot)


def range_row(answer: Any, low: float, high: float) -> dict[str, Any]:
    """What is shown of one range, from the ends that were used; without a release its fraction is not known."""
    count, fraction = answer.count(low, high), answer.fraction(low, high)
    return {
        "from": count.lower,
        "to": count.upper,
        "estimate": count.estimate,
        "lower": count.interval[0],
        "upper": count.interval[1],
        "fraction": None if math.isnan(fraction.estimate) else fraction.estimate,
    }


def range_rows(answer: Any, ranges: Sequence[tuple[float, float]]) -> list[dict[str, Any]]:
    """What is shown of several ranges; where the answer has groups, for each of them, with the group columns first.

    With a public list of groups there is also `status`, and its missing groups have rows without numbers.
    """
    if not answer.grouped:
        return [range_row(answer, *ends) for ends in ranges]
    shown: list[tuple[Any, dict[str, Any]]] = []
    for group, found in answer.items():
        shown += [(group, range_row(found, *ends)) for ends in ranges]
    used = [answer.range_ends(*ends) for ends in ranges]
    for group in answer.missing:
        shown += [(group, dict.fromkeys(_RANGE) | {"from": low, "to": high}) for low, high in used]
    listed, names = answer.query.groups is not None, [name for name, _ in answer.key_columns([*_RANGE, STATUS])]
    return [
        dict(zip(names, group if len(names) > 1 else (group,), strict=True))
        | row
        | ({STATUS: BELOW if row["estimate"] is None else RELEASED} if listed else {})
        for group, row in shown
    ]
