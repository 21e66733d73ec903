"""Text files as Arrow streams: cut where records end, and parsed a chunk at a time by several threads.

A record ends at a line feed that is not inside quotes, and nowhere else. Readers that start in the middle of a file and
guess where a record begins can be misled by what one person holds: a long quoted field that looks like rows would
be counted as many rows. Here every chunk begins where the one before it ended.
"""

from __future__ import annotations

import enum
import functools
import itertools
import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

CHUNK = 1 << 20
_QUOTE, _LINE_FEED = ord('"'), ord("\n")
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}


class Place(enum.Enum):
    """A position in a field of a CSV file."""

    START = "before its first byte"
    PLAIN = "in a field without quotes, or after its quotes"
    QUOTED = "inside quotes"
    QUOTE = "after a quote inside quotes, which ends them if no other follows"


@contextmanager
def opened(file: str) -> Iterator[tuple[Any, BinaryIO]]:
    """A file's bytes, decompressed, and the file itself, whose position says how far it is read."""
    with Path(file).open("rb") as raw:
        codec = COMPRESSIONS.get(Path(file).suffix.lower())
        yield (raw if codec is None else pa.CompressedInputStream(raw, codec)), raw


def blocks(stream: Any, size: int = CHUNK) -> Iterator[bytes]:
    """What is left of a stream, in blocks of bytes."""
    while block := stream.read(size):
        yield block


def whole_records(blocks: Iterable[bytes], delimiter: str | None = None) -> Iterator[bytes]:
    """The same bytes in chunks of whole records. With a delimiter, a line feed inside a quoted field ends none.

    Guarantee: every byte is looked at once, whatever records hold.
    Edge cases: a record longer than a block makes a chunk as long as itself. The last record may lack its end.
    """
    held: list[bytes] = []
    place = Place.START
    for block in blocks:
        if delimiter is None:
            end = block.rfind(b"\n") + 1
        elif quotes_as_usual(block, delimiter, place):
            end, place = _last_end(block, delimiter, place)
        else:
            # Quotes inside fields do not open and close in turn here: the block is matched field by field.
            end, place = _read_to_the_last_end(block, delimiter, place)
        if end:
            yield b"".join([*held, block[:end]])
            held = []
        held.append(block[end:])
    if rest := b"".join(held):
        yield rest


def quotes_as_usual(block: bytes, delimiter: str, place: Place = Place.START) -> bool:
    """Whether every quote that opens a field is at its beginning: then quotes open and close in turn."""
    if b'"' not in block:
        return True
    octets = np.frombuffer(block, np.uint8)
    opening = np.flatnonzero(octets == _QUOTE)[int(place is Place.QUOTED) :: 2]
    ahead = octets[opening - 1]
    if len(opening) and opening[0] == 0:
        ahead[0] = {Place.START: _LINE_FEED, Place.QUOTE: _QUOTE}.get(place, 0)
    # A quote after a quote is the second half of one that is doubled inside a field.
    return bool(_before_quotes(delimiter)[ahead].all())


@functools.cache
def _before_quotes(delimiter: str) -> npt.NDArray[np.bool_]:
    """For each byte, whether it may be before a quote that opens a field."""
    usual = np.zeros(256, np.bool_)
    usual[[ord(delimiter), _LINE_FEED, _QUOTE]] = True
    return usual


@functools.cache
def _patterns(delimiter: str) -> tuple[re.Pattern[bytes], re.Pattern[bytes], re.Pattern[bytes]]:
    """What is left of a field that is not or no longer in quotes; what is left of one in quotes; and whole fields."""
    between = re.escape(delimiter.encode())
    plain = rb"[^%b\n]*+" % between
    quoted = rb'[^"]*+(?:""[^"]*+)*+'
    ended = rb"(?:%b|(\n))" % between
    fields = rb'(?:(?:"%b"%b|(?!")%b)%b)*+' % (quoted, plain, plain, ended)
    return re.compile(plain + ended), re.compile(quoted), re.compile(fields)


def _read_to_the_last_end(block: bytes, delimiter: str, place: Place) -> tuple[int, Place]:
    """The same as `_last_end`, by matching field after field."""
    rest_of_plain, rest_of_quoted, fields = _patterns(delimiter)
    start = end = 0
    if place is Place.QUOTE and block.startswith(b'"'):
        start, place = 1, Place.QUOTED
    if place is Place.QUOTED:
        start, place = _after_quotes(block, rest_of_quoted, start)
    if place in (Place.PLAIN, Place.QUOTE):
        found = rest_of_plain.match(block, start)
        if found is None:
            return end, place if start == len(block) else Place.PLAIN
        start, end = found.end(), found.end() if found[1] else end
    elif place is Place.QUOTED:
        return end, place
    found = fields.match(block, start)
    assert found is not None
    start, end = found.end(), max(end, found.end(1))
    if start == len(block):
        return end, Place.START
    if block[start] != _QUOTE:
        return end, Place.PLAIN
    start, place = _after_quotes(block, rest_of_quoted, start + 1)
    return end, Place.PLAIN if place is Place.QUOTE and start < len(block) else place


