"""A store's tables have a version. Opening a store brings it to the newest one, step by step, in one transaction.

A store also has an id, made with its tables and kept by every copy and backup of them. By its id, a store that was
restored from a backup is known from another store, and from a new and empty one.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TypeAlias

from thresher.errors import InvalidFormat
from thresher.roles.database.database import Database, Role, Transaction

Migration: TypeAlias = tuple[str, ...]
"""Statements that lead from one version to the next."""


def migrate(database: Database, role: Role, migrations: Sequence[Migration]) -> int:
    """Run the migrations that this database has not had yet; how many that were.

    Guarantee: all of them or none; processes that start at the same time migrate once.
    Edge cases: `InvalidFormat` for a database of another role or of a newer Thresher; it is not changed.
    """
    with database.transaction() as transaction:
        transaction.lock(shared=False)
        transaction.execute(
            "CREATE TABLE IF NOT EXISTS schema_version (role TEXT PRIMARY KEY, version BIGINT NOT NULL) WITHOUT ROWID"
        )
        transaction.execute(
            "CREATE TABLE IF NOT EXISTS store_id (only_row BIGINT PRIMARY KEY, id TEXT NOT NULL) WITHOUT ROWID"
        )
        version = _version(transaction, role)
        if version > len(migrations):
            raise InvalidFormat(
                f"The {role}'s database has version {version}; this Thresher knows versions up to {len(migrations)}.",
                hint="Upgrade Thresher.",
            )
        for statements in migrations[version:]:
            for statement in statements:
                transaction.execute(statement)
        transaction.execute(
            "INSERT INTO schema_version (role, version) VALUES (?, ?) "
            "ON CONFLICT (role) DO UPDATE SET version = excluded.version",
            (role, len(migrations)),
        )
        transaction.execute(
            "INSERT INTO store_id (only_row, id) VALUES (1, ?) ON CONFLICT (only_row) DO NOTHING",
            (secrets.token_hex(16),),
        )
    return len(migrations) - version


def _version(transaction: Transaction, role: Role) -> int:
    versions: dict[str, int] = dict(transaction.fetch("SELECT role, version FROM schema_version"))
    if versions.keys() - {role}:
        raise InvalidFormat(f"This is not a {role}'s database, but that of another role.")
    return versions.get(role, 0)
