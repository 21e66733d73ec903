"""Answers as text for `print`, and as HTML for notebooks: a few rows, each a label and its numbers."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

from thresher.charts.numbers import amount, fitted
from thresher.verbs.public_lists import BELOW
from thresher.verbs.readings import Reading

PRINTED = 20
"""How many rows are shown."""
_LABEL, _NUMBER = 32, 15
"""How wide the columns of a label and of its number are."""


def counts_of(row: Any) -> tuple[Any, ...]:
    """The numbers of a row that has a count, an estimate and an interval."""
    return (row.estimate, *row.interval, row.count)


def counted_line(label: str, row: Any) -> str:
    """A row that has an estimate and an interval as a line of text; without a row, that it is below the threshold."""
    if row is None:
        return _line(label, BELOW)
    return _line(label, f"{row.estimate:,.0f}", f"{row.interval[0]:,} to {row.interval[1]:,}")


def reading_line(row: Reading) -> str:
    """The same of a reading."""
    value, *ends = _cells(row)
    return _line(row.label, value, " to ".join(ends))


def _line(label: str, value: str, interval: str = "") -> str:
    return f"{fitted(label, _LABEL)} {value:>{_NUMBER}}   {interval}".rstrip()


def _cells(row: Reading) -> list[str]:
    """What is shown of a reading: nothing but that it is below the threshold where it has no numbers at all."""
    if row.lower is None or row.upper is None:
        return [amount(row.estimate) if row.known else BELOW]
    return [amount(row.estimate), amount(row.lower), amount(row.upper)]


def counted_html(title: str, rows: Iterable[tuple[str, Any]], hidden: int, *, said: str, whom: str | None) -> str:
    """Labels with rows as `counted_line` takes them, as a table with a sentence below it."""
    body = [
        [label, BELOW] if row is None else [label, *(f"{cell:,.0f}" for cell in counts_of(row))] for label, row in rows
    ]
    return _table([title, "estimate", "lower", "upper", "count"], body, hidden, said, whom)


def readings_html(title: str, rows: Iterable[Reading], hidden: int, *, said: str, whom: str | None) -> str:
    """Readings as such a table."""
    body = [[row.label, *_cells(row)] for row in rows]
    return _table([title, "estimate", "lower", "upper"], body, hidden, said, whom)


def _table(head: Sequence[str], body: Iterable[Sequence[str]], hidden: int, said: str, whom: str | None) -> str:
    titles = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    rows = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>" for cells in body)
    more = f"<p>… {hidden:,} more rows</p>" if hidden else ""
    note = f"{said.removesuffix('.')}." if whom is None else f"{said.removesuffix('.')}. Numbers stand for {whom}."
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{rows}</tbody></table>{more}<p>{html.escape(note)}</p>"
