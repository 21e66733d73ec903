"""A ledger's tables, and how ledgers of earlier versions become ones of this version.

Version 1 is that of Thresher 0.1.0. Version 2 adds the unit, to the budget (null until the first charge) and to each
charge (null where version 1 wrote it), and the reference under which a charge is made once. Version 3 adds other
columns that name the same units. Version 4 adds the filter with its running sums, rounds that are reserved, drawn and
given back, periods, and the history of what was promised. Version 5 adds how many values of a unit count in a round,
which is 1 in all earlier charges. Version 6 adds who asked and the name of the data, which earlier charges do not have.
A ledger of version 3 or less stays one that adds up.
"""

from __future__ import annotations

import re
import secrets
import sqlite3

from thresher.errors import InvalidFormat, InvalidSetting
from thresher.privacy.budget import Charge, Sums

APPLICATION = 0x54485253  # "THRS": marks the file as a ledger, beside SQLite's own mark
VERSION = 6

# Numbers are kept as the text that Python reads back to the same float: a REAL column would do, but a person who opens
# the file sees 0.1 and not 0.1000000000000000055.
_CHARGES_2 = """
    id INTEGER PRIMARY KEY AUTOINCREMENT, reference TEXT NOT NULL UNIQUE, time TEXT NOT NULL, what TEXT NOT NULL,
    epsilon TEXT NOT NULL, delta TEXT NOT NULL, adjacency TEXT NOT NULL, rounds INTEGER NOT NULL, unit TEXT
"""
_BUDGET_3 = """
    only INTEGER PRIMARY KEY CHECK (only = 1), epsilon TEXT NOT NULL, delta TEXT NOT NULL, adjacency TEXT NOT NULL,
    created TEXT NOT NULL, unit TEXT
"""
_SAME_UNITS = "CREATE TABLE same_units (unit TEXT PRIMARY KEY);"
# A charge's `drawn` is how many of its rounds were drawn, and `given_back` how many never will be. `ended` is when its
# last round was drawn or the rest was given back. `draws` has one row for each round that was drawn.
_ADDED_4 = """
ALTER TABLE budget ADD COLUMN composition TEXT NOT NULL DEFAULT 'sum';
ALTER TABLE budget ADD COLUMN renyi_order TEXT;
ALTER TABLE budget ADD COLUMN delta_plain TEXT;
ALTER TABLE budget ADD COLUMN delta_renyi TEXT;
ALTER TABLE budget ADD COLUMN delta_atom TEXT;
ALTER TABLE budget ADD COLUMN data_set TEXT;
ALTER TABLE budget ADD COLUMN period TEXT;
ALTER TABLE budget ADD COLUMN current_period INTEGER NOT NULL DEFAULT 0;
ALTER TABLE budget ADD COLUMN sum_epsilon TEXT NOT NULL DEFAULT '0';
ALTER TABLE budget ADD COLUMN sum_delta TEXT NOT NULL DEFAULT '0';
ALTER TABLE budget ADD COLUMN sum_renyi TEXT NOT NULL DEFAULT '0';
ALTER TABLE budget ADD COLUMN sum_bad TEXT NOT NULL DEFAULT '0';
ALTER TABLE charges ADD COLUMN sampling_rate TEXT;
ALTER TABLE charges ADD COLUMN threshold INTEGER;
ALTER TABLE charges ADD COLUMN cut INTEGER;
ALTER TABLE charges ADD COLUMN renyi TEXT NOT NULL DEFAULT '0.0';
ALTER TABLE charges ADD COLUMN bad TEXT NOT NULL DEFAULT '0.0';
ALTER TABLE charges ADD COLUMN drawn INTEGER NOT NULL DEFAULT 0;
ALTER TABLE charges ADD COLUMN given_back INTEGER NOT NULL DEFAULT 0;
ALTER TABLE charges ADD COLUMN ended TEXT;
CREATE INDEX open_charges ON charges (id) WHERE ended IS NULL;
CREATE TABLE draws (
    charge INTEGER NOT NULL, position INTEGER NOT NULL, time TEXT NOT NULL, period INTEGER NOT NULL,
    PRIMARY KEY (charge, position)
) WITHOUT ROWID;
CREATE INDEX draws_of_periods ON draws (period);
CREATE TABLE promises (id INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL, epsilon TEXT NOT NULL);
"""
_ADDED_5 = "ALTER TABLE charges ADD COLUMN contributions INTEGER NOT NULL DEFAULT 1;"
_ADDED_6 = """
ALTER TABLE charges ADD COLUMN asked_by TEXT;
ALTER TABLE charges ADD COLUMN data TEXT;
"""
SCHEMA = f"""
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION};
CREATE TABLE budget ({_BUDGET_3});
CREATE TABLE charges ({_CHARGES_2});
{_SAME_UNITS}
{_ADDED_4}
{_ADDED_5}
{_ADDED_6}
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
    if version < 3:
        connection.execute(_SAME_UNITS)
    if version < 4:
        _add_filter(connection)
    if version < 5:
        connection.execute(_ADDED_5)
    _run(connection, _ADDED_6)
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _run(connection: sqlite3.Connection, statements: str) -> None:
    """Several statements within the caller's transaction, which `executescript` would commit."""
    for statement in statements.split(";"):
        if statement.strip():
            connection.execute(statement)


def _add_filter(connection: sqlite3.Connection) -> None:
    """From version 3 to version 4: the ledger goes on adding up, and every charge was drawn when it was made."""
    _run(connection, _ADDED_4)
    connection.execute("UPDATE charges SET drawn = rounds, ended = time")
    sums = Sums()
    try:
        for epsilon, delta, rounds in connection.execute("SELECT epsilon, delta, rounds FROM charges"):
            sums = sums.plus(Charge(float(epsilon), float(delta), rounds))
    except InvalidSetting:
        raise InvalidFormat("A charge of this ledger cannot be read.") from None
    connection.execute("UPDATE budget SET sum_epsilon = ?, sum_delta = ?", (str(sums.epsilon), str(sums.delta)))
    connection.execute("INSERT INTO promises (time, epsilon) SELECT created, epsilon FROM budget")


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
    connection.execute(f"CREATE TABLE charges_2 ({_CHARGES_2})")
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
