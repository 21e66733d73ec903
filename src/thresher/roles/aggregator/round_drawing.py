"""Where a round's release is drawn: on this machine, or wherever else somebody's `Drawing` opens reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from thresher.mechanism import Randomness, Release, Response
from thresher.protocol.messages import RoundConfiguration
from thresher.protocol.sealing import PrivateKey
from thresher.roles.aggregator.report_opening import Opening, Workers
from thresher.roles.aggregator.report_tally import Batches, draw, tally


@dataclass(frozen=True, slots=True)
class Drawn:
    """A release that nobody has seen yet, and how many reports did not count."""

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
        """Draw from the `reports` that the batches hold; anew at every call.

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
        release = draw(
            counted.counts,
            configuration.asked,
            configuration.planned,
            configuration.rates,
            response,
            self._randomness,
        )
        return Drawn(release, counted.malformed, counted.duplicates)

    def recover(self) -> None:
        """Nothing to do: nothing is written here."""

    def close(self) -> None:
        """End the processes that open reports."""
        self.workers.close()
