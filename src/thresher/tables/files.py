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
from thresher.tables.file_heads import check_foreign
from thresher.tables.json_files import JsonEngine, has_lines
from thresher.tables.parquet_files import ParquetEngine
from thresher.tables.record_stream import COMPRESSIONS

FILE_ENGINES: tuple[type[FileEngine], ...] = (ParquetEngine, CsvEngine, TsvEngine, JsonEngine)
"""The engines of files; each says in `suffixes` how their names end."""


FORMATS = tuple(suffix.removeprefix(".") for engine in FILE_ENGINES for suffix in engine.suffixes)
"""What `format=` may say of files whose names do not."""


def open_files(location: str | Path, progress: Progress | None = None, format: str | None = None) -> Engine:
    """The rows of one file, of all files that match a glob, or of all Parquet files below a directory, however deep.

    A CSV file has a header line; its delimiter is the first of comma, semicolon, tab and bar that the header holds.
    `progress` is called while they are read. `format` says what they are, whatever their names are.
    """
    files = matching(location)
    engine = file_engine(files, format)
    connection = connect()
    try:
        return guarded("DuckDB", lambda: engine(files, connection, progress))
    except BaseException:
        disconnect(connection)
        raise


def matching(location: str | Path) -> list[str]:
    """The files that a path, a glob or a directory of Parquet files, with its subdirectories, stands for.

    Edge cases: an empty name is refused; to Python it would be the current directory.
    """
    text = str(location)
    if not text.strip():
        raise InvalidSetting("data", "is an empty name", hint="Give the path of a file. `.` is the current directory.")
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
        raise InvalidSetting(
            "data", problem, hint="Give the path of a file, a glob, or a directory with Parquet files below it."
        )
    return found


def file_engine(files: Sequence[str], format: str | None = None) -> type[FileEngine]:
    """The one engine that these files have by a format, or by their names."""
    if format is not None:
        if format not in FORMATS:
            raise InvalidSetting("format", f"must be one of {', '.join(FORMATS)}")
        return next(engine for engine in FILE_ENGINES if f".{format}" in engine.suffixes)
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
    check_foreign(file, lambda: has_lines(file))  # what cannot be read, whatever format is named
    raise InvalidSetting(
        "data",
        f"{file!r} has a name that does not say what it is",
        hint="Say it: `format='csv'` or `format='jsonl'`. Or let the name end in "
        f"{', '.join(f'.{each}' for each in FORMATS)}, also with .gz or .zst.",
    )
