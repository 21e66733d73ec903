"""Opening sealed reports, on all cores.

What a report says is in memory only: in the process that opened it and in the one that asked for it. An error while
opening is replaced by one without its message and its context, since both might quote a report.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import TypeAlias

from thresher.errors import InvalidFormat, ServerUnavailable
from thresher.protocol.configurations import RoundConfiguration
from thresher.protocol.pieces import piece_size, pieces
from thresher.protocol.plaintext import DECOY, decode_payload, payload
from thresher.protocol.sealing import PrivateKey, open_sealed
from thresher.questions import Bucket, Question
from thresher.roles.aggregator.processes import end_with_parent

CHUNK = 4096
"""Reports that a process opens at a time: about a fifth of a second."""
SMALL = 20_000
"""Rounds of fewer reports are opened in this process: a second or so, less than it takes to start others."""


@dataclass(frozen=True, slots=True, repr=False)
class Opening:
    """What a process needs to open a round's reports."""

    key_id: str
    private_key: bytes
    info: bytes
    question: Question
    bucket_size: int

    @classmethod
    def of(cls, configuration: RoundConfiguration, key: PrivateKey) -> Opening:
        """For a round whose reports are sealed to this key."""
        return cls(
            key.key_id,
            key.to_bytes(),
            configuration.hash,
            configuration.asked,
            configuration.bucket_size,
        )

    @property
    def record(self) -> int:
        """Bytes of a sealed piece; all pieces of a round have the same length."""
        return piece_size(self.bucket_size)


Opened: TypeAlias = tuple[Counter[Bucket], int]
"""The number of reports for each bucket, without decoys; and how many were malformed. A tally: nobody may see it."""


def open_reports(reports: Iterable[bytes], opening: Opening) -> Opened:
    """Open and count some reports; decoys are dropped, malformed reports are dropped and counted.

    Edge cases: a report that was sealed under another configuration or to another key is malformed. An error names the
    class of what happened and nothing else.
    """
    try:
        return _opened(reports, opening)
    except Exception as error:
        kind = type(error).__name__
    # Raised outside of the except block, so that the first error is not the context of this one.
    raise InvalidFormat(
        f"Reports could not be opened: {kind}.", hint="The message is withheld, since it may quote a report."
    )


def _opened(reports: Iterable[bytes], opening: Opening) -> Opened:
    key = PrivateKey.from_bytes(opening.key_id, opening.private_key)
    payloads: Counter[bytes] = Counter()
    malformed = 0
    for sealed in reports:
        try:
            payloads[payload(open_sealed(sealed, key, opening.info))] += 1
        except InvalidFormat:
            malformed += 1
    buckets: Counter[Bucket] = Counter()
    for found, count in payloads.items():
        try:
            bucket = decode_payload(found, opening.question)
        except InvalidFormat:
            malformed += count
        else:
            if bucket is not DECOY:
                buckets[bucket] += count
    return buckets, malformed


def open_chunk(chunk: bytes, opening: Opening) -> Opened:
    """Open a piece of a batch."""
    return open_reports(pieces(chunk, opening.record), opening)


class Workers:
    """Processes that open reports, started when a large round first needs them and kept for the next.

    `processes` is how many; by default one a core. With 1, everything is opened in this process.
    """

    def __init__(self, processes: int | None = None) -> None:
        self._processes = processes or len(os.sched_getaffinity(0))
        self._lock = threading.Lock()
        self._pool: ProcessPoolExecutor | None = None

    def open(self, chunks: Iterable[bytes], opening: Opening, reports: int) -> Iterator[Opened]:
        """Open chunks, in order; at most a few of them are held at a time.

        Edge cases: a lost process is `ServerUnavailable`; the next call starts new ones.
        """
        if reports < SMALL or self._processes == 1:
            yield from (open_chunk(chunk, opening) for chunk in chunks)
            return
        pool = self._running()
        waiting: deque[Future[Opened]] = deque()
        remaining = iter(chunks)
        try:
            while True:
                ahead = 2 * self._processes - len(waiting)
                waiting.extend(pool.submit(open_chunk, each, opening) for each in itertools.islice(remaining, ahead))
                if not waiting:
                    return
                yield waiting.popleft().result()
        except BrokenProcessPool:
            self.close()
        finally:
            for future in waiting:
                future.cancel()
        raise ServerUnavailable("A process that opens reports was lost.", hint="Try again; nothing was released.")

    def _running(self) -> ProcessPoolExecutor:
        with self._lock:
            if self._pool is None:
                # Not forked: the server has threads, and a fork would copy their locks and all memory.
                context = multiprocessing.get_context("spawn")
                self._pool = ProcessPoolExecutor(self._processes, context, initializer=end_with_parent)
            return self._pool

    def close(self) -> None:
        """End the processes."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(cancel_futures=True)
