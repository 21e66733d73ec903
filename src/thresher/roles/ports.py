"""What the roles may ask of one another. In one process these are the roles themselves; across machines, HTTP clients.

Every method may be called again with the same arguments, after a crash or a lost answer, and changes nothing then.
A role that cannot be reached raises `ServerUnavailable` or `StoreUnavailable`; the caller keeps its state and tries
again later.
"""

from __future__ import annotations

from typing import Protocol

from thresher.mechanism.response import Response, RoundNumbers
from thresher.protocol.messages import RoundConfiguration


class PublicKeyPort(Protocol):
    """The aggregator's key as devices get it."""

    @property
    def key_id(self) -> str:
        """Its name."""
        ...

    @property
    def raw(self) -> bytes:
        """Its 32 bytes."""
        ...


class OverviewPort(Protocol):
    """The fleet at a glance, as the collector knows it."""

    @property
    def enrolled(self) -> int:
        """Devices enrolled."""
        ...

    @property
    def active(self) -> int:
        """Devices that enrolled or checked in during the last day."""
        ...

    @property
    def check_ins(self) -> list[tuple[float, int]]:
        """Devices that checked in, by hour of the last day."""
        ...


class CollectorPort(Protocol):
    """What the coordinator asks of the collector."""

    def open(self, configuration: RoundConfiguration, target: int | None = None) -> None:
        """Show a round to devices from now until its deadline. Another configuration under its name is a `Conflict`."""
        ...

    def progress(self, round: str) -> RoundNumbers:
        """A round's numbers so far; `NotFound` for one that was never opened."""
        ...

    def close(self, round: str) -> RoundNumbers:
        """Take no more reports; the numbers are final. `NotFound` for a round that was never opened."""
        ...

    def forward(self, round: str) -> int:
        """Hand all reports of a closed round to the aggregator in shuffled batches; how many batches there are."""
        ...

    def forget(self, round: str) -> None:
        """Delete all that is left of a round's reports; nothing to do for an unknown round."""
        ...

    def overview(self) -> OverviewPort:
        """Devices enrolled and active."""
        ...


class AggregatorPort(Protocol):
    """What collector and coordinator ask of the aggregator."""

    def public_key(self) -> PublicKeyPort:
        """The key that new rounds are sealed to."""
        ...

    def add_batch(self, round: str, number: int, blob: bytes) -> None:
        """Store one batch durably; another batch under the same number is a `Conflict`."""
        ...

    def release(self, configuration: RoundConfiguration, batches: int, response: Response) -> str:
        """Open, count, thin, threshold; the release as `Release.to_json` writes it. Drawn once, then only returned."""
        ...

    def forget(self, round: str) -> None:
        """Delete all that is left of a round's reports; nothing to do for an unknown round."""
        ...
