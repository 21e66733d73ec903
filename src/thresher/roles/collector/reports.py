"""What the collector does most often within a round: toss contact coins and take reports, many in one transaction."""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from thresher.protocol.pieces import pieces
from thresher.protocol.states import CollectedState
from thresher.roles.database.database import Transaction
from thresher.roles.database.schema import round_table

Toss = Callable[[int, int], Sequence[bool]]
"""`toss(numerator, number)` returns that number of coins, each true with probability numerator ÷ 2^32."""

_DIGEST_BYTES = 16


class Outcome(Enum):
    """What became of a report."""

    ACCEPTED = "accepted"
    AGAIN = "again"
    """The same bytes were accepted before."""
    CONFLICT = "conflict"
    """Other bytes were accepted before."""
    CLOSED = "closed"
    NOT_CONTACTED = "not-contacted"
    UNKNOWN_ROUND = "unknown-round"
    WRONG_SIZE = "wrong-size"
    """The report has another length than all reports of its round: not so many pieces, or pieces of another size."""


@dataclass(frozen=True, slots=True)
class NewReport:
    """A sealed report as a device hands it in: one piece, or several of one length, one after another."""

    device: str
    sealed: bytes


@dataclass(frozen=True, slots=True)
class VisitedRound:
    """A round as visits need it. `is_open` says that it takes reports now."""

    round: str
    number: int
    state: CollectedState
    contact_numerator: int
    sealed_size: int
    """Bytes of one piece; a report has as many pieces as the round has contributions."""
    contributions: int
    is_open: bool

    @property
    def report_size(self) -> int:
        """Bytes of a report."""
        return self.contributions * self.sealed_size


@dataclass(frozen=True, slots=True)
class NewVisit:
    """One request of a device: the reports that it hands in, and whether it wants to know its rounds."""

    device: str
    reports: Sequence[tuple[str, bytes]] = ()
    """Each round's name and sealed report."""
    rounds: bool = True


@dataclass(frozen=True, slots=True)
class Visited:
    """What became of each report of a visit, and the rounds that the device is to answer."""

    outcomes: tuple[Outcome, ...]
    rounds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Contacted:
    """Devices that are to answer a round, and how many were asked and chosen for the first time."""

    waiting: list[str]
    asked: int
    chosen: int


def contact(transaction: Transaction, number: int, numerator: int, devices: Sequence[str], toss: Toss) -> Contacted:
    """Toss the coins that are missing; the devices that were chosen for a round and have not answered.

    Guarantee: when two processes toss a device's coin at the same time, both use the one that was stored first.
    `devices` are distinct and sorted, so that all processes lock rows in the same order.
    """
    contacts, reports = round_table("contacts", number), round_table("reports", number)
    known = (
        f"SELECT given.device, chosen AND {reports}.device IS NULL FROM given "  # noqa: S608
        f"JOIN {contacts} ON {contacts}.device = given.device "
        f"LEFT JOIN {reports} ON {reports}.device = given.device"
    )
    waiting: dict[str, bool] = dict(
        transaction.fetch_given(known, {"device": "TEXT"}, [(device,) for device in devices])
    )
    missing = [device for device in devices if device not in waiting]
    coins = toss(numerator, len(missing)) if missing else []
    inserted: dict[str, bool] = dict(
        transaction.fetch_given(
            f"INSERT INTO {contacts} (device, chosen) SELECT device, chosen FROM given "  # noqa: S608
            "WHERE true ORDER BY device ON CONFLICT (device) DO NOTHING RETURNING device, chosen",
            {"device": "TEXT", "chosen": "BOOLEAN"},
            [(device, bool(coin)) for device, coin in zip(missing, coins, strict=True)],
        )
    )
    waiting |= inserted
    lost = [(device,) for device in missing if device not in inserted]
    waiting |= dict(transaction.fetch_given(known, {"device": "TEXT"}, lost))
    return Contacted(
        [device for device in devices if waiting[device]], len(inserted), sum(map(bool, inserted.values()))
    )


