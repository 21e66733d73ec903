"""Output for people and for machines."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from thresher.charts.rendering import check_format
from thresher.errors import InvalidSetting
from thresher.files import file_target
from thresher.verbs.public_lists import BELOW, RELEASED, STATUS

if TYPE_CHECKING:
    import pyarrow as pa


class _Console(Console):
    """Leaves it to whoever prints what to do when nobody reads any more."""

    def on_broken_pipe(self) -> None:
        raise


console = _Console(highlight=False)

_BAR_WIDTH, _LEAST_BAR = 24, 8
_LONGEST_CELL = 60
_LEAST_TEXT = 12  # a column of text can be made as narrow as this
_GAP = 3
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


def rows_table(rows: pa.Table, *, bars: str | None = None, most: int = 50, hidden: int = 0) -> Table:
    """An Arrow table for the terminal; values are shown as text, never as markup or control characters.

    Where there is little room, bars are shorter or left out, and text goes on in the next line. If even the numbers do
    not fit side by side, each row is shown as lines of a name and a value. Below it stands how many rows are not shown,
    `hidden` ones among them, which `rows` does not have.
    """
    shown = [[_shown(value) for value in row.values()] for row in rows.slice(0, most).to_pylist()]
    numbers = [not str(field.type).endswith("string") for field in rows.schema]
    widths = [max(map(cell_len, cells)) for cells in zip(rows.column_names, *shown, strict=True)]
    least = [width if number else min(width, _LEAST_TEXT) for width, number in zip(widths, numbers, strict=True)]
    if sum(least) + _GAP * len(least) > console.width:
        table = _one_below_the_other(rows.column_names, shown)
    else:
        room = min(_BAR_WIDTH, console.width - sum(widths) - _GAP * len(widths))
        table = _side_by_side(rows, shown, numbers, bars if room >= _LEAST_BAR else None, room)
    if more := max(len(rows) - most, 0) + hidden:
        table.caption = f"{more:,} more rows; use --output or --json for all."
        table.caption_justify = "left"
    return table


def _side_by_side(rows: pa.Table, shown: list[list[str]], whole: list[bool], bars: str | None, room: int) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    for field, no_wrap in zip(rows.schema, whole, strict=True):
        right = _is_number(str(field.type))
        table.add_column(Text(field.name), justify="right" if right else "left", overflow="fold", no_wrap=no_wrap)
    heights = rows[bars].to_pylist() if bars else []
    largest = max((height or 0 for height in heights), default=0)
    if bars:
        table.add_column("")
    for index, row in enumerate(shown):
        cells = [Text(cell) for cell in row]
        if bars:
            bar = "█" * round(room * (heights[index] or 0) / largest) if largest else ""
            cells.append(Text(bar, style="blue"))
        table.add_row(*cells)
    return table


def _one_below_the_other(names: list[str], shown: list[list[str]]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), show_header=False)
    table.add_column(overflow="fold")
    table.add_column(justify="left", overflow="fold")
    for index, row in enumerate(shown):
        if index:
            table.add_row("", "")
        for name, cell in zip(names, row, strict=True):
            table.add_row(Text(name), Text(cell))
    return table


def range_row(answer: Any, low: float, high: float) -> dict[str, Any]:
    """What is shown of one range; where nothing was released, its fraction is not known."""
    count, fraction = answer.count(low, high), answer.fraction(low, high)
    return {
        "from": low,
        "to": high,
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
    for group in answer.missing:
        shown += [(group, dict.fromkeys(_RANGE) | {"from": low, "to": high}) for low, high in ranges]
    listed, names = answer.query.groups is not None, [name for name, _ in answer.key_columns([*_RANGE, STATUS])]
    return [
        dict(zip(names, group if len(names) > 1 else (group,), strict=True))
        | row
        | ({STATUS: BELOW if row["estimate"] is None else RELEASED} if listed else {})
        for group, row in shown
    ]


def _is_number(kind: str) -> bool:
    return kind.startswith(("int", "double", "float"))


def _shown(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    text = "".join(character if character.isprintable() else "�" for character in str(value))
    return text if len(text) <= _LONGEST_CELL else text[: _LONGEST_CELL - 1] + "…"
