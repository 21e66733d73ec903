"""An answer as the page reads it: rows to search, sort and leaf through, bars, a tree.

Everything comes from the answer's releases; what was dropped is not here to be shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from thresher.charts.numbers import amount, count, percent, printable
from thresher.verbs.answer import Answer, Bar
from thresher.verbs.trie import Trie, TrieNode

PAGE = 25


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table; numbers are aligned to the right. `about` explains it."""

    name: str
    title: str
    number: bool = True
    about: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """What is shown in each cell, and what each is sorted by."""

    cells: tuple[str, ...]
    keys: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """The rows on one page of a table, of all that were found."""

    rows: Sequence[Row]
    found: int
    number: int
    last: int
    sort: str
    descending: bool
    search: str

    @property
    def first_row(self) -> int:
        """The number of the first row shown, from 1."""
        return (self.number - 1) * PAGE + 1 if self.found else 0

    @property
    def last_row(self) -> int:
        """The number of the last row shown."""
        return min(self.number * PAGE, self.found)


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """A table of an answer."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    sort: str
    descending: bool

    def page(self, *, search: str = "", sort: str = "", descending: bool | None = None, number: int = 1) -> Page:
        """Rows whose first cell holds the searched text, in the order asked for; rows without a number come last."""
        names = [column.name for column in self.columns]
        by = sort if sort in names else self.sort
        down = self.descending if descending is None else descending
        wanted = search.strip().casefold()
        rows = [row for row in self.rows if wanted in row.cells[0].casefold()] if wanted else list(self.rows)
        place = names.index(by)
        known = [row for row in rows if row.keys[place] is not None]
        known.sort(key=lambda row: row.keys[place], reverse=down)
        rows = known + [row for row in rows if row.keys[place] is None]
        last = max(1, -(-len(rows) // PAGE))
        number = min(max(number, 1), last)
        return Page(rows[(number - 1) * PAGE : number * PAGE], len(rows), number, last, by, down, search.strip())


_FORMATS: dict[str, Callable[[Any], str]] = {"count": count, "amount": amount, "percent": percent}


def reading(answer: Answer) -> Reading:
    """The table of an answer."""
    shown = answer.shown()
    columns = tuple(
        Column(field.name, printable(field.title), field.kind != "label", printable(field.about))
        for field in shown.fields
    )
    formats = [_FORMATS[field.kind] for field in shown.fields[1:]]
    rows = []
    for (label, key), *cells in shown.rows:
        text = printable(label)
        written = (_cell(cell, form) for cell, form in zip(cells, formats, strict=True))
        keys = (cell if isinstance(cell, int | float) else None for cell in cells)
        rows.append(Row((text, *written), (text.casefold() if key is None else key, *keys)))
    return Reading(columns, tuple(rows), shown.sort, shown.descending)


def _cell(value: Any, form: Callable[[Any], str]) -> str:
    if value is None:
        return "–"
    return value if isinstance(value, str) else form(value)


def bars(answer: Answer, most: int = 25) -> list[Bar]:
    """The largest buckets, or all bins in their order where they have one."""
    return [bar._replace(label=printable(bar.label)) for bar in answer.bars(most)]


@dataclass(frozen=True, slots=True)
class Branch:
    """A node of the tree. `part` is its share of the largest; `closes` is how many branches end after it."""

    label: str
    estimate: float
    interval: tuple[int, int]
    complete: bool
    part: float
    grows: bool
    closes: int


def branches(trie: Trie, most: int = 300) -> list[Branch]:
    """The trie's largest nodes from top to bottom, each after its parent; chains that do not branch are drawn as one.

    A flat list, since a trie of long texts can be deeper than a template can call itself.
    """
    shown = trie.without_chains().largest(most)
    children: dict[str | None, list[TrieNode]] = {}
    for node in shown:
        children.setdefault(node.parent, []).append(node)
    largest = max((node.estimate for node in shown), default=1.0)
    listed: list[Branch] = []
    waiting = [(node, 0) for node in reversed(children.get(None, []))]
    while waiting:
        node, closes = waiting.pop()
        below = [] if node.complete else children.get(node.prefix, [])
        listed.append(
            Branch(
                printable(node.label),
                node.estimate,
                node.interval,
                node.complete,
                node.estimate / largest,
                bool(below),
                0 if below else closes,
            )
        )
        # The last child closes its parent's branch, and with it all that the parent was to close.
        waiting += [(child, closes + 1 if child is below[-1] else 0) for child in reversed(below)]
    return listed
