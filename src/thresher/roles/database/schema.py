"""The tables of each role, as the migrations that made them. A migration that was ever released is never edited.

What belongs to one round only, its reports and who took part, is in tables of its own: a table is
dropped whole. SQLite then overwrites every page of it, where deleting rows could leave copies behind in pages that
other rows still use, and PostgreSQL removes its files, where deleted rows would wait for a vacuum.
"""

from __future__ import annotations

from thresher.roles.database.database import Role, Transaction
from thresher.roles.database.migrations import Migration

# enrolment_keys.devices: how many may enrol with a key at most. devices.last_hour: when a device was last seen, in
# hours since 1970, which is all that "active" needs. visits: devices seen for the first time in an hour.
# enrolment_keys.hourly: how many may enrol with a key in an hour, if not as many as the server says. enrolments: how
# many did, by hour. devices.enrolled_hour: 0 for devices from before it was kept. revocations: devices that take part
# no more; a small table, because it is asked at every visit.
# identity: one row, the key with which the collectors of this fleet prove who they are.
# rounds.sealed_size: bytes of one sealed piece; a report has as many pieces as its round has contributions.
# counts.part: each process adds to a row of its own, so that no two wait for each other.
_COLLECTOR: tuple[Migration, ...] = (
    (
        """CREATE TABLE enrolment_keys (
            id TEXT PRIMARY KEY, key_hash BYTEA NOT NULL UNIQUE, name TEXT NOT NULL, created DOUBLE PRECISION NOT NULL,
            expires DOUBLE PRECISION, devices BIGINT, enrolled BIGINT NOT NULL, revoked DOUBLE PRECISION
        ) WITHOUT ROWID""",
        """CREATE TABLE devices (
            device TEXT PRIMARY KEY, token_hash BYTEA NOT NULL UNIQUE, enrolment_key TEXT NOT NULL,
            last_hour BIGINT NOT NULL
        ) WITHOUT ROWID""",
        "CREATE TABLE visits (hour BIGINT PRIMARY KEY, devices BIGINT NOT NULL) WITHOUT ROWID",
        """CREATE TABLE rounds (
            round TEXT PRIMARY KEY, number BIGINT NOT NULL UNIQUE, state TEXT NOT NULL, configuration BYTEA NOT NULL,
            configuration_hash BYTEA NOT NULL, contact_numerator BIGINT NOT NULL, sealed_size BIGINT NOT NULL,
            opened DOUBLE PRECISION NOT NULL, deadline DOUBLE PRECISION NOT NULL, target BIGINT,
            closed DOUBLE PRECISION, asked BIGINT NOT NULL, contacted BIGINT NOT NULL, completed BIGINT NOT NULL,
            batch_size BIGINT
        ) WITHOUT ROWID""",
        """CREATE TABLE counts (
            number BIGINT NOT NULL, part TEXT NOT NULL, asked BIGINT NOT NULL, contacted BIGINT NOT NULL,
            completed BIGINT NOT NULL, PRIMARY KEY (number, part)
        ) WITHOUT ROWID""",
    ),
    ("CREATE TABLE identity (id BIGINT PRIMARY KEY, secret BYTEA NOT NULL) WITHOUT ROWID",),
    (
        "ALTER TABLE enrolment_keys ADD COLUMN hourly BIGINT",
        "ALTER TABLE devices ADD COLUMN enrolled_hour BIGINT NOT NULL DEFAULT 0",
        "CREATE INDEX devices_by_key ON devices (enrolment_key, enrolled_hour)",
        "CREATE TABLE revocations (device TEXT PRIMARY KEY, revoked DOUBLE PRECISION NOT NULL) WITHOUT ROWID",
        """CREATE TABLE enrolments (
            enrolment_key TEXT NOT NULL, hour BIGINT NOT NULL, devices BIGINT NOT NULL,
            PRIMARY KEY (enrolment_key, hour)
        ) WITHOUT ROWID""",
    ),
    ("ALTER TABLE rounds ADD COLUMN contributions BIGINT NOT NULL DEFAULT 1",),
)

_AGGREGATOR: tuple[Migration, ...] = (
    (
        """CREATE TABLE rounds (
            round TEXT PRIMARY KEY, number BIGINT NOT NULL UNIQUE, state TEXT NOT NULL, configuration_hash BYTEA,
            release TEXT, malformed BIGINT NOT NULL, duplicates BIGINT NOT NULL
        ) WITHOUT ROWID""",
        """CREATE TABLE batches (
            number BIGINT NOT NULL, batch BIGINT NOT NULL, digest BYTEA NOT NULL, PRIMARY KEY (number, batch)
        ) WITHOUT ROWID""",
    ),
)

