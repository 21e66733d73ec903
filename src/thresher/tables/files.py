"""Files and globs: CSV, TSV, JSON lines and Parquet, compressed or not, counted by DuckDB."""

from __future__ import annotations

import copy
import functools
import glob
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from thresher.errors import InvalidSetting
from thresher.questions.population import Progress
from thresher.tables import json_files
from thresher.tables.column_keys import value_names
from thresher.tables.column_kinds import Kind
from thresher.tables.csv_files import CsvFiles
from thresher.tables.duckdb_engine import RelationEngine, connect, disconnect
from thresher.tables.error_guard import guarded
from thresher.tables.parquet_files import ParquetEngine
from thresher.tables.record_stream import RecordStream
from thresher.tables.text_reading import once

_FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
}
_COMPRESSIONS = (".gz", ".zst")


def open_files(location: str | Path, progress: Progress | None = None) -> RelationEngine:
    """The rows of one file, of all files that match a glob, or of the Parquet files below a directory.

    A CSV file has a header line; its delimiter is the first of comma, semicolon, tab and bar that the header holds.
    `progress` is told how far they are read.
    """
    files = matching(location)
    kind = file_format(files)
    connection = connect()
    try:
        return guarded("DuckDB", lambda: _ENGINES[kind](files, connection, progress))
    except BaseException:
        disconnect(connection)
        raise


def matching(location: str | Path) -> list[str]:
    """The files that a path, a glob or a directory of Parquet files stands for."""
    text = str(location)
    path = Path(text)
    if path.is_dir():
        found = sorted(str(file) for file in path.rglob("*.parquet"))
        problem = f"{text!r} is a directory without Parquet files"
    elif path.exists():
        return [text]
    else:
        pattern = any(character in text for character in "*?[")
        found = sorted(glob.glob(text, recursive=True)) if pattern else []  # noqa: PTH207 - patterns may be absolute
        problem = f"{text!r} matches no file" if pattern else f"{text!r} does not exist"
    if not found:
        raise InvalidSetting("data", problem, hint="Give the path of a file, a glob, or a directory of Parquet files.")
    return found


def file_format(files: Sequence[str]) -> str:
    """The one format that these files have by their names: "parquet", "csv", "tsv" or "json"."""
    formats = {_format(file) for file in files}
    if len(formats) > 1:
        raise InvalidSetting("data", "mixes files of several kinds", hint="Give files of one kind.")
    return formats.pop()


def _format(file: str) -> str:
    suffixes = [suffix.lower() for suffix in Path(file).suffixes]
    if suffixes and suffixes[-1] in _COMPRESSIONS:
        suffixes.pop()
    known = _FORMATS.get(suffixes[-1]) if suffixes else None
    if known is None:
        raise InvalidSetting(
            "data",
            f"{file!r} is of a kind that is not known",
            hint=f"Files end in {', '.join(_FORMATS)}, or in these with .gz.",
        )
    return known


class UntypedFiles(RelationEngine):
    """Files whose columns are text; each subclass says how columns are found."""

    def __init__(self, connection: Any, progress: Progress | None) -> None:
        super().__init__(None, connection, progress)
        self._streams: list[RecordStream] = []

    def untyped(self, column: str) -> bool:
        """A text file has no types."""
        return True

    def nested(self, column: str) -> bool:
        """Text has no parts."""
        return False

    def kind(self, column: str) -> Kind | None:
        """Text, or what it is read as."""
        return self._read.get(column, "text")

    def _select(self, wanted: Sequence[str], unit: str | None = None) -> Any:
        named = dict(zip(value_names(len(wanted)), wanted, strict=True))
        if unit is not None:
            named["u"] = unit
        return self._as_read(self._texts(named), named)

    def _texts(self, named: Mapping[str, str]) -> Any:
        """A relation with a column of text for each name, from the column that it stands for."""
        raise NotImplementedError

    def _streamed(self, stream: RecordStream) -> Any:
        self._streams.append(stream)
        return self._own.from_arrow(stream)

    @property
    def _share(self) -> Callable[[], float] | None:
        return lambda: self._streams[-1].share if self._streams else -1.0


class CsvEngine(UntypedFiles):
    """CSV and TSV files. Columns are those of the header, which is public."""

    def __init__(self, files: CsvFiles, connection: Any, progress: Progress | None) -> None:
        super().__init__(connection, progress)
        self._files = files

    def names(self) -> list[str] | None:
        """The header."""
        return self._files.names

    def _texts(self, named: Mapping[str, str]) -> Any:
        places = {column: f"c{place}" for place, column in enumerate(dict.fromkeys(named.values()))}
        relation = self._streamed(self._files.stream(places))
        return relation.project(", ".join(f"{places[column]} AS {name}" for name, column in named.items()))


class JsonEngine(UntypedFiles):
    """JSON lines, or files that are one JSON array each. Only rows could say which keys there are: nobody asks them."""

    def __init__(self, files: Sequence[str], connection: Any, progress: Progress | None) -> None:
        super().__init__(connection, progress)
        self._files = list(files)
        self._by_hand = False

    def names(self) -> list[str] | None:
        """Not known."""
        return None

    def careful(self) -> RelationEngine | None:
        """The same rows, for an array of which a part is not JSON as DuckDB wants it: cut by hand, each read alone."""
        engine = copy.copy(self)
        engine._by_hand = True
        return engine if self._arrays and not self._by_hand else None

    def _texts(self, named: Mapping[str, str]) -> Any:
        values = ", ".join(f"{once(json_files.value_of(column))} AS {name}" for name, column in named.items())
        texts = ", ".join(f"{json_files.text_of(name)} AS {name}" for name in named)
        return self._lines().project(values).project(texts)

    @functools.cached_property
    def _arrays(self) -> list[str]:
        return [file for file in self._files if json_files.is_array(file)]

    def _lines(self) -> Any:
        if self._by_hand or not self._arrays:
            return self._streamed(json_files.line_stream(self._files, self._arrays))
        files = ", ".join("'" + glob.escape(file).replace("'", "''") + "'" for file in self._arrays)
        elements = self._own.sql(
            f"SELECT CAST(json AS VARCHAR) AS {json_files.LINE} FROM "  # noqa: S608 - names of files, quoted
            f"read_json_objects([{files}], format = 'array', maximum_object_size = {json_files.LARGEST_OBJECT})"
        )
        others = [file for file in self._files if file not in self._arrays]
        return elements.union(self._streamed(json_files.line_stream(others))) if others else elements


_ENGINES: dict[str, Callable[[Sequence[str], Any, Progress | None], RelationEngine]] = {
    "parquet": ParquetEngine,
    "csv": lambda files, connection, progress: CsvEngine(CsvFiles(files, tabs=False), connection, progress),
    "tsv": lambda files, connection, progress: CsvEngine(CsvFiles(files, tabs=True), connection, progress),
    "json": JsonEngine,
}
