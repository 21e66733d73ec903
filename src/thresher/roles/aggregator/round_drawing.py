"""From sealed batches to a release, on this machine or wherever a `Drawing` opens reports.

A drawing drops duplicates, opens, counts, thins and thresholds. Where a device sends several sealed pieces, each piece
is one report here: nothing says which came from one device, and each is kept by a coin of its own. A tally holds counts
below the threshold: it stays in memory, its repr says nothing, and only `draw` makes of it something that may be seen.

Memory: a few chunks, the buckets counted so far, one byte a report that marks duplicates, and digests of about
`DIGESTS` reports at once. Batches are read again instead of being held.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from thresher.errors import InvalidFormat
from thresher.mechanism import Randomness, Release, Response, SecureRandomness, binomials, threshold
from thresher.privacy.units import DEVICE
from thresher.privacy.whole_numbers import ONE
from thresher.protocol.configurations import RoundConfiguration
from thresher.protocol.pieces import pieces
from thresher.protocol.plaintext import to_columns
from thresher.protocol.sealing import PrivateKey
from thresher.questions import Bucket
from thresher.roles.aggregator.report_opening import CHUNK, Opening, Workers

DIGESTS = 1 << 18
"""Digests compared at a time: about 15 MB."""

Batches: TypeAlias = Callable[[], Iterable[bytes]]
"""Reads a round's batches from the first to the last, as often as it is called, in the same order."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A release that nobody has seen yet, and how many reports were malformed or came twice."""

    release: Release
    malformed: int
    duplicates: int


class Drawing(Protocol):
    """Opens a round's sealed reports and draws its release.

    A drawing stores no release and deletes none of the aggregator's batches. What it writes while it draws is sealed
    or encrypted, and gone when `draw` returns or raises.
    """

    def draw(
        self, configuration: RoundConfiguration, key: PrivateKey, batches: Batches, reports: int, response: Response
    ) -> Drawn:
        """Draw a new release from the `reports` that the batches hold, at every call.

        The caller has checked the configuration, that the key is its key, and that `reports` is what was announced.
        """

    def recover(self) -> None:
        """Delete what a crash left. Called at every start, before anything is drawn."""

    def close(self) -> None:
        """End what was started to draw."""


class LocalDrawing:
    """On this machine: large rounds with `processes` processes, by default one a core."""

    def __init__(self, processes: int | None = None, randomness: Randomness | None = None) -> None:
        self.workers = Workers(processes)
        self._randomness = randomness

    def draw(
        self, configuration: RoundConfiguration, key: PrivateKey, batches: Batches, reports: int, response: Response
    ) -> Drawn:
        """Tally and draw; see `tally` for the memory it takes."""
        counted = tally(batches, reports, Opening.of(configuration, key), self.workers)
        release = draw(counted.counts, configuration, response, self._randomness)
        return Drawn(release, counted.malformed, counted.duplicates)

    def recover(self) -> None:
        """Nothing to do: nothing is written here."""

    def close(self) -> None:
        """End the processes that open reports."""
        self.workers.close()


@dataclass(frozen=True, slots=True, repr=False)
class Tally:
    """The number of reports for each bucket, and how many reports did not count. Nobody may see the counts."""

    counts: Counter[Bucket]
    malformed: int
    duplicates: int


def count_reports(batches: Batches, size: int) -> int:
    """How many reports the batches hold; one that is not a whole number of reports is `InvalidFormat`."""
    reports = 0
    for blob in batches():
        if len(blob) % size:
            raise InvalidFormat("A batch does not hold a whole number of reports of its round's length.")
        reports += len(blob) // size
    return reports


def tally(batches: Batches, reports: int, opening: Opening, workers: Workers) -> Tally:
    """Open and count every report once: of equal sealed bytes, in whatever batches, only the first counts.

    `reports` is what `count_reports` gave for the batches.
    """
    repeated = duplicates(batches, opening.record, reports)
    counts: Counter[Bucket] = Counter()
    malformed = 0
    for found, broken in workers.open(_chunks(batches, opening.record, repeated), opening, reports):
        counts.update(found)
        malformed += broken
    return Tally(counts, malformed, int(repeated.sum()))


