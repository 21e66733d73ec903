"""What a ledger's file holds, as values: the budget with its running sums as of now, and the charges.

Where a budget renews, its sums are those of the current period: a round counts in the period that draws it, and
what is still reserved counts in each period, since it may be drawn there.
"""

from __future__ import annotations

import datetime as dt
import sqlite3
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from thresher.errors import InvalidFormat, InvalidSetting
from thresher.ledger.entries import Entry
from thresher.privacy.budget import Budget, Sums
from thresher.privacy.filter import Filter
from thresher.privacy.settings import Adjacency, check_adjacency
from thresher.privacy.units import Unit

_SUMS = "sum_epsilon, sum_delta, sum_renyi, sum_bad"
_ENTRY = (
    "id, reference, time, what, epsilon, delta, adjacency, rounds, unit, sampling_rate, threshold, cut, renyi, bad, "
    "drawn, given_back, ended, contributions, asked_by, data"
)


@dataclass(frozen=True, slots=True)
class Book:
    """The budget as of now, and what else the file says of it."""

    budget: Budget
    adjacency: Adjacency
    created: float
    data_set: str | None
    period: float | None
    """Seconds after which the budget renews."""
    current: int
    """Which period it is, from 0."""

    def period_of(self, time: float) -> int:
        """The period of a time; before the ledger was made, a negative one."""
        return 0 if self.period is None else int((time - self.created) // self.period)

    def without_reserved(self, connection: sqlite3.Connection, entry: Entry) -> Sums:
        """The sums without those rounds of an open charge that were not drawn.

        Its plain (epsilon, delta) is indivisible: it stays where a round was drawn in the current period.
        """
        drawn_now = connection.execute(
            "SELECT 1 FROM draws WHERE charge = ? AND period = ? LIMIT 1", (entry.id, self.current)
        ).fetchone()
        whole = 0 if drawn_now else -1
        return self.budget.sums.plus(entry.charge, rounds=entry.drawn - entry.rounds, whole=whole)

    def drawn(self, connection: sqlite3.Connection) -> Budget:
        """The budget with the sums of what was drawn, without what is only reserved. Under "sum" all is spent."""
        if self.budget.filter is None:
            return self.budget
        book = self
        for entry in _open_entries(connection):
            book = replace(book, budget=replace(book.budget, sums=book.without_reserved(connection, entry)))
        return book.budget


def first_row(
    budget: Budget,
    adjacency: Adjacency,
    created: str,
    unit: Unit | None,
    data_set: str | None,
    period: float | None,
) -> dict[str, str | None]:
    """The row of a new ledger."""
    terms = budget.filter
    return {
        "epsilon": repr(budget.epsilon),
        "delta": repr(budget.delta),
        "adjacency": adjacency,
        "created": created,
        "unit": None if unit is None else str(unit),
        "composition": budget.composition,
        "renyi_order": None if terms is None else repr(terms.order),
        "delta_plain": None if terms is None else repr(terms.delta_plain),
        "delta_renyi": None if terms is None else repr(terms.delta_renyi),
        "delta_atom": None if terms is None else repr(terms.delta_atom),
        "data_set": data_set,
        "period": None if period is None else repr(period),
    }


def read(connection: sqlite3.Connection, now: float) -> Book:
    """The book as of now; if a period has begun since the last charge, with its sums. Nothing is written."""
    epsilon, delta, adjacency, created, composition, order, *parts, data_set, period, current = connection.execute(
        "SELECT epsilon, delta, adjacency, created, composition, renyi_order, delta_plain, delta_renyi, delta_atom, "
        "data_set, period, current_period FROM budget"
    ).fetchone()
    if (composition == "sum") != (order is None):
        raise InvalidFormat("This ledger does not say how it composes.")
    terms = None if order is None else Filter(float(order), *map(float, parts))
    began = dt.datetime.fromisoformat(created).timestamp()
    length = None if period is None else float(period)
    # A clock that was set back does not renew a period twice.
    latest = current if length is None else max(current, int((now - began) // length))
    if latest == current:
        sums = _stored_sums(connection)
    else:
        sums = Sums()
        for entry in _open_entries(connection):
            sums = sums.plus(entry.charge, rounds=entry.rounds - entry.drawn)
    try:
        budget, adjacency = Budget(float(epsilon), float(delta), terms, sums), check_adjacency(adjacency)
    except InvalidSetting:
        raise InvalidFormat("The budget of this ledger cannot be read.") from None
    return Book(budget, adjacency, began, data_set, length, latest)


def renewed(connection: sqlite3.Connection, now: float) -> Book:
    """The book as of now, in a transaction that may write: a new period is begun if it is time."""
    book = read(connection, now)
    begun = connection.execute(
        "UPDATE budget SET current_period = ? WHERE current_period != ?", (book.current, book.current)
    ).rowcount
    if begun:
        write_sums(connection, book.budget.sums)
    return book


def write_sums(connection: sqlite3.Connection, sums: Sums) -> None:
    """Replace the running sums."""
    values = tuple(str(each) for each in (sums.epsilon, sums.delta, sums.renyi, sums.bad))
    connection.execute("UPDATE budget SET sum_epsilon = ?, sum_delta = ?, sum_renyi = ?, sum_bad = ?", values)


def _stored_sums(connection: sqlite3.Connection) -> Sums:
    sums = Sums(*map(Decimal, connection.execute(f"SELECT {_SUMS} FROM budget").fetchone()))  # noqa: S608
    if not all(each.is_finite() and each >= 0 for each in (sums.epsilon, sums.delta, sums.renyi, sums.bad)):
        raise InvalidFormat("The sums of this ledger cannot be read.")
    return sums


def verify(connection: sqlite3.Connection) -> None:
    """Require that every charge can be read, and that the running sums are those of the charges.

    Edge cases: the sums of a budget that renews are those of one period, and cannot be checked so.
    """
    sums = Sums()
    for entry in entries(connection):
        if not 0 <= entry.given_back <= entry.rounds - entry.drawn:
            raise InvalidFormat("A charge of this ledger cannot be read.")
        kept = entry.rounds - entry.given_back
        try:
            sums = sums.plus(entry.charge, rounds=kept, whole=kept > 0)
        except InvalidSetting:
            raise InvalidFormat("A charge of this ledger cannot be read.") from None
    (period,) = connection.execute("SELECT period FROM budget").fetchone()
    if period is None and _stored_sums(connection) != sums:
        raise InvalidFormat("The sums of this ledger are not those of its charges.")


def _open_entries(connection: sqlite3.Connection) -> list[Entry]:
    """The charges that have not ended."""
    return [_entry(row) for row in connection.execute(f"SELECT {_ENTRY} FROM charges WHERE ended IS NULL").fetchall()]  # noqa: S608


def entries(connection: sqlite3.Connection) -> list[Entry]:
    """All charges, oldest first."""
    return [_entry(row) for row in connection.execute(f"SELECT {_ENTRY} FROM charges ORDER BY id").fetchall()]  # noqa: S608


def entry(connection: sqlite3.Connection, reference: str) -> Entry | None:
    """The charge under a reference."""
    row = connection.execute(f"SELECT {_ENTRY} FROM charges WHERE reference = ?", (reference,)).fetchone()  # noqa: S608
    return None if row is None else _entry(row)


def _entry(row: tuple[Any, ...]) -> Entry:
    number, reference, time, what, epsilon, delta, adjacency, rounds, unit, rate, threshold, cut, renyi, bad, *rest = (
        row
    )
    drawn, given_back, ended, contributions, by, data = rest
    return Entry(
        number, reference, dt.datetime.fromisoformat(time), what, float(epsilon), float(delta), adjacency, rounds, unit,
        None if rate is None else float(rate), threshold, cut, float(renyi), float(bad), drawn, given_back,
        None if ended is None else dt.datetime.fromisoformat(ended), contributions, by, data,
    )  # fmt: skip


def written(time: float) -> str:
    """A time, in seconds since 1970, as the file has it."""
    return dt.datetime.fromtimestamp(time, dt.UTC).isoformat(timespec="microseconds")
