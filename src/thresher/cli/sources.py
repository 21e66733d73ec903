"""Where the data of a command comes from."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from thresher.cli.options import FORMATS
from thresher.errors import InvalidSetting


@contextlib.contextmanager
def opened(data: str, format: str | None) -> Iterator[str]:
    """The path to read: the one given, or a private copy of standard input that is gone afterwards."""
    if data != "-":
        yield data
        return
    format = format or "csv"
    if format not in FORMATS:
        raise InvalidSetting("format", f"must be one of {', '.join(FORMATS)}")
    with tempfile.TemporaryDirectory(prefix="thresher-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / f"standard-input.{format}"
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield str(path)