def _after_quotes(block: bytes, rest_of_quoted: re.Pattern[bytes], start: int) -> tuple[int, Place]:
    """Where the quotes around a field end, and whether they do so in this block."""
    found = rest_of_quoted.match(block, start)
    assert found is not None
    return (found.end() + 1, Place.QUOTE) if found.end() < len(block) else (found.end(), Place.QUOTED)


def first_record(stream: Any, longest: int) -> bytes | None:
    """The first record of a CSV file with its end, or None where it is longer than that."""
    head: bytes = stream.read(longest)
    ends, _ = _record_ends(head, inside=False)
    if len(ends):
        return head[: int(ends[0]) + 1]
    return head if len(head) < longest else None


def _last_end(block: bytes, delimiter: str, place: Place) -> tuple[int, Place]:
    """The place after the last record's end in a block, or 0, and where in a field the block ends."""
    inside = place is Place.QUOTED
    if not inside and b'"' not in block:
        return block.rfind(b"\n") + 1, _place(block[-1], delimiter)
    ends, inside = _record_ends(block, inside)
    return (int(ends[-1]) + 1 if len(ends) else 0), Place.QUOTED if inside else _place(block[-1], delimiter)


def _record_ends(block: bytes, inside: bool) -> tuple[npt.NDArray[np.intp], bool]:
    """The places of line feeds outside of quotes, and whether the block ends inside quotes, if it begins so."""
    octets = np.frombuffer(block, np.uint8)
    quoted = np.bitwise_xor.accumulate((octets == _QUOTE).astype(np.uint8)) ^ inside
    return np.flatnonzero((octets == _LINE_FEED) & (quoted == 0)), bool(len(quoted) and quoted[-1])


def _place(last: int, delimiter: str) -> Place:
    """The position in a field after this byte, outside of quotes."""
    if last == _QUOTE:
        return Place.QUOTE
    return Place.START if last in (_LINE_FEED, ord(delimiter)) else Place.PLAIN


class ArrowStream(ABC):
    """Arrow batches that DuckDB can read several times."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    @abstractmethod
    def _batches(self) -> Iterator[Any]:
        """All batches, from the first one."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return pa.RecordBatchReader.from_batches(self._schema, self._batches()).__arrow_c_stream__(requested_schema)


class Parsed(NamedTuple):
    """A chunk's rows, and how many records it has, with those that cannot be read; blank lines are none."""

    rows: pa.Table
    records: int


class RecordStream(ArrowStream):
    """The records of some text files.

    `chunks` gives the chunks of an open file, `parse` turns one into rows of `schema`. `share` is how much of the
    files' bytes is read, from 0 to 1. `records` is how many records the files have, once they have been read to the
    end; None before that.
    """

    def __init__(
        self,
        files: Sequence[str],
        schema: pa.Schema,
        chunks: Callable[[str, Any], Iterator[bytes]],
        parse: Callable[[str, bytes], Parsed],
    ) -> None:
        super().__init__(schema)
        self._files = list(files)
        self._chunks = chunks
        self._parse = parse
        self._total = sum(Path(file).stat().st_size for file in files)
        self.share = 0.0
        self.records: int | None = None

    def first_rows(self, number: int) -> list[tuple[Any, ...]]:
        """The first rows, with their values as Python has them."""
        batches: Iterable[Any] = pa.RecordBatchReader.from_stream(self)
        rows = (row for batch in batches for row in zip(*batch.columns, strict=True))
        return [tuple(value.as_py() for value in row) for row in itertools.islice(rows, number)]

    def _batches(self) -> Iterator[Any]:
        waiting: deque[Future[Parsed]] = deque()
        records = 0
        with ThreadPoolExecutor(pa.cpu_count(), thread_name_prefix="thresher-parsing") as pool:
            for file, chunk in self._all_chunks():
                waiting.append(pool.submit(self._parse, file, chunk))
                if len(waiting) > 2 * pa.cpu_count():
                    parsed = waiting.popleft().result()
                    records += parsed.records
                    yield from parsed.rows.to_batches()
            while waiting:
                parsed = waiting.popleft().result()
                records += parsed.records
                if not waiting:
                    self.records = records
                yield from parsed.rows.to_batches()
        self.records = records

    def _all_chunks(self) -> Iterator[tuple[str, bytes]]:
        before = 0
        for file in self._files:
            with opened(file) as (stream, raw):
                for chunk in self._chunks(file, stream):
                    self.share = min(1.0, (before + raw.tell()) / max(1, self._total))
                    yield file, chunk
                before += Path(file).stat().st_size
