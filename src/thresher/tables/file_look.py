"""An open look at a file or a database: what its first rows suggest about columns that have no type.

This is not private, and nothing else in Thresher does it: what is suggested depends on single rows. It is for whoever
may see the data, to write down `types=` once, before the first question is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thresher.errors import InvalidSetting
from thresher.privacy.settings import check_count, check_flag
from thresher.tables.column_kinds import FIRST_LINE, Kind, check_name, check_types, look_like_values
from thresher.tables.data_errors import DataErrors, find_data_errors, is_mark
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
    data_errors: DataErrors | None = None
    """What cannot be read in the whole file, where that was asked for."""
    headless: bool = False
    """Whether the first line of a file looks like data: then it is no header, and names are a person's values."""

    @property
    def declared(self) -> dict[str, Kind]:
        """What to declare: the types of all columns that seem to be more than text, and are not known to be it."""
        return {name: kind for name, kind in self.types.items() if kind != "text" and name not in self.known}

    @property
    def doubts(self) -> list[str]:
        """What must be said first, because it puts all else in doubt."""
        return [FIRST_LINE] if self.headless else []

    def __str__(self) -> str:
        lines = [f"  {name}: {kind}" for name, kind in self.types.items()]
        said = f"The first {self.rows:,} rows suggest (not private: single rows decide this):"
        if len(self.known) == len(self.types) > 0:
            said = "The database declares (no row was read):"
        errors = [] if self.data_errors is None else [self.data_errors.report]
        return "\n".join([*self.doubts, said, *lines, f"types={self.declared!r}", *errors])


def look(
    data: Any,
    rows: int = 100,
    *,
    sql: str | None = None,
    table: str | None = None,
    types: Mapping[str, str] | None = None,
    format: str | None = None,
    show_data_errors: bool = False,
) -> Look:
    """Look at the first rows of a CSV, TSV or JSON lines file, or a database, openly, and suggest columns' types.

    The verbs never do this. A column is text for them unless its type is declared, so that no person's value can
    decide the type of a release. Use it where you may see the data, and check what it says against what you know.

    Args:
        data: The path of a file, or a glob, of whose files the first rows are read; or a database, as verbs take it.
        rows: How many rows to look at.
        sql, table: Which rows of a database. Rows are read only if columns have no declared type there.
        types: What you know already, as `{"age": "whole numbers"}`. Files only, as are the next two.
        format: What a file is whose name does not say it: "csv", "tsv" or "jsonl".
        show_data_errors: Whether to read the whole file too, and to say which lines and columns cannot be read, and
            what to do. A column is read as `types` says, or as what more than half of the first rows can be read as.

    Returns: what they suggest; `look(…).declared` is what `types=` takes.

        >>> th.look("visits.csv").declared
        {'age': 'whole numbers'}

    Guarantee: none. What comes back depends on single rows.
    """
    from thresher.tables.files import file_engine, matching
    from thresher.tables.sources import open_data
    from thresher.tables.sql_sources import is_database
    from thresher.tables.sql_text import selection

    number, declared = check_count(rows, setting="rows"), check_types(types)
    check_flag(show_data_errors, setting="show_data_errors")
    chosen = selection(sql, table)
    if chosen is not None or is_database(data):
        for setting, value in (("types", types), ("format", format), ("show_data_errors", show_data_errors or None)):
            if value is not None:
                raise InvalidSetting(setting, "is for files, not for databases", hint="Leave it out.")
        return _look_at_database(open_data(data, selection=chosen), number)
    files = matching(data)
    engine = file_engine(files, format)
    columns = guarded("Thresher", lambda: engine.first_rows(files, number))
    for name in declared:
        check_name(name, list(columns), setting="types")
    held = max((len(texts) for texts in columns.values()), default=0)
    least = 0.5 if show_data_errors else 1.0
    kinds = {name: declared.get(name) or _suggested(texts, least) for name, texts in columns.items()}
    errors = _data_errors(data, format, kinds) if show_data_errors else None
    return Look(kinds, held, data_errors=errors, headless=engine.has_header and look_like_values(list(columns)))


def _data_errors(data: str | Path, format: str | None, kinds: Mapping[str, Kind]) -> DataErrors:
    from thresher.tables.files import open_files

    engine = open_files(data, format=format)
    try:
        return guarded(engine.name, lambda: find_data_errors(engine, kinds))
    finally:
        engine.close()


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


def _suggested(texts: Sequence[str | None], least: float = 1.0) -> Kind:
    """The first kind as which at least this part of the texts can be read."""
    held = [text for text in texts if text is not None and text.strip() and not (least < 1 and is_mark(text))]
    fitting = (kind for kind in _SUGGESTED if sum(_reads(kind, text) for text in held) >= least * len(held))
    return next(fitting, "text") if held else "text"


def _reads(kind: Kind, text: str) -> bool:
    # A time could be read as its day.
    return value_as(kind, text) is not None and not (kind == "dates" and ":" in text)