def draw(
    counted: Counter[Bucket],
    configuration: RoundConfiguration,
    response: Response,
    randomness: Randomness | None = None,
) -> Release:
    """Thin counts at the aggregator's rate, drop what is below the threshold, and make the release.

    Guarantee: each report is kept by its own exact coin; at a rate of 1 nothing is drawn here, since devices tossed
    theirs. Columns have the types that the question has, whatever was reported, in an empty release too.
    """
    import pyarrow as pa

    source = SecureRandomness() if randomness is None else randomness
    question, plan = configuration.asked, configuration.planned
    # What is below the threshold cannot reach it by thinning.
    able = {bucket: count for bucket, count in counted.items() if count >= plan.threshold}
    sampled = np.fromiter(able.values(), dtype=np.int64, count=len(able))
    if configuration.aggregator_rate != ONE:
        sampled = binomials(sampled, configuration.aggregator_rate / ONE, source)
    kept = threshold(sampled, plan)
    buckets = [bucket for bucket, keep in zip(able, kept, strict=True) if keep]
    table = pa.table(to_columns(buckets, question), names=list(question.columns))
    return Release.of(
        table, sampled[kept], plan, private=source.private, columns=question.columns, response=response, unit=DEVICE
    )


def duplicates(batches: Batches, size: int, reports: int) -> npt.NDArray[np.bool_]:
    """Which reports, in the order of the batches, have the same bytes as an earlier one.

    Two reports are the same if their digests of 128 bits are. Large rounds are compared in several passes over the
    batches. The last bytes of a report choose its pass, so that equal reports are compared in the same pass.
    Edge cases: last bytes are random, since they are part of a seal. An attacker who makes many reports for one pass
    makes that pass use more memory.
    """
    repeated = np.zeros(reports, dtype=np.bool_)
    passes = max(1, -(-reports // DIGESTS))
    for each in range(passes):
        digests, positions, start = bytearray(), [], 0
        for blob in batches():
            last = _last_words(blob, size)
            mine = np.flatnonzero(last % np.uint64(passes) == each)
            for place in (mine * size).tolist():
                digests += hashlib.blake2b(blob[place : place + size], digest_size=16).digest()
            positions.append(mine + start)
            start += len(last)
        if positions:
            _mark(repeated, np.frombuffer(digests, dtype=np.uint64).reshape(-1, 2), np.concatenate(positions))
    return repeated


def _last_words(blob: bytes, size: int) -> npt.NDArray[np.uint64]:
    """The last eight bytes of every report."""
    rows = np.frombuffer(blob, dtype=np.uint8).reshape(-1, size)
    return np.ascontiguousarray(rows[:, -8:]).view(np.uint64).ravel()


def _mark(repeated: npt.NDArray[np.bool_], digests: npt.NDArray[np.uint64], positions: npt.NDArray[np.intp]) -> None:
    order = np.lexsort((digests[:, 1], digests[:, 0]))  # stable, so the first of equals stays first
    ordered = digests[order]
    again = (ordered[1:] == ordered[:-1]).all(axis=1)
    repeated[positions[order[1:][again]]] = True


def _chunks(batches: Batches, size: int, repeated: npt.NDArray[np.bool_]) -> Iterator[bytes]:
    """The batches in pieces for one process each, without duplicates."""
    position = 0
    for blob in batches():
        for start in range(0, len(blob), CHUNK * size):
            chunk = blob[start : start + CHUNK * size]
            skip = repeated[position : position + len(chunk) // size]
            position += len(skip)
            if skip.any():
                chunk = b"".join(each for each, again in zip(pieces(chunk, size), skip, strict=True) if not again)
            yield chunk