# queries.number: which date of its series a query is the release of, from 0; both are NULL for a query of its own.
# series.passed: how many dates have come; each has a query or a gap. series.settled: when what it did not draw was
# given back. query_bodies.id: that of a query or of a series, whose queries have no bodies of their own.
# rules.judged: the last date whose release was judged, from 0; alerts.number: the date whose release gave the alert.
# queries.query: the query in short where it is long, and then query_bodies has it whole. SQLite reads all pages of a
# row up to the column that is wanted, so what is long must not be in a row that lists read.
_COORDINATOR: tuple[Migration, ...] = (
    (
        """CREATE TABLE queries (
            id TEXT PRIMARY KEY, asked_by TEXT NOT NULL, name TEXT NOT NULL, verb TEXT NOT NULL, what TEXT NOT NULL,
            query TEXT NOT NULL, settings TEXT NOT NULL, prepared TEXT NOT NULL, state TEXT NOT NULL,
            created DOUBLE PRECISION NOT NULL, ended DOUBLE PRECISION, problem TEXT, UNIQUE (asked_by, name)
        ) WITHOUT ROWID""",
        """CREATE TABLE rounds (
            round TEXT PRIMARY KEY, query TEXT NOT NULL, position BIGINT NOT NULL, configuration BYTEA NOT NULL,
            state TEXT NOT NULL, deadline DOUBLE PRECISION NOT NULL, target BIGINT, asked BIGINT NOT NULL,
            contacted BIGINT NOT NULL, completed BIGINT NOT NULL, batches BIGINT, planned DOUBLE PRECISION NOT NULL,
            opened DOUBLE PRECISION, closed DOUBLE PRECISION, released DOUBLE PRECISION, release TEXT,
            UNIQUE (query, position)
        ) WITHOUT ROWID""",
        """CREATE TABLE tokens (
            id TEXT PRIMARY KEY, kind TEXT NOT NULL, token_hash BYTEA NOT NULL UNIQUE, name TEXT NOT NULL,
            created DOUBLE PRECISION NOT NULL, expires DOUBLE PRECISION, revoked DOUBLE PRECISION
        ) WITHOUT ROWID""",
    ),
    (
        "CREATE TABLE query_bodies (id TEXT PRIMARY KEY, query TEXT NOT NULL) WITHOUT ROWID",
        "CREATE INDEX queries_by_state ON queries (state)",
    ),
    (
        "ALTER TABLE queries ADD COLUMN series TEXT",
        "ALTER TABLE queries ADD COLUMN number BIGINT",
        "CREATE UNIQUE INDEX queries_by_series ON queries (series, number)",
        """CREATE TABLE series (
            id TEXT PRIMARY KEY, asked_by TEXT NOT NULL, name TEXT NOT NULL, verb TEXT NOT NULL, what TEXT NOT NULL,
            query TEXT NOT NULL, settings TEXT NOT NULL, prepared TEXT NOT NULL, schedule TEXT NOT NULL,
            state TEXT NOT NULL, passed BIGINT NOT NULL, created DOUBLE PRECISION NOT NULL, changed DOUBLE PRECISION,
            changed_by TEXT, ended DOUBLE PRECISION, settled DOUBLE PRECISION, UNIQUE (asked_by, name)
        ) WITHOUT ROWID""",
        """CREATE TABLE gaps (
            series TEXT NOT NULL, number BIGINT NOT NULL, state TEXT NOT NULL, PRIMARY KEY (series, number)
        ) WITHOUT ROWID""",
    ),
    (
        """CREATE TABLE rules (
            id TEXT PRIMARY KEY, series TEXT NOT NULL, rule TEXT NOT NULL, webhook TEXT, asked_by TEXT NOT NULL,
            created DOUBLE PRECISION NOT NULL, judged BIGINT NOT NULL, problem TEXT
        ) WITHOUT ROWID""",
        "CREATE INDEX rules_by_series ON rules (series)",
        """CREATE TABLE alerts (
            id TEXT PRIMARY KEY, series TEXT NOT NULL, rule TEXT NOT NULL, number BIGINT NOT NULL, words TEXT NOT NULL,
            found DOUBLE PRECISION NOT NULL, findings TEXT NOT NULL, more BIGINT NOT NULL, webhook TEXT, delivery TEXT,
            tries BIGINT NOT NULL, next_try DOUBLE PRECISION, UNIQUE (rule, number)
        ) WITHOUT ROWID""",
        "CREATE INDEX alerts_by_series ON alerts (series, number)",
        "CREATE INDEX alerts_by_delivery ON alerts (delivery, next_try)",
    ),
)

MIGRATIONS: dict[Role, tuple[Migration, ...]] = {
    "collector": _COLLECTOR,
    "aggregator": _AGGREGATOR,
    "coordinator": _COORDINATOR,
}

# One round at the collector: the coin of every device that checked in; the digest of every report that was taken; the
# pieces of the reports themselves, without a device, each in the order of a secret random number of its own.
_COLLECTED = {
    "contacts": "device TEXT PRIMARY KEY, chosen BOOLEAN NOT NULL",
    "reports": "device TEXT PRIMARY KEY, digest BYTEA NOT NULL",
    "sealed": "position BIGINT PRIMARY KEY, sealed BYTEA NOT NULL",
}
_AGGREGATED = {"blobs": "batch BIGINT PRIMARY KEY, reports BYTEA NOT NULL"}
_ROUND_TABLES = _COLLECTED | _AGGREGATED

COLLECTED = tuple(_COLLECTED)
AGGREGATED = tuple(_AGGREGATED)


def round_table(kind: str, number: int) -> str:
    """The name of a round's own table."""
    return f"{kind}_{number:d}"


def create_round_tables(transaction: Transaction, kinds: tuple[str, ...], number: int) -> None:
    """Make a round's own tables."""
    for kind in kinds:
        transaction.execute(f"CREATE TABLE {round_table(kind, number)} ({_ROUND_TABLES[kind]}) WITHOUT ROWID")


def drop_round_tables(transaction: Transaction, kinds: tuple[str, ...], number: int) -> None:
    """Remove a round's own tables; those that are gone already are no error."""
    for kind in kinds:
        transaction.execute(f"DROP TABLE IF EXISTS {round_table(kind, number)}")
