"""A ledger's tables, and how a ledger of version 1 (Thresher 0.1.0) becomes one of version 3.

Version 2 adds the unit, to the budget (null until the first charge) and to each charge (null where version 1 wrote it),
and the reference under which a charge is made once. Version 3 adds other columns that name the same units.
"""

from __future__ import annotations

import re
import secrets
import sqlite3

APPLICATION = 0x54485253  # "THRS": marks the file as a ledger, beside SQLite's own mark
VERSION = 3

# Numbers are kept as the text that Python reads back to the same float: a REAL column would do, but a person who opens
# the file sees 0.1 and not 0.1000000000000000055.
_CHARGES = """
    id INTEGER PRIMARY KEY AUTOINCREMENT, reference TEXT NOT NULL UNIQUE, time TEXT NOT NULL, what TEXT NOT NULL,
    epsilon TEXT NOT NULL, delta TEXT NOT NULL, adjacency TEXT NOT NULL, rounds INTEGER NOT NULL, unit TEXT
"""
_SAME_UNITS = "same_units (unit TEXT PRIMARY KEY)"
SCHEMA = f"""
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION};
CREATE TABLE budget (
    only INTEGER PRIMARY KEY CHECK (only = 1), epsilon TEXT NOT NULL, delta TEXT NOT NULL, adjacency TEXT NOT NULL,
    created TEXT NOT NULL, unit TEXT
);
CREATE TABLE charges ({_CHARGES});
CREATE TABLE {_SAME_UNITS};
"""

# Version 1 had a fleet's query in the text of its charge. This is the last place that reads it from there.
_FLEET_1 = re.compile(r"query ([A-Za-z0-9._:-]{1,100}): (.+)", re.DOTALL)


def new_reference() -> str:
    """A reference for a charge that nobody will ask for again."""
    return f"c{secrets.token_hex(16)}"


def migrate(connection: sqlite3.Connection, version: int) -> None:
    """Bring a ledger of an older version to this one, within the caller's transaction."""
    if version < 2:
        _add_units(connection)
    connection.execute(f"CREATE TABLE {_SAME_UNITS}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _add_units(connection: sqlite3.Connection) -> None:
    """From version 1 to version 2.

    A fleet's charges get their query as the reference and "device" as the unit. Other charges get a random reference
    and no unit: version 1 did not keep it. The ledger is bound to devices if a fleet made all its charges, else to no
    unit yet: the next charge binds it.
    """
    rows = connection.execute(
        "SELECT id, time, what, epsilon, delta, adjacency, rounds FROM charges ORDER BY id"
    ).fetchall()
    sequence = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'charges'").fetchall()
    connection.execute("ALTER TABLE budget ADD COLUMN unit TEXT")
    connection.execute(f"CREATE TABLE charges_2 ({_CHARGES})")
    used: set[str] = set()
    for number, time, what, *amount in rows:
        found = _FLEET_1.fullmatch(what)
        of_fleet = found is not None and found[1] not in used
        reference, text, unit = (found[1], found[2], "device") if found and of_fleet else (new_reference(), what, None)
        used.add(reference)
        connection.execute(
            "INSERT INTO charges_2 (id, reference, time, what, epsilon, delta, adjacency, rounds, unit) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (number, reference, time, text, *amount, unit),
        )
    connection.execute("DROP TABLE charges")
    connection.execute("ALTER TABLE charges_2 RENAME TO charges")
    connection.execute("DELETE FROM sqlite_sequence WHERE name = 'charges'")
    connection.executemany("INSERT INTO sqlite_sequence (name, seq) VALUES ('charges', ?)", sequence)
    if rows:
        connection.execute(
            "UPDATE budget SET unit = 'device' WHERE NOT EXISTS (SELECT 1 FROM charges WHERE unit IS NULL)"
        )
