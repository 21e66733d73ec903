"""What the collector keeps: devices, who took part in rounds that are not forgotten, and reports until forwarded.

    open ──close_round──▶ closed ──mark_forwarded──▶ forwarded ──forget──▶ forgotten

Visits hold the store's lock shared; opening and closing hold it alone. A round's numbers are
therefore final once it has closed, whichever processes took its reports.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from thresher.errors import Conflict, NotFound
from thresher.mechanism.response import RoundNumbers
from thresher.protocol.configurations import RoundConfiguration
from thresher.protocol.pieces import piece_size
from thresher.protocol.states import CollectedState as State
from thresher.roles.collector.enrolment import DeviceRegister, record_visits, revoked_among, waiting_devices
from thresher.roles.collector.reports import (
    NewReport,
    NewVisit,
    Outcome,
    Toss,
    Visited,
    VisitedRound,
    accept_reports,
    contact,
)
from thresher.roles.database.database import Database, Transaction, is_name, open_database
from thresher.roles.database.schema import COLLECTED, create_round_tables, drop_round_tables, round_table

_CONCERNED = "rounds.round, number, state, contact_numerator, sealed_size, contributions, deadline"
_PROGRESS = "asked, contacted, completed, round, state, opened, deadline, target, closed"


@dataclass(frozen=True, slots=True)
class Progress(RoundNumbers):
    """The numbers of a round, which are final unless it is open, and where it stands."""

    round: str
    state: State
    opened: float
    deadline: float
    target: int | None
    closed: float | None


class CollectorStore(DeviceRegister):
    """See the module. Every method is one transaction, durable when it returns, and may be repeated."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._part = secrets.token_hex(8)

    @classmethod
    def open(cls, where: str | Path) -> CollectorStore:
        """The store in a directory or at a `postgresql://` address."""
        return cls(open_database(where, "collector"))

    def open_round(self, configuration: RoundConfiguration, target: int | None, now: float) -> None:
        """Show a round to devices. A second time changes nothing; `Conflict` for another configuration."""
        round = configuration.round
        with self._database.transaction() as transaction:
            transaction.lock(shared=False)
            known = transaction.fetch("SELECT configuration_hash FROM rounds WHERE round = ?", (round,))
            if known:
                if known[0][0] != configuration.hash:
                    raise Conflict("Another configuration is stored under this round's name.")
                return
            [(number,)] = transaction.fetch("SELECT COALESCE(MAX(number), 0) + 1 FROM rounds")
            transaction.execute(
                "INSERT INTO rounds (round, number, state, configuration, configuration_hash, contact_numerator, "
                "sealed_size, contributions, opened, deadline, target, asked, contacted, completed) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0)",
                (
                    round, number, State.OPEN, configuration.content, configuration.hash, configuration.contact_rate,
                    piece_size(configuration.bucket_size), configuration.planned.contributions, now,
                    configuration.deadline, target,
                ),
            )  # fmt: skip
            create_round_tables(transaction, COLLECTED, number)

    def open_rounds(self) -> list[str]:
        """The rounds that are open, oldest first; their deadlines may have passed."""
        with self._database.transaction(write=False) as transaction:
            return _in_state(transaction, State.OPEN)

    def configuration(self, round: str) -> bytes:
        """A round's configuration, as it was opened. `NotFound` for one that never was."""
        with self._database.transaction(write=False) as transaction:
            number, _ = _number(transaction, round)
            [(configuration,)] = transaction.fetch("SELECT configuration FROM rounds WHERE number = ?", (number,))
            return bytes(configuration)

    def visit(self, visits: Sequence[NewVisit], now: float, toss: Toss) -> list[Visited | None]:
        """Serve devices: toss the coins that are missing, take their reports, list the rounds that they are to answer.

        A revoked device gets None, and nothing is recorded for it.

        Guarantee: all is decided and stored in one transaction. A device's coin for a round is tossed once and kept,
        also across crashes and processes; it is tossed before a report is looked at, so a device that enrolled again
        can hand in what it has. A round takes a device's first report and no other. The same bytes are recognised again
        until the round is forgotten, also after it has closed.
        """
        outcomes = [[Outcome.UNKNOWN_ROUND] * len(visit.reports) for visit in visits]
        places: dict[str, list[tuple[int, int]]] = {}
        with self._database.transaction() as transaction:
            transaction.lock(shared=True)
            revoked = revoked_among(transaction, sorted({visit.device for visit in visits}))
            here = [(place, visit) for place, visit in enumerate(visits) if visit.device not in revoked]
            for place, visit in here:
                for index, (name, _) in enumerate(visit.reports):
                    places.setdefault(name, []).append((place, index))
            asking = sorted({visit.device for _, visit in here if visit.rounds})
            shown: dict[str, list[str]] = {device: [] for device in asking}
            for round in _concerned(transaction, places, now):
                handed_in = places.get(round.round, [])
                reports = [NewReport(visits[at].device, visits[at].reports[index][1]) for at, index in handed_in]
                waiting, decided = self._serve(transaction, round, asking, reports, toss)
                for (at, index), outcome in zip(handed_in, decided, strict=True):
                    outcomes[at][index] = outcome
                for device in waiting:
                    shown[device].append(round.round)
            record_visits(transaction, asking, now)  # a visit begins with a request for rounds
        return [
            None
            if visit.device in revoked
            else Visited(tuple(outcomes[place]), tuple(shown[visit.device]) if visit.rounds else ())
            for place, visit in enumerate(visits)
        ]

    def _serve(
        self,
        transaction: Transaction,
        round: VisitedRound,
        asking: Sequence[str],
        reports: Sequence[NewReport],
        toss: Toss,
    ) -> tuple[list[str], list[Outcome]]:
        """What visits do in one round: which of those that ask are to answer it, and what became of each report.

        Nearly every device that hands in has a coin. So the coins of those that do not ask are looked for only where
        a report was not taken.
        """
        waiting: list[str] = []
        if round.is_open and asking:
            waiting = self._contact(transaction, round, asking, toss)
        if not reports:
            return waiting, []
        decided, taken, without_coin = accept_reports(transaction, round, reports)
        if round.is_open and without_coin:
            self._contact(transaction, round, sorted(without_coin), toss)
            places = [place for place, report in enumerate(reports) if report.device in without_coin]
            again, more, _ = accept_reports(transaction, round, [reports[place] for place in places])
            taken |= more
            for place, outcome in zip(places, again, strict=True):
                decided[place] = outcome
        self._count(transaction, round.number, completed=len(taken))
        return [device for device in waiting if device not in taken], decided

    def _contact(self, transaction: Transaction, round: VisitedRound, devices: Sequence[str], toss: Toss) -> list[str]:
        """Toss the coins that are missing; the devices that were chosen and have not answered."""
        contacted = contact(transaction, round.number, round.contact_numerator, devices, toss)
        self._count(transaction, round.number, asked=contacted.asked, contacted=contacted.chosen)
        return contacted.waiting

    def progress(self, round: str) -> Progress:
        """A round's numbers and state. `NotFound` for one that was never opened."""
        with self._database.transaction(write=False) as transaction:
            return _progress(transaction, round)

    def waited_for(self, round: str, now: float) -> int:
        """Active devices that have not checked in while the round was open, or were chosen and have not completed it.

        Edge cases: nobody, for a round that is not open any more. Revoked devices are not waited for.
        """
        with self._database.transaction(write=False) as transaction:
            number, state = _number(transaction, round)
            return waiting_devices(transaction, number, now) if state == State.OPEN else 0

    def close_round(self, round: str, now: float) -> Progress:
        """Take no more reports. The numbers it returns are final; a second time it returns the same."""
        with self._database.transaction() as transaction:
            transaction.lock(shared=False)
            return _close(transaction, round, now)

    def begin_forwarding(self, round: str, batch_size: int) -> int:
        """The size of this round's batches: the first call sets it, and later calls return the same.

        Edge cases: `Conflict` while the round is open, and once it is forgotten.
        """
        with self._database.transaction() as transaction:
            transaction.lock(shared=False)
            if _progress(transaction, round).state not in (State.CLOSED, State.FORWARDED):
                raise Conflict("Only a closed round can be forwarded.")
            transaction.execute(
                "UPDATE rounds SET batch_size = COALESCE(batch_size, ?) WHERE round = ?", (batch_size, round)
            )
            [(stored,)] = transaction.fetch("SELECT batch_size FROM rounds WHERE round = ?", (round,))
            return int(stored)

    def sealed_pieces(self, round: str) -> int:
        """How many sealed pieces the reports of a closed round have in all."""
        with self._database.transaction(write=False) as transaction:
            number, _ = _number(transaction, round)
            [(total,)] = transaction.fetch("SELECT completed * contributions FROM rounds WHERE number = ?", (number,))
            return int(total)

    def batches(self, round: str, batch_size: int) -> Iterator[list[bytes]]:
        """The sealed pieces of a closed round's reports in the order of their secret numbers, a batch at a time.

        Guarantee: the same batches every time, until `mark_forwarded`; no more than one is in memory.
        """
        after = -1
        while True:
            with self._database.transaction(write=False) as transaction:
                number, state = _number(transaction, round)
                if state != State.CLOSED:
                    return
                rows = transaction.fetch(
                    f"SELECT position, sealed FROM {round_table('sealed', number)} "  # noqa: S608
                    "WHERE position > ? ORDER BY position LIMIT ?",
                    (after, batch_size),
                )
            if not rows:
                return
            after = rows[-1][0]
            yield [sealed for _, sealed in rows]

    def mark_forwarded(self, round: str) -> None:
        """The aggregator has all batches: delete the sealed reports. `Conflict` while the round is open."""
        with self._database.transaction() as transaction:
            transaction.lock(shared=False)
            number, state = _number(transaction, round)
            if state == State.OPEN:
                raise Conflict("Only a closed round can be forwarded.")
            if state == State.CLOSED:
                _set_state(transaction, number, State.FORWARDED)
                drop_round_tables(transaction, ("sealed",), number)
        self._database.scrub()

    def forget(self, round: str, now: float) -> None:
        """Delete all that is left of a round but its numbers, and overwrite the pages. An open round is closed first.

        Guarantee: what is not finished, because of a crash or an error, is in `rounds_to_forget`.
        Edge cases: nothing to do for a round that is unknown or forgotten already.
        """
        with self._database.transaction() as transaction:
            transaction.lock(shared=False)
            found = _find(transaction, round)
            if found is None or found[1] == State.FORGOTTEN:
                return
            number, _ = found
            _close(transaction, round, now)
            _set_state(transaction, number, State.FORGETTING)
            transaction.execute("DELETE FROM counts WHERE number = ?", (number,))
            drop_round_tables(transaction, COLLECTED, number)
        self._database.scrub()
        with self._database.transaction() as transaction:
            _set_state(transaction, number, State.FORGOTTEN)

    def rounds_to_forget(self) -> list[str]:
        """Rounds whose forgetting was begun and not finished."""
        with self._database.transaction(write=False) as transaction:
            return _in_state(transaction, State.FORGETTING)

    def _count(
        self, transaction: Transaction, number: int, *, asked: int = 0, contacted: int = 0, completed: int = 0
    ) -> None:
        """Add to this process's share of a round's numbers, in the transaction that changes what they count."""
        if asked or completed:
            transaction.execute(
                "INSERT INTO counts (number, part, asked, contacted, completed) VALUES (?, ?, ?, ?, ?) "
                "ON CONFLICT (number, part) DO UPDATE SET asked = counts.asked + excluded.asked, "
                "contacted = counts.contacted + excluded.contacted, completed = counts.completed + excluded.completed",
                (number, self._part, asked, contacted, completed),
            )


