"""Files and globs: CSV, TSV, JSON lines and Parquet, compressed or not, counted by DuckDB."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path

from thresher.errors import InvalidSetting
from thresher.questions.population import Progress
from thresher.tables.csv_files import CsvEngine, TsvEngine
from thresher.tables.duckdb_connection import connect, disconnect
from thresher.tables.engine import Engine
from thresher.tables.error_guard import guarded
from thresher.tables.file_engine import FileEngine
from thresher.tables.json_files import JsonEngine
from thresher.tables.parquet_files import ParquetEngine
from thresher.tables.record_stream import COMPRESSIONS

FILE_ENGINES: tuple[type[FileEngine], ...] = (ParquetEngine, CsvEngine, TsvEngine, JsonEngine)
"""The engines of files; each says in `suffixes` how their names end."""


def open_files(location: str | Path, progress: Progress | None = None) -> Engine:
    """The rows of one file, of all files that match a glob, or of the Parquet files below a directory.

    A CSV file has a header line; its delimiter is the first of comma, semicolon, tab and bar that the header holds.
    `progress` is called while they are read.
    """
    files = matching(location)
    engine = file_engine(files)
    connection = connect()
    try:
        return guarded("DuckDB", lambda: engine(files, connection, progress))
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


def file_engine(files: Sequence[str]) -> type[FileEngine]:
    """The one engine that these files have by their names."""
    engines = {_engine(file) for file in files}
    if len(engines) > 1:
        raise InvalidSetting("data", "mixes files of several kinds", hint="Give files of one kind.")
    return engines.pop()


def _engine(file: str) -> type[FileEngine]:
    suffixes = [suffix.lower() for suffix in Path(file).suffixes]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    for engine in FILE_ENGINES:
        if suffixes and suffixes[-1] in engine.suffixes:
            return engine
    known = ", ".join(suffix for engine in FILE_ENGINES for suffix in engine.suffixes)
    raise InvalidSetting(
        "data", f"{file!r} is of a kind that is not known", hint=f"Files end in {known}, or in these with .gz."
    )
