"""An open look at a file: what its first rows suggest about its columns.

This is not private, and nothing else in Thresher does it: what is suggested depends on single rows. It is for whoever
may see the data, to write down `types=` once, before the first question is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from thresher.privacy.settings import check_count
from thresher.tables.column_kinds import Kind
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
            ]
        )


def look(data: str | Path, rows: int = 100) -> Look:
    """Look at the first rows of a CSV, TSV or JSON lines file, openly, and suggest its columns' types.

    The verbs never do this. A column is text for them unless its type is declared, so that no person's value can
    decide the type of a release. Use it where you may see the data, and check what it says against what you know.

    Args:
        data: The path of a file, or a glob, of whose files the first rows are read.
        rows: How many rows to look at.

    Returns: what they suggest; `look(…).declared` is what `types=` takes.

    Guarantee: none. What comes back depends on single rows.
    """
    from thresher.tables.files import file_engine, matching

    number = check_count(rows, setting="rows")
    files = matching(data)
    engine = file_engine(files)
    columns = guarded("Thresher", lambda: engine.first_rows(files, number))
    held = max((len(texts) for texts in columns.values()), default=0)
    return Look({name: _suggested(texts) for name, texts in columns.items()}, held)


def _suggested(texts: Sequence[str | None]) -> Kind:
    held = [text for text in texts if text is not None and text.strip()]
    fitting = (kind for kind in _SUGGESTED if all(_reads(kind, text) for text in held))
    return next(fitting, "text") if held else "text"


def _reads(kind: Kind, text: str) -> bool:
    # A time could be read as its day.
    return value_as(kind, text) is not None and not (kind == "dates" and ":" in text)
