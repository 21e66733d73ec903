"""Charges within a transaction of a ledger's file: entered, drawn round by round, and ended."""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Collection
from dataclasses import dataclass
from unicodedata import category

from thresher.errors import Conflict, InvalidSetting, NotFound
from thresher.ledger import books
from thresher.ledger.binding import bind_data_set, bind_unit
from thresher.ledger.entries import Entry
from thresher.privacy.budget import Charge
from thresher.privacy.plans import Plan
from thresher.privacy.settings import Adjacency, is_writable
from thresher.privacy.units import Unit

LONGEST_TEXT = 10_000
LONGEST_NAME = 100
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode's categories of controls, formats, surrogates and separators of lines and paragraphs."""
_AMOUNT = "epsilon, delta, adjacency, rounds, unit, sampling_rate, threshold, contributions"


@dataclass(frozen=True, slots=True)
class Order:
    """A charge to be entered: under which reference, for what, what it costs, and the plan behind it if it is known."""

    reference: str
    what: str
    unit: Unit
    adjacency: Adjacency
    charge: Charge
    plan: Plan | None = None
    cut: int | None = None
    data_set: str | None = None
    by: str | None = None
    """Who asks; the first characters of a long name are kept."""
    data: str | None = None
    """The name of the file or table that is asked; the first characters of a long name are kept."""
    drawn: Collection[int] = ()
    """Its rounds that are about to be drawn, or were drawn."""
    time: dt.datetime | None = None
    """When it was made, if not now."""
    restored: bool = False
    """Whether it was made before. Then a charge that is there already stays as it is."""

    def __post_init__(self) -> None:
        check_text("what", shown(self.what), LONGEST_TEXT)
        check_text("reference", self.reference, LONGEST_NAME)
        check_text("unit", str(self.unit), LONGEST_TEXT)
        if not all(0 <= position < self.charge.rounds for position in self.drawn):
            raise InvalidSetting("drawn", f"must be from 0 to {self.charge.rounds}: the query has no more rounds")

    @property
    def amount(self) -> tuple[str | int | None, ...]:
        """What must be the same in a second order under the same reference."""
        charge, plan = self.charge, self.plan
        known = (None, None, 1) if plan is None else (repr(plan.sampling_rate), plan.threshold, plan.contributions)
        return (repr(charge.epsilon), repr(charge.delta), self.adjacency, charge.rounds, str(self.unit), *known)


def check_text(setting: str, text: object, longest: int) -> str:
    """A text that is not empty and not too long, and that can be written."""
    if not (isinstance(text, str) and 0 < len(text) <= longest):
        raise InvalidSetting(setting, f"must be a text of 1 to {longest:,} characters")
    if not is_writable(text):
        raise InvalidSetting(setting, "must be a text that UTF-8 can write")
    return text


def shown(text: str) -> str:
    """A text with an escape in place of each character that UTF-8 cannot write or a terminal does not show."""
    return "".join(each.encode("unicode_escape").decode() if category(each) in _HIDDEN else each for each in text)


def _name(text: str | None) -> str | None:
    return None if text is None else shown(text)[:LONGEST_NAME] or None


