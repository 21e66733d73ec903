"""Engines of files. Text files (CSV, JSON lines) have columns without types, which are text."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from thresher.questions.population import Progress
from thresher.tables.column_kinds import Kind, look_like_values
from thresher.tables.duckdb_engine import RelationEngine
from thresher.tables.record_stream import RecordStream


class FileEngine(RelationEngine):
    """Files of one format, read on a connection of our own."""

    suffixes: ClassVar[tuple[str, ...]]
    """How the names of such files end."""
    has_header: ClassVar[bool] = False
    """Whether the columns' names are what stands in a file's first line."""

    def __init__(self, files: Sequence[str], connection: Any, progress: Progress | None) -> None:
        super().__init__(None, connection, progress)
        self._files = list(files)

    @property
    def seems_headless(self) -> bool:
        """Whether what should be a header looks like data."""
        return self.has_header and look_like_values(self.names() or [])

    def _place(self, file: str, what: str) -> str:
        """What a place in a file is called, with the file's name where there are several."""
        return what if len(self._files) == 1 else f"{Path(file).name}, {what}"

    @classmethod
    @abstractmethod
    def first_rows(cls, files: Sequence[str], number: int) -> dict[str, list[str | None]]:
        """The first rows, as columns of text, for `look`. This is not private."""


class TextFileEngine(FileEngine):
    """Files whose columns are text; each subclass says how columns are found."""

    def __init__(self, files: Sequence[str], connection: Any, progress: Progress | None) -> None:
        super().__init__(files, connection, progress)
        self._streams: list[RecordStream] = []
        self._share = lambda: self._streams[-1].share if self._streams else -1.0

    def untyped(self, column: str) -> bool:
        """A text file has no types."""
        return True

    def size(self) -> int | None:
        """How many records there are, as the last pass over the files has found."""
        return self._streams[-1].records if self._streams else None

    def nested(self, column: str) -> bool:
        """Text has no parts."""
        return False

    def _stored_kind(self, column: str) -> Kind | None:
        return "text"

    def _streamed(self, stream: RecordStream) -> Any:
        self._streams.append(stream)
        return self._own.from_arrow(stream)