def accept_reports(
    transaction: Transaction, round: VisitedRound, reports: Sequence[NewReport]
) -> tuple[list[Outcome], set[str], set[str]]:
    """Take the reports of one round; what became of each, whose were taken, and which devices have no coin in it."""
    if round.state in (CollectedState.FORGETTING, CollectedState.FORGOTTEN):
        return [Outcome.CLOSED] * len(reports), set(), set()
    digests = [hashlib.sha256(report.sealed).digest()[:_DIGEST_BYTES] for report in reports]
    taken = _take(transaction, round, reports, digests) if round.is_open else {}
    known: dict[str, tuple[bool, bytes | None]] = {device: (True, digests[place]) for device, place in taken.items()}
    known |= _stored(transaction, round.number, sorted({report.device for report in reports} - taken.keys()))
    outcomes = []
    for place, report in enumerate(reports):
        chosen, digest = known.get(report.device, (False, None))
        if taken.get(report.device) == place:
            outcome = Outcome.ACCEPTED
        elif digest == digests[place]:
            outcome = Outcome.AGAIN
        elif not round.is_open:
            outcome = Outcome.CLOSED
        elif len(report.sealed) != round.report_size:
            outcome = Outcome.WRONG_SIZE
        else:
            outcome = Outcome.CONFLICT if chosen else Outcome.NOT_CONTACTED
        outcomes.append(outcome)
    return outcomes, set(taken), {report.device for report in reports} - known.keys()


def _take(
    transaction: Transaction, round: VisitedRound, reports: Sequence[NewReport], digests: Sequence[bytes]
) -> dict[str, int]:
    """Store the first report of each device that was chosen and has none yet; where in `reports` it is.

    Guarantee: each piece gets a secret number of its own, so that nothing says which pieces came together.
    """
    first: dict[str, int] = {}
    for place, report in enumerate(reports):
        if len(report.sealed) == round.report_size:
            first.setdefault(report.device, place)
    contacts, stored = round_table("contacts", round.number), round_table("reports", round.number)
    inserted = transaction.fetch_given(
        f"INSERT INTO {stored} (device, digest) SELECT given.device, given.digest FROM given "  # noqa: S608
        f"JOIN {contacts} ON {contacts}.device = given.device WHERE chosen ORDER BY given.device "
        "ON CONFLICT (device) DO NOTHING RETURNING device",
        {"device": "TEXT", "digest": "BYTEA"},
        [(device, digests[place]) for device, place in sorted(first.items())],
    )
    taken = {device: first[device] for (device,) in inserted}
    apart = [piece for place in taken.values() for piece in pieces(reports[place].sealed, round.sealed_size)]
    # Batches are ordered by secret numbers of 63 bits: they fit a signed column, and two are hardly ever equal.
    numbers = struct.unpack(f"={len(apart)}Q", os.urandom(8 * len(apart)))
    sealed = [(secret >> 1, piece) for secret, piece in zip(numbers, apart, strict=True)]
    transaction.execute_given(
        f"INSERT INTO {round_table('sealed', round.number)} (position, sealed) SELECT position, sealed FROM given",  # noqa: S608
        {"position": "BIGINT", "sealed": "BYTEA"},
        sorted(sealed),
    )
    return taken


def _stored(transaction: Transaction, number: int, devices: Sequence[str]) -> dict[str, tuple[bool, bytes | None]]:
    """For each device that has a coin: whether it was chosen, and the digest of its report."""
    contacts, stored = round_table("contacts", number), round_table("reports", number)
    rows = transaction.fetch_given(
        f"SELECT given.device, chosen, digest FROM given JOIN {contacts} ON {contacts}.device = given.device "  # noqa: S608
        f"LEFT JOIN {stored} ON {stored}.device = given.device",
        {"device": "TEXT"},
        [(device,) for device in devices],
    )
    return {device: (bool(chosen), digest) for device, chosen, digest in rows}