def enter(connection: sqlite3.Connection, order: Order, now: float, *, within_budget: bool = True) -> tuple[int, bool]:
    """Enter a charge unless it is there already; its number, and whether it is new."""
    found = connection.execute(
        f"SELECT id, {_AMOUNT} FROM charges WHERE reference = ?",  # noqa: S608
        (order.reference,),
    ).fetchone()
    if found is not None:
        if found[1:] != order.amount:
            raise Conflict(
                f"The ledger has another charge under the reference {order.reference}.",
                hint="Nothing was charged or drawn. Choose another reference.",
            )
        for position in () if order.restored else order.drawn:
            draw(connection, order.reference, position, now)
        return int(found[0]), False
    bind_unit(connection, order.unit)
    if order.data_set is not None:
        bind_data_set(connection, order.data_set)
    book = books.renewed(connection, now)  # reading it also refuses a damaged ledger
    charge, written = order.charge, books.written(now)
    if within_budget:
        book.budget.charge(charge)
    made = written if order.time is None else books.written(order.time.timestamp())
    ended = written if len(order.drawn) == charge.rounds else None
    number = connection.execute(
        f"INSERT INTO charges (reference, time, what, {_AMOUNT}, cut, renyi, bad, ended, asked_by, data) "  # noqa: S608
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            order.reference,
            made,
            shown(order.what),
            *order.amount,
            order.cut,
            repr(charge.renyi),
            repr(charge.bad),
            ended,
            _name(order.by),
            _name(order.data),
        ),
    ).lastrowid
    assert number is not None
    period = book.current if order.time is None else min(book.period_of(order.time.timestamp()), book.current)
    _mark_drawn(connection, number, order.drawn, period, made)
    books.write_sums(connection, book.budget.sums.plus(charge))
    return number, True


def draw(connection: sqlite3.Connection, reference: str, position: int, now: float) -> None:
    """Mark a round of a charge as drawn, unless it is."""
    entry = found_entry(connection, reference)
    if not 0 <= position < entry.rounds:
        raise InvalidSetting("position", f"must be from 0 to {entry.rounds - 1}: the query has no more rounds")
    if position in drawn_positions(connection, entry):
        return
    if entry.ended is not None:
        raise Conflict(
            f"The ledger has given back this round of the charge {reference}.",
            hint="Nothing was drawn. Ask the query again; if this stops a server, its ledger is not this store's.",
        )
    book, written = books.renewed(connection, now), books.written(now)
    _mark_drawn(connection, entry.id, [position], book.current, written)
    if entry.drawn + 1 == entry.rounds:
        connection.execute("UPDATE charges SET ended = ? WHERE id = ?", (written, entry.id))


def give_back(connection: sqlite3.Connection, reference: str, now: float) -> int:
    """End a charge; how many of its rounds are given back."""
    entry = found_entry(connection, reference)
    if entry.ended is not None:
        return 0
    book = books.renewed(connection, now)
    back = entry.rounds - entry.drawn if book.budget.filter is not None else 0
    connection.execute(
        "UPDATE charges SET ended = ?, given_back = ? WHERE id = ?", (books.written(now), back, entry.id)
    )
    if back:
        books.write_sums(connection, book.without_reserved(connection, entry))
    return back


def found_entry(connection: sqlite3.Connection, reference: str) -> Entry:
    """The charge under a reference; `NotFound` if there is none."""
    entry = books.entry(connection, reference)
    if entry is None:
        raise NotFound("The ledger has no charge under this reference.", hint="Nothing was drawn.")
    return entry


def is_marked(connection: sqlite3.Connection, entry: Entry, position: int) -> bool:
    """Whether a round of a charge was marked as drawn by itself."""
    row = connection.execute("SELECT 1 FROM draws WHERE charge = ? AND position = ?", (entry.id, position)).fetchone()
    return row is not None


def drawn_positions(connection: sqlite3.Connection, entry: Entry) -> set[int]:
    """Which rounds of a charge were drawn. Earlier versions drew all at once and did not list them."""
    if entry.drawn == entry.rounds:
        return set(range(entry.rounds))
    return {at for (at,) in connection.execute("SELECT position FROM draws WHERE charge = ?", (entry.id,))}


def _mark_drawn(
    connection: sqlite3.Connection, charge: int, positions: Collection[int], period: int, written: str
) -> None:
    connection.executemany(
        "INSERT INTO draws (charge, position, time, period) VALUES (?, ?, ?, ?)",
        [(charge, position, written, period) for position in positions],
    )
    connection.execute("UPDATE charges SET drawn = drawn + ? WHERE id = ?", (len(positions), charge))
