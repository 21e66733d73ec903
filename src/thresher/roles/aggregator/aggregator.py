"""The aggregator: opens a round's reports, counts, thins, thresholds, stores the release once, and forgets.

It never learns who sent a report: batches come from the collector without identities and in a random order.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from thresher.errors import Conflict, InvalidFormat, StoreUnavailable
from thresher.mechanism import Response
from thresher.protocol.configurations import RoundConfiguration
from thresher.protocol.pieces import piece_size
from thresher.protocol.recomputation import check_configuration
from thresher.protocol.sealing import PublicKey
from thresher.roles.aggregator.keys import KeyRing
from thresher.roles.aggregator.round_drawing import Drawing, count_reports
from thresher.tables.error_guard import emptied

if TYPE_CHECKING:
    from thresher.roles.aggregator.store import AggregatorStore


@dataclass(frozen=True, slots=True)
class Totals:
    """Numbers for the operator, since the start: nothing in them depends on what an honest device holds."""

    releases: int = 0
    malformed: int = 0
    duplicates: int = 0


class Aggregator:
    """The role as a plain class; every method may be called again with the same arguments.

    Guarantee: a release is drawn once. It is stored together with the mark that its reports are to be forgotten, in one
    transaction, before anybody sees it; later calls return the stored one. Then the reports are forgotten.
    `drawing` is where rounds are opened, such as `LocalDrawing`.
    """

    def __init__(self, store: AggregatorStore, keys: KeyRing, drawing: Drawing) -> None:
        self._store = store
        self._keys = keys
        self._drawing = drawing
        # One round at a time: each uses all cores, and a second call for the same round waits for the first one's draw.
        self._lock = threading.Lock()
        self._totals = Totals()

    def public_key(self) -> PublicKey:
        """The key that new rounds are sealed to."""
        return self._keys.current()

    def rotate(self) -> PublicKey:
        """A new key for the rounds to come."""
        return self._keys.rotate()

    def retire_keys(self, in_use: Collection[str]) -> list[str]:
        """Delete the private halves of old keys that no round needs; returns their ids."""
        return self._keys.retire(in_use)

    def totals(self) -> Totals:
        """Numbers for the operator's metrics."""
        return self._totals

    def dropped(self) -> tuple[int, int]:
        """How many reports of all rounds were malformed, and how many came twice; for the operator."""
        return self._store.dropped()

    def add_batch(self, round: str, number: int, blob: bytes) -> None:
        """Store one batch durably: sealed reports of one length, one after another.

        Edge cases: the same batch again changes nothing; another one under its number is a `Conflict`.
        """
        self._store.add_batch(round, number, hashlib.sha256(blob).digest(), blob)

    def release(self, configuration: RoundConfiguration, batches: int, response: Response) -> str:
        """The round's release as `Release.to_json` writes it: drawn by the first call, returned by all.

        Edge cases: `Conflict` before all batches and reports that were announced have arrived, for more than that, and
        for another configuration than the one first seen; `InvalidFormat` for a configuration that does not hold
        together. Nothing is drawn then.
        """
        _, _, rates = check_configuration(configuration)
        if response.rates != rates:
            raise InvalidFormat("The response states other rates than the round's configuration.")
        with self._lock:
            self._store.open_round(configuration.round, configuration.hash)
            stored = self._store.release(configuration.round)
            if stored is None:
                with emptied():
                    stored = self._draw(configuration, batches, response)
            # The release stands, whether or not its reports can be forgotten now; `recover` forgets them later.
            with suppress(StoreUnavailable):
                self._forget_marked()
            return stored

    def forget(self, round: str) -> None:
        """Delete a round's reports, unread if it has no release, and overwrite their pages."""
        with self._lock:
            self._store.forget(round)

    def recover(self) -> None:
        """Finish what a crash left: forget the reports of rounds that have their release. Call it at every start."""
        with self._lock:
            self._drawing.recover()
            self._forget_marked()

    def close(self) -> None:
        """End what opens reports."""
        self._drawing.close()

    def _forget_marked(self) -> None:
        for round in self._store.rounds_to_forget():
            self._store.forget(round)

    def _draw(self, configuration: RoundConfiguration, batches: int, response: Response) -> str:
        key = self._keys.get(configuration.key_id)
        if key.public.raw.hex() != configuration.public_key:
            raise InvalidFormat("The round's configuration names a key of this aggregator with another public half.")
        numbers = self._store.batch_numbers(configuration.round)

        def read() -> Iterator[bytes]:
            return (self._store.batch(configuration.round, number) for number in numbers)

        reports = count_reports(read, piece_size(configuration.bucket_size))
        expected = response.completed * configuration.planned.contributions
        if len(numbers) != batches or reports != expected:
            raise Conflict(
                "The batches that have arrived are not those that were announced.",
                hint="Forward the round again, then ask again.",
            )
        drawn = self._drawing.draw(configuration, key, read, reports, response)
        stored = self._store.store_release(
            configuration.round, drawn.release.to_json(), malformed=drawn.malformed, duplicates=drawn.duplicates
        )
        self._totals = Totals(
            releases=self._totals.releases + 1,
            malformed=self._totals.malformed + drawn.malformed,
            duplicates=self._totals.duplicates + drawn.duplicates,
        )
        return stored
