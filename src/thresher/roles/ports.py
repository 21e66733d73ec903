"""What the roles may ask of one another. In one process these are the roles themselves; across machines, HTTP clients.

Every method may be called again with the same arguments, after a crash or a lost answer, and changes nothing then.
A role that cannot be reached raises `ServerUnavailable` or `StoreUnavailable`; the caller keeps its state and tries
again later. To *forget* a round is to delete its reports and to overwrite their pages.
"""

from __future__ import annotations

from typing import Protocol

from thresher.mechanism.response import Response, RoundNumbers
from thresher.protocol.configurations import RoundConfiguration
from thresher.protocol.sealing import PublicKey
from thresher.roles.collector.enrolment import Overview


class CollectorPort(Protocol):
    """What the coordinator asks of the collector."""

    def open(self, configuration: RoundConfiguration, target: int | None = None) -> None:
        """Show a round to devices from now until its deadline. Another configuration under its name is a `Conflict`."""
        ...

    def progress(self, round: str) -> RoundNumbers:
        """A round's numbers so far; `NotFound` for one that was never opened."""
        ...

    def waited_for(self, round: str) -> int:
        """Devices active in the last day that have not checked in while the round was open, or have yet to complete it.

        Guarantee: depends on who visited, and not on what anybody holds. `NotFound` for a round that never opened.
        """
        ...

    def close(self, round: str) -> RoundNumbers:
        """Take no more reports; the numbers are final. `NotFound` for a round that was never opened."""
        ...

    def forward(self, round: str) -> int:
        """Hand all reports of a closed round to the aggregator in shuffled batches; how many batches there are."""
        ...

    def forget(self, round: str) -> None:
        """Forget a round's reports; nothing to do for an unknown round."""
        ...

    def overview(self) -> Overview:
        """Devices enrolled and active."""
        ...


class BatchTaker(Protocol):
    """What the collector asks of the aggregator."""

    def add_batch(self, round: str, number: int, blob: bytes) -> None:
        """Store one batch durably; another batch under the same number is a `Conflict`."""
        ...


class AggregatorPort(BatchTaker, Protocol):
    """What collector and coordinator ask of the aggregator."""

    def public_key(self) -> PublicKey:
        """The key that new rounds are sealed to."""
        ...

    def release(self, configuration: RoundConfiguration, batches: int, response: Response) -> str:
        """Open, count, thin, threshold; the release as `Release.to_json` writes it. Drawn once, then only returned."""
        ...

    def forget(self, round: str) -> None:
        """Forget a round's reports; nothing to do for an unknown round."""
        ...