def _concerned(transaction: Transaction, handed_in: Collection[str], now: float) -> list[VisitedRound]:
    """The rounds that are open, and those that reports are handed in for, in the order of their numbers.

    All processes then lock rows in the same order.
    """
    rows = transaction.fetch(
        f"SELECT {_CONCERNED} FROM rounds WHERE state = ? AND deadline > ? ORDER BY number",  # noqa: S608
        (State.OPEN, now),
    )
    known = {row[0] for row in rows}
    others = [(round,) for round in handed_in if round not in known and is_name(round)]
    rows += transaction.fetch_given(
        f"SELECT {_CONCERNED} FROM given JOIN rounds ON rounds.round = given.round",  # noqa: S608
        {"round": "TEXT"},
        others,
    )
    found = [
        VisitedRound(round, number, state, rate, size, contributions, state == State.OPEN and now < deadline)
        for round, number, state, rate, size, contributions, deadline in rows
    ]
    return sorted(found, key=lambda round: round.number)


def _find(transaction: Transaction, round: str) -> tuple[int, State] | None:
    """A round's number and state; None for one that was never opened."""
    rows = transaction.fetch("SELECT number, state FROM rounds WHERE round = ?", (round,)) if is_name(round) else []
    return rows[0] if rows else None


def _number(transaction: Transaction, round: str) -> tuple[int, State]:
    found = _find(transaction, round)
    if found is None:
        raise NotFound("There is no such round.")
    return found


