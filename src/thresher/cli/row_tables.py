"""Rows of an answer as a table for the terminal. It fits the width, and nothing in it is cut off silently."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from thresher.cli.output import console

if TYPE_CHECKING:
    import pyarrow as pa

_BAR_WIDTH, _LEAST_BAR = 24, 8
_LONGEST_CELL = 400
_LEAST_TEXT = 12  # a column of text can be made as narrow as this
_GAPS = 3, 2  # between columns; the smaller one where there is little room
_UNKNOWN = "–"


def rows_table(
    rows: pa.Table,
    *,
    bars: str | None = None,
    hidden: int = 0,
    pairs: Mapping[str, tuple[str, str]] | None = None,
    details: Collection[str] = (),
) -> Table:
    """An Arrow table for the terminal; values are shown as text, never as markup or control characters.

    Where there is little room, bars are shorter or left out, and text goes on in the next line. If even the numbers do
    not fit side by side, each row is shown as lines of a name and a value.

    Args:
        rows: the rows.
        bars: the column that bars are drawn for.
        hidden: how many more rows there are; it stands below the table.
        pairs: columns that are shown together, as "low – high", under a name of their own.
        details: columns that are not shown.
    """
    columns = _columns(rows, pairs or {}, details)
    widths = [max(map(cell_len, (column.name, *column.cells))) for column in columns]
    least = [min(width, _LEAST_TEXT) if column.folds else width for width, column in zip(widths, columns, strict=True)]
    gap = next((gap for gap in _GAPS if sum(least) + gap * len(least) <= console.width), None)
    if gap is None:
        table = _one_below_the_other(columns)
    else:
        room = min(_BAR_WIDTH, console.width - sum(widths) - gap * len(widths))
        heights = rows[bars].to_pylist() if bars and room >= _LEAST_BAR else []
        table = _side_by_side(columns, heights, room, gap)
    if hidden:
        table.caption = f"{hidden:,} more rows; use --output or --json for all."
        table.caption_justify = "left"
    return table


class _Column:
    """A column as it is shown: its name, its cells, whether they are numbers, and whether they may go on below."""

    def __init__(self, name: str, cells: list[str], *, right: bool, folds: bool) -> None:
        self.name, self.cells, self.right, self.folds = name, cells, right, folds


def _columns(rows: pa.Table, pairs: Mapping[str, tuple[str, str]], details: Collection[str]) -> list[_Column]:
    cells = {name: [_shown(value, name) for value in rows[name].to_pylist()] for name in rows.column_names}
    first = {low: (name, high) for name, (low, high) in pairs.items() if {low, high} <= set(cells)}
    hidden = {high for _, high in first.values()} | set(details)
    found = []
    for field in rows.schema:
        if field.name in first:
            name, high = first[field.name]
            together = [_between(*ends) for ends in zip(cells[field.name], cells[high], strict=True)]
            found.append(_Column(name, together, right=True, folds=False))
        elif field.name not in hidden:
            kind = str(field.type)
            right = kind.startswith(("int", "double", "float"))
            found.append(_Column(field.name, cells[field.name], right=right, folds=kind.endswith("string")))
    return found


def _between(low: str, high: str) -> str:
    return _UNKNOWN if low == high == _UNKNOWN else f"{low} – {high}"


def _side_by_side(columns: list[_Column], heights: list[Any], room: int, gap: int) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0))
    for column in columns:
        justify = "right" if column.right else "left"
        table.add_column(Text(column.name), justify=justify, overflow="fold", no_wrap=not column.folds)  # type: ignore[arg-type]
    largest = max((height or 0 for height in heights), default=0)
    if heights:
        table.add_column("")
    for index, row in enumerate(zip(*(column.cells for column in columns), strict=True)):
        cells = [Text(cell) for cell in row]
        if heights:
            bar = "█" * round(room * (heights[index] or 0) / largest) if largest else ""
            cells.append(Text(bar, style="blue"))
        table.add_row(*cells)
    return table


def _one_below_the_other(columns: list[_Column]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, _GAPS[0], 0, 0), show_header=False)
    table.add_column(overflow="fold")
    table.add_column(justify="left", overflow="fold")
    for index, row in enumerate(zip(*(column.cells for column in columns), strict=True)):
        if index:
            table.add_row("", "")
        for column, cell in zip(columns, row, strict=True):
            table.add_row(Text(column.name), Text(cell))
    return table


def _shown(value: Any, column: str) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return _UNKNOWN
    if isinstance(value, float):
        whole = abs(value) >= 1000 or (column == "estimate" and abs(value) >= 1)  # how many units there are
        return f"{value:,.0f}" if whole else f"{value:.4g}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    text = "".join(character if character.isprintable() else "�" for character in str(value))
    if len(text) <= _LONGEST_CELL:
        return text
    return f"{text[:_LONGEST_CELL]} … {len(text) - _LONGEST_CELL:,} more characters"
