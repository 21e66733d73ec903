"""An open look at a file: what its first rows suggest about its columns.

This is not private, and nothing else in Thresher does it: what is suggested depends on single rows. It is for whoever
may see the data, to write down `types=` once, before the first question is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from thresher.privacy.settings import check_count
from thresher.tables.column_kinds import Kind, check_name, check_types
from thresher.tables.data_errors import DataErrors, find_data_errors, is_mark
from thresher.tables.error_guard import guarded
from thresher.tables.text_reading import value_as

_SUGGESTED: tuple[Kind, ...] = ("whole numbers", "floats", "booleans", "dates", "times")
"""The types that are suggested where all texts can be read so; the first of them wins."""


@dataclass(frozen=True, slots=True)
class Look:
    """What the first rows of a file suggest: a type for each column, in the words that `types=` takes.

    Not private: one row may have decided a type.
    """

    types: Mapping[str, Kind]
    rows: int
    data_errors: DataErrors | None = None
    """What cannot be read in the whole file, where that was asked for."""

    @property
    def declared(self) -> dict[str, Kind]:
        """What to declare: the types of all columns that seem to be more than text."""
        return {name: kind for name, kind in self.types.items() if kind != "text"}

    def __str__(self) -> str:
        lines = [f"  {name}: {kind}" for name, kind in self.types.items()]
        return "\n".join(
            [
                f"The first {self.rows:,} rows suggest (not private: single rows decide this):",
                *lines,
                f"types={self.declared!r}",
                *([] if self.data_errors is None else [str(self.data_errors)]),
            ]
        )


def look(
    data: str | Path,
    rows: int = 100,
    *,
    types: Mapping[str, str] | None = None,
    format: str | None = None,
    show_data_errors: bool = False,
) -> Look:
    """Look at the first rows of a CSV, TSV or JSON lines file, openly, and suggest its columns' types.

    The verbs never do this. A column is text for them unless its type is declared, so that no person's value can
    decide the type of a release. Use it where you may see the data, and check what it says against what you know.

    Args:
        data: The path of a file, or a glob, of whose files the first rows are read.
        rows: How many rows to look at.
        types: What you know already, as `{"age": "whole numbers"}`.
        format: What a file is whose name does not say it: "csv", "tsv" or "jsonl".
        show_data_errors: Whether to read the whole file too, and to say which lines and columns cannot be read, and
            what to do. A column is read as `types` says, or as what more than half of the first rows can be read as.

    Returns: what they suggest; `look(…).declared` is what `types=` takes.

    Guarantee: none. What comes back depends on single rows.
    """
    from thresher.tables.files import file_engine, matching

    number, declared = check_count(rows, setting="rows"), check_types(types)
    files = matching(data)
    engine = file_engine(files, format)
    columns = guarded("Thresher", lambda: engine.first_rows(files, number))
    for name in declared:
        check_name(name, list(columns), setting="types")
    held = max((len(texts) for texts in columns.values()), default=0)
    least = 0.5 if show_data_errors else 1.0
    kinds = {name: declared.get(name) or _suggested(texts, least) for name, texts in columns.items()}
    return Look(kinds, held, _data_errors(data, format, kinds) if show_data_errors else None)


def _data_errors(data: str | Path, format: str | None, kinds: Mapping[str, Kind]) -> DataErrors:
    from thresher.tables.files import open_files

    engine = open_files(data, format=format)
    try:
        return guarded(engine.name, lambda: find_data_errors(engine.numbered(list(kinds)), kinds))
    finally:
        engine.close()


def _suggested(texts: Sequence[str | None], least: float) -> Kind:
    """The first kind as which at least this part of the texts can be read."""
    held = [text for text in texts if text is not None and text.strip() and not (least < 1 and is_mark(text))]
    fitting = (kind for kind in _SUGGESTED if sum(_reads(kind, text) for text in held) >= least * len(held))
    return next(fitting, "text") if held else "text"


def _reads(kind: Kind, text: str) -> bool:
    # A time could be read as its day.
    return value_as(kind, text) is not None and not (kind == "dates" and ":" in text)