def _in_state(transaction: Transaction, state: State) -> list[str]:
    rows = transaction.fetch("SELECT round FROM rounds WHERE state = ? ORDER BY number", (state,))
    return [round for (round,) in rows]


def _set_state(transaction: Transaction, number: int, state: State) -> None:
    transaction.execute("UPDATE rounds SET state = ? WHERE number = ?", (state, number))


def _progress(transaction: Transaction, round: str) -> Progress:
    number, state = _number(transaction, round)
    [row] = transaction.fetch(f"SELECT {_PROGRESS} FROM rounds WHERE number = ?", (number,))  # noqa: S608
    progress = Progress(*row)
    if state != State.OPEN:
        return progress
    [sums] = transaction.fetch(
        "SELECT COALESCE(SUM(asked), 0), COALESCE(SUM(contacted), 0), COALESCE(SUM(completed), 0) "
        "FROM counts WHERE number = ?",
        (number,),
    )
    asked, contacted, completed = map(int, sums)
    return replace(progress, asked=asked, contacted=contacted, completed=completed)


def _close(transaction: Transaction, round: str, now: float) -> Progress:
    """Close a round if it is open, with the store's lock held alone."""
    progress = _progress(transaction, round)
    if progress.state != State.OPEN:
        return progress
    transaction.execute(
        "UPDATE rounds SET state = ?, closed = ?, asked = ?, contacted = ?, completed = ? WHERE round = ?",
        (State.CLOSED, now, *progress.numbers.values(), round),
    )
    return _progress(transaction, round)
