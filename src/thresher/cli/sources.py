"""Where the data of a command comes from, and what is shown while it is read."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

from thresher.errors import InvalidSetting
from thresher.verbs import Progress as Report


@contextlib.contextmanager
def opened(data: str, format: str | None) -> Iterator[str]:
    """The path to read: the one given, or a private copy of standard input that is gone afterwards."""
    if data != "-":
        yield data
        return
    from thresher.tables.files import FORMATS  # loads DuckDB and Arrow, which a verb does anyway

    format = format or "csv"
    if format not in FORMATS:
        raise InvalidSetting("format", f"must be one of {', '.join(FORMATS)}")
    with tempfile.TemporaryDirectory(prefix="thresher-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / f"input.{format}"
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield str(path)


@contextlib.contextmanager
def progress_bar(quiet: bool) -> Iterator[Report | None]:
    """A bar over the reading of files and over rounds, on standard error, where a person is watching."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("reading and counting", total=None)

        def report(done: int, total: int, what: str) -> None:
            bar.update(task, completed=done, total=total, description=what)

        yield report
