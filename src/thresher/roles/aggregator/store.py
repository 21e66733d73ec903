"""What the aggregator keeps: batches of sealed reports until the release, and the release for good."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from thresher.errors import Conflict, NotFound
from thresher.protocol.states import TO_FORGET, WITHOUT_REPORTS
from thresher.protocol.states import AggregatedState as State
from thresher.roles.database.database import Store, Transaction, is_name, open_database
from thresher.roles.database.schema import AGGREGATED, create_round_tables, drop_round_tables, round_table


class _Round(NamedTuple):
    number: int
    state: State
    configuration_hash: bytes | None
    release: str | None


class AggregatorStore(Store):
    """Rounds and their batches, through the states of `AggregatedState`.

    Guarantee: a batch is durable when `add_batch` returns; a release is stored at most once, together with the mark
    that its reports are to be forgotten.
    """

    @classmethod
    def open(cls, where: str | Path) -> AggregatorStore:
        """The store in a directory or at a `postgresql://` address."""
        return cls(open_database(where, "aggregator"))

    def open_round(self, round: str, configuration_hash: bytes) -> None:
        """Bind a round to its configuration. `Conflict` for another configuration, or a round that was dropped."""
        with self._database.transaction() as transaction:
            transaction.lock(shared=False)
            found = _find(transaction, round) or _create(transaction, round)
            if found.release is None and found.state in WITHOUT_REPORTS:
                raise Conflict("The reports of this round were deleted unread.")
            if found.configuration_hash is None:
                transaction.execute(
                    "UPDATE rounds SET configuration_hash = ? WHERE number = ?", (configuration_hash, found.number)
                )
            elif found.configuration_hash != configuration_hash:
                raise Conflict("This round has another configuration.")

    def add_batch(self, round: str, number: int, digest: bytes, reports: bytes) -> bool:
        """Store a batch; whether it is new. `Conflict` for another one under its number, or after the release."""
        with self._database.transaction() as transaction:
            transaction.lock(shared=False)
            key, state, _, _ = _find(transaction, round) or _create(transaction, round)
            known = transaction.fetch("SELECT digest FROM batches WHERE number = ? AND batch = ?", (key, number))
            if known:
                if known[0][0] != digest:
                    raise Conflict("Another batch is stored under this number.")
                return False
            if state != State.COLLECTING:
                raise Conflict("This round takes no more batches.")
            transaction.execute("INSERT INTO batches (number, batch, digest) VALUES (?, ?, ?)", (key, number, digest))
            transaction.execute(
                f"INSERT INTO {round_table('blobs', key)} (batch, reports) VALUES (?, ?)",  # noqa: S608
                (number, reports),
            )
            return True

    def batch_numbers(self, round: str) -> list[int]:
        """The numbers of the batches that are stored, in order; none once they are deleted."""
        with self._database.transaction(write=False) as transaction:
            blobs = _blobs(transaction, round)
            rows = transaction.fetch(f"SELECT batch FROM {blobs} ORDER BY batch") if blobs else []  # noqa: S608
        return [batch for (batch,) in rows]

    def batch(self, round: str, number: int) -> bytes:
        """One batch. `NotFound` if there is none, or no more."""
        with self._database.transaction(write=False) as transaction:
            blobs = _blobs(transaction, round)
            rows = transaction.fetch(f"SELECT reports FROM {blobs} WHERE batch = ?", (number,)) if blobs else []  # noqa: S608
        if not rows:
            raise NotFound("There is no such batch.")
        blob: bytes = rows[0][0]
        return blob

    def store_release(self, round: str, release: str, *, malformed: int = 0, duplicates: int = 0) -> str:
        """Store a round's release and mark its reports to be forgotten, unless it has one; the stored release.

        `malformed` and `duplicates` count the reports that were dropped, for the operator.
        """
        with self._database.transaction() as transaction:
            transaction.lock(shared=False)
            found = _find(transaction, round)
            if found is None:
                raise NotFound("There is no such round.")
            if found.release is not None:
                return found.release
            if found.state != State.COLLECTING:
                raise Conflict("The reports of this round were deleted unread.")
            transaction.execute(
                "UPDATE rounds SET state = ?, release = ?, malformed = ?, duplicates = ? WHERE number = ?",
                (State.RELEASED, release, malformed, duplicates, found.number),
            )
            return release

    def release(self, round: str) -> str | None:
        """A round's release, if it has one."""
        with self._database.transaction(write=False) as transaction:
            found = _find(transaction, round)
            return found.release if found else None

    def dropped(self) -> tuple[int, int]:
        """How many reports were malformed, and how many came twice, over all releases."""
        with self._database.transaction(write=False) as transaction:
            [sums] = transaction.fetch("SELECT COALESCE(SUM(malformed), 0), COALESCE(SUM(duplicates), 0) FROM rounds")
            malformed, duplicates = map(int, sums)
            return malformed, duplicates

    def forget(self, round: str) -> None:
        """Delete a round's reports and overwrite their pages; if it has no release yet, it will never have one.

        Guarantee: what is not finished, because of a crash or an error, is in `rounds_to_forget`. Memory does not grow
        with the number of reports.
        Edge cases: an unknown round is noted, so that a batch that comes late is refused; nothing to do for one that is
        forgotten already.
        """
        if not is_name(round):
            return
        with self._database.transaction() as transaction:
            transaction.lock(shared=False)
            number, state, _, _ = _find(transaction, round) or _create(transaction, round)
            if state == State.FORGOTTEN:
                return
            if state != State.FORGETTING:
                _set_state(transaction, number, State.EMPTYING)
        if state != State.FORGETTING:
            self._empty(number)
        self._database.scrub()
        with self._database.transaction() as transaction:
            _set_state(transaction, number, State.FORGOTTEN)

    def _empty(self, number: int) -> None:
        """Delete the blobs in parts, then drop the table: dropping a full table would hold all of it in memory."""
        table = round_table("blobs", number)
        left = True
        while left:
            with self._database.transaction() as transaction:
                transaction.execute(
                    f"DELETE FROM {table} WHERE batch IN (SELECT batch FROM {table} ORDER BY batch LIMIT 20)"  # noqa: S608
                )
                left = bool(transaction.fetch(f"SELECT 1 FROM {table} LIMIT 1"))  # noqa: S608
        with self._database.transaction() as transaction:
            transaction.lock(shared=False)
            drop_round_tables(transaction, AGGREGATED, number)
            _set_state(transaction, number, State.FORGETTING)

    def rounds_to_forget(self) -> list[str]:
        """Rounds that have their release, or were given up, and whose reports are not known to be overwritten."""
        with self._database.transaction(write=False) as transaction:
            rows = transaction.fetch("SELECT round FROM rounds WHERE state IN (?, ?, ?) ORDER BY number", TO_FORGET)
        return [round for (round,) in rows]


def _blobs(transaction: Transaction, round: str) -> str | None:
    """The table of a round's batches; None once they are being forgotten."""
    found = _find(transaction, round)
    return None if found is None or found.state in WITHOUT_REPORTS else round_table("blobs", found.number)


def _find(transaction: Transaction, round: str) -> _Round | None:
    if not is_name(round):
        return None
    rows = transaction.fetch("SELECT number, state, configuration_hash, release FROM rounds WHERE round = ?", (round,))
    return _Round(*rows[0]) if rows else None


def _create(transaction: Transaction, round: str) -> _Round:
    if not is_name(round):
        raise NotFound("There is no such round.")
    [(number,)] = transaction.fetch("SELECT COALESCE(MAX(number), 0) + 1 FROM rounds")
    transaction.execute(
        "INSERT INTO rounds (round, number, state, malformed, duplicates) VALUES (?, ?, ?, 0, 0)",
        (round, number, State.COLLECTING),
    )
    create_round_tables(transaction, AGGREGATED, number)
    return _Round(number, State.COLLECTING, None, None)


def _set_state(transaction: Transaction, number: int, state: State) -> None:
    transaction.execute("UPDATE rounds SET state = ? WHERE number = ?", (state, number))
