"""An open look at a file or a database: what its first rows suggest about columns that have no type.

This is not private, and nothing else in Thresher does it: what is suggested depends on single rows. It is for whoever
may see the data, to write down `types=` once, before the first question is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from thresher.privacy.settings import check_count
from thresher.tables.column_kinds import Kind
from thresher.tables.error_guard import guarded
from thresher.tables.text_reading import value_as

if TYPE_CHECKING:
    from thresher.tables.engine import Engine

_SUGGESTED: tuple[Kind, ...] = ("whole numbers", "floats", "booleans", "dates", "times")
"""The types that are suggested where all texts can be read so; the first of them wins."""


@dataclass(frozen=True, slots=True)
class Look:
    """What the first rows suggest: a type for each column, in the words that `types=` takes.

    Not private: one row may have decided a type. `known` are columns whose type a database declares; no row decided it.
    """

    types: Mapping[str, Kind]
    rows: int
    known: frozenset[str] = frozenset()

    @property
    def declared(self) -> dict[str, Kind]:
        """What to declare: the types of all columns that seem to be more than text, and are not known to be it."""
        return {name: kind for name, kind in self.types.items() if kind != "text" and name not in self.known}

    def __str__(self) -> str:
        lines = [f"  {name}: {kind}" for name, kind in self.types.items()]
        said = f"The first {self.rows:,} rows suggest (not private: single rows decide this):"
        if len(self.known) == len(self.types) > 0:
            said = "The database declares (no row was read):"
        return "\n".join([said, *lines, f"types={self.declared!r}"])


def look(data: Any, rows: int = 100, *, sql: str | None = None, table: str | None = None) -> Look:
    """Look at the first rows of a CSV, TSV or JSON lines file, or a database, openly, and suggest columns' types.

    The verbs never do this. A column is text for them unless its type is declared, so that no person's value can
    decide the type of a release. Use it where you may see the data, and check what it says against what you know.

    Args:
        data: The path of a file, or a glob, of whose files the first rows are read; or a database, as verbs take it.
        rows: How many rows to look at.
        sql, table: Which rows of a database. Rows are read only if columns have no declared type there.

    Returns: what they suggest; `look(…).declared` is what `types=` takes.

    Guarantee: none. What comes back depends on single rows.
    """
    from thresher.tables.files import file_engine, matching
    from thresher.tables.sources import open_data
    from thresher.tables.sql_sources import is_database
    from thresher.tables.sql_text import selection

    number = check_count(rows, setting="rows")
    chosen = selection(sql, table)
    if chosen is not None or is_database(data):
        return _look_at_database(open_data(data, selection=chosen), number)
    files = matching(data)
    engine = file_engine(files)
    columns = guarded("Thresher", lambda: engine.first_rows(files, number))
    held = max((len(texts) for texts in columns.values()), default=0)
    return Look({name: _suggested(texts) for name, texts in columns.items()}, held)


def _look_at_database(engine: Engine, number: int) -> Look:
    with ExitStack() as stack:
        if engine.held is not None:
            stack.enter_context(engine.held)
        stack.callback(engine.close)
        names = engine.names() or []
        known = {name: kind for name in names if not engine.untyped(name) and (kind := engine.kind(name)) is not None}
        untyped = [name for name in names if engine.untyped(name)]
        columns = engine.first_texts(untyped, number) if untyped else {}
    suggested = {name: _suggested(texts) for name, texts in columns.items()}
    types = {name: each for name in names if (each := known.get(name) or suggested.get(name)) is not None}
    return Look(types, max(map(len, columns.values()), default=0), frozenset(known))


def _suggested(texts: Sequence[str | None]) -> Kind:
    held = [text for text in texts if text is not None and text.strip()]
    fitting = (kind for kind in _SUGGESTED if all(_reads(kind, text) for text in held))
    return next(fitting, "text") if held else "text"


def _reads(kind: Kind, text: str) -> bool:
    # A time could be read as its day.
    return value_as(kind, text) is not None and not (kind == "dates" and ":" in text)
