"""What a shell completes after an option: words to choose from, files, and the columns of the file that is asked.

Columns come from a CSV file's header or a Parquet file's schema, which are public; no row is read. A header that looks
like data may be a person's: nothing of it is offered.
"""

from __future__ import annotations

import glob
import os
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path


def among(words: Iterable[str]) -> Callable[[str], list[str]]:
    """Completes one of a few words."""
    known = tuple(words)

    def complete(incomplete: str) -> list[str]:
        return [word for word in known if word.startswith(incomplete)]

    return complete


def files(incomplete: str) -> list[str]:
    """Files and directories: shells that ask a command for every word do not add them."""
    found = sorted(glob.glob(f"{glob.escape(incomplete)}*"))  # noqa: PTH207  as it was typed, with ./ if it was there
    return [f"{path}/" if Path(path).is_dir() else path for path in found]


def columns(incomplete: str) -> list[str]:
    """The columns of the command's file; none where it is not a CSV, TSV or Parquet file that can be read.

    The file is looked for in the words that the shell hands over: of a line that ends in an option without its value,
    Typer reads no arguments.
    """
    words = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS", "")
    return among(next(filter(None, map(_names, _split(words))), []))(incomplete)


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:  # a quotation that is not finished
        return line.split()


def _names(pattern: str) -> list[str]:
    path = next(iter(sorted(glob.glob(pattern))), "")  # noqa: PTH207
    try:
        if {".csv", ".tsv"} & set(Path(path).suffixes):
            from thresher.tables.column_kinds import look_like_values
            from thresher.tables.csv_files import read_header

            names = list(read_header(path, tabs=".tsv" in path).names)
            return [] if look_like_values(names) else names
        if path.endswith(".parquet"):
            from pyarrow.parquet import read_schema

            return list(map(str, read_schema(path).names))
    except Exception:  # whatever is wrong with the file: the command says it, and not the shell while somebody types
        return []
    return []
