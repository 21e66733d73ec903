"""Tables for the terminal: rows of an answer, and rows of text. They fit the width, and nothing is cut off silently."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Group
from rich.text import Text

from thresher.charts.numbers import printable
from thresher.cli.output import console

if TYPE_CHECKING:
    import pyarrow as pa

_BAR_WIDTH, _LEAST_BAR = 24, 8
_BAR = "bright_blue"  # at least 3:1 on black and on white, in the palettes of usual terminals
_LONGEST_CELL = 400
_LEAST_TEXT, _LONGEST_WORD = 12, 24  # how narrow text can be made; words of up to so many characters stay whole
_GAPS = 3, 2  # between columns; the smaller one where there is little room
_INDENT = 4  # of a remark below its row
_UNKNOWN = "–"
_HEADINGS = {"rank_error_bound": "rank error at most"}

Cell = str | Text


def show_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    right: Collection[str] = (),
    title: str = "",
    remarks: Sequence[str] = (),
) -> None:
    """Print rows of text, which is never read as markup.

    Args:
        headings: the columns' names.
        rows: a cell for each of them.
        right: the columns that stand at the right, as numbers do.
        title: a line above the table.
        remarks: what is said of each row, in lines of its own below it.
    """
    columns = [
        _Column(name, [row[place] for row in rows], right=name in right, folds=name not in right)
        for place, name in enumerate(headings)
    ]
    console.print(Group(*([Text(title, style="italic")] if title else []), *_lines(columns, remarks)))


def rows_table(
    rows: pa.Table,
    *,
    bars: str | None = None,
    hidden: int = 0,
    pairs: Mapping[str, tuple[str, str]] | None = None,
    details: Collection[str] = (),
) -> Group:
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
    lines = _lines(columns, heights=rows[bars].to_pylist() if bars else [])
    more = [Text(f"{hidden:,} more rows; use --output or --json for all.", style="dim italic")] if hidden else []
    return Group(*lines, *more)


class _Column:
    """A column as it is shown: its name, its cells, whether it stands at the right, and whether it may go on below."""

    def __init__(self, name: str, cells: Sequence[Cell], *, right: bool, folds: bool) -> None:
        self.name, self.right, self.folds = Text(printable(name), style="bold"), right, folds
        self.cells = [cell if isinstance(cell, Text) else Text(printable(cell)) for cell in cells]
        everything = [self.name, *self.cells]
        self.width = max(each.cell_len for each in everything)
        words = [cell_len(word) for each in everything for word in each.plain.split()]
        longest = max((length for length in words if length <= _LONGEST_WORD), default=0)
        self.least = min(self.width, max(_LEAST_TEXT, longest))
        if not folds:
            heading = max(map(cell_len, self.name.plain.split()), default=0)
            self.least = max(heading, *(each.cell_len for each in self.cells)) if self.cells else heading


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
            found.append(
                _Column(
                    _HEADINGS.get(field.name, field.name), cells[field.name], right=right, folds=kind.endswith("string")
                )
            )
    return found


def _between(low: str, high: str) -> str:
    return _UNKNOWN if low == high == _UNKNOWN else f"{low} – {high}"


def _lines(columns: Sequence[_Column], remarks: Sequence[str] = (), heights: Sequence[Any] = ()) -> list[Text]:
    """The lines of a table, side by side with bars for `heights` if it fits, else one value below the other."""
    fitting = _fitting(columns)
    if fitting is None:
        return list(_one_below_the_other(columns, remarks))
    widths, gap = fitting
    room = min(_BAR_WIDTH, console.width - sum(widths) - gap * len(widths))
    if heights and room >= _LEAST_BAR:
        columns, widths = [*columns, _bars(heights, room)], [*widths, room]
    return list(_side_by_side(columns, widths, gap, remarks))


def _fitting(columns: Sequence[_Column]) -> tuple[list[int], int] | None:
    """The columns' widths and the gap between them; None where they do not fit side by side."""
    widths = [column.width for column in columns]
    for gap in _GAPS:
        if sum(widths) + gap * (len(widths) - 1) <= console.width:
            return widths, gap
    while sum(widths) + gap * (len(widths) - 1) > console.width:
        able = [place for place, column in enumerate(columns) if widths[place] > column.least]
        if not able:
            return None
        widths[max(able, key=lambda place: widths[place])] -= 1
    return widths, gap


def _bars(heights: Sequence[Any], room: int) -> _Column:
    largest = max((height or 0 for height in heights), default=0)
    bars = ["█" * round(room * (height or 0) / largest) if largest else "" for height in heights]
    return _Column("", [Text(bar, style=_BAR) for bar in bars], right=False, folds=False)


def _side_by_side(
    columns: Sequence[_Column], widths: Sequence[int], gap: int, remarks: Sequence[str]
) -> Iterator[Text]:
    rows = [[column.cells[index] for column in columns] for index in range(len(columns[0].cells))]
    for index, row in enumerate([[column.name for column in columns], *rows]):
        cells = [_wrapped(cell, width) for cell, width in zip(row, widths, strict=True)]
        for line in range(max(map(len, cells))):
            shown = Text(no_wrap=True, overflow="ignore")
            for column, cell, width in zip(columns, cells, widths, strict=True):
                part = cell[line] if line < len(cell) else Text()
                blank = Text(" " * (width - part.cell_len))
                shown.append(blank).append(part) if column.right else shown.append(part).append(blank)
                shown.append(" " * gap)
            shown.rstrip()
            yield shown
        if remarks and index:
            yield from _remark(remarks[index - 1])


def _one_below_the_other(columns: Sequence[_Column], remarks: Sequence[str]) -> Iterator[Text]:
    names = max(column.name.cell_len for column in columns) + _GAPS[0]
    for index in range(len(columns[0].cells)):
        if index:
            yield Text("")
        for column in columns:
            first, *more = _wrapped(column.cells[index], max(console.width - names, _LEAST_TEXT))
            yield Text(column.name.plain.ljust(names)).append(first)
            yield from (Text(" " * names).append(line) for line in more)
        if remarks:
            yield from _remark(remarks[index])


def _remark(text: str) -> Iterator[Text]:
    for line in _wrapped(Text(printable(text), style="dim"), console.width - _INDENT):
        yield Text(" " * _INDENT).append(line)


def _wrapped(cell: Text, width: int) -> list[Text]:
    return [cell] if cell.cell_len <= width else list(cell.wrap(console, width, overflow="fold"))


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
    text = printable(value)
    if len(text) <= _LONGEST_CELL:
        return text
    return f"{text[:_LONGEST_CELL]} … {len(text) - _LONGEST_CELL:,} more characters"
