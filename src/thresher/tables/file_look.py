"""An open look at a file: what its first rows suggest about its columns.

This is not private, and nothing else in Thresher does it: what is suggested depends on single rows. It is for whoever
may see the data, to write down `types=` once, before the first question is asked.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thresher.errors import InvalidSetting
from thresher.privacy.settings import check_count
from thresher.questions.spelling import read_boolean, read_date, read_float, read_time, read_whole
from thresher.tables.column_kinds import Kind
from thresher.tables.csv_files import CsvFiles
from thresher.tables.error_guard import guarded
from thresher.tables.files import file_format, matching
from thresher.tables.json_files import line_stream
from thresher.tables.objects import spelled

_READERS: list[tuple[Kind, Callable[[str], Any]]] = [
    ("whole numbers", read_whole),
    ("floats", read_float),
    ("booleans", read_boolean),
    ("dates", lambda text: None if ":" in text else read_date(text)),
    ("times", read_time),
]


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
    number = check_count(rows, setting="rows")
    files = matching(data)
    kind = file_format(files)
    if kind == "parquet":
        raise InvalidSetting(
            "data", "has types of its own", hint="A Parquet file's schema is public and is used as it is."
        )
    columns = guarded(
        "Thresher", lambda: _json(files, number) if kind == "json" else _csv(files, number, kind == "tsv")
    )
    held = max((len(texts) for texts in columns.values()), default=0)
    return Look({name: _suggested(texts) for name, texts in columns.items()}, held)


def _csv(files: Sequence[str], rows: int, tabs: bool) -> dict[str, list[str | None]]:
    csv = CsvFiles(files, tabs=tabs)
    return _first(csv.stream({name: name for name in csv.names}), csv.names, rows)


def _json(files: Sequence[str], rows: int) -> dict[str, list[str | None]]:
    lines = _first(line_stream(files), ["line"], rows)["line"]
    found: dict[str, list[Any]] = {}
    for place, line in enumerate(lines):
        try:
            content = json.loads(line or "")
        except ValueError:
            continue
        for name, value in content.items() if isinstance(content, dict) else ():
            found.setdefault(name, [None] * len(lines))[place] = value
    return {name: spelled(values).to_pylist() for name, values in found.items()}


def _first(stream: Any, names: Sequence[str], rows: int) -> dict[str, list[str | None]]:
    import pyarrow as pa

    batches: Iterable[Any] = pa.RecordBatchReader.from_stream(stream)
    records = itertools.islice((row for batch in batches for row in zip(*batch.columns, strict=True)), rows)
    columns = list(zip(*records, strict=True)) or [()] * len(names)
    return {name: [value.as_py() for value in column] for name, column in zip(names, columns, strict=True)}


def _suggested(texts: Sequence[str | None]) -> Kind:
    held = [text for text in texts if text is not None and text.strip()]
    fitting = (kind for kind, read in _READERS if all(read(text) is not None for text in held))
    return next(fitting, "text") if held else "text"
