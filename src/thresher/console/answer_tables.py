"""An answer as the page reads it: rows to search, sort and leaf through, bars, a tree.

Everything comes from the answer's releases; what was dropped is not here to be shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from thresher.charts.numbers import amount, count, percent, printable
from thresher.questions import Bins, Joint, Question
from thresher.verbs.heavy_hitters import FoundItem, HeavyHitters
from thresher.verbs.histogram import Histogram
from thresher.verbs.quantiles import Quantiles
from thresher.verbs.queries import HistogramQuery, Query
from thresher.verbs.ranges import Ranges
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


@dataclass(frozen=True, slots=True)
class Bar:
    """One bucket of the chart."""

    label: str
    estimate: float
    lower: float
    upper: float


_NUMBERS = (
    Column("estimate", "Estimate", about="devices that checked in"),
    Column("lower", "At least", about="95 %"),
    Column("upper", "At most", about="95 %"),
    Column("count", "In the sample"),
)


def reading(answer: Any, query: Query) -> Reading:
    """The table of any of the four answers."""
    if isinstance(answer, Histogram):
        return _histogram(answer, query)
    if isinstance(answer, HeavyHitters):
        return _heavy_hitters(answer)
    if isinstance(answer, Quantiles):
        return _quantiles(answer)
    return _ranges(answer)


def bars(answer: Any, query: Query, most: int = 25) -> list[Bar]:
    """The largest buckets; bins and dates, of which twice as many are shown, in their own order."""
    if isinstance(answer, Histogram):
        name, rows = labels(query), list(answer)
        rows = sorted(rows[: 2 * most], key=lambda row: row.bucket) if _ordered(query) else rows[:most]
        return [Bar(name(row.bucket), row.estimate, *row.interval) for row in rows]
    return [Bar(_item(item), item.estimate, *item.interval) for item in answer.items[:most]]


def labels(query: Query) -> Any:
    """How this query's buckets are written: bins by both their edges, dates as dates, several parts side by side."""
    question: Question = query.question if isinstance(query, HistogramQuery) else query.first_question
    parts = question.parts if isinstance(question, Joint) else (question,)
    upper = [
        dict(zip(part.edges[:-1], part.edges[1:], strict=True)) if isinstance(part, Bins) else None for part in parts
    ]

    def one(value: Any, edges: dict[float, float] | None) -> str:
        if edges is not None and value in edges:
            return f"{amount(value)} to {amount(edges[value])}"
        return printable(value)

    def label(bucket: Any) -> str:
        if len(question.columns) == 1:
            return one(bucket, upper[0])
        ends = upper if isinstance(question, Joint) else [None] * len(question.columns)
        return " · ".join(one(value, edges) for value, edges in zip(bucket, ends, strict=True))

    return label


def _ordered(query: Query) -> bool:
    return isinstance(query, HistogramQuery) and query.question.kind in ("bins", "dates")


def _histogram(answer: Histogram, query: Query) -> Reading:
    name, ordered = labels(query), _ordered(query)
    rows = [
        _row(name(row.bucket), row.bucket if ordered else None, row.estimate, row.interval, row.count) for row in answer
    ]
    rows += [
        Row((name(bucket), "below threshold", "–", "–", "–"), (name(bucket).casefold(), None, None, None, None))
        for bucket in answer.below_threshold
    ]
    title = ", ".join(answer.release.columns)
    first = Column("bucket", printable(title), number=False)
    return Reading((first, *_NUMBERS), tuple(rows), "bucket" if ordered else "estimate", not ordered)


def _heavy_hitters(answer: HeavyHitters) -> Reading:
    rows = [_row(_item(item), None, item.estimate, item.interval, item.count) for item in answer]
    return Reading((Column("item", printable(answer.column), number=False), *_NUMBERS), tuple(rows), "estimate", True)


def _item(item: FoundItem) -> str:
    """A found text; one that the last level did not finish ends in an ellipsis."""
    return printable(item.item) + ("" if item.complete else "…")


def _row(label: str, key: Any, estimate: float, interval: tuple[int, int], sampled: int) -> Row:
    cells = (label, count(estimate), count(interval[0]), count(interval[1]), count(sampled))
    return Row(cells, (label.casefold() if key is None else key, estimate, *interval, sampled))


def _quantiles(answer: Quantiles) -> Reading:
    columns = (
        Column("part", "Part of devices", number=False, about="that checked in"),
        Column("value", "is below", about=printable(answer.column)),
        Column("lower", "At least", about="95 %"),
        Column("upper", "At most", about="95 %"),
        Column("bound", "Off by at most", about="in ranks, 95 %"),
    )
    rows = [
        Row(
            (
                percent(found.probability),
                amount(found.value),
                amount(found.interval[0]),
                amount(found.interval[1]),
                percent(found.error.bound),
            ),
            (
                found.probability,
                None if found.value != found.value else found.value,
                *found.interval,
                found.error.bound,
            ),
        )
        for found in answer
    ]
    return Reading(columns, tuple(rows), "part", False)


def _ranges(answer: Ranges) -> Reading:
    columns = (
        Column("cell", printable(answer.column), number=False),
        Column("level", "Level"),
        *_NUMBERS,
    )
    rows = [
        Row(
            (
                f"{amount(cell['lower'])} to {amount(cell['upper'])}",
                str(cell["level"]),
                count(cell["estimate"]),
                count(cell["least"]),
                count(cell["most"]),
                count(cell["count"]),
            ),
            (cell["lower"], cell["level"], cell["estimate"], cell["least"], cell["most"], cell["count"]),
        )
        for cell in answer.to_arrow().to_pylist()
    ]
    return Reading(columns, tuple(rows), "level", False)


@dataclass(frozen=True, slots=True)
class Branch:
    """A node of the tree. `part` is its share of the largest; `closes` is how many branches end after it."""

    label: str
    estimate: float
    interval: tuple[int, int] | None
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
