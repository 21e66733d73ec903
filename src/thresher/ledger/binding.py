"""What a ledger is bound to: one kind of unit and one data set, within a transaction of its file."""

from __future__ import annotations

import sqlite3

from thresher.errors import Hint, InvalidFormat, InvalidSetting
from thresher.privacy.units import Unit

_ANOTHER = "If not, keep another ledger."


def unit_of(connection: sqlite3.Connection) -> Unit | None:
    """The ledger's unit; None before the first charge."""
    (text,) = connection.execute("SELECT unit FROM budget").fetchone()
    return None if text is None else _read_unit(text)


def _read_unit(text: str) -> Unit:
    try:
        return Unit.read(text)
    except InvalidSetting:
        raise InvalidFormat("The unit of this ledger cannot be read.") from None


def same_units(connection: sqlite3.Connection) -> set[Unit]:
    """Other columns that name the same units."""
    return {_read_unit(text) for (text,) in connection.execute("SELECT unit FROM same_units")}


def add_same_unit(connection: sqlite3.Connection, unit: Unit) -> None:
    """Take a column as another name of the same units."""
    stored = unit_of(connection)
    if stored is None or stored.kind != "column":
        bound = "no unit yet" if stored is None else stored.one
        raise InvalidSetting(
            "unit",
            f"of this ledger is {bound}, and not one unit of a column",
            hint=Hint(
                "The first charge binds a ledger.",
                python="The first charge binds a ledger, or Ledger(path, unit=…) with the name of a column.",
                command="The first charge binds a ledger, or thresher ledger create with --unit.",
            )
            if stored is None
            else "Keep another ledger for units that are the values of a column.",
        )
    if unit != stored:
        connection.execute("INSERT OR IGNORE INTO same_units (unit) VALUES (?)", (str(unit),))


def check_unit_of(connection: sqlite3.Connection, unit: Unit) -> Unit | None:
    """The ledger's unit, if it has one; refuse a unit that is another one."""
    stored = unit_of(connection)
    if stored is not None and stored != unit and unit not in same_units(connection):
        once = f"Nothing was charged or drawn. If {unit.column} names the same units, say so once"
        same = Hint(
            f"{once}. {_ANOTHER}",
            python=f"{once}: ledger.same_unit({unit.column!r}). {_ANOTHER}",
            command=f"{once}: thresher ledger same-unit. {_ANOTHER}",
        )
        raise InvalidSetting(
            "unit",
            f"is {unit.one}, and this ledger adds up guarantees for {stored.one}",
            hint=same
            if unit.kind == stored.kind
            else "Nothing was charged or drawn. Ask with the ledger's unit, or keep another ledger.",
        )
    return stored


def bind_unit(connection: sqlite3.Connection, unit: Unit) -> None:
    """Make this the ledger's unit, if it has none; refuse another one."""
    if check_unit_of(connection, unit) is None:
        connection.execute("UPDATE budget SET unit = ?", (str(unit),))


def bind_data_set(connection: sqlite3.Connection, name: str) -> None:
    """Make this the ledger's data set, if it has none; refuse another one."""
    (stored,) = connection.execute("SELECT data_set FROM budget").fetchone()
    if stored is None:
        connection.execute("UPDATE budget SET data_set = ?", (name,))
    elif stored != name:
        raise InvalidSetting(
            "data_set",
            f"is {name}, and this ledger is for {stored}",
            hint="Nothing was charged or drawn. Keep another ledger for other data.",
        )
