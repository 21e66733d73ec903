"""Text files as Arrow streams: cut where records end, and parsed a chunk at a time by several threads.

A record ends at a line feed that is not inside quotes, and nowhere else. Readers that start in the middle of a file and
guess where a record begins can be misled by what one person holds: a long quoted field that looks like rows would
be counted as many rows. Here every chunk begins where the one before it ended.
"""

from __future__ import annotations

import functools
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK = 1 << 20
_QUOTE, _LINE_FEED = ord('"'), ord("\n")
_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}


@contextmanager
def opened(file: str) -> Iterator[tuple[Any, BinaryIO]]:
    """A file's bytes, decompressed, and the file itself, whose position says how far it is read."""
    import pyarrow as pa

    with Path(file).open("rb") as raw:
        codec = _COMPRESSIONS.get(Path(file).suffix.lower())
        yield (raw if codec is None else pa.CompressedInputStream(raw, codec)), raw


def blocks(stream: Any, size: int = CHUNK) -> Iterator[bytes]:
    """What is left of a stream, in blocks of bytes."""
    while block := stream.read(size):
        yield block


def whole_records(blocks: Iterable[bytes], delimiter: str | None = None) -> Iterator[bytes]:
    """The same bytes in chunks of whole records. With a delimiter, a line feed inside a quoted field ends none.

    Edge cases: a record longer than a block makes a chunk as long as itself. The last record may lack its end.
    """
    held: list[bytes] = []
    inside, before = False, _LINE_FEED
    for block in blocks:
        if delimiter is None:
            end = block.rfind(b"\n") + 1
        elif quotes_as_usual(block, delimiter, inside, before):
            end, inside = _last_end(block, inside)
        else:
            # The places of quotes say nothing by their number here: the records are read from the last one's end on.
            block = b"".join([*held, block])
            held = []
            end, inside = _read_to_the_last_end(block, delimiter)
        before = block[-1]
        if end:
            yield b"".join([*held, block[:end]])
            held = []
        held.append(block[end:])
    if rest := b"".join(held):
        yield rest


def quotes_as_usual(block: bytes, delimiter: str, inside: bool = False, before: int = _LINE_FEED) -> bool:
    """Whether every quote that opens a field is at its beginning: then quotes open and close in turn.

    `inside` says whether the block begins inside quotes, and `before` what is before it.
    """
    if b'"' not in block:
        return True
    octets = np.frombuffer(block, np.uint8)
    opening = np.flatnonzero(octets == _QUOTE)[int(inside) :: 2]
    ahead = octets[opening - 1]
    if len(opening) and opening[0] == 0:
        ahead[0] = before
    # A quote after a quote is the second half of one that is doubled inside a field.
    return bool(_before_quotes(delimiter)[ahead].all())


@functools.cache
def _before_quotes(delimiter: str) -> npt.NDArray[np.bool_]:
    """For each byte, whether it may be before a quote that opens a field."""
    usual = np.zeros(256, np.bool_)
    usual[[ord(delimiter), _LINE_FEED, _QUOTE]] = True
    return usual


def _read_to_the_last_end(block: bytes, delimiter: str) -> tuple[int, bool]:
    """The same as `_last_end`, field by field, for what begins where a record does."""
    between = re.escape(delimiter.encode())
    field = re.compile(rb'(?>("[^"]*+(?:""[^"]*+)*+)("?+)[^%b\n]*+|[^%b\n]*+)(?:(\n)|%b)?+' % ((between,) * 3))
    place = end = 0
    while place < len(block):
        found = field.match(block, place)
        assert found is not None
        if found[1] is not None and not found[2]:
            return end, True
        place = found.end()
        end = place if found[3] else end
    return end, False


def first_record(stream: Any, longest: int) -> bytes | None:
    """The first record of a CSV file with its end, or None where it is longer than that."""
    head: bytes = stream.read(longest)
    octets = np.frombuffer(head, np.uint8)
    outside = np.bitwise_xor.accumulate((octets == _QUOTE).astype(np.uint8)) == 0
    ends = np.flatnonzero((octets == _LINE_FEED) & outside)
    if len(ends):
        return head[: int(ends[0]) + 1]
    return head if len(head) < longest else None


def _last_end(block: bytes, inside: bool) -> tuple[int, bool]:
    """The place after the last record's end in a block, or 0, and whether the block ends inside quotes."""
    if not inside and b'"' not in block:
        return block.rfind(b"\n") + 1, False
    octets = np.frombuffer(block, np.uint8)
    quoted = np.bitwise_xor.accumulate((octets == _QUOTE).astype(np.uint8)) ^ inside
    ends = np.flatnonzero((octets == _LINE_FEED) & (quoted == 0))
    return (int(ends[-1]) + 1 if len(ends) else 0), bool(quoted[-1])


class RecordStream:
    """The records of some files as Arrow, as often as it is read.

    `chunks` gives the chunks of an open file, `parse` turns one into rows of `schema`. `share` is how much of the
    files' bytes is read, from 0 to 1.
    """

    def __init__(
        self,
        files: Sequence[str],
        schema: pa.Schema,
        chunks: Callable[[str, Any], Iterator[bytes]],
        parse: Callable[[str, bytes], pa.Table],
    ) -> None:
        self._files = list(files)
        self._schema = schema
        self._chunks = chunks
        self._parse = parse
        self._total = sum(Path(file).stat().st_size for file in files)
        self.share = 0.0

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        import pyarrow as pa

        reader = pa.RecordBatchReader.from_batches(self._schema, self._batches())
        return reader.__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[Any]:
        import pyarrow as pa

        waiting: deque[Future[Any]] = deque()
        with ThreadPoolExecutor(pa.cpu_count(), thread_name_prefix="thresher-parsing") as pool:
            for file, chunk in self._all_chunks():
                waiting.append(pool.submit(self._parse, file, chunk))
                if len(waiting) > 2 * pa.cpu_count():
                    yield from waiting.popleft().result().to_batches()
            while waiting:
                yield from waiting.popleft().result().to_batches()

    def _all_chunks(self) -> Iterator[tuple[str, bytes]]:
        before = 0
        for file in self._files:
            with opened(file) as (stream, raw):
                for chunk in self._chunks(file, stream):
                    self.share = min(1.0, (before + raw.tell()) / max(1, self._total))
                    yield file, chunk
                before += Path(file).stat().st_size
