"""Files and globs, read by DuckDB: CSV, TSV, JSON lines and Parquet, compressed or not."""

from __future__ import annotations

import csv
import glob
import gzip
from pathlib import Path
from typing import Any

from thresher.analytics.rounds import Progress
from thresher.errors import InvalidSetting
from thresher.populations.duckdb_engine import RelationEngine, connect, disconnect
from thresher.populations.guarding import guarded
from thresher.populations.kinds import check_distinct

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
_DELIMITERS = (",", ";", "\t", "|")


def open_files(location: str | Path, progress: Progress | None = None) -> RelationEngine:
    """The rows of one file, of all files that match a glob, or of the Parquet files below a directory.

    A CSV file has a header line; its delimiter is the first of comma, semicolon, tab and bar that the header holds.
    `progress` is told how far they are read.
    """
    files = _matching(location)
    connection = connect()
    try:
        return RelationEngine(guarded("DuckDB", lambda: _relation(connection, files)), connection, progress)
    except BaseException:
        disconnect(connection)
        raise


def _matching(location: str | Path) -> list[str]:
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


def _relation(connection: Any, files: list[str]) -> Any:
    formats = {_format(file) for file in files}
    if len(formats) > 1:
        raise InvalidSetting("data", "mixes files of several kinds", hint="Give files of one kind.")
    (kind,) = formats
    # DuckDB would expand these characters a second time.
    literal = [glob.escape(file) for file in files]
    if kind == "parquet":
        import pyarrow.parquet as pq

        check_distinct(pq.read_schema(files[0]).names)
        return connection.read_parquet(literal)
    if kind == "json":
        return connection.read_json(literal)
    header = _header(files[0])
    held = [delimiter for delimiter in _DELIMITERS if header is not None and delimiter in header]
    delimiter = "\t" if kind == "tsv" else (held or [","])[0]
    if header is not None:
        check_distinct(next(csv.reader([header], delimiter=delimiter), []))
    return connection.read_csv(
        literal,
        header=True,
        delimiter=delimiter,
        quotechar='"',
        escapechar='"',
        null_padding=False,
        strict_mode=True,
        skiprows=0,
    )


def _header(file: str) -> str | None:
    """The first line of a CSV file, or None where only DuckDB can read it."""
    if file.endswith(".zst"):
        return None
    with gzip.open(file, "rb") if file.endswith(".gz") else Path(file).open("rb") as stream:
        return stream.readline(1 << 20).decode("utf-8-sig", errors="replace").rstrip("\r\n")
